"""How far long work has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of long work, for a line on stderr or the start-up screen."""

    text: str
    """What is being done now, in the present tense: `building the MySQL image`."""
    done: float | None = None
    """0..1 when it is known."""


ProgressCallback = Callable[[Progress], None]

"""What one watches: a live session, a recording that is played.

What one can do with it stands beside it: a console where something can be turned, a player where time
can. A view has no methods for what it cannot do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from replexplorer.core.tick import Tick


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of long work, for a line on stderr or the start-up screen."""

    text: str
    """What is being done now, in the present tense: `building the MySQL image`."""
    done: float | None = None
    """0..1 when it can be told."""


ProgressCallback = Callable[[Progress], None]


class View(Protocol):
    """A stack, or what was recorded of one, as a picture that moves."""

    async def start(self, progress: ProgressCallback) -> None:
        """Make it ready to be watched; raise ReplexplorerError."""
        ...

    def ticks(self) -> AsyncIterator[Tick]:
        """The picture, twice a second, until `close`; a slow reader skips, it never queues."""
        ...

    async def close(self, *, keep: bool = False) -> str:
        """End it; answers in one line what is left behind, empty where nothing is.

        `keep` leaves the stack whatever is configured: a dropped terminal never removes one.
        """
        ...

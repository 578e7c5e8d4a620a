"""The rows of a stack's nodes that were saved, and who stops servers for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replexplorer.core.knobs.names import Value


@dataclass(frozen=True, slots=True)
class SavedData:
    """The rows of all nodes as a preset has saved them, with all that was requested."""

    copy: str
    """Where they are (`ports.Snapshots`)."""
    bytes: int
    saved_s: float
    """In seconds since 1970."""
    source: str
    nodes: tuple[str, ...]
    knobs: Mapping[str, Value]
    """As the document has them."""


@dataclass(frozen=True, slots=True)
class DataChange:
    """Servers that somebody stops and starts again, to save their rows or to set them back."""

    title: str
    """`preset apply monday`."""
    by: str
    began_s: float
    """In seconds since 1970."""
    sets_back: bool
    ended_s: float | None = None
    """None: it is under way, or was interrupted."""

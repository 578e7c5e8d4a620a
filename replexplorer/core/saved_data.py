"""The rows of a stack's nodes that were saved, and who stops servers for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replexplorer.core.knobs.names import Value


@dataclass(frozen=True, slots=True)
class SavedData:
    """The rows of all nodes at one moment, with all that was requested."""

    copy: str
    """Where they are (`ports.Snapshots`)."""
    bytes: int
    saved_s: float
    """In seconds since 1970."""
    nodes: tuple[str, ...]
    knobs: Mapping[str, Value]
    """As the document has them."""


@dataclass(frozen=True, slots=True)
class DataChange:
    """Servers that are stopped to save their rows or to set them back, and started again."""

    preset: str
    began_s: float
    """In seconds since 1970."""
    ended_s: float | None = None
    """None: it is under way, or was interrupted."""
    sets_back: bool = False

    def __str__(self) -> str:
        """`preset apply monday`."""
        return f"preset {'apply' if self.sets_back else 'save'} {self.preset}"

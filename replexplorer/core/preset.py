"""Presets: named sets of knobs, with or without the rows of all nodes, and who stops servers for these."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Literal

from replexplorer.core.knobs.names import Value
from replexplorer.core.records import frozen


@frozen
class Preset:
    """A named set of knobs; one with an error cannot be applied."""

    name: str
    title: str
    origin: Literal["shipped", "user"]
    file: Path
    knobs: Mapping[str, Value]
    """Written key (`rtt`, `rtt@db3`) to a value in the knob's own unit."""
    whole: bool = False
    """It has all knobs: a state to return to, without any fault."""
    data: bool = False
    """The rows of all nodes were saved with it, by a stack."""
    data_bytes: int | None = None
    """Of its rows; None where this stack has none."""
    data_age_s: float | None = None
    error: str | None = None

    @property
    def holds(self) -> str:
        """`all knobs, 240 MB of rows 5 min old`."""
        knobs = f"{len(self.knobs)} knob{'' if len(self.knobs) == 1 else 's'}"
        words = "all knobs" if self.whole else knobs
        if self.data_bytes is not None:
            age_min = (self.data_age_s or 0) / 60
            return f"{words}, {self.data_bytes / 1e6:,.0f} MB of rows {age_min:,.0f} min old"
        return f"{words}, its rows are not in this stack" if self.data else words

    def assignments(self) -> tuple[str, ...]:
        """It as `KEY=VALUE` texts, in the file's order."""
        return tuple(f"{key}={typed_value(value)}" for key, value in self.knobs.items())


def typed_value(value: Value) -> str:
    """The value as a person would type it: no exponent."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) and isfinite(value) else str(value)


@frozen
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


@frozen
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

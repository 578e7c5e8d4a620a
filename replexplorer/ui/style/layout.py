"""The one place that decides what fits on this terminal."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Layout(StrEnum):
    """The arrangement of the dashboard; also the class that the screen wears, with a dash before."""

    WIDE = "wide"
    """Everything, with a strip of big digits for the back row."""
    NORMAL = "normal"
    """Everything."""
    COMPACT = "compact"
    """One chart (both when tall), a strip of values, a knob line and a drawer."""
    TINY = "tiny"
    """The state and what size is needed."""


WIDE_SIZE: Final = (150, 42)
NORMAL_SIZE: Final = (118, 33)
COMPACT_SIZE: Final = (80, 24)
TALL_ROWS: Final = 36
"""From this height on, a compact screen shows both charts."""


def layout_for(width: int, height: int) -> Layout:
    """The layout for a terminal of this size in cells."""
    for layout, (columns, rows) in (
        (Layout.WIDE, WIDE_SIZE),
        (Layout.NORMAL, NORMAL_SIZE),
        (Layout.COMPACT, COMPACT_SIZE),
    ):
        if width >= columns and height >= rows:
            return layout
    return Layout.TINY

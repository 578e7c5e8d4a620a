"""What a chart shows, as plain values: series, marks, fault windows, labels and the page of time.

Law: an unknown value is None and becomes a gap, never a zero; all times are seconds on the
session's clock, all of one chart's values one unit. Nothing here knows a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import isfinite

from replexplorer.core.records import frozen

Points = Sequence[tuple[float, float | None]]
"""(at_s, value), in time order; None is a gap."""


class Stroke(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    """Points joined, broken at gaps."""
    DOTS = "dots"
    """Of each column of cells the greatest point, on its own."""
    DASHES = "dashes"
    """A level, dashed below the lines, that runs on to its label."""
    BEADS = "beads"
    """A level, dotted above the lines."""
    LABEL = "label"
    """Not drawn: only its label stands where it ends."""

    @property
    def is_level(self) -> bool:
        """Holds from each point to the next one, and is left out of view where it is far from the rest."""
        return self in (Stroke.DASHES, Stroke.BEADS)


@frozen
class ChartSeries:
    """One series with the words at its end."""

    points: Points
    ink: str
    """Theme token of its color, e.g. `p50`."""
    labels: tuple[str, ...] = ()
    """What may be at its end, longest first (`543 ceiling`, `543`); the first that fits is taken."""
    stroke: Stroke = Stroke.LINE
    fill: str = ""
    """Theme token of the tint under the line, or between it and `base`; empty: none."""
    base: Points = ()
    """The lower edge of a band, at the same times."""
    strong: bool = False
    """The label is bold."""

    @property
    def values(self) -> list[float]:
        """Those that can be drawn."""
        return [value for _, value in self.points if value is not None and isfinite(value)]


@frozen
class ChartMark:
    """A numbered change: a dashed vertical line with its digit."""

    at_s: float
    number: int


class WindowKind(StrEnum):
    """What a window is of; each has colors and a glyph of its own, and a word."""

    PARTITION = "partition"
    """A cause: where a state's window lies over it, it keeps the upper rows."""
    BLOCKED = "blocked"
    DEGRADED = "degraded"
    DOWN = "down"
    RESTART = "restart"
    FAULT = "fault"
    """Injected on purpose: a cause as well."""
    DROPPED = "dropped"
    """Arrivals that an open loop gave up: a cause."""

    @property
    def is_cause(self) -> bool:
        """Others may lie over it."""
        return self in (WindowKind.PARTITION, WindowKind.FAULT, WindowKind.DROPPED)


@frozen
class FaultWindow:
    """A span of time under a fault, tinted, with its word inside or next to it."""

    start_s: float
    end_s: float | None
    """None while it lasts."""
    word: str
    kind: WindowKind
    short: str = ""
    """What stands inside where the word is too long for it; empty: nothing does."""


@frozen
class Page:
    """The stretch of time that all charts show, with what happened in it."""

    start_s: float
    end_s: float
    origin_s: float = 0.0
    """When elapsed time began: tick labels count from here."""
    marks: tuple[ChartMark, ...] = ()
    windows: tuple[FaultWindow, ...] = ()


@frozen
class ChartModel:
    """Everything one chart draws; equal models are the same picture."""

    title: str
    page: Page
    series: tuple[ChartSeries, ...] = ()
    """In drawing order: where two meet in a cell, the later one colors it."""
    subtitles: tuple[str, ...] = ("",)
    """Unit and scale after the title, longest first; the last where the note needs the room."""
    notes: tuple[str, ...] = ()
    """Text at the right of the title's rule, e.g. the ceiling's formula, longest first."""
    note_ink: str = "muted"
    """Theme token of the note."""
    log: bool = False
    """Values on a logarithmic axis."""
    reach: tuple[float, float] | None = None
    """A range that the axis has at least."""
    has_words: bool = True
    """Windows that are over have their word here; else it is in the chart above."""
    empty: str = "waiting for the first sample"
    """Shown while no series has a value."""

    @property
    def newest_s(self) -> float:
        """When the newest point of any series was taken; the left edge when there is none."""
        return max((one.points[-1][0] for one in self.series if one.points), default=self.page.start_s)

"""What a chart shows, as plain values: series, marks, fault windows, labels and the page of time.

Law: an unknown value is None and becomes a gap, never a zero; all times are seconds on the
session's clock, all of one chart's values one unit. Nothing here knows a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from replexplorer.core.stats.density import Slice

Points = Sequence[tuple[float, float | None]]
"""(at_s, value), in time order; None is a gap."""


class Stroke(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    """Points joined, broken at gaps."""
    DOTS = "dots"
    """Each point on its own."""
    DASHES = "dashes"
    """A level, dashed under everything else, that runs on to its label."""
    BEADS = "beads"
    """A second level of this kind, dotted; where both meet it is seen between the dashes."""
    LABEL = "label"
    """Not drawn: only its label stands where it ends."""

    @property
    def is_level(self) -> bool:
        """Holds from each point to the next one, and is left out of view where it is far from the rest."""
        return self in (Stroke.DASHES, Stroke.BEADS)

    @property
    def is_drawn(self) -> bool:
        """Becomes dots."""
        return self in (Stroke.LINE, Stroke.DOTS)


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One series with the words that stand beside its end."""

    points: Points
    ink: str
    """Theme token of its colour, e.g. `p50`."""
    labels: tuple[str, ...] = ()
    """What may stand beside its end, longest first (`543 ceiling`, `543`); the first that fits is taken."""
    stroke: Stroke = Stroke.LINE
    fill: str = ""
    """Theme token of the tint under the line; empty: none."""
    strong: bool = False
    """The label is bold."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A numbered change: a dashed vertical line with its digit."""

    at_s: float
    number: int


class WindowKind(StrEnum):
    """What a window is of; each has colours and a glyph of its own, and a word beside."""

    PARTITION = "partition"
    """A cause: where a state's window lies over it, it keeps the upper rows."""
    BLOCKED = "blocked"
    DEGRADED = "degraded"
    DOWN = "down"
    RESTART = "restart"
    FAULT = "fault"
    """Injected on purpose: a cause as well."""
    DROPPED = "dropped"
    """Arrivals that an open loop gave up."""


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """A span of time under a fault, tinted, with its word inside or beside."""

    start_s: float
    end_s: float | None
    """None while it lasts."""
    word: str
    kind: WindowKind
    short: str = ""
    """What stands inside where the word is too long for it; empty: nothing does."""


@dataclass(frozen=True, slots=True)
class ChartModel:
    """Everything one chart draws; equal models are the same picture."""

    title: str
    start_s: float
    """Left edge of the page."""
    end_s: float
    """Right edge of the page."""
    subtitle: str = ""
    """Unit and scale, after the title."""
    short_subtitle: str = ""
    """The same where the note needs the room."""
    note: str = ""
    """Text at the right of the title's rule, e.g. the ceiling's formula."""
    shorter_notes: tuple[str, ...] = ()
    """What stands there when that does not fit, longest first."""
    note_ink: str = "muted"
    """Theme token of the note."""
    origin_s: float = 0.0
    """When elapsed time began: tick labels count from here."""
    series: tuple[ChartSeries, ...] = ()
    """In drawing order: where two meet in a cell, the later one colours it."""
    marks: tuple[ChartMark, ...] = ()
    windows: tuple[FaultWindow, ...] = ()
    log: bool = False
    """Values on a logarithmic axis."""
    reach: tuple[float, float] | None = None
    """A range that the axis has at least."""
    density: tuple[Slice, ...] = ()
    """Commits by time and latency in ms, drawn as shades."""
    empty: str = "waiting for the first sample"
    """Shown while no series has a value."""

    @property
    def newest_s(self) -> float:
        """When the newest point of any series was taken; the left edge when there is none."""
        return max((one.points[-1][0] for one in self.series if one.points), default=self.start_s)

    @property
    def length_s(self) -> float:
        """Length of the page."""
        return self.end_s - self.start_s

"""What a chart shows, as plain values: series, marks, fault windows, labels and the page of time.

Law: an unknown value is None and becomes a gap, never a zero; all times are seconds on the
session's clock, all of one chart's values one unit. Nothing here knows a terminal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from replexplorer.core.history.points import Point
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.stats.density import Slice
from replexplorer.ui.charts.limits import finite, least_that_lasts
from replexplorer.ui.words import figures

Points = Sequence[tuple[float, float | None]]
"""(at_s, value), in time order; None is a gap."""

PAGE_LENGTHS_S: Final[tuple[float, ...]] = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Lengths of the page, what `+` and `-` walk through."""
DEFAULT_PAGE_S: Final = 120.0
"""Length of the page at start."""
_MOST_POINTS: Final = 600
_MOST_STRETCHES: Final = 200
_AUTO_LOG_RATIO: Final = 30.0


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


def zoomed(length_s: float, steps: int) -> float:
    """The page length `steps` further along `PAGE_LENGTHS_S` (negative: shorter), held at both ends."""
    nearest = min(range(len(PAGE_LENGTHS_S)), key=lambda at: abs(PAGE_LENGTHS_S[at] - length_s))
    return PAGE_LENGTHS_S[max(0, min(len(PAGE_LENGTHS_S) - 1, nearest + steps))]


def tps_model(
    tps: Points,
    ceiling: Points,
    predicted: Points = (),
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
    notes: Sequence[str] = (),
    note_ink: str = "ceiling",
    qps: float | None = None,
    window: str = "",
    log: bool | None = None,
) -> ChartModel:
    """The TPS chart: the line with its tint, the dashed ceiling and the dotted prediction, all labelled.

    `notes`: what the title says, longest first; `window`: which stretch the newest figures are of.
    `log=None` picks the logarithmic axis when the values of the page that last span more than a
    factor of 30.
    """
    shown = in_page(tps, page)
    chosen = _spans_decades(shown, page) if log is None else log
    unit = "commits/s, log" if chosen else "commits/s"
    queries = "" if qps is None else f"{figures.rate(qps)} QPS"
    of = f"now {window}" if window else ""
    last = _last(shown) if shown else None
    now = _with_words(figures.rate(last), ("now",)) if last is not None else ()
    return ChartModel(
        title="TPS",
        subtitle=" · ".join(filter(None, (unit, queries, of))),
        short_subtitle=queries or unit,
        note=notes[0] if notes else "",
        shorter_notes=tuple(notes[1:]),
        note_ink=note_ink,
        start_s=page[0],
        end_s=page[1],
        origin_s=origin_s,
        series=(
            _level(in_page(predicted, page), "title", Stroke.BEADS, ("predicted", "pred")),
            _level(in_page(ceiling, page), "ceiling", Stroke.DASHES, ("ceiling", "ceil")),
            ChartSeries(shown, "tps", now, fill="tpsfill", strong=True),
        ),
        marks=tuple(marks),
        windows=tuple(windows),
        log=chosen,
    )


def _level(points: Points, ink: str, stroke: Stroke, words: Sequence[str]) -> ChartSeries:
    """A bound or a prediction with its figure beside its end."""
    last = _last(points)
    labels = _with_words(figures.rate(last), words) if last is not None else ()
    return ChartSeries(points, ink, labels, stroke)


def latency_model(
    p50: Points,
    p95: Points,
    p99: Points,
    maximum: Points,
    slowest: Points = (),
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
    mode: str = CLOSED,
    notes: Sequence[str] = (),
    note_ink: str = "muted",
) -> ChartModel:
    """The latency chart in milliseconds: three percentile lines, and a dot for the slowest commit of each
    tick; the label of `maximum` is of the same window as the lines'.

    Ended windows are tinted without their word: it stands in the TPS chart above.
    """

    def one(points: Points, ink: str, stroke: Stroke = Stroke.LINE) -> ChartSeries:
        shown = in_page(points, page)
        last = _last(shown)
        labels = (f"{ink} {figures.millis(last)}",) if last is not None else ()
        return ChartSeries(shown, ink, labels, stroke, strong=ink == "p50")

    told = (*notes, "p50 · p95 · p99 lines, max dots")
    return ChartModel(
        title="Latency",
        subtitle="ms per commit, log" if mode == CLOSED else "ms from when each was due, log",
        short_subtitle="ms" if mode == CLOSED else "ms from due",
        note=told[0],
        shorter_notes=told[1:],
        note_ink=note_ink,
        start_s=page[0],
        end_s=page[1],
        origin_s=origin_s,
        series=(
            ChartSeries(in_page(slowest or maximum, page), "max", stroke=Stroke.DOTS),
            one(maximum, "max", Stroke.LABEL),
            one(p99, "p99"),
            one(p95, "p95"),
            one(p50, "p50"),
        ),
        marks=tuple(marks),
        windows=tuple(span if span.end_s is None else replace(span, word="", short="") for span in windows),
        log=True,
    )


def density_model(lines: ChartModel, density: Sequence[Slice]) -> ChartModel:
    """The latency chart as shades: every commit where its time and latency put it.

    The percentiles keep their labels; what the page has no slices of stays blank.
    """
    return replace(
        lines,
        subtitle=f"density, {lines.subtitle}",
        short_subtitle=f"density, {lines.short_subtitle}",
        shorter_notes=lines.shorter_notes[:-1],
        note=lines.note if lines.shorter_notes else "",
        series=tuple(replace(one, stroke=Stroke.LABEL) for one in lines.series),
        density=tuple(density),
    )


def chart_models(
    points: Sequence[Point],
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
    log: bool | None = None,
    mode: str = CLOSED,
    tps_notes: Sequence[str] = (),
    tps_note_ink: str = "ceiling",
    latency_notes: Sequence[str] = (),
    latency_note_ink: str = "muted",
    qps: float | None = None,
    window: str = "",
) -> tuple[ChartModel, ChartModel]:
    """TPS and latency of a page of the session's history, with the same marks and windows on both."""
    marks, windows = tuple(marks), tuple(windows)
    tps = tps_model(
        [(point.at_s, point.tps) for point in points],
        [(point.at_s, point.ceiling_tps) for point in points],
        [(point.at_s, point.predicted_tps) for point in points],
        page=page,
        origin_s=origin_s,
        marks=marks,
        windows=windows,
        notes=tps_notes,
        note_ink=tps_note_ink,
        qps=qps,
        window=window,
        log=log,
    )
    latency = latency_model(
        [(point.at_s, point.p50_ms) for point in points],
        [(point.at_s, point.p95_ms) for point in points],
        [(point.at_s, point.p99_ms) for point in points],
        [(point.at_s, point.max_ms) for point in points],
        [(point.at_s, point.slowest_ms) for point in points],
        page=page,
        origin_s=origin_s,
        marks=marks,
        windows=windows,
        mode=mode,
        notes=latency_notes,
        note_ink=latency_note_ink,
    )
    return tps, latency


def in_page(points: Points, page: tuple[float, float]) -> tuple[tuple[float, float | None], ...]:
    """The points inside the page, a long page's condensed."""
    low = bisect_left(points, page[0], key=_moment)
    high = bisect_right(points, page[1], key=_moment)
    return condensed(points[low:high])


def condensed(points: Points) -> tuple[tuple[float, float | None], ...]:
    """Many points as few with the same outline.

    Of each stretch stay the first, the least, the greatest, the last and the first gap. Stretches
    double in length as points grow in number, so that the picture seldom shifts.
    """
    if len(points) <= _MOST_POINTS:
        return tuple(points)
    length = 8
    while len(points) > length * _MOST_STRETCHES:
        length *= 2
    kept: list[tuple[float, float | None]] = []
    for start in range(0, len(points), length):
        stretch = points[start : start + length]
        values = [value for _, value in stretch]
        known = [value for value in values if value is not None]
        places = {0, len(values) - 1}
        if known:
            places |= {values.index(min(known)), values.index(max(known))}
        if len(known) < len(values):
            places.add(values.index(None))
        kept += [stretch[at] for at in sorted(places)]
    return tuple(kept)


def _moment(point: tuple[float, float | None]) -> float:
    """When a point was taken."""
    return point[0]


def _with_words(figure: str, words: Sequence[str]) -> tuple[str, ...]:
    """A figure with each word, and alone."""
    return (*(f"{figure} {word}" for word in words), figure)


def _last(points: Points) -> float | None:
    """The newest value, None when the newest point is a gap."""
    return points[-1][1] if points else None


def _spans_decades(points: Points, page: tuple[float, float]) -> bool:
    """Whether a linear axis would flatten the small values that last."""
    least = least_that_lasts(points, page[1] - page[0])
    return least is not None and max(finite(points)) / least > _AUTO_LOG_RATIO

"""What the charts show of one page of the history: throughput, latency and exposure as chart models."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from replexplorer.core.history.points import Point
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.stats.density import Slice
from replexplorer.ui.charts.chart_model import (
    ChartMark,
    ChartModel,
    ChartSeries,
    FaultWindow,
    Points,
    Stroke,
)
from replexplorer.ui.words import figures
from replexplorer.ui.words.exposure import DANGERS, Danger, loss_of, loss_text

PAGE_LENGTHS_S: Final[tuple[float, ...]] = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Lengths of the page, what `+` and `-` walk through."""


DEFAULT_PAGE_S: Final = 120.0
"""Length of the page at start."""


_MOST_POINTS: Final = 600


_MOST_STRETCHES: Final = 200


_WHOLE_COMMITS: Final = (1.0, 100.0)
"""What the exposure's axis has at least: there is no half of a commit."""


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
    log: bool = False,
) -> ChartModel:
    """The TPS chart: the line with its tint, the dashed ceiling and the dotted prediction, all labelled.

    `notes`: what the title says, longest first; `window`: which stretch the newest figures are of, in words.
    """
    shown = in_page(tps, page)
    unit = "commits/s, log" if log else "commits/s"
    queries = "" if qps is None else f"{figures.rate(qps)} QPS"
    last = _last(shown) if shown else None
    now = _with_words(figures.rate(last), ("now",)) if last is not None else ()
    return ChartModel(
        title="TPS",
        subtitle=" · ".join(filter(None, (unit, queries, window))),
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
        log=log,
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
        windows=tuple(map(_without_word, windows)),
        log=True,
    )


def server_latency_model(
    mean: Points,
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
) -> ChartModel:
    """The latency chart where only the server's counters are known: its mean time for the commit, which no
    client's clock and no percentile is in.

    Ended windows are tinted without their word: it stands in the TPS chart above.
    """
    shown = in_page(mean, page)
    last = _last(shown)
    labels = (f"mean {figures.millis(last)}",) if last is not None else ()
    return ChartModel(
        title="Commit",
        subtitle="ms, mean by the server's counters, log",
        short_subtitle="ms by the server",
        note="no client's clock, no percentiles",
        shorter_notes=("no percentiles",),
        note_ink="muted",
        start_s=page[0],
        end_s=page[1],
        origin_s=origin_s,
        series=(ChartSeries(shown, "p50", labels, strong=True),),
        marks=tuple(marks),
        windows=tuple(map(_without_word, windows)),
        log=True,
        empty="the server has timed no commit",
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


def exposure_model(
    points: Sequence[Point],
    exposure: Exposure | None,
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
) -> ChartModel:
    """The exposure chart: commits that each kind of failure would lose at each moment, 0 in its lowest
    row; where the least alone is known that, and what is not known is a gap. `exposure`: of now.

    Ended windows are tinted without their word: it stands in the TPS chart above.
    """

    def one(danger: Danger) -> ChartSeries:
        shown = in_page([(point.at_s, getattr(point, danger.field)) for point in points], page)
        figure = figures.UNKNOWN if exposure is None else loss_text(loss_of(exposure, danger))
        return ChartSeries(shown, danger.ink, _with_words(figure, (danger.word, danger.short, danger.tag)))

    return ChartModel(
        title="Exposure",
        subtitle="commits that a failure would lose, log",
        short_subtitle="commits at risk, log",
        start_s=page[0],
        end_s=page[1],
        origin_s=origin_s,
        series=tuple(map(one, DANGERS)),
        marks=tuple(marks),
        windows=tuple(map(_without_word, windows)),
        log=True,
        reach=_WHOLE_COMMITS,
        empty="not known yet",
    )


def _without_word(window: FaultWindow) -> FaultWindow:
    """A window that lasts keeps its word."""
    return window if window.end_s is None else replace(window, word="", short="")


def chart_models(
    points: Sequence[Point],
    *,
    page: tuple[float, float],
    origin_s: float = 0.0,
    marks: Iterable[ChartMark] = (),
    windows: Iterable[FaultWindow] = (),
    log: bool = False,
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

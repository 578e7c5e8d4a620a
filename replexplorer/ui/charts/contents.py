"""Throughput, latency and exposure of one page of the history as chart models, with what their titles say of
bound, prediction and load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.history.series import ENOUGH, Point, Recent
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.load.pacing import CLOSED, HIDES
from replexplorer.core.load.processes import processes_that_help
from replexplorer.core.model.ceiling import Ceiling, beaten_words
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.stats.histogram import Slice
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Page, Points, Stroke
from replexplorer.ui.words import figures
from replexplorer.ui.words.figures import rate, round_trip
from replexplorer.ui.words.states import DANGERS, loss_of, loss_text

PAGE_LENGTHS_S: Final[tuple[float, ...]] = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Lengths of the page, what `+` and `-` walk through."""
DEFAULT_PAGE_S: Final = 120.0
"""Length of the page at start."""
_MOST_POINTS: Final = 600
_MOST_STRETCHES: Final = 200
_WHOLE_COMMITS: Final = (1.0, 100.0)
"""What the exposure's axis has at least: there is no half of a commit."""
_SEVERAL: Final = 1.5
"""From this many statements a transaction on, QPS stands beside TPS."""


def zoomed(length_s: float, steps: int) -> float:
    """The page length `steps` further along `PAGE_LENGTHS_S` (negative: shorter), held at both ends."""
    nearest = min(range(len(PAGE_LENGTHS_S)), key=lambda at: abs(PAGE_LENGTHS_S[at] - length_s))
    return PAGE_LENGTHS_S[max(0, min(len(PAGE_LENGTHS_S) - 1, nearest + steps))]


def tps_chart(
    page: Page,
    points: Sequence[Point],
    tick: Tick | None = None,
    recent: Recent | None = None,
    *,
    log: bool = False,
) -> ChartModel:
    """The TPS chart: the line with its tint, the dashed ceiling and the dotted prediction, all labeled."""
    recent = recent or Recent()
    unit = "commits/s, log" if log else "commits/s"
    many = recent.qps is not None and bool(recent.tps) and recent.qps >= _SEVERAL * (recent.tps or 0)
    queries = f"{rate(recent.qps)} QPS" if many else ""
    notes, ink = tps_notes(tick) if tick else ((), "ceiling")
    return ChartModel(
        "TPS",
        page,
        (
            _series(points, "ceiling_tps", "ceiling", "ceiling", "ceil", stroke=Stroke.DASHES),
            _series(points, "tps", "tps", "now", fill="tpsfill", strong=True),
            _series(points, "predicted_tps", "title", "predicted", "pred", stroke=Stroke.BEADS),
        ),
        subtitles=(
            " · ".join(filter(None, (unit, queries, window_words(recent, titled=True)))),
            queries or unit,
        ),
        notes=notes,
        note_ink=ink,
        log=log,
    )


def latency_chart(
    page: Page,
    points: Sequence[Point],
    load: LoadView | None = None,
    recent: Recent | None = None,
    density: Sequence[Slice] | None = None,
) -> ChartModel:
    """The latency chart in milliseconds: three percentile lines, a dot for each tick's slowest commit.

    With a `density` shades in place of the lines: every commit where its time and latency put it. Where the
    server's counters are all that is known its mean time for the commit, which no percentile is in.
    """
    if load is not None and load.is_by_server:
        return ChartModel(
            "Commit",
            page,
            (_in_ms(points, "mean", "p50"),),
            subtitles=("ms, mean by the server's counters, log", "ms by the server"),
            notes=("no client's clock, no percentiles", "no percentiles"),
            log=True,
            has_words=False,
            empty="the server has timed no commit",
        )
    subtitles = ("ms per commit, log", "ms")
    if load is not None and load.mode != CLOSED:
        subtitles = ("ms from when each was due, log", "ms from due")
    slowest: list[ChartSeries] = []
    stroke, key = Stroke.LABEL, tuple[str, ...]()
    if density is None:
        dots = "slowest_ms" if any(point.slowest_ms is not None for point in points) else "max_ms"
        slowest = [ChartSeries(_column(points, dots), "max", stroke=Stroke.DOTS)]
        stroke, key = Stroke.LINE, ("p50 · p95 · p99 lines, max dots",)
    else:
        subtitles = (f"density, {subtitles[0]}", f"density, {subtitles[1]}")
    lines = [
        _in_ms(points, ink, ink, Stroke.LABEL if ink == "max" else stroke)
        for ink in ("max", "p99", "p95", "p50")
    ]
    notes, note_ink = latency_notes(load, recent or Recent())
    return ChartModel(
        "Latency",
        page,
        (*slowest, *lines),
        subtitles=subtitles,
        notes=(*notes, *key),
        note_ink=note_ink,
        log=True,
        density=tuple(density or ()),
        has_words=False,
    )


def exposure_chart(page: Page, points: Sequence[Point], exposure: Exposure | None) -> ChartModel:
    """The exposure chart: commits that each kind of failure would lose at each moment, 0 in its lowest row;
    where the least alone is known that, and what is not known is a gap. `exposure`: of now."""
    series = []
    for danger in DANGERS:
        figure = figures.UNKNOWN if exposure is None else loss_text(loss_of(exposure, danger))
        words = (f"{figure} {danger.word}", f"{figure} {danger.short}", figure)
        series.append(ChartSeries(_column(points, danger.field), danger.ink, words))
    return ChartModel(
        "Exposure",
        page,
        tuple(series),
        subtitles=("commits that a failure would lose, log", "commits at risk, log"),
        log=True,
        reach=_WHOLE_COMMITS,
        has_words=False,
        empty="not known yet",
    )


def _series(
    points: Sequence[Point],
    field: str,
    ink: str,
    *words: str,
    stroke: Stroke = Stroke.LINE,
    fill: str = "",
    strong: bool = False,
) -> ChartSeries:
    """A rate with its newest figure and its word beside its end."""
    shown = _column(points, field)
    last = shown[-1][1] if shown else None
    labels = (*(f"{rate(last)} {word}" for word in words), rate(last)) if last is not None else ()
    return ChartSeries(shown, ink, labels, stroke, fill, strong)


def _in_ms(points: Sequence[Point], name: str, ink: str, stroke: Stroke = Stroke.LINE) -> ChartSeries:
    """A latency with its newest figure beside its end."""
    shown = _column(points, f"{name}_ms")
    last = shown[-1][1] if shown else None
    labels = () if last is None else (f"{name} {figures.millis(last)}",)
    return ChartSeries(shown, ink, labels, stroke, strong=ink == "p50")


def _column(points: Sequence[Point], field: str) -> Points:
    return condensed([(point.at_s, getattr(point, field)) for point in points])


def condensed(points: Points) -> Points:
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
        known = sorted((value, at) for at, (_, value) in enumerate(stretch) if value is not None)
        gaps = [at for at, (_, value) in enumerate(stretch) if value is None]
        places = {0, len(stretch) - 1, *gaps[:1], *(at for _, at in (*known[:1], *known[-1:]))}
        kept += [stretch[at] for at in sorted(places)]
    return tuple(kept)


Notes = tuple[tuple[str, ...], str]
"""What may stand at the right end of a title, longest first, and its theme token."""


def tps_notes(tick: Tick) -> Notes:
    """Why the figure is the load's own and not the server's, that it beats the ceiling, else prediction and
    ceiling."""
    if tick.load is not None and tick.load.state == SERVER:
        return ("by the server's counters, all clients", "by the server's counters"), "muted"
    if tick.load is not None and tick.load.limited:
        limited = f"▲ the load is the limit: {tick.load.limited}"
        more = processes_that_help(tick.load.limited, tick.load.processes, tick.load.clients)
        remedy = () if more is None else (f"{limited}; set workload.processes = {more}",)
        return (*remedy, limited, f"▲ {tick.load.limited}"), "warn"
    ceiling, predicted = tick.ceiling, tick.predicted
    if ceiling is not None and ceiling.beaten_tps is not None:
        pair = f"{rate(ceiling.beaten_tps)} > {rate(ceiling.tps)}/s"
        return (f"▲ {beaten_words(ceiling)}", f"▲ beats the ceiling: {pair}", f"▲ {pair}"), "warn"
    bound = "" if ceiling is None else formula(ceiling)
    if predicted is None:
        return (bound,), "ceiling"
    found = [f"predicted {rate(predicted.tps)}/s", f"pred {rate(predicted.tps)}"]
    return (*(f"{word} · {bound}" for word in found if bound), *found), "ceiling"


def formula(ceiling: Ceiling) -> str:
    """The bound with its numbers: `ceiling 48 ÷ (85.4 + 3.0 ms) = 543/s`."""
    rtt, local = round_trip(ceiling.rtt_ms), round_trip(ceiling.local_ms)
    if not ceiling.local_ms:
        return f"ceiling {ceiling.clients} ÷ {rtt} ms = {rate(ceiling.tps)}/s"
    return f"ceiling {ceiling.clients} ÷ ({rtt} + {local} ms) = {rate(ceiling.tps)}/s"


def latency_notes(load: LoadView | None, recent: Recent) -> Notes:
    """Backlog and what is dropped, while there is any; what the load's mode hides."""
    if load is None or load.state not in ("running", "viewer") or not load.clients:
        return (), "muted"
    slow = f"{load.clients} slow commit{'' if load.clients == 1 else 's'}"
    closed = (f"a stall shows as {slow}", f"a stall is {slow}")
    hidden = (HIDES[load.mode], *(closed if load.mode == CLOSED else ("open: watch the backlog",)))
    dropped = recent.per_second("dropped")
    found = [f"backlog {figures.count(load.backlog)}"] * bool(load.backlog)
    found += [f"dropped {rate(dropped)}/s"] * bool(dropped)
    if not found:
        return hidden, "muted"
    text = " · ".join(found)
    return (*(f"{text} · {words}" for words in hidden), text, found[-1]), "warn"


def window_words(recent: Recent, *, titled: bool = False) -> str:
    """Which stretch the load's figures are of: `in 0.5 s`, in a title `now: the last 0.5 s`; with the number
    of commits where these are too few for a percentile: `n 11 in 10 s`. Empty while no figure has a
    stretch."""
    if recent.length_s <= 0:
        return ""
    known = [name for name in ENOUGH if recent.latency_ms(name) is not None]
    enough = recent.is_mixed or all(recent.is_firm(name) for name in known)
    few = "" if enough else f"n {figures.count(recent.n)} "
    span = figures.span(recent.length_s)
    if not titled:
        return f"{few}in {span}"
    return f"now: {f'{few}in ' if few else ''}the last {span}"

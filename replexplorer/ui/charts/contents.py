"""Throughput, latency and exposure of one page of the history as chart models, with what their titles say of
bound, prediction and load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from replexplorer.core.history.series import Point, Recent
from replexplorer.core.load.interval import SERVER, LoadView, processes_that_help
from replexplorer.core.load.pacing import CLOSED, HIDES
from replexplorer.core.model.ceiling import Ceiling, beaten_words
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Page, Stroke
from replexplorer.ui.words import figures
from replexplorer.ui.words.figures import millis, rate, round_trip
from replexplorer.ui.words.states import DANGERS, lag_text, loss_of, loss_text, window_words

PAGE_LENGTHS_S: Final = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Lengths of the page, what `+` and `-` walk through."""
DEFAULT_PAGE_S: Final = 120.0
"""Length of the page at start."""
_WHOLE_COMMITS: Final = (1.0, 100.0)
"""What the exposure's axis has at least: there is no half of a commit."""
_WHOLE_MS: Final = (1.0, 1000.0)
"""What the lag's axis has at least."""
_REPLICA_INKS: Final = ("p50", "p95", "p99", "tps", "mark", "max")
"""Theme tokens of replicas, in the order of their names."""
_SEVERAL: Final = 1.5
"""From this many statements a transaction on, QPS is next to TPS."""


class _Drawn(NamedTuple):
    """How one figure of the points is drawn."""

    field: str
    """Of `Point`."""
    ink: str
    labels: tuple[str, ...] = ()
    """What is at its end, longest first; `{}` is its newest figure."""
    stroke: Stroke = Stroke.LINE
    fill: str = ""
    strong: bool = False
    base: str = ""
    """The field that is the lower edge of a band."""


_TPS: Final = (
    _Drawn("ceiling_tps", "ceiling", ("{} ceiling", "{} ceil", "{}"), Stroke.DASHES),
    _Drawn("tps", "tps", ("{} now", "{}"), fill="tpsfill", strong=True),
    _Drawn("predicted_tps", "title", ("{} predicted", "{} pred", "{}"), Stroke.BEADS),
)
_LATENCY: Final = (
    _Drawn("slowest_ms", "max", stroke=Stroke.DOTS),
    _Drawn("max_ms", "max", ("max {}",), Stroke.LABEL),
    _Drawn("p99_ms", "p99", ("p99 {}",), Stroke.LABEL, "tpsfill", base="p50_ms"),
    _Drawn("p95_ms", "p95", ("p95 {}",), Stroke.LABEL),
    _Drawn("p50_ms", "p50", ("p50 {}",), strong=True),
)
_SERVER_MEAN: Final = (_Drawn("mean_ms", "p50", ("mean {}",), strong=True),)


def _series(
    points: Sequence[Point], drawn: Sequence[_Drawn], figure: Callable[[float | None], str]
) -> tuple[ChartSeries, ...]:
    """Figures of the points as series; one whose newest figure is not known has no label."""
    made = []
    for each in drawn:
        values, base = (
            tuple((point.at_s, getattr(point, name)) for point in points if name)
            for name in (each.field, each.base)
        )
        last = values[-1][1] if values else None
        labels = () if last is None else tuple(label.format(figure(last)) for label in each.labels)
        made.append(ChartSeries(values, each.ink, labels, each.stroke, each.fill, base, each.strong))
    return tuple(made)


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
    full = " · ".join(filter(None, (unit, queries, window_words(recent, titled=True))))
    notes, ink = tps_notes(tick) if tick else ((), "ceiling")
    return ChartModel("TPS", page, _series(points, _TPS, rate), (full, queries or unit), notes, ink, log)


def latency_chart(
    page: Page, points: Sequence[Point], load: LoadView | None = None, recent: Recent | None = None
) -> ChartModel:
    """The latency chart in milliseconds: a line for p50, a band from it to p99, dots of the slowest
    commits; where the server's counters are all that is known its mean time for the commit, which no
    percentile is in."""
    if load is not None and load.is_by_server:
        return ChartModel(
            "Commit",
            page,
            _series(points, _SERVER_MEAN, millis),
            ("ms, mean by the server's counters, log", "ms by the server"),
            ("no client's clock, no percentiles", "no percentiles"),
            log=True,
            has_words=False,
            empty="the server has timed no commit",
        )
    is_open = load is not None and load.mode != CLOSED
    subtitles: tuple[str, ...] = ("ms per commit, log", "ms, log", "ms")
    if is_open:
        subtitles = ("ms from when each was due, log", "ms from due, log", "ms from due")
    notes, ink = latency_notes(load, recent or Recent())
    notes = (*notes, "p50 line, band to p99, max dots")
    series = _series(points, _LATENCY, millis)
    return ChartModel("Latency", page, series, subtitles, notes, ink, log=True, has_words=False)


def exposure_chart(page: Page, points: Sequence[Point], exposure: Exposure | None) -> ChartModel:
    """The exposure chart: commits that each kind of failure would lose at each moment, 0 in its lowest row;
    where the least alone is known that, and what is not known is a gap. `exposure`: of now."""
    series = []
    for danger in DANGERS:
        figure = figures.UNKNOWN if exposure is None else loss_text(loss_of(exposure, danger))
        values = tuple((point.at_s, getattr(point, danger.field)) for point in points)
        labels = (f"{figure} {danger.word}", f"{figure} {danger.short}", figure)
        series.append(ChartSeries(values, danger.ink, labels))
    return ChartModel(
        "Exposure",
        page,
        tuple(series),
        ("commits that a failure would lose, log", "commits at risk, log"),
        log=True,
        reach=_WHOLE_COMMITS,
        has_words=False,
        empty="not known yet",
    )


def lag_chart(page: Page, points: Sequence[Point], tick: Tick | None) -> ChartModel:
    """The lag chart in milliseconds, 0 in its lowest row: a line for each replica; whoever is the source now
    has had one while it was not."""
    names = sorted({name for point in points for name in point.lags_s})
    now = points[-1].lags_s if points else {}
    series = []
    for at, name in enumerate(names):
        values = tuple((point.at_s, _ms(point.lags_s.get(name))) for point in points)
        lag_ms = _ms(now.get(name))
        labels = () if lag_ms is None else (f"{lag_text(lag_ms)} {name}", lag_text(lag_ms))
        series.append(ChartSeries(values, _REPLICA_INKS[at % len(_REPLICA_INKS)], labels, strong=not at))
    appliers = [] if tick is None else [tick.applier(name) for name in names]
    paces = [(each.name, each.pace) for each in appliers if each is not None and each.pace]
    notes = [f"{name} {pace}" for name, pace in paces]
    briefly = [f"{name} {pace.rpartition(', ')[2]}" for name, pace in paces]
    return ChartModel(
        "Lag",
        page,
        tuple(series),
        ("ms, age of the oldest commit not applied, log", "ms, log", "ms"),
        (" · ".join(notes), " · ".join(briefly), *briefly[:1]) if paces else (),
        log=True,
        reach=_WHOLE_MS,
        has_words=False,
        empty="no replica says how far it is behind",
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


Notes = tuple[tuple[str, ...], str]
"""What may stand at the right end of a title, longest first, and its theme token."""


def tps_notes(tick: Tick) -> Notes:
    """Why the figure is the load's own and not the server's, that it beats the ceiling, else prediction and
    ceiling."""
    load, ceiling, predicted = tick.load, tick.ceiling, tick.predicted
    if load is not None and load.state == SERVER:
        return ("by the server's counters, all clients", "by the server's counters"), "muted"
    if load is not None and load.limited:
        limited = f"▲ the load is the limit: {load.limited}"
        more = processes_that_help(load.limited, load.processes, load.clients)
        remedy = "" if more is None else f"; set workload.processes = {more}"
        return (f"{limited}{remedy}", limited, f"▲ {load.limited}"), "warn"
    if ceiling is not None and ceiling.beaten_tps is not None:
        pair = f"{rate(ceiling.beaten_tps)} > {rate(ceiling.tps)}/s"
        return (f"▲ {beaten_words(ceiling)}", f"▲ beats the ceiling: {pair}", f"▲ {pair}"), "warn"
    bound = "" if ceiling is None else formula(ceiling)
    expected = "" if predicted is None else f"predicted {rate(predicted.tps)}/s"
    return (" · ".join(filter(None, (expected, bound))), expected or bound), "ceiling"


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

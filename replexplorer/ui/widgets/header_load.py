"""What the header says of the load: throughput, latency, errors, how it is driven."""

from __future__ import annotations

from typing import Final

from replexplorer.core.history.recent import Recent
from replexplorer.core.load.load_view import SERVER, LoadView
from replexplorer.ui.charts.notes import qps_of, window_words
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, Segment, apart

_MS_CELLS: Final = 4
_WINDOW_CELLS: Final = len("in 0.5 s")


def latency(recent: Recent) -> Segment:
    """Percentiles in milliseconds with their window; faint where too few commits stand behind one."""
    if recent.is_by_server:
        mean: Run = (f"{figures.millis(recent.mean_ms):>{_MS_CELLS}}", "p50 b")
        return ([("commit mean ", "muted"), mean, (" ms", "muted")], [("commit ", "muted"), mean], [])
    (p50, i50), (p95, i95), (p99, i99) = (
        (
            f"{figures.millis(recent.latency_ms(name)):>{_MS_CELLS}}",
            f"{name} b" if recent.is_firm(name) else "faint",
        )
        for name in ("p50", "p95", "p99")
    )
    last: Line = [("p99 ", "muted"), (p99, i99)]
    spelled: Line = [("p50 ", "muted"), (p50, i50), ("  p95 ", "muted"), (p95, i95), ("  ", "muted"), *last]
    gap: Run = (" ", "muted")
    unit: Run = (" ms", "muted")
    short: Line = [("p50/95/99 ", "muted"), (p50, i50), gap, (p95, i95), gap, (p99, i99), unit]
    window: Run = (f" {window_words(recent):<{_WINDOW_CELLS}}", "muted")
    return ([*spelled, unit, window], [*short, window], short, last, [])


def throughput(recent: Recent) -> Segment:
    """TPS, and QPS where a transaction has several statements."""
    short: Line = [("TPS ", "muted"), (f"{figures.rate(recent.tps):>5}", "tps b")]
    qps = qps_of(recent)
    if qps is None:
        return (short,)
    return ([*short, ("  QPS ", "muted"), (f"{figures.rate(qps):>5}", "text b")], short)


_ERRORS: Final = (
    ("errors", "err/s", "err/s", "bad b"),
    ("unknown", "unknown/s", "unkn/s", "bad b"),
    ("reconnects", "reconn/s", "reconn/s", "bad b"),
    ("deadlocks", "deadlocks/s", "deadl/s", "warn b"),
    ("lock_timeouts", "lock timeouts/s", "lock t/s", "warn b"),
    ("conflicts", "conflicts/s", "confl/s", "warn b"),
)
"""What is counted, its words and shorter ones, its ink."""


def errors(recent: Recent) -> Segment:
    """Errors, unknown outcomes, reconnects, deadlocks and lock timeouts per second, when there are any."""
    told = [
        (_some(recent.per_second(name)), long, short, ink)
        for name, long, short, ink in _ERRORS
        if recent.per_second(name)
    ]
    if not told:
        return ([],)
    total = sum(recent.per_second(name) for name, *_ in _ERRORS)
    _, first, _, ink = told[0]
    return (
        apart([[(f"{rate} {long}", ink)] for rate, long, _, ink in told]),
        apart([[(f"{rate} {short}", ink)] for rate, _, short, ink in told]),
        [(f"{_some(total)} {first if len(told) == 1 else 'err+/s'}", ink)],
    )


def _some(per_s: float) -> str:
    """A small rate: `0.1`, `2`, `9.4`, `1240`."""
    return f"{per_s:.2g}" if per_s < 99.5 else figures.rate(per_s)


def load(load: LoadView | None, recent: Recent, visitor: LoadView | None = None) -> Segment:
    """`closed ×48`, `open 500/s ×48`, or why the load is not running; beside it, and still there when
    that is gone, what an open loop drops and that the load is its own limit."""
    if load is None:
        return ([],)
    if load.state == SERVER and visitor is not None:
        return _beside_servers(visitor)
    if load.state == SERVER:
        return ([("server's counters", "text")], [("by server", "text")])
    runs = load.state in ("running", "viewer")
    token = "text" if runs else "warn b"
    part = "" if load.prepared is None else f" {load.prepared:.0%}"
    short = "" if runs else f"load {load.state}{part}"
    asked = "" if load.rate_asked_tps is None else f" {load.rate_asked_tps:g}/s"
    full = f"{load.mode}{asked} ×{load.clients}" if runs else short
    waiting: Line = [(f" backlog {figures.count(load.backlog)}", "warn")] if load.backlog else []
    drops_per_s = recent.per_second("dropped")
    dropped = f"dropped {figures.rate(drops_per_s)}/s" if drops_per_s else ""
    limit = "" if not load.limited else "clients busy" if "busy" in load.limited else "generator"
    spelled, brief = _signs(dropped, limit), _signs(dropped and "dropped", limit.rpartition(" ")[2])
    state: Line = [(short, token)] if short else []
    return (
        [(full, token), *waiting, *spelled],
        [(full, token), *spelled],
        [*state, *spelled],
        [*state, *brief],
    )


def _beside_servers(visitor: LoadView) -> Segment:
    """`server's counters  our load 49.8/50 TPS p99 8.3 ms`: TPS and mean before it are of all clients."""
    by: Line = [("server's counters  ", "text")]
    asked = "" if visitor.rate_asked_tps is None else f"/{visitor.rate_asked_tps:g}"
    if visitor.tps is None or visitor.state != "running":
        state: Line = [(f"our load {visitor.state}", "warn b")]
        return ([*by, *state], state)
    p99: Line = [(f" p99 {figures.millis(visitor.latency_ms('p99'))} ms", "p99")]
    failed = visitor.errors + visitor.unknown
    bad: Line = [(f" ▲ {failed} err", "bad b")] if failed else []
    rate: Line = [("our load ", "muted"), (f"{figures.rate(visitor.tps)}{asked}", "text b")]
    return ([*by, *rate, (" TPS", "muted"), *p99, *bad], [*rate, *p99, *bad], [*rate, *bad])


def _signs(dropped: str, limit: str) -> list[Run]:
    """Drops in red, the limit in amber."""
    signs = ((dropped, "bad b"), (limit, "warn b"))
    return [(f" ▲ {word}", ink) for word, ink in signs if word]

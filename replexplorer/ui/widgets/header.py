"""The first row: state, acknowledgements, link, disk, throughput, latency, load, time."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.points import Point
from replexplorer.core.tick import DiskView, LinkView, LoadView, ProtectionState, Tick, partition_words
from replexplorer.ui import figures
from replexplorer.ui.effects import contradiction_of, fsync_too_short, rtt_is_apart
from replexplorer.ui.notes import per_second, qps_of
from replexplorer.ui.widgets.lines import Line, Lines, Run, width_of
from replexplorer.ui.words import STATES

Segment = tuple[Line, ...]
"""A part of the header in all its variants, longest first; an empty last one means it can go."""

SHRINK: Final = (
    "fsync", "help", "title", "load", "ack", "latency", "title", "separator", "fsync", "latency", "load",
    "ack", "errors", "tps", "chips", "rtt", "link", "latency", "load", "errors", "elapsed", "title", "rtt",
)  # fmt: skip
"""Which segment takes its next shorter variant, in this order, until the row fits."""


class Header(Lines):
    """The status header; each segment has variants and `SHRINK` says which gives way first."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""
    point: Point | None = None
    """The newest point of the charts: its percentiles are merged back until they hold."""
    elapsed_s: reactive[float] = reactive(0.0)
    """Seconds since the first tick."""
    frozen: reactive[bool] = reactive(False)
    """The charts are held."""

    _situation: tuple[object, ...] = ()
    _steps = 0
    """How far the row is shrunk: kept in one situation, so that a digit more or less moves nothing."""

    def watch_tick(self) -> None:
        """Draw the new figures."""
        self.repaint()

    def watch_frozen(self) -> None:
        """Show or hide the chip."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        if self.tick is None:
            return []
        segments = self._segments(self.tick)
        situation = (
            width,
            *(bool(segments[name][0]) for name in ("link", "chips", "errors", "load", "rtt", "fsync")),
            *(len(segments[name]) for name in ("fsync", "tps")),
            len(segments["load"][0]),
        )
        if situation != self._situation:
            self._situation, self._steps = situation, 0
        while width_of(row := _joined(segments, self._chosen(segments), width)) > width and self._steps < len(
            SHRINK
        ):
            self._steps += 1
        return [row]

    def _chosen(self, segments: dict[str, Segment]) -> dict[str, int]:
        """The variant of each segment after the steps taken so far."""
        taken = SHRINK[: self._steps]
        return {name: min(taken.count(name), len(held) - 1) for name, held in segments.items()}

    def _segments(self, tick: Tick) -> dict[str, Segment]:
        firm = self.point.tps if self.point is not None else None
        tps = figures.rate(firm if firm is not None or tick.load is None else tick.load.tps)
        return {
            "title": (
                [("replexplorer", "title b"), (f" {tick.stack}", "muted")],
                [("replexplorer", "title b")],
                [("rx", "title b")],
                [],
            ),
            "state": (self._state(tick),),
            "link": _link(tick),
            "chips": _chips(tick, frozen=self.frozen),
            "ack": _acks(tick),
            "rtt": _rtt(tick.rtt),
            "fsync": _fsync(tick.source_disk),
            "tps": _throughput(tps, tick.load),
            "latency": _latency(tick.load, self.point),
            "errors": _errors(tick.load),
            "load": _load(tick.load),
            "elapsed": ([(figures.elapsed(self.elapsed_s), "text")], []),
            "help": ([("?", "key b"), (" help", "key")], [("?", "key b")]),
            "separator": ([(" │ ", "rule")], [("  ", "rule")]),
        }

    def _state(self, tick: Tick) -> Line:
        symbol, word, token, _ = STATES[tick.protection.state]
        if tick.state == "starting":
            symbol, word, token = "○", "STARTING", "async"
        text = f"[ {symbol} {word} ]" if self.app.no_color else f"  {symbol} {word}  "
        return [(text, f"onstate on {token} b")]


def _joined(segments: dict[str, Segment], chosen: dict[str, int], width: int) -> list[Run]:
    """The row with the chosen variants; time and help stand at the right edge."""
    separator = segments["separator"][chosen["separator"]]

    def join(names: tuple[str, ...]) -> list[Run]:
        row: list[Run] = []
        for name in names:
            if part := segments[name][chosen[name]]:
                row += [*(separator if row else ()), *part]
        return row

    left = [
        (" ", "text"),
        *join(("title", "state", "link", "chips", "ack", "rtt", "fsync", "tps", "latency", "errors", "load")),
    ]
    right = [*join(("elapsed", "help")), (" ", "text")]
    gap = width - width_of(left) - width_of(right)
    between = [*separator, (" " * max(0, gap - width_of(separator)), "text")]
    return [*left, *between, *right]


def _link(tick: Tick) -> Segment:
    """The partition in force, beside the state and never instead of it; healed, until events flow."""
    runs: list[Run] = []
    short: list[Run] = []
    if words := partition_words(tick.links):
        runs.append((f" PARTITION {', '.join(words)} ", "onstate on partitioned b"))
        first, *more = words
        short.append((f" PARTITION {first}{f' +{len(more)}' if more else ''} ", "onstate on partitioned b"))
    if any(link.healing for link in tick.links):
        runs += [*([(" ", "text")] if runs else []), ("healed, TCP retries", "warn b")]
        short += [*([(" ", "text")] if short else []), ("healed", "warn b")]
    return (runs, short)


def _chips(tick: Tick, *, frozen: bool) -> Segment:
    """What must not be overlooked: a held picture, a foreign driver, a link or disk that cannot."""
    chips: list[Run] = []
    short: list[Run] = []
    if frozen:
        chips += [(" FROZEN ", "onstate on armed b"), (" ", "text")]
        short += [(" FROZEN ", "onstate on armed b"), (" ", "text")]
    if tick.viewer:
        driver = tick.load.driver if tick.load and tick.load.driver else "another app"
        chips += [(f" VIEWER: {driver} drives the load ", "onstate on async b"), (" ", "text")]
        short += [(" VIEWER ", "onstate on async b"), (" ", "text")]
    for spelled, brief in _replica_faults(tick):
        chips += [(spelled, "bad b"), (" ", "text")]
        short += [(brief, "bad b"), (" ", "text")]
    if faulty := next((link for link in tick.links if link.fault), None):
        # The pair of the RTT has the figures already.
        told = faulty is tick.rtt and faulty.fault == contradiction_of(faulty)
        chips += [("link ▲" if told else f"link: {faulty.fault}", "warn b"), (" ", "text")]
        short += [("link ▲", "warn b"), (" ", "text")]
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        chips += [(f"disk: {fault}", "warn b"), (" ", "text")]
        short += [("disk ▲", "warn b"), (" ", "text")]
    return (chips[:-1], short[:-1])


def _replica_faults(tick: Tick) -> list[tuple[str, str]]:
    """Replicas that are down or whose threads failed, in words and shorter."""
    found = []
    for node in tick.nodes:
        if node.role != "replica" or tick.state == "starting":
            continue
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        if not node.reachable:
            found.append((f"✖ {node.name} down", f"✖ {node.name}"))
        elif broken := [word for word, state in threads if state == "error"]:
            found.append((f"✖ {node.name}: {' and '.join(broken)} error", f"✖ {node.name} {broken[0]}"))
    return found


def _acks(tick: Tick) -> Segment:
    """`1/1 ack`: replicas that acknowledge, of those that are required."""
    protection = tick.protection
    if protection.replicas_required is None:
        return ([],)
    acking = figures.UNKNOWN if protection.replicas_acking is None else str(protection.replicas_acking)
    enough = (protection.replicas_acking or 0) >= protection.replicas_required
    ink = "muted" if protection.state is ProtectionState.OFF else "good b" if enough else "warn b"
    short: Line = [(f"{acking}/{protection.replicas_required} ack", ink)]
    return ([("semi-sync ", "muted"), *short], short, [(f"{acking}/{protection.replicas_required}", ink)])


def _rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([],)
    asked = f"{link.rtt_asked_ms:g}"
    measured = "none" if link.rtt_measured_ms is None else figures.round_trip(link.rtt_measured_ms)
    pair: Line = [(f"{asked} → ", "text b"), (measured, "warn b" if rtt_is_apart(link) else "text b")]
    word: Run = ("RTT ", "muted")
    return ([word, *pair], [word, pair[-1]], [])


def _fsync(disk: DiskView | None) -> Segment:
    """`fsync +2 → 2.2`: the delay asked and what an fsync takes; amber when it takes less.

    The measured figure alone, where nothing is asked, is the first to go.
    """
    if disk is None or (disk.measured_ms is None and not disk.delay_asked_ms):
        return ([],)
    word: Run = ("fsync ", "muted")
    measured = figures.millis(disk.measured_ms)
    if not disk.delay_asked_ms:
        return ([word, (measured, "text b")], [])
    pair: Line = [
        word,
        (f"+{disk.delay_asked_ms:g} → ", "text b"),
        (measured, "warn b" if fsync_too_short(disk) else "text b"),
    ]
    return (pair, pair, [])


def _latency(load: LoadView | None, point: Point | None) -> Segment:
    """Percentiles in milliseconds; faint where too few commits stand behind one."""
    parts: list[Run] = []
    for name in ("p50", "p95", "p99"):
        firm = getattr(point, f"{name}_ms", None)
        loose = load.latency_ms(name) if load is not None else None
        parts.append(
            (figures.millis(loose if firm is None else firm), f"{name} b" if firm is not None else "faint")
        )
    (p50, i50), (p95, i95), (p99, i99) = parts
    last: Line = [("p99 ", "muted"), (f"{p99:>3}", i99)]
    spelled: Line = [
        ("p50 ", "muted"),
        (f"{p50:>2}", i50),
        ("  p95 ", "muted"),
        (f"{p95:>2}", i95),
        ("  ", "muted"),
    ]
    dot: Run = ("·", "muted")
    return (
        [*spelled, *last, (" ms", "muted")],
        [("p50·95·99 ", "muted"), (p50, i50), dot, (p95, i95), dot, (p99, i99)],
        last,
        [],
    )


def _throughput(tps: str, load: LoadView | None) -> Segment:
    """TPS, and QPS where a transaction has several statements."""
    short: Line = [("TPS ", "muted"), (f"{tps:>5}", "tps b")]
    qps = qps_of(load)
    return (short,) if qps is None else ([*short, ("  QPS ", "muted"), (figures.rate(qps), "text b")], short)


def _errors(load: LoadView | None) -> Segment:
    """Errors, unknown outcomes, reconnects, deadlocks and lock timeouts per second, when there are any."""
    if load is None:
        return ([],)
    counted = (
        (load.errors, "err/s", "err/s", "bad b"),
        (load.unknown, "unknown/s", "unkn/s", "bad b"),
        (load.reconnects, "reconn/s", "reconn/s", "bad b"),
        (load.deadlocks, "deadlocks/s", "deadl/s", "warn b"),
        (load.lock_timeouts, "lock timeouts/s", "lock t/s", "warn b"),
    )
    told = [(f"{per_second(n, load):.2g}", full, short, ink) for n, full, short, ink in counted if n]
    if not told:
        return ([],)
    total = sum(per_second(n, load) for n, *_ in counted)
    ink = told[0][3]
    return (
        [run for figure, full, _, ink in told for run in ((f"{figure} {full}", ink), (" ", "text"))][:-1],
        [run for figure, _, short, ink in told for run in ((f"{figure} {short}", ink), (" ", "text"))][:-1],
        [(f"{total:.2g} {told[0][2]}" if len(told) == 1 else f"{total:.2g} err+/s", ink)],
    )


def _load(load: LoadView | None) -> Segment:
    """`closed ×48`, `open 500/s ×48`, or why the load is not running; beside it, and still there when
    that is gone, what an open loop drops and that the load is its own limit."""
    if load is None:
        return ([],)
    runs = load.state in ("running", "viewer")
    token = "text" if runs else "warn b"
    part = "" if load.prepared is None else f" {load.prepared:.0%}"
    short = "" if runs else f"load {load.state}{part}"
    asked = "" if load.rate_asked_tps is None else f" {load.rate_asked_tps:g}/s"
    full = f"{load.mode}{asked} ×{load.clients}" if runs else short
    waiting: Line = [(f" backlog {figures.count(load.backlog)}", "warn")] if load.backlog else []
    dropped = f"dropped {figures.rate(per_second(load.dropped, load))}/s" if load.dropped else ""
    limit = "" if not load.limited else "clients busy" if "busy" in load.limited else "generator"
    spelled, brief = _signs(dropped, limit), _signs(dropped and "dropped", limit.rpartition(" ")[2])
    state: Line = [(short, token)] if short else []
    return (
        [(full, token), *waiting, *spelled],
        [(full, token), *spelled],
        [*state, *spelled],
        [*state, *brief],
    )


def _signs(dropped: str, limit: str) -> list[Run]:
    """Drops in red, the limit in amber."""
    signs = ((dropped, "bad b"), (limit, "warn b"))
    return [(f" ▲ {word}", ink) for word, ink in signs if word]

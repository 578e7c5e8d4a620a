"""The first row: state, acknowledgements, link, disk, throughput, latency, load, time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.history.recent import Recent
from replexplorer.core.link_view import LinkView, partition_words
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.durability import lax_knobs
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.notes import qps_of, window_words
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.effects import contradiction_of, fsync_too_short, rtt_is_apart
from replexplorer.ui.words.runs import Line, Run, width_of
from replexplorer.ui.words.states import STATES

Segment = tuple[Line, ...]
"""A part of the header in all its variants, longest first; an empty last one means it can go."""

_SILENT: Final = (ProtectionState.BLOCKED, ProtectionState.DEGRADED)
"""No acknowledgement comes."""
SHRINK: Final = (
    "fsync", "help", "title", "load", "ack", "latency", "title", "separator", "fsync", "load", "latency",
    "load", "ack", "latency", "errors", "tps", "chips", "wait", "rtt", "held", "link", "latency", "errors",
    "wait", "elapsed", "title", "rtt", "ack",
)  # fmt: skip
"""Which segment takes its next shorter variant, in this order, until the row fits."""

_MS_CELLS: Final = 4
_RTT_CELLS: Final = 5
_WINDOW_CELLS: Final = len("in 0.5 s")


class Header(Lines):
    """The status header; each segment has variants and `SHRINK` says which gives way first. A figure has
    as many cells however many digits it has, so that nothing behind it moves."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""
    recent: Recent = Recent()
    """The load's figures of now, all of one window."""
    live: reactive[tuple[Tick, Recent] | None] = reactive(None)
    """What is so while the picture is frozen; None while it is not."""
    sweep: reactive[str] = reactive("")
    """The sweep that turns the knobs behind the dashboard, and its run: `sweep 3 of 12`."""
    elapsed_s: reactive[float] = reactive(0.0)
    """Seconds since the first tick."""

    _situation: tuple[object, ...] = ()
    _steps = 0
    """How far the row is shrunk: kept in one situation, so that a digit more or less moves nothing."""

    def watch_tick(self) -> None:
        """Draw the new figures."""
        self.repaint()

    def watch_live(self) -> None:
        """Show, change or hide the chip."""
        self.repaint()

    def watch_sweep(self) -> None:
        """Show, change or hide the chip."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        if self.tick is None:
            return []
        segments = self._segments(self.tick)
        situation = (
            width,
            *(
                bool(segments[name][0])
                for name in ("wait", "held", "link", "chips", "errors", "load", "rtt", "fsync")
            ),
            *(len(segments[name]) for name in ("fsync", "tps")),
            len(segments["load"][0]),
            *(width_of(segments[name][0]) for name in ("latency", "chips")),
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
        recent = self.recent
        return {
            "title": (
                [("replexplorer", "title b"), (f" {tick.stack}", "muted")],
                [("replexplorer", "title b")],
                [("rx", "title b")],
                [],
            ),
            "state": (self._state(tick),),
            "wait": _wait(tick.protection),
            "held": self._held(),
            "link": _link(tick),
            "chips": self._chips(tick),
            "ack": _acks(tick),
            "rtt": _rtt(tick.rtt),
            "fsync": _fsync(tick.source_disk),
            "tps": _throughput(recent),
            "latency": _latency(recent),
            "errors": _errors(recent),
            "load": _load(tick.load, recent),
            "elapsed": ([(figures.elapsed(self.elapsed_s), "text")], []),
            "help": ([("?", "key b"), (" help", "key")], [("?", "key b")]),
            "separator": ([(" │ ", "rule")], [("  ", "rule")]),
        }

    def _chips(self, tick: Tick) -> Segment:
        """What must not be overlooked."""
        spelled: list[Line] = []
        brief: list[Line] = []
        if self.sweep:
            spelled.append([(f" {self.sweep} ", "onstate on async b")])
            brief.append(spelled[-1])
        if lax_knobs(tick.knobs):
            spelled.append([(" ▲ NOT DURABLE ", "onstate on async b")])
            brief.append(spelled[-1])
        for long, short in _faults(tick):
            spelled.append([long])
            brief.append([short])
        return (_apart(spelled), _apart(brief))

    def _held(self) -> Segment:
        """That the picture is held, with what is so meanwhile."""
        if self.live is None:
            return ([],)
        chip: Run = (" FROZEN ", "onstate on armed b")
        state, tps = _live(*self.live)
        return (
            [chip, (" live ", "muted"), state, tps, (" TPS", "muted")],
            [chip, (" ", "text"), state, tps],
        )

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
        *join(
            (
                "title",
                "state",
                "wait",
                "held",
                "link",
                "chips",
                "ack",
                "rtt",
                "fsync",
                "tps",
                "latency",
                "errors",
                "load",
            )
        ),
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


def _live(tick: Tick, recent: Recent) -> Line:
    """`● PROTECTED   528`: what is so behind a held picture, as wide whatever it is."""
    symbol, word, token, _ = STATES[tick.protection.state]
    longest = max(len(each.word) for each in STATES.values())
    return [
        (f"{symbol} {word:<{longest}}", f"{token} b"),
        (f" {figures.rate(recent.tps):>5}", "tps b"),
    ]


def _apart(chips: Sequence[Line]) -> Line:
    """Chips with a blank between them."""
    row: list[Run] = []
    for chip in chips:
        row += [*([(" ", "text")] if row else ()), *chip]
    return row


def _faults(tick: Tick) -> list[tuple[Run, Run]]:
    """A foreign driver, a replica that is down or fails, a link or disk that cannot: in words and
    shorter."""
    found: list[tuple[Run, Run]] = []
    if tick.viewer:
        driver = tick.load.driver if tick.load and tick.load.driver else "another app"
        chip = "onstate on async b"
        found.append(((f" VIEWER: {driver} drives the load ", chip), (" VIEWER ", chip)))
    found += [((spelled, "bad b"), (brief, "bad b")) for spelled, brief in _replica_faults(tick)]
    if faulty := next((link for link in tick.links if link.fault), None):
        # The pair of the RTT has the figures already.
        told = faulty is tick.rtt and faulty.fault == contradiction_of(faulty)
        found.append((("link ▲" if told else f"link: {faulty.fault}", "warn b"), ("link ▲", "warn b")))
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        found.append(((f"disk: {fault}", "warn b"), ("disk ▲", "warn b")))
    return found


def _replica_faults(tick: Tick) -> list[tuple[str, str]]:
    """Replicas that are down or whose threads failed, in words and shorter."""
    found = []
    for node in tick.nodes:
        if node.is_source or tick.state == "starting":
            continue
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        if not node.reachable:
            found.append((f"✖ {node.name} down", f"✖ {node.name}"))
        elif broken := [word for word, state in threads if state == "error"]:
            found.append((f"✖ {node.name}: {' and '.join(broken)} error", f"✖ {node.name} {broken[0]}"))
    return found


def _wait(protection: Protection) -> Segment:
    """`6 of 10 s, 32 commits wait`: how long the oldest commit has waited, of the time after which the
    source gives up; empty unless blocked."""
    if protection.state is not ProtectionState.BLOCKED or protection.oldest_wait_s is None:
        return ([],)
    timeout = "" if protection.timeout_ms is None else f" of {protection.timeout_ms / 1000:g}"
    clock: Run = (f"{int(protection.oldest_wait_s)}{timeout} s", "blocked b")
    if not protection.waiting:
        return ([clock],)
    count, plural = protection.waiting, "" if protection.waiting == 1 else "s"
    verb = "waits" if count == 1 else "wait"
    return (
        [clock, (f", {count} commit{plural} {verb}", "blocked b")],
        [clock, (f", {count} {verb}", "blocked b")],
        [clock],
    )


def _acks(tick: Tick) -> Segment:
    """`1/1 ack`: replicas that acknowledge, of those that are required; `1/1 registered` while none can
    or does, and what the source counts beyond them: connections that it has not missed yet."""
    protection = tick.protection
    required = protection.replicas_required
    if required is None:
        return ([],)
    acking, counted = protection.replicas_acking, protection.replicas_counted
    if acking is not None and tick.nodes:
        acking = min(acking, len(tick.replicas))
    stale = max(0, (counted or protection.replicas_acking or 0) - (acking or 0))
    is_silent = protection.no_ack_can_come or protection.state in _SILENT
    enough = (acking or 0) >= required and not is_silent
    ink = "muted" if protection.state is ProtectionState.OFF else "good b" if enough else "warn b"
    word, brief = ("registered", "reg") if is_silent else ("ack", "ack")
    more: Line = [(f" +{stale} stale", "warn b")] if stale else []
    pair = f"{figures.UNKNOWN if acking is None else acking}/{required}"
    return (
        [("semi-sync ", "muted"), (f"{pair} {word}", ink), *more],
        [(f"{pair} {brief}", ink), *more],
        [(pair, ink)],
        [],
    )


def _rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([],)
    asked = f"{link.rtt_asked_ms:g}"
    measured = "none" if link.rtt_measured_ms is None else figures.round_trip(link.rtt_measured_ms)
    figure: Line = [(measured, "warn b" if rtt_is_apart(link) else "text b"), _rest(measured, _RTT_CELLS)]
    word: Run = ("RTT ", "muted")
    return ([word, (f"{asked} → ", "text b"), *figure], [word, *figure], [])


def _rest(text: str, cells: int) -> Run:
    """Blanks behind a figure up to this many cells."""
    return (" " * max(0, cells - len(text)), "text")


def _fsync(disk: DiskView | None) -> Segment:
    """`fsync +2 → 2.2`: the delay asked and what an fsync takes; amber when it takes less.

    The measured figure alone, where nothing is asked, is the first to go.
    """
    if disk is None:
        return ([],)
    word: Run = ("fsync ", "muted")
    measured = figures.millis(disk.measured_ms)
    rest = _rest(measured, _MS_CELLS)
    if not disk.delay_asked_ms:
        return ([word, (measured, "text b"), rest], [])
    pair: Line = [
        word,
        (f"+{disk.delay_asked_ms:g} → ", "text b"),
        (measured, "warn b" if fsync_too_short(disk) else "text b"),
        rest,
    ]
    return (pair, pair, [])


def _latency(recent: Recent) -> Segment:
    """Percentiles in milliseconds with their window; faint where too few commits stand behind one."""
    (p50, i50), (p95, i95), (p99, i99) = (
        (
            f"{figures.millis(recent.latency_ms(name)):>{_MS_CELLS}}",
            f"{name} b" if recent.is_firm(name) else "faint",
        )
        for name in ("p50", "p95", "p99")
    )
    last: Line = [("p99 ", "muted"), (p99, i99)]
    spelled: Line = [("p50 ", "muted"), (p50, i50), ("  p95 ", "muted"), (p95, i95), ("  ", "muted"), *last]
    dot: Run = ("·", "muted")
    short: Line = [("p50·95·99 ", "muted"), (p50, i50), dot, (p95, i95), dot, (p99, i99)]
    window: Run = (f" {window_words(recent):<{_WINDOW_CELLS}}", "muted")
    return ([*spelled, (" ms", "muted"), window], [*short, window], short, last, [])


def _throughput(recent: Recent) -> Segment:
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
)
"""What is counted, its words and shorter ones, its ink."""


def _errors(recent: Recent) -> Segment:
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
        _apart([[(f"{rate} {long}", ink)] for rate, long, _, ink in told]),
        _apart([[(f"{rate} {short}", ink)] for rate, _, short, ink in told]),
        [(f"{_some(total)} {first if len(told) == 1 else 'err+/s'}", ink)],
    )


def _some(per_s: float) -> str:
    """A small rate: `0.1`, `2`, `9.4`, `1240`."""
    return f"{per_s:.2g}" if per_s < 99.5 else figures.rate(per_s)


def _load(load: LoadView | None, recent: Recent) -> Segment:
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


def _signs(dropped: str, limit: str) -> list[Run]:
    """Drops in red, the limit in amber."""
    signs = ((dropped, "bad b"), (limit, "warn b"))
    return [(f" ▲ {word}", ink) for word, ink in signs if word]

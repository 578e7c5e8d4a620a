"""The first row: state, what must not be overlooked, acknowledgements, round trip, load, latency, throughput.

Law: title and state stand at the left edge and the figures in columns of their own at the right one, which
the width alone decides. What must not be overlooked grows between them and covers whole figures; nothing
else ever moves.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from textual.reactive import reactive

from replexplorer.core.fault import PARTITION_FAULT, written
from replexplorer.core.history.series import Recent
from replexplorer.core.link import LinkView, partition_words
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.server.comeback import lax_knobs
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.system import system_of
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.contents import window_words
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, Segment, apart, cut, width_of
from replexplorer.ui.words.states import STATES, contradiction_of, fsync_too_short, rtt_is_apart

_SILENT: Final = (ProtectionState.BLOCKED, ProtectionState.DEGRADED)
"""No acknowledgement comes."""


def _link(tick: Tick) -> Segment:
    """The partition in force, beside the state and never instead of it; healed, until events flow."""
    runs: list[Run] = []
    short: list[Run] = []
    least: list[Run] = []
    if words := partition_words((*tick.links, *tick.pairs)):
        runs.append((f" PARTITION {', '.join(words)} ", "onstate on partitioned b"))
        first, *more = words
        first += f" +{len(more)}" if more else ""
        short.append((f" PARTITION {first} ", "onstate on partitioned b"))
        least.append((f" cut {first} ", "onstate on partitioned b"))
    if any(link.healing for link in tick.links):
        runs += [*([(" ", "text")] if runs else []), ("healed, TCP retries", "warn b")]
        short += [*([(" ", "text")] if short else []), ("healed", "warn b")]
        least = least or [("healed", "warn b")]
    return (runs, short, least)


def _injected(tick: Tick) -> list[Run]:
    """The faults in force, ` kill@db1 `; a partition is the link's own chip."""
    nodes: dict[str, list[str]] = {}
    for fault in tick.faults:
        if fault.kind != PARTITION_FAULT:
            nodes.setdefault(written(fault.kind, fault.value), []).append(fault.node)
    return [(f" {what}@{','.join(where)} ", "onstate on partitioned b") for what, where in nodes.items()]


def _troubles(tick: Tick) -> list[tuple[Run, Run]]:
    """A foreign driver, a replica that is down or fails, a link or disk that cannot: in words and
    shorter."""
    found: list[tuple[Run, Run]] = []
    if tick.viewer:
        driver = tick.load.driver if tick.load and tick.load.driver else "another app"
        chip = "onstate on async b"
        found.append(((f" VIEWER: {driver} drives the load ", chip), (" VIEWER ", chip)))
    found += [((spelled, "bad b"), (brief, "bad b")) for spelled, brief in _replica_faults(tick)]
    if faulty := next((link for link in (*tick.links, *tick.pairs) if link.fault), None):
        # The pair of the RTT has the figures already.
        told = faulty is tick.rtt and faulty.fault == contradiction_of(faulty)
        found.append((("link ▲" if told else f"link: {faulty.fault}", "warn b"), ("link ▲", "warn b")))
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        found.append(((f"disk: {fault}", "warn b"), ("disk ▲", "warn b")))
    return found


def _replica_faults(tick: Tick) -> list[tuple[str, str]]:
    """Replicas that are down or whose threads failed, in words and shorter."""
    found = []
    taken_down = {fault.node for fault in tick.faults if fault.takes_down}
    for node in tick.nodes:
        if node.is_source or tick.state == "starting":
            continue
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        if not node.reachable and node.name in taken_down:
            continue
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
    """`1/1 ack`: replicas that acknowledge, of those that are required, and what the source counts beyond
    them: connections that it has not missed yet; `1/1 registered`, in short `no acks`, while none can or
    does."""
    protection = tick.protection
    required = protection.replicas_required
    if required is None:
        return ([], [])
    if system_of(tick.system).is_group:
        return _members(tick)
    acking, counted = protection.replicas_acking, protection.replicas_counted
    if acking is not None and tick.nodes:
        acking = min(acking, len(tick.replicas))
    stale = max(0, (counted or protection.replicas_acking or 0) - (acking or 0))
    is_silent = protection.no_ack_can_come or protection.state in _SILENT
    enough = (acking or 0) >= required and not is_silent
    ink = "muted" if protection.state is ProtectionState.OFF else "good b" if enough else "warn b"
    more: Line = [(f" +{stale} stale", "warn b")] if stale else []
    pair = f"{figures.UNKNOWN if acking is None else acking}/{required}"
    if is_silent:
        return ([(f"{pair} registered", ink)], [("no acks", ink)])
    return ([(f"{pair} ack", ink), *more], [(f"{pair} ack", ink)])


def _members(tick: Tick) -> Segment:
    """`members 3/3`: those that take part and that the others hear, of all nodes."""
    part = sum(node.member is not None and node.member.is_ready for node in tick.nodes)
    count = f"{part}/{len(tick.nodes)}"
    ink = "good b" if part == len(tick.nodes) else "warn b" if part else "bad b"
    told: Line = [("members ", "muted"), (count, ink)]
    return (told, told)


def _rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([], [])
    measured = "none" if link.rtt_measured_ms is None else figures.round_trip(link.rtt_measured_ms)
    figure: Run = (measured, "warn b" if rtt_is_apart(link) else "text b")
    word: Run = ("RTT ", "muted")
    return ([word, (f"{link.rtt_asked_ms:g} → ", "text b"), figure], [word, figure])


def _fsync(disk: DiskView | None) -> Segment:
    """`fsync +2 → 2.2`: the delay asked, if one is, and what an fsync takes; amber when it takes less."""
    if disk is None:
        return ([],)
    asked: Line = [(f"+{disk.delay_asked_ms:g} → ", "text b")] if disk.delay_asked_ms else []
    ink = "warn b" if disk.delay_asked_ms and fsync_too_short(disk) else "text b"
    return ([("fsync ", "muted"), *asked, (figures.millis(disk.measured_ms), ink)],)


_MS_CELLS: Final = 4
_RUNNING: Final = ("running", "viewer")


def _latency(recent: Recent) -> Segment:
    """Percentiles in milliseconds with their window, spelled and in short, and p99 alone; faint where too
    few commits stand behind one."""
    unit: Run = (" ms", "muted")
    if recent.is_by_server:
        mean: Run = (f"{figures.millis(recent.mean_ms):>{_MS_CELLS}}", "p50 b")
        spelled: Line = [("commit mean ", "muted"), mean, unit]
        return (spelled, spelled, [("mean", "muted"), mean])
    (p50, i50), (p95, i95), (p99, i99) = (
        (
            f"{figures.millis(recent.latency_ms(name)):>{_MS_CELLS}}",
            f"{name} b" if recent.is_firm(name) else "faint",
        )
        for name in ("p50", "p95", "p99")
    )
    last: Line = [("p99 ", "muted"), (p99, i99)]
    window: Run = (f" {window_words(recent)}", "muted")
    gap: Run = (" ", "muted")
    return (
        [
            ("p50 ", "muted"),
            (p50, i50),
            ("  p95 ", "muted"),
            (p95, i95),
            ("  ", "muted"),
            *last,
            unit,
            window,
        ],
        [("p50/95/99 ", "muted"), (p50, i50), gap, (p95, i95), gap, (p99, i99), unit, window],
        last,
    )


def _throughput(recent: Recent) -> Segment:
    """TPS; where a transaction has several statements the chart's title has QPS."""
    return ([("TPS ", "muted"), (f"{figures.rate(recent.tps):>5}", "tps b")],)


_ERRORS: Final = (
    ("errors", "err/s", "err/s", "bad b"),
    ("unknown", "unknown/s", "unkn/s", "bad b"),
    ("reconnects", "reconn/s", "reconn/s", "bad b"),
    ("deadlocks", "deadlocks/s", "deadl/s", "warn b"),
    ("lock_timeouts", "lock timeouts/s", "lock t/s", "warn b"),
    ("conflicts", "conflicts/s", "confl/s", "warn b"),
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
    _, _, first, ink = told[0]
    return (
        apart([[(f"{rate} {long}", ink)] for rate, long, _, ink in told]),
        apart([[(f"{rate} {short}", ink)] for rate, _, short, ink in told]),
        [(f"{_some(total)} {first if len(told) == 1 else 'err+/s'}", ink)],
    )


def _some(per_s: float) -> str:
    """A small rate: `0.1`, `2`, `9.4`, `1240`."""
    return f"{per_s:.2g}" if per_s < 99.5 else figures.rate(per_s)


def _load(load: LoadView | None) -> Segment:
    """`closed ×48`, `open 500/s ×48`."""
    if load is None or load.state not in _RUNNING:
        return ([],)
    asked = "" if load.rate_asked_tps is None else f" {load.rate_asked_tps:g}/s"
    return ([(f"{load.mode}{asked} ×{load.clients}", "text")],)


def _limits(load: LoadView | None, recent: Recent) -> Segment:
    """Why the load does not run, what waits, what an open loop drops, that the load is its own limit."""
    if load is None or load.state == SERVER:
        return ([],)
    part = "" if load.prepared is None else f" {load.prepared:.0%}"
    state: list[Line] = [] if load.state in _RUNNING else [[(f"load {load.state}{part}", "warn b")]]
    waiting: list[Line] = [[(f"backlog {figures.count(load.backlog)}", "warn")]] if load.backlog else []
    drops_per_s = recent.per_second("dropped")
    dropped = f"dropped {figures.rate(drops_per_s)}/s" if drops_per_s else ""
    limit = "" if not load.limited else "clients busy" if "busy" in load.limited else "generator"
    spelled, brief = _signs(dropped, limit), _signs(dropped and "dropped", limit.rpartition(" ")[2])
    return (apart([*state, *waiting, *spelled]), apart([*state, *spelled]), apart([*state, *brief]))


def _by_server(load: LoadView | None) -> Segment:
    """That TPS and mean are of all clients, by the server's counters."""
    if load is None or load.state != SERVER:
        return ([],)
    return ([("server's counters", "text")], [("by server", "text")])


def _signs(dropped: str, limit: str) -> list[Line]:
    """Drops in red, the limit in amber."""
    signs = ((dropped, "bad b"), (limit, "warn b"))
    return [[(f"▲ {word}", ink)] for word, ink in signs if word]


class Spot(NamedTuple):
    """A figure's place."""

    name: str
    variant: int
    """Which of the figure's forms, 0 the longest."""
    cells: int


class Form(NamedTuple):
    """What stands in the row on a screen of some width."""

    least_width: int
    title: int
    """How much of the title, 0 all."""
    separator: str
    places: tuple[Spot, ...]
    """From left to right; the first ones are covered first, the last one never."""
    soft: int
    """How many of them are covered before words are shortened."""


FORMS: Final = (
    Form(
        194, 0, " │ ",
        (
            Spot("ack", 0, 16), Spot("rtt", 0, 17), Spot("fsync", 0, 18), Spot("load", 0, 14),
            Spot("latency", 0, 44), Spot("elapsed", 0, 8), Spot("tps", 0, 9),
        ), 3,
    ),
    Form(
        150, 0, " │ ",
        (
            Spot("ack", 1, 7), Spot("rtt", 0, 17), Spot("load", 0, 14), Spot("latency", 1, 41),
            Spot("elapsed", 0, 8), Spot("tps", 0, 9),
        ), 3,
    ),
    Form(
        118, 1, "  ",
        (
            Spot("ack", 1, 7), Spot("rtt", 1, 9), Spot("latency", 1, 41), Spot("elapsed", 0, 8),
            Spot("tps", 0, 9),
        ), 2,
    ),
    Form(
        0, 2, "  ",
        (
            Spot("ack", 1, 7), Spot("rtt", 1, 9), Spot("latency", 2, 8), Spot("elapsed", 0, 8),
            Spot("tps", 0, 9),
        ), 2,
    ),
)  # fmt: skip
"""The widest first."""
_VARIANTS: Final = 4
"""Most forms of what must not be overlooked."""
_STATE_CELLS: Final = 4 + max(len(each.word) for each in STATES.values())
_GAP: Final[Run] = ("  ", "text")


class Header(Lines):
    """The status header."""

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
        tick = self.tick
        if tick is None:
            return []
        form = next(each for each in FORMS if width >= each.least_width)
        shown = self._figures(tick)
        right: list[list[Run]] = [
            [(form.separator, "rule"), *_filled(shown[name][variant], cells)]
            for name, variant, cells in form.places
        ]
        title = [("replexplorer", "title b"), (f" {tick.stack}", "muted")]
        titles: Segment = (title, title[:1], [("rx", "title b")])
        state = _filled(self._state(tick), _STATE_CELLS)
        left: list[Run] = [(" ", "text"), *titles[form.title], _GAP, *state, (" ", "text")]
        rooms = [
            width - 1 - width_of(left) - sum(map(width_of, right[covered:])) for covered in range(len(right))
        ]
        told = _fitting(self._alerts(tick), rooms[form.soft], rooms[-1])
        covered = next((at for at, room in enumerate(rooms) if width_of(told) <= room), len(rooms) - 1)
        kept = [run for cell in right[covered:] for run in cell]
        return [[*left, *_filled(told, rooms[covered]), *kept, (" ", "text")]]

    def _figures(self, tick: Tick) -> dict[str, Segment]:
        """Every figure in all its forms."""
        return {
            "ack": _acks(tick),
            "rtt": _rtt(tick.rtt),
            "fsync": _fsync(tick.source_disk),
            "load": _load(tick.load),
            "latency": _latency(self.recent),
            "elapsed": ([(figures.elapsed(self.elapsed_s), "text")],),
            "tps": _throughput(self.recent),
        }

    def _alerts(self, tick: Tick) -> list[Segment]:
        """What must not be overlooked, the most important first."""
        chip = "onstate on async b"
        found = [_wait(tick.protection), self._held(), _link(tick)]
        found += [([each],) for each in _injected(tick)]
        found += [([(f" {self.sweep} ", chip)],)] if self.sweep else []
        found += [([(" ▲ NOT DURABLE ", chip)],)] if lax_knobs(tick.knobs) else []
        found += [([long], [short]) for long, short in _troubles(tick)]
        found += [_limits(tick.load, self.recent), _errors(self.recent)]
        found += [_by_server(tick.load)]
        return [each for each in found if each[0]]

    def _held(self) -> Segment:
        """That the picture is held, with what is so meanwhile."""
        if self.live is None:
            return ([],)
        chip: Run = (" FROZEN ", "onstate on armed b")
        held = self.tick.protection.state if self.tick is not None else None
        state, tps = _live(*self.live, held)
        return (
            [chip, (" live ", "muted"), state, tps, (" TPS", "muted")],
            [chip, (" live ", "muted"), state, tps],
            [chip, (" live ", "muted"), (state[0][0], state[1]), tps],
            [chip, (f" {state[0][0]}", state[1]), tps],
        )

    def _state(self, tick: Tick) -> Line:
        symbol, word, token, _ = STATES[tick.protection.state]
        if tick.state == "starting":
            symbol, word, token = "○", "STARTING", "async"
        text = f"[{symbol} {word}]" if self.app.no_color else f" {symbol} {word} "
        return [(text, f"onstate on {token} b")]


def _filled(line: Line, cells: int) -> list[Run]:
    """The runs in this many cells."""
    return [*line, (" " * max(0, cells - width_of(line)), "text")]


def _fitting(segments: list[Segment], room: int, most: int) -> list[Run]:
    """All of them in the longest forms that fit; in the shortest ones as many as there is `most` room for,
    and how many more there are."""
    chosen: list[Line] = []
    for variant in range(_VARIANTS):
        chosen = [each[min(variant, len(each) - 1)] for each in segments]
        if width_of(row := _row(chosen)) <= room:
            return row
    for left_out in range(len(chosen)):
        more: list[Line] = [[(f"+{left_out}", "warn b")]] if left_out else []
        if width_of(row := _row([*chosen[: len(chosen) - left_out], *more])) <= most:
            return row
    return cut(_row(chosen[:1]), most)


def _row(parts: list[Line]) -> list[Run]:
    """Parts with a blank between them."""
    return [run for at, part in enumerate(parts) for run in (*([(" ", "text")] if at else ()), *part)]


def _live(tick: Tick, recent: Recent, held: ProtectionState | None) -> Line:
    """`● PROTECTED   528`: what is so behind a held picture, as wide whatever it is; the state's word only
    where it is not the held one, which the row has already."""
    symbol, word, token, _ = STATES[tick.protection.state]
    longest = max(len(each.word) for each in STATES.values())
    if tick.protection.state is held:
        word, token = "same", "muted"
    return [
        (f"{symbol} {word:<{longest}}", f"{token} b"),
        (f" {figures.rate(recent.tps):>5}", "tps b"),
    ]

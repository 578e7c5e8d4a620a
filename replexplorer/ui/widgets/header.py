"""The first row: state, what must not be overlooked, acknowledgements, round trip, load, latency, throughput.

Law: title and state stand at the left edge and the figures in columns of their own at the right one, which
the width alone decides. What must not be overlooked grows between them and covers whole figures; nothing
else ever moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, NamedTuple

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
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, Segment, apart, cut, fit, padded, pair, width_of
from replexplorer.ui.words.states import STATES, contradiction_of, fsync_too_short, rtt_is_apart

_CHIP: Final = "onstate on partitioned b"
_NOTE: Final = "onstate on async b"
_SILENT: Final = (ProtectionState.BLOCKED, ProtectionState.DEGRADED)
"""No acknowledgement comes."""
_RUNNING: Final = ("running", "viewer")
_MS_CELLS: Final = 4


def _link(tick: Tick) -> Segment:
    """The partition in force, beside the state and never instead of it; healed, until events flow."""
    cut_off = partition_words((*tick.links, *tick.pairs))
    healing = any(link.healing for link in tick.links)
    more = f" +{len(cut_off) - 1}" if len(cut_off) > 1 else ""
    full: Line = [(f" PARTITION {', '.join(cut_off)} ", _CHIP)] if cut_off else []
    short: Line = [(f" cut {cut_off[0]}{more} ", _CHIP)] if cut_off else []
    return (
        apart([full, [("healed, TCP retries", "warn b")] if healing else []]),
        short or ([("healed", "warn b")] if healing else []),
    )


def _injected(tick: Tick) -> list[Segment]:
    """The faults in force, ` kill@db1 `; a partition is the link's own chip."""
    nodes: dict[str, list[str]] = {}
    for fault in tick.faults:
        if fault.kind != PARTITION_FAULT:
            nodes.setdefault(written(fault.kind, fault.value), []).append(fault.node)
    return [([(f" {what}@{','.join(where)} ", _CHIP)],) for what, where in nodes.items()]


def _troubles(tick: Tick) -> list[Segment]:
    """A foreign driver, a replica that is down or fails, a link or disk that cannot: in words and
    shorter."""
    found: list[tuple[str, str, str]] = []
    if tick.viewer:
        driver = tick.load.driver if tick.load and tick.load.driver else "another app"
        found.append((f" VIEWER: {driver} drives the load ", " VIEWER ", _NOTE))
    taken_down = {fault.node for fault in tick.faults if fault.takes_down}
    for node in tick.nodes if tick.state != "starting" else ():
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        broken = [word for word, state in threads if state == "error"]
        if node.is_source or (not node.reachable and node.name in taken_down):
            continue
        if not node.reachable:
            found.append((f"✖ {node.name} down", f"✖ {node.name}", "bad b"))
        elif broken:
            told = f"✖ {node.name}: {' and '.join(broken)} error"
            found.append((told, f"✖ {node.name} {broken[0]}", "bad b"))
    if faulty := next((link for link in (*tick.links, *tick.pairs) if link.fault), None):
        # The pair of the RTT has the figures already.
        is_told = faulty is tick.rtt and faulty.fault == contradiction_of(faulty)
        found.append(("link ▲" if is_told else f"link: {faulty.fault}", "link ▲", "warn b"))
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        found.append((f"disk: {fault}", "disk ▲", "warn b"))
    return [([(spelled, ink)], [(brief, ink)]) for spelled, brief, ink in found]


def _wait(protection: Protection) -> Segment:
    """`6 of 10 s, 32 commits wait`: how long the oldest commit has waited, of the time after which the
    source gives up; empty unless blocked."""
    if protection.state is not ProtectionState.BLOCKED or protection.oldest_wait_s is None:
        return ([],)
    timeout = "" if protection.timeout_ms is None else f" of {protection.timeout_ms / 1000:g}"
    clock, count = f"{int(protection.oldest_wait_s)}{timeout} s", protection.waiting
    waits = f", {count} commit waits" if count == 1 else f", {count} commits wait"
    return ([(f"{clock}{waits if count else ''}", "blocked b")], [(clock, "blocked b")])


def _acks(tick: Tick) -> Segment:
    """`1/1 ack`: replicas that acknowledge, of those that are required, and what the source counts beyond
    them: connections that it has not missed yet; `1/1 registered`, in short `no acks`, while none can or
    does; of a group `members 3/3`, those that take part of all nodes."""
    protection = tick.protection
    required = protection.replicas_required
    if required is None:
        return ([],)
    if system_of(tick.system).is_group:
        part = sum(node.member is not None and node.member.is_ready for node in tick.nodes)
        ink = "good b" if part == len(tick.nodes) else "warn b" if part else "bad b"
        return (pair("members", f"{part}/{len(tick.nodes)}", ink),)
    acking, counted = protection.replicas_acking, protection.replicas_counted
    if acking is not None and tick.nodes:
        acking = min(acking, len(tick.replicas))
    stale = max(0, (counted or protection.replicas_acking or 0) - (acking or 0))
    is_silent = protection.no_ack_can_come or protection.state in _SILENT
    enough = (acking or 0) >= required and not is_silent
    ink = "muted" if protection.state is ProtectionState.OFF else "good b" if enough else "warn b"
    count = f"{figures.UNKNOWN if acking is None else acking}/{required}"
    if is_silent:
        return ([(f"{count} registered", ink)], [("no acks", ink)])
    told: Line = [(f"{count} ack", ink)]
    return ([*told, (f" +{stale} stale", "warn b")] if stale else told, told)


def _rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([],)
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


def percentile(recent: Recent, name: str) -> Run:
    """A percentile of now in ms, or the server's `mean`; faint where too few commits stand behind it."""
    text = f"{figures.millis(recent.latency_ms(name)):>{_MS_CELLS}}"
    if name == "mean":
        return (text, "p50 b")
    return (text, f"{name} b" if recent.is_firm(name) else "faint")


def _latency(recent: Recent) -> Segment:
    """Percentiles in milliseconds with their window, and p99 alone."""
    if recent.is_by_server:
        mean = percentile(recent, "mean")
        return ([("commit mean ", "muted"), mean, (" ms", "muted")], [("mean", "muted"), mean])
    p50, p95, p99 = (percentile(recent, name) for name in ("p50", "p95", "p99"))
    unit: Run = (f" ms {window_words(recent)}", "muted")
    return ([("p50/95/99 ", "muted"), *apart([[p50], [p95], [p99]]), unit], [("p99 ", "muted"), p99])


_ERRORS: Final = (
    ("errors", "err/s", "bad b"),
    ("unknown", "unknown/s", "bad b"),
    ("reconnects", "reconn/s", "bad b"),
    ("deadlocks", "deadlocks/s", "warn b"),
    ("lock_timeouts", "lock timeouts/s", "warn b"),
    ("conflicts", "conflicts/s", "warn b"),
)
"""What is counted, its word and its ink."""


def _errors(recent: Recent) -> Segment:
    """Errors, unknown outcomes, reconnects, deadlocks and lock timeouts per second, when there are any."""
    told = [(rate, word, ink) for name, word, ink in _ERRORS if (rate := recent.per_second(name))]
    if len(told) < 2:
        return (apart([(f"{_some(rate)} {word}", ink)] for rate, word, ink in told),)
    return (
        apart([(f"{_some(rate)} {word}", ink)] for rate, word, ink in told),
        [(f"{_some(sum(rate for rate, *_ in told))} err+/s", told[0][2])],
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
    """Why the load does not run, what waits, what an open loop drops, that the load is its own limit; that
    the figures are of all clients, by the server's counters."""
    if load is None:
        return ([],)
    if load.state == SERVER:
        return ([("server's counters", "text")], [("by server", "text")])
    prepared = "" if load.prepared is None else f" {load.prepared:.0%}"
    drops_per_s = recent.per_second("dropped")
    limit = "" if not load.limited else "clients busy" if "busy" in load.limited else "generator"
    told = (
        ("" if load.state in _RUNNING else f"load {load.state}{prepared}", "warn b"),
        (f"backlog {figures.count(load.backlog)}" if load.backlog else "", "warn"),
        (f"▲ dropped {figures.rate(drops_per_s)}/s" if drops_per_s else "", "bad b"),
        (f"▲ {limit}" if limit else "", "warn b"),
    )
    kept = [[run] for run in told if run[0]]
    return (apart(kept), apart(part for part in kept if not part[0][0].startswith("backlog")))


class Form(NamedTuple):
    """What stands in the row on a screen of some width."""

    least_width: int
    title: int
    """How much of the title, 0 all."""
    separator: str
    cells: dict[str, int]
    """Figures from left to right; the first ones are covered first, the last one never."""
    soft: int
    """How many of them are covered before words are shortened."""


_LAST: Final = {"elapsed": 8, "tps": 9}
_MOST: Final = {"ack": 16, "rtt": 17, "fsync": 18, "load": 14, "latency": 41, **_LAST}
FORMS: Final = (
    Form(194, 0, " │ ", _MOST, 3),
    Form(150, 0, " │ ", {"ack": 7, "rtt": 17, "load": 14, "latency": 41, **_LAST}, 3),
    Form(118, 1, "  ", {"ack": 7, "rtt": 9, "latency": 41, **_LAST}, 2),
    Form(0, 2, "  ", {"ack": 7, "rtt": 9, "latency": 8, **_LAST}, 2),
)
"""The widest first; a figure takes the longest of its variants that fits into its cells."""
_VARIANTS: Final = 2
_WORD_CELLS: Final = max(len(each.word) for each in STATES.values())


class Header(Lines[Picture]):
    """The status header."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """The row."""
        picture, tick = shown.shown, shown.shown.tick
        if tick is None:
            return []
        form = next(each for each in FORMS if width >= each.least_width)
        found: dict[str, Segment] = {
            "ack": _acks(tick),
            "rtt": _rtt(tick.rtt),
            "fsync": _fsync(tick.source_disk),
            "load": _load(tick.load),
            "latency": _latency(picture.recent),
            "elapsed": ([(figures.elapsed(picture.elapsed_s), "text")],),
            "tps": (pair("TPS", f"{figures.rate(picture.recent.tps):>5}", "tps b"),),
        }
        right = [
            [(form.separator, "rule"), *padded(fit(found[name], cells), cells)]
            for name, cells in form.cells.items()
        ]
        title = [("replexplorer", "title b"), (f" {tick.stack}", "muted")]
        titles: Segment = (title, title[:1], [("rx", "title b")])
        state = padded(self._state(tick), 4 + _WORD_CELLS)
        left = apart([[(" ", "text"), *titles[form.title], (" ", "text")], [*state, (" ", "text")]])
        rooms = [
            width - 1 - width_of(left) - sum(map(width_of, right[covered:])) for covered in range(len(right))
        ]
        told = _fitting(self._alerts(shown, tick, picture.recent), rooms[form.soft], rooms[-1])
        covered = next((at for at, room in enumerate(rooms) if width_of(told) <= room), len(rooms) - 1)
        kept = [run for cell in right[covered:] for run in cell]
        return [[*left, *padded(told, rooms[covered]), *kept, (" ", "text")]]

    def _alerts(self, shown: Picture, tick: Tick, recent: Recent) -> list[Segment]:
        """What must not be overlooked, the most important first."""
        found = [_wait(tick.protection), _held(shown, tick), _link(tick), *_injected(tick)]
        if lax_knobs(tick.knobs):
            found.append(([(" ▲ NOT DURABLE ", _NOTE)],))
        found += [*_troubles(tick), _limits(tick.load, recent), _errors(recent)]
        return [each for each in found if each[0]]

    def _state(self, tick: Tick) -> Line:
        symbol, word, token, _ = STATES[tick.protection.state]
        if tick.state == "starting":
            symbol, word, token = "○", "STARTING", "async"
        text = f"[{symbol} {word}]" if self.app.no_color else f" {symbol} {word} "
        return [(text, f"onstate on {token} b")]


def _held(shown: Picture, held: Tick) -> Segment:
    """`FROZEN  live ● PROTECTED   528 TPS`: that the picture is held, with what is so meanwhile, as wide
    whatever it is; the state's word only where it is not the held one, which the row has already."""
    live = shown.tick
    if not shown.is_frozen or live is None:
        return ([],)
    symbol, word, token, _ = STATES[live.protection.state]
    if live.protection.state is held.protection.state:
        word, token = "same", "muted"
    chip: Run = (" FROZEN ", "onstate on armed b")
    tps: Run = (f" {figures.rate(shown.recent.tps):>5}", "tps b")
    state = f"{symbol} {word:<{_WORD_CELLS}}"
    return (
        [chip, (" live ", "muted"), (state, f"{token} b"), tps, (" TPS", "muted")],
        [chip, (f" {symbol}", f"{token} b"), tps],
    )


def _fitting(segments: list[Segment], room: int, most: int) -> Line:
    """All of them in the longest variants that fit; in the shortest ones as many as there is `most` room for,
    and how many more there are."""
    chosen: list[Line] = []
    for variant in range(_VARIANTS):
        chosen = [each[min(variant, len(each) - 1)] for each in segments]
        if width_of(row := apart(chosen)) <= room:
            return row
    return fit([*_fewer(chosen), cut(chosen[0], most)], most)


def _fewer(chosen: list[Line]) -> Iterable[Line]:
    """The row, each time with one part less and the number of those left out."""
    yield apart(chosen)
    for left_out in range(1, len(chosen)):
        yield apart([*chosen[: len(chosen) - left_out], [(f"+{left_out}", "warn b")]])

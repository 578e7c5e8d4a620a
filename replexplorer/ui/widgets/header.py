"""The first row: state, what must not be overlooked, acknowledgements, round trip, load, latency, throughput.

Law: title and state stand at the left edge and the figures in columns of their own at the right one, which
the width alone decides. What must not be overlooked grows between them and covers whole figures; nothing
else ever moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from replexplorer.core.fault import PARTITION_FAULT, written
from replexplorer.core.history.series import Recent
from replexplorer.core.link import LinkView, partition_words
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.server.comeback import lax_knobs
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import system_of
from replexplorer.core.text import duration_text, elapsed
from replexplorer.core.tick import Tick
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, Segment, apart, cut, fit, padded, pair, width_of
from replexplorer.ui.words.states import (
    STATES,
    fsync_runs,
    percentile,
    rtt_is_apart,
    state_of,
    window_words,
)

_CHIP: Final = "onstate on partitioned b"
_NOTE: Final = "onstate on async b"
_SILENT: Final = (ProtectionState.BLOCKED, ProtectionState.DEGRADED)
"""No acknowledgement comes."""
_RUNNING: Final = ("running", "viewer")
_ERRORS: Final = (
    ("errors", "err/s", "bad b"),
    ("unknown", "unknown/s", "bad b"),
    ("reconnects", "reconn/s", "bad b"),
    ("deadlocks", "deadlocks/s", "warn b"),
    ("lock_timeouts", "lock timeouts/s", "warn b"),
    ("conflicts", "conflicts/s", "warn b"),
)
"""What is counted, its word and its ink."""


def _said(ink: str, *texts: str) -> Segment:
    """A part of one style in its variants, longest first."""
    return tuple([(text, ink)] if text else [] for text in texts)


def _alerts(tick: Tick, recent: Recent) -> Iterator[Segment]:
    """What must not be overlooked, the most important first: how long commits have waited, the partition
    beside the state, faults, lax knobs, what is down or fails, and what the load cannot
    do."""
    protection, load = tick.protection, tick.load
    if protection.state is ProtectionState.BLOCKED and protection.oldest_wait_s is not None:
        timeout = "" if protection.timeout_ms is None else f" of {protection.timeout_ms / 1000:g}"
        clock, count = f"{int(protection.oldest_wait_s)}{timeout} s", protection.waiting
        waits = f", {count} commit{' waits' if count == 1 else 's wait'}" if count else ""
        yield _said("blocked b", f"{clock}{waits}", clock)
    if cuts := partition_words((*tick.links, *tick.pairs)):
        more = f" +{len(cuts) - 1}" if len(cuts) > 1 else ""
        yield _said(_CHIP, f" PARTITION {', '.join(cuts)} ", f" cut {cuts[0]}{more} ")
    if any(link.healing for link in tick.links):
        yield _said("warn b", "healed, TCP retries", "healed")
    injected: dict[str, list[str]] = {}
    for fault in tick.faults:
        if fault.kind != PARTITION_FAULT:
            injected.setdefault(written(fault.kind, fault.value), []).append(fault.node)
    for what, where in injected.items():
        yield _said(_CHIP, f" {what}@{','.join(where)} ")
    if lax_knobs(tick.knobs):
        yield _said(_NOTE, " ▲ NOT DURABLE ")
    if tick.viewer:
        driver = load.driver if load and load.driver else "another app"
        yield _said(_NOTE, f" VIEWER: {driver} drives the load ", " VIEWER ")
    yield from _broken(tick)
    if load is not None:
        yield from _limits(load, recent)
    for name, word, ink in _ERRORS:
        if per_s := recent.per_second(name):
            yield _said(ink, f"{figures.rate(per_s)} {word}")


def _broken(tick: Tick) -> Iterator[Segment]:
    """Replicas that are down or whose threads failed, a link or a disk that cannot what is asked."""
    taken_down = {fault.node for fault in tick.faults if fault.takes_down}
    for node in tick.replicas if tick.state != "starting" else ():
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        failed = [word for word, state in threads if state == "error"]
        if not node.reachable and node.name not in taken_down:
            yield _said("bad b", f"✖ {node.name} down", f"✖ {node.name}")
        elif node.reachable and failed:
            yield _said("bad b", f"✖ {node.name}: {' and '.join(failed)} error", f"✖ {node.name} {failed[0]}")
    if faulty := next((link for link in (*tick.links, *tick.pairs) if link.fault), None):
        # The pair of the RTT has the figures already.
        is_said = faulty is tick.rtt and faulty.fault == faulty.contradiction
        yield _said("warn b", "link ▲" if is_said else f"link: {faulty.fault}", "link ▲")
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        yield _said("warn b", f"disk: {fault}", "disk ▲")


def _limits(load: LoadView, recent: Recent) -> Iterator[Segment]:
    """Why the load does not run, what waits, what an open loop drops, that the load is its own limit; that
    the figures are of all clients, by the server's counters."""
    if load.state == SERVER:
        yield _said("text", "server's counters", "by server")
        return
    if load.state not in _RUNNING:
        yield _said(
            "warn b", f"load {load.state}" + ("" if load.prepared is None else f" {load.prepared:.0%}")
        )
    if load.backlog:
        yield _said("warn", f"backlog {figures.count(load.backlog)}", "")
    if dropped := recent.per_second("dropped"):
        yield _said("bad b", f"▲ dropped {figures.rate(dropped)}/s")
    if load.limited:
        yield _said("warn b", "▲ clients busy" if "busy" in load.limited else "▲ generator")


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
    acks: Line = [(f"{count} ack", ink)]
    return ([*acks, (f" +{stale} stale", "warn b")] if stale else acks, acks)


def _rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([],)
    measured = "none" if link.rtt_measured_ms is None else figures.round_trip(link.rtt_measured_ms)
    figure: Run = (measured, "warn b" if rtt_is_apart(link) else "text b")
    word: Run = ("RTT ", "muted")
    return ([word, (f"{link.rtt_asked_ms:g} → ", "text b"), figure], [word, figure])


def _latency(recent: Recent) -> Segment:
    """Percentiles in milliseconds with their window, and p99 alone."""
    if recent.is_by_server:
        mean = percentile(recent, "mean")
        return ([("commit mean ", "muted"), mean, (" ms", "muted")], [("mean", "muted"), mean])
    p50, p95, p99 = (percentile(recent, name) for name in ("p50", "p95", "p99"))
    unit: Run = (f" ms {window_words(recent)}", "muted")
    return ([("p50/95/99 ", "muted"), *apart([[p50], [p95], [p99]]), unit], [("p99 ", "muted"), p99])


def _load(load: LoadView | None) -> Segment:
    """`closed ×48`, `open 500/s ×48`."""
    if load is None or load.state not in _RUNNING:
        return ([],)
    asked = "" if load.rate_asked_tps is None else f" {load.rate_asked_tps:g}/s"
    return ([(f"{load.mode}{asked} ×{load.clients}", "text")],)


class Form(NamedTuple):
    """The row on a screen of some width."""

    least_width: int
    title: int
    """How much of the title, 0 all."""
    separator: str
    cells: dict[str, int]
    """Figures from left to right; the first ones are covered first, the last one never."""
    soft: int
    """How many of them are covered before words are shortened."""
    has_state: bool = True


_LAST: Final = {"elapsed": 8, "tps": 9}
_MOST: Final = {"ack": 16, "rtt": 17, "fsync": 18, "load": 14, "latency": 41, **_LAST}
FORMS: Final = (
    Form(194, 0, " │ ", _MOST, 3),
    Form(150, 0, " │ ", {"ack": 7, "rtt": 17, "load": 14, "latency": 41, **_LAST}, 3),
    Form(118, 1, "  ", {"ack": 7, "rtt": 9, "latency": 41, **_LAST}, 2),
    Form(0, 2, "  ", {"ack": 7, "rtt": 9, "latency": 8, **_LAST}, 2),
)
"""The widest first; a figure takes the longest of its variants that fits into its cells."""
_NEXT_TO_DIGITS: Final = Form(150, 0, " │ ", {"ack": 16, "load": 14, "window": 16, "elapsed": 8}, 2, False)
"""Of a screen with the strip of large digits: what that lacks."""
_PRESENTED: Final = Form(0, 0, "  ", {}, 0, False)
"""While somebody presents: what must not be overlooked alone."""
_WORD_CELLS: Final = max(len(each.word) for each in STATES.values())


class Header(Lines[Picture]):
    """The status header."""

    GROUND = "panel"
    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """The row."""
        picture, tick = shown.shown, shown.shown.tick
        if tick is None:
            return []
        form = next(each for each in FORMS if width >= each.least_width)
        if self.screen.has_class("-present"):
            form = _PRESENTED
        elif self.screen.has_class("-wide"):
            form = _NEXT_TO_DIGITS
        found: dict[str, Segment] = {
            "ack": _acks(tick),
            "rtt": _rtt(tick.rtt),
            "fsync": (fsync_runs(tick.source_disk),),
            "load": _load(tick.load),
            "latency": _latency(picture.recent),
            "window": ([(window_words(picture.recent), "muted")],),
            "elapsed": ([(elapsed(picture.elapsed_s), "text")],),
            "tps": (pair("TPS", f"{figures.rate(picture.recent.tps):>5}", "tps b"),),
        }
        right = [
            [(form.separator, "rule"), *padded(fit(found[name], cells), cells)]
            for name, cells in form.cells.items()
        ]
        title = [("replexplorer", "title b"), (f" {tick.stack}", "muted")]
        titles: Segment = (title, title[:1], [("rx", "title b")])
        state = [*padded(self._state(tick), 4 + _WORD_CELLS), (" ", "text")] if form.has_state else []
        left = apart([[(" ", "text"), *titles[form.title], (" ", "text")], state])
        rooms = [
            width - 1 - width_of(left) - sum(map(width_of, right[covered:]))
            for covered in range(max(1, len(right)))
        ]
        alerts = [*_held(shown, tick), *_alerts(tick, picture.recent)]
        alert_row = _fitting(alerts, rooms[form.soft], rooms[-1])
        covered = next((at for at, room in enumerate(rooms) if width_of(alert_row) <= room), len(rooms) - 1)
        kept = [run for cell in right[covered:] for run in cell]
        return [[*left, *padded(alert_row, rooms[covered]), *kept, (" ", "text")]]

    def _state(self, tick: Tick) -> Line:
        symbol, word, token = state_of(tick)
        text = f"[{symbol} {word}]" if self.app.no_color else f" {symbol} {word} "
        return [(text, f"onstate on {token} b")]


def _held(shown: Picture, held: Tick) -> Iterator[Segment]:
    """`FROZEN -80 s  live   528 TPS  ◼ BLOCKED`: that the picture is held, and how far back, with what is so
    meanwhile; the state only where it is another one than the held."""
    live, tps = shown.tick, shown.recent.tps
    if not shown.is_frozen or live is None:
        return
    symbol, word, token = state_of(live)
    chip: Line = [(f" FROZEN -{duration_text(live.at_s - held.at_s)} ", "onstate on armed b")]
    now: Line = [] if tps is None else [(f"{figures.rate(tps):>5}", "tps b"), (" TPS", "muted")]
    state: Line = [] if state_of(held)[1] == word else [(f"{symbol} {word}", f"{token} b")]
    live_words: Line = [("live", "muted")] if now or state else []
    yield (
        apart([chip, live_words, now, state]),
        apart([chip, now[:1], [(symbol, f"{token} b")] if state else []]),
    )


def _fitting(segments: Sequence[Segment], room: int, most: int) -> Line:
    """All of them in their longest variants, else in their shortest ones; where these do not fit either, as
    many as there is `most` room for, and how many more there are."""
    if width_of(row := apart(each[0] for each in segments)) <= room:
        return row
    short = [each[-1] for each in segments if each[-1]]
    rows = [apart(short), *(apart([*short[:-n], [(f"+{n}", "warn b")]]) for n in range(1, len(short)))]
    return fit([*rows, cut(short[0], most)], most)

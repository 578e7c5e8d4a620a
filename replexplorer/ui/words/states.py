"""What states, exposure, the servers' counters and effects are called, and in which colors; the questions of
the last row.

Law: what is not known is written as unknown or not at all, and never as 0; a check that failed is never left
out. What somebody asked, what is in force and what is measured are three figures; amber is used only where a
later one contradicts an earlier one, and an unknown figure contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replexplorer.core.event import Severity
from replexplorer.core.fault import PARTITION_FAULT
from replexplorer.core.history.series import ENOUGH, Recent
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Backing, KnobName, KnobView, format_value
from replexplorer.core.link import LinkView, partition_words
from replexplorer.core.load.interval import LoadView
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.protection import MEANINGS, OF_A_GROUP, ProtectionState, word_of
from replexplorer.core.server.truth import ServerTruth
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, apart, cut, fit, hint, pair, width_of

OLD_S: Final = 1.0
"""A reading as old as that is not of now: where it is answered the meter looks thrice a second and more."""


class Danger(NamedTuple):
    """One kind of failure."""

    field: str
    """Of `Exposure`."""
    word: str
    short: str
    ink: str
    """Theme token of its line and figure."""
    meaning: str
    """One line for the help."""


DANGERS: Final = (
    Danger(
        "process_dies", "mysqld dies", "dies", "p50",
        "commits missing on the source after mysqld is killed and started again",
    ),
    Danger(
        "power_cut", "power cut", "power", "p95",
        "commits missing on the source after its machine lost power and came back",
    ),
    Danger(
        "source_lost", "source lost", "source", "p99",
        "commits missing on the best replica that answers when the source never comes back",
    ),
)  # fmt: skip
"""All kinds, in the order of the line."""


def loss_of(exposure: Exposure, danger: Danger) -> Loss | Unknown:
    """What this failure would lose."""
    found: Loss | Unknown = getattr(exposure, danger.field)
    return found


def loss_text(loss: Loss | Unknown) -> str:
    """`312`, `>=91.7k` where no more is known than the least, `-`."""
    if isinstance(loss, Loss):
        return figures.count(loss.commits)
    return f">={figures.count(loss.low)}" if loss.low else figures.UNKNOWN


_DETAILS: Final = ("why age range word", "age range word", "age range", "range word", "range", "")
"""How much of the line is shown, longest first: reasons go first, then words are shorter, then ages and
ranges go."""


def exposure_line(exposure: Exposure | None, width: int, head: str = "") -> Line:
    """` at risk now: mysqld dies 0 · power cut 300..340 (0.4 s) · source lost 8`, with as much of it as fits,
    and one reason alone where nothing is known for one reason; ` at risk 1.4 s ago: ...` where that was
    read a while ago; another `head` of a moment that has gone. Empty before anything was looked at."""
    if exposure is None:
        return []
    when = "now" if exposure.read_ago_s < OLD_S else f"{figures.age(1000 * exposure.read_ago_s)} ago"
    start: Run = (head or f" at risk {when}: ", "muted")
    losses = {loss_of(exposure, danger) for danger in DANGERS}
    if len(losses) == 1 and isinstance(loss := losses.pop(), Unknown):
        return cut([start, ("unknown", "warn"), (f" ({loss.why})", "faint")], width)
    rows = (
        [start, *apart((_figure(exposure, danger, detail) for danger in DANGERS), " · ", "faint")]
        for detail in _DETAILS
    )
    return fit(rows, width)


def _figure(exposure: Exposure, danger: Danger, detail: str) -> list[Run]:
    """`power cut 300..340 (0.4 s)`: the commits, and how old the oldest of them is."""
    loss, word = loss_of(exposure, danger), danger.word if "word" in detail else danger.short
    if isinstance(loss, Unknown):
        why: list[Run] = [(f" ({loss.why})", "faint")] if "why" in detail else []
        if loss.low:
            return [*pair(word, loss_text(loss), f"{danger.ink} b"), *why]
        return [*pair(word, "unknown" if "age" in detail else figures.UNKNOWN, "warn"), *why]
    low, high = figures.count(loss.low), figures.count(loss.high)
    text = f"{low}..{high}" if "range" in detail and low != high else figures.count(loss.commits)
    runs = pair(word, text, f"{danger.ink} b" if loss.high else "good")
    if "age" in detail and loss.age_ms is not None and loss.high:
        runs.append((f" ({figures.age(loss.age_ms)})", "muted"))
    return runs


_LATE_MS = 1000.0
"""From this lag on it is a warning."""
_MS_CELLS: Final = 4


def failed_runs(truth: ServerTruth | None) -> list[Run]:
    """Every check that failed, with its evidence."""
    failed = [check for check in truth.checks if not check.holds] if truth else []
    runs: list[Run] = []
    for check in failed:
        runs += [(f"▲ {check.name}: ", "warn b"), (f"{check.evidence}  ", "warn")]
    return runs


def checks_runs(truth: ServerTruth | None) -> list[Run]:
    """`✓ Σ 2`: how many checks hold; nothing when none was made."""
    held = sum(check.holds for check in truth.checks) if truth else 0
    return [(f"✓ {held} check{'' if held == 1 else 's'} ", "muted")] if held else []


def truth_runs(truth: ServerTruth | None, room: int, anatomy: Anatomy | None) -> list[Run]:
    """As many counter facts as fit, the most important kept; they are of the same
    stretch as the anatomy above them."""
    facts = _facts(truth, anatomy) if truth else []
    while facts and width_of(apart([runs for _, runs in facts], " · ")) > room:
        facts.remove(max(facts, key=lambda fact: fact[0]))
    return apart([runs for _, runs in facts], " · ", "faint")


def _facts(truth: ServerTruth, anatomy: Anatomy | None) -> list[tuple[int, list[Run]]]:
    """(rank, words), in the order of the line; the highest rank goes first. How long a commit waits for
    an acknowledgement is the anatomy's to say: a wait of a thread may be a part of that."""
    facts: list[tuple[int, list[Run]]] = []
    if truth.group_size is not None:
        facts.append((2, pair("group", f"{truth.group_size:.1f}")))
    if truth.queue_size is not None:
        facts.append((6, pair("ack queue", f"{truth.queue_size:.1f}")))
    if truth.redo_fsyncs is not None and truth.binlog_fsyncs is not None:
        both = f"{truth.redo_fsyncs:.2f} + {truth.binlog_fsyncs:.2f}"
        facts.append((3, pair("fsyncs redo + binlog", both)))
    if truth.ack_waits is not None and truth.duration_s > 0:
        runs = pair("group ack waits", f"{truth.ack_waits / truth.duration_s:.0f}/s")
        if truth.ack_wait_ms is not None and (anatomy is None or Part.ACK not in anatomy.parts):
            runs += pair(" of", f"{truth.ack_wait_ms:.1f} ms")
        facts.append((4, runs))
    if truth.lag_ms is not None:
        facts.append((1, lag_runs(truth.lag_ms)))
    shipped = [one.shipped_bytes_per_s for one in truth.replicas if one.shipped_bytes_per_s is not None]
    if shipped:
        facts.append((5, pair("to replicas", f"{sum(shipped) / 1000:.0f} KB/s")))
    return facts


def lag_text(lag_ms: float) -> str:
    """A replica's lag: `0 ms`, `12 ms`, `3.4 s`."""
    return f"{lag_ms:.0f} ms" if lag_ms < _LATE_MS else f"{lag_ms / 1000:.1f} s"


def lag_runs(lag_ms: float, queued: int | None = None) -> list[Run]:
    """`lag 12 ms, 3 queued`, or the lag alone."""
    lag = pair("lag", lag_text(lag_ms), "warn b" if lag_ms >= _LATE_MS else "text")
    return [*lag, (f", {queued} queued", "muted")] if queued else lag


_TIMER_SHARE: Final = 0.02
"""By how much the server's timer may differ from the clock that a delay is slept by."""
_WIDEST: Final = 3
"""Standard deviations that a mean may be off, whatever number it is of."""
_KINDS: Final = {keys.FSYNC_DELAY_REDO: "redo", keys.FSYNC_DELAY_BINLOG: "binlog"}
"""Knob to the kind of file whose fsyncs it delays."""


class KnobEffect(NamedTuple):
    """What is in force of a knob, or measured of its effect, in words."""

    text: str = ""
    as_asked: bool = True
    """It does not contradict what was asked for."""


_STATES_OF_EFFECT: Final = {
    ProtectionState.ARMED: "armed",
    ProtectionState.BLOCKED: "waiting",
    ProtectionState.DEGRADED: "fell back",
}


def effect_of(view: KnobView, tick: Tick | None) -> KnobEffect:
    """What is in force for a knob: of semi-sync the protection state, not the variable."""
    name, disk = view.name, _disk(view.name, tick)
    if tick is not None and name.node == SOURCE:
        protection, state = tick.protection, tick.protection.state
        if name.key == keys.SEMI_SYNC and state in _STATES_OF_EFFECT:
            return KnobEffect(_STATES_OF_EFFECT[state], False)
        acking, required = protection.replicas_acking, protection.replicas_required or 0
        is_on = state not in (ProtectionState.DOWN, ProtectionState.OFF)
        if name.key == keys.SEMI_SYNC_REPLICAS and is_on and acking is not None:
            return KnobEffect(f"{acking} of {required}", acking >= required)
    if view.effective is not None:
        return KnobEffect(format_value(name.knob, view.effective), view.effective == view.requested)
    if disk is not None and disk.fault:
        return KnobEffect("not possible", not disk.delay_asked_ms)
    return KnobEffect(view.note or "unknown", view.note is not None)


def measured_of(name: KnobName, tick: Tick | None) -> KnobEffect:
    """What is measured of a knob: a round trip, lost probes, an fsync; empty for other knobs."""
    link, disk = _link(name, tick), _disk(name, tick)
    if disk is not None and name.key == keys.FSYNC_DELAY and disk.measured_ms is not None:
        return KnobEffect(figures.millis(disk.measured_ms), not fsync_too_short(disk))
    kind = _KINDS.get(name.key, "")
    if disk is not None and kind in disk.measured_by_kind_ms:
        return KnobEffect(figures.millis(disk.measured_by_kind_ms[kind]))
    if link is not None and name.key == keys.LOSS and link.probes_lost_percent is not None:
        return KnobEffect(f"{link.probes_lost_percent:.3g} %")
    if link is not None and name.key == keys.RTT:
        known = link.rtt_measured_ms is not None
        return KnobEffect(
            figures.round_trip(link.rtt_measured_ms) if known else "none", not rtt_is_apart(link)
        )
    return KnobEffect()


def rtt_is_apart(link: LinkView) -> bool:
    """The measured round trip contradicts the one that was asked for, or there is none."""
    return link.rtt_measured_ms is None or link.contradiction is not None


def fsync_too_short(disk: DiskView) -> bool:
    """An fsync is measured to take less than the delay that was asked for it."""
    all_ms = disk.delay_asked_ms
    own = (disk.redo_delay_ms, disk.binlog_delay_ms)
    least_ms = min(each if isinstance(each, float) else all_ms for each in own)
    least_ms -= _WIDEST * (disk.jitter_ms or 0.0)
    return disk.measured_ms is not None and disk.measured_ms < least_ms * (1 - _TIMER_SHARE)


def _link(name: KnobName, tick: Tick | None) -> LinkView | None:
    """The link that a knob is about."""
    links = (*tick.links, *tick.pairs) if tick is not None and name.knob.backing is Backing.LINK else ()
    return next((link for link in links if link.replica == name.node), None)


def _disk(name: KnobName, tick: Tick | None) -> DiskView | None:
    """The disk that a knob is about."""
    if tick is None or name.knob.backing is not Backing.DISK:
        return None
    if name.node == SOURCE:
        return tick.source_disk
    return next((disk for disk in tick.disks if disk.node == name.node), None)


def fsync_runs(disk: DiskView | None) -> list[Run]:
    """`fsync +2 → 2.2`: the delay asked, if one is, and what an fsync takes; amber when it takes less."""
    if disk is None:
        return []
    asked: list[Run] = [(f"+{disk.delay_asked_ms:g} → ", "text b")] if disk.delay_asked_ms else []
    ink = "warn b" if disk.delay_asked_ms and fsync_too_short(disk) else "text b"
    return [("fsync ", "muted"), *asked, (figures.millis(disk.measured_ms), ink)]


def percentile(recent: Recent, name: str) -> Run:
    """A percentile of now in ms, or the server's `mean`; faint where too few commits stand behind it."""
    text = f"{figures.millis(recent.latency_ms(name)):>{_MS_CELLS}}"
    if name == "mean":
        return (text, "p50 b")
    return (text, f"{name} b" if recent.is_firm(name) else "faint")


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


class StateWord(NamedTuple):
    """How a state is written: never by colour alone."""

    symbol: str
    word: str
    token: str
    meaning: str
    """One line for the help."""


STATES: Final[Mapping[ProtectionState, StateWord]] = {
    state: StateWord(
        symbol,
        word_of(state),
        token,
        MEANINGS[state] + (f"; in a group: {OF_A_GROUP[state]}" if state in OF_A_GROUP else ""),
    )
    for state, symbol, token in (
        (ProtectionState.PROTECTED, "●", "protected"),
        (ProtectionState.ARMED, "◐", "armed"),
        (ProtectionState.OFF, "○", "async"),
        (ProtectionState.BLOCKED, "◼", "blocked"),
        (ProtectionState.DEGRADED, "▲", "degraded"),
        (ProtectionState.DOWN, "✖", "degraded"),
    )
}
"""Every protection state."""


def state_of(tick: Tick) -> tuple[str, str, str]:
    """The state's sign, word and theme token; of a stack that starts, that it does."""
    if tick.state == "starting":
        return "○", "STARTING", "async"
    return STATES[tick.protection.state][:3]


CHIPS: Final = (
    (" PARTITION both ", "onstate on partitioned b", "all packets between source and replica are lost"),
    (
        " PARTITION ack ",
        "onstate on partitioned b",
        "packets to the source are lost: a waiting commit is on the replica, its acknowledgement lost",
    ),
    (
        " PARTITION dump ",
        "onstate on partitioned b",
        "packets to the replica are lost: no event arrives there",
    ),
    ("healed, TCP retries", "warn b", "packets pass again; events flow when TCP tries next"),
)
"""What the header says of a link: text, style words, and one line for the help."""

READING: Final = (
    ("ceiling", "clients / (RTT + local time): what no semi-sync commit can beat; dashed"),
    ("predicted", "what the model fitted from measured runs expects of these settings; dotted"),
    (
        "commit",
        "the mean commit's time by its parts, from the server's counters; what none explains is other",
    ),
    *((danger.word, danger.meaning) for danger in DANGERS),
    ("dropped", "arrivals that an open loop gave up because the backlog was full"),
    ("checks", "clients = TPS x mean latency; ▲ when not"),
)
"""Words of the charts and the rows below them, each with one line for the help."""

SEVERITIES: Final[Mapping[Severity, tuple[str, str]]] = {
    Severity.INFO: (" ", "muted"),
    Severity.MARK: ("·", "mark"),
    Severity.GOOD: ("✓", "good"),
    Severity.WARN: ("▲", "warn"),
    Severity.BAD: ("✖", "bad"),
}
"""Symbol and token of each severity; a mark's number replaces its symbol."""


def lost_question(lost: tuple[str, ...]) -> tuple[Line, ...]:
    """What restarts took (`reapply = ask`), longest first; empty where nothing was lost."""
    if not lost:
        return ()
    return tuple(
        [
            (" Lost by a restart: ", "warn b"), (f"{what}.  ", "text"),
            *hint("y", "re-applies, "), *hint("n", "leaves it"),
        ]
        for what in (", ".join(lost), f"{lost[0]}, {len(lost) - 1} more")
    )  # fmt: skip


def quit_question(tick: Tick | None, experiment: str, key: str) -> tuple[Line, ...]:
    """What quitting would end, longest first; empty while no load of this app runs and no lab or sweep.

    `experiment` names the lab or sweep under way, `key` the key that quits.
    """
    ends = _ends(tick.load if tick is not None and not tick.viewer else None, experiment)
    if not ends:
        return ()
    stays = _stays(tick) if tick is not None else ""
    return tuple(
        [(" Quit? ", "warn b"), (what, "text"), *hint(key, "quits, any other key cancels")]
        for what in (f"{ends}, {stays}.  " if stays else f"{ends}.  ", f"{ends}.  ", "")
    )


def _ends(load: LoadView | None, experiment: str) -> str:
    """What stops: `The load (8 clients) stops`."""
    if experiment:
        return f"The {experiment} stops, its knobs are restored"
    if load is None or not load.clients or load.state in ("stopped", "viewer"):
        return ""
    return f"The load ({load.clients} client{'' if load.clients == 1 else 's'}) stops"


def _stays(tick: Tick) -> str:
    """Which links stay cut, and which faults in force: `partition both, kill@db2 stay`."""
    cut = partition_words([link for link in (*tick.links, *tick.pairs) if link.flap is None])
    found = [f"partition {', '.join(cut)}"] if cut else []
    found += [str(fault) for fault in tick.faults if fault.kind != PARTITION_FAULT]
    return f"{', '.join(found)} stay{'s' if len(cut) < 2 and len(found) == 1 else ''}" if found else ""

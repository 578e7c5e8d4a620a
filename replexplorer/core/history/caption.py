"""What just happened, in one sentence for a room, and the one number that matters meanwhile.

Law: a caption says what follows for a commit, with the names and figures of the two moments it compares; what
is unknown is left out of it. It is short enough for two rows of a small screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from replexplorer.core.fault import Fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName, Place, Value, format_value
from replexplorer.core.link_view import LinkView
from replexplorer.core.server.durability import redo_fsyncs
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick

MOST_CHARACTERS: Final = 120
_NEAR_MS: Final = 1.0
"""Below it, a distance is not a figure that matters."""
_STOPPED: Final = (ProtectionState.DOWN, ProtectionState.BLOCKED)


class Matters(StrEnum):
    """What the one number is of."""

    TPS = "tps"
    WAIT = "wait"
    AT_RISK = "at risk"


class Headline(NamedTuple):
    """The one number that matters now."""

    matters: Matters
    value: float | None
    """Commits a second, seconds or commits; None when unknown."""
    words: str
    """What it counts."""


def headline(tick: Tick, tps: float | None) -> Headline:
    """How long commits have waited while none gets through, what the loss of the source would take while
    semi-sync has given up, else the throughput, which is `tps`."""
    protection = tick.protection
    if protection.state in _STOPPED:
        since_s = None if protection.since_s is None else tick.at_s - protection.since_s
        waited = [each for each in (protection.oldest_wait_s, since_s) if each is not None]
        return Headline(Matters.WAIT, max(waited, default=None), "seconds without a commit")
    at_risk = None if tick.exposure is None else tick.exposure.source_lost
    if protection.state is ProtectionState.DEGRADED and at_risk is not None:
        source = tick.source.name if tick.source else "the source"
        if isinstance(at_risk, Loss):
            return Headline(Matters.AT_RISK, at_risk.commits, f"commits lost if {source} were lost")
        if at_risk.low:
            return Headline(Matters.AT_RISK, at_risk.low, f"commits or more lost if {source} were lost")
    return Headline(Matters.TPS, tps, "commits a second")


def caption(before: Tick, now: Tick) -> str:
    """What happened between two moments, the most important of it; empty where nothing did."""
    for said in (_source_moved, _state_turned, _fault_came_or_went, _knobs_turned):
        text = said(before, now)
        if text:
            return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1].rstrip() + "…"
    return ""


def _source_moved(before: Tick, now: Tick) -> str:
    was, now_is = before.source, now.source
    if was is None or now_is is None or was.name == now_is.name:
        return ""
    return f"{now_is.name} is the source now: clients write there, not to {was.name}"


def _state_turned(before: Tick, now: Tick) -> str:
    was, protection = before.protection.state, now.protection
    state = protection.state
    if state is was or now.state == "starting":
        return ""
    source = now.source.name if now.source else "the source"
    if state is ProtectionState.DOWN:
        return f"{source} is down: no commit gets through"
    if state is ProtectionState.BLOCKED:
        what = (
            "no majority answers" if protection.by_majority else f"no acknowledgement from {_replicas(now)}"
        )
        return f"every commit waits: {what}"
    if state is ProtectionState.DEGRADED:
        return f"semi-sync has given up waiting: a commit is answered with its row on {source} alone"
    if state is ProtectionState.OFF and protection.requested and was is ProtectionState.DOWN:
        return f"{source} came back without semi-sync: a commit waits for no replica now"
    if was in (*_STOPPED, ProtectionState.DEGRADED):
        return _recovered(was, state, source, now)
    return ""


def _recovered(was: ProtectionState, state: ProtectionState, source: str, now: Tick) -> str:
    """After a state in which something was wrong."""
    if state is ProtectionState.PROTECTED and not now.protection.by_majority:
        return f"protected again: every commit waits for {_waits_for(now)}"
    if was is ProtectionState.DOWN:
        return f"{source} answers again: commits get through"
    return "commits get through again" if was is ProtectionState.BLOCKED else ""


def _fault_came_or_went(before: Tick, now: Tick) -> str:
    known = {fault.id for fault in before.faults}
    for fault in reversed(now.faults):
        if fault.id not in known:
            return fault_words(fault, now.source.name if now.source else "the source")
    present = {fault.id for fault in now.faults}
    for fault in before.faults:
        if fault.id not in present:
            return f"mended: the fault {fault} is over"
    return ""


_FAULTS: Final[Mapping[str, str]] = {
    "kill": "mysqld of {node} was killed: what it wrote is still in the page cache",
    "stop": "mysqld of {node} was shut down in order",
    "pause": "mysqld of {node} is frozen: connections stay open and nothing answers",
    "power_cut": "the machine of {node} lost its power: what no fsync made durable is gone",
    "isolate": "{node} is cut off from every other node: only its clients reach it",
    "flap": "the line to {node} goes down and comes up, over and over",
    "applier_stop": "{node} receives and acknowledges every commit and applies none",
    "receiver_stop": "{node} receives nothing any more, and acknowledges nothing",
    "disk_stall": "each fsync of {node} takes {value} ms longer now",
    "disk_full": "the disk of {node} is full: its writes fail",
}
_PARTITIONS: Final = {
    "both": "the line between {source} and {node} is cut, both ways",
    "ack": "acknowledgements from {node} are lost on their way to {source}",
    "dump": "nothing that {source} sends reaches {node}",
}


def fault_words(fault: Fault, source: str) -> str:
    """A fault that has just begun."""
    if fault.kind == "partition":
        words = _PARTITIONS.get(fault.value or "both", _PARTITIONS["both"])
    else:
        words = _FAULTS.get(fault.kind, "fault {kind} at {node}")
    return words.format(node=fault.node, value=fault.value, kind=fault.kind, source=source)


def _knobs_turned(before: Tick, now: Tick) -> str:
    turned = [(name, *values) for name in now.knobs if (values := _turned(name, before, now)) is not None]
    if not turned:
        return ""
    first, old, new = min(turned, key=lambda one: _rank(one[0].key))
    words = _KNOBS.get(first.key, _any_knob)(first, old, new, now)
    others = len({name.key for name, *_ in turned} - {first.key})
    more = f" (and {others} more setting{'' if others == 1 else 's'})" if others else ""
    return words + more if len(words + more) <= MOST_CHARACTERS else words


def _turned(name: KnobName, before: Tick, now: Tick) -> tuple[Value, Value] | None:
    """What was in effect and what is now, where both are known and differ. Of the load what was asked: it
    rests between the stages of a lesson, which is nothing to read about."""
    view, was = now.knobs[name], before.knobs.get(name)
    if was is not None and name.node == Place.LOAD:
        return None if was.requested == view.requested else (was.requested, view.requested)
    if was is None or was.effective is None or view.effective is None or was.effective == view.effective:
        return None
    return was.effective, view.effective


def _rank(key: str) -> int:
    return _IMPORTANT.index(key) if key in _IMPORTANT else len(_IMPORTANT)


def _semi_sync(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new == "on":
        return f"semi-sync on: every commit now waits for {_waits_for(now)}"
    return "semi-sync off: a commit waits for no replica, and its loss with the source is silent"


def _wait_point(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new == "after_sync":
        return "wait point AFTER_SYNC: nobody sees a row before a replica has it"
    return "wait point AFTER_COMMIT: others see a row while its commit still waits for a replica"


def _rtt(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    near = isinstance(new, (int, float)) and new < _NEAR_MS
    said = "next door" if near else f"{format_value(name.knob, new)} away"
    waits = now.protection.state in (
        ProtectionState.PROTECTED,
        ProtectionState.ARMED,
        ProtectionState.BLOCKED,
    )
    then = "a commit pays that round trip" if waits else "a commit does not wait for it"
    return f"{name.node} is {said} now{'' if near else f': {then}'}"


def _sync_binlog(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new == 1:
        return "sync_binlog 1: every group of commits is on disk in the binlog before it is answered"
    when = "when the system likes" if new == 0 else f"every {new} groups"
    flush = now.knobs.get(KnobName(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, SOURCE))
    if flush is not None and redo_fsyncs(flush.effective):
        then = "a power cut leaves commits in InnoDB that the binlog lacks"
    else:
        then = "a power cut takes the rest of it"
    return f"sync_binlog {new}: the binlog is fsynced {when}; {then}"


def _flush(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new in (1, 3):
        return f"innodb_flush {new}: the redo log is on disk before a commit is answered"
    lost = "the death of mysqld" if new == 0 else "a power cut"
    return f"innodb_flush {new}: the redo log reaches the disk once a second; {lost} takes what is younger"


def _partition(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    source = now.source.name if now.source else "the source"
    if new == "none":
        return f"the line between {source} and {name.node} is whole again"
    return _PARTITIONS.get(str(new), _PARTITIONS["both"]).format(source=source, node=name.node)


def _fsync_delay(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    node = (now.source.name if now.source else "the source") if name.node == SOURCE else name.node
    return f"each fsync of {node} takes {format_value(name.knob, new)} longer than its disk needs"


def _clients(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new == 0:
        return "the load has stopped: no client commits"
    each = "client commits, one transaction" if new == 1 else "clients commit, each one transaction"
    return f"{new} {each} at a time"


def _load_mode(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    if new == "open":
        return "open loop: transactions arrive whatever the server does, and latency counts from then"
    return "closed loop: each client sends its next transaction when the last is answered"


def _timeout(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    return f"semi-sync waits at most {format_value(name.knob, new)} for an acknowledgement, then gives up"


def _acks(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    return f"a commit needs {new} acknowledgement{'' if new == 1 else 's'}: it waits for {_waits_for(now)}"


def _any_knob(name: KnobName, old: Value, new: Value, now: Tick) -> str:
    """Any other: what it was and is, and what it does where there is room for that."""
    knob = name.knob
    at = f" of {name.node}" if name.node not in (SOURCE, "load") else ""
    text = f"{knob.label}{at}: {format_value(knob, old)} before, {format_value(knob, new)} now"
    does = knob.help.partition(";")[0].rstrip(".")
    long = f"{text} ({does[:1].lower()}{does[1:]})"
    return long if len(long) <= MOST_CHARACTERS - len(" (and 99 more settings)") else text


_Words = Callable[[KnobName, Value, Value, Tick], str]
_KNOBS: Final[Mapping[str, _Words]] = {
    keys.SEMI_SYNC: _semi_sync,
    keys.PARTITION: _partition,
    keys.SEMI_SYNC_REPLICAS: _acks,
    keys.WAIT_POINT: _wait_point,
    keys.RTT: _rtt,
    keys.SYNC_BINLOG: _sync_binlog,
    keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT: _flush,
    keys.FSYNC_DELAY: _fsync_delay,
    keys.SEMI_SYNC_TIMEOUT: _timeout,
    keys.CLIENTS: _clients,
    keys.LOAD_MODE: _load_mode,
}
"""Words of a knob's own, the most important first."""
_IMPORTANT: Final = (*_KNOBS,)


def _replicas(tick: Tick) -> str:
    """`db2`, `db2 or db3`, `any of 3 replicas`."""
    names = [node.name for node in tick.replicas]
    if len(names) > 2:
        return f"any of {len(names)} replicas"
    return " or ".join(names) or "any replica"


def _waits_for(tick: Tick) -> str:
    """Whose acknowledgement a commit waits for: `db2, 85 ms away`, `the nearest of db2 and db3, 10 ms
    away`."""
    needed = _needed(tick)
    links = sorted((link for link in tick.links if not link.is_cut), key=_distance_ms)
    if not links or needed > len(links):
        return "more replicas than can answer" if tick.replicas else "a replica, and there is none"
    away = _away(_distance_ms(links[needed - 1]))
    names = [link.replica for link in sorted(links, key=lambda link: link.replica)]
    if len(names) == 1:
        return f"{names[0]}, {away}"
    if needed == len(names):
        return f"{_and(names)}, the farthest {away}"
    which = "the nearest" if needed == 1 else f"the nearest {needed}"
    return f"{which} of {_and(names)}, {away}"


def _needed(tick: Tick) -> int:
    """Acknowledgements that a commit waits for; 1 where that is unknown."""
    view = next((view for name, view in tick.knobs.items() if name.key == keys.SEMI_SYNC_REPLICAS), None)
    needed = view.effective if view is not None else tick.protection.replicas_required
    return max(1, needed) if isinstance(needed, int) else 1


def _distance_ms(link: LinkView) -> float:
    """The round trip as measured, else as asked."""
    return link.rtt_asked_ms if link.rtt_measured_ms is None else link.rtt_measured_ms


def _away(ms: float) -> str:
    return "next door" if ms < _NEAR_MS else f"{ms:.0f} ms away" if ms >= 10 else f"{ms:.1f} ms away"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

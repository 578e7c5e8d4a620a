"""What just happened, in one sentence for a room, and the one number that matters meanwhile.

Law: a caption says what follows for a commit, with the names and figures of the two moments it compares; what
is unknown is left out of it. It is short enough for two rows of a small screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from replexplorer.core.fault import PARTITION_FAULT, begun_words, kind_of
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName, Place, Value, format_value
from replexplorer.core.link import LinkView
from replexplorer.core.server.comeback import redo_fsyncs
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.protection import WAITING, ProtectionState
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
        source = _source(tick)
        if isinstance(at_risk, Loss):
            return Headline(Matters.AT_RISK, at_risk.commits, f"commits lost if {source} were lost")
        if at_risk.low:
            return Headline(Matters.AT_RISK, at_risk.low, f"commits or more lost if {source} were lost")
    return Headline(Matters.TPS, tps, "commits a second")


def caption(before: Tick, now: Tick) -> str:
    """What happened between two moments, the most important of it; empty where nothing did."""
    for said in (_source_moved, _state_changed, _fault_came_or_went, _knobs_changed):
        if text := said(before, now):
            return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1].rstrip()}…"
    return ""


def _source(tick: Tick) -> str:
    return tick.source.name if tick.source else "the source"


def _source_moved(before: Tick, now: Tick) -> str:
    was, now_is = before.source, now.source
    if was is None or now_is is None or was.name == now_is.name:
        return ""
    return f"{now_is.name} is the source now: clients write there, not to {was.name}"


def _state_changed(before: Tick, now: Tick) -> str:
    was, state, by_majority = before.protection.state, now.protection.state, now.protection.by_majority
    if state is was or now.state == "starting":
        return ""
    source = _source(now)
    match was, state:
        case _, ProtectionState.DOWN:
            return f"{source} is down: no commit gets through"
        case _, ProtectionState.BLOCKED:
            names = " or ".join(node.name for node in now.replicas) or "any replica"
            why = "no majority answers" if by_majority else f"no acknowledgement from {names}"
            return f"every commit waits: {why}"
        case _, ProtectionState.DEGRADED:
            return f"semi-sync timed out: commits now succeed with the data on {source} only"
        case ProtectionState.DOWN, ProtectionState.OFF if now.protection.requested:
            return f"{source} came back without semi-sync: commits no longer wait"
        case (
            ProtectionState.DOWN | ProtectionState.BLOCKED | ProtectionState.DEGRADED,
            ProtectionState.PROTECTED,
        ) if not by_majority:
            return f"protected again: every commit waits for {_waits_for(now)}"
        case ProtectionState.DOWN, _:
            return f"{source} answers again: commits get through"
        case ProtectionState.BLOCKED, _:
            return "commits get through again"
    return ""


def _fault_came_or_went(before: Tick, now: Tick) -> str:
    known, present = ({fault.id for fault in tick.faults} for tick in (before, now))
    came = [
        begun_words(each.row, each.value, each.node, _source(now))
        for each in now.faults
        if each.id not in known
    ]
    went = [f"fault cleared: {each}" for each in before.faults if each.id not in present]
    return next(iter([*reversed(came), *went]), "")


_SAYS: Final[Mapping[tuple[str, Value | None], str]] = {
    (keys.SEMI_SYNC, "on"): "semi-sync on: every commit now waits for {waits_for}",
    (
        keys.SEMI_SYNC,
        None,
    ): "semi-sync off: commits do not wait; if the source is lost, they are lost silently",
    (keys.PARTITION, "none"): "the link between {source} and {node} is restored",
    (keys.SEMI_SYNC_REPLICAS, 1): "a commit needs 1 acknowledgement: it waits for {waits_for}",
    (keys.SEMI_SYNC_REPLICAS, None): "a commit needs {raw} acknowledgements: it waits for {waits_for}",
    (keys.WAIT_POINT, "after_sync"): "wait point AFTER_SYNC: no one sees a row before a replica has it",
    (keys.WAIT_POINT, None): (
        "wait point AFTER_COMMIT: others see a row while its commit still waits for a replica"
    ),
    (keys.RTT, None): "{node} is {value} away now: a commit {pays}",
    (keys.SYNC_BINLOG, 1): (
        "sync_binlog 1: every group of commits is on disk in the binlog before it is answered"
    ),
    (
        keys.SYNC_BINLOG,
        0,
    ): "sync_binlog 0: the kernel decides when the binlog is fsynced; a power cut {leaves}",
    (keys.SYNC_BINLOG, None): (
        "sync_binlog {raw}: the binlog is fsynced every {raw} groups; a power cut {leaves}"
    ),
    (keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, 0): (
        "innodb_flush 0: the redo log reaches the disk once a second; if mysqld dies, newer commits are lost"
    ),
    (keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, 2): (
        "innodb_flush 2: the redo log reaches the disk once a second; a power cut loses newer commits"
    ),
    (keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, None): (
        "innodb_flush {raw}: the redo log is on disk before a commit is answered"
    ),
    (keys.FSYNC_DELAY, None): "each fsync of {node} takes {value} longer than its disk needs",
    (keys.SEMI_SYNC_TIMEOUT, None): ("semi-sync waits at most {value} for an acknowledgement, then gives up"),
    (keys.CLIENTS, 0): "the load has stopped: no client commits",
    (keys.CLIENTS, 1): "1 client commits, one transaction at a time",
    (keys.CLIENTS, None): "{raw} clients commit, each one transaction at a time",
    (keys.LOAD_MODE, "open"): (
        "open loop: transactions arrive whatever the server does, and latency counts from then"
    ),
    (keys.LOAD_MODE, None): ("closed loop: each client sends its next transaction when the last is answered"),
}
"""What a knob says at a value, or at any other; the most important knobs first."""
_IMPORTANT: Final = list(dict.fromkeys(key for key, _ in _SAYS))


def _knobs_changed(before: Tick, now: Tick) -> str:
    changed = [name for name in now.knobs if _in_effect(before, name) != _in_effect(now, name)]
    changed = [name for name in changed if None not in (_in_effect(before, name), _in_effect(now, name))]
    if not changed:
        return ""
    rank = {key: place for place, key in enumerate(_IMPORTANT)}
    first = min(changed, key=lambda name: rank.get(name.key, len(rank)))
    words = _knob_words(first, before, now)
    others = len({name.key for name in changed} - {first.key})
    more = f" (and {others} more setting{'' if others == 1 else 's'})" if others else ""
    return words + more if len(words + more) <= MOST_CHARACTERS else words


def _in_effect(tick: Tick, name: KnobName) -> Value | None:
    """What is in effect; None: not known. Of the load what was asked: it rests between the stages of a
    lesson, which is nothing to read about."""
    view = tick.knobs.get(name)
    if view is None:
        return None
    return view.requested if name.node == Place.LOAD else view.effective


def _knob_words(name: KnobName, before: Tick, now: Tick) -> str:
    """What the knob's new value means; of one without words of its own what it was and is, and what it
    does."""
    knob, source, new = name.knob, _source(now), _in_effect(now, name)
    if name.key == keys.PARTITION and new != "none":
        return begun_words(kind_of(PARTITION_FAULT), str(new), name.node, source)
    said = _SAYS.get((name.key, new)) or _SAYS.get((name.key, None))
    if said is None:
        at = f" of {name.node}" if name.node not in (SOURCE, "load") else ""
        was, value = (format_value(knob, _in_effect(tick, name) or 0) for tick in (before, now))
        text, does = f"{knob.label}{at}: {was} before, {value} now", knob.help.partition(";")[0].rstrip(".")
        long = f"{text} ({does[:1].lower()}{does[1:]})"
        return long if len(long) <= MOST_CHARACTERS - len(" (and 99 more settings)") else text
    flush = now.knobs.get(KnobName(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, SOURCE))
    is_redo_kept = flush is not None and redo_fsyncs(flush.effective)
    return said.format(
        node=source if name.node == SOURCE else name.node,
        source=source,
        raw=new,
        value=format_value(knob, new or 0),
        waits_for=_waits_for(now),
        pays="pays that round trip" if now.protection.state in WAITING else "does not wait for it",
        leaves="leaves commits in InnoDB that the binlog lacks" if is_redo_kept else "takes the rest of it",
    )


def _waits_for(tick: Tick) -> str:
    """Whose acknowledgement a commit waits for: `db2, 85 ms away`, `the nearest of db2 and db3, 10 ms
    away`."""
    asked = next(
        (view.effective for name, view in tick.knobs.items() if name.key == keys.SEMI_SYNC_REPLICAS), None
    )
    needed = max(1, asked) if isinstance(asked, int) else 1
    links = sorted((link for link in tick.links if not link.is_cut), key=_distance_ms)
    if not links or needed > len(links):
        return "more replicas than can answer" if tick.replicas else "a replica, and there is none"
    away_ms = _distance_ms(links[needed - 1])
    away = "next door" if away_ms < _NEAR_MS else f"{away_ms:.{0 if away_ms >= 10 else 1}f} ms away"
    *names, last = sorted(link.replica for link in links)
    of = f"{', '.join(names)} and {last}" if names else last
    if not names or needed == len(links):
        return f"{of}, {'the farthest ' if names else ''}{away}"
    return f"the nearest {'' if needed == 1 else f'{needed} '}of {of}, {away}"


def _distance_ms(link: LinkView) -> float:
    """The round trip as measured, else as asked."""
    return link.rtt_asked_ms if link.rtt_measured_ms is None else link.rtt_measured_ms

"""Is the next commit safe on a replica? Counters and settings to one word.

Law: the table of docs/explanation/protection-states.md, first match wins; what is unknown never counts as
evidence of safety.

The protection states one after the other: when each began, what went unprotected, what is an outage.

Law: a state is taken for an outage only when no change is under way that may be all there is to it, and
semi-sync found off though asked for only when it stays so for a while: who switches it off writes the
request down a moment later. Commits are counted by the binlog (`Binlog_cache_use`): the semi-sync
counters count queues under after_sync (docs/explanation/semi-sync.md, trap 1).

The protection states in words, for the screen, `status`, the log and reports: a name, a meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from replexplorer.core.event import Severity
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.counters import Sample, ServerStatus, restarted

_LEAST_BLOCKED_S: Final = 1.0
_BLOCKED_ROUND_TRIPS: Final = 3


class ProtectionState(StrEnum):
    """Whether the next commit is safe on a replica (docs/explanation/protection-states.md)."""

    PROTECTED = "protected"
    ARMED = "armed"
    OFF = "off"
    BLOCKED = "blocked"
    DEGRADED = "degraded"
    DOWN = "down"


WAITING: Final = frozenset({ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED})
"""In these a commit waits for an acknowledgement."""


@json_keys(hide="by_majority since_s settled unprotected")
@frozen
class Protection:
    """The protection state with the evidence for it."""

    state: ProtectionState
    requested: bool
    """Semi-sync was requested."""
    operational: bool | None = None
    """The source's own `status`."""
    replicas_acking: int | None = None
    """Replicas that acknowledge: registered with the source and connected to it."""
    replicas_required: int | None = None
    """None where semi-sync is not installed."""
    wait_point: str | None = None
    timeout_ms: int | None = None
    fallbacks: int | None = None
    """Silent falls back to async by timeout since server start."""
    replicas_counted: int | None = None
    """As the source counts them: a connection that is gone and was not missed yet is among them."""
    no_ack_can_come: bool = False
    """Commits wait for an acknowledgement, and the links in force leave too few replicas whose
    acknowledgement could arrive."""
    oldest_wait_s: float | None = None
    """While blocked: age of the oldest commit that waits for its acknowledgement."""
    waiting: int | None = None
    """While blocked: commits under way in the server, all behind that one; None when unknown."""
    by_majority: bool = False
    """Of a group: what answers, or does not, is a majority of its members."""
    since_s: float | None = None
    """When this state began, on the session's clock; None when unknown."""
    settled: bool = True
    """False while a change is under way that may be all there is to the state: no outage yet."""
    diverged: tuple[str, ...] = ()
    """Nodes that acknowledge and lack what the source has for good: theirs is not evidence of safety."""
    unprotected: int | None = None
    """Commits of the session confirmed to clients without an acknowledgement, while semi-sync was
    asked for; None if not counted."""


@frozen
class Evidence:
    """All that the state is judged by, of one moment; None is unknown."""

    reachable: bool
    """A login to the primary works."""
    requested: bool
    """The requested document says semi_sync=on."""
    enabled: bool | None = None
    """The source's `enabled` variable; None where the server has no semi-sync."""
    wait_point: str | None = None
    timeout_ms: int | None = None
    required: int | None = None
    """Acknowledgements that a commit needs; None on servers without that variable, which need 1."""
    status: ServerStatus = field(default_factory=ServerStatus)
    yes_tx_at_enabling: int | None = None
    """`yes_tx` as kept when we last enabled it; None when it was enabled by hand."""
    enabled_for_s: float | None = None
    """How long ago that was; None unknown."""
    asked_rtts_ms: tuple[float, ...] = ()
    oldest_wait_s: float | None = None
    """Age of the oldest commit that waits for its acknowledgement; None when none waits."""
    waiting: int | None = None
    """Commits under way in the server; None when unknown."""
    acks_since_last: int | None = None
    """Acknowledgements since the sample before (`acks_between`)."""
    logged_timeouts: int | None = None
    """Timeouts that the server has logged since its start; None if unreadable."""
    replicas_able: int | None = None
    """Replicas that may acknowledge: none of those whose own threads or registration say otherwise;
    None: only the source is asked."""
    diverged: tuple[str, ...] = ()
    """Nodes that acknowledge and lack what the source has for good."""
    links_open: int | None = None
    """Replicas whose packets arrive at the source, and its own there; None unknown."""
    own_offs: int = 0
    """Times that we switched it off since server start; each counts in the server's `no_times`."""


def acks_between(before: ServerStatus | None, after: ServerStatus) -> int | None:
    """Acknowledged waits between two samples; None when unknown or the counter was reset."""
    if before is None or before.yes_tx is None or after.yes_tx is None or after.yes_tx < before.yes_tx:
        return None
    return after.yes_tx - before.yes_tx


def acknowledging(counted: int | None, able: int | None) -> int | None:
    """Replicas that acknowledge: the source counts connections, also one that is gone and that it has not
    missed yet, so never more than there are able."""
    if counted is None or able is None:
        return counted
    return min(counted, able)


def judge(evidence: Evidence) -> Protection:
    """The protection state with the figures that it rests on."""
    if not evidence.reachable:
        return Protection(ProtectionState.DOWN, requested=evidence.requested)
    state = _state(evidence)
    is_blocked = state is ProtectionState.BLOCKED
    return Protection(
        state=state,
        requested=evidence.requested,
        operational=evidence.status.operational,
        replicas_acking=acknowledging(evidence.status.clients, evidence.replicas_able),
        replicas_counted=evidence.status.clients,
        replicas_required=None if evidence.enabled is None else _required(evidence),
        wait_point=evidence.wait_point,
        timeout_ms=evidence.timeout_ms,
        no_ack_can_come=(
            state in WAITING and evidence.links_open is not None and evidence.links_open < _required(evidence)
        ),
        fallbacks=_fallbacks(evidence),
        oldest_wait_s=evidence.oldest_wait_s if is_blocked else None,
        waiting=evidence.waiting if is_blocked else None,
        diverged=evidence.diverged,
    )


def _state(evidence: Evidence) -> ProtectionState:
    status = evidence.status
    if not evidence.enabled:
        return ProtectionState.OFF
    if status.operational is False:
        return ProtectionState.DEGRADED
    if _is_blocked(evidence):
        return ProtectionState.BLOCKED
    acking = acknowledging(status.clients, evidence.replicas_able)
    enough = acking is not None and acking >= _required(evidence)
    if status.operational and enough and not evidence.diverged and _acknowledged_since_enabling(evidence):
        return ProtectionState.PROTECTED
    return ProtectionState.ARMED


def _required(evidence: Evidence) -> int:
    return 1 if evidence.required is None else evidence.required


def _is_blocked(evidence: Evidence) -> bool:
    patience_s = blocked_after_s(evidence.asked_rtts_ms)
    waits_long = evidence.oldest_wait_s is not None and evidence.oldest_wait_s > patience_s
    return waits_long and evidence.acks_since_last == 0


def blocked_after_s(asked_rtts_ms: tuple[float, ...]) -> float:
    """How old a waiting commit must be to be called blocked: max(1 s, 3 x the largest asked RTT)."""
    return max(_LEAST_BLOCKED_S, _BLOCKED_ROUND_TRIPS * max(asked_rtts_ms, default=0.0) / 1000)


def _acknowledged_since_enabling(evidence: Evidence) -> bool:
    """Counters that were reset since (FLUSH STATUS, a restart) count from 0: the server says when that
    was, and one below the kept one was in any case."""
    now, kept = evidence.status.yes_tx, evidence.yes_tx_at_enabling
    if now is None:
        return False
    is_kept = kept is not None and kept <= now and not _reset_since_enabling(evidence)
    return now > (kept if is_kept and kept is not None else 0)


def _reset_since_enabling(evidence: Evidence) -> bool:
    """Whether the counters began at 0 after the enabling; whole seconds must not make it so."""
    since_flush_s, enabled_for_s = evidence.status.since_flush_s, evidence.enabled_for_s
    return since_flush_s is not None and enabled_for_s is not None and since_flush_s + 1 < enabled_for_s


def _fallbacks(evidence: Evidence) -> int | None:
    """Timeouts, where they are told; else each time that semi-sync went off by another hand than ours, which
    may have been somebody's SET: at most as many timeouts."""
    if evidence.logged_timeouts is not None:
        return evidence.logged_timeouts
    switched = evidence.status.no_times
    return None if switched is None else max(0, switched - evidence.own_offs)


_OFF_PATIENCE_S: Final = 3.0
_ALWAYS: Final = frozenset({ProtectionState.BLOCKED, ProtectionState.DEGRADED, ProtectionState.DOWN})
_SOUND: Final = frozenset({ProtectionState.PROTECTED, ProtectionState.OFF})
"""What ends an outage; armed is on its way."""


@frozen
class Look:
    """The primary at one moment."""

    at_s: float
    protection: Protection
    counters: Sample
    enabled: bool = False
    """The source's switch is on."""


@frozen
class OutageSpan:
    """A stretch of an outage in one state."""

    state: ProtectionState
    from_s: float
    to_s: float
    unprotected: int = 0
    """Commits within it."""
    is_first: bool = False
    """Of its state: it begins when the oldest waiting commit did, before anybody saw it."""


@frozen
class StateChange:
    """One state gave way to another."""

    at_s: float
    before: ProtectionState
    after: ProtectionState
    lasted_s: float
    """The state before."""
    is_outage: bool = False
    """The state after is one."""
    outage_s: float | None = None
    """When the outage began that this turn ended; None when it ended none."""
    unprotected: int = 0
    """Commits in that outage."""


@frozen
class Seen:
    """What one look brought."""

    stretches: tuple[OutageSpan, ...] = ()
    turn: StateChange | None = None


def is_outage(protection: Protection) -> bool:
    """Whether commits stand still or go unprotected though semi-sync is asked for, or none can be made."""
    if protection.state is ProtectionState.OFF:
        return protection.requested
    return protection.state in _ALWAYS


class States:
    """Follows the primary look by look."""

    def __init__(self) -> None:
        self._last: Look | None = None
        self.state = ProtectionState.OFF
        """The one in force, after the first look."""
        self.since_s = 0.0
        """When it began."""
        self.unprotected = 0
        """Commits since the first look."""
        self.in_outage = False
        """The state in force is an outage."""
        self._outage_s: float | None = None
        self._outage_unprotected = 0
        self._held: tuple[ProtectionState, float] | None = None
        """An outage that is not taken for one yet, and when it was first seen."""
        self._held_unprotected = 0

    @property
    def settled(self) -> bool:
        """The state of the last look is the one in force."""
        return self._held is None

    def see(self, look: Look, *, changing: bool = False) -> Seen:
        """Take a look; `changing`: a change is under way."""
        last, self._last = self._last, look
        turned_s = self._turned_s(last, look)
        unprotected = unprotected_between(last, look) if last is not None else 0
        if last is not None and self._must_wait(look, turned_s, changing=changing):
            self._held_unprotected += unprotected
            return Seen(self._stay(last, look, 0))
        if self._held is not None:
            unprotected += self._held_unprotected if is_outage(look.protection) else 0
            self._held, self._held_unprotected = None, 0
        self.unprotected += unprotected
        state = look.protection.state
        if last is None:
            self._begin(state, turned_s, look)
            return Seen((self._stretch(turned_s, look.at_s, 0, is_first=True),) if self.in_outage else ())
        if state is self.state and is_outage(look.protection) == self.in_outage:
            return Seen(self._stay(last, look, unprotected))
        return self._turn(last, look, turned_s, unprotected)

    def _must_wait(self, look: Look, turned_s: float, *, changing: bool) -> bool:
        """Whether this look's outage is not to be taken for one yet."""
        state = look.protection.state
        if self.in_outage and (state is not ProtectionState.OFF or self.state is ProtectionState.DOWN):
            return False
        if not is_outage(look.protection) or (state is self.state and self.in_outage):
            return False
        if self._held is None or self._held[0] is not state:
            self._held = state, turned_s
        patience_s = _OFF_PATIENCE_S if state is ProtectionState.OFF else 0.0
        return changing or look.at_s - self._held[1] < patience_s

    def _turned_s(self, last: Look | None, look: Look) -> float:
        """When the look's state began, as closely as is known."""
        state = look.protection.state
        if self._held is not None and self._held[0] is state:
            return self._held[1]
        low_s = self.since_s if last is not None and not self.in_outage else None
        if last is not None and self.in_outage:
            low_s = last.at_s
        began_s = look.at_s
        if state is ProtectionState.BLOCKED:
            began_s -= look.protection.oldest_wait_s or 0.0
        elif self.state is ProtectionState.BLOCKED and state is ProtectionState.DEGRADED:
            began_s = self.since_s + (look.protection.timeout_ms or 0) / 1000
        return min(look.at_s, began_s if low_s is None else max(low_s, began_s))

    def _turn(self, last: Look, look: Look, turned_s: float, unprotected: int) -> Seen:
        """Another state is in force."""
        before, was_outage, since_s = self.state, self.in_outage, self.since_s
        outage_s, counted = self._outage_s, self._outage_unprotected
        is_now = is_outage(look.protection)
        stretches = []
        if was_outage:
            # The rest of the state before; commits belong to whichever of the two went unprotected.
            stretches.append(self._stretch(last.at_s, turned_s, 0 if is_now else unprotected))
            counted = self._outage_unprotected
        self._begin(look.protection.state, turned_s, look)
        if is_now:
            stretches.append(self._stretch(turned_s, look.at_s, unprotected, is_first=True))
        over = outage_s is not None and look.protection.state in _SOUND and not is_now
        turn = StateChange(
            turned_s,
            before,
            look.protection.state,
            max(0.0, turned_s - since_s),
            is_now,
            outage_s if over else None,
            counted if over else 0,
        )
        return Seen(tuple(stretches), turn)

    def _begin(self, state: ProtectionState, since_s: float, look: Look) -> None:
        self.state, self.since_s = state, since_s
        self.in_outage = is_outage(look.protection)
        if self.in_outage and self._outage_s is None:
            self._outage_s, self._outage_unprotected = since_s, 0
        elif not self.in_outage and state in _SOUND:
            self._outage_s = None

    def _stay(self, last: Look, look: Look, unprotected: int) -> tuple[OutageSpan, ...]:
        """The state in force goes on."""
        return (self._stretch(last.at_s, look.at_s, unprotected),) if self.in_outage else ()

    def _stretch(self, from_s: float, to_s: float, unprotected: int, *, is_first: bool = False) -> OutageSpan:
        self._outage_unprotected += unprotected
        return OutageSpan(self.state, from_s, to_s, unprotected, is_first)


def unprotected_between(before: Look, after: Look) -> int:
    """Commits between two looks confirmed to clients without an acknowledgement, while semi-sync
    was asked for; 0 where that is unknown.

    Where some were acknowledged and some not, the binlog's commits are shared out as the queues were.
    Those that a timeout released had gone to the binlog before.
    """
    if restarted(before.counters, after.counters):
        return 0
    commits = _grown(before.counters.status.binlog_cache_use, after.counters.status.binlog_cache_use)
    if not before.enabled and not after.enabled:
        is_off = before.protection.state is after.protection.state is ProtectionState.OFF
        return commits if is_off and before.protection.requested and after.protection.requested else 0
    if not (before.enabled and after.enabled):
        return 0
    alone = _grown(before.counters.status.no_tx, after.counters.status.no_tx)
    acknowledged = _grown(before.counters.status.yes_tx, after.counters.status.yes_tx)
    if not alone:
        return 0
    released = 0
    if before.protection.state is ProtectionState.BLOCKED and after.protection.state in _ALWAYS:
        released = before.protection.waiting or 0
    return max(alone, round(commits * alone / (alone + acknowledged)) + released)


def _grown(before: int | None, after: int | None) -> int:
    """How much a counter grew; one that was reset grew at least to what it says now."""
    if before is None or after is None:
        return 0
    return after if after < before else after - before


PROTECTED, ARMED, ASYNC, BLOCKED, DEGRADED, DOWN = (
    ProtectionState.PROTECTED,
    ProtectionState.ARMED,
    ProtectionState.OFF,
    ProtectionState.BLOCKED,
    ProtectionState.DEGRADED,
    ProtectionState.DOWN,
)
MEANINGS: Final[Mapping[ProtectionState, str]] = {
    PROTECTED: "a commit is on a replica before it is acknowledged",
    ARMED: "semi-sync is on; no replica has acknowledged a commit since it was turned on",
    ASYNC: "a commit is acknowledged before a replica has it, and may be lost with the source",
    BLOCKED: "commits wait for an acknowledgement that does not come",
    DEGRADED: "semi-sync is on and fell back: a commit is acknowledged before a replica has it",
    DOWN: "no login to the source succeeds",
}
"""What a state means where nothing else is known."""
OF_A_GROUP: Final[Mapping[ProtectionState, str]] = {
    PROTECTED: "a majority of the members answers",
    BLOCKED: "no majority of the members answers, or none of them takes writes",
    DOWN: "no node answers",
}
"""The same of a group, which has no other states."""


def word_of(state: str) -> str:
    """A state's name for people: `off` in JSON is ASYNC."""
    return "ASYNC" if state == ASYNC else state.upper()


def meaning_of(found: Protection, *, is_group: bool = False) -> str:
    """What the state means now, with what else decides about the next commit."""
    state = found.state
    if is_group:
        return OF_A_GROUP.get(state, MEANINGS[state])
    meaning = MEANINGS[state]
    if state is ASYNC and found.replicas_required is None:
        meaning = f"semi-sync is not installed; {meaning}"
    elif state is ASYNC:
        meaning = f"semi-sync is off{' though it was requested' * bool(found.requested)}; {meaning}"
    elif state is ARMED and found.diverged:
        meaning = f"an acknowledgement may be that of {', '.join(found.diverged)}, which has diverged"
    elif state is ARMED and found.replicas_acking is not None and found.replicas_required is not None:
        if found.replicas_acking < found.replicas_required:
            connected = f"{found.replicas_acking} of {found.replicas_required} replicas connected"
            meaning = f"{connected}: {_next_waits(found)}"
    elif state is BLOCKED:
        meaning += _at_most(found)
    if not found.no_ack_can_come:
        return meaning
    if state is PROTECTED:
        meaning = "the last commit is on a replica"
    cut_off = "no acknowledgement can come over the links as they are"
    return f"{meaning}; {cut_off}" + ("" if state is BLOCKED else f": {_next_waits(found)}")


def _next_waits(found: Protection) -> str:
    return f"the next commit waits{_at_most(found)}"


def _at_most(found: Protection) -> str:
    return "" if found.timeout_ms is None else f", up to {found.timeout_ms / 1000:g} s"


def turn_words(turn: StateChange, protection: Protection) -> tuple[Severity, str] | None:
    """A turn of the state as a line of the log; None where another line says so: a server that is down or
    back, a switch that somebody turned."""
    severity = _severity(turn, protection)
    if severity is None:
        return None
    lasted = ""
    if turn.after is DEGRADED and turn.before is BLOCKED:
        lasted = f" after {turn.lasted_s:.1f} s blocked"
    elif turn.outage_s is not None:
        lasted = f" again after {turn.at_s - turn.outage_s:.1f} s"
    if turn.after is PROTECTED and not protection.by_majority and lasted:
        count = turn.unprotected
        went = f"; {count:,} commit{'' if count == 1 else 's'} went unprotected" if count else ""
        return severity, f"{word_of(turn.after)}{lasted}{went}"
    meaning = meaning_of(replace(protection, state=turn.after), is_group=protection.by_majority)
    return severity, f"{word_of(turn.after)}{lasted}: {meaning}"


def _severity(turn: StateChange, protection: Protection) -> Severity | None:
    """How grave it is; None for what another line says."""
    match turn.after:
        case ProtectionState.PROTECTED:
            return Severity.GOOD
        case ProtectionState.BLOCKED | ProtectionState.DEGRADED:
            return Severity.BAD
        case ProtectionState.ARMED:
            return Severity.INFO
        case ProtectionState.OFF if turn.is_outage:
            return Severity.BAD
    return None

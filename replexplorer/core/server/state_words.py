"""The protection states in words, for the screen, `status`, the log and reports: a name, a meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from replexplorer.core.event import Severity
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.states import StateChange

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
    DOWN: "no login to the primary succeeds",
}
"""What a state means where nothing else is known."""
OF_A_GROUP: Final[Mapping[ProtectionState, str]] = {
    PROTECTED: "a majority of the members answers",
    BLOCKED: "no majority of the members answers, or none of them takes writes",
    DOWN: "no node answers",
}
"""The same of a group, which has no other states."""


class StateFound(Protocol):
    """A protection state with its evidence: `Protection`, or its JSON."""

    @property
    def state(self) -> str:
        """A `ProtectionState`'s value."""

    @property
    def requested(self) -> bool | None:
        """Somebody asked for semi-sync."""

    @property
    def replicas_acking(self) -> int | None:
        """Replicas that are registered and connected."""

    @property
    def replicas_required(self) -> int | None:
        """None where semi-sync is not installed."""

    @property
    def timeout_ms(self) -> int | None:
        """How long a commit waits at most."""

    @property
    def diverged(self) -> Sequence[str]:
        """Replicas whose acknowledgement proves nothing."""

    @property
    def no_ack_can_come(self) -> bool | None:
        """A commit waits, and the links let no acknowledgement through."""


def word_of(state: str) -> str:
    """A state's name for people: `off` in JSON is ASYNC."""
    return "ASYNC" if state == ASYNC else state.upper()


def meaning_of(found: StateFound, *, is_group: bool = False) -> str:
    """What the state means now, with what else decides about the next commit."""
    state = ProtectionState(found.state)
    if is_group:
        return OF_A_GROUP.get(state, MEANINGS[state])
    meaning = MEANINGS[state]
    if state is ASYNC and found.replicas_required is None:
        meaning = f"semi-sync is not installed; {meaning}"
    elif state is ASYNC:
        meaning = f"semi-sync is off{' though it is asked for' * bool(found.requested)}; {meaning}"
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


def _next_waits(found: StateFound) -> str:
    return f"the next commit waits{_at_most(found)}"


def _at_most(found: StateFound) -> str:
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

"""A turn of the protection state as a line of the log."""

from __future__ import annotations

from replexplorer.core.event import Severity
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.states import StateChange


def turn_words(turn: StateChange, protection: Protection) -> tuple[Severity, str] | None:
    """How the log has it; None where another line says so: a server that is down or back, a switch that
    somebody turned."""
    if protection.by_majority:
        return _group_words(turn)
    match turn.after:
        case ProtectionState.BLOCKED:
            timeout = "" if protection.timeout_ms is None else f", at most {protection.timeout_ms / 1000:g} s"
            waits = f"BLOCKED: commits wait for an acknowledgement that does not come{timeout}"
            return Severity.BAD, waits
        case ProtectionState.DEGRADED:
            after = ""
            if turn.before is ProtectionState.BLOCKED:
                after = f" after {turn.lasted_s:.1f} s blocked"
            fell = f"DEGRADED{after}: semi-sync fell back, commits are asynchronous and unprotected"
            return Severity.BAD, fell
        case ProtectionState.PROTECTED:
            return Severity.GOOD, f"PROTECTED{_after_outage(turn)}"
        case ProtectionState.ARMED:
            return Severity.INFO, "ARMED: the next commit waits for a replica"
        case ProtectionState.OFF if turn.is_outage:
            return Severity.BAD, "ASYNC: semi-sync is off though it is asked for, commits are unprotected"
    return None


def _group_words(turn: StateChange) -> tuple[Severity, str] | None:
    if turn.after is ProtectionState.BLOCKED:
        return Severity.BAD, "BLOCKED: no majority of the members answers, or none of them takes writes"
    if turn.after is not ProtectionState.PROTECTED:
        return None
    again = "" if turn.outage_s is None else f" again after {turn.at_s - turn.outage_s:.1f} s"
    return Severity.GOOD, f"PROTECTED{again}: a majority of the members answers"


def _after_outage(turn: StateChange) -> str:
    if turn.outage_s is None:
        return ": an acknowledged commit is on a replica"
    count = turn.unprotected
    went = f"; {count:,} commit{'' if count == 1 else 's'} went unprotected" if count else ""
    return f" again after {turn.at_s - turn.outage_s:.1f} s{went}"

"""Is the next commit safe on a replica? Counters and settings to one word.

Law: the table of docs/facts.md, "The protection state", first match wins; what is unknown never counts
as evidence of safety.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from replexplorer.core.server.counters import ServerStatus

_LEAST_BLOCKED_S: Final = 1.0
_BLOCKED_ROUND_TRIPS: Final = 3


class ProtectionState(StrEnum):
    """Whether the next commit is safe on a replica (docs/facts.md, "The protection state")."""

    PROTECTED = "protected"
    ARMED = "armed"
    OFF = "off"
    BLOCKED = "blocked"
    DEGRADED = "degraded"
    DOWN = "down"


_WAITING: Final = frozenset({ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED})
"""In these a commit waits for an acknowledgement."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection state with the evidence for it."""

    state: ProtectionState
    requested: bool
    """Somebody asked for semi-sync."""
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
    """Nodes that acknowledge and lack what the source has for good: theirs is no evidence of safety."""
    unprotected: int | None = None
    """Commits of the session confirmed to clients without an acknowledgement, while semi-sync was
    asked for; None when nobody counted."""


@dataclass(frozen=True, slots=True)
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
    """Timeouts that the server has logged since its start; None where nobody can read that."""
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
            state in _WAITING
            and evidence.links_open is not None
            and evidence.links_open < _required(evidence)
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

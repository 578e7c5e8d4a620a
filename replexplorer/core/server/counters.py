"""Cumulative counters to what happened between two samples.

Law: a counter that fell was reset and says nothing about the interval; a server that restarted
says nothing at all. Both answer None, never a negative and never a zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_BOOT_SLACK_S: Final = 2.5
"""Uptime counts whole seconds, and two clocks may drift apart while a machine is paused."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server's counters and gauges (docs/facts.md, "Semi-sync: counters"); None where it has none."""

    uptime_s: int | None = None
    since_flush_s: int | None = None
    """Since FLUSH STATUS last set counters to 0, or since the start."""
    binlog_cache_use: int | None = None
    """Transactions that went to the binlog: the honest count of commits."""
    operational: bool | None = None
    """The source's `status`: semi-sync is in force now."""
    clients: int | None = None
    """Semi-sync replicas registered with this source."""
    yes_tx: int | None = None
    """Acknowledged waits: per commit queue under after_sync, so never a TPS."""
    no_tx: int | None = None
    no_times: int | None = None
    """Times switched off, our own `enabled=0` included."""
    wait_sessions: int | None = None
    tx_waits: int | None = None
    tx_wait_time_us: int | None = None
    replica_registered: bool | None = None
    """On a replica: it registered for semi-sync when its dump last began."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One server's counters at one moment."""

    at_s: float
    """On the session's monotonic clock."""
    status: ServerStatus
    server_uuid: str | None = None
    answered_s: float | None = None
    """On the same clock, when the answer was in: the counters were read between the two; None: at once."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened between two samples of one server; None where it is unknown."""

    duration_s: float
    commits: int | None = None
    """Transactions written to the binlog, whoever made them (Binlog_cache_use)."""
    acks: int | None = None
    """Acknowledged waits: commit queues under after_sync, transactions under after_commit."""
    unprotected: int | None = None
    """Commits that did not wait (no_tx)."""
    switched_off: int | None = None
    """Times that semi-sync went off, by timeout or by a statement."""
    ack_waits: int | None = None
    """Waits for an acknowledgement that really slept and were acknowledged."""
    ack_wait_ms: float | None = None
    """Mean wait of those that really slept: the server's own average is of its whole life
    (docs/facts.md, "Traps")."""

    @property
    def tps(self) -> float | None:
        """Commits per second."""
        return None if self.commits is None else self.commits / self.duration_s


def rates(before: Sample, after: Sample) -> Rates | None:
    """The difference of two samples; None after a restart, for another server, or for no time."""
    duration_s = after.at_s - before.at_s
    if duration_s <= 0 or restarted(before, after):
        return None
    old, new = before.status, after.status
    waits = _grown(old.tx_waits, new.tx_waits)
    waited_us = _grown(old.tx_wait_time_us, new.tx_wait_time_us)
    return Rates(
        duration_s=duration_s,
        commits=_grown(old.binlog_cache_use, new.binlog_cache_use),
        acks=_grown(old.yes_tx, new.yes_tx),
        unprotected=_grown(old.no_tx, new.no_tx),
        switched_off=_grown(old.no_times, new.no_times),
        ack_waits=waits,
        ack_wait_ms=waited_us / waits / 1000 if waits and waited_us is not None else None,
    )


def restarted(before: Sample, after: Sample) -> bool:
    """Whether the server is another one or restarted between the samples.

    An answer that came late on a busy machine may have been read at any moment since it was asked for,
    so a restart is what no such moment explains.
    """
    if before.server_uuid and after.server_uuid and before.server_uuid != after.server_uuid:
        return True
    old, new = before.status.uptime_s, after.status.uptime_s
    if old is None or new is None:
        return False
    answered_s = before.at_s if before.answered_s is None else before.answered_s
    ran_at_least_s = old + after.at_s - answered_s
    return new < old or new < ran_at_least_s - _BOOT_SLACK_S


def _grown(before: int | None, after: int | None) -> int | None:
    """How much a counter grew; None when unknown or reset."""
    if before is None or after is None or after < before:
        return None
    return after - before

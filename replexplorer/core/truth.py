"""What the servers' counters say beside what the clients saw, and whether the two agree (TARGETS.md, Truth).

Law: a mismatch is shown, not hidden; a check that cannot be made says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """Two ways to count one thing."""

    name: str
    """`Little's law`, `commits`."""
    holds: bool
    evidence: str
    """Both figures, in one line."""


@dataclass(frozen=True, slots=True)
class ReplicaTruth:
    """How far one replica is behind, and what is sent to it."""

    name: str
    lag_ms: float | None = None
    """Age of the newest transaction that it has applied, less what it did not have to wait for;
    0 when it has applied everything; None when unknown."""
    queued: int | None = None
    """Transactions received and not applied."""
    shipped_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServerTruth:
    """The servers over the last seconds; None where it cannot be told."""

    duration_s: float
    commits: int | None = None
    """Transactions written to the binlog, whoever made them."""
    group_size: float | None = None
    """Commits a binlog write: the flush group."""
    queue_size: float | None = None
    """Commits an acknowledged queue (after_sync only)."""
    redo_fsyncs: float | None = None
    """A commit."""
    binlog_fsyncs: float | None = None
    """A commit."""
    ack_waits: int | None = None
    """Waits that really slept."""
    ack_wait_ms: float | None = None
    """Their mean."""
    unprotected: int | None = None
    """Commits that did not wait for a replica though semi-sync is on."""
    replicas: tuple[ReplicaTruth, ...] = ()
    checks: tuple[Check, ...] = ()

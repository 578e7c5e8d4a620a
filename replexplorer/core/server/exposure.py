"""What a failure at this moment would lose: commits that a client was told are committed, and are not safe.

Law: `low` and `high` enclose the truth given when each number was read, and `commits` lies between them.
What cannot be said is Unknown with its reason, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replexplorer.core.server.comeback import Replication
from replexplorer.core.server.durability import redo_fsyncs


@dataclass(frozen=True, slots=True)
class Loss:
    """How many commits one kind of failure would lose now."""

    commits: int
    """The likeliest number."""
    low: int
    high: int
    age_ms: float | None = None
    """Since the oldest of them was committed; None where none is at risk, or that is not known."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It cannot be said how many."""

    why: str
    low: int = 0
    """Commits that are known to be lost at least."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What each kind of failure would lose now."""

    process_dies: Loss | Unknown
    """Missing on the source after mysqld is killed and started again on the same machine."""
    power_cut: Loss | Unknown
    """Missing on the source after its machine lost power and came back."""
    source_lost: Loss | Unknown
    """Missing on the best reachable replica after its relay log is applied, the source never coming back."""
    read_ago_s: float = 0.0
    """How old that was when it was said: a busy source answers late."""
    binlog_lost: Loss | Unknown = Loss(0, 0, 0)
    """Transactions that a power cut takes of the source's binlog, at these settings."""
    replication_after: Replication | None = Replication.WHOLE
    """What may become of a replica's stream after a power cut of the source; None: unknown."""


FAILURES: Final = ("process_dies", "power_cut", "source_lost")
"""The fields of an exposure that are a kind of failure."""


def silent(why: str) -> Exposure:
    """Nothing can be said of any failure."""
    unknown = Unknown(why)
    return Exposure(unknown, unknown, unknown, binlog_lost=unknown, replication_after=None)


def after_power_cut(
    sync_binlog: int | None, flush: int | None, *, waits: bool, clients: int
) -> tuple[Loss | Unknown, Replication | None]:
    """What a power cut takes of the binlog of a source with these settings, and what may become of its
    replicas; `waits`: commits wait for a replica. A fsync is due after `sync_binlog` groups of commits, each
    of one commit of each client at most.

    Where the binlog is not fsynced at each commit events are sent before, and InnoDB may keep what the binlog
    loses: a replica that had not received it never can. Where the source loses rows its replicas have them.
    """
    if sync_binlog is None or flush is None:
        return Unknown("the server does not say how it flushes"), None
    if sync_binlog == 1:
        return Loss(0, 0, 0), Replication.WHOLE if redo_fsyncs(flush) else Replication.DIVERGED
    lost: Loss | Unknown = Unknown("the kernel decides when the binlog is written back")
    if sync_binlog > 1:
        lost = Loss(sync_binlog // 2, 0, sync_binlog * max(1, clients))
    return lost, Replication.DIVERGED if waits or not redo_fsyncs(flush) else Replication.BROKEN


NOT_REACHED: Final = silent("the source was not reached")

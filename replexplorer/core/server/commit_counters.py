"""What a server counts and times of commits, and how that grew between two samples.

docs/facts.md, "Commit anatomy". Statements, stages, waits and `idle` are those of the load's account
alone, or, on servers that take no load of this program, of everybody; files have no account. Law: a
counter that fell says nothing of the time between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """One thing that is counted and timed."""

    REDO_WRITE = "redo write"
    REDO_FSYNC = "redo fsync"
    OWN_REDO = "own redo"
    """Writes and fsyncs of the redo log by the account's own sessions: the background's are not in it.
    None where the server has threads of their own for it (innodb_log_writer_threads = ON)."""
    BINLOG_WRITE = "binlog write"
    BINLOG_FSYNC = "binlog fsync"
    ACK = "ack"
    """Sleeps of who waits for the replicas' acknowledgement."""
    FLUSH_LOCK = "flush lock"
    """MYSQL_BIN_LOG::LOCK_log: taken once by each leader of a flush group."""
    SYNC_LOCK = "sync lock"
    COMMIT_LOCK = "commit lock"
    AFTER_COMMIT_LOCK = "after-commit lock"
    FOLLOWING = "following"
    """Waits of followers for the leader of their group (COND_done)."""
    COMMIT_STAGE = "commit stage"
    """In the handler's commit, the wait for an acknowledgement left out: the server shows another stage
    then."""
    ACK_STAGE = "ack stage"
    """In semi-sync's wait, slept or not."""
    GROUP = "group"
    """Sleeps of who waits until the group has certified what it commits: in Group Replication's hook before
    the commit, within the stage of the handler's commit."""
    STATEMENT = "statement"
    """Statements from their arrival to their end."""
    IDLE = "idle"
    """Connections that wait for the next statement."""
    COMMIT_STATEMENT = "commit statement"
    """COMMIT as its own statement, from its arrival to its end; a commit by autocommit is none."""


@dataclass(frozen=True, slots=True)
class Total:
    """How often, and for how long together."""

    times: int = 0
    ms: float = 0.0

    def __add__(self, other: Total) -> Total:
        """Both together."""
        return Total(self.times + other.times, self.ms + other.ms)

    @property
    def mean_ms(self) -> float | None:
        """Of one; None where there was none."""
        return self.ms / self.times if self.times else None


Totals = Mapping[Source, Total]


@dataclass(frozen=True, slots=True)
class CommitSample:
    """All counters at one moment; a source that the server does not have is absent."""

    at_s: float
    """On the session's monotonic clock."""
    totals: Totals


@dataclass(frozen=True, slots=True)
class CommitGrowth:
    """What was counted between two samples."""

    duration_s: float
    totals: Totals
    """Sources that the later sample has."""

    def total(self, source: Source) -> Total:
        """Nothing for a source that is not known."""
        return self.totals.get(source, Total())

    def has(self, source: Source) -> bool:
        """Whether it was seen at work: an instrument that is off counts nothing."""
        return self.total(source).times > 0


def growth(before: CommitSample, after: CommitSample) -> CommitGrowth | None:
    """The difference of two samples; None for no time, and when a counter fell: somebody emptied the
    table, or the server restarted."""
    duration_s = after.at_s - before.at_s
    grown: dict[Source, Total] = {}
    for source, new in after.totals.items():
        # An account has no rows before its first session.
        old = before.totals.get(source, Total())
        grown[source] = Total(new.times - old.times, new.ms - old.ms)
    if duration_s <= 0 or any(each.times < 0 or each.ms < 0 for each in grown.values()):
        return None
    return CommitGrowth(duration_s, grown)

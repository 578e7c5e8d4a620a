"""What performance_schema counts of commits: asked in one statement, read, and taken apart in time.

docs/facts.md, "Commit anatomy". Statements, stages, waits and `idle` are asked for the load's account
alone, so that the poller, the acknowledgement receiver and the replicas' dumps are not in them; files
have no account. Law: a counter that fell says nothing of the time between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Row = Mapping[str, Any]


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
    STATEMENT = "statement"
    """Statements from their arrival to their end."""
    IDLE = "idle"
    """Connections that wait for the next statement."""


_REDO: Final = "wait/io/file/innodb/innodb_log_file"
_FILES: Final = {
    _REDO: (Source.REDO_WRITE, Source.REDO_FSYNC),
    "wait/io/file/sql/binlog": (Source.BINLOG_WRITE, Source.BINLOG_FSYNC),
}
_WAITS: Final = {
    "wait/synch/cond/semisync/COND_binlog_send_": Source.ACK,
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_log": Source.FLUSH_LOCK,
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_sync": Source.SYNC_LOCK,
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_commit": Source.COMMIT_LOCK,
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_after_commit": Source.AFTER_COMMIT_LOCK,
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done": Source.FOLLOWING,
    "idle": Source.IDLE,
    _REDO: Source.OWN_REDO,
}
_STAGES: Final = {
    "stage/sql/waiting for handler commit": Source.COMMIT_STAGE,
    "stage/semisync/Waiting for semi-sync ACK from replica": Source.ACK_STAGE,
    "stage/semisync/Waiting for semi-sync ACK from slave": Source.ACK_STAGE,
}
_STATEMENTS: Final = tuple(
    f"statement/{name}"
    for name in (
        "com/Execute",
        "sql/begin",
        "sql/commit",
        "sql/rollback",
        "sql/select",
        "sql/insert",
        "sql/update",
        "sql/delete",
        "sql/replace",
        "sql/call_procedure",
        "sql/set_option",
    )
)
"""Prepared statements are all `Execute`; the rest is what a user's file sends as text."""

INSTRUMENTS: Final = tuple(name for name in (*_WAITS, *_STAGES) if name not in ("idle", _REDO))
"""Those that a server has off unless it is told otherwise; the rest is on by default."""

_PS_PER_MS: Final = 1e9


def commit_statement(user: str) -> str:
    """The query for what `CommitSample.read` needs, of one account's sessions: rows of a few names by
    index, no table of events."""
    of_user = f"WHERE user = '{user}' AND event_name IN"
    by_user = "summary_by_user_by_event_name"
    return (
        "SELECT 'file' AS kind, event_name AS event, count_write AS times, sum_timer_write AS ps,"
        " count_misc AS fsyncs, sum_timer_misc AS fsync_ps FROM performance_schema.file_summary_by_event_name"
        f" WHERE event_name IN ({_listed(_FILES)})"
        f" UNION ALL SELECT 'account', event_name, count_star, sum_timer_wait, 0, 0"
        f" FROM performance_schema.events_waits_{by_user} {of_user} ({_listed(_WAITS)})"
        f" UNION ALL SELECT 'account', event_name, count_star, sum_timer_wait, 0, 0"
        f" FROM performance_schema.events_stages_{by_user} {of_user} ({_listed(_STAGES)})"
        f" UNION ALL SELECT 'account', event_name, count_star, sum_timer_wait, 0, 0"
        f" FROM performance_schema.events_statements_{by_user} {of_user} ({_listed(_STATEMENTS)})"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


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

    @classmethod
    def read(cls, at_s: float, rows: Iterable[Row]) -> CommitSample:
        """From the answer to `commit_statement`."""
        totals: dict[Source, Total] = {}

        def count(source: Source, times: object, ps: object) -> None:
            total = Total(int(str(times)), int(str(ps)) / _PS_PER_MS)
            totals[source] = totals.get(source, Total()) + total

        for row in rows:
            event = str(row["event"])
            if row["kind"] == "file":
                write, fsync = _FILES[event]
                count(write, row["times"], row["ps"])
                count(fsync, row["fsyncs"], row["fsync_ps"])
                continue
            source = _WAITS.get(event) or _STAGES.get(event) or Source.STATEMENT
            count(source, row["times"], row["ps"])
        return cls(at_s, totals)


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
    table, or the server began anew."""
    duration_s = after.at_s - before.at_s
    grown: dict[Source, Total] = {}
    for source, new in after.totals.items():
        # An account has no rows before its first session.
        old = before.totals.get(source, Total())
        grown[source] = Total(new.times - old.times, new.ms - old.ms)
    if duration_s <= 0 or any(each.times < 0 or each.ms < 0 for each in grown.values()):
        return None
    return CommitGrowth(duration_s, grown)

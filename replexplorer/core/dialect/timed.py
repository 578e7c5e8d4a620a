"""What a server's performance schema times of commits: which of its names is which of our counters.

docs/facts.md, "Commit anatomy". What a flavour does not time is absent, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer.core.dialect.question import Question, Row, listed
from replexplorer.core.server.commit_counters import Source, Total, Totals

_PS_PER_MS: Final = 1e9
_REDO: Final = "wait/io/file/innodb/innodb_log_file"
_IDLE: Final = "idle"
_BINLOG: Final = "wait/io/file/sql/binlog"
ACK_STAGES: Final = ("Waiting for semi-sync ACK from replica", "Waiting for semi-sync ACK from slave")
HANDLER_COMMIT: Final = "waiting for handler commit"
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
_COMMIT: Final = "statement/sql/commit"
_OF_ALL: Final = "all"
_NOT_OF_A_COMMIT: Final = (Source.IDLE, Source.OWN_REDO)
"""Waits that say something of one account's sessions alone."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The names of one flavour, each with what it is counted as."""

    files: Mapping[str, tuple[Source, Source]]
    """File to its writes and fsyncs, by whomever."""
    waits: Mapping[str, Source]
    stages: Mapping[str, Source]

    @property
    def instruments(self) -> tuple[str, ...]:
        """Those that a server has off unless its start says otherwise; the rest is on by default."""
        return tuple(name for name in (*self.waits, *self.stages) if name not in (_IDLE, _REDO))

    def question(self, account: str) -> Question[Totals]:
        """A few names by index, no table of events. Files have no account; all else is asked for the
        account alone, so that the poller, the acknowledgement receiver and dump threads are not in it."""
        columns = "'account', event_name, count_star, sum_timer_wait, 0, 0"
        parts = (("waits", self.waits), ("stages", self.stages), ("statements", _STATEMENTS))
        return Question(
            self._of_files()
            + "".join(
                f" UNION ALL SELECT {columns}"
                f" FROM performance_schema.events_{kind}_summary_by_user_by_event_name"
                f" WHERE user = '{account}' AND event_name IN ({listed(names)})"
                for kind, names in parts
            ),
            self._read,
        )

    def question_of_all(self) -> Question[Totals]:
        """The same of all sessions together, where nobody's are the load's: of statements those that are
        COMMIT alone, which every server times unless its performance schema is off."""
        waits = [name for name, source in self.waits.items() if source not in _NOT_OF_A_COMMIT]
        parts = (("waits", waits), ("stages", self.stages), ("statements", (_COMMIT,)))
        return Question(
            self._of_files()
            + "".join(
                f" UNION ALL SELECT '{_OF_ALL}', event_name, count_star, sum_timer_wait, 0, 0"
                f" FROM performance_schema.events_{kind}_summary_global_by_event_name"
                f" WHERE event_name IN ({listed(names)})"
                for kind, names in parts
                if names
            ),
            self._read,
        )

    def _of_files(self) -> str:
        return (
            "SELECT 'file' AS kind, event_name AS event, count_write AS times, sum_timer_write AS ps,"
            " count_misc AS fsyncs, sum_timer_misc AS fsync_ps"
            " FROM performance_schema.file_summary_by_event_name"
            f" WHERE event_name IN ({listed(self.files)})"
        )

    def _read(self, rows: Sequence[Row]) -> Totals:
        totals: dict[Source, Total] = {}

        def count(source: Source, times: object, ps: object) -> None:
            total = Total(int(str(times)), int(str(ps)) / _PS_PER_MS)
            totals[source] = totals.get(source, Total()) + total

        for row in rows:
            event = str(row["event"])
            if row["kind"] == "file":
                write, fsync = self.files[event]
                count(write, row["times"], row["ps"])
                count(fsync, row["fsyncs"], row["fsync_ps"])
                continue
            source = self.waits.get(event) or self.stages.get(event) or Source.STATEMENT
            if row["kind"] == _OF_ALL and event == _COMMIT:
                source = Source.COMMIT_STATEMENT
            count(source, row["times"], row["ps"])
        return totals


MYSQL_TIMED: Final = Timed(
    files={
        _REDO: (Source.REDO_WRITE, Source.REDO_FSYNC),
        _BINLOG: (Source.BINLOG_WRITE, Source.BINLOG_FSYNC),
    },
    waits={
        "wait/synch/cond/semisync/COND_binlog_send_": Source.ACK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_log": Source.FLUSH_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_sync": Source.SYNC_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_commit": Source.COMMIT_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_after_commit": Source.AFTER_COMMIT_LOCK,
        "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done": Source.FOLLOWING,
        "wait/synch/cond/group_rpl/COND_count_down_latch": Source.GROUP,
        _IDLE: Source.IDLE,
        _REDO: Source.OWN_REDO,
    },
    stages={
        f"stage/sql/{HANDLER_COMMIT}": Source.COMMIT_STAGE,
        **{f"stage/semisync/{stage}": Source.ACK_STAGE for stage in ACK_STAGES},
    },
)
MARIADB_TIMED: Final = Timed(
    files={_BINLOG: (Source.BINLOG_WRITE, Source.BINLOG_FSYNC)},
    waits={_IDLE: Source.IDLE},
    stages={
        **{
            f"stage/sql/{stage}": Source.COMMIT_STAGE
            for stage in (
                "Commit",
                "Commit implicit",
                "Writing to binlog",
                "Waiting for prior transaction to commit",
                "Waiting for prior transaction to start commit",
            )
        },
        f"stage/sql/{ACK_STAGES[1]}": Source.ACK_STAGE,
    },
)
"""The redo log is in no instrument, and of the locks of group commit none tells the queue: who waits for
the group before sleeps in the same place as who waits for its own. A wait for a Galera cluster is within the
commit's stages: of 36 ms at 20 ms between all, the stage `Waiting for certification` had 1 (measured)."""

"""What a server is asked of its sessions, locks and statements, by both flavours.

Laws: nothing is turned on for it, and each answer has a bound. Tables of locks are asked for the oldest waits
alone, by their lock, and only while sessions wait: to read them whole costs the more the more locks are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.dialect.question import Question, Row, whole
from replexplorer.core.server.waits import LockWait, SessionNow, StatementTotals
from replexplorer.core.text import one_line

MOST_SESSIONS: Final = 1000
"""Idle ones are left out first."""
_MOST_LOCKS: Final = 20
_MOST_PAIRS: Final = 1000
_MOST_DIGESTS: Final = 200
_MOST_SAID: Final = 160
"""Characters of a statement."""
_SENT: Final = 200
"""Characters of it that are asked for."""
_PS_PER_MS: Final = 1e9


def _read_sessions(rows: Sequence[Row]) -> tuple[SessionNow, ...]:
    return tuple(
        SessionNow(
            int(row["id"]), str(row["command"]), str(row["state"] or ""), _text(row["statement"]),
            None if row["age_s"] is None else float(row["age_s"]), row["event"],
            in_transaction=row["trx"] is not None, waits_for_row=row["trx"] == "LOCK WAIT",
        )
        for row in rows
    )  # fmt: skip


def _read_locks(rows: Sequence[Row]) -> tuple[LockWait, ...]:
    return tuple(
        LockWait(
            row["kind"], int(row["waiter"]), whole(row["blocker"]),
            str(row["tab"] or "").replace("`", "") or None, _text(row["idx"]), _text(row["locked"]),
            _text(row["mode"]), None if row["waited_s"] is None else max(0.0, float(row["waited_s"])),
        )
        for row in rows
    )  # fmt: skip


def _text(value: object) -> str | None:
    return one_line(str(value), _MOST_SAID) if value else None


_WAITING: Final = (
    "(SELECT trx_id, trx_mysql_thread_id, trx_requested_lock_id, TIMESTAMPDIFF(SECOND, trx_wait_started,"
    " CONVERT_TZ(NOW(), @@SESSION.time_zone, 'SYSTEM')) AS waited_s FROM information_schema.innodb_trx"
    f" WHERE trx_state = 'LOCK WAIT' ORDER BY trx_wait_started LIMIT {_MOST_LOCKS}) x"
)
"""InnoDB writes times of the system's zone, whatever the session's is (its source, `field_store_time_t`)."""
_TRANSACTION: Final = "LEFT JOIN information_schema.innodb_trx x ON x.trx_mysql_thread_id ="
_OLDEST: Final = f"= 'Sleep', age_s DESC LIMIT {MOST_SESSIONS}"

MYSQL_SESSIONS: Final = Question(
    "SELECT t.processlist_id AS id, t.processlist_command AS command, t.processlist_state AS state,"
    f" LEFT(COALESCE(t.processlist_info, s.sql_text), {_SENT}) AS statement,"
    " COALESCE(CASE WHEN s.end_event_id IS NULL THEN s.timer_wait / 1e12 END, t.processlist_time) AS age_s,"
    " (SELECT w.event_name FROM performance_schema.events_waits_current w WHERE w.thread_id = t.thread_id"
    " AND w.end_event_id IS NULL ORDER BY w.event_id DESC LIMIT 1) AS event, x.trx_state AS trx"
    " FROM performance_schema.threads t LEFT JOIN performance_schema.events_statements_current s"
    " ON s.thread_id = t.thread_id AND s.nesting_event_level = 0"
    f" {_TRANSACTION} t.processlist_id"
    " WHERE t.name = 'thread/sql/one_connection' AND t.processlist_id <> CONNECTION_ID()"
    f" ORDER BY t.processlist_command {_OLDEST}",
    _read_sessions,
)
MARIADB_SESSIONS: Final = Question(
    f"SELECT p.id AS id, p.command AS command, p.state AS state, LEFT(p.info, {_SENT}) AS statement,"
    " p.time_ms / 1e3 AS age_s, NULL AS event, x.trx_state AS trx FROM information_schema.processlist p"
    f" {_TRANSACTION} p.id WHERE p.user <> 'system user' AND p.command <> 'Daemon'"
    f" AND p.id <> CONNECTION_ID() ORDER BY p.command {_OLDEST}",
    _read_sessions,
)

MYSQL_ROW_LOCKS: Final = Question(
    "SELECT 'row' AS kind, x.trx_mysql_thread_id AS waiter, b.processlist_id AS blocker,"
    " CONCAT_WS('.', l.object_schema, l.object_name) AS tab, l.index_name AS idx, l.lock_data AS locked,"
    f" l.lock_mode AS mode, x.waited_s AS waited_s FROM {_WAITING}"
    " LEFT JOIN performance_schema.data_locks l"
    " ON l.engine_lock_id = x.trx_requested_lock_id AND l.engine = 'INNODB'"
    " LEFT JOIN performance_schema.data_lock_waits w"
    " ON w.requesting_engine_lock_id = x.trx_requested_lock_id AND w.engine = 'INNODB'"
    f" LEFT JOIN performance_schema.threads b ON b.thread_id = w.blocking_thread_id LIMIT {_MOST_PAIRS}",
    _read_locks,
)
MARIADB_ROW_LOCKS: Final = Question(
    "SELECT 'row' AS kind, x.trx_mysql_thread_id AS waiter, b.trx_mysql_thread_id AS blocker,"
    " l.lock_table AS tab, l.lock_index AS idx, l.lock_data AS locked, l.lock_mode AS mode,"
    f" x.waited_s AS waited_s FROM {_WAITING}"
    " LEFT JOIN information_schema.innodb_locks l ON l.lock_id = x.trx_requested_lock_id"
    " LEFT JOIN information_schema.innodb_lock_waits w ON w.requesting_trx_id = x.trx_id"
    f" LEFT JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id LIMIT {_MOST_PAIRS}",
    _read_locks,
)

METADATA_LOCKS: Final = Question(
    "SELECT 'metadata' AS kind, a.processlist_id AS waiter, b.processlist_id AS blocker,"
    " CONCAT_WS('.', p.object_schema, p.object_name) AS tab, NULL AS idx, NULL AS locked,"
    " p.lock_type AS mode, NULL AS waited_s"
    " FROM (SELECT object_type, object_schema, object_name, lock_type, owner_thread_id"
    f" FROM performance_schema.metadata_locks WHERE lock_status = 'PENDING' LIMIT {_MOST_LOCKS}) p"
    " JOIN performance_schema.threads a ON a.thread_id = p.owner_thread_id"
    " LEFT JOIN performance_schema.metadata_locks g ON g.object_type = p.object_type"
    " AND g.object_schema <=> p.object_schema AND g.object_name <=> p.object_name"
    " AND g.lock_status = 'GRANTED' AND g.owner_thread_id <> p.owner_thread_id"
    f" LEFT JOIN performance_schema.threads b ON b.thread_id = g.owner_thread_id LIMIT {_MOST_PAIRS}",
    _read_locks,
)
"""Who has any lock of the same object counts as one that is waited for, as in sys.schema_table_lock_waits."""

STATEMENT_TOTALS: Final = Question(
    f"SELECT schema_name AS db, digest AS digest, LEFT(digest_text, {_SENT}) AS text, count_star AS times,"
    " sum_timer_wait AS ps, sum_rows_examined AS examined, sum_rows_sent AS sent,"
    " sum_rows_affected AS affected FROM performance_schema.events_statements_summary_by_digest"
    f" WHERE last_seen >= NOW(6) - INTERVAL 10 SECOND ORDER BY sum_timer_wait DESC LIMIT {_MOST_DIGESTS}",
    lambda rows: {
        (str(row["db"] or ""), str(row["digest"] or ""), _text(row["text"]) or ""): StatementTotals(
            int(row["times"]),
            int(row["ps"]) / _PS_PER_MS,
            *(int(row[n]) for n in ("examined", "sent", "affected")),
        )
        for row in rows
        if "_schema` ." not in str(row["text"])
    },
)
"""Of the last seconds' statements, without those that read the server's own tables, as this program does."""

CONSUMERS: Final = Question(
    "SELECT name AS name FROM performance_schema.setup_consumers WHERE enabled = 'YES'",
    lambda rows: frozenset(str(row["name"]) for row in rows),
)
"""What the performance schema records of events."""

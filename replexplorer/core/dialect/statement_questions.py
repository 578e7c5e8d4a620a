"""A server's performance schema asked for what its clients do: digests, prepared statements, histories.

Law: no literal is asked for. What the server has only as text (prepared statements, and their executions in
the histories) it makes a digest of before it answers (STATEMENT_DIGEST_TEXT, MySQL 8.0.4; MariaDB has no
such function, and what it would be needed for is left out there). All of it is read; nothing is turned on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from replexplorer.core.dialect.question import Question, Row, listed
from replexplorer.core.dialect.table_questions import quoted_name
from replexplorer.core.imitation.digest import BEGIN, COMMIT, ROLLBACK
from replexplorer.core.imitation.look import DigestCount, DigestKey, PreparedCount
from replexplorer.core.imitation.transactions import SeenStatement
from replexplorer.core.tables.table import TableName

_PS_PER_MS: Final = 1e9
TURN_DIGESTS_ON: Final = (
    "UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name = 'statements_digest'"
)
"""What an administrator runs where digests are off; never run here."""
NEEDED_GRANTS: Final = "GRANT SELECT ON performance_schema.*, and SELECT on the databases to be imitated"
_SESSIONS: Final = 16
"""At most this number of sessions' histories is looked at together."""
_KINDS: Final = {
    "statement/sql/begin": BEGIN,
    "statement/sql/commit": COMMIT,
    "statement/sql/rollback": ROLLBACK,
}
_NO_STATEMENTS: Final = tuple(
    f"statement/com/{name}" for name in ("Prepare", "Close stmt", "Reset stmt", "Ping")
)
_EXECUTION: Final = re.compile(r"EXECUTE (?=[A-Z(])")
"""New servers have executions of prepared statements among the digests, with this before their text (seen on
9.7); `EXECUTE` and a name in backticks is a statement of its own."""
_EXECUTE: Final = "statement/com/Execute"

Digests = Mapping[str, DigestKey]
"""Digests by what a history calls them: the database and the digest's hash."""


@dataclass(frozen=True, slots=True)
class Instrumented:
    """What a server's performance schema keeps."""

    is_on: bool
    digests: bool = False
    history: bool = False


@dataclass(frozen=True, slots=True)
class CountedDigests:
    """The server's table of digests."""

    counts: Mapping[DigestKey, DigestCount]
    names: Digests


@dataclass(frozen=True, slots=True)
class PreparedStatements:
    """Every prepared statement there is, by what tells one from another."""

    counts: Mapping[str, PreparedCount]
    names: Digests


def is_on() -> Question[bool]:
    """Whether there is a performance schema at all."""
    return Question("SELECT @@GLOBAL.performance_schema AS is_on", lambda rows: bool(int(rows[0]["is_on"])))


def instrumented() -> Question[Instrumented]:
    """What it keeps of statements."""

    def read(rows: Sequence[Row]) -> Instrumented:
        enabled = {str(row["name"]) for row in rows if str(row["enabled"]).upper() == "YES"}
        return Instrumented(
            True,
            {"global_instrumentation", "statements_digest"} <= enabled,
            {"global_instrumentation", "thread_instrumentation", "events_statements_history"} <= enabled,
        )

    return Question("SELECT name AS name, enabled AS enabled FROM performance_schema.setup_consumers", read)


def counted_digests(flavor: str) -> Question[CountedDigests]:
    """Every digest with its counts, on a server of that flavor.

    A statement that sorts examines a row of its table and, once more, each row that it sorted; MariaDB also
    counts what it reads back from a temporary table, which is as many as it sends (measured: of 100 rows of
    ten values DISTINCT with ORDER BY examines 110 on 9.7.4, 120 on 11.8.9; without LIMIT).
    """
    once_more = "CAST(sum_sort_rows AS SIGNED)"
    if flavor == "mariadb":
        once_more += " + IF(sum_created_tmp_tables > 0, CAST(sum_rows_sent AS SIGNED), 0)"

    def read(rows: Sequence[Row]) -> CountedDigests:
        counts: dict[DigestKey, DigestCount] = {}
        names: dict[str, DigestKey] = {}
        for row in rows:
            text, count = _text(row["text"]), _count(row)
            if _EXECUTION.match(text):
                text, count = _EXECUTION.sub("", text), replace(count, prepared=count.times)
            key = DigestKey(_text(row["db"]), text)
            counts[key] = counts.get(key, DigestCount()) + count
            if key.text:
                names[_name(row["db"], row["digest"])] = key
        return CountedDigests(counts, names)

    return Question(
        "SELECT schema_name AS db, digest AS digest, digest_text AS text, count_star AS times,"
        " sum_timer_wait AS ps, sum_rows_sent AS sent, sum_rows_affected AS affected,"
        f" CAST(sum_rows_examined AS SIGNED) - ({once_more}) AS examined,"
        " CAST(first_seen AS CHAR) AS first_seen"
        " FROM performance_schema.events_statements_summary_by_digest",
        read,
    )


def prepared_statements() -> Question[PreparedStatements]:
    """Those that sessions hold at this moment; none where the server makes no digest of a text."""

    def read(rows: Sequence[Row]) -> PreparedStatements:
        counts: dict[str, PreparedCount] = {}
        names: dict[str, DigestKey] = {}
        for row in rows:
            key = DigestKey(_text(row["db"]), _text(row["text"]))
            counts[f"{row['owner']} {row['id']}"] = PreparedCount(key, _count(row))
            names[_name(row["db"], row["digest"])] = key
        return PreparedStatements(counts, names)

    nothing: Question[PreparedStatements] = Question("SELECT 1", lambda _: PreparedStatements({}, {}))
    return Question(
        "SELECT t.processlist_db AS db, p.owner_thread_id AS owner, p.statement_id AS id,"
        " STATEMENT_DIGEST(p.sql_text) AS digest, STATEMENT_DIGEST_TEXT(p.sql_text) AS text,"
        " p.count_execute AS times, p.sum_timer_execute AS ps,"
        " CAST(p.sum_rows_examined AS SIGNED) - CAST(p.sum_sort_rows AS SIGNED) AS examined,"
        " p.sum_rows_sent AS sent, p.sum_rows_affected AS affected, '' AS first_seen"
        " FROM performance_schema.prepared_statements_instances p"
        " JOIN performance_schema.threads t ON t.thread_id = p.owner_thread_id",
        read,
        instead=nothing,
    )


def executions() -> Question[int]:
    """How many prepared statements were executed since the server started."""
    return Question(
        "SELECT COALESCE(SUM(count_star), 0) AS times"
        " FROM performance_schema.events_statements_summary_global_by_event_name"
        f" WHERE event_name = '{_EXECUTE}'",
        lambda rows: int(rows[0]["times"]),
    )


def transactions() -> Question[int | None]:
    """How many transactions ended since the server started; None where it does not count them."""
    unknown: Question[int | None] = Question("SELECT 1", lambda _: None)
    return Question(
        "SELECT COALESCE(SUM(count_star), 0) AS times"
        " FROM performance_schema.events_transactions_summary_global_by_event_name"
        " WHERE event_name = 'transaction'",
        lambda rows: int(rows[0]["times"]) or None,
        instead=unknown,
    )


def busy_sessions() -> Question[tuple[int, ...]]:
    """Some sessions that did something within the last second or so, each as likely as any other."""
    return Question(
        "SELECT thread_id AS id FROM performance_schema.threads WHERE type = 'FOREGROUND'"
        " AND processlist_id IS NOT NULL AND processlist_id <> CONNECTION_ID() AND processlist_time <= 1"
        f" AND processlist_command NOT LIKE 'Binlog%' ORDER BY RAND() LIMIT {_SESSIONS}",
        lambda rows: tuple(int(row["id"]) for row in rows),
    )


def histories(sessions: Sequence[int]) -> Question[tuple[SeenStatement, ...]]:
    """The last statements of these sessions, in no order; those within procedures are not among them."""
    within = ", ".join(map(str, sessions))
    columns = (
        "SELECT thread_id AS session, event_id AS number, event_name AS event, current_schema AS db,"
        " nesting_event_type AS nesting, nesting_event_id AS parent,"
    )
    source = (
        " FROM performance_schema.events_statements_history"
        f" WHERE thread_id IN ({within}) AND end_event_id IS NOT NULL"
        " AND event_name NOT LIKE 'statement/sp/%'"
        f" AND event_name NOT IN ({listed(_NO_STATEMENTS)})"
    )
    plain: Question[tuple[SeenStatement, ...]] = Question(
        f"{columns} digest AS digest{source}", _read_history
    )
    return Question(
        f"{columns} IF(digest IS NULL AND event_name = '{_EXECUTE}'"
        " AND CHAR_LENGTH(sql_text) < @@GLOBAL.performance_schema_max_sql_text_length,"
        f" STATEMENT_DIGEST(sql_text), digest) AS digest{source}",
        _read_history,
        instead=plain,
    )


def _read_history(rows: Sequence[Row]) -> tuple[SeenStatement, ...]:
    found = []
    for row in rows:
        is_nested = str(row["nesting"] or "").upper() == "TRANSACTION"
        found.append(
            SeenStatement(
                int(row["session"]),
                int(row["number"]),
                _KINDS.get(str(row["event"]), ""),
                _name(row["db"], row["digest"]) if row["digest"] else "",
                int(row["parent"]) if is_nested else None,
            )
        )
    return tuple(found)


def table_definition(table: TableName) -> Question[str | None]:
    """What makes the table; None for a view."""

    def read(rows: Sequence[Row]) -> str | None:
        found = {name.lower(): value for name, value in rows[0].items()}.get("create table")
        return None if found is None else str(found)

    return Question(f"SHOW CREATE TABLE {quoted_name(table)}", read)


def _count(row: Row) -> DigestCount:
    return DigestCount(
        int(row["times"]),
        int(row["ps"]) / _PS_PER_MS,
        max(0, int(row["examined"])),
        int(row["sent"]),
        int(row["affected"]),
        first_seen=str(row["first_seen"]),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _name(database: Any, digest: Any) -> str:
    return f"{_text(database)}\0{_text(digest)}"

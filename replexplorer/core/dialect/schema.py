"""What of a server's tables hurts row-based replication: one question a finding, and the statement that
repairs it.

Engines and keys: MySQL manual, "Replication and Storage Engines" and "InnoDB Indexes". The columns that are
read are the same on both flavors (manual and MariaDB knowledge base, "INFORMATION_SCHEMA STATISTICS Table").

Tables asked of information_schema, which has the same four views on both flavours.

What only newer servers have is read where it is there (manuals of both, "INFORMATION_SCHEMA STATISTICS",
"... COLUMNS").

A server's performance schema asked for what its clients do: digests, prepared statements, histories.

Law: no literal is asked for. What the server has only as text (prepared statements, and their executions in
the histories) it makes a digest of before it answers (STATEMENT_DIGEST_TEXT, MySQL 8.0.4; MariaDB has no
such function, and what it would be needed for is left out there). All of it is read; nothing is turned on.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from replexplorer.core.dialect.question import Question, Row, listed, whole
from replexplorer.core.records import frozen, printed
from replexplorer.core.tables import Column, Index, TableName, TableShape

_TRANSACTIONAL: Final = "'innodb', 'ndbcluster', 'ndb', 'rocksdb', 'tokudb'"
_OF_ENGINE: Final = {
    "memory": "it is empty after a restart of either server, and then source and replica differ",
    "blackhole": "it keeps no rows: a replica with another engine has rows that its source lacks",
    "csv": "if mysqld dies during a statement, part of it stays; it has no indexes",
}
_ANY_ENGINE: Final = (
    "it has no transactions: if mysqld dies during a statement, part of it stays, and source and replica"
    " differ; Group Replication and Galera refuse it or do not replicate it"
)
_SCANS: Final = (
    "no primary key: a replica searches the table for each row that an UPDATE or DELETE changed;"
    " Group Replication refuses writes to it (error 3098), Galera does not support DELETE from it"
)
_NAMES: Final = "GROUP_CONCAT(CONCAT('`', REPLACE(column_name, '`', '``'), '`') ORDER BY seq_in_index)"


@frozen
class SchemaFinding:
    """One thing that was found of one table."""

    kind: Literal["no-primary-key", "engine"]
    severity: Literal["problem", "note"]
    """problem: it stalls a replica or loses rows; note: it costs something."""
    database: str
    table: str
    index: str | None
    """The index that it is about."""
    why: str
    """One sentence: what it does to whom."""
    statement: str
    """What repairs it."""


@printed
class SchemaChecked:
    """What `check-schema` found on a node."""

    node: str
    problems: int
    notes: int
    findings: list[SchemaFinding]
    """Problems first."""


def schema_questions(databases: Sequence[str]) -> tuple[Question[tuple[SchemaFinding, ...]], ...]:
    """One a kind of finding."""
    marks = ", ".join(["%s"] * len(databases))
    return tuple(
        Question(
            statement.format(marks=marks),
            lambda rows, read=read: tuple(map(read, rows)),  # type: ignore[misc]
            (*databases, *databases),
        )
        for statement, read in ((_ENGINES, _engine), (_KEYLESS, _keyless))
    )


_ENGINES: Final = f"""SELECT table_schema AS db, table_name AS tab, engine AS engine
FROM information_schema.tables
WHERE table_schema IN ({{marks}}) AND table_schema IN ({{marks}})
  AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND LOWER(engine) NOT IN ({_TRANSACTIONAL})
ORDER BY 1, 2"""
_KEYLESS: Final = f"""SELECT t.table_schema AS db, t.table_name AS tab, u.name AS name, u.names AS names,
  c.column_name AS counted
FROM information_schema.tables t
LEFT JOIN (
  SELECT table_schema, table_name, index_name AS name, {_NAMES} AS names, COUNT(*) AS parts
  FROM information_schema.statistics WHERE table_schema IN ({{marks}})
  GROUP BY table_schema, table_name, index_name
  HAVING SUM(non_unique OR nullable = 'YES' OR column_name IS NULL OR sub_part IS NOT NULL) = 0
) u ON u.table_schema = t.table_schema AND u.table_name = t.table_name
LEFT JOIN information_schema.columns c
  ON c.table_schema = t.table_schema AND c.table_name = t.table_name AND LOCATE('auto_increment', c.extra)
WHERE t.table_schema IN ({{marks}}) AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND NOT EXISTS (
    SELECT 1 FROM information_schema.statistics p
    WHERE p.table_schema = t.table_schema AND p.table_name = t.table_name AND p.index_name = 'PRIMARY'
  )
ORDER BY 1, 2, u.parts"""


def added_key(database: str, table: str) -> str:
    """The statement that adds a key which `SELECT *` and an INSERT without a list of columns leave out, under
    the name that MySQL itself gives one (manual, "Generated Invisible Primary Keys"; MySQL 8.0.23, MariaDB
    10.3)."""
    return (
        f"ALTER TABLE {quoted_name((database, table))} ADD COLUMN my_row_id BIGINT UNSIGNED NOT NULL"
        " AUTO_INCREMENT INVISIBLE PRIMARY KEY FIRST"
    )


def _engine(row: Row) -> SchemaFinding:
    engine = str(row["engine"])
    why = f"engine {engine}: {_OF_ENGINE.get(engine.lower(), _ANY_ENGINE)}"
    return _finding(row, "engine", why, f"{_altered(row)} ENGINE = InnoDB")


def _keyless(row: Row) -> SchemaFinding:
    name, counted = row["name"], row["counted"]
    if name is not None:
        why = f"no primary key: the unique index {name} serves as one until it is dropped"
        statement = f"{_altered(row)} DROP INDEX {_quoted(name)}, ADD PRIMARY KEY ({row['names']})"
        return _finding(row, "no-primary-key", why, statement, str(name))
    if counted is not None:  # a table has one such column
        statement = f"{_altered(row)} ADD PRIMARY KEY ({_quoted(counted)})"
    else:
        statement = added_key(str(row["db"]), str(row["tab"]))
    return _finding(row, "no-primary-key", _SCANS, statement)


def _finding(
    row: Row, kind: Literal["no-primary-key", "engine"], why: str, statement: str, index: str | None = None
) -> SchemaFinding:
    """A note where an index is what it is about."""
    severity: Literal["problem", "note"] = "problem" if index is None else "note"
    return SchemaFinding(kind, severity, str(row["db"]), str(row["tab"]), index, why, statement)


def _altered(row: Row) -> str:
    return f"ALTER TABLE {quoted_name((row['db'], row['tab']))}"


def _quoted(name: object) -> str:
    return "`" + str(name).replace("`", "``") + "`"


def description(databases: Sequence[str]) -> tuple[Question[Sequence[Row]], ...]:
    """Four questions that together describe the tables of these databases: names and sizes, columns, indexes,
    declared foreign keys. `described` reads the answers."""
    names, marks = tuple(databases), ", ".join(["%s"] * len(databases))
    ordered = f"table_schema IN ({marks}) ORDER BY table_schema, table_name"
    statements = (
        "SELECT table_schema, table_name, table_rows, data_length + index_length AS bytes"
        f" FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
        f" AND {ordered}",
        f"SELECT * FROM information_schema.columns WHERE {ordered}, ordinal_position",
        f"SELECT * FROM information_schema.statistics WHERE {ordered}, index_name, seq_in_index",
        "SELECT * FROM information_schema.key_column_usage"
        f" WHERE referenced_table_name IS NOT NULL AND {ordered}, constraint_name, ordinal_position",
    )
    return tuple(Question(each, lambda rows: [*map(_lowered, rows)], names) for each in statements)


def described(
    tables: Sequence[Row], columns: Sequence[Row], indexes: Sequence[Row], foreign_keys: Sequence[Row]
) -> tuple[TableShape, ...]:
    """The tables, from the answers to `description`."""
    parts = _by_table(columns), _by_table(indexes), _by_table(foreign_keys)

    def shape(table: Row) -> TableShape:
        name = _table_of(table)
        of_columns, of_indexes, keys = (each.get(name, []) for each in parts)
        return TableShape(
            name,
            whole(table["table_rows"]),
            whole(table["bytes"]),
            tuple(map(_column, of_columns)),
            _indexes(of_indexes),
            {
                str(key["column_name"]): TableName(
                    str(key["referenced_table_schema"]), str(key["referenced_table_name"])
                )
                for key in keys
            },
        )

    return tuple(map(shape, tables))


def _by_table(rows: Sequence[Row]) -> Mapping[TableName, list[Row]]:
    found: dict[TableName, list[Row]] = {}
    for row in rows:
        found.setdefault(_table_of(row), []).append(row)
    return found


def quoted_name(table: tuple[str, str]) -> str:
    """A table's whole name, its database's first, as a statement has it."""
    return ".".join(map(_quoted, table))


def _lowered(row: Row) -> Row:
    return {name.lower(): value for name, value in row.items()}


def _table_of(row: Row) -> TableName:
    return TableName(str(row["table_schema"]), str(row["table_name"]))


def _column(row: Row) -> Column:
    extra = str(row["extra"]).lower()
    return Column(
        name=str(row["column_name"]),
        type=str(row["column_type"]),
        nullable=str(row["is_nullable"]).upper() == "YES",
        is_auto_increment="auto_increment" in extra,
        is_generated=bool(row.get("generation_expression")),
        is_invisible="invisible" in extra,
    )


def _indexes(rows: Sequence[Row]) -> tuple[Index, ...]:
    found: dict[str, Index] = {}
    for row in rows:
        name, column = str(row["index_name"]), row["column_name"]
        before = found[name].columns if name in found else ()
        columns = before if column is None else (*before, str(column))
        found[name] = Index(name, columns, int(row["non_unique"]) == 0)
    return tuple(found.values())


_PS_PER_MS: Final = 1e9
TURN_DIGESTS_ON: Final = (
    "UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name = 'statements_digest'"
)
"""What an administrator runs where digests are off; never run here."""
NEEDED_GRANTS: Final = "GRANT SELECT ON performance_schema.*, and SELECT on the databases to be imitated"
_SESSIONS: Final = 16
"""At most this number of sessions' histories is looked at together."""
_KINDS: Final = {f"statement/sql/{kind}": kind for kind in ("begin", "commit", "rollback")}
_NO_STATEMENTS: Final = tuple(
    f"statement/com/{name}" for name in ("Prepare", "Close stmt", "Reset stmt", "Ping")
)
_EXECUTION: Final = re.compile(r"EXECUTE (?=[A-Z(])")
"""New servers have executions of prepared statements among the digests, with this before their text (seen on
9.7); `EXECUTE` and a name in backticks is a statement of its own."""
_EXECUTE: Final = "statement/com/Execute"


class DigestKey(NamedTuple):
    """A digest, and the database that its session was in."""

    database: str
    """Empty: none."""
    text: str
    """Empty: statements that found no place in the server's table of digests."""


class DigestCount(NamedTuple):
    """What a server counted of one digest."""

    times: int = 0
    ms: float = 0.0
    """Time that the server took for all of them."""
    examined: int = 0
    """Rows of its tables that it looked at for all of them; the next two likewise."""
    sent: int = 0
    affected: int = 0
    prepared: int = 0
    """How many of the times as prepared statements."""

    def plus(self, other: DigestCount) -> DigestCount:
        """Both together."""
        return DigestCount(*map(operator.add, self, other))

    def since(self, before: DigestCount | None) -> DigestCount:
        """What came after; a server that counts less than before has begun to count from zero."""
        if before is None or self.times < before.times:
            return self
        return DigestCount(*map(_grown, self, before))


@frozen
class CountedDigests:
    """The server's table of digests."""

    counts: Mapping[DigestKey, DigestCount]
    names: Mapping[str, DigestKey]
    """Digests by what a history calls them: the database and the digest's hash."""


@frozen
class PreparedStatements:
    """Every prepared statement that sessions hold, by what tells one from another."""

    counts: Mapping[str, tuple[DigestKey, DigestCount]]
    names: Mapping[str, DigestKey]


@frozen
class SeenStatement:
    """One statement in a session's history."""

    session: int
    number: int
    """Grows within a session."""
    kind: str
    """`begin`, `commit` or `rollback`; empty: another statement."""
    name: str = ""
    """What the server calls its digest; empty: it has none."""
    transaction: int | None = None
    """The number under which its transaction began; None outside of one."""


@frozen
class Kept:
    """What a server's performance schema keeps of statements."""

    digests: bool
    history: bool


IS_ON: Final = Question(
    "SELECT @@GLOBAL.performance_schema AS is_on", lambda rows: bool(int(rows[0]["is_on"]))
)
"""Whether there is a performance schema at all."""


def kept() -> Question[Kept]:
    """What it keeps of statements."""

    def read(rows: Sequence[Row]) -> Kept:
        enabled = {str(row["name"]) for row in rows if str(row["enabled"]).upper() == "YES"}
        return Kept(
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
                text, count = _EXECUTION.sub("", text), count._replace(prepared=count.times)
            key = DigestKey(_text(row["db"]), text)
            counts[key] = counts.get(key, DigestCount()).plus(count)
            if key.text:
                names[_name(row["db"], row["digest"])] = key
        return CountedDigests(counts, names)

    return Question(
        "SELECT schema_name AS db, digest AS digest, digest_text AS text, count_star AS times,"
        " sum_timer_wait AS ps, sum_rows_sent AS sent, sum_rows_affected AS affected,"
        f" CAST(sum_rows_examined AS SIGNED) - ({once_more}) AS examined"
        " FROM performance_schema.events_statements_summary_by_digest",
        read,
    )


def prepared_statements() -> Question[PreparedStatements]:
    """Those that sessions hold at this moment; none where the server makes no digest of a text."""

    def read(rows: Sequence[Row]) -> PreparedStatements:
        counts: dict[str, tuple[DigestKey, DigestCount]] = {}
        names: dict[str, DigestKey] = {}
        for row in rows:
            key = DigestKey(_text(row["db"]), _text(row["text"]))
            counts[f"{row['owner']} {row['id']}"] = key, _count(row)
            names[_name(row["db"], row["digest"])] = key
        return PreparedStatements(counts, names)

    nothing: Question[PreparedStatements] = Question("SELECT 1", lambda _: PreparedStatements({}, {}))
    return Question(
        "SELECT t.processlist_db AS db, p.owner_thread_id AS owner, p.statement_id AS id,"
        " STATEMENT_DIGEST(p.sql_text) AS digest, STATEMENT_DIGEST_TEXT(p.sql_text) AS text,"
        " p.count_execute AS times, p.sum_timer_execute AS ps,"
        " CAST(p.sum_rows_examined AS SIGNED) - CAST(p.sum_sort_rows AS SIGNED) AS examined,"
        " p.sum_rows_sent AS sent, p.sum_rows_affected AS affected"
        " FROM performance_schema.prepared_statements_instances p"
        " JOIN performance_schema.threads t ON t.thread_id = p.owner_thread_id",
        read,
        instead=nothing,
    )


EXECUTIONS: Final = Question(
    "SELECT COALESCE(SUM(count_star), 0) AS times"
    " FROM performance_schema.events_statements_summary_global_by_event_name"
    f" WHERE event_name = '{_EXECUTE}'",
    lambda rows: int(rows[0]["times"]),
)
"""How many prepared statements were executed since the server started."""


BUSY_SESSIONS: Final = Question(
    "SELECT thread_id AS id FROM performance_schema.threads WHERE type = 'FOREGROUND'"
    " AND processlist_id IS NOT NULL AND processlist_id <> CONNECTION_ID() AND processlist_time <= 1"
    f" AND processlist_command NOT LIKE 'Binlog%' ORDER BY RAND() LIMIT {_SESSIONS}",
    lambda rows: tuple(int(row["id"]) for row in rows),
)
"""Some sessions that did something within the last second or so, each as likely as any other."""


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
        found = _lowered(rows[0]).get("create table")
        return None if found is None else str(found)

    return Question(f"SHOW CREATE TABLE {quoted_name(table)}", read)


def _grown(now: Any, before: Any) -> Any:
    return max(0, now - before)


def _count(row: Row) -> DigestCount:
    return DigestCount(
        int(row["times"]),
        int(row["ps"]) / _PS_PER_MS,
        max(0, int(row["examined"])),
        int(row["sent"]),
        int(row["affected"]),
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _name(database: Any, digest: Any) -> str:
    return f"{_text(database)}\0{_text(digest)}"

"""Tables asked of information_schema, and the statements that mend what is found of them.

Both flavours have the same four views; columns that only newer servers have are read where they are there
(MySQL manual and MariaDB knowledge base, "INFORMATION_SCHEMA STATISTICS", "... COLUMNS"). A value is quoted
by the server of MariaDB and bare on MySQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from replexplorer.core.dialect.question import Question, Row
from replexplorer.core.dialect.values import whole
from replexplorer.core.tables.check import (
    AddKeyColumn,
    DeleteWithoutNotIn,
    DropIndex,
    ForbidNull,
    MakePrimary,
    Remedy,
    SelectWithoutNulls,
    UseInnodb,
)
from replexplorer.core.tables.table import Column, ForeignKey, Index, IndexPart, TableName, TableShape

T = TypeVar("T")
_ON_UPDATE: Final = re.compile(r"on update (\S+)", re.IGNORECASE)
_NOW: Final = re.compile(r"(current_timestamp|now)(\(\d*\))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Description:
    """Four questions that together describe the tables of some databases."""

    tables: Question[tuple[TableShape, ...]]
    """Names, engines and sizes, without all else."""
    columns: Question[Mapping[TableName, tuple[Column, ...]]]
    indexes: Question[Mapping[TableName, tuple[Index, ...]]]
    foreign_keys: Question[Mapping[TableName, tuple[ForeignKey, ...]]]


def description(databases: Sequence[str], default_of: Callable[[Row], str | None]) -> Description:
    """What to ask; `default_of` reads a column's default as SQL out of its row, in lower-case names."""
    names, marks = tuple(databases), ", ".join(["%s"] * len(databases))

    def read_columns(rows: Sequence[Row]) -> Mapping[TableName, tuple[Column, ...]]:
        return _grouped(rows, lambda row: _column(row, default_of(row)))

    return Description(
        Question(
            "SELECT table_schema, table_name, engine, table_rows, data_length + index_length AS bytes"
            " FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            f" AND table_schema IN ({marks}) ORDER BY table_schema, table_name",
            _read_tables,
            names,
        ),
        Question(
            "SELECT * FROM information_schema.columns"
            f" WHERE table_schema IN ({marks}) ORDER BY table_schema, table_name, ordinal_position",
            read_columns,
            names,
        ),
        Question(
            "SELECT * FROM information_schema.statistics"
            f" WHERE table_schema IN ({marks}) ORDER BY table_schema, table_name, index_name, seq_in_index",
            _read_indexes,
            names,
        ),
        Question(
            "SELECT * FROM information_schema.key_column_usage"
            f" WHERE referenced_table_name IS NOT NULL AND table_schema IN ({marks})"
            " ORDER BY table_schema, table_name, constraint_name, ordinal_position",
            _read_foreign_keys,
            names,
        ),
    )


def bare_default(row: Row) -> str | None:
    """As MySQL has it: a literal without quotes, an expression marked in `extra`."""
    value = row["column_default"]
    if value is None:
        return None
    text = str(value)
    if _NOW.fullmatch(text) or text.startswith("b'"):
        return text
    if "default_generated" in str(row["extra"]).lower():
        return f"({text})"
    return quoted(text)


def written_default(row: Row) -> str | None:
    """As MariaDB has it since 10.2.7: SQL already, NULL in words."""
    value = row["column_default"]
    return None if value is None or str(value).upper() == "NULL" else str(value)


def holds_null(table: TableName, column: str) -> Question[bool]:
    """Whether any row has a NULL there; without an index it is looked for in the whole table."""
    return Question(
        f"SELECT EXISTS (SELECT 1 FROM {quoted_name(table)} WHERE {_quoted(column)} IS NULL) AS found",
        lambda rows: int(rows[0]["found"]) == 1,
    )


def mend(table: TableName, remedy: Remedy) -> str:
    """The statement of a remedy; the new key column is left out of `SELECT *` and of an INSERT without a
    list of columns, so that nothing notices it (MySQL 8.0.23, MariaDB 10.3)."""
    name = quoted_name(table)
    match remedy:
        case AddKeyColumn(column):
            return (
                f"ALTER TABLE {name} ADD COLUMN {_quoted(column)} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
                " INVISIBLE PRIMARY KEY FIRST"
            )
        case MakePrimary(columns, instead_of):
            drop = f"DROP INDEX {_quoted(instead_of)}, " if instead_of else ""
            return f"ALTER TABLE {name} {drop}ADD PRIMARY KEY ({', '.join(map(_quoted, columns))})"
        case UseInnodb():
            return f"ALTER TABLE {name} ENGINE = InnoDB"
        case ForbidNull(column):
            return f"ALTER TABLE {name} MODIFY COLUMN {_defined(column)}"
        case DeleteWithoutNotIn(column, parent, parent_column):
            return (
                f"DELETE FROM {quoted_name(parent)} WHERE NOT EXISTS (SELECT 1 FROM {name}"
                f" WHERE {name}.{_quoted(column)} = {quoted_name(parent)}.{_quoted(parent_column)})"
            )
        case SelectWithoutNulls(column):
            return f"SELECT {_quoted(column)} FROM {name} WHERE {_quoted(column)} IS NOT NULL"
        case DropIndex(index):
            return f"ALTER TABLE {name} DROP INDEX {_quoted(index)}"


def quoted(text: str) -> str:
    """A text as a literal, whatever the SQL mode says of backslashes as long as there are none."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quoted_name(table: TableName) -> str:
    """A table's whole name, as a statement has it."""
    return f"{_quoted(table.database)}.{_quoted(table.table)}"


def _defined(column: Column) -> str:
    """A column's definition, never NULL: MODIFY drops what it does not repeat (manual, "ALTER TABLE")."""
    parts = [_quoted(column.name), column.type]
    if column.collation:
        charset = column.collation.partition("_")[0]
        # MariaDB's newer collations do not say of which character set they are.
        parts += [f"CHARACTER SET {charset}"] if charset != "uca1400" else []
        parts += [f"COLLATE {column.collation}"]
    parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    if column.on_update is not None:
        parts.append(f"ON UPDATE {column.on_update}")
    if column.is_auto_increment:
        parts.append("AUTO_INCREMENT")
    if column.is_invisible:
        parts.append("INVISIBLE")
    if column.comment:
        parts.append(f"COMMENT {quoted(column.comment)}")
    return " ".join(parts)


# -- rows


def _lowered(row: Row) -> Row:
    return {name.lower(): value for name, value in row.items()}


def _table_of(row: Row) -> TableName:
    return TableName(str(row["table_schema"]), str(row["table_name"]))


def _grouped(rows: Sequence[Row], read: Callable[[Row], T]) -> Mapping[TableName, tuple[T, ...]]:
    found: dict[TableName, list[T]] = {}
    for row in map(_lowered, rows):
        found.setdefault(_table_of(row), []).append(read(row))
    return {name: tuple(each) for name, each in found.items()}


def _read_tables(rows: Sequence[Row]) -> tuple[TableShape, ...]:
    return tuple(
        TableShape(_table_of(row), str(row["engine"] or "?"), whole(row["table_rows"]), whole(row["bytes"]))
        for row in map(_lowered, rows)
    )


def _column(row: Row, default: str | None) -> Column:
    extra = str(row["extra"]).lower()
    on_update = _ON_UPDATE.search(str(row["extra"]))
    collation = row["collation_name"]
    return Column(
        name=str(row["column_name"]),
        type=str(row["column_type"]),
        nullable=str(row["is_nullable"]).upper() == "YES",
        collation=None if collation is None else str(collation),
        default=default,
        on_update=on_update[1] if on_update else None,
        comment=str(row["column_comment"] or ""),
        is_auto_increment="auto_increment" in extra,
        is_generated=bool(row.get("generation_expression")),
        is_invisible="invisible" in extra,
    )


def _read_indexes(rows: Sequence[Row]) -> Mapping[TableName, tuple[Index, ...]]:
    found: dict[TableName, dict[str, Index]] = {}
    for row in map(_lowered, rows):
        of_table = found.setdefault(_table_of(row), {})
        name = str(row["index_name"])
        column, expression = row["column_name"], row.get("expression")
        part = IndexPart(
            None if column is None else str(column),
            whole(row["sub_part"]),
            str(row["collation"]).upper() == "D",
            None if expression is None else str(expression),
        )
        before = of_table[name].parts if name in of_table else ()
        # MySQL says whether it is visible, MariaDB whether it is ignored.
        hidden = str(row.get("is_visible", "YES")).upper() == "NO" or str(row.get("ignored")).upper() == "YES"
        of_table[name] = Index(
            name, (*before, part), int(row["non_unique"]) == 0, not hidden, str(row["index_type"]).upper()
        )
    return {table: tuple(indexes.values()) for table, indexes in found.items()}


def _read_foreign_keys(rows: Sequence[Row]) -> Mapping[TableName, tuple[ForeignKey, ...]]:
    found: dict[TableName, dict[str, ForeignKey]] = {}
    for row in map(_lowered, rows):
        of_table = found.setdefault(_table_of(row), {})
        name = str(row["constraint_name"])
        parent = TableName(str(row["referenced_table_schema"]), str(row["referenced_table_name"]))
        before = of_table.get(name, ForeignKey((), parent, ()))
        of_table[name] = ForeignKey(
            (*before.columns, str(row["column_name"])),
            parent,
            (*before.parent_columns, str(row["referenced_column_name"])),
        )
    return {table: tuple(keys.values()) for table, keys in found.items()}

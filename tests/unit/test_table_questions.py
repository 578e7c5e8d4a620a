"""How tables are read out of information_schema."""

from __future__ import annotations

from typing import Any

import pytest

from replexplorer.core.dialect.schema import description
from replexplorer.core.tables import Column, Index, TableName, TableShape

T = TableName("shop", "t")
OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}
ASKED = description(("shop", "it's"))


def test_databases_are_arguments_and_never_text() -> None:
    for question in (ASKED.tables, ASKED.columns, ASKED.indexes, ASKED.foreign_keys):
        assert question.arguments == ("shop", "it's")
        assert question.statement.count("%s") == 2


def test_tables_and_sizes() -> None:
    rows = [{**OF_T, "TABLE_ROWS": 12, "bytes": 16384}]
    rows += [{**OF_T, "TABLE_NAME": "u", "TABLE_ROWS": None, "bytes": None}]
    assert ASKED.tables.read(rows) == (TableShape(T, 12, 16384), TableShape(TableName("shop", "u")))


def column(**known: Any) -> dict[str, Any]:
    return {
        **OF_T, "COLUMN_NAME": "c", "COLUMN_TYPE": "int", "IS_NULLABLE": "NO", "EXTRA": "",
        "GENERATION_EXPRESSION": "", **known,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (column(), Column("c", "int")),
        (column(IS_NULLABLE="YES"), Column("c", "int", nullable=True)),
        (column(EXTRA="auto_increment"), Column("c", "int", is_auto_increment=True)),
        (column(EXTRA="VIRTUAL GENERATED", GENERATION_EXPRESSION="1"), Column("c", "int", is_generated=True)),
        (
            column(EXTRA="auto_increment INVISIBLE"),
            Column("c", "int", is_auto_increment=True, is_invisible=True),
        ),
    ],
)
def test_a_column(row: dict[str, Any], read: Column) -> None:
    assert ASKED.columns.read([row]) == {T: (read,)}


def part(name: str, **known: Any) -> dict[str, Any]:
    return {**OF_T, "INDEX_NAME": name, "NON_UNIQUE": 1, "COLUMN_NAME": "c", **known}


def test_indexes_with_their_columns() -> None:
    rows = [part("PRIMARY", NON_UNIQUE=0), part("a"), part("a", COLUMN_NAME="d"), part("e", COLUMN_NAME=None)]
    assert ASKED.indexes.read(rows) == {
        T: (Index("PRIMARY", ("c",), unique=True), Index("a", ("c", "d")), Index("e", ()))
    }


def test_foreign_keys_by_column() -> None:
    parent = {"REFERENCED_TABLE_SCHEMA": "shop", "REFERENCED_TABLE_NAME": "p"}
    rows = [{**OF_T, **parent, "CONSTRAINT_NAME": "fk", "COLUMN_NAME": name} for name in ("a", "b")]
    assert ASKED.foreign_keys.read(rows) == {T: {"a": TableName("shop", "p"), "b": TableName("shop", "p")}}

"""How tables are read out of information_schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from replexplorer.core.dialect.question import Row
from replexplorer.core.dialect.schema import described, description
from replexplorer.core.tables import Column, Index, TableName, TableShape

T = TableName("shop", "t")
OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}


def test_databases_are_arguments_and_never_text() -> None:
    for question in description(("shop", "it's")):
        assert question.arguments == ("shop", "it's")
        assert question.statement.count("%s") == 2


def shape(
    columns: Sequence[Row] = (), indexes: Sequence[Row] = (), foreign_keys: Sequence[Row] = ()
) -> TableShape:
    """One table as these rows of information_schema describe it, and another without any."""
    tables = [{**OF_T, "TABLE_ROWS": 12, "bytes": 16384}]
    tables += [{**OF_T, "TABLE_NAME": "u", "TABLE_ROWS": None, "bytes": None}]
    answers = zip(description(("shop",)), (tables, columns, indexes, foreign_keys), strict=True)
    found, other = described(*(question.read(rows) for question, rows in answers))
    assert other == TableShape(TableName("shop", "u"))
    assert (found.name, found.rows, found.size_bytes) == (T, 12, 16384)
    return found


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
    assert shape([row]).columns == (read,)


def part(name: str, **known: Any) -> dict[str, Any]:
    return {**OF_T, "INDEX_NAME": name, "NON_UNIQUE": 1, "COLUMN_NAME": "c", **known}


def test_indexes_with_their_columns() -> None:
    rows = [part("PRIMARY", NON_UNIQUE=0), part("a"), part("a", COLUMN_NAME="d"), part("e", COLUMN_NAME=None)]
    assert shape(indexes=rows).indexes == (
        Index("PRIMARY", ("c",), unique=True),
        Index("a", ("c", "d")),
        Index("e", ()),
    )


def test_foreign_keys_by_column() -> None:
    parent = {"REFERENCED_TABLE_SCHEMA": "shop", "REFERENCED_TABLE_NAME": "p"}
    rows = [{**OF_T, **parent, "CONSTRAINT_NAME": "fk", "COLUMN_NAME": name} for name in ("a", "b")]
    assert shape(foreign_keys=rows).foreign_keys == dict.fromkeys(("a", "b"), TableName("shop", "p"))

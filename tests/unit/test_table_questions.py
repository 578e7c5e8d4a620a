"""How tables are read out of information_schema."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.dialect.question import Row
from replexplorer.core.dialect.schema import described, description

OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}


def test_databases_are_arguments_and_never_text() -> None:
    for question in description(("shop", "it's")):
        assert question.arguments == ("shop", "it's")
        assert question.statement.count("%s") == 2


def column(name: str, **known: str) -> Row:
    plain = {"COLUMN_TYPE": "int", "IS_NULLABLE": "NO", "EXTRA": "", "GENERATION_EXPRESSION": ""}
    return {**OF_T, "COLUMN_NAME": name, **plain, **known}


def part(index: str, column: str | None = "c", **known: int) -> Row:
    return {**OF_T, "INDEX_NAME": index, "NON_UNIQUE": 1, "COLUMN_NAME": column, **known}


def test_tables_are_as_four_questions_find_them(snapshot: object) -> None:
    parent = {"REFERENCED_TABLE_SCHEMA": "shop", "REFERENCED_TABLE_NAME": "p"}
    answers: Sequence[Sequence[Row]] = (
        [
            {**OF_T, "TABLE_ROWS": 12, "bytes": 16384},
            {**OF_T, "TABLE_NAME": "u", "TABLE_ROWS": None, "bytes": None},
        ],
        [
            column("a"),
            column("b", IS_NULLABLE="YES"),
            column("c", EXTRA="auto_increment INVISIBLE"),
            column("d", EXTRA="VIRTUAL GENERATED", GENERATION_EXPRESSION="1"),
        ],
        [part("PRIMARY", NON_UNIQUE=0), part("a"), part("a", "d"), part("e", None)],
        [{**OF_T, **parent, "CONSTRAINT_NAME": "fk", "COLUMN_NAME": name} for name in ("a", "b")],
    )
    read = (each.read(rows) for each, rows in zip(description(("shop",)), answers, strict=True))
    assert described(*read) == snapshot

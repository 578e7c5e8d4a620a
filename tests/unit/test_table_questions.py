"""How tables are read out of information_schema."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.dialect.question import Row
from replexplorer.core.dialect.schema import described, description
from tests.typed import table_of

OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}


def test_databases_are_arguments_and_never_text() -> None:
    for question in description(("shop", "it's")):
        assert question.arguments == ("shop", "it's")
        assert question.statement.count("%s") == 2


COLUMNS = """\
a | NO  |                          |
b | YES |                          |
c | NO  | auto_increment INVISIBLE |
d | NO  | VIRTUAL GENERATED        | 1
"""
INDEXES = """\
PRIMARY | 0 | c
a       | 1 | c
a       | 1 | d
e       | 1 |
"""


def rows(text: str, names: str) -> list[Row]:
    """Of a table, by the names of columns."""
    return [{**OF_T, **dict(zip(names.split(), cells, strict=True))} for cells in table_of(text)]


def test_tables_are_as_four_questions_find_them(snapshot: object) -> None:
    parent = {"REFERENCED_TABLE_SCHEMA": "shop", "REFERENCED_TABLE_NAME": "p"}
    columns = rows(COLUMNS, "COLUMN_NAME IS_NULLABLE EXTRA GENERATION_EXPRESSION")
    indexes = rows(INDEXES, "INDEX_NAME NON_UNIQUE COLUMN_NAME")
    answers: Sequence[Sequence[Row]] = (
        [
            {**OF_T, "TABLE_ROWS": 12, "bytes": 16384},
            {**OF_T, "TABLE_NAME": "u", "TABLE_ROWS": None, "bytes": None},
        ],
        [{**each, "COLUMN_TYPE": "int"} for each in columns],
        [
            {**each, "NON_UNIQUE": int(each["NON_UNIQUE"]), "COLUMN_NAME": each["COLUMN_NAME"] or None}
            for each in indexes
        ],
        [{**OF_T, **parent, "CONSTRAINT_NAME": "fk", "COLUMN_NAME": name} for name in ("a", "b")],
    )
    read = (each.read(rows) for each, rows in zip(description(("shop",)), answers, strict=True))
    assert described(*read) == snapshot

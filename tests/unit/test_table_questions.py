"""How tables are read out of information_schema on both flavours, and the statements of remedies."""

from __future__ import annotations

from typing import Any

import pytest

from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.table_questions import bare_default, mend, written_default
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
from tests.fakes.servers import MARIADB, MYSQL_9

T = TableName("shop", "t")
OF_T = {"TABLE_SCHEMA": "shop", "TABLE_NAME": "t"}
SERVERS = [MySql.of(MYSQL_9, {}), MariaDb.of(MARIADB, {})]


@pytest.mark.parametrize("server", SERVERS, ids=["mysql", "mariadb"])
def test_databases_are_arguments_and_never_text(server: MySql) -> None:
    asked = server.describe(("shop", "it's"))
    for question in (asked.tables, asked.columns, asked.indexes, asked.foreign_keys):
        assert question.arguments == ("shop", "it's")
        assert question.statement.count("%s") == 2


def test_tables_and_sizes() -> None:
    rows = [{**OF_T, "ENGINE": "InnoDB", "TABLE_ROWS": 12, "bytes": 16384}]
    rows += [{**OF_T, "TABLE_NAME": "u", "ENGINE": None, "TABLE_ROWS": None, "bytes": None}]
    assert SERVERS[0].describe(("shop",)).tables.read(rows) == (
        TableShape(T, "InnoDB", 12, 16384),
        TableShape(TableName("shop", "u"), "?"),
    )


def column(**known: Any) -> dict[str, Any]:
    return {
        **OF_T, "COLUMN_NAME": "c", "COLUMN_TYPE": "int", "IS_NULLABLE": "NO", "COLLATION_NAME": None,
        "COLUMN_DEFAULT": None, "EXTRA": "", "COLUMN_COMMENT": "", "GENERATION_EXPRESSION": "", **known,
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
        (
            column(COLUMN_TYPE="timestamp", EXTRA="DEFAULT_GENERATED on update CURRENT_TIMESTAMP(3)"),
            Column("c", "timestamp", on_update="CURRENT_TIMESTAMP(3)"),
        ),
        (
            column(COLUMN_COMMENT="a", COLLATION_NAME="latin1_bin"),
            Column("c", "int", collation="latin1_bin", comment="a"),
        ),
    ],
)
@pytest.mark.parametrize("server", SERVERS, ids=["mysql", "mariadb"])
def test_a_column(server: MySql, row: dict[str, Any], read: Column) -> None:
    assert server.describe(("shop",)).columns.read([row]) == {T: (read,)}


@pytest.mark.parametrize(
    ("default", "extra", "sql"),
    [
        (None, "", None),
        ("5", "", "'5'"),
        ("it's", "", "'it''s'"),
        ("CURRENT_TIMESTAMP(6)", "DEFAULT_GENERATED", "CURRENT_TIMESTAMP(6)"),
        ("uuid()", "DEFAULT_GENERATED", "(uuid())"),
        ("b'101'", "", "b'101'"),
        ("", "", "''"),
    ],
)
def test_a_default_of_mysql_is_bare(default: str | None, extra: str, sql: str | None) -> None:
    assert bare_default({"column_default": default, "extra": extra}) == sql


@pytest.mark.parametrize(
    ("default", "sql"),
    [(None, None), ("NULL", None), ("'it''s'", "'it''s'"), ("5", "5"), ("uuid()", "uuid()")],
)
def test_a_default_of_mariadb_is_sql(default: str | None, sql: str | None) -> None:
    assert written_default({"column_default": default, "extra": ""}) == sql


def part(name: str, **known: Any) -> dict[str, Any]:
    return {
        **OF_T, "INDEX_NAME": name, "NON_UNIQUE": 1, "COLUMN_NAME": "c", "SUB_PART": None, "COLLATION": "A",
        "INDEX_TYPE": "BTREE", **known,
    }  # fmt: skip


def test_indexes_with_all_that_tells_them_apart() -> None:
    read = (
        SERVERS[0]
        .describe(("shop",))
        .indexes.read(
            [
                part("PRIMARY", NON_UNIQUE=0),
                part("a", SUB_PART=10),
                part("a", COLUMN_NAME="d", COLLATION="D"),
                part("e", COLUMN_NAME=None, EXPRESSION="lower(`c`)", IS_VISIBLE="NO"),
                part("f", INDEX_TYPE="FULLTEXT", COLLATION=None, IGNORED="YES"),
            ]
        )
    )
    assert read == {
        T: (
            Index("PRIMARY", (IndexPart("c"),), unique=True),
            Index("a", (IndexPart("c", 10), IndexPart("d", descending=True))),
            Index("e", (IndexPart(None, expression="lower(`c`)"),), visible=False),
            Index("f", (IndexPart("c"),), visible=False, kind="FULLTEXT"),
        )
    }


def test_foreign_keys_of_several_columns() -> None:
    def use(column: str, parent_column: str) -> dict[str, Any]:
        return {
            **OF_T, "CONSTRAINT_NAME": "fk", "COLUMN_NAME": column, "REFERENCED_TABLE_SCHEMA": "shop",
            "REFERENCED_TABLE_NAME": "p", "REFERENCED_COLUMN_NAME": parent_column,
        }  # fmt: skip

    read = SERVERS[1].describe(("shop",)).foreign_keys.read([use("a", "x"), use("b", "y")])
    assert read == {T: (ForeignKey(("a", "b"), TableName("shop", "p"), ("x", "y")),)}


@pytest.mark.parametrize(
    ("remedy", "statement"),
    [
        (
            AddKeyColumn("id"),
            "ALTER TABLE `shop`.`t` ADD COLUMN `id` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE"
            " PRIMARY KEY FIRST",
        ),
        (MakePrimary(("a", "b")), "ALTER TABLE `shop`.`t` ADD PRIMARY KEY (`a`, `b`)"),
        (MakePrimary(("a",), "u"), "ALTER TABLE `shop`.`t` DROP INDEX `u`, ADD PRIMARY KEY (`a`)"),
        (UseInnodb(), "ALTER TABLE `shop`.`t` ENGINE = InnoDB"),
        (
            ForbidNull(
                Column("c", "varchar(9)", True, "latin1_bin", "'x'", comment="it's", is_invisible=True)
            ),
            "ALTER TABLE `shop`.`t` MODIFY COLUMN `c` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin"
            " NOT NULL DEFAULT 'x' INVISIBLE COMMENT 'it''s'",
        ),
        (
            DeleteWithoutNotIn("p_id", TableName("shop", "p"), "id"),
            "DELETE FROM `shop`.`p` WHERE NOT EXISTS (SELECT 1 FROM `shop`.`t`"
            " WHERE `shop`.`t`.`p_id` = `shop`.`p`.`id`)",
        ),
        (SelectWithoutNulls("c"), "SELECT `c` FROM `shop`.`t` WHERE `c` IS NOT NULL"),
        (DropIndex("a`b"), "ALTER TABLE `shop`.`t` DROP INDEX `a``b`"),
    ],
)
def test_the_statement_of_a_remedy(remedy: Remedy, statement: str) -> None:
    assert mend(T, remedy) == statement

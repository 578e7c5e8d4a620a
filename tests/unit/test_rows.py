"""What looks at the rows of two nodes prove, and how rows are asked for."""

from __future__ import annotations

from typing import get_args

from replexplorer.core.dialect.rows import RowRange
from replexplorer.core.rows import (
    SAME_LOOKS,
    Difference,
    RowLook,
    RowRun,
    Rows,
    RowsChecked,
    TableRows,
    Unlike,
    looked,
    picked,
    runs_of,
)
from replexplorer.core.tables import PRIMARY, Column, Index, TableName, TableShape
from tests.known import refused
from tests.typed import table_of


def after(*looks: tuple[Rows, Rows, bool]) -> Unlike:
    left: Unlike = {}
    for source, node, proves in looks:
        left = looked(left, source, node, proves=proves)
    return left


def row(value: str) -> Rows:
    """One row with this value; `-`: there is none."""
    return {} if value == "-" else {(1,): value}


LOOKS = """\
aa           |
ab           | unsettled
ab ab ab ab  | changed
a- a- a- a-  | missing
-a -a -a -a  | extra
ab ab ab bb  |
ab ab ab ab? | unsettled
ab ab ab ba  | unsettled
ab ab ab -b  | unsettled
ab ab ab --  |
ab? ab ab ab | changed
"""
"""What each look finds of a row at the source and at the node; `?`: it proves nothing."""


def test_only_what_stays_the_same_differs() -> None:
    for looks, found in table_of(LOOKS):
        left = after(*((row(look[0]), row(look[1]), not look.endswith("?")) for look in looks.split()))
        assert [look.difference for look in left.values()] == found.split(), looks


def test_rows_that_came_after_the_first_look_are_not_looked_at() -> None:
    assert after((row("a"), row("b"), True), (row("a"), {**row("b"), (2,): "new"}, True)).keys() == {(1,)}


def test_neighbours_that_differ_alike_are_one_run(snapshot: object) -> None:
    changed = RowLook("a", "b", SAME_LOOKS)
    left: Unlike = {(number, "x"): changed for number in (1, 2, 4)}
    left |= {(5, "x"): RowLook("a", None, SAME_LOOKS), (9, "y"): RowLook(None, "a", SAME_LOOKS)}
    seen = [*((number, "x") for number in range(1, 7)), (9, "y")]
    assert [*runs_of(left, seen), *runs_of({(): changed}, [()])] == snapshot


def test_all_rows_are_counted_and_few_are_kept() -> None:
    table = TableRows()
    table.add([RowRun("changed", str(key), str(key), 2) for key in range(30)])
    assert (table.rows, len(table.runs)) == ({"changed": 60}, 20)
    table.add([RowRun("changed")])
    assert table.rows == {"changed": None}


VERDICTS = """\
                |      | alike
unsettled       |      | unknown
                | away | unknown
unsettled extra | away | differs
"""
"""How rows differ, and why a node is not known."""


def test_a_difference_goes_before_what_is_not_known() -> None:
    for kinds, away, verdict in table_of(VERDICTS):
        tables = {"shop.t": TableRows({kind: 1 for kind in get_args(Difference) if kind in kinds.split()})}
        unknown = {"db3": away} if away else {}
        assert RowsChecked("db1", nodes={"db2": tables}, unknown=unknown).verdict == verdict


TABLES = [TableName("shop", "b"), TableName("shop", "a"), TableName("mail", "a")]


def test_tables_are_named_with_or_without_their_database(snapshot: object) -> None:
    assert {" ".join(each): picked(each, TABLES) for each in ([], ["shop"], ["mail.a", "shop.a"])} == snapshot
    assert "'shop.c'" in refused(picked, ["shop", "shop.c"], TABLES)


# -- the statements


def shape(*columns: Column, key: tuple[str, ...] = ()) -> TableShape:
    indexes = (Index(PRIMARY, key, unique=True),) if key else ()
    return TableShape(TableName("shop", "t"), columns=columns, indexes=indexes)


HASHED = """\
int(11) unsigned | `t`.`c`
datetime(6) NULL | COALESCE(`t`.`c`, 'NULL')
time             | `t`.`c`
timestamp(3)     | UNIX_TIMESTAMP(`t`.`c`)
float            | (`t`.`c` + 0e0)
varchar(9) NULL  | COALESCE(HEX(`t`.`c`), 'NULL')
enum('int')      | HEX(`t`.`c`)
bit(8)           | HEX(`t`.`c`)
point            | HEX(`t`.`c`)
json             | SHA2(`t`.`c`, 256)
longblob         | SHA2(`t`.`c`, 256)
"""


def test_a_value_is_hashed_by_its_type() -> None:
    for kind, hashed in table_of(HASHED):
        column = Column("c", kind.removesuffix(" NULL"), nullable=kind.endswith("NULL"))
        statement = RowRange(shape(column, Column("g", "int", is_generated=True))).rows().statement
        assert f"CONCAT_WS('#', {hashed})" in statement, kind


def test_a_range_lies_between_two_keys(snapshot: object) -> None:
    table = shape(Column("a", "int"), Column("b", "binary(2)"), key=("a", "b"))
    question = RowRange(table, (1, "0A"), (2, "FF")).rows(7)
    assert (question.statement, question.arguments) == snapshot
    assert question.read([{"a": 1, "b": "0B", "#": "f0"}]) == {(1, "0B"): "f0"}


def test_without_a_key_to_walk_along_a_range_is_the_whole_table() -> None:
    for table in (
        shape(Column("a", "int")),
        shape(Column("a", "timestamp"), key=("a",)),
        shape(Column("a", "int"), Column("b", "enum('x')"), key=("a", "b")),
        shape(Column("100%", "int"), key=("100%",)),
    ):
        question = RowRange(table).rows(7)
        assert question.statement.startswith("SELECT CONCAT_WS(' ', COUNT(*), SUM(CAST(CONV(LEFT(SHA2(")
        assert question.statement.endswith(" FROM `shop`.`t` AS t")
        assert question.read([{"total": "2 99"}]) == {(): "2 99"}

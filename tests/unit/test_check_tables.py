"""What is found of tables: each rule on the tables that it is for and on those that it is not for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.tables.check import (
    AddKeyColumn,
    DeleteWithoutNotIn,
    DropIndex,
    Finding,
    Flaw,
    ForbidNull,
    MakePrimary,
    SelectWithoutNulls,
    UseInnodb,
    Weight,
    check,
    members_of,
)
from replexplorer.core.tables.references import references_of
from replexplorer.core.tables.table import (
    PRIMARY,
    Column,
    ForeignKey,
    Index,
    IndexPart,
    TableName,
    TableShape,
)

ID = Column("id", "int(11)")


def named(name: str) -> TableName:
    return TableName("shop", name)


def index(name: str, *columns: str, unique: bool = False, visible: bool = True, kind: str = "BTREE") -> Index:
    return Index(name, tuple(IndexPart(column) for column in columns), unique, visible, kind)


def table(name: str, *columns: Column, indexes: tuple[Index, ...] = (), engine: str = "InnoDB") -> TableShape:
    return TableShape(named(name), engine, columns=columns, indexes=indexes)


KEY = index(PRIMARY, "id", unique=True)
CUSTOMERS = table("customers", ID, indexes=(KEY,))


def only(kind: Flaw, *tables: TableShape, nulls: bool | None = None) -> list[Finding]:
    known = dict.fromkeys(members_of(tables), nulls)
    return [each for each in check(tables, known) if each.kind is kind]


def test_a_table_with_a_key_on_innodb_has_nothing() -> None:
    assert check((CUSTOMERS,), {}) == ()


# -- keys and engines


@pytest.mark.parametrize(
    ("columns", "indexes", "severity", "remedy"),
    [
        ((Column("text", "text"),), (), Weight.PROBLEM, AddKeyColumn("id")),
        ((ID,), (), Weight.PROBLEM, AddKeyColumn("row_id")),
        ((ID, Column("ROW_ID", "int")), (), Weight.PROBLEM, AddKeyColumn("row_id_2")),
        ((ID,), (index("id", "id"),), Weight.PROBLEM, AddKeyColumn("row_id")),
        (
            (replace(ID, is_auto_increment=True),),
            (index("id", "id"),),
            Weight.PROBLEM,
            MakePrimary(("id",), "id"),
        ),
        ((ID,), (index("u", "id", unique=True),), Weight.NOTE, MakePrimary(("id",), "u")),
        (
            (replace(ID, nullable=True),),
            (index("u", "id", unique=True),),
            Weight.PROBLEM,
            AddKeyColumn("row_id"),
        ),
        (
            (Column("name", "varchar(99)"),),
            (Index("u", (IndexPart("name", prefix=10),), unique=True),),
            Weight.PROBLEM,
            AddKeyColumn("id"),
        ),
    ],
)
def test_a_table_without_a_primary_key(
    columns: tuple[Column, ...], indexes: tuple[Index, ...], severity: Weight, remedy: object
) -> None:
    [found] = only(Flaw.NO_PRIMARY_KEY, table("log", *columns, indexes=indexes))
    assert (found.severity, found.remedy) == (severity, remedy)


@pytest.mark.parametrize(
    ("engine", "said"),
    [("MyISAM", "no transactions"), ("Aria", "no transactions"), ("MEMORY", "empty after a restart")],
)
def test_an_engine_without_transactions(engine: str, said: str) -> None:
    [found] = only(Flaw.ENGINE, replace(CUSTOMERS, engine=engine))
    assert (found.severity, found.remedy) == (Weight.PROBLEM, UseInnodb())
    assert said in found.why


@pytest.mark.parametrize("engine", ["InnoDB", "ROCKSDB", "ndbcluster"])
def test_an_engine_with_transactions(engine: str) -> None:
    assert not only(Flaw.ENGINE, replace(CUSTOMERS, engine=engine))


# -- columns that name another table's rows


GUESSED = table(
    "orders",
    ID,
    Column("customer_id", "int", nullable=True),
    indexes=(KEY, index("by_customer", "customer_id")),
)
ORDERS = replace(GUESSED, foreign_keys=(ForeignKey(("customer_id",), CUSTOMERS.name, ("id",)),))
EMPLOYEES = table("employees", Column("emp_no", "int"), indexes=(index(PRIMARY, "emp_no", unique=True),))


def test_a_column_that_holds_nulls_makes_not_in_useless_and_the_job_is_rewritten() -> None:
    [found] = only(Flaw.NULLABLE_KEY, CUSTOMERS, ORDERS, nulls=True)
    assert (found.severity, found.columns) == (Weight.PROBLEM, ("customer_id",))
    assert found.remedy == DeleteWithoutNotIn("customer_id", CUSTOMERS.name, "id")
    assert "deletes nothing" in found.why


@pytest.mark.parametrize(("nulls", "said"), [(False, "holds none now"), (None, "is unknown")])
def test_one_that_holds_none_now_is_a_note(nulls: bool | None, said: str) -> None:
    [found] = only(Flaw.NULLABLE_KEY, CUSTOMERS, ORDERS, nulls=nulls)
    assert (found.severity, found.remedy) == (Weight.NOTE, ForbidNull(ORDERS.columns[1]))
    assert said in found.why


def test_a_unique_column_is_a_key_of_membership_without_another_table() -> None:
    letters = table(
        "letters",
        ID,
        Column("email", "varchar(99)", nullable=True),
        indexes=(KEY, index("u", "email", unique=True)),
    )
    [found] = only(Flaw.NULLABLE_KEY, letters, nulls=True)
    assert found.remedy == SelectWithoutNulls("email")


def test_a_declared_key_names_rows_whatever_it_is_called() -> None:
    orders = replace(
        table("orders", ID, Column("who", "int", nullable=True), indexes=(KEY, index("fk", "who"))),
        foreign_keys=(ForeignKey(("who",), CUSTOMERS.name, ("id",)),),
    )
    assert members_of((CUSTOMERS, orders)) == ((orders.name, "who"),)


@pytest.mark.parametrize(
    ("parent", "column", "names"),
    [
        (CUSTOMERS, Column("customer_id", "int"), True),
        (CUSTOMERS, Column("customerId", "int"), True),
        (CUSTOMERS, Column("customers_id", "int unsigned"), False),  # another type
        (CUSTOMERS, Column("other_id", "int"), False),
        (EMPLOYEES, Column("emp_no", "int"), True),
        (EMPLOYEES, Column("employee_id", "int"), True),
        (table("categories", ID, indexes=(KEY,)), Column("category_id", "int"), True),
        (replace(CUSTOMERS, name=TableName("other", "customers")), Column("customer_id", "int"), False),
        (table("customers", ID), Column("customer_id", "int"), False),  # no key to be named by
    ],
)
def test_a_name_and_a_type_say_whose_rows_are_meant(parent: TableShape, column: Column, names: bool) -> None:
    child = table("child", Column("number", "int"), column, indexes=(index(PRIMARY, "number", unique=True),))
    found = references_of((parent, child))
    assert [(each.table, each.column) for each in found] == ([(child, column)] if names else [])


def test_a_guessed_reference_is_nothing_to_complain_of() -> None:
    assert not only(Flaw.NULLABLE_KEY, CUSTOMERS, GUESSED, nulls=True)


# -- needless indexes


@pytest.mark.parametrize(
    ("indexes", "kind", "goes"),
    [
        ((index("a", "x"), index("b", "x")), Flaw.DUPLICATE_INDEX, ["b"]),
        ((index("a", "x"), index("b", "x", unique=True)), Flaw.DUPLICATE_INDEX, ["a"]),
        ((KEY, index("a", "id")), Flaw.DUPLICATE_INDEX, ["a"]),
        ((KEY, index("a", "id", unique=True)), Flaw.DUPLICATE_INDEX, ["a"]),
        ((index("a", "x"), index("b", "x", "y")), Flaw.REDUNDANT_INDEX, ["a"]),
        ((index("a", "x", unique=True), index("b", "x", "y")), Flaw.REDUNDANT_INDEX, []),
        ((index("a", "x"), index("b", "y", "x")), Flaw.REDUNDANT_INDEX, []),
        ((index("a", "x"), index("b", "x", "y", visible=False)), Flaw.REDUNDANT_INDEX, []),
        ((index("a", "x", kind="FULLTEXT"), index("b", "x")), Flaw.DUPLICATE_INDEX, []),
        ((index("a", "x", kind="FULLTEXT"), index("b", "x", kind="FULLTEXT")), Flaw.DUPLICATE_INDEX, ["b"]),
        (
            (Index("a", (IndexPart("x", prefix=9),)), index("b", "x", "y")),
            Flaw.REDUNDANT_INDEX,
            [],
        ),
    ],
)
def test_an_index_that_another_serves_as_well(
    indexes: tuple[Index, ...], kind: Flaw, goes: list[str]
) -> None:
    found = only(kind, table("t", ID, Column("x", "int"), Column("y", "int"), indexes=indexes))
    assert [each.remedy for each in found] == [DropIndex(name) for name in goes]
    assert all(each.severity is Weight.NOTE for each in found)


PARTS = st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)
INDEXES = st.lists(st.tuples(PARTS, st.booleans(), st.booleans()), max_size=6).map(
    lambda drawn: tuple(
        index(f"i{number}", *parts, unique=unique, visible=visible)
        for number, (parts, unique, visible) in enumerate(drawn)
    )
)


@given(INDEXES)
def test_what_is_dropped_all_at_once_leaves_an_index_for_each_search_and_every_constraint(
    indexes: tuple[Index, ...],
) -> None:
    found = check((table("t", ID, indexes=(KEY, *indexes)),), {})
    dropped = {each.remedy.index for each in found if isinstance(each.remedy, DropIndex)}
    kept = [each for each in (KEY, *indexes) if each.name not in dropped]
    for gone in (each for each in indexes if each.name in dropped):
        assert any(each.visible and each.parts[: len(gone.parts)] == gone.parts for each in kept)
        assert not gone.unique or any(each.unique and each.parts == gone.parts for each in kept)


def test_problems_come_first() -> None:
    found = check((ORDERS, CUSTOMERS, table("log", ID)), {})
    assert [each.severity for each in found] == [Weight.PROBLEM, Weight.NOTE]

"""Which columns name rows of another table: declared as foreign keys, or by their names and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replexplorer.core.tables.table import Column, TableShape


@dataclass(frozen=True, slots=True)
class RowReference:
    """A column of one table whose values are a key of another."""

    table: TableShape
    column: Column
    parent: TableShape
    parent_column: str


def declared_references(tables: Sequence[TableShape]) -> tuple[RowReference, ...]:
    """Those of foreign keys."""
    return tuple(each for table in tables for each in _declared(table, tables))


def references_of(tables: Sequence[TableShape]) -> tuple[RowReference, ...]:
    """Those of foreign keys, then those that only a column's name and type tell: a guess."""
    declared = declared_references(tables)
    known = {(each.table.name, each.column.name) for each in declared}
    by_name = tuple(
        each
        for table in tables
        for each in _by_name(table, tables)
        if (table.name, each.column.name) not in known
    )
    return declared + by_name


def _declared(table: TableShape, tables: Sequence[TableShape]) -> Iterator[RowReference]:
    by_name = {each.name: each for each in tables}
    for key in table.foreign_keys:
        parent = by_name.get(key.parent)
        for name, parent_column in zip(key.columns, key.parent_columns, strict=True):
            column = table.column(name)
            if parent is not None and column is not None:
                yield RowReference(table, column, parent, parent_column)


def _by_name(table: TableShape, tables: Sequence[TableShape]) -> Iterator[RowReference]:
    """A column called as another table's key of one column (`emp_no`), or as that table with it
    (`customer_id` for customers.id), of the same type and in the same database; not its own key."""
    own = table.primary
    for column in table.columns:
        if own is not None and own.columns == (column.name,):
            continue
        for parent in tables:
            if parent is table or parent.name.database != table.name.database:
                continue
            if parent.primary is None or len(parent.primary.columns) != 1:
                continue
            key = parent.column(parent.primary.columns[0])
            if key is not None and key.kind == column.kind and _is_called_after(column.name, parent, key):
                yield RowReference(table, column, parent, key.name)
                break


def _is_called_after(name: str, parent: TableShape, key: Column) -> bool:
    plain, key_name = _plain(name), _plain(key.name)
    if plain == key_name:
        return key_name != "id"
    return any(plain in (stem + key_name, stem + "id") for stem in _stems(parent.name.table))


def _stems(table: str) -> set[str]:
    """A table's name and its singular, as far as an ending tells: `categories`, `category`."""
    plain = _plain(table)
    found = {plain}
    for ending, instead in (("ies", "y"), ("es", ""), ("s", "")):
        if plain.endswith(ending) and len(plain) > len(ending) + 1:
            found.add(plain.removesuffix(ending) + instead)
    return found


def _plain(name: str) -> str:
    """Without case and underscores: `customerId` is `customer_id`."""
    return name.replace("_", "").lower()

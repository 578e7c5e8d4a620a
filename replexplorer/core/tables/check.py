"""What of a server's tables hurts row-based replication or jobs that delete, each with what mends it.

Law: rules look at descriptions alone; what only the rows can say (whether a column holds NULLs) is asked
apart and may be unknown. Each finding carries a remedy, which the server's dialect writes as a statement.
Engines, keys and indexes: MySQL manual, "Replication and Storage Engines" and "InnoDB Indexes"; NOT IN with
NULL: manual, "Subqueries with ANY, IN, or SOME".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from replexplorer.core.tables.references import RowReference, declared_references
from replexplorer.core.tables.table import PRIMARY, Column, Index, IndexPart, TableName, TableShape


class Flaw(StrEnum):
    """What was found."""

    NO_PRIMARY_KEY = "no-primary-key"
    ENGINE = "engine"
    NULLABLE_KEY = "nullable-key"
    DUPLICATE_INDEX = "duplicate-index"
    REDUNDANT_INDEX = "redundant-index"


class Weight(StrEnum):
    """How much it matters."""

    PROBLEM = "problem"
    """It stalls a replica, loses data or makes a job do nothing."""
    NOTE = "note"
    """It costs something, or may matter."""


# -- what mends it


@dataclass(frozen=True, slots=True)
class AddKeyColumn:
    """A new column that numbers the rows, as the primary key."""

    column: str


@dataclass(frozen=True, slots=True)
class MakePrimary:
    """Columns that are there already, as the primary key."""

    columns: tuple[str, ...]
    instead_of: str | None = None
    """The index that it takes the place of."""


@dataclass(frozen=True, slots=True)
class UseInnodb:
    """Another engine."""


@dataclass(frozen=True, slots=True)
class ForbidNull:
    """The same column, never NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class DeleteWithoutNotIn:
    """The job written so that NULLs do not matter: rows of the parent that no row here names."""

    column: str
    parent: TableName
    parent_column: str


@dataclass(frozen=True, slots=True)
class SelectWithoutNulls:
    """What belongs into NOT IN (...) instead of the bare column."""

    column: str


@dataclass(frozen=True, slots=True)
class DropIndex:
    """One index less."""

    index: str


Remedy = (
    AddKeyColumn | MakePrimary | UseInnodb | ForbidNull | DeleteWithoutNotIn | SelectWithoutNulls | DropIndex
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found of one table."""

    kind: Flaw
    severity: Weight
    table: TableName
    why: str
    """One sentence: what it does to whom."""
    remedy: Remedy
    columns: tuple[str, ...] = ()
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Mended:
    """A finding with its remedy as a statement of the server that it was found on."""

    finding: Finding
    statement: str


@dataclass(frozen=True, slots=True)
class TablesReport:
    """What a look at the tables of some databases found."""

    node: str
    server: str
    """`mariadb 11.8.9`."""
    databases: tuple[str, ...]
    tables: int
    found: tuple[Mended, ...]

    def count(self, severity: Weight) -> int:
        """Findings that matter as much as this."""
        return sum(each.finding.severity is severity for each in self.found)


Nulls = Mapping[tuple[TableName, str], bool | None]
"""Whether a table's column holds a NULL now; None, or no entry: unknown."""

_TRANSACTIONAL: Final = frozenset({"innodb", "ndbcluster", "ndb", "rocksdb", "tokudb"})
_OF_ENGINE: Final = {
    "memory": "it is empty after a restart of either server, and then source and replica differ",
    "blackhole": "it keeps no rows: a replica with another engine has rows that its source lacks",
    "csv": "where mysqld dies in the middle of a statement a part of it stays, and it has no indexes",
}
_ANY_ENGINE: Final = (
    "it has no transactions: where mysqld dies in the middle of a statement a part of it stays, and source"
    " and replica differ; groups and Galera refuse it or do not replicate it"
)
_SCANS: Final = (
    "no primary key: a replica searches the table for each row that an UPDATE or DELETE changed;"
    " Group Replication refuses writes to it (error 3098), Galera does not support DELETE from it"
)


def members_of(tables: Sequence[TableShape]) -> tuple[tuple[TableName, str], ...]:
    """Nullable columns that jobs test membership in, of which it is worth asking whether they hold NULLs."""
    return tuple((table.name, column.name) for table, column, _ in _members(tables))


def check(tables: Sequence[TableShape], nulls: Nulls) -> tuple[Finding, ...]:
    """Everything that is found, problems first, else in the order of the tables."""
    found = [
        *(finding for table in tables for finding in (*_engine(table), *_primary_key(table))),
        *_nullable_keys(tables, nulls),
        *(finding for table in tables for finding in _needless_indexes(table)),
    ]
    order = {table.name: at for at, table in enumerate(tables)}
    return tuple(sorted(found, key=lambda each: (each.severity is Weight.NOTE, order[each.table])))


def _engine(table: TableShape) -> Iterator[Finding]:
    engine = table.engine.lower()
    if engine not in _TRANSACTIONAL:
        why = f"engine {table.engine}: {_OF_ENGINE.get(engine, _ANY_ENGINE)}"
        yield Finding(Flaw.ENGINE, Weight.PROBLEM, table.name, why, UseInnodb())


def _primary_key(table: TableShape) -> Iterator[Finding]:
    if table.primary is not None:
        return
    unique = table.unique_rows
    if unique is not None:
        yield Finding(
            Flaw.NO_PRIMARY_KEY,
            Weight.NOTE,
            table.name,
            f"no primary key: the unique index {unique.name} serves as one, unless somebody drops it",
            MakePrimary(unique.columns, unique.name),
            unique.columns,
            unique.name,
        )
        return
    numbered = next((column.name for column in table.columns if column.is_auto_increment), None)
    remedy = AddKeyColumn(_free_name(table)) if numbered is None else _numbered_key(table, numbered)
    yield Finding(Flaw.NO_PRIMARY_KEY, Weight.PROBLEM, table.name, _SCANS, remedy)


def _numbered_key(table: TableShape, column: str) -> MakePrimary:
    """The key takes the place of the index of this column alone, which a numbered column has to have."""
    own = (IndexPart(column),)
    return MakePrimary((column,), next((each.name for each in table.indexes if each.parts == own), None))


def _free_name(table: TableShape) -> str:
    """A name that no column of the table has."""
    taken = {column.name.lower() for column in table.columns}
    names = ("id", "row_id", *(f"row_id_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


# -- NULLs where membership is tested


def _members(tables: Sequence[TableShape]) -> Iterator[tuple[TableShape, Column, RowReference | None]]:
    """Nullable columns of foreign keys, then those that a unique index is of alone."""
    named = set()
    for reference in declared_references(tables):
        if reference.column.nullable and not reference.column.is_generated:
            named.add((reference.table.name, reference.column.name))
            yield reference.table, reference.column, reference
    for table in tables:
        for index in table.indexes:
            if not index.unique or len(index.columns) != 1 or len(index.parts) != 1:
                continue
            column = table.column(index.columns[0])
            if column is None or not column.nullable or column.is_generated:
                continue
            if (table.name, column.name) not in named:
                named.add((table.name, column.name))
                yield table, column, None


def _nullable_keys(tables: Sequence[TableShape], nulls: Nulls) -> Iterator[Finding]:
    for table, column, reference in _members(tables):
        holds = nulls.get((table.name, column.name))
        column_name = f"{table.name.table}.{column.name}"
        key = f" a key of {reference.parent.name.table}" if reference else " a key"
        if holds:
            why = (
                f"{column_name} holds NULLs and is{key}: x NOT IN (SELECT {column.name} ...) is never true,"
                " so a job that deletes by it deletes nothing"
            )
            yield Finding(
                Flaw.NULLABLE_KEY,
                Weight.PROBLEM,
                table.name,
                why,
                _rewritten(column, reference),
                (column.name,),
            )
        else:
            now = "it holds none now" if holds is False else "whether it holds one is unknown"
            why = (
                f"{column_name} may be NULL and is{key}: with the first NULL,"
                f" x NOT IN (SELECT {column.name} ...) is never true; {now}"
            )
            yield Finding(Flaw.NULLABLE_KEY, Weight.NOTE, table.name, why, ForbidNull(column), (column.name,))


def _rewritten(column: Column, reference: RowReference | None) -> DeleteWithoutNotIn | SelectWithoutNulls:
    if reference is None:
        return SelectWithoutNulls(column.name)
    return DeleteWithoutNotIn(column.name, reference.parent.name, reference.parent_column)


# -- indexes


def _needless_indexes(table: TableShape) -> Iterator[Finding]:
    """An index that another one is as good as. FULLTEXT and SPATIAL ones serve other queries than the rest:
    they are compared among themselves, and only as wholes."""
    for index in table.indexes:
        if index.name == PRIMARY:
            continue
        better = next((other for other in table.indexes if _replaces(other, index)), None)
        if better is None:
            continue
        same = better.parts == index.parts
        name = "the primary key" if better.name == PRIMARY else f"index {better.name}"
        begins = f"has the same columns as {name}" if same else f"is how {name} begins"
        yield Finding(
            Flaw.DUPLICATE_INDEX if same else Flaw.REDUNDANT_INDEX,
            Weight.NOTE,
            table.name,
            f"index {index.name} {begins}: each write keeps both, on the source and on every replica",
            DropIndex(index.name),
            index.columns,
            index.name,
        )


def _replaces(other: Index, index: Index) -> bool:
    """Whether `index` could go because of `other`; of two equal ones the later by name goes."""
    if other is index or not other.visible or other.kind != index.kind:
        return False
    if other.parts == index.parts:
        if other.unique != index.unique:
            return other.unique
        return _rank(other) < _rank(index)
    begins = other.parts[: len(index.parts)] == index.parts
    return begins and not index.unique and index.kind == "BTREE"


def _rank(index: Index) -> tuple[bool, str]:
    return index.name != PRIMARY, index.name

"""Tables as information_schema describes them, whatever the flavour."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

PRIMARY: Final = "PRIMARY"
"""The primary key's name among the indexes."""
_DISPLAY_WIDTH: Final = re.compile(r"(int|year)\(\d+\)")


class TableName(NamedTuple):
    """A table and the database that it is in."""

    database: str
    table: str

    def __str__(self) -> str:
        """As it is written for people: `sandbox.t`."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column, with all that a statement which changes it has to repeat."""

    name: str
    type: str
    """As the server writes it: `int unsigned`, `varchar(12)`."""
    nullable: bool = False
    collation: str | None = None
    """None for what is no text."""
    default: str | None = None
    """As SQL: a quoted literal or an expression; None where there is none, or NULL."""
    on_update: str | None = None
    """The expression of ON UPDATE."""
    comment: str = ""
    is_auto_increment: bool = False
    is_generated: bool = False
    """Computed from others: nobody writes it."""
    is_invisible: bool = False
    """`SELECT *` and an INSERT without a list of columns leave it out."""

    @property
    def kind(self) -> str:
        """The type without a display width, which says nothing of its values: `int(11)` is `int`."""
        return _DISPLAY_WIDTH.sub(r"\1", self.type.lower())


class IndexPart(NamedTuple):
    """One column of an index, or one expression."""

    column: str | None
    """None for an expression."""
    prefix: int | None = None
    """How many characters of it; None: all."""
    descending: bool = False
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """One index."""

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    visible: bool = True
    """False: kept, and used for no query."""
    kind: str = "BTREE"

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, without expressions."""
        return tuple(part.column for part in self.parts if part.column is not None)

    @property
    def is_of_whole_columns(self) -> bool:
        """No prefix and no expression."""
        return all(part.column is not None and part.prefix is None for part in self.parts)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A declared foreign key."""

    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table; views are none."""

    name: TableName
    engine: str
    rows: int | None = None
    """As the engine estimates them; None where it does not."""
    size_bytes: int | None = None
    """Data and indexes."""
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    def column(self, name: str) -> Column | None:
        """By its name in any case; None where it has none of it."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    @property
    def primary(self) -> Index | None:
        """The primary key; None without one."""
        return next((index for index in self.indexes if index.name == PRIMARY), None)

    @property
    def unique_rows(self) -> Index | None:
        """The shortest unique index whose columns are whole and never NULL: it tells rows apart as a primary
        key does; None without one."""
        nullable = {column.name for column in self.columns if column.nullable}
        found = [
            index
            for index in self.indexes
            if index.unique and index.is_of_whole_columns and not nullable & set(index.columns)
        ]
        return min(found, key=lambda index: len(index.parts), default=None)

"""What values a column's rows hold when the rows are made up, and the parameter that draws one of them.

Law: rows are numbered 1 to N, and a value that an index leads to is a function of such a number. So what
a statement looks for by an index is there, and a unique index is not hurt. What is drawn stands within the
column's type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from replexplorer.core.tables.references import references_of
from replexplorer.core.tables.table import PRIMARY, Column, TableName, TableShape

FIRST_DAY: Final = "2025-01-01"
LAST_DAY: Final = "2025-12-31"
"""Dates of rows lie between these."""
DAYS: Final = 365
_KEY_DIGITS: Final = 12
_LONGEST_TEXT: Final = 4096
_TEXT_BYTES: Final = 128
"""Of a text without a length, where nobody knows how long the rows are."""
_LONGEST_GUESS: Final = 32
"""Characters of a VARCHAR at most, where nobody knows how long the rows are."""
_ROW_OVERHEAD_BYTES: Final = 20
_LARGEST: Final = {"tinyint": 7, "smallint": 15, "mediumint": 23, "int": 31, "integer": 31, "bigint": 62}
"""Bits without the sign; of a BIGINT one less, so that sums fit."""
_INTEGERS: Final = frozenset(_LARGEST)
_TEXTS: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_LONG_TEXTS: Final = frozenset(
    {"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"}
)
_DATES: Final = frozenset({"datetime", "timestamp"})
_TYPE: Final = re.compile(r"(?P<name>[a-z]+)(?:\((?P<arguments>.*)\))?(?P<rest>.*)", re.DOTALL)

INTEGER: Final = "integer"
NUMBER: Final = "number"
DIGITS: Final = "digits"
TEXT: Final = "text"
DAY: Final = "day"
MOMENT: Final = "moment"
TIME: Final = "time"
LITERAL: Final = "literal"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of one column."""

    kind: str
    """One of the names above; UNKNOWN: of a type that nobody can make up here."""
    low: int = 1
    high: int = 1
    width: int = 0
    """Characters of a text."""
    literal: str = ""
    is_unique: bool = False
    """Each row has a value of its own: its number."""

    @property
    def parameter(self) -> str:
        """What draws one of the values in a workload's file."""
        match self.kind:
            case "integer" | "number":
                return f":rand({self.low},{self.high})"
            case "digits":
                return f":digits({self.low},{self.high},{self.width})"
            case "text":
                return f":text({self.width})"
            case "day":
                return f":day({FIRST_DAY},{LAST_DAY})"
            case "moment":
                return f":moment({FIRST_DAY},{LAST_DAY})"
            case "time":
                return f"SEC_TO_TIME(:rand({self.low},{self.high}))"
        return self.literal or "1"

    def of_row(self, number: int, random: Random) -> str:
        """The value of the row of this number, as a statement has it."""
        drawn = number if self.is_unique else random.randint(self.low, max(self.low, self.high))
        if self.is_unique and self.kind == INTEGER:
            drawn = self.low + (number - 1) % (self.high - self.low + 1)  # of a key with other columns
        match self.kind:
            case "integer" | "number":
                return str(drawn)
            case "digits":
                return f"'{drawn:0{self.width}d}'"
            case "text":
                return "'" + _digits(self.width, random) + "'"
            case "day":
                return f"'{FIRST_DAY}' + INTERVAL {drawn % DAYS} DAY"
            case "moment":
                return f"'{FIRST_DAY} 00:00:00' + INTERVAL {drawn % (DAYS * 86_400)} SECOND"
            case "time":
                return f"SEC_TO_TIME({drawn % 86_400})"
        return self.literal or "1"


def _digits(width: int, random: Random) -> str:
    return (
        f"{random.randrange(10**width):0{width}d}"
        if width <= _KEY_DIGITS
        else "".join(random.choices("0123456789", k=width))
    )


@dataclass(frozen=True, slots=True)
class FilledShape:
    """A table as it is to be filled."""

    shape: TableShape
    rows: int
    row_bytes: int | None = None
    """On average."""


def domains_of(tables: Sequence[FilledShape]) -> dict[TableName, dict[str, Domain]]:
    """The values of every column that somebody writes, by table and lower-case column."""
    sizes = {each.shape.name: each.rows for each in tables}
    parents = {
        (each.table.name, each.column.name.lower()): sizes[each.parent.name]
        for each in references_of([each.shape for each in tables])
    }
    return {
        each.shape.name: {
            column.name.lower(): _domain(each, column, parents.get((each.shape.name, column.name.lower())))
            for column in each.shape.columns
            if not column.is_generated
        }
        for each in tables
    }


def _domain(table: FilledShape, column: Column, parent_rows: int | None) -> Domain:
    match = _TYPE.match(column.type.lower())
    name, arguments, rest = (match["name"], match["arguments"], match["rest"]) if match else ("", None, "")
    rows = max(1, table.rows)
    indexes = [index for index in table.shape.indexes if column.name in index.columns]
    is_key = any(index.name == PRIMARY or index.unique for index in indexes)
    high = rows if is_key or parent_rows is None else max(1, parent_rows)
    if name in _INTEGERS:
        return _integer(name, arguments, rest, high, is_key=is_key)
    if name in ("decimal", "numeric", "float", "double", "real"):
        return Domain(NUMBER, 1, min(high, _decimal_most(arguments)), is_unique=is_key)
    if name in _TEXTS or name in _LONG_TEXTS:
        return _text(table, column, name, arguments, high, is_key=is_key, is_indexed=bool(indexes))
    if name == "enum" or name == "set":
        values = len(re.findall(r"'(?:[^']|'')*'", arguments or "''"))
        return Domain(INTEGER, 1, max(1, values if name == "enum" else 2 ** min(values, 20) - 1))
    if name == "date":
        return Domain(DAY, 0, DAYS - 1, is_unique=is_key)
    if name in _DATES:
        return Domain(MOMENT, 0, DAYS * 86_400 - 1, is_unique=is_key)
    if name == "time":
        return Domain(TIME, 0, 86_399, is_unique=is_key)
    if name == "year":
        return Domain(INTEGER, 1990, 2030)
    if name == "bit":
        return Domain(INTEGER, 0, 2 ** min(int(arguments or 1), 31) - 1)
    if name == "json":
        return Domain(LITERAL, literal="'{\"made\": 1}'")
    if name == "uuid":
        return Domain(LITERAL, literal="UUID()")
    return Domain(LITERAL, literal="NULL") if column.nullable else Domain(UNKNOWN)


def _integer(name: str, arguments: str | None, rest: str, high: int, *, is_key: bool) -> Domain:
    if name == "tinyint" and arguments == "1":  # a BOOLEAN
        return Domain(INTEGER, 0, 1, is_unique=is_key)
    bits = _LARGEST[name] + ("unsigned" in rest and name != "bigint")
    return Domain(INTEGER, 1, min(high, 2**bits - 1), is_unique=is_key)


def _decimal_most(arguments: str | None) -> int:
    """The largest whole number of a DECIMAL(p, s)."""
    words = (arguments or "").split(",")
    if not words[0].strip().isdigit():
        return 1_000_000
    digits = int(words[0]) - (int(words[1]) if len(words) > 1 else 0)
    return max(1, int(10 ** min(digits, 18)) - 1)


def _text(
    table: FilledShape,
    column: Column,
    name: str,
    arguments: str | None,
    high: int,
    *,
    is_key: bool,
    is_indexed: bool,
) -> Domain:
    most = int(arguments) if arguments and arguments.isdigit() else _LONGEST_TEXT
    if is_indexed and len(str(high)) <= most:
        width = max(len(str(high)), min(most, _KEY_DIGITS))
        return Domain(DIGITS, 1, high, width, is_unique=is_key)
    if name in ("char", "binary"):
        return Domain(TEXT, width=most)
    return Domain(TEXT, width=max(1, min(most, _free_width(table, name))))


def _free_width(table: FilledShape, name: str) -> int:
    """Characters of a text that may be of any length: its share of what a row's other columns leave."""
    if table.row_bytes is None:
        return _TEXT_BYTES if name in _LONG_TEXTS else _LONGEST_GUESS
    fixed, free = _ROW_OVERHEAD_BYTES, 0
    for column in table.shape.columns:
        match = _TYPE.match(column.type.lower())
        kind, arguments = (match["name"], match["arguments"]) if match else ("", None)
        if kind in _LONG_TEXTS or kind in ("varchar", "varbinary"):
            free += 1
        elif kind in ("char", "binary"):
            fixed += int(arguments or 1)
        else:
            fixed += 8 if kind == "bigint" else 4
    return min(_LONGEST_TEXT, max(1, (table.row_bytes - fixed) // max(1, free)))


def fill_statement(
    table: FilledShape, domains: dict[str, Domain], first: int, last: int, random: Random
) -> str:
    """One INSERT of the rows of these numbers; columns that the server fills or nobody can are left to it."""
    columns = [
        column
        for column in table.shape.columns
        if column.name.lower() in domains and domains[column.name.lower()].kind != UNKNOWN
    ]
    name = table.shape.name
    quoted = ", ".join(f"`{column.name}`" for column in columns)
    rows = ",".join(
        "(" + ",".join(domains[column.name.lower()].of_row(number, random) for column in columns) + ")"
        for number in range(first, last + 1)
    )
    # Keys of several short columns may meet: such a row is left out.
    return f"INSERT IGNORE INTO `{name.database}`.`{name.table}` ({quoted}) VALUES {rows}"

"""Tables as information_schema describes them, whatever the flavour: what made-up rows need to know.

Made-up rows of a table, and the parameter of a workload's file that finds one of their values.

Law: rows are numbered 1 to N, and the value of an indexed column is a function of such a number. So what a
statement looks for by an index is there, and a unique index holds. Values lie within their column's type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from replexplorer.core.records import field, frozen

PRIMARY: Final = "PRIMARY"
"""The primary key's name among the indexes."""


class TableName(NamedTuple):
    """A table and the database that it is in."""

    database: str
    table: str

    def __str__(self) -> str:
        """As it is written for people: `sandbox.t`."""
        return f"{self.database}.{self.table}"


@frozen
class Column:
    """One column."""

    name: str
    type: str
    """As the server writes it: `int unsigned`, `varchar(12)`."""
    nullable: bool = False
    is_auto_increment: bool = False
    is_generated: bool = False
    """Computed from others: no statement writes it."""
    is_invisible: bool = False
    """`SELECT *` and an INSERT without a list of columns leave it out."""


@frozen
class Index:
    """One index."""

    name: str
    columns: tuple[str, ...]
    """Without expressions."""
    unique: bool = False


@frozen
class TableShape:
    """One table; views are none."""

    name: TableName
    rows: int | None = None
    """As the engine estimates them; None where it does not."""
    size_bytes: int | None = None
    """Data and indexes."""
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: Mapping[str, TableName] = field(default_factory=dict)
    """The table that a column's declared foreign key names."""

    def column(self, name: str) -> Column | None:
        """By its name in any case; None where it has none of it."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    @property
    def primary(self) -> Index | None:
        """The primary key; None without one."""
        return next((index for index in self.indexes if index.name == PRIMARY), None)


_DAYS: Final = 365
"""Dates of rows lie within 2025."""
_SECONDS_A_DAY: Final = 86_400
_KEY_DIGITS: Final = 12
_LONGEST_TEXT: Final = 4096
_TEXT_BYTES: Final = 128
"""Of a text without a length, where the size of the rows is not known."""
_LONGEST_GUESS: Final = 32
"""Characters of a VARCHAR at most, where the size of the rows is not known."""
_ROW_OVERHEAD_BYTES: Final = 20
_BITS: Final = {"tinyint": 7, "smallint": 15, "mediumint": 23, "int": 31, "integer": 31, "bigint": 62}
"""Without the sign; of a BIGINT one less, so that sums fit."""
_DECIMALS: Final = frozenset({"decimal", "numeric", "float", "double", "real"})
_SIZED_TEXTS: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_LONG_TEXTS: Final = frozenset(
    {"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"}
)
_TYPE: Final = re.compile(r"(?P<name>[a-z]+)(?:\((?P<arguments>.*)\))?(?P<rest>.*)", re.DOTALL)


@frozen
class Domain:
    """The values of one column: the numbers from `low` to `high`, each in an SQL expression."""

    low: int = 1
    high: int = 1
    sql: str = "{}"
    """The expression, `{}` for the number; one without it is the same in every row."""
    text_width: int = 0
    """Not 0: texts of this many random digits instead."""
    is_unique: bool = False
    """Each row has a value of its own: its number."""

    @property
    def is_number(self) -> bool:
        """The column holds the number itself."""
        return self.sql == "{}" and not self.text_width

    @property
    def parameter(self) -> str:
        """What draws one of the values in a workload's file."""
        if self.text_width:
            return f":text({self.text_width})"
        return self.sql.format(f":rand({self.low},{self.high})")

    def of_row(self, number: int, random: Random) -> str:
        """The value of the row of this number, as SQL."""
        if self.text_width:
            return f"'{random.randrange(10**self.text_width):0{self.text_width}d}'"
        if self.is_unique:  # keys of several columns wrap around where a column's type is too small
            drawn = self.low + (number - 1) % (self.high - self.low + 1)
        else:
            drawn = random.randint(self.low, self.high)
        return self.sql.format(drawn)


@frozen
class FilledShape:
    """A table as it is to be filled."""

    shape: TableShape
    rows: int
    row_bytes: int | None = None
    """On average; None: not known."""


Domains = Mapping[TableName, Mapping[str, Domain]]
"""By table and lower-case column; without generated columns and those of types that cannot be made up."""


def domains_of(tables: Sequence[FilledShape]) -> Domains:
    """The values of every column; a foreign key has the numbers of the other table's rows."""
    sizes = {each.shape.name: each.rows for each in tables}
    found: dict[TableName, dict[str, Domain]] = {}
    for table in tables:
        domains = found[table.shape.name] = {}
        for column in table.shape.columns:
            parent = table.shape.foreign_keys.get(column.name)
            domain = _domain(table, column, None if parent is None else sizes.get(parent))
            if domain is not None and not column.is_generated:
                domains[column.name.lower()] = domain
    return found


def _domain(table: FilledShape, column: Column, parent_rows: int | None) -> Domain | None:
    match = _TYPE.match(column.type.lower())
    name, arguments, rest = (match["name"], match["arguments"] or "", match["rest"]) if match else ("",) * 3
    indexes = [index for index in table.shape.indexes if column.name in index.columns]
    is_key = any(index.name == PRIMARY or index.unique for index in indexes)
    high = max(1, table.rows if is_key or parent_rows is None else parent_rows)
    if name == "tinyint" and arguments == "1":  # a BOOLEAN
        return Domain(0, 1, is_unique=is_key)
    if name in _BITS:
        bits = _BITS[name] + ("unsigned" in rest and name != "bigint")
        return Domain(1, min(high, 2**bits - 1), is_unique=is_key)
    if name in _DECIMALS:
        return Domain(1, min(high, _decimal_most(arguments)), is_unique=is_key)
    if name in _SIZED_TEXTS or name in _LONG_TEXTS:
        most = int(arguments) if arguments.isdigit() else _LONGEST_TEXT
        if indexes and len(str(high)) <= most:
            width = max(len(str(high)), min(most, _KEY_DIGITS))
            return Domain(1, high, f"LPAD({{}}, {width}, '0')", is_unique=is_key)
        width = most if name in ("char", "binary") else min(most, _free_width(table, name))
        return Domain(text_width=min(_LONGEST_TEXT, max(1, width)))
    match name:
        case "enum" | "set":
            values = len(re.findall(r"'(?:[^']|'')*'", arguments)) or 1
            return Domain(1, values if name == "enum" else 2 ** min(values, 20) - 1)
        case "date":
            return Domain(0, _DAYS - 1, "DATE '2025-01-01' + INTERVAL {} DAY", is_unique=is_key)
        case "datetime" | "timestamp":
            sql = "TIMESTAMP '2025-01-01 00:00:00' + INTERVAL {} SECOND"
            return Domain(0, _DAYS * _SECONDS_A_DAY - 1, sql, is_unique=is_key)
        case "time":
            return Domain(0, _SECONDS_A_DAY - 1, "SEC_TO_TIME({})", is_unique=is_key)
        case "year":
            return Domain(1990, 2030)
        case "bit":
            return Domain(0, 2 ** min(int(arguments or 1), 31) - 1)
        case "json":
            return Domain(1, high, "JSON_OBJECT('made', {})")
        case "uuid":
            return Domain(sql="UUID()")
    return Domain(sql="NULL") if column.nullable else None


def _decimal_most(arguments: str) -> int:
    """The largest whole number of a DECIMAL(p, s)."""
    digits, _, behind = arguments.partition(",")
    if not digits.strip().isdigit():
        return 1_000_000
    return max(1, int(10 ** min(int(digits) - int(behind or 0), 18)) - 1)


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
    return (table.row_bytes - fixed) // max(1, free)


def fill_statement(
    table: FilledShape, domains: Mapping[str, Domain], first: int, last: int, random: Random
) -> str:
    """One INSERT of the rows of these numbers; columns without a domain are left to the server."""
    columns = [each.name for each in table.shape.columns if each.name.lower() in domains]
    name = table.shape.name
    quoted = ", ".join(f"`{column}`" for column in columns)
    rows = ",".join(
        "(" + ",".join(domains[column.lower()].of_row(number, random) for column in columns) + ")"
        for number in range(first, last + 1)
    )
    # Keys of several short columns may meet: such a row is left out.
    return f"INSERT IGNORE INTO `{name.database}`.`{name.table}` ({quoted}) VALUES {rows}"

"""A digest's text as a statement again: its tables renamed, and a parameter of the right kind for each `?`.

Law: a digest holds no literal, so none can leave the server by it. The server writes `?` for a literal,
`(...)` for a list of them and `/* , ... */` for more rows (manual, "Performance Schema Statement Digests and
Sampling"). sqlglot says which column a `?` is compared with; all else of the text stays as the server wrote
it. What sqlglot cannot read is refused, never guessed into another statement. Nothing is known of which
values come often: a drawn value is as likely as any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from replexplorer.core.dialect.schema import DigestCount, DigestKey
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.tables import Domain, Domains, FilledShape, TableName

BEGIN: Final = "begin"
COMMIT: Final = "commit"
ROLLBACK: Final = "rollback"
STATEMENT: Final = "statement"
OTHER: Final = "other"

NO_TABLE: Final = "statements without a table (SET, SHOW, SELECT of a variable and the like)"
SERVERS_OWN: Final = "statements on the server's own tables, those of this capture among them"
NOT_THERE: Final = "tables that are not there: temporary ones, views, or dropped meanwhile"
TOO_LONG: Final = "statements longer than the server keeps of a digest (max_digest_length)"
PROCEDURES: Final = "calls of procedures: what they do within counts as statements of its own"
SCHEMA_CHANGES: Final = "changes of tables (CREATE, ALTER, DROP, TRUNCATE)"
NO_DATABASE: Final = "statements on tables of a database that was not named"
UNREADABLE: Final = "statements that could not be written again from their digest"
NO_VALUES: Final = "statements on columns of a type that no values can be made up for"

_MARK: Final = re.compile(
    r"""(?P<name>`(?:[^`]|``)*`)
      | \(\s*(?:\.\.\.|\?)\s*\)\s*(?P<rows>/\*\s*,\s*\.\.\.\s*\*/)
      | \(\s*(?P<list>\.\.\.)\s*\)
      | (?P<several>\?\s*,\s*\.\.\.)
      | (?P<one>\?)
      | (?P<end>\.\.\.)""",
    re.VERBOSE,
)
_FIRST: Final = 900_000_000
"""Stands for the first `?` while a digest is read: it has no other number of nine digits."""
_NUMBERED: Final = re.compile(r"\b9\d{8}\b")
_SPACE: Final = re.compile(r"(`(?:[^`]|``)*`)|(?<=[(@.])\s+|\s+(?=[(),.])")
"""Spaces that a digest has around brackets and dots, where COUNT (*) is no call; names are left alone."""
_ENDS_OR_BEGINS: Final = re.compile(
    r"\s*(?:(?P<begin>BEGIN\b|START\s+TRANSACTION\b)|(?P<commit>COMMIT\b)"
    r"|(?P<rollback>ROLLBACK(?!\s+(?:WORK\s+)?TO\b)\b))",
    re.IGNORECASE,
)
"""Its groups are named as the kinds."""
_READ_OR_WRITE: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "("})
_REFUSED: Final = {"CALL": PROCEDURES} | dict.fromkeys(
    ("CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME"), SCHEMA_CHANGES
)
_UNKNOWN: Final = re.compile(
    r"(?<!`)\b(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|QUICK|IGNORE(?!\s+(?:INDEX|KEY)\b)|SQL_\w+)\b(?!`)"
)
"""Words that say nothing of a statement's values, and that sqlglot does not know everywhere."""
_SYSTEM: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
_MOST_LISTED: Final = 100
_MOST_ROWS: Final = 500
_GUESS: Final = "a literal whose column its digest does not name is 1"


class NotImitated(Exception):
    """A statement that has no place in the workload; its text is the reason, one of the above."""


@frozen
class Schema:
    """The tables that can be imitated."""

    tables: Mapping[TableName, FilledShape]
    domains: Domains


@dataclass(slots=True)
class WrittenStatement:
    """A statement as a workload's file has it."""

    text: str = ""
    sets: list[str] = field(default_factory=list)
    r"""Its `\set` lines."""
    guesses: list[str] = field(default_factory=list)


@frozen
class _Read:
    """A digest that was read."""

    text: str
    """With a number for each `?`, from `_FIRST` on."""
    marks: tuple[str, ...]
    """What each of these numbers stands for: `one` value, a `list`, `several` of a list, or `rows`."""
    tree: exp.Expr


class _TableUse(NamedTuple):
    table: TableName
    node: exp.Table


def kind_of(text: str) -> str:
    """Whether a digest begins or ends a transaction, is a statement on rows, or something else."""
    match = _ENDS_OR_BEGINS.match(text)
    if match is not None:
        return str(match.lastgroup)
    return STATEMENT if _first_word(text) in _READ_OR_WRITE else OTHER


def tables_of(key: DigestKey) -> tuple[TableName, ...]:
    """The tables of a statement, each once; raises NotImitated with the reason why it has no place."""
    names = tuple(dict.fromkeys(use.table for use in _uses(_read(key.text), key.database)))
    if not names:
        raise NotImitated(NO_TABLE)
    if any(name.database.lower() in _SYSTEM for name in names):
        raise NotImitated(SERVERS_OWN)
    return names


def _first_word(text: str) -> str:
    match = re.match(r"\s*(\w+|\()", text)
    return match[1].upper() if match else ""


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    marks: list[str] = []

    def number(match: re.Match[str]) -> str:
        kind = str(match.lastgroup)
        if kind == "name":
            return match[0]
        if kind == "end":
            raise NotImitated(TOO_LONG)
        marks.append(kind)
        written = str(_FIRST + len(marks) - 1)
        return f"({written})" if kind in ("rows", "list") else written

    plain = _MARK.sub(number, text.strip().rstrip(";"))
    first = _first_word(plain)
    if first not in _READ_OR_WRITE:
        raise NotImitated(_REFUSED.get(first, NO_TABLE))
    plain = _SPACE.sub(lambda match: match[1] or "", plain)
    # What is read is as long as what is kept: the places of names are those of both.
    known = _UNKNOWN.sub(lambda match: " " * len(match[0]), plain)
    known = re.sub(r"^REPLACE\b", "INSERT ", known).replace("DISTINCTROW", "DISTINCT   ")
    try:
        tree = parse_one(known, read="mysql")
    except SqlglotError:
        tree = None
    if tree is None or isinstance(tree, exp.Command):
        if " FROM " not in plain and first == "SELECT":
            raise NotImitated(NO_TABLE)
        is_own = any(f"`{name}`" in plain.lower() for name in _SYSTEM)
        raise NotImitated(SERVERS_OWN if is_own else UNREADABLE)
    return _Read(plain, tuple(marks), tree)


def _uses(read: _Read, database: str) -> tuple[_TableUse, ...]:
    """The tables that a statement names; raises NotImitated where one has no database."""
    own = {each.alias for each in read.tree.find_all(exp.CTE)}
    found = []
    for node in read.tree.find_all(exp.Table, bfs=False):
        if node.arg_key == "tables" or (node.name in own and not node.db):  # DELETE a FROM orders AS a
            continue
        where = node.db or database
        if not where:
            raise NotImitated(NO_DATABASE)
        found.append(_TableUse(TableName(where, node.name), node))
    return tuple(found)


@dataclass(eq=False)
class Writer:
    """Writes the statements of one transaction; what they have in common is drawn once."""

    schema: Schema
    _renamed: Mapping[str, str]
    """Other names of databases."""
    _home: str
    """Its tables are named without it."""
    deleted: dict[TableName, str] = field(default_factory=dict)
    """The variable that holds the key of the row that was deleted last."""
    _names: int = 0

    def write(self, key: DigestKey, count: DigestCount) -> WrittenStatement:
        """One statement, by what the server counted of it; raises NotImitated."""
        for table in tables_of(key):
            filled = self.schema.tables.get(table)
            if filled is None:
                raise NotImitated(NOT_THERE)
            known = self.schema.domains[table]
            if any(not each.is_generated and each.name.lower() not in known for each in filled.shape.columns):
                raise NotImitated(NO_VALUES)
        return _Statement(self, _read(key.text), key.database, count).written()

    def variable(self) -> str:
        """A name that no other statement of the transaction has."""
        self._names += 1
        return f"v{self._names}"

    def place(self, table: TableName) -> str:
        """How the workload names a table."""
        plain = f"`{table.table}`"
        return plain if table.database == self._home else f"`{self._renamed[table.database]}`.{plain}"


class _Statement:
    """One statement while it is written."""

    def __init__(self, writer: Writer, read: _Read, database: str, count: DigestCount) -> None:
        self._writer = writer
        self._read = read
        self._uses = _uses(read, database)
        times = max(1, count.times)
        self._examined, self._sent = count.examined / times, count.sent / times
        self._affected = count.affected / times
        self._out = WrittenStatement()
        self._values: dict[int, str] = {}
        """What replaces each mark, by its number."""
        self._shared: dict[TableName, str] = {}
        """Variables of the rows that primary keys of several columns name."""
        self._is_limited = read.tree.find(exp.Limit) is not None

    def written(self) -> WrittenStatement:
        if isinstance(self._read.tree, exp.Insert):
            self._insert(self._read.tree)
        for literal in self._read.tree.find_all(exp.Literal, bfs=False):
            number = self._number(literal)
            if number is not None and number not in self._values:
                self._values[number] = self._value(literal, self._read.marks[number])
        if len(self._values) != len(self._read.marks):
            raise NotImitated(UNREADABLE)
        self._out.text = _NUMBERED.sub(lambda found: self._values[int(found[0]) - _FIRST], self._renamed())
        return self._out

    def _renamed(self) -> str:
        """The text with every table in its new place, and without databases before columns."""
        cuts: list[tuple[int, int, str]] = []
        for use in self._uses:
            begin, end = _extent(use.node.args.get("db") or use.node.this)[0], _extent(use.node.this)[1]
            cuts.append((begin, end, self._writer.place(use.table)))
        for column in self._read.tree.find_all(exp.Column):
            database, table = column.args.get("db"), column.args.get("table")
            if database is not None and table is not None:
                cuts.append((_extent(database)[0], _extent(table)[0], ""))
        text = self._read.text
        for begin, end, instead in sorted(cuts, reverse=True):
            text = text[:begin] + instead + text[end:]
        return text

    def _number(self, node: exp.Expr | None) -> int | None:
        """Which mark a node is; None for anything else."""
        if isinstance(node, exp.Literal) and _NUMBERED.fullmatch(node.name):
            return int(node.name) - _FIRST
        return None

    # -- INSERT

    def _insert(self, tree: exp.Insert) -> None:
        rows = tree.args.get("expression")
        if not isinstance(rows, exp.Values):
            return
        use = self._uses[0]
        if isinstance(tree.this, exp.Schema):
            columns = [each.name for each in tree.this.expressions]
        else:
            shape = self._writer.schema.tables[use.table].shape
            columns = [each.name for each in shape.columns if not each.is_invisible]
        is_update = tree.args.get("conflict") is not None and self._affected >= 1.5
        for row in rows.expressions:
            self._row(use.table, columns, row.expressions or [row.unnest()], is_update=is_update)

    def _row(
        self, table: TableName, columns: Sequence[str], items: Sequence[exp.Expr], *, is_update: bool
    ) -> None:
        """The values of one row, or of as many as there were."""
        place = 0
        for item, size in zip(items, self._sizes(columns, items), strict=True):
            number = self._number(item)
            if number is not None:
                is_many = self._read.marks[number] == "rows"
                self._values[number] = "), (".join(
                    ", ".join(
                        self._new(table, name, is_update=is_update) for name in columns[place : place + size]
                    )
                    for _ in range(min(_MOST_ROWS, max(1, round(self._affected))) if is_many else 1)
                )
            place += size

    def _sizes(self, columns: Sequence[str], items: Sequence[exp.Expr]) -> list[int]:
        """How many columns each part of a row is of: `?, ...` is of several. Raises NotImitated where two of
        these share what is left."""
        sizes = [1] * len(items)
        numbers = map(self._number, items)
        several = [
            at
            for at, number in enumerate(numbers)
            if number is not None and self._read.marks[number] != "one"
        ]
        missing = len(columns) - len(items)
        if missing < 0 or (missing and len(several) != 1):
            raise NotImitated(UNREADABLE)
        if missing:
            sizes[several[0]] += missing
        return sizes

    def _new(self, table: TableName, name: str, *, is_update: bool) -> str:
        """A value of a new row."""
        filled, domain = (
            self._writer.schema.tables[table],
            self._writer.schema.domains[table].get(name.lower()),
        )
        column, primary = filled.shape.column(name), filled.shape.primary
        if column is None or domain is None:
            raise NotImitated(UNREADABLE)
        if primary is not None and primary.columns == (column.name,):
            if table in self._writer.deleted:
                return domain.sql.format(f":{self._writer.deleted[table]}")
            if column.is_auto_increment:
                return "NULL"
        if domain.is_unique and not is_update and domain.high == filled.rows:
            return domain.sql.format(f":next({domain.high + 1})")
        return domain.parameter

    # -- everything else

    def _value(self, literal: exp.Literal, kind: str) -> str:
        """What replaces one mark, by its place in the statement."""
        parent = literal.parent
        if isinstance(parent, exp.Offset):
            return "0"
        if isinstance(parent, exp.Limit):
            return self._limit(kind)
        if isinstance(parent, exp.In) and literal.arg_key == "expressions":
            return self._listed(parent, kind)
        if kind == "one":
            if isinstance(parent, exp.Between):
                return self._between(parent, literal)
            if isinstance(parent, (exp.Add, exp.Sub, exp.Interval)):
                return "1"
            if isinstance(parent, exp.Binary) and isinstance(parent, exp.Predicate):
                found = self._column(parent.expression if parent.this is literal else parent.this)
                if found is not None:
                    return self._compared(parent, literal, *found)
        self._out.guesses.append(_GUESS)
        return "1, 1" if kind == "several" else "1"

    def _column(self, node: exp.Expr | None) -> tuple[TableName, Domain] | None:
        """The table and the values of a column; None for anything else."""
        if not isinstance(node, exp.Column):
            return None
        for use in self._uses:
            called = ("", use.node.alias.lower(), use.table.table.lower())
            domain = self._writer.schema.domains[use.table].get(node.name.lower())
            if domain is not None and node.table.lower() in called:
                return use.table, domain
        return None

    def _limit(self, kind: str) -> str:
        """As many rows as were sent, or deleted."""
        is_delete = isinstance(self._read.tree, exp.Delete)
        sent = max(1, round(max(self._sent, self._affected if is_delete else 0.0)))
        return f"0, {sent}" if kind == "several" else str(sent)

    def _listed(self, parent: exp.In, kind: str) -> str:
        """As many values as rows were looked at."""
        found = self._column(parent.this)
        if found is None:
            self._out.guesses.append(_GUESS)
            return "1"
        times = 1 if kind == "one" else min(_MOST_LISTED, self._wide(*found))
        return ", ".join([found[1].parameter] * times)

    def _compared(self, parent: exp.Binary, literal: exp.Literal, table: TableName, domain: Domain) -> str:
        if isinstance(parent, exp.Like):
            return f"CONCAT(:text({max(1, min(3, (domain.text_width or 4) - 1))}), '%')"
        if isinstance(parent, (exp.GT, exp.GTE, exp.LT, exp.LTE)) and parent.expression is literal:
            return self._beyond(parent, table, domain)
        is_assigned = parent.arg_key == "expressions" and isinstance(
            parent.parent, (exp.Update, exp.OnConflict)
        )
        if isinstance(parent, (exp.EQ, exp.NullSafeEQ)) and not is_assigned:
            return self._key_part(parent, table, domain)
        return domain.parameter

    def _key_part(self, parent: exp.Binary, table: TableName, domain: Domain) -> str:
        """A value to look for by equality: parts of one composite key name one row, and what a DELETE
        names can be inserted again."""
        primary = self._writer.schema.tables[table].shape.primary
        names = [each.lower() for each in primary.columns] if primary is not None else []
        sides = (parent.this.name.lower(), parent.expression.name.lower())
        if domain.text_width or not domain.is_unique or not any(side in names for side in sides):
            return domain.parameter
        drawn = f"rand({domain.low},{domain.high})"
        if len(names) == 1:
            if not isinstance(self._read.tree, exp.Delete):
                return domain.parameter
            self._writer.deleted[table] = name = self._set(drawn)
        else:
            name = self._shared[table] = self._shared.get(table) or self._set(drawn)
        return domain.sql.format(f":{name}")

    def _set(self, drawn: str) -> str:
        r"""A variable of the transaction, by its `\set` line."""
        name = self._writer.variable()
        self._out.sets.append(f"\\set {name} {drawn}")
        return name

    def _wide(self, table: TableName, domain: Domain) -> int:
        """How many of a column's values such a range holds."""
        values = domain.high - domain.low + 1
        held = max(1.0, self._examined, self._sent)
        return max(1, min(values, round(held * values / self._writer.schema.tables[table].rows)))

    def _between(self, parent: exp.Between, literal: exp.Literal) -> str:
        """Both ends of a BETWEEN, as far apart as the rows that the server looked at."""
        found, high = self._column(parent.this), self._number(parent.args["high"])
        if found is None:
            self._out.guesses.append(_GUESS)
            return "1"
        if literal.arg_key != "low" or high is None:
            return found[1].parameter
        low, self._values[high] = self._range(*found)
        return low

    def _range(self, table: TableName, domain: Domain) -> tuple[str, str]:
        if domain.text_width:
            return domain.parameter, domain.parameter
        wide = self._wide(table, domain)
        first = last = self._set(f"rand({domain.low},{domain.high - wide + 1})")
        if wide > 1:
            # Two plain parameters: a sum in the statement would be of another type, and cost more.
            last = self._set(f":{first} + {wide - 1}")
        return domain.sql.format(f":{first}"), domain.sql.format(f":{last}")

    def _beyond(self, parent: exp.Binary, table: TableName, domain: Domain) -> str:
        """One end of a range; the other end, where it follows, is as far as the rows looked at."""
        is_low = isinstance(parent, (exp.GT, exp.GTE))
        if is_low:
            for other in self._read.tree.find_all(exp.LT, exp.LTE):
                end = self._number(other.expression)
                if end is not None and other.this == parent.this and end not in self._values:
                    low, self._values[end] = self._range(table, domain)
                    return low
        if self._is_limited or domain.text_width:
            return domain.parameter
        wide = self._wide(table, domain)
        return domain.sql.format(domain.high - wide + 1 if is_low else domain.low + wide - 1)


def _extent(name: exp.Expr) -> tuple[int, int]:
    """Where a name begins and ends in the text that was read."""
    return int(name.meta["start"]), int(name.meta["end"]) + 1

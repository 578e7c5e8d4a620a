"""A digest's text as a statement again: its tables, and a parameter of the right kind for each `?`.

Law: a digest holds no literal, so none can leave the server by it. The server writes it in tokens apart by
spaces, names in backticks, `?` for a literal, `(...)` for a list of them, `/* , ... */` for more rows
(manual, "Performance Schema Statement Digests and Sampling"). A statement that cannot be made whole again
is refused with the reason, never guessed into another one. Nothing is known of which values come often: a
drawn value is as likely as any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.imitation.columns import (
    DAY,
    DAYS,
    DIGITS,
    INTEGER,
    MOMENT,
    NUMBER,
    UNKNOWN,
    Domain,
    FilledShape,
)
from replexplorer.core.tables.table import PRIMARY, TableName

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
NO_DIGEST: Final = "statements without a digest (the digest table was full)"
NO_TEXT: Final = "prepared statements whose text the server did not have any more, or does not give"
NO_VALUES: Final = "statements on columns of a type that no values can be made up for"

_TOKEN: Final = re.compile(
    r"""(?P<name>`(?:[^`]|``)*`)
      | (?P<list>\(\s*\.\.\.\s*\)|\(\s*\?\s*(?:,\s*\?\s*)*\)(?=\s*/\*\s*,\s*\.\.\.\s*\*/))
        (?P<more>\s*/\*\s*,\s*\.\.\.\s*\*/)?
      | (?P<values>\?\s*,\s*\.\.\.)
      | (?P<mark>\?)
      | (?P<end>\.\.\.)
      | (?P<word>@{0,2}[A-Za-z_$][\w$]*|@{1,2})
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<sign><=>|<=|>=|<>|!=|:=|\|\||&&|<<|>>|->>|->|[^\s])
    """,
    re.VERBOSE,
)
_ENDS_OR_BEGINS: Final = re.compile(
    r"\s*(?:(?P<begin>BEGIN\b|START\s+TRANSACTION\b)|(?P<commit>COMMIT\b)"
    r"|(?P<rollback>ROLLBACK(?!\s+(?:WORK\s+)?TO\b)\b))",
    re.IGNORECASE,
)
"""Its groups are named as the kinds."""
_READ_OR_WRITE: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "("})
_CHANGES: Final = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME"})
_BEFORE_TABLE: Final = frozenset({"FROM", "JOIN", "INTO", "UPDATE", "STRAIGHT_JOIN"})
_MODIFIERS: Final = frozenset({"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "QUICK", "ONLY"})
_COMPARES: Final = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "LIKE"})
_NO_CALL: Final = frozenset(
    (
        *("IN", "VALUES", "VALUE", "AND", "OR", "ON", "WHERE", "EXISTS", "NOT", "SELECT", "FROM", "SET"),
        *("AS", "USING", "BETWEEN", "HAVING", "UNION", "ALL", "ANY"),
    )
)
"""Words before a bracket that call nothing."""
_SYSTEM: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
_MOST_LISTED: Final = 100
_MOST_ROWS: Final = 500


class NotImitated(Exception):
    """A statement that has no place in the imitation; its text is the reason, one of the above."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a digest."""

    kind: str
    """`name`, `list`, `values`, `mark`, `end`, `word`, `number` or `sign`."""
    text: str
    has_more: bool = False
    """Of a list: more rows like it follow."""

    @property
    def upper(self) -> str:
        """In capitals; a quoted name is no keyword."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


@dataclass(frozen=True, slots=True)
class TableUse:
    """A table that a statement names, and how it calls it."""

    table: TableName
    alias: str
    at: int
    """Where its name begins among the tokens."""
    until: int


@dataclass(frozen=True, slots=True)
class Means:
    """What the server counted of a digest, for one execution each."""

    examined: float = 1.0
    sent: float = 1.0
    affected: float = 1.0


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables that can be imitated."""

    tables: Mapping[TableName, FilledShape]
    domains: Mapping[TableName, Mapping[str, Domain]]


@dataclass(slots=True)
class WrittenStatement:
    """A statement as a workload's file has it."""

    text: str
    sets: list[str] = field(default_factory=list)
    r"""Its `\set` lines."""
    guesses: list[str] = field(default_factory=list)


def tokens_of(text: str) -> tuple[Token, ...]:
    """A digest's tokens."""
    found = []
    for match in _TOKEN.finditer(text.strip().rstrip(";")):
        kind = match.lastgroup or "sign"
        if kind == "more":
            kind = "list"
        found.append(Token(kind, match[kind], bool(match["more"])))
    return tuple(found)


def kind_of(text: str) -> str:
    """Whether a digest begins or ends a transaction, is a statement on rows, or something else."""
    match = _ENDS_OR_BEGINS.match(text)
    if match is not None:
        return str(match.lastgroup)
    tokens = tokens_of(text)
    return STATEMENT if tokens and tokens[0].upper in _READ_OR_WRITE else OTHER


def uses_of(tokens: Sequence[Token], database: str | None) -> tuple[TableUse, ...]:
    """The tables that a statement names; raises NotImitated where one has no database."""
    found: list[TableUse] = []
    at = 0
    while at < len(tokens):
        before = tokens[at - 1].upper if at else ""
        word = tokens[at].upper
        at += 1
        if word not in _BEFORE_TABLE or (word == "UPDATE" and before in ("FOR", "KEY")):
            continue
        while True:
            while at < len(tokens) and tokens[at].upper in _MODIFIERS:
                at += 1
            use = _use_at(tokens, at, database)
            if use is None:
                break
            found.append(use)
            at = use.until
            if at < len(tokens) and tokens[at].upper == "AS":
                at += 1
            if at < len(tokens) and tokens[at].kind == "name":
                found[-1] = TableUse(use.table, _bare(tokens[at].text), use.at, use.until)
                at += 1
            if at >= len(tokens) or tokens[at].text != "," or word not in ("FROM", "UPDATE"):
                break
            at += 1
    return tuple(found)


def _use_at(tokens: Sequence[Token], at: int, database: str | None) -> TableUse | None:
    if at >= len(tokens) or tokens[at].kind != "name":
        return None
    name, until, where = _bare(tokens[at].text), at + 1, database
    if until + 1 < len(tokens) and tokens[until].text == "." and tokens[until + 1].kind == "name":
        where, name, until = name, _bare(tokens[until + 1].text), until + 2
    if not where:
        raise NotImitated(NO_DATABASE)
    return TableUse(TableName(where, name), name, at, until)


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def tables_of(text: str, database: str | None) -> tuple[TableName, ...]:
    """The tables of a statement, each once; raises NotImitated with the reason why it has no place."""
    tokens = tokens_of(text)
    if any(token.kind == "end" for token in tokens):
        raise NotImitated(TOO_LONG)
    first = tokens[0].upper if tokens else ""
    if first == "CALL":
        raise NotImitated(PROCEDURES)
    if first in _CHANGES:
        raise NotImitated(SCHEMA_CHANGES)
    if first not in _READ_OR_WRITE and not (tokens and tokens[0].text == "("):
        raise NotImitated(NO_TABLE)
    uses = uses_of(tokens, database)
    if not uses:
        raise NotImitated(NO_TABLE)
    names = tuple(dict.fromkeys(use.table for use in uses))
    if any(name.database.lower() in _SYSTEM for name in names):
        raise NotImitated(SERVERS_OWN)
    return names


class Writer:
    """Writes the statements of one transaction; what they have in common is drawn once."""

    def __init__(self, schema: Schema, renamed: Mapping[str, str], home: str) -> None:
        """Databases get other names; tables of the home one are named without it."""
        self._schema = schema
        self._renamed = renamed
        self._home = home
        self._names = 0
        self._deleted: dict[TableName, str] = {}
        """The variable that holds the key of the row that was deleted last."""

    def write(self, text: str, database: str | None, means: Means) -> WrittenStatement:
        """One statement; raises NotImitated."""
        tables = tables_of(text, database)
        for table in tables:
            if table not in self._schema.tables:
                raise NotImitated(NOT_THERE)
            if any(each.kind == UNKNOWN for each in self._schema.domains[table].values()):
                raise NotImitated(NO_VALUES)
        tokens = tokens_of(text)
        uses = uses_of(tokens, database)
        return _Statement(self, tokens, uses, means).written()

    def _variable(self) -> str:
        self._names += 1
        return f"v{self._names}"


class _Statement:
    """One statement while it is written."""

    def __init__(
        self, writer: Writer, tokens: Sequence[Token], uses: Sequence[TableUse], means: Means
    ) -> None:
        self._writer = writer
        self._tokens = tokens
        self._uses = uses
        self._means = means
        self._out = WrittenStatement("")
        self._parts: dict[int, str] = {}
        """What stands for a token; others stand as they are."""
        self._skipped: set[int] = set()
        self._is_delete = tokens[0].upper == "DELETE"
        self._shared: dict[tuple[TableName, str], str] = {}
        """Variables of the rows that composite keys name, by index."""

    def written(self) -> WrittenStatement:
        self._name_tables()
        for place, token in enumerate(self._tokens[:-1]):
            if token.kind == "name" and place not in self._parts and self._tokens[place + 1].text == "(":
                self._parts[place] = _bare(token.text)  # a function, which is called by its bare name
        at = 0
        if self._tokens[0].upper in ("INSERT", "REPLACE"):
            at = self._insert()
        limited = any(token.upper == "LIMIT" for token in self._tokens)
        while at < len(self._tokens):
            token = self._tokens[at]
            if at not in self._parts and token.kind in ("mark", "list", "values"):
                self._parts[at] = self._value_at(at, is_limited=limited)
            at += 1
        self._out.text = _joined(
            [
                self._parts.get(number, token.text)
                for number, token in enumerate(self._tokens)
                if number not in self._skipped
            ]
        )
        return self._out

    def _name_tables(self) -> None:
        """Every table in the place where it is now, and each column that its database qualifies."""
        writer = self._writer
        for use in self._uses:
            database = writer._renamed.get(use.table.database, use.table.database)
            plain = f"`{use.table.table}`"
            self._parts[use.at] = plain if use.table.database == writer._home else f"`{database}`.{plain}"
            self._skipped.update(range(use.at + 1, use.until))
        databases = {use.table.database for use in self._uses}
        for at in range(len(self._tokens) - 4):
            one, dot, two, dot_too, three = self._tokens[at : at + 5]
            is_column = dot.text == dot_too.text == "." and one.kind == two.kind == "name"
            if is_column and three.kind in ("name", "sign") and _bare(one.text) in databases:
                self._skipped.update((at, at + 1))

    # -- INSERT

    def _insert(self) -> int:
        """The values of an INSERT; answers where what follows begins."""
        use = self._uses[0]
        columns, at = self._columns_from(use)
        while at < len(self._tokens) and self._tokens[at].upper not in ("VALUES", "VALUE", "SET", "SELECT"):
            at += 1
        if at >= len(self._tokens) or self._tokens[at].upper not in ("VALUES", "VALUE"):
            return at
        at += 1
        if at < len(self._tokens) and self._tokens[at].kind == "list":
            rows = min(_MOST_ROWS, max(1, round(self._means.affected))) if self._tokens[at].has_more else 1
            made = [f"({', '.join(self._new(use, column) for column in columns)})" for _ in range(rows)]
            self._parts[at] = ", ".join(made)
            return at + 1
        return self._spelled_row(use, columns, at)

    def _columns_from(self, use: TableUse) -> tuple[list[str], int]:
        """The columns that an INSERT writes, and where their list ends."""
        at = use.until
        if at < len(self._tokens) and self._tokens[at].text == "(":
            names = []
            at += 1
            while at < len(self._tokens) and self._tokens[at].text != ")":
                if self._tokens[at].kind in ("name", "word"):  # a column may be called as a keyword is
                    names.append(_bare(self._tokens[at].text))
                at += 1
            return names, at + 1
        shape = self._writer._schema.tables[use.table].shape
        return [each.name for each in shape.columns if not each.is_invisible], at

    def _spelled_row(self, use: TableUse, columns: Sequence[str], at: int) -> int:
        """A row with something else among its literals, as `( ? , NOW ( ) , ... )`."""
        if at >= len(self._tokens) or self._tokens[at].text != "(":
            raise NotImitated(UNREADABLE)
        depth, begin = 1, at + 1
        fields: list[list[int]] = [[]]
        at += 1
        while at < len(self._tokens) and depth:
            text = self._tokens[at].text
            depth += (text == "(") - (text == ")")
            if depth == 1 and text == ",":
                fields.append([])
            elif depth:
                fields[-1].append(at)
            at += 1
        lists = [each for each in fields if len(each) == 1 and self._tokens[each[0]].kind == "values"]
        missing = len(columns) - len(fields)
        if depth or len(lists) > 1 or (missing and not lists) or missing < 0 or begin == at:
            raise NotImitated(UNREADABLE)
        place = 0
        for each in fields:
            if len(each) == 1 and self._tokens[each[0]].kind == "values":
                several = columns[place : place + 1 + missing]
                self._parts[each[0]] = ", ".join(self._new(use, column) for column in several)
                place += 1 + missing
                continue
            if len(each) == 1 and self._tokens[each[0]].kind == "mark":
                self._parts[each[0]] = self._new(use, columns[place])
            place += 1
        return at

    def _new(self, use: TableUse, name: str) -> str:
        """A value of a new row."""
        schema = self._writer._schema
        shape = schema.tables[use.table].shape
        column = shape.column(name)
        if column is None or name.lower() not in schema.domains[use.table]:
            raise NotImitated(UNREADABLE)
        primary = shape.primary
        domain = schema.domains[use.table][name.lower()]
        if primary is not None and primary.columns == (column.name,):
            if use.table in self._writer._deleted:
                return f":{self._writer._deleted[use.table]}"
            if column.is_auto_increment:
                return "NULL"
        if domain.is_unique and domain.kind == INTEGER and domain.high == schema.tables[use.table].rows:
            is_update = any(token.upper == "DUPLICATE" for token in self._tokens)
            if not (is_update and self._means.affected >= 1.5):
                return f":next({domain.high + 1})"
        if domain.is_unique and domain.kind == DIGITS:
            return f":text({domain.width})"
        return domain.parameter

    # -- everything else

    def _value_at(self, at: int, *, is_limited: bool) -> str:
        """What stands for one `?` or list, by what it stands beside."""
        token = self._tokens[at]
        before = self._upper(at - 1)
        if before == "LIMIT" or before == "OFFSET" or (before == "," and self._upper(at - 3) == "LIMIT"):
            return self._limit(at)
        if before == "IN" and token.kind == "list":
            return self._in_list(at)
        if token.kind == "values":
            self._guess()
            return "1, 1"
        if token.kind == "list":
            return "(1)"
        if before in _COMPARES:
            column, domain, table = self._column_before(at - 1)
            return self._compared(at, before, column, domain, table, is_limited=is_limited)
        if before == "BETWEEN":
            _, domain, table = self._column_before(at - 1)
            return self._between(at, domain, table)
        if self._upper(at + 1) in _COMPARES and self._name_at(at + 2):
            domain, _ = self._domain(at + 2)
            return domain.parameter if domain is not None else "1"
        if before not in ("+", "-", "INTERVAL"):
            self._guess()
        return "1"

    def _guess(self) -> None:
        self._out.guesses.append("a literal whose column its digest does not tell is 1")

    def _upper(self, at: int) -> str:
        return self._tokens[at].upper or self._tokens[at].text if 0 <= at < len(self._tokens) else ""

    def _name_at(self, at: int) -> bool:
        """Whether a column may stand here; one that is called as a keyword is has no backticks."""
        if not 0 <= at < len(self._tokens):
            return False
        token, domains = self._tokens[at], self._writer._schema.domains
        return token.kind == "name" or (
            token.kind == "word" and any(token.text.lower() in domains[use.table] for use in self._uses)
        )

    def _column_before(self, at: int) -> tuple[str, Domain | None, TableName | None]:
        """The column that ends just before this token (`NOT` may stand between)."""
        at -= 1
        if self._upper(at) == "NOT":
            at -= 1
        if not self._name_at(at):
            return "", None, None
        domain, table = self._domain(at)
        return _bare(self._tokens[at].text), domain, table

    def _domain(self, at: int) -> tuple[Domain | None, TableName | None]:
        """The values of the column whose (last) name is this token."""
        while self._upper(at + 1) == "." and self._name_at(at + 2):
            at += 2
        name = _bare(self._tokens[at].text).lower()
        qualifier = ""
        if self._upper(at - 1) == "." and self._name_at(at - 2):
            qualifier = _bare(self._tokens[at - 2].text).lower()
        domains = self._writer._schema.domains
        for use in self._uses:
            if qualifier in ("", use.alias.lower(), use.table.table.lower()) and name in domains[use.table]:
                return domains[use.table][name], use.table
        return None, None

    def _compared(
        self,
        at: int,
        sign: str,
        column: str,
        domain: Domain | None,
        table: TableName | None,
        *,
        is_limited: bool,
    ) -> str:
        if domain is None or table is None:
            self._guess()
            return "1"
        if sign == "LIKE":
            return f"CONCAT(:text({max(1, min(3, domain.width - 1))}), '%')"
        if sign in (">", ">=", "<", "<=") and domain.kind in (INTEGER, NUMBER):
            return self._beyond(at, sign, column, domain, is_limited=is_limited)
        if sign in ("=", "<=>") and not self._is_assigned(at):
            return self._key_part(column, domain, table)
        return domain.parameter

    def _is_assigned(self, at: int) -> bool:
        """Whether this stands in the SET of an UPDATE."""
        words = [self._tokens[each].upper for each in range(at)]
        return "SET" in words and "WHERE" not in words

    def _key_part(self, column: str, domain: Domain, table: TableName) -> str:
        """A value to look for by equality: parts of one composite key name one row, and what a DELETE
        names can be inserted again."""
        shape = self._writer._schema.tables[table].shape
        primary = shape.primary
        if primary is None or column.lower() not in [each.lower() for each in primary.columns]:
            return domain.parameter
        if len(primary.columns) == 1:
            if not self._is_delete or domain.kind not in (INTEGER, DIGITS):
                return domain.parameter
            name = self._set(domain.parameter)
            self._writer._deleted[table] = name
            return f":{name}"
        if domain.kind != INTEGER or not domain.is_unique:
            return domain.parameter
        if (table, PRIMARY) not in self._shared:
            self._shared[table, PRIMARY] = self._set(domain.parameter)
        return f":{self._shared[table, PRIMARY]}"

    def _set(self, parameter: str) -> str:
        r"""A variable of the transaction, by its `\set` line."""
        name = self._writer._variable()
        self._out.sets.append(f"\\set {name} {parameter[1:]}")
        return name

    def _shifted(self, name: str, by: int) -> str:
        """A variable that is that much more than another one."""
        if not by:
            return name
        shifted = self._writer._variable()
        self._out.sets.append(f"\\set {shifted} :{name} + {by}")
        return shifted

    def _span(self) -> int:
        """Rows that a range holds."""
        return max(1, round(max(self._means.examined, self._means.sent)))

    def _between(self, at: int, domain: Domain | None, table: TableName | None) -> str:
        """Both ends of a BETWEEN, as far apart as the rows that the server looked at."""
        if self._upper(at + 1) != "AND" or self._upper(at + 2) != "?" or domain is None or table is None:
            self._guess()
            return "1"
        low, high = self._range(domain, table)
        self._parts[at + 2] = high
        return low

    def _range(self, domain: Domain, table: TableName) -> tuple[str, str]:
        span = min(self._span(), max(1, domain.high - domain.low + 1))
        if domain.kind in (INTEGER, NUMBER):
            name = self._set(f":rand({domain.low},{max(domain.low, domain.high - span + 1)})")
            # Two plain parameters, as there: one that is added to would be of another type, and cost more.
            return f":{name}", f":{self._shifted(name, span - 1)}"
        if domain.kind in (DAY, MOMENT):
            rows = max(1, self._writer._schema.tables[table].rows)
            days = max(1, round(DAYS * self._span() / rows))
            name = self._set(domain.parameter)
            return f":{name}", f":{name} + INTERVAL {days} DAY"
        if domain.kind == DIGITS:
            top = max(domain.low, domain.high - span + 1)
            name = self._set(f":rand({domain.low},{top})")
            pad = f"LPAD(:{name}%s, {domain.width}, '0')"
            return pad % "", pad % f" + {span - 1}"
        return domain.parameter, domain.parameter

    def _beyond(self, at: int, sign: str, column: str, domain: Domain, *, is_limited: bool) -> str:
        """One end of a range; the other end, where it follows, is as far as the rows looked at."""
        low, table = self._column_before(at - 1)[1:]
        if sign in (">", ">=") and low is not None and table is not None:
            for other in range(at + 1, len(self._tokens) - 1):
                is_end = self._upper(other) in ("<", "<=") and self._upper(other + 1) == "?"
                if is_end and self._column_before(other)[0].lower() == column.lower():
                    first, last = self._range(low, table)
                    self._parts[other + 1] = last
                    return first
        if is_limited:
            return domain.parameter
        span = min(self._span(), domain.high - domain.low + 1)
        return str(domain.high - span + 1 if sign in (">", ">=") else domain.low + span - 1)

    def _limit(self, at: int) -> str:
        """How many rows, or after how many."""
        is_offset = self._upper(at - 1) == "OFFSET" or (
            self._upper(at - 1) == "LIMIT" and self._upper(at + 1) == "," and self._upper(at + 2) == "?"
        )
        sent = max(1, round(max(self._means.sent, self._means.affected if self._is_delete else 0.0)))
        if self._tokens[at].kind == "values":
            return f"0, {sent}"
        return "0" if is_offset else str(sent)

    def _in_list(self, at: int) -> str:
        """As many values as rows were looked at."""
        _, domain, _ = self._column_before(at - 1)
        if domain is None:
            self._guess()
            return "(1)"
        number = max(1, min(_MOST_LISTED, round(max(self._means.sent, self._means.examined))))
        return f"({', '.join([domain.parameter] * number)})"


def _joined(parts: Sequence[str]) -> str:
    """Tokens as one text: nothing before a comma, around a point and between a name and its bracket, which
    makes a call of what would be a name."""
    text = ""
    for part in parts:
        last_word = re.search(r"(\w+)$", text)
        is_call = part.startswith("(") and last_word is not None and last_word[1].upper() not in _NO_CALL
        if (
            not text
            or part in (",", ")", ".", ";")
            or text.endswith((".", "(", "@"))
            or (is_call and part == "(")
        ):
            text += part
        else:
            text += f" {part}"
    return text

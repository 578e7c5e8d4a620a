r"""A user's own workload: a file of SQL, one transaction a block.

Law: the form is this and no more.
- Blank lines part the blocks; each block is one transaction. A transaction draws one of the blocks, as
  likely as its line `\weight N` says (1 without it), so that a block written twice comes twice as often.
- Each statement of a block ends with `;` (the last one may leave it out). A block of one statement
  runs in autocommit; one of several is wrapped in BEGIN and COMMIT, unless it begins with BEGIN or
  START TRANSACTION itself: then it ends with COMMIT or ROLLBACK.
- `:rand(low,high)` stands for a whole number, both ends included, drawn for each transaction;
  `:text(n)` for a quoted text of n digits, `:next(low)` for a number that is drawn once. A line
  `\set NAME rand(low,high)` (pgbench's `random` means the same) draws once a transaction what `:NAME` then
  stands for, any number of times;
  `\set NAME :OTHER + 99` is a number that far from one that was set before.
- `\prepared` sends a block's statements as prepared ones.
- `\rows N` makes a block a table instead: its one CREATE TABLE is made and filled before the load, with N
  rows; a second number is the bytes of an average row. `\database NAME` says where all of it is; both make
  the database where it is missing.
- Lines that begin with `--` or `#` are comments. Quotes and comments inside a statement are left as they
  are: no parameter is looked for there.
Every mistake is a UsageError that names file and line.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, count
from random import Random
from typing import Final, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.load.workload import (
    OTHER,
    READ,
    WRITE,
    Draw,
    Statement,
    Table,
    Values,
    Workload,
)
from replexplorer.core.records import dataclass, field, frozen, replace

LARGEST_BYTES: Final = 1 << 20
"""Of a file: it is a workload, not a dump."""
MOST_STATEMENTS: Final = 10_000
"""Of a file."""
DATABASE: Final = "sandbox"
"""Where a user's statements run: the user's own database."""
_LONGEST_TEXT: Final = 1 << 16
_ONE_NUMBER: Final = 512
_LARGEST_NUMBER: Final = 2**63 - 1
_MOST_WEIGHT: Final = 10**12
_MOST_ROWS: Final = 100_000_000
"""As of the configuration's table_size."""
_MOST_ROW_BYTES: Final = 1 << 20
_APART: Final = 2_000_000
_PROCESSES: Final = 1_000
"""Numbers that are drawn once begin in one of 1,000 places, that far apart: each process of a load, and
each load on the same table, draws its own."""
_SERVERS_OWN: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema", "replexplorer"})

_KINDS: Final = {
    **dict.fromkeys(("select", "show", "explain", "describe", "desc", "table", "values", "with"), READ),
    **dict.fromkeys(("insert", "update", "delete", "replace", "call", "truncate", "create"), WRITE),
    **dict.fromkeys(("drop", "alter", "rename", "do"), WRITE),
}
"""How a statement counts, by its first word."""
_REFUSED: Final = {
    "delimiter": "end statements with ;",
    "source": "write each workload in a file of its own",
    "use": "write tables of other databases as database.table",
    "load": "use INSERT",
}
_FORM: Final = "write one transaction in a block: BEGIN first and COMMIT last, or neither"

_TOKEN: Final = re.compile(
    r"""(?P<line>^[^\S\n]*\\[^\n]*)
      | (?P<blank>\n[^\S\n]*(?=\n))
      | (?P<remark>^[^\S\n]*(?:--|\#)[^\n]*)
      | (?P<comment>--\ [^\n]*|\#[^\n]*|/\*.*?\*/)
      | '(?:[^'\\]|\\.|'')*+' | "(?:[^"\\]|\\.|"")*+" | `[^`]*`
      | (?P<end>;)
      | :=
      | :(?P<name>[A-Za-z_]\w*)(?P<arguments>\([^()\n]*\))?
      | (?P<open>['"`]|/\*)
      | [^'"`;:\#/\n-]+ | .
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_WORDS: Final = re.compile(
    r"(?:\s|/\*.*?\*/|-- [^\n]*|#[^\n]*)*(?P<first>[A-Za-z_]*)(?:\s+(?P<second>[A-Za-z_]+))?", re.DOTALL
)
_SET: Final = re.compile(
    r"\\set\s+(?P<name>[A-Za-z_]\w*)\s+(?:(?P<call>[A-Za-z_]\w*)\s*(?P<arguments>\(.*\))"
    r"|:(?P<other>[A-Za-z_]\w*)\s*(?P<sign>[+-])\s*(?P<number>[0-9]{1,18}))"
)
_NAME: Final = r"(?:`[^`]{1,64}`|[A-Za-z_$][\w$]{0,63})"
_TABLE: Final = re.compile(
    rf"\s*CREATE\s+TABLE\s+(?:(?P<database>{_NAME})\s*\.\s*)?(?P<table>{_NAME})\s*\(", re.IGNORECASE
)
_KNOWN: Final = "use :rand(low,high), :text(n) or :next(low)"
_MARK: Final = "\0"
"""Stands for a parameter: the one character that no file has."""

_Held = Mapping[str, int | bytes]
"""What was drawn for the transaction, by name."""


class _Value(NamedTuple):
    """A parameter: its letter, and what makes its value."""

    kind: str
    """`l` a number or `s` a text (`Statement.parameters`)."""
    make: Callable[[Random, _Held], int | bytes]


class _Found(NamedTuple):
    """One statement as the file has it, `_MARK` for each parameter."""

    line: int
    text: str
    values: tuple[_Value, ...] = ()

    @property
    def words(self) -> tuple[str, str]:
        """Its first two words in lower case, comments left out; empty where it has none."""
        match = _WORDS.match(self.text)
        return ((match["first"] or "").lower(), (match["second"] or "").lower()) if match else ("", "")


@dataclass(slots=True)
class _Block:
    """One transaction of the file, or a table."""

    line: int
    sets: dict[str, _Value] = field(default_factory=dict)
    found: list[_Found] = field(default_factory=list)
    statements: list[tuple[int, tuple[_Value, ...]]] = field(default_factory=list)
    """An index into the script's statements, and their parameters."""
    weight: int = 1
    is_prepared: bool = False
    rows: tuple[int, int | None] | None = None
    """Of a table: how many, and how many bytes each."""
    is_described: bool = False
    """A line says something about it."""


@frozen
class Script:
    """A file that was read."""

    workload: Workload
    _blocks: tuple[_Block, ...]

    def draws(self, random: Random) -> Draw:
        """Makes the transactions of all clients."""
        blocks = self._blocks
        reach = list(accumulate(block.weight for block in blocks))
        total, uniform = reach[-1], random.random

        def draw() -> list[tuple[int, Values]]:
            block = blocks[bisect(reach, int(uniform() * total))]
            held: dict[str, int | bytes] = {}
            for name, value in block.sets.items():
                held[name] = value.make(random, held)
            return [
                (index, tuple([value.make(random, held) for value in values]))
                for index, values in block.statements
            ]

        return draw


def read_script(text: str, name: str) -> Script:
    """Read a user's file; raises UsageError naming file and line."""
    return _Reader(name).read(text)


class _Reader:
    """Reads one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._statements: list[Statement] = []
        self._blocks: list[_Block] = []
        self._database: str | None = None
        self._tables: list[Table] = []
        self._block: _Block | None = None
        self._parts: list[str] = []
        self._values: list[_Value] = []
        self._begun: int | None = None
        """The line that the statement under way begins at."""

    def read(self, text: str) -> Script:
        if len(text) > LARGEST_BYTES:
            raise UsageError(
                f"{self._name} is larger than a workload may be", f"at most {LARGEST_BYTES} bytes"
            )
        if _MARK in text:
            raise UsageError(f"{self._name} is not a text file", "give a file of SQL statements")
        line = 1
        for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
            self._take(match, line)
            line += match[0].count("\n")
        self._end_block()
        if not self._blocks:
            raise UsageError(f"{self._name} has no statement", "write at least one SQL statement")
        database = self._database or DATABASE
        workload = Workload(
            self._name,
            f"{len(self._blocks)} transaction{'s' * (len(self._blocks) > 1)} of {self._name}",
            tuple(self._statements),
            tuple(replace(each, database=each.database or database) for each in self._tables),
            database,
        )
        return Script(workload, tuple(self._blocks))

    def _fail(self, line: int, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}:{line}: {what}", hint)

    def _take(self, match: re.Match[str], line: int) -> None:
        """The next piece of the file."""
        kind, piece = match.lastgroup, match[0]
        if kind == "blank":
            self._end_block()
            return
        if self._block is None:
            if not piece.strip():
                return
            self._block = _Block(line)
        block = self._block
        match kind:
            case "line":
                self._read_line(block, line, piece.strip())
            case "remark":
                pass
            case "open":
                raise self._fail(line, f"{piece} is not closed")
            case "end":
                if self._begun is None:
                    raise self._fail(line, "a ; without a statement")
                self._end_statement(block)
            case _:
                if kind != "comment" and piece.strip() and self._begun is None:
                    self._begun = line
                if kind in ("name", "arguments"):
                    self._values.append(self._value(block, line, match["name"], match["arguments"]))
                    piece = _MARK
                self._parts.append(piece)

    def _end_statement(self, block: _Block) -> None:
        if self._begun is not None:
            block.found.append(_Found(self._begun, "".join(self._parts).strip(), tuple(self._values)))
            if len(block.found) + len(self._statements) > MOST_STATEMENTS:
                raise self._fail(self._begun, f"more than {MOST_STATEMENTS} statements", "it is a workload")
        self._parts, self._values, self._begun = [], [], None

    def _end_block(self) -> None:
        block, self._block = self._block, None
        if block is None:
            return
        self._end_statement(block)
        if not block.found:
            if block.is_described:
                raise self._fail(block.line, "a block without a statement")
        elif block.rows is not None:
            self._add_table(block, *block.rows)
        else:
            self._add_transaction(block)

    # -- lines that begin with a backslash

    def _read_line(self, block: _Block, line: int, text: str) -> None:
        word, *rest = text.split()
        block.is_described = block.is_described or word != "\\database"
        match (word, rest):
            case ("\\database", [name]):
                database = self._named(line, name)
                if self._database not in (None, database):
                    raise self._fail(line, f"{text} is the second one", "a file has one")
                self._database = database
            case ("\\weight", [weight]):
                block.weight = self._whole(line, text, weight, 1, _MOST_WEIGHT)
            case ("\\rows", [rows, *size]) if len(size) < 2:
                sizes = [self._whole(line, text, each, 1, _MOST_ROW_BYTES) for each in size]
                block.rows = self._whole(line, text, rows, 0, _MOST_ROWS), next(iter(sizes), None)
            case ("\\prepared", []):
                block.is_prepared = True
            case _:
                self._read_set(block, line, text)

    def _whole(self, line: int, text: str, number: str, least: int, most: int) -> int:
        """A line's whole number."""
        if not re.fullmatch("[0-9]+", number) or not least <= int(number) <= most:
            raise self._fail(line, f"{text} is not understood", f"a whole number from {least} to {most}")
        return int(number)

    def _named(self, line: int, name: str) -> str:
        """A database that a file may use, without backticks."""
        database = name.strip("`")
        if re.fullmatch(_NAME, name) is None or database.lower() in _SERVERS_OWN:
            raise self._fail(line, f"database {database} is not for workloads", "give another name")
        return database

    def _read_set(self, block: _Block, line: int, text: str) -> None:
        r"""One `\set` line."""
        match = _SET.fullmatch(text)
        if match is None:
            raise self._fail(line, f"{text.split()[0]} is not understood", r"write \set id rand(1,1000)")
        name, other = match["name"], match["other"]
        if name in block.sets:
            raise self._fail(line, f":{name} is set again", "set a name once in a block")
        if other is None:
            block.sets[name] = self._value(block, line, match["call"], match["arguments"])
            return
        if other not in block.sets or block.sets[other].kind != "l":
            raise self._fail(
                line, f":{other} is not a number that was set before", r"write \set id rand(1,1000)"
            )
        plus = int(match["sign"] + match["number"])
        block.sets[name] = _Value("l", lambda _, held: int(held[other]) + plus)

    def _value(self, block: _Block, line: int, name: str, arguments: str | None) -> _Value:
        """The value of a parameter."""
        if arguments is None:
            if name not in block.sets:
                known = "".join(f", :{each}" for each in block.sets)
                raise self._fail(line, f"no parameter :{name} here", f"{_KNOWN}{known}")
            return _Value(block.sets[name].kind, lambda _, held: held[name])
        said = f":{name}{arguments}"
        try:
            numbers = [int(each) for each in arguments[1:-1].split(",")]
        except ValueError:
            raise self._fail(line, f"{said} has an argument that is not a whole number") from None
        match (name.lower(), numbers):
            case ("rand" | "random", [low, high]):
                if not -_LARGEST_NUMBER <= low <= high <= _LARGEST_NUMBER:
                    raise self._fail(line, f"{said} is an empty range", "put the lower number first")
                return _Value("l", lambda random, _: random.randint(low, high))
            case ("text", [length]):
                if not 0 <= length <= _LONGEST_TEXT:
                    raise self._fail(line, f"{said} is out of range", f"0 to {_LONGEST_TEXT} digits")
                return _Value("s", _digits(length))
            case ("next", [low]):
                if not 0 <= low <= _LARGEST_NUMBER // 2:
                    raise self._fail(line, f"{said} is out of range", "write :next(5001)")
                return _Value("l", _numbered(low))
        raise self._fail(line, f"no parameter {said}", _KNOWN)

    # -- blocks

    def _add_table(self, block: _Block, rows: int, row_bytes: int | None) -> None:
        """A block that makes a table."""
        found, *more = block.found
        match = _TABLE.match(found.text)
        if match is None or more or found.values or block.sets:
            raise self._fail(
                found.line, r"a block with \rows is one CREATE TABLE name (...)", "and no parameter"
            )
        database = "" if match["database"] is None else self._named(found.line, match["database"])
        table = match["table"].strip("`")
        if any((each.database, each.name) == (database, table) for each in self._tables):
            raise self._fail(found.line, f"table {table} is listed twice", "make one table in a block")
        body, place = found.text[match.end() - 1 :], f"{self._name}:{found.line}"
        self._tables.append(Table(database, table, body, rows, row_bytes, place))

    def _add_transaction(self, block: _Block) -> None:
        """A block of statements, wrapped in BEGIN and COMMIT where it is several without them."""
        found = block.found
        opens = [each.words[0] == "begin" or each.words == ("start", "transaction") for each in found]
        ends = [each.words[0] in ("commit", "rollback") and each.words[1] != "to" for each in found]
        for index, each in enumerate(found):
            word = each.words[0]
            if word in _REFUSED:
                raise self._fail(each.line, f"{word.upper()} is not allowed here", _REFUSED[word])
            if opens[index] and index:
                raise self._fail(each.line, f"{word.upper()} in the middle of a transaction", _FORM)
            if ends[index] and (not opens[0] or index + 1 < len(found)):
                raise self._fail(each.line, f"{word.upper()} without the BEGIN of its block", _FORM)
        if opens[0] and not ends[-1]:
            raise self._fail(found[0].line, "a BEGIN without a COMMIT in its block", _FORM)
        if len(found) > 1 and not opens[0]:
            found = [_Found(block.line, "BEGIN"), *found, _Found(found[-1].line, "COMMIT")]
        for each in found:
            block.statements.append((len(self._statements), each.values))
            self._statements.append(self._statement(block, each, is_own=each in block.found))
        self._blocks.append(block)

    def _statement(self, block: _Block, found: _Found, *, is_own: bool) -> Statement:
        """A statement of the file, or one that we put around a block."""
        word = found.words[0]
        kind = _KINDS.get(word, OTHER)
        return Statement(
            name=f"line {found.line}" if is_own else word,
            text=found.text,
            kind=kind,
            parameters="".join(value.kind for value in found.values),
            mark=_MARK,
            # What the server calls a parameter may stand in a text or a comment only.
            prepared=is_own and block.is_prepared and "?" not in found.text,
            commits=word == "commit" or (len(block.found) == 1 and kind is not READ),
            place=f"{self._name}:{found.line}",
        )


def _digits(length: int) -> Callable[[Random, _Held], bytes]:
    """Texts of digits; as one number up to a length where making it is faster than drawing each digit."""
    if length > _ONE_NUMBER:
        return lambda random, _: "".join(random.choices("0123456789", k=length)).encode()
    beyond = 10**length
    return lambda random, _: b"%0*d" % (length, random.randrange(beyond)) if length else b""


def _numbered(low: int) -> Callable[[Random, _Held], int]:
    """Numbers from a place of this process on, each once."""
    numbers: list[Iterator[int]] = []

    def make(random: Random, _: _Held) -> int:
        if not numbers:
            numbers.append(count(low + _APART * random.randrange(_PROCESSES)))
        return next(numbers[0])

    return make

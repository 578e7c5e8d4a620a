r"""A user's own workload: a file of SQL, one transaction a block.

Law: the form is this and no more.
- Blank lines part the blocks; each block is one transaction. A transaction draws one of the blocks, as
  likely as its line `\weight N` says (1 without it), so that a block written twice comes twice as often.
- Each statement of a block ends with `;` (the last one may leave it out). A block of one statement
  runs in autocommit; one of several is wrapped in BEGIN and COMMIT, unless it begins with BEGIN or
  START TRANSACTION itself: then it ends with COMMIT or ROLLBACK.
- `:rand(low,high)` stands for a whole number, both ends included, drawn for each transaction;
  `:text(n)` for a quoted text of n digits, `:digits(low,high,n)` for a quoted number with zeros before it,
  `:day(from,to)` and `:moment(from,to)` for a quoted date, or date and time, between two dates, `:next(low)`
  for a number that is drawn once. A line `\set NAME rand(low,high)` (pgbench's `random` means
  the same) draws once a transaction what `:NAME` then stands for, any number of times;
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate, count
from random import Random
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.load.workload import (
    OTHER,
    READ,
    WRITE,
    Draw,
    FilledTable,
    Statement,
    Values,
    Workload,
)

LARGEST_BYTES: Final = 1 << 20
"""Of a file: it is a workload, not a dump."""
MOST_LINES: Final = 50_000
"""Of a file."""
MOST_STATEMENTS: Final = 10_000
"""Of a file."""
DATABASE: Final = "sandbox"
"""Where a user's statements run: the user's own database."""
_LONGEST_TEXT: Final = 1 << 16
_DIGITS: Final = "0123456789"
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
_SECONDS_A_DAY: Final = 86_400
_SERVERS_OWN: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema", "replexplorer"})

_READS: Final = frozenset({"select", "show", "explain", "describe", "desc", "table", "values", "with"})
_WRITES: Final = frozenset(
    {"insert", "update", "delete", "replace", "call", "truncate", "create", "drop", "alter", "rename", "do"}
)
_ENDS: Final = frozenset({"commit", "rollback"})
_REFUSED: Final = {
    "delimiter": "statements end with ;",
    "source": "one file is one workload",
    "use": "tables of other databases are written database.table",
    "load": "LOAD DATA is not sent",
}

_TOKEN: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`   # quoted
      | --\ [^\n]* | \#[^\n]* | /\*.*?\*/                        # comments
      | ;
      | :=
      | :(?P<name>[A-Za-z_]\w*)(?P<arguments>\([^()\n]*\))?
      | ['"`] | /\*                                              # not closed
      | [^'"`;:\#/-]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_SET: Final = re.compile(
    r"\\set\s+(?P<name>[A-Za-z_]\w*)\s+(?P<call>[A-Za-z_]\w*)\s*(?P<arguments>\(.*\))\s*"
)

_SHIFTED: Final = re.compile(
    r"\\set\s+(?P<name>[A-Za-z_]\w*)\s+:(?P<other>[A-Za-z_]\w*)\s*(?P<sign>[+-])\s*(?P<number>[0-9]{1,18})\s*"
)

_OPENING: Final = re.compile(r"""['"`]|/\*|--\ |\#""")
_CLOSING: Final = {
    "'": re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL),
    '"': re.compile(r'(?:[^"\\]|\\.|"")*+"', re.DOTALL),
    "`": re.compile(r"[^`]*`"),
    "/*": re.compile(r".*?\*/"),
}
_WORDS: Final = re.compile(
    r"""/\*.*?\*/|--\ [^\n]*|\#[^\n]*|(?P<word>[A-Za-z_]+)|(?P<quote>['"`])|.""", re.DOTALL
)

_MARK: Final = "\0"
"""Stands for a parameter: the one character that no file has."""

_Make = Callable[[Random], int | bytes]
_NAME: Final = r"(?:`[^`]+`|[A-Za-z_$][\w$]*)"
_TABLE: Final = re.compile(
    rf"\s*CREATE\s+TABLE\s+(?:(?P<database>{_NAME})\s*\.\s*)?(?P<table>{_NAME})\s*\(", re.IGNORECASE
)
_PLAIN_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_KNOWN: Final = (
    "known: :rand(low,high), :text(n), :digits(low,high,n), :day(from,to), :moment(from,to), :next(low)"
)


@dataclass(frozen=True, slots=True)
class _Value:
    """What makes a parameter's value: a drawing of its own, or a name set for the transaction."""

    kind: str
    """`l` or `s`."""
    make: _Make | None
    name: str = ""
    plus: int = 0
    """How far a number is from the one of that name."""


@dataclass(slots=True)
class _Block:
    """One transaction of the file."""

    line: int
    sets: dict[str, _Value] = field(default_factory=dict)
    statements: list[tuple[int, list[_Value]]] = field(default_factory=list)
    """An index into the script's statements, and what makes its parameters."""
    weight: int = 1
    is_prepared: bool = False
    rows: tuple[int, int | None] | None = None
    """Of a table: how many, and how many bytes each."""


@dataclass(frozen=True, slots=True)
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
                held[name] = value.make(random) if value.make else int(held[value.name]) + value.plus
            return [
                (index, tuple(value.make(random) if value.make else held[value.name] for value in values))
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
        self._tables: list[FilledTable] = []

    def read(self, text: str) -> Script:
        if len(text) > LARGEST_BYTES:
            raise UsageError(
                f"{self._name} is larger than a workload may be", f"at most {LARGEST_BYTES} bytes"
            )
        if "\0" in text:
            raise UsageError(f"{self._name} is not a text file", "give a file of SQL statements")
        if text.count("\n") >= MOST_LINES:
            raise UsageError(f"{self._name} has more than {MOST_LINES} lines", "it is a workload, not a dump")
        lines = text.replace("\r\n", "\n").split("\n")
        paragraph: list[tuple[int, str]] = []
        opened = ""
        for number, line in enumerate([*lines, ""], start=1):
            if line.strip():
                paragraph.append((number, line))
                opened = opened if _is_comment(line) else _open_after(line, opened)
            elif paragraph and not opened:
                self._read_block(paragraph)
                paragraph = []
            elif paragraph:  # a blank line inside quotes
                paragraph.append((number, line))
        if paragraph:
            self._read_block(paragraph)
        if not self._blocks:
            raise UsageError(f"{self._name} has no statement", "write at least one SQL statement")
        title = f"{len(self._blocks)} transaction{'s' * (len(self._blocks) > 1)} of {self._name}"
        database = self._database or DATABASE
        tables = tuple(each if each.database else each.within(database) for each in self._tables)
        if len({(each.database, each.name) for each in tables}) < len(tables):
            raise UsageError(f"{self._name} has a table twice", "one block makes one table")
        return Script(
            Workload(
                self._name,
                title,
                tuple(self._statements),
                None,
                database,
                tables,
                makes_database=self._database is not None,
            ),
            tuple(self._blocks),
        )

    def _fail(self, line: int, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{self._name}:{line}: {what}", hint)

    def _read_block(self, paragraph: list[tuple[int, str]]) -> None:
        """One block: its lines that begin with a backslash, then its statements."""
        block = _Block(paragraph[0][0])
        kept: list[tuple[int, str]] = []
        has_lines = False
        for number, line in paragraph:
            if line.lstrip().startswith("\\"):
                has_lines = self._read_line(block, number, line.strip()) or has_lines
            else:
                kept.append((number, "" if _is_comment(line) else line))
        found = self._split(block, kept)
        if not found:
            if has_lines:
                raise self._fail(block.line, "a block without a statement")
            return
        if block.rows is not None:
            self._add_table(block, found)
            return
        self._wrap(block, found)
        self._blocks.append(block)

    def _read_line(self, block: _Block, line: int, text: str) -> bool:
        """One line that begins with a backslash; answers whether it is about its block."""
        word, *rest = text.split()
        match (word, rest):
            case ("\\weight", [weight]):
                block.weight = self._whole(line, text, weight, 1, _MOST_WEIGHT)
            case ("\\rows", [rows]):
                block.rows = self._whole(line, text, rows, 0, _MOST_ROWS), None
            case ("\\rows", [rows, size]):
                block.rows = (
                    self._whole(line, text, rows, 0, _MOST_ROWS),
                    self._whole(line, text, size, 1, _MOST_ROW_BYTES),
                )
            case ("\\prepared", []):
                block.is_prepared = True
            case ("\\database", [name]):
                self._read_database(line, name)
                return False
            case _:
                self._read_set(block, line, text)
        return True

    def _whole(self, line: int, text: str, number: str, least: int, most: int) -> int:
        """A line's whole number."""
        if not number.isascii() or not number.isdigit() or not least <= int(number) <= most:
            raise self._fail(line, f"{text} is not understood", f"a whole number from {least} to {most}")
        return int(number)

    def _read_database(self, line: int, name: str) -> None:
        r"""A `\database` line."""
        if self._database not in (None, _bare(name)):
            raise self._fail(line, f"\\database {name} is the second one", "a file has one")
        if re.fullmatch(_NAME, name) is None or len(_bare(name)) > _LONGEST_NAME:
            raise self._fail(line, f"\\database {name} is not understood", r"as \database shop")
        if _bare(name).lower() in _SERVERS_OWN:
            raise self._fail(line, f"\\database {name} is not for workloads", "give another name")
        self._database = _bare(name)

    def _add_table(self, block: _Block, found: list[tuple[int, str, list[_Value]]]) -> None:
        """A block that makes a table."""
        (line, text, values), *more = found
        match = _TABLE.match(text)
        if match is None or more or values or block.sets:
            raise self._fail(line, r"a block with \rows is one CREATE TABLE name (...)", "and no parameter")
        rows, row_bytes = block.rows or (0, None)
        database = _bare(match["database"]) if match["database"] else ""
        if database.lower() in _SERVERS_OWN:
            raise self._fail(line, f"database {database} is not for workloads", "give another name")
        self._tables.append(
            FilledTable(
                database,
                _bare(match["table"]),
                text[match.end() - 1 :],
                rows,
                row_bytes,
                f"{self._name}:{line}",
            )
        )

    def _read_set(self, block: _Block, line: int, text: str) -> None:
        r"""One `\set` line."""
        if (shifted := _SHIFTED.fullmatch(text)) is not None:
            block.sets[shifted["name"]] = self._shifted(block, line, shifted)
            return
        match = _SET.fullmatch(text)
        if match is None:
            raise self._fail(line, f"{text.split()[0]} is not understood", r"as \set id rand(1,1000)")
        if any(each.name == match["name"] for each in block.sets.values()):
            raise self._fail(line, f":{match['name']} is set again after a number was taken from it")
        block.sets[match["name"]] = self._value(block, line, match["call"], match["arguments"])

    def _shifted(self, block: _Block, line: int, found: re.Match[str]) -> _Value:
        """A number that far from another one."""
        other = block.sets.get(found["other"])
        if other is None or other.kind != "l" or found["other"] == found["name"]:
            raise self._fail(
                line, f":{found['other']} is no number that was set before", r"as \set id rand(1,1000)"
            )
        return _Value("l", None, found["other"], int(found["sign"] + found["number"]))

    def _value(self, block: _Block, line: int, name: str, arguments: str | None) -> _Value:
        """What a parameter stands for."""
        if arguments is None:
            if name not in block.sets:
                known = "".join(f", :{each}" for each in block.sets)
                raise self._fail(line, f"no parameter :{name} here", f"{_KNOWN}{known}")
            return _Value(block.sets[name].kind, None, name)
        words = [each.strip() for each in arguments[1:-1].split(",")]
        if name.lower() in ("day", "moment") and len(words) == 2:
            return self._date_value(line, name, *words)
        try:
            numbers = [int(each) for each in words]
        except ValueError:
            raise self._fail(line, f":{name}{arguments} has an argument that is no whole number") from None
        match (name.lower(), numbers):
            case ("rand" | "random", [low, high]):
                if not -_LARGEST_NUMBER <= low <= high <= _LARGEST_NUMBER:
                    raise self._fail(
                        line, f":{name}{arguments} is an empty range", "the lower number comes first"
                    )
                return _Value("l", lambda random: random.randint(low, high))
            case ("text", [length]):
                if not 0 <= length <= _LONGEST_TEXT:
                    raise self._fail(
                        line, f":{name}{arguments} is out of range", f"0 to {_LONGEST_TEXT} digits"
                    )
                return _Value("s", _digits(length))
            case ("digits", [low, high, length]):
                if not 0 <= low <= high <= _LARGEST_NUMBER or not 1 <= length <= _LONGEST_TEXT:
                    raise self._fail(line, f":{name}{arguments} is out of range", "as :digits(1,5000,8)")
                return _Value("s", lambda random: b"%0*d" % (length, random.randint(low, high)))
            case ("next", [low]):
                if not 0 <= low <= _LARGEST_NUMBER // 2:
                    raise self._fail(line, f":{name}{arguments} is out of range", "as :next(5001)")
                return _Value("l", _numbered(low))
        raise self._fail(line, f"no parameter :{name}{arguments}", _KNOWN)

    def _date_value(self, line: int, name: str, first: str, last: str) -> _Value:
        """A date, or a date and time, between two dates."""
        try:
            low, high = (date.fromisoformat(each).toordinal() for each in (first, last))
        except ValueError:
            low, high = 1, 0
        if low > high or not (_PLAIN_DATE.fullmatch(first) and _PLAIN_DATE.fullmatch(last)):
            raise self._fail(
                line, f":{name}({first},{last}) is no range of dates", f"as :{name}(2025-01-01,2025-12-31)"
            )
        if name.lower() == "day":
            return _Value("s", lambda random: _day(random.randint(low, high)))

        def moment(random: Random) -> bytes:
            second = random.randrange(_SECONDS_A_DAY)
            minute, hour = second // 60 % 60, second // 3600
            return b"%b %02d:%02d:%02d" % (_day(random.randint(low, high)), hour, minute, second % 60)

        return _Value("s", moment)

    def _split(self, block: _Block, lines: list[tuple[int, str]]) -> list[tuple[int, str, list[_Value]]]:
        """The statements of a block: line, text with `?` for parameters, their values."""
        text = "\n".join(line for _, line in lines)
        found: list[tuple[int, str, list[_Value]]] = []
        parts: list[str] = []
        values: list[_Value] = []
        begun: int | None = None
        row = 0

        def end() -> None:
            nonlocal begun
            if begun is not None:
                found.append((begun, "".join(parts).strip(), list(values)))
                if len(found) + len(self._statements) > MOST_STATEMENTS:
                    raise self._fail(begun, f"more than {MOST_STATEMENTS} statements", "it is a workload")
            parts.clear()
            values.clear()
            begun = None

        for match in _TOKEN.finditer(text):
            piece, line = match[0], lines[row][0]
            lead = piece[: len(piece) - len(piece.lstrip())].count("\n")
            begins = lines[min(row + lead, len(lines) - 1)][0]
            row += piece.count("\n")
            if piece in ("'", '"', "`", "/*"):
                raise self._fail(line, f"{piece} is not closed")
            if piece == ";":
                if begun is None:
                    raise self._fail(line, "a ; without a statement")
                end()
                continue
            if begun is None and piece.strip() and not piece.startswith(("-- ", "#", "/*")):
                begun = begins
            if match["name"]:
                values.append(self._value(block, line, match["name"], match["arguments"]))
                piece = _MARK
            parts.append(piece)
        end()
        return found

    def _wrap(self, block: _Block, found: list[tuple[int, str, list[_Value]]]) -> None:
        """Put the statements of a block into a transaction."""
        words = [_first_words(text) for _, text, _ in found]
        for (line, _, _), word in zip(found, words, strict=True):
            if word[:1] and word[0] in _REFUSED:
                raise self._fail(line, f"{word[0].upper()} cannot stand here", _REFUSED[word[0]])
        opens = [word[:1] == ("begin",) or word[:2] == ("start", "transaction") for word in words]
        ends = [word[:1] and word[0] in _ENDS and word[1:2] != ("to",) for word in words]
        is_explicit = opens[0]
        for index, (line, text, _) in enumerate(found):
            if opens[index] and index:
                raise self._fail(line, f"{text.split()[0].upper()} in the middle of a transaction", _FORM)
            if ends[index] and (not is_explicit or index + 1 < len(found)):
                raise self._fail(line, f"{text.split()[0].upper()} without the BEGIN of its block", _FORM)
        if is_explicit and not ends[-1]:
            raise self._fail(found[0][0], "a BEGIN without a COMMIT in its block", _FORM)
        wraps = len(found) > 1 and not is_explicit
        if wraps:
            block.statements.append((self._bracket("begin", "BEGIN", block.line), []))
        for word, (line, text, values) in zip(words, found, strict=True):
            index = self._add(word, line, text, values, alone=len(found) == 1, is_prepared=block.is_prepared)
            block.statements.append((index, values))
        if wraps:
            block.statements.append((self._bracket("commit", "COMMIT", found[-1][0]), []))

    def _bracket(self, name: str, text: str, line: int) -> int:
        """A BEGIN or COMMIT that we add; the index of one for each place."""
        self._statements.append(
            Statement(
                name, text, OTHER, prepared=False, commits=name == "commit", place=f"{self._name}:{line}"
            )
        )
        return len(self._statements) - 1

    def _add(
        self,
        words: tuple[str, ...],
        line: int,
        text: str,
        values: list[_Value],
        *,
        alone: bool,
        is_prepared: bool,
    ) -> int:
        """One statement of the user's; its index."""
        first = words[0] if words else ""
        # What the server calls a parameter may stand in a text or a comment only.
        is_prepared = is_prepared and "?" not in text
        kind = READ if first in _READS else WRITE if first in _WRITES else OTHER
        self._statements.append(
            Statement(
                name=f"line {line}",
                text=text,
                kind=kind,
                parameters="".join(value.kind for value in values),
                mark=_MARK,
                prepared=is_prepared,
                commits=first == "commit" or (alone and kind is not READ),
                place=f"{self._name}:{line}",
            )
        )
        return len(self._statements) - 1


def _bare(name: str) -> str:
    """A name without its backticks."""
    return name.strip("`")


def _day(ordinal: int) -> bytes:
    return date.fromordinal(ordinal).isoformat().encode()


def _digits(length: int) -> _Make:
    """Texts of digits; as one number up to a length where making it is faster than drawing each digit."""
    if length > _ONE_NUMBER:
        return lambda random: "".join(random.choices(_DIGITS, k=length)).encode()
    beyond = 10**length
    return lambda random: b"%0*d" % (length, random.randrange(beyond)) if length else b""


def _numbered(low: int) -> _Make:
    """Numbers from a place of this process on, each once."""
    numbers: list[Iterator[int]] = []

    def make(random: Random) -> int:
        if not numbers:
            numbers.append(count(low + _APART * random.randrange(_PROCESSES)))
        return next(numbers[0])

    return make


_LONGEST_NAME: Final = 64
"""Characters of a server's name for anything."""
_FORM: Final = "a block is one transaction: BEGIN first and COMMIT last, or neither"


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("--", "#"))


def _open_after(line: str, opened: str) -> str:
    """The quote or comment that is open behind a line, given what was before it; empty: none."""
    at = 0
    while True:
        if opened:
            end = _CLOSING[opened].match(line, at)
            if end is None:
                return opened
            at, opened = end.end(), ""
        begin = _OPENING.search(line, at)
        if begin is None or begin[0] in ("-- ", "#"):
            return ""
        at, opened = begin.end(), begin[0]


def _first_words(text: str) -> tuple[str, ...]:
    """The first two words before any quote, in lower case, comments left out."""
    words: list[str] = []
    for match in _WORDS.finditer(text):
        if match["word"]:
            words.append(match["word"].lower())
        if match["quote"] or len(words) == 2:
            break
    return tuple(words)

"""TOML files of other people: read within bounds, checked by a pydantic model, and wrong with their place.

Law: a tree a thousand tables deep or a number of five thousand digits costs a bounded time and memory. Every
mistake is one UsageError with the file, the line where it is known, the key, and what would be right.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.text import one_line
from replexplorer.formats.files import read_text

MOST_TOML_BYTES: Final = 1 << 16
"""Of a TOML file."""
MOST_DEPTH: Final = 16
"""Tables and lists within each other, names of a dotted key included."""
_LARGEST_NUMBER: Final = 2**64
_MOST_DOTS: Final = 1_000
"""Of a line."""
_SHOWN: Final = 60
"""Characters of a wrong value that an error repeats."""
_MOST_WORDS: Final = 200
IS_TABLE: Final = "is a table: set its keys one by one"
_KINDS_OF_VALUE: Final = ("str", "bool", "float", "int")
"""What pydantic adds to the way to a value of more than one kind."""
T = TypeVar("T", bound=BaseModel)


class WrongToml(ValueError):
    """A document that is TOML and yet not usable; `where` are the keys down to what is wrong."""

    def __init__(self, where: tuple[str | int, ...], words: str) -> None:
        super().__init__(words)
        self.where = where
        self.words = words


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """The file's table; raises UsageError naming the file, and the key where one is wrong."""
    text = read_text(file, what, MOST_TOML_BYTES)
    try:
        return parse_toml(text)
    except WrongToml as error:
        key = ".".join(map(str, error.where))
        raise UsageError(f"{file}: {key}" if key else f"{file}", error.words) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a text of bounded size; raises WrongToml for what is no TOML, is nested deeper than
    `MOST_DEPTH`, or holds a number that is not finite or has more than 64 bits."""
    deep = f"is nested more than {MOST_DEPTH} deep"
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise WrongToml((), deep)  # the parser's time grows with the square of a dotted key
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongToml((), f"is not TOML: {one_line(str(error), 200)}") from None
    except RecursionError:
        raise WrongToml((), deep) from None
    except ValueError as error:
        digits = "digits" in str(error)
        words = "holds a number of too many digits" if digits else f"is not TOML: {one_line(str(error), 200)}"
        raise WrongToml((), words) from None
    for where, value in _values(document):
        if len(where) > MOST_DEPTH:
            raise WrongToml(where[:2], deep)
        if isinstance(value, float) and not math.isfinite(value):
            raise WrongToml(where, f"must be a number, not {value}")
        if isinstance(value, int) and not -_LARGEST_NUMBER // 2 <= value < _LARGEST_NUMBER:
            raise WrongToml(where, "is a number of more than 64 bits")
    return document


def read_tables(file: Path, what: str, model: type[T]) -> tuple[T, Sequence[str]]:
    """The file as a model, and its lines; `what` it is called where there is none.

    Raises UsageError: `FILE:LINE: KEY: what is wrong`.
    """
    text = read_text(file, what, MOST_TOML_BYTES)
    lines = text.splitlines()
    try:
        return model.model_validate(parse_toml(text)), lines
    except WrongToml as error:
        if not error.where:
            raise UsageError(f"{file}", error.words) from None
        raise placed(file, lines, error.where, UsageError(error.words, "")) from None
    except ValidationError as error:
        where = tuple(part for part in error.errors()[0]["loc"] if part not in _KINDS_OF_VALUE)
        raise placed(file, lines, where, UsageError(first_error(error)[1], "")) from None


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Where the first error is and what is wrong, in words without pydantic's own."""
    problem = error.errors(include_url=False)[0]
    where = tuple(str(part) for part in problem["loc"])
    context = problem.get("ctx", {})
    value = problem.get("input")
    given = one_line(str(value) if isinstance(value, date) else repr(value), _SHOWN)
    words = {
        "extra_forbidden": "no such key",
        "missing": "is missing",
        "model_type": IS_TABLE,
        "string_type": "must be text" if isinstance(value, Mapping | list) else f"must be text, not {given}",
        "literal_error": f"must be {context.get('expected')}, not {given}",
        "string_pattern_mismatch": f"must match {context.get('pattern')}, not {given}",
        "value_error": one_line(str(context.get("error", "")), _MOST_WORDS),
    }.get(problem["type"])
    if words is None:
        words = problem["msg"].removeprefix("Input ")[:1].lower() + problem["msg"].removeprefix("Input ")[1:]
        words += f", not {given}" if not isinstance(value, Mapping | list) else ""
    return where, words


def closest(word: str, known: Sequence[str]) -> str:
    """`did you mean X?` where one of the known words is near, else nothing."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def placed(file: Path, lines: Sequence[str], where: Sequence[str | int], error: UsageError) -> UsageError:
    """The error with its place, `FILE:LINE: phase 2.seconds: what is wrong`; `where` is the way to it."""
    written = ""
    for each in where:
        written += f" {each + 1}" if isinstance(each, int) else f".{each}" if written else each
    told = f"{written}: {error.message}" if written else error.message
    return UsageError(f"{file}:{line_of(lines, where)}: {told}", error.hint)


def line_of(lines: Sequence[str], where: Sequence[str | int]) -> int:
    """The line that a key stands on; that of its table where the key is missing, else the first."""
    first, index = 0, 0
    if where and isinstance(where[0], str) and not (len(where) > 1 and isinstance(where[1], int)):
        header = re.compile(rf"""\s*\[\s*["']?{re.escape(where[0])}["']?\s*\]""")
        first = next((number for number, line in enumerate(lines) if header.match(line)), 0)
    if len(where) > 1 and isinstance(where[1], int):
        header = re.compile(rf"\s*\[\[\s*{where[0]}\s*\]\]")
        for number, line in enumerate(lines):
            if header.match(line):
                if index == where[1]:
                    first = number
                    break
                index += 1
    key = next((each for each in reversed(where) if isinstance(each, str)), "")
    wanted = re.compile(rf"""(^|[\s{{,."'])["']?{re.escape(key)}["']?\s*=""")
    for number in range(first, len(lines)):
        if number > first and lines[number].lstrip().startswith("[" if first else "[["):
            break
        if wanted.search(lines[number]):
            return number + 1
    return first + 1


def _values(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that is no table or list, and every one that is, with the way to it."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while waiting:
        where, value = waiting.pop()
        yield where, value
        if len(where) > MOST_DEPTH:
            continue
        if isinstance(value, Mapping):
            waiting += [((*where, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*where, index), inner) for index, inner in enumerate(value)]

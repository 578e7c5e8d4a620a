"""Files of other people, read whole: texts and TOML of a bounded size.

Law: whatever lies there - a pipe, a device, gigabytes, a tree a thousand tables deep, a number of five
thousand digits - costs a bounded time and memory and ends in one UsageError that names the file.
"""

from __future__ import annotations

import math
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.printable import one_line

MOST_TOML_BYTES: Final = 1 << 16
"""Of a TOML file."""
MOST_DEPTH: Final = 16
"""Tables and lists within each other, names of a dotted key included."""
_LARGEST_NUMBER: Final = 2**64
_KINDS: Final = (
    (stat.S_ISDIR, "Is a directory"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (lambda mode: not stat.S_ISREG(mode), "is a device, not a file"),
)
_QUOTED: Final = re.compile(r"""\"(?:[^"\\]|\\.)*+\"?|'[^']*+'?|#.*""")
_WORD: Final = re.compile(r"[\w-]+")


class WrongToml(ValueError):
    """A document that is TOML and yet not usable; `where` are the keys down to what is wrong."""

    def __init__(self, where: tuple[str | int, ...], words: str) -> None:
        super().__init__(words)
        self.where = where
        self.words = words


def opened(file: Path) -> BinaryIO:
    """A regular file, to read. Raises OSError, which names what is none."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    _refuse_what_is_no_file(os.stat(file).st_mode)  # a device may do something when it is opened
    stream = os.fdopen(os.open(file, flags), "rb")
    try:
        _refuse_what_is_no_file(os.fstat(stream.fileno()).st_mode)
    except OSError:
        stream.close()
        raise
    return stream


def read_bytes(file: Path, most_bytes: int) -> bytes:
    """All of a regular file. Raises OSError, which names what is no regular file or is too large."""
    with opened(file) as stream:
        too_large = os.fstat(stream.fileno()).st_size > most_bytes
        content = b"" if too_large else stream.read(most_bytes + 1)
    if too_large or len(content) > most_bytes:  # it may have grown meanwhile
        raise OSError(0, f"is larger than {size_text(most_bytes)}")
    return content


def size_text(size: int) -> str:
    """`64 KB`, `1 MB`."""
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def read_text(file: Path, what: str, most_bytes: int) -> str:
    """A text in UTF-8; raises UsageError in one line, `what` being the kind of file in words."""
    try:
        return read_bytes(file, most_bytes).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no such {what}: {file}", "name a file that exists") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read {what} {file}", f"{reason[:1].lower()}{reason[1:]}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}", "is not UTF-8 text") from None


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
    if any(map(_has_deep_key, text.splitlines())):  # the parser's time grows with the square of it
        raise WrongToml((), deep)
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


def _refuse_what_is_no_file(mode: int) -> None:
    for is_it, words in _KINDS:
        if is_it(mode):
            raise OSError(0, words)


def _has_deep_key(line: str) -> bool:
    """Whether more than this many names are joined by dots in a row, whatever stands in quotes."""
    if line.count(".") < MOST_DEPTH:
        return False
    run = 0
    for part in _QUOTED.sub("q", line).split("."):
        run = run + 1 if _WORD.fullmatch(part.strip()) else 1
        if run > MOST_DEPTH:
            return True
    return False


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

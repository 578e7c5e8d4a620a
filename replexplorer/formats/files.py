"""Files of any origin, read whole within a bound; TOML, checked by a pydantic model; and files that are
written whole or not at all.

Laws: whatever lies there - a pipe, a device, gigabytes - costs a bounded time and memory and ends in one
UsageError that names the file, of TOML also the line and the key. What is not whole yet lies in its place's
directory under a name that cannot be guessed, made new (never opened: no link is followed, no file of others
is taken), for its owner alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, TypeVar

from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.text import one_line
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from pydantic import BaseModel


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
    """All of a regular file. Raises OSError, which names what is not a regular file or is too large."""
    with opened(file) as stream:
        too_large = os.fstat(stream.fileno()).st_size > most_bytes
        content = b"" if too_large else stream.read(most_bytes + 1)
    if too_large or len(content) > most_bytes:  # it may have grown meanwhile
        raise OSError(0, f"is larger than {most_bytes >> 10:,} KB")
    return content


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


def _refuse_what_is_no_file(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, "Is a directory" if stat.S_ISDIR(mode) else "is a pipe or a device, not a file")


def unwritable(path: Path, error: OSError) -> UsageError:
    """What to raise for a file or directory that cannot be written."""
    return UsageError(f"cannot write {path}", (error.strerror or str(error)).lower())


@contextmanager
def whole_file(file: Path, *, parents: bool = False, mode: int | None = None) -> Iterator[TextIO]:
    """A stream for the file's text: the file is made or replaced when the block ends well, and stays as it
    was when it does not. It gets `mode`, else keeps its own. A pipe or a device is written to as it stands.

    `parents`: it is the program's own: directories that are missing are made, for its owner alone as a new
    file is. Raises UsageError naming the file when it cannot be
    written.
    """
    with whole_binary_file(file, parents=parents, mode=mode) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


@contextmanager
def whole_binary_file(file: Path, *, parents: bool = False, mode: int | None) -> Iterator[BinaryIO]:
    """As `whole_file`, for bytes."""
    try:
        if parents:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = mode if mode is not None or file.exists() else 0o600
        if file.is_file():
            mode = mode or stat.S_IMODE(file.stat().st_mode)
        elif file.exists():
            with file.open("wb") as stream:
                yield stream
            return
        target = file.resolve()
        part = target.with_name(f".{os.urandom(8).hex()}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                os.fchmod(descriptor, 0o666 & ~_umask() if mode is None else mode)
            part.replace(target)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(file, error) from None


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def keep_record(file: Path, content: Mapping[str, object]) -> None:
    """Write one of the program's own records as JSON, mode 0600 in directories of mode 0700; raises
    MissingPiece when it cannot be written."""
    try:
        with whole_file(file, parents=True, mode=0o600) as stream:
            stream.write(json.dumps(content, indent=1) + "\n")
    except UsageError as error:
        raise MissingPiece(error.message, error.hint) from None


# -- TOML, checked by pydantic

MOST_TOML_BYTES: Final = 1 << 16
"""Of a TOML file."""
_MOST_DOTS: Final = 1_000
"""Of a line: the parser's time grows with the square of a dotted key."""
_SHOWN: Final = 60
"""Characters of a wrong value that an error repeats."""
_MOST_WORDS: Final = 200
_HEADER: Final = re.compile(r"\s*(\[\[?)([^\]]+)\]")
_WORDS: Final = {
    "extra_forbidden": "no such key",
    "missing": "is missing",
    "model_type": "is a table: set its keys one by one",
}
"""What is wrong, where pydantic's own words are not those of a file."""
Where = Sequence[str | int]
"""The way to a key, as `("phase", 0, "set")`."""
M = TypeVar("M", bound="BaseModel")


class TomlFile:
    """A file of TOML, and where its keys stand."""

    def __init__(self, file: Path, what: str) -> None:
        """Read it; `what` it is called where there is none. Raises UsageError."""
        self.file = file
        text = read_text(file, what, MOST_TOML_BYTES)
        self._lines = text.splitlines()
        try:
            if any(line.count(".") > _MOST_DOTS for line in self._lines):
                raise ValueError("a key has too many parts")
            self.tables = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}", f"is not TOML: {one_line(str(error), _MOST_WORDS)}") from None

    def read(self, model: type[M]) -> M:
        """Its tables as a model; raises UsageError at the first that is wrong."""
        try:
            return model.model_validate(self.tables)
        except ValueError as error:
            where, words = first_error(error)
            raise self.wrong(where, words) from None

    def wrong(self, where: Where, words: str, hint: str = "") -> UsageError:
        """`FILE:LINE: phase 2.seconds: what is wrong`."""
        key = ""
        for each in where:
            key += f" {each + 1}" if isinstance(each, int) else f".{each}" if key else each
        return UsageError(f"{self.file}:{self.line(where)}: {f'{key}: ' if key else ''}{words}", hint)

    def line(self, where: Where) -> int:
        """The line that a key stands on; that of its table where the key is missing, else the first."""
        found, table, seen = 1, list[str | int](), dict[str, int]()
        for number, text in enumerate(self._lines, 1):
            if header := _HEADER.match(text):
                first, *rest = _names(header[2])
                if header[1] == "[[":
                    seen[first] = seen.get(first, -1) + 1
                table = [first, *([seen[first]] if first in seen else ()), *rest]
                if table == [*where[: len(table)]]:
                    found = number
            elif "=" in text and table == [*where[: len(table)]]:
                rest = [str(each) for each in where[len(table) :]]
                key = ".".join(_names(text.partition("=")[0]))
                if rest and f"{'.'.join(rest)}.".startswith(f"{key}."):
                    return number
        return found


def _names(key: str) -> list[str]:
    """The parts of a dotted key, without blanks and quotes."""
    return [part.strip(" \t\"'") for part in key.split(".")]


def first_error(error: ValueError) -> tuple[tuple[str | int, ...], str]:
    """Where the first error of a model is, and what is wrong."""
    problem = error.errors(include_url=False)[0]  # type: ignore[attr-defined]
    value, kind = problem.get("input"), problem["type"]
    # pydantic adds what it tried of a value of more than one kind.
    where = tuple(part for part in problem["loc"] if part not in ("str", "bool", "float", "int"))
    if kind in _WORDS:
        return where, _WORDS[kind]
    words = re.sub(r"^(Input|String|Value) should", "must", problem["msg"].removeprefix("Value error, "))
    if kind != "value_error" and not isinstance(value, Mapping | list):
        words += f", not {one_line(repr(value), _SHOWN)}"
    return where, one_line(f"{words[:1].lower()}{words[1:]}", _MOST_WORDS)


# -- a user's workload


def read_workload(path: Path) -> str:
    """The text of a file of SQL, checked; raises UsageError naming file and line."""
    from replexplorer.core.load.script import LARGEST_BYTES, read_script  # many read files, few read SQL

    text = read_text(path, "workload", LARGEST_BYTES)
    read_script(text, str(path))
    return text


def workload_file(written: str) -> tuple[str, str]:
    """The file's path, the same from any directory, and its text, checked; raises UsageError."""
    path = expanded(written).absolute()
    return str(path), read_workload(path)

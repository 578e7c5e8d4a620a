"""Option files of MySQL's and MariaDB's own clients: host, port, user, password and what TLS is to do.

Law: read as the clients read them (MySQL manual, "Using Option Files"): `[client]`, dashes and underscores
are one, a later value beats an earlier one, `!include` and `!includedir` are followed. Options of others are
not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.formats.small_file import read_text

OPTIONS: Final = ("host", "port", "user", "password", "ssl-mode", "ssl-ca")
"""What is read."""
_GROUPS: Final = ("client", "client-server", "client-mariadb", "replexplorer")
_MOST_BYTES: Final = 1 << 16
_MOST_FILES: Final = 32
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_PLACES: Final = ("/etc/my.cnf", "/etc/mysql/my.cnf")


def standard_files(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The files that the clients read by themselves and that are there, in their order."""
    home = environment.get("HOME")
    places = [Path(place) for place in _PLACES]
    if home:
        places.append(Path(home) / ".my.cnf")
    return tuple(place for place in places if os.access(place, os.R_OK) and place.is_file())


def read_option_files(files: Iterable[Path]) -> dict[str, str]:
    """The options of these files by their names with dashes; raises UsageError naming a file that cannot be
    read."""
    found: dict[str, str] = {}
    _Reading(found).read_all(files)
    return found


class _Reading:
    """One reading, of a bounded number of files."""

    def __init__(self, found: dict[str, str]) -> None:
        self._found = found
        self._read: set[Path] = set()

    def read_all(self, files: Iterable[Path]) -> None:
        for file in files:
            if file in self._read:
                continue
            if len(self._read) >= _MOST_FILES:
                raise UsageError(f"{file}: more than {_MOST_FILES} option files", "include fewer")
            self._read.add(file)
            self._lines(file, read_text(file, "option file", _MOST_BYTES))

    def _lines(self, file: Path, text: str) -> None:
        group = ""
        for raw in text.splitlines():
            line = raw.strip()
            if line.startswith("["):
                group = line[1:].partition("]")[0].strip().lower()
            elif line.startswith("!"):
                self.read_all(_included(file, line))
            elif group in _GROUPS and line and line[0] not in "#;":
                name, _, value = line.partition("=")
                name = name.strip().lower().replace("_", "-").removeprefix("loose-")
                if name in OPTIONS:
                    self._found[name] = _value(value.strip())


def _included(file: Path, line: str) -> list[Path]:
    """The files that a directive names."""
    word, _, place = line.partition(" ")
    path = file.parent / place.strip()
    if word == "!include":
        return [path]
    if word == "!includedir" and path.is_dir():
        return sorted(each for each in path.iterdir() if each.suffix in (".cnf", ".ini"))
    return []


def _value(text: str) -> str:
    """A value without quotes, with its escapes read; a comment behind it is none of it."""
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        while end > 0 and text[end - 1] == "\\":
            end = text.find(text[0], end + 1)
        text = text[1:end] if end > 0 else text[1:]
    else:
        text = text.partition("#")[0].rstrip()
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPES:
            parts.append(_ESCAPES[text[at + 1]])
            at += 2
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)

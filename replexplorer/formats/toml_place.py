"""Where in a TOML file something stands: a mistake is said with its file and line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from replexplorer.core.errors import UsageError


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

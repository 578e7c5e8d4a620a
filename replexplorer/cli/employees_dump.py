"""The rows of an employees.sql, one at a time: what the bulk-load lab inserts instead of rows of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError

_TEXT: Final = r"'(?:[^'\\]|\\.|'')*'"
_ROW: Final = re.compile(
    rf"\(\s*\d+\s*,\s*{_TEXT}\s*,\s*{_TEXT}\s*,\s*{_TEXT}\s*,\s*{_TEXT}\s*,\s*{_TEXT}\s*\)"
)
"""emp_no, birth_date, first_name, last_name, gender, hire_date."""
_INSERT: Final = re.compile(r"INSERT\s+INTO\s+`?employees`?", re.IGNORECASE)


def rows_of(file: Path) -> Iterator[str]:
    """`(10001,'1953-09-02','Georgi','Facello','M','1986-06-26')`, in the file's order.

    The statements' lines are read one by one, so that a file of any size costs no memory. Raises
    UsageError for a file that cannot be read.
    """
    try:
        with file.open(encoding="utf-8", errors="strict") as lines:
            inside = False
            for line in lines:
                inside = inside or _INSERT.search(line) is not None
                if inside:
                    yield from _ROW.findall(line)
                    inside = not line.rstrip().endswith(";")
    except OSError as error:
        raise UsageError(f"no dump {file}: {error.strerror}", "give the employees.sql of test_db") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a text file in UTF-8", "give the employees.sql of test_db") from None


def checked(file: Path) -> Path:
    """The file, once it has shown a row; raises UsageError."""
    if next(rows_of(file), None) is None:
        raise UsageError(
            f"{file} has no row of employees", "its lines must be INSERT INTO `employees` VALUES (...)"
        )
    return file

"""The rows of an employees.sql, one at a time: what the bulk-load lab inserts instead of rows of its own."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.formats.files import opened

_MOST_LINE_CHARACTERS: Final = 1 << 24
"""mysqldump ends a line at 16 MB at the latest."""
_TEXT: Final = r"\s{0,9},\s{0,9}'(?:[^'\\]|\\.|''){0,100}'"
_ROW: Final = re.compile(rf"\(\s{{0,9}}\d{{1,20}}{_TEXT * 5}\s{{0,9}}\)")
"""emp_no, birth_date, first_name, last_name, gender, hire_date; bounded, so that no line takes for ever."""
_INSERT: Final = re.compile(r"INSERT\s+INTO\s+`?employees`?", re.IGNORECASE)


def rows_of(file: Path) -> Iterator[str]:
    """`(10001,'1953-09-02','Georgi','Facello','M','1986-06-26')`, in the file's order.

    The statements' lines are read one by one, so that a file of any size costs no memory. Raises
    UsageError for a file that cannot be read.
    """
    try:
        with io.TextIOWrapper(opened(file), encoding="utf-8") as lines:
            inside = False
            while line := lines.readline(_MOST_LINE_CHARACTERS):
                inside = inside or _INSERT.search(line) is not None
                if inside:
                    yield from _ROW.findall(line)
                    inside = not line.rstrip().endswith(";")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"no dump {file}: {reason}", "give the employees.sql of test_db") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a text file in UTF-8", "give the employees.sql of test_db") from None


def checked(file: Path) -> Path:
    """The file, once it has shown a row; raises UsageError."""
    if next(rows_of(file), None) is None:
        raise UsageError(
            f"{file} has no row of employees", "its lines must be INSERT INTO `employees` VALUES (...)"
        )
    return file

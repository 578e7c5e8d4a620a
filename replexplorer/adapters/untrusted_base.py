"""SQLite files of other people: opened to read, without what a schema could run, and metered.

Law: what a file makes SQLite do is bounded by the file's own size. Its tables are tables: views, triggers,
virtual tables and generated columns are refused before a row is read.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_STEPS_EVERY: Final = 100_000
"""Instructions of SQLite's machine between two looks at the meter."""
_FREE_STEPS: Final = 10_000_000
_STEPS_PER_BYTE: Final = 4
"""Reading a row and sorting it by time takes less."""
_BUSY_S: Final = 2.0
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 500),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 5),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
)
_BESIDE: Final = ("", "-wal", "-shm", "-journal")


class Unreadable(ValueError):
    """A file that is no ordinary one; the text says why."""


def open_base(file: Path, *, most_bytes: int, most_value_bytes: int) -> sqlite3.Connection:
    """A connection that only reads; raises Unreadable for what is no file or too large, sqlite3.Error for
    what is no base."""
    for end in _BESIDE:
        beside = file.with_name(file.name + end)
        try:
            found = os.stat(beside)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"{beside.name} is no file")
        if found.st_size > most_bytes:
            raise Unreadable(f"{beside.name} is larger than {most_bytes >> 20} MB")
    base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
    base.row_factory = sqlite3.Row
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_value_bytes)
    for limit, most in _LIMITS:
        base.setlimit(limit, most)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
        base.execute(f"PRAGMA {pragma}")
    return base


class Meter:
    """Runs the statements of one base and ends each that takes more steps than its file can need."""

    def __init__(self, base: sqlite3.Connection, file: Path) -> None:
        self._base = base
        self._left = self._most = _FREE_STEPS + _STEPS_PER_BYTE * file.stat().st_size
        base.set_progress_handler(self._step, _STEPS_EVERY)

    def rows(self, statement: str) -> Iterator[sqlite3.Row]:
        """The rows of a statement; several may be read by turns. Raises sqlite3.Error, and Unreadable for
        a statement that does not end."""
        self._left = self._most = self._most + _FREE_STEPS
        try:
            for row in self._base.execute(statement):  # noqa: UP028 - `yield from` closes cursors late
                yield row
        except sqlite3.OperationalError:
            if self._left > 0:
                raise
            raise Unreadable("a table of it does not end") from None

    def check_tables(self, names: Sequence[str]) -> None:
        """Raise Unreadable when one of these is no plain table, or the base holds what runs by itself."""
        tables = set()
        for kind, name, sql in self.rows("SELECT type, name, sql FROM sqlite_schema"):
            if kind == "index":
                continue
            if kind != "table" or str(sql).lstrip().upper().startswith("CREATE VIRTUAL"):
                raise Unreadable(f"it holds a {kind if kind != 'table' else 'virtual table'}, {name}")
            tables.add(name)
        for name in names:
            if name not in tables:
                raise Unreadable(f"it has no table {name}")
            if any(column["hidden"] for column in self.rows(f"PRAGMA table_xinfo({name})")):
                raise Unreadable(f"its table {name} has a generated column")

    def _step(self) -> int:
        self._left -= _STEPS_EVERY
        return int(self._left <= 0)

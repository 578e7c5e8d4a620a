"""The session file: SQLite in WAL mode, readable while it is written (docs/reference/session-files.md).

Law: what `write` has answered for survives the end of this process, however it ends.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Event
from replexplorer.core.tick import Tick
from replexplorer.formats.session_rows import (
    HISTOGRAMS,
    LOAD_COLUMNS,
    KnobRow,
    Reading,
    Rows,
    UnreadableRow,
    Writing,
    event_columns,
    event_of,
    moment,
)

FORMAT: Final = 2
"""Of the schema: kept in `PRAGMA user_version`; a file of another one is refused."""
_WAL_PAGES: Final = 256
"""After this many pages the log goes into the file: 1 MB of it next to the file is enough."""
APPLICATION_ID: Final = 0x52585331
"""`RXS1`, in `PRAGMA application_id`: whose file it is."""
SUFFIX: Final = ".rxs"

_TICK_COLUMNS: Final = ("at_s", "wall_s", "stack_state", "viewer", *LOAD_COLUMNS, *HISTOGRAMS)
_SCHEMA: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tick (at_s REAL PRIMARY KEY, {", ".join(_TICK_COLUMNS[1:])});
CREATE TABLE part (name TEXT, at_s REAL, json TEXT NOT NULL, PRIMARY KEY (name, at_s)) WITHOUT ROWID;
CREATE TABLE setting (knob TEXT, at_s REAL, requested, effective, note TEXT, PRIMARY KEY (knob, at_s))
    WITHOUT ROWID;
CREATE TABLE epoch (number INTEGER, at_s REAL, json TEXT NOT NULL, PRIMARY KEY (number, at_s)) WITHOUT ROWID;
CREATE TABLE event (id INTEGER PRIMARY KEY, tick_s REAL, at_s REAL, wall_s REAL, severity TEXT, text TEXT,
    mark INTEGER);
"""


def new_file(directory: Path, wall_s: float, holder: str, *, kept: int) -> Path:
    """A name for a new session file, by its beginning in UTC and its holder (`lab tour`).

    The oldest files go, so that with the new one there are `kept`; one that is still written, or that cannot
    be removed, stays.
    """
    files = sorted(directory.glob(f"*{SUFFIX}"))
    for old in files[: max(0, len(files) - kept + 1)]:
        if not is_being_written(old):
            remove_session(old)
    began = datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return directory / f"{began}-{holder.replace(' ', '-')}-{os.getpid()}{SUFFIX}"


_UNWRITABLE: Final = (sqlite3.Error, OSError, ValueError)
"""What writing one may raise: a path that is not UTF-8 is a ValueError."""
_DAMAGE: Final = (sqlite3.Error, TypeError, ValueError)
"""What reading a damaged file may raise: SQLite keeps a text in a column of numbers."""


_GIVE_ANOTHER: Final = "give a file that a session wrote"
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps next to a file; the first, its log, until the file is closed."""


def _files_of(file: Path) -> list[Path]:
    """A session file, and those that SQLite may keep next to it."""
    return [file, *(file.with_name(file.name + end) for end in _BESIDE)]


def is_being_written(file: Path) -> bool:
    """Whether a session file was not closed yet and the process in its name is alive."""
    pid = file.stem.rpartition("-")[2]
    is_pid = pid.isascii() and pid.isdecimal() and int(pid)
    return bool(is_pid) and _files_of(file)[1].exists() and is_alive(int(pid))


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs, whoever's it is."""
    try:
        os.kill(pid, 0)  # sends nothing
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def remove_session(file: Path) -> None:
    """Remove a session file and what SQLite keeps next to it, where that is allowed."""
    for part in _files_of(file):
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


class RecordingFailed(ReplexplorerError):
    """The session file cannot be written."""


class SessionWriter:
    """One session file that is being written (`ports.Recorder`)."""

    def __init__(self, file: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor  # who only reads needs neither this nor asyncio

        self.file = str(file)
        self._path = file
        self._rows = Writing()
        self._base: sqlite3.Connection | None = None
        # One of its own: of the loop's threads each in turn would grow SQLite's and zlib's buffers.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="session file")
        self._hint = ""
        """For who reads that it cannot be written."""

    async def open(self, about: Mapping[str, str]) -> None:
        """Make the file; raises RecordingFailed, and leaves none then."""
        await self._do(self._open, about)

    async def write(self, ticks: Sequence[Tick]) -> None:
        """Write ticks in order; raises RecordingFailed."""
        await self._do(self._write, ticks)

    def past(self) -> Iterator[Tick]:
        """All that was written so far, in order; raises UsageError."""
        with contextlib.closing(SessionReader(self._path)) as reader:
            yield from reader.ticks()

    async def close(self) -> None:
        """Close the file, so that it is one file; harmless twice."""
        await self._do(self._close)

    async def discard(self) -> None:
        """Close the file and remove it."""
        await self.close()
        remove_session(self._path)

    async def _do(self, work: Callable[..., None], *content: Any) -> None:
        def run() -> None:
            try:
                work(*content)
            except _UNWRITABLE as error:
                self._close()
                why = (isinstance(error, OSError) and error.strerror) or str(error)
                raise RecordingFailed(f"{self.file} cannot be written: {why.lower()}", self._hint) from None

        import asyncio

        await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self, about: Mapping[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600, exist_ok=False)
        try:
            self._create(about)
        except _UNWRITABLE:
            self._close()
            remove_session(self._path)
            raise
        self._hint = "what was written can be replayed"

    def _create(self, about: Mapping[str, str]) -> None:
        base = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._base = base
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = NORMAL")
        base.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        base.execute("PRAGMA cache_size = -256")  # only appended to: 2 MB of pages would never be read
        base.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        base.execute(f"PRAGMA user_version = {FORMAT}")
        base.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        base.executemany("INSERT INTO meta VALUES (?, ?)", about.items())

    def _write(self, ticks: Sequence[Tick]) -> None:
        base = self._base
        if base is None:
            return
        _insert(base, [self._rows.rows(tick) for tick in ticks])

    def _close(self) -> None:
        base, self._base = self._base, None
        if base is not None:
            with contextlib.suppress(*_UNWRITABLE):
                if (rest := self._rows.rest()) is not None:
                    _insert(base, [rest])
                base.execute("PRAGMA journal_mode = DELETE")
            base.close()


def _insert(base: sqlite3.Connection, ticks: Sequence[Rows]) -> None:
    """All rows of some ticks, in one transaction."""
    base.execute("BEGIN")
    for rows in ticks:
        names, at_s = [name for name in _TICK_COLUMNS if name in rows.tick], rows.at_s
        found: dict[str, list[tuple[Any, ...]]] = {
            f"tick ({', '.join(names)})": [tuple(rows.tick[name] for name in names)],
            "part": [(name, at_s, text) for name, text in rows.parts.items()],
            "setting": [(one.knob, at_s, one.requested, one.effective, one.note) for one in rows.settings],
            "epoch": [(number, at_s, text) for number, text in rows.epochs.items()],
            "event (tick_s, at_s, wall_s, severity, text, mark)": [
                (at_s, *event_columns(event)) for event in rows.events
            ],
        }
        for table, values in found.items():
            if values:
                marks = ", ".join("?" * len(values[0]))
                base.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)
    base.execute("COMMIT")


MOST_BYTES: Final = 1 << 30
"""Of a file: some days."""
MOST_VALUE_BYTES: Final = 1 << 20
"""Of one text or blob."""
_BUSY_S: Final = 2.0
_TABLES: Final = {"meta", "tick", "part", "setting", "epoch", "event"}
_PLAIN: Final = re.compile(r"CREATE TABLE (?!.*\bAS\b)", re.DOTALL | re.IGNORECASE)
"""A table without a generated column."""


def _open_base(file: Path) -> sqlite3.Connection:
    """A connection that only reads; raises UnreadableRow if it is not a file, is too large or has anything
    but plain tables; sqlite3.Error if it is not a database."""
    for beside in _files_of(file):
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(beside)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableRow(f"{beside.name} is not a file")
            if found.st_size > MOST_BYTES:
                raise UnreadableRow(f"{beside.name} is larger than {MOST_BYTES >> 20} MB")
    base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
    base.row_factory = sqlite3.Row
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        base.execute(f"PRAGMA {pragma}")
    return base


def _check_tables(base: sqlite3.Connection) -> None:
    """Raise UnreadableRow for a base that lacks a table or holds what runs by itself."""
    found = {
        name: kind == "table" and _PLAIN.match(sql) is not None
        for kind, name, sql in base.execute("SELECT type, name, sql FROM sqlite_schema WHERE type <> 'index'")
    }
    if not all(found.values()) or not found.keys() >= _TABLES:
        raise UnreadableRow("its tables are not those of a session")


class SessionReader:
    """A session file that is read; also while another process writes it, and whoever made it: what is too
    large, never ends or holds what no session holds is an error."""

    def __init__(self, file: Path) -> None:
        """Open and check; raises UsageError for a file that is missing, foreign, newer or damaged."""
        self.file = file
        if not file.is_file():
            raise UsageError(f"no session file {file}", _GIVE_ANOTHER)
        try:
            self._base = _open_base(file)
            application = self._base.execute("PRAGMA application_id").fetchone()[0]
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if application != APPLICATION_ID:
                raise UsageError(f"{file} is not a session file", _GIVE_ANOTHER)
            if version != FORMAT:
                raise UsageError(
                    f"{file} is of format {version}, and this version reads format {FORMAT}",
                    "use the version that wrote it",
                )
            _check_tables(self._base)
            self.about: Mapping[str, str] = self._facts()
            """Facts about the session."""
            [(first, last)] = self._base.execute("SELECT MIN(at_s), MAX(at_s) FROM tick")
            if first is None:
                raise UsageError(f"{file} holds no tick", "the session ended before it began")
            self.first_s = moment(first, "its first tick")
            self.last_s = moment(last, "its last tick")
        except BaseException as error:
            if hasattr(self, "_base"):
                self._base.close()
            if isinstance(error, _DAMAGE):
                raise self._damaged(error) from None
            raise

    def _facts(self) -> dict[str, str]:
        found = dict(self._base.execute("SELECT key, value FROM meta").fetchall())
        if not all(isinstance(each, str) for fact in found.items() for each in fact):
            raise UnreadableRow("a fact that is not text")
        return found

    def close(self) -> None:
        """Close it; harmless twice."""
        self._base.close()

    def ticks(self) -> Iterator[Tick]:
        """All ticks in order; raises UsageError where the file is damaged."""
        reading = Reading(self.about.get("stack", "?"))
        try:
            changes = _changes(self._base)
            change = next(changes, None)
            events = self._events()
            before_s = -math.inf
            for row in self._base.execute("SELECT * FROM tick ORDER BY at_s"):
                at_s = moment(row["at_s"], "a tick")
                if at_s <= before_s:
                    raise UnreadableRow("a tick that is not after the one before it")
                before_s = at_s
                while change is not None and change[0] <= at_s:
                    _apply(reading, change)
                    change = next(changes, None)
                yield reading.tick(dict(row), events.pop(at_s, ()))
        except _DAMAGE as error:
            raise self._damaged(error) from None

    def events(self) -> list[Event]:
        """All events in order; raises UsageError where the file is damaged."""
        try:
            return [event for events in self._events().values() for event in events]
        except _DAMAGE as error:
            raise self._damaged(error) from None

    def _events(self) -> dict[float, list[Event]]:
        """By the tick that told them."""
        found: dict[float, list[Event]] = {}
        columns = "at_s, wall_s, severity, text, mark"
        for row in self._base.execute(f"SELECT tick_s, {columns} FROM event ORDER BY id"):
            told = dict(row)
            tick_s, event = told.pop("tick_s"), event_of(told)
            found.setdefault(tick_s, []).append(event)
        return found

    def _damaged(self, error: Exception) -> UsageError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            return UsageError(f"{self.file} is not a session file", _GIVE_ANOTHER)
        return UsageError(f"{self.file} is damaged: {error}", "use another file")


_Change = tuple[float, str, Any]
"""at_s, which table, the row."""


def _changes(base: sqlite3.Connection) -> Iterator[_Change]:
    """Parts, settings and epochs in order of time, together."""

    def rows(table: str) -> Iterator[_Change]:
        for row in base.execute(f"SELECT * FROM {table} ORDER BY at_s"):
            yield moment(row["at_s"], f"a row of {table}"), table, row

    return heapq.merge(*map(rows, ("part", "setting", "epoch")), key=lambda change: change[0])


def _apply(reading: Reading, change: _Change) -> None:
    _, table, row = change
    match table:
        case "part":
            reading.part(row["name"], row["json"])
        case "setting":
            reading.setting(KnobRow(row["knob"], row["requested"], row["effective"], row["note"]))
        case _:
            reading.epoch(row["number"], row["json"])

"""Changes of servers that somebody else made: only reads go out, unless a journal notes it first; and undoing
what a journal names.

Laws: the guard is the last thing before the wire, so whoever sends a statement cannot pass by it. The value
of a variable is read and on the disk before the statement that sets it is sent, in one turn with it. Who
changes holds the journal's lock, which dies with the process: so two never change the same servers, and what
a killed one left is told from what is under way. No password is ever in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from replexplorer.core.change.journalled import (
    Fate,
    Outstanding,
    TakenBack,
    after_set,
    before_set,
    fate_of,
    outstanding,
)
from replexplorer.core.dialect.attaching import is_read, set_back, setting_of, value_of
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    ServerRefused,
    StackUnavailable,
    UsageError,
)
from replexplorer.formats.files import read_text, unwritable, whole_file
from replexplorer.ports import Sql, ask

SUFFIX: Final = ".json"
VERSION: Final = 1
_MOST_BYTES: Final = 1 << 24
_WITHIN_S: Final = 12.0
"""A statement may wait for a replica's acknowledgement."""
_WORDS_SHOWN: Final = 3


def file_of(directory: Path, place: str) -> Path:
    """The journal of the source at this `host:port`."""
    return directory / f"{re.sub(r'[^A-Za-z0-9.-]', '_', place)}{SUFFIX}"


def journals(directory: Path) -> list[Path]:
    """All that are there, by name."""
    return sorted(directory.glob(f"*{SUFFIX}"))


class ChangeJournal:
    """One source's journal, held by this process until it is closed: a JSON file that is replaced whole."""

    def __init__(self, file: Path, lock: int) -> None:
        self.file = file
        self._lock = lock
        self._entries = _entries(file)

    @classmethod
    def open(cls, file: Path) -> Self:
        """Hold it. Raises StackUnavailable naming who holds it, UsageError naming a file that cannot be
        written or read."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(file.with_name(f".{file.name}.lock"), flags, 0o600)
        except OSError as error:
            raise unwritable(file, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(file, lock)
        except BaseException as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
        head = next(iter(_entries(file)), {})
        raise StackUnavailable(
            f"another `attach --allow-changes` (pid {head.get('pid', 'unknown')}) is changing these servers",
            "stop it first: it undoes its changes when it ends",
        )

    @property
    def head(self) -> Mapping[str, Any]:
        """Who wrote it, and how one logs in to the servers; empty before anything was written."""
        return self._entries[0] if self._entries else {}

    @property
    def outstanding(self) -> Sequence[Outstanding]:
        """What is to be undone, the newest first; raises UsageError where it cannot be read."""
        try:
            return outstanding(self._entries)
        except (KeyError, TypeError):
            raise _broken(self.file) from None

    def begin(self, head: Mapping[str, Any]) -> None:
        """Start over, where nothing is to be undone; on the disk when this returns. Raises UsageError naming
        the file."""
        self._entries.clear()
        self.append(head)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry; on the disk when this returns. Raises UsageError naming the file, which is as it was
        then."""
        entries = [*self._entries, dict(entry)]
        with whole_file(self.file, mode=0o600) as stream:
            json.dump(entries, stream, indent=1, allow_nan=False)
            stream.flush()
            os.fsync(stream.fileno())
        self._entries = entries

    async def note(self, entry: Mapping[str, Any]) -> None:
        """As `append`, off the event loop."""
        await asyncio.to_thread(self.append, entry)

    def remove(self) -> None:
        """There is nothing to be undone any more."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others hold it; harmless twice."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def _entries(file: Path) -> list[Mapping[str, Any]]:
    if not file.exists():
        return []
    try:
        found = json.loads(read_text(file, "journal of changes", _MOST_BYTES))
        if isinstance(found, list) and all(isinstance(entry, dict) for entry in found):
            return found
    except (ValueError, RecursionError):
        pass
    raise _broken(file)


def _broken(file: Path) -> UsageError:
    return UsageError(f"the journal of changes {file} is broken", "look at it, then remove it")


class GuardedSql:
    """`ports.Sql` to one such server."""

    def __init__(self, sql: Sql, journal: ChangeJournal | None) -> None:
        self.node = sql.node
        self._sql = sql
        self._journal = journal
        self._one = asyncio.Lock()
        """One change at a time: its value before is that of the change before."""

    def __getattr__(self, name: str) -> Any:
        """What else the connection says of itself, as where it logged in."""
        return getattr(self._sql, name)

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`; raises MissingPiece for what is not sent, UsageError where it cannot be noted."""
        if is_read(statement):
            return await self._sql.query(statement, args, deadline_s=deadline_s)
        setting = setting_of(statement)
        if setting is None or args:
            shown = " ".join(statement.split()[:_WORDS_SHOWN])
            raise MissingPiece(
                f"{shown} is not sent to {self.node}", "use attach only to read and to set variables"
            )
        journal = self._journal
        if journal is None:
            raise MissingPiece(f"{setting.variable} of {self.node} is only read", "add --allow-changes")
        async with self._one:
            before = await ask(self._sql, value_of(setting.variable), deadline_s=deadline_s)
            try:
                set_back(setting.variable, before)
            except ValueError as error:
                raise MissingPiece(str(error), f"{setting.variable} of {self.node} is left alone") from None
            await journal.note(before_set(self.node, setting.variable, before, setting.value))
            try:
                return await self._sql.query(statement, deadline_s=deadline_s)
            finally:
                await self._note(journal, setting.variable, deadline_s)

    async def _note(self, journal: ChangeJournal, variable: str, deadline_s: float) -> None:
        """Note what the server has now; if unread, the change counts as made."""
        try:
            now = await ask(self._sql, value_of(variable), deadline_s=deadline_s)
        except ReplexplorerError:
            return
        await journal.note(after_set(self.node, variable, now))

    async def close(self) -> None:
        """See `ports.Sql`."""
        await self._sql.close()


async def undo(journal: ChangeJournal, connect: Callable[[str], Sql]) -> Sequence[TakenBack]:
    """Set back what is as it was set, the newest change first. What somebody else has set since stays.

    The journal is gone when this returns, unless a server did not answer or refused: then it stays.
    `connect` opens a connection to a node by its name. Raises UsageError where the journal cannot be read.
    """
    connections: dict[str, Sql] = {}
    done: list[TakenBack] = []
    silent: dict[str, str] = {}
    try:
        for change in journal.outstanding:
            if change.node in silent:
                done.append(TakenBack.of(change, Fate.UNREACHED, why=silent[change.node]))
                continue
            try:
                if change.node not in connections:
                    connections[change.node] = connect(change.node)
                done.append(await _undo(journal, connections[change.node], change))
            except ValueError as error:  # a journal that somebody wrote in
                done.append(TakenBack.of(change, Fate.UNREACHED, why=str(error)))
            except ReplexplorerError as error:
                if not isinstance(error, ServerRefused):  # that is of the one variable
                    silent[change.node] = error.message
                done.append(TakenBack.of(change, Fate.UNREACHED, why=error.message))
    finally:
        for sql in connections.values():
            await sql.close()
    if all(each.fate is not Fate.UNREACHED for each in done):
        journal.remove()
    return done


async def _undo(journal: ChangeJournal, sql: Sql, change: Outstanding) -> TakenBack:
    found = await ask(sql, value_of(change.variable), deadline_s=_WITHIN_S)
    fate = fate_of(change, found)
    if fate is Fate.RESTORED:
        await sql.query(set_back(change.variable, change.before), deadline_s=_WITHIN_S)
    if fate is not Fate.LEFT:
        journal.append(after_set(change.node, change.variable, change.before))
    return TakenBack.of(change, fate, found)

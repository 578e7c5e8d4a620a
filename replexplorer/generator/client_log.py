"""The client log of one load process: written and synced by a thread of its own, for all clients at once.

Law: a client that asked to be noted is called back when its line is on the disk, and not before; the event
loop never waits for a disk. While one sync is under way the lines of all other clients gather for the next,
so that a thousand clients cost hardly more syncs than one. Where the disk refuses, nothing is called
back any more: the load ends, and what the file holds is whole.

Sessions that look which rows of the `ledger` load can be read, one a node.

A row that another session has read and that no row of the survivor is was a phantom read. Each look asks
for the highest number of each client, which is one dive into the primary key a client, and for what is new
of those that moved on; a session rests four times as long as it looks. Law: a row is written down
only if a look counted it: where the new numbers of a client have a gap each is fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from replexplorer.adapters.client_logs import make_room
from replexplorer.adapters.mysql import Address, ControlConnection
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import MissingPiece, ReplexplorerError
from replexplorer.core.load.workload import LEDGER_TABLE
from replexplorer.core.loss.client_log import (
    ACKNOWLEDGED,
    CLIENTS_A_FILE,
    CLIENTS_A_RUN,
    FAILED,
    HEAD,
    INTENT,
    RESET,
    SEEN,
    TIME,
)
from replexplorer.core.records import dataclass, field
from replexplorer.core.server.gtid import spans_of
from replexplorer.ports import LoadTarget

_US_PER_S: Final = 1_000_000
_CLOSE_WITHIN_S: Final = 0.5

Noted = Callable[[], None]
"""Called on the event loop when what was asked to be noted is on the disk."""


class LogHealth(NamedTuple):
    """Where what the log costs is counted, in seconds each."""

    syncs_s: list[float]
    """How long each sync took."""
    waits_s: list[float]
    """How long each client waited until its intent was on the disk."""


def disk_refuses(file: Path, error: OSError) -> MissingPiece:
    """What to raise for a client log that cannot be kept."""
    why = (error.strerror or str(error)).lower()
    return MissingPiece(
        f"the client log {file} cannot be written: {why}", "make room or name another $XDG_STATE_HOME"
    )


class ClientLog:
    """The next file of a run; raises MissingPiece where it cannot be made."""

    def __init__(
        self,
        directory: str,
        health: LogHealth,
        on_broken: Callable[[MissingPiece], None],
        number: int | None = None,
    ) -> None:
        """`number` is that of its file, where whoever gives it out cannot make the directory."""
        self.directory = directory
        self.run = int(Path(directory).name)
        self._health = health
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        run = Path(directory)
        if number is not None:
            _make_directory(run)
        made = _next_file(run, self.run, itertools.count() if number is None else (number,))
        self.file, self._descriptor, taken = made
        self.base = self.run * CLIENTS_A_RUN
        self._clients = itertools.count(taken * CLIENTS_A_FILE + 1)
        self._lines: list[bytes] = []
        self._waiting: list[tuple[float, Noted]] = []
        self._must_sync = False
        self._reset_us: int | None = None
        self._is_woken = False
        self._is_closing = False
        self._is_broken = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="client log", daemon=True)
        self._thread.start()

    def writer(self) -> tuple[int, Callable[[], int]]:
        """Another client: the number that its rows carry, and what counts them from 1."""
        return self.base + next(self._clients), itertools.count(1).__next__

    # -- on the event loop

    def intend(self, client: int, seq: int, noted: Noted) -> None:
        """The client is about to insert this row; it may when `noted` is called."""
        with self._news:
            self._lines.append(INTENT % (client - self.base, seq))
            self._waiting.append((time.monotonic(), noted))
            self._must_sync = True
        self._wake()

    def acknowledge(self, client: int, seq: int, at_s: float) -> None:
        """The server said OK at this moment of the monotonic clock; synced with the client's next intent,
        or at once where it has none."""
        self._add(ACKNOWLEDGED % (client - self.base, seq, at_s * _US_PER_S))

    def refuse(self, client: int, seq: int, number: int) -> None:
        """The server said no."""
        self._add(FAILED % (client - self.base, seq, number))

    def reset(self) -> None:
        """The table was emptied just now: what the file has until here is dropped."""
        with self._news:
            self._reset_us = int(time.monotonic() * _US_PER_S)
            self._lines.append(b"")
        self._wake()

    def see(self, node: str, rows: Sequence[tuple[int, int, int]]) -> None:
        """A session on this node saw rows for the first time there: (client, first, last). A kill of the
        load does not lose it, a power cut of its host may."""
        with self._news:
            name = node.encode()
            self._lines += [SEEN % (name, client - self.base, first, last) for client, first, last in rows]
        self._wake()

    def _add(self, line: bytes) -> None:
        with self._news:
            self._lines.append(line)
            self._must_sync = True
        self._wake()

    def _wake(self) -> None:
        """Let the thread begin when the event loop has done all that it has to do now: what a client was
        told and what it does next are one sync then."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._notify)

    def _notify(self) -> None:
        self._is_woken = False
        with self._news:
            self._news.notify()

    def _on_noted(self, waiting: Sequence[tuple[float, Noted]], sync_s: float | None) -> None:
        """A batch is on the disk."""
        if sync_s is not None:
            self._health.syncs_s.append(sync_s)
        if self._is_broken:
            return
        now_s = time.monotonic()
        self._health.waits_s.extend(now_s - asked_s for asked_s, _ in waiting)
        for _, noted in waiting:
            noted()

    def _on_refusal(self, error: OSError) -> None:
        """The disk does not take the lines."""
        self._is_broken = True
        self._on_broken(disk_refuses(self.file, error))

    async def close(self) -> None:
        """Write what is left; not longer than half a second."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        await asyncio.to_thread(self._thread.join, _CLOSE_WITHIN_S)

    # -- on the thread

    def _work(self) -> None:
        """Write and sync what has gathered, until the log is closed or the disk refuses."""
        try:
            while (batch := self._gathered()) is not None:
                lines, waiting, must_sync, reset_us = batch
                if reset_us is not None:
                    self._begin_again(reset_us)
                self._write(TIME % (time.monotonic() * _US_PER_S) + b"".join(lines))
                sync_s: float | None = None
                if must_sync:
                    began_s = time.monotonic()
                    _sync(self._descriptor)
                    sync_s = time.monotonic() - began_s
                self._tell(partial(self._on_noted, waiting, sync_s))
        except OSError as error:
            self._tell(partial(self._on_refusal, error))
        finally:
            os.close(self._descriptor)

    def _gathered(self) -> tuple[list[bytes], list[tuple[float, Noted]], bool, int | None] | None:
        """What is to be written next; None when the log is closed and nothing is left."""
        with self._news:
            while not self._lines:
                if self._is_closing:
                    return None
                self._news.wait()
            batch = self._lines, self._waiting, self._must_sync, self._reset_us
            self._lines, self._waiting, self._must_sync, self._reset_us = [], [], False, None
            return batch

    def _begin_again(self, reset_us: int) -> None:
        """Replace the file by one that says no more than that."""
        part = self.file.with_suffix(".part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o600)
        try:
            os.write(descriptor, f"{HEAD}{self.run}\n".encode() + RESET % reset_us)
            os.fsync(descriptor)
            part.replace(self.file)
            _sync_directory(self.file.parent)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _write(self, lines: bytes) -> None:
        """Append all of it or nothing."""
        size = os.fstat(self._descriptor).st_size
        try:
            while lines:
                lines = lines[os.write(self._descriptor, lines) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise

    def _tell(self, told: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(told)


def _make_directory(run: Path) -> None:
    """Have the directory of a run; the oldest runs' go."""
    try:
        run.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not run.exists():
            make_room(run.parent)
            run.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise disk_refuses(run, error) from None


def _next_file(directory: Path, run: int, numbers: Iterable[int]) -> tuple[Path, int, int]:
    """A new file of the run, of the first of these numbers that is free: its path, its descriptor, its
    number."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in numbers:
        file = directory / f"{number}.log"
        try:
            descriptor = os.open(file, flags, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise disk_refuses(file, error) from None
        try:
            os.write(descriptor, f"{HEAD}{run}\n".encode())
            os.fsync(descriptor)
            _sync_directory(directory)
        except OSError as error:
            os.close(descriptor)
            raise disk_refuses(file, error) from None
        return file, descriptor, number
    raise MissingPiece(f"the client log {file} is there already", "start the load again")


def _sync_directory(directory: Path) -> None:
    """Let a new file's name survive as well."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync."""


LOOK_EVERY_S: Final = 0.02
_REST: Final = 4
"""Times the length of a look that a session rests after it."""
_RETRY_S: Final = 0.5
_DEADLINE_S: Final = 2.0
_RANGES: Final = 200
"""Clients that are asked of in one statement."""


@dataclass(eq=False)
class Reader:
    """One node's session."""

    _node: str
    _connection: ControlConnection
    _log: ClientLog
    _highest: dict[int, int] = field(default_factory=dict)

    async def live(self) -> None:
        """Look until cancelled; a node that does not answer is tried again."""
        now_s = asyncio.get_running_loop().time
        try:
            while True:
                began_s = now_s()
                try:
                    rows = await self._look()
                except ReplexplorerError:
                    await asyncio.sleep(_RETRY_S)
                    continue
                if rows:
                    self._log.see(self._node, rows)
                await asyncio.sleep(max(LOOK_EVERY_S, _REST * (now_s() - began_s)))
        finally:
            await self._connection.close()

    async def _look(self) -> list[tuple[int, int, int]]:
        """Rows that were not there at the last look: client, first and last of each run."""
        first = self._log.base
        moved = [
            (int(row["client"]), self._highest.get(int(row["client"]), 0), int(row["high"]))
            for row in await self._asked(
                f"SELECT client, MAX(seq) AS high FROM {LEDGER_TABLE} WHERE client > %s AND client < %s"
                " GROUP BY client",
                (first, first + CLIENTS_A_RUN),
            )
            if int(row["high"]) > self._highest.get(int(row["client"]), 0)
        ]
        seen = [(client, high, high) for client, last, high in moved if high == last + 1]
        several = [each for each in moved if each[2] > each[1] + 1]
        for at in range(0, len(several), _RANGES):
            seen += await self._new_rows(several[at : at + _RANGES])
        self._highest.update((client, high) for client, _, high in moved)
        return seen

    async def _new_rows(self, moved: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """What lies between the last look and the highest number, of clients that made several rows."""
        ranges = " OR ".join("(client = %s AND seq > %s AND seq <= %s)" for _ in moved)
        values = tuple(value for each in moved for value in each)
        found = await self._asked(
            f"SELECT client, MIN(seq) AS low, MAX(seq) AS high, COUNT(*) AS n FROM {LEDGER_TABLE}"
            f" WHERE {ranges} GROUP BY client",
            values,
        )
        whole, broken = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
        for row in found:
            client, low, high = int(row["client"]), int(row["low"]), int(row["high"])
            (whole if int(row["n"]) == high - low + 1 else broken).append((client, low, high))
        for client, low, high in broken:
            rows = await self._asked(
                f"SELECT seq FROM {LEDGER_TABLE} WHERE client = %s AND seq >= %s AND seq <= %s",
                (client, low, high),
            )
            runs = spans_of((int(row["seq"]), int(row["seq"])) for row in rows)
            whole += [(client, start, end) for start, end in runs]
        return whole

    async def _asked(self, statement: str, values: tuple[object, ...]) -> Sequence[Row]:
        return await self._connection.query(statement, values, deadline_s=_DEADLINE_S)


def readers_of(target: LoadTarget, log: ClientLog) -> list[Reader]:
    """A session for each node that the target names."""

    def connection(node: str, address: Address) -> ControlConnection:
        async def locate() -> Address:
            return address

        return ControlConnection(node, locate, target.user, target.password)

    return [
        Reader(node, connection(node, Address(host, port, target.path)), log)
        for node, (host, port) in target.readers.items()
    ]

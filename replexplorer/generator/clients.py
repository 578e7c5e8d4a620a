"""The clients of one generator: each has its own connection and one transaction under way.

Law: a client leaves, changes its job or its connection only between two transactions; in both
loops the same clients with the same connections do the work.

A timer finer than the event loop's, which wakes at whole milliseconds only.

Where Linux has timerfd it is used, so that an arrival is noticed within some 0.1 ms of its time;
elsewhere the loop's own timer has to do, and its lateness is measured like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.core.load.workload import Draw, Statement
from replexplorer.core.records import dataclass, field
from replexplorer.generator.client_run import ClientRun, RunEnd
from replexplorer.generator.connection import Build, Connection, Prepared, text_query
from replexplorer.generator.dispatcher import SETTLE_S, ClientJob, Dispatcher
from replexplorer.ports import LoadTarget

_CLOCK_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_LEAST_S: Final = 1e-6
"""A time of 0 would switch the timer off; one that is long past rings at once."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Calls back at a time of the monotonic clock; set again from there."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._settime: Callable[..., int] | None = None
        self._descriptor = -1
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError, AttributeError):
                self._open()

    def _open(self) -> None:
        """Make a timerfd; raises OSError or AttributeError where there is none."""
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        self._settime, self._descriptor = library.timerfd_settime, descriptor
        self._loop.add_reader(descriptor, self._rang)

    def set(self, at_s: float | None) -> None:
        """Ring at this time and no other; None: not at all."""
        if self._settime is not None:
            seconds = 0.0 if at_s is None else max(at_s, _LEAST_S)
            whole = int(seconds)
            setting = _Setting(_Timespec(), _Timespec(whole, int((seconds - whole) * 1e9)))
            self._settime(self._descriptor, _ABSOLUTE, ctypes.byref(setting), None)
            return
        if self._timer is not None:
            self._timer.cancel()
        # The loop's clock is the monotonic one.
        self._timer = None if at_s is None else self._loop.call_at(at_s, self._ring)

    def _rang(self) -> None:
        """The timer is due."""
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # it was set again meanwhile
            return
        self._ring()

    def close(self) -> None:
        """Ring no more."""
        self.set(None)
        if self._settime is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._settime = None


LOGIN_TIMEOUT_S: Final = 3.0
"""How long a login may take before it counts as failed."""
STOP_COMMITS_S: Final = 0.8
"""How long commits under way may take when the load ends."""
MOVE_S: Final = 0.2
"""How long commits under way may take when the load goes on at another server."""
_RETRY_FIRST_S: Final = 0.05
_RETRY_LAST_S: Final = 1.0
_NOT_PREPARABLE: Final = 1295


class Client:
    """One connection that does transactions until it is told to leave."""

    def __init__(self, dispatcher: Dispatcher, on_settled: Callable[[Client], None]) -> None:
        self._dispatcher = dispatcher
        self._on_settled = on_settled
        self._on_job: ClientJob | None = None
        self._draw: tuple[ClientJob, Draw] | None = None
        """What it draws on a job, over all its connections."""
        self._leaving = asyncio.Event()
        self._hurry = asyncio.Event()
        """Set where a wait before the next try has lost its reason."""
        self._opening: asyncio.Task[Connection] | None = None
        self._connection: Connection | None = None
        self._on_target: LoadTarget | None = None
        """Where that leads."""
        self._prepared: list[Prepared] = []
        self._was_lost = False
        self._retry_s = _RETRY_FIRST_S
        """How long it waits before the next try; grows from one to the next."""
        self.run: ClientRun | None = None
        """What it does now; None while it logs in or waits for the server."""
        self.task: asyncio.Task[None] = asyncio.create_task(self._live(), name="load client")

    def leave(self) -> None:
        """End after the transaction under way."""
        self._leaving.set()
        self._hurry.set()

    def move(self) -> None:
        """The server is another one: do not wait for the one of before."""
        self._retry_s = _RETRY_FIRST_S
        self._hurry.set()
        if self._opening is not None:
            self._opening.cancel()

    async def _live(self) -> None:
        """Log in, work, and again, until told to leave."""
        try:
            while not self._leaving.is_set():
                try:
                    await self._stay()
                except Exception as error:  # whatever it is, the load goes on and says so
                    self._drop_connection(lost=self._connection is not None)
                    self._dispatcher.tally.fault = str(error) or type(error).__name__
                    if isinstance(error, ServerRefused):
                        self._dispatcher.on_refused(error)
                    self._on_settled(self)
                    await self._pause()
        finally:
            self._drop_connection()

    async def _stay(self) -> None:
        """Take the present job and work on it until something changes."""
        dispatcher, job = self._dispatcher, self._dispatcher.job
        if self._connection is not None and self._on_job is not None:
            if self._on_target is not dispatcher.target:
                self._drop_connection(lost=True)
            elif self._on_job.fresh_sessions != job.fresh_sessions:
                self._drop_connection()
            elif not self._connection.is_alive():
                self._drop_connection(lost=True)
        connection = self._connection or await self._log_in(job)
        if connection is None:
            return
        builds = await self._builds(connection, job)
        self._on_job = job
        if self._draw is None or self._draw[0] is not job:
            self._draw = job, job.draws()
        run = self.run = ClientRun(dispatcher, connection, job, builds, self._leaving, self._draw[1])
        self._on_settled(self)
        turn = await run.last()
        self.run = None
        if run.has_committed:
            self._retry_s = _RETRY_FIRST_S
        if turn is RunEnd.LOST:
            self._drop_connection(lost=True)
        elif turn is RunEnd.REFUSED and len(job.workload.statements) > 1:
            await connection.roll_back(timeout_s=LOGIN_TIMEOUT_S)
        if turn is not RunEnd.CHANGED:
            await self._pause()

    async def _log_in(self, job: ClientJob) -> Connection | None:
        """A new connection, counted; a reconnect if the one before was lost. None when leaving."""
        dispatcher = self._dispatcher
        async with dispatcher.logins:
            if self._leaving.is_set():
                return None
            target = dispatcher.target
            connection = await self._open(target, job)
        self._connection, self._on_target = connection, target
        self._on_job = None
        dispatcher.connected += 1
        if self._was_lost:
            dispatcher.tally.reconnects += 1
            self._was_lost = False
        return connection

    async def _open(self, target: LoadTarget, job: ClientJob) -> Connection:
        """Log in, unless the server is another one meanwhile."""
        opening = self._opening = asyncio.create_task(
            Connection.open(target, job.workload.database, timeout_s=LOGIN_TIMEOUT_S)
        )
        try:
            await asyncio.wait({opening})
            if opening.cancelled():
                raise ServerUnreachable("the server is another one now")
            return opening.result()
        finally:
            self._opening = None
            opening.cancel()

    def _drop_connection(self, *, lost: bool = False) -> None:
        """Close the connection, if there is one; the next one is a reconnect if this was lost."""
        self._was_lost = self._was_lost or lost
        self._prepared.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._dispatcher.connected -= 1

    async def _pause(self) -> None:
        """Wait before the next try, unless told to leave, or to try elsewhere; not as long as the others, so
        that clients do not come back all at once."""
        wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, _RETRY_LAST_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s * self._dispatcher.random.uniform(0.5, 1.5)):
                await self._hurry.wait()
        if not self._leaving.is_set():
            self._hurry.clear()

    async def _builds(self, connection: Connection, job: ClientJob) -> Sequence[Build]:
        """What builds this client's commands on a job; the old one's statements are freed."""
        connection.forget(self._prepared)
        self._prepared.clear()
        before = self._on_job
        if before is not None and before.workload.database != job.workload.database:
            await connection.use(job.workload.database, timeout_s=LOGIN_TIMEOUT_S)
        return [await self._build(connection, statement) for statement in job.workload.statements]

    async def _build(self, connection: Connection, statement: Statement) -> Build:
        """What builds one statement's commands."""
        if statement.prepared:
            try:
                prepared = await connection.prepare(statement, timeout_s=LOGIN_TIMEOUT_S)
            except ServerRefused as refused:
                if refused.number != _NOT_PREPARABLE:
                    raise
            else:
                self._prepared.append(prepared)
                return prepared.build
        return text_query(statement)


@dataclass(slots=True, eq=False)
class Clients(Dispatcher):
    """The clients of a generator, whom arrivals meet."""

    _staying: list[Client] = field(default_factory=list)
    _present: dict[asyncio.Task[None], Client] = field(default_factory=dict)
    """Every client that has not ended, also those that leave."""
    _unsettled: set[Client] = field(default_factory=set)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def asked(self) -> int:
        """Clients asked for."""
        return len(self._staying)

    def change(self, clients: int, job: ClientJob | None) -> None:
        """Take another number of clients and, unless None, another job."""
        if job is not None:
            self.job = job
        while len(self._staying) > clients:
            leaving = self._staying.pop()
            leaving.leave()
            self._note_settled(leaving)
        if job is not None:
            self._unsettled.update(self._staying)
        while len(self._staying) < clients:
            client = Client(self, self._note_settled)
            self._staying.append(client)
            self._unsettled.add(client)
            self._present[client.task] = client
            client.task.add_done_callback(self._present.pop)
        self._settled.clear()
        if not self._unsettled:
            self._settled.set()
        self.wake()

    async def move(self, target: LoadTarget) -> None:
        """Let every client log in there; what is under way may end within MOVE_S, then its outcome is
        unknown, or its transaction is lost."""
        self.target = target
        moving = list(self._present.values())
        self.wake()
        for client in moving:
            client.move()
        runs = [client.run for client in moving if client.run is not None and client.run.is_under_way]
        if runs:
            await asyncio.sleep(MOVE_S)
        for client in moving:
            if client.run is not None and client.run in runs and client.run.is_under_way:
                client.run.abandon()
                client.move()

    def _note_settled(self, client: Client) -> None:
        """This client is on the present job, or waits for the server."""
        self._unsettled.discard(client)
        if not self._unsettled:
            self._settled.set()

    async def settle(self) -> None:
        """Wait until every client is on the present job or waits for the server, but not for one whose commit
        is blocked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self._settled.wait()

    async def stop(self) -> None:
        """Let transactions under way end for STOP_COMMITS_S, then close every connection."""
        self.change(0, None)
        if not self._present:
            return
        _, late = await asyncio.wait(self._present, timeout=STOP_COMMITS_S)
        runs = [run for task in late if (run := self._present[task].run) is not None and run.is_under_way]
        in_doubt = sum(run.is_in_doubt for run in runs)
        self.tally.unknown += in_doubt
        self.tally.lost += len(runs) - in_doubt
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

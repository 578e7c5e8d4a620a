"""The closed loop: N clients, each with its own connection and one commit under way.

Law: a client sends its next commit from the reply to the last one, without a task switch. It
leaves, changes its course or its connection only between two commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Final

from replexplorer.core.errors import ServerRefused
from replexplorer.core.workload import DATABASE, Workload, key_source, statement_source
from replexplorer.generator.session import Session, query_packet
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadTarget

LOGIN_TIMEOUT_S: Final = 3.0
"""How long a login may take before it counts as failed."""
_LOGINS_AT_ONCE: Final = 16
"""Logins cost the server an RSA operation while its cache is cold."""
_RETRY_FIRST_S: Final = 0.05
_RETRY_LAST_S: Final = 1.0
_DEADLOCKS: Final = frozenset({1205, 1213})
"""Lock wait timeout and deadlock: the server rolled back, the same statement is sent again."""


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What every client is to do; a new object makes each client look at it."""

    workload: Workload
    fresh_sessions: int
    draw_key: Callable[[], int]
    """For a prepared workload."""
    draw_statement: Callable[[], bytes] | None
    """For one that is sent as text."""

    @classmethod
    def plan(cls, workload: Workload, table_size: int, fresh_sessions: int, random: Random) -> Course:
        """A course whose values are drawn from one source for all clients."""
        return cls(
            workload,
            fresh_sessions,
            key_source(table_size, random),
            statement_source(workload, table_size, random) if workload.prepared is None else None,
        )


class Turn(Enum):
    """Why a client stopped committing."""

    CHANGED = auto()
    """It leaves, or its course is another."""
    REFUSED = auto()
    LOST = auto()


class Backoff:
    """Growing waits with jitter, so that clients do not come back all at once."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next_s = _RETRY_FIRST_S

    def wait_s(self) -> float:
        """How long to wait now."""
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, _RETRY_LAST_S)
        return wait_s * self._random.uniform(0.5, 1.5)

    def reset(self) -> None:
        """Begin anew after a success."""
        self._next_s = _RETRY_FIRST_S


@dataclass(slots=True)
class Floor:
    """What all clients share."""

    target: LoadTarget
    course: Course
    tally: Tally
    random: Random
    on_first_commit: Callable[[], None]
    on_refused: Callable[[ServerRefused], None]
    connected: int = 0
    logins: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGINS_AT_ONCE))


class Client:
    """One connection that commits until it is told to leave."""

    def __init__(self, floor: Floor, on_settled: Callable[[Client], None]) -> None:
        self._floor = floor
        self._on_settled = on_settled
        self._on_course: Course | None = None
        self._leaving = asyncio.Event()
        self._session: Session | None = None
        self._was_lost = False
        self._retry = Backoff(floor.random)
        self.is_committing = False
        """A commit was sent and is not answered; stays so when the client is cancelled."""
        self.task: asyncio.Task[None] = asyncio.create_task(self._run(), name="load client")

    def leave(self) -> None:
        """End after the commit under way."""
        self._leaving.set()

    async def _run(self) -> None:
        """Log in, commit, and again, until told to leave."""
        try:
            while not self._leaving.is_set():
                try:
                    await self._stay()
                except Exception as error:  # whatever it is, the load goes on and says so
                    self._drop_session(lost=self._session is not None)
                    self._floor.tally.fault = str(error) or type(error).__name__
                    if isinstance(error, ServerRefused):
                        self._floor.on_refused(error)
                    self._on_settled(self)
                    await self._pause()
        finally:
            self._drop_session()

    async def _stay(self) -> None:
        """Take the present course and commit on it until something changes."""
        floor, course = self._floor, self._floor.course
        if self._session is not None and self._on_course is not None:
            if self._on_course.fresh_sessions != course.fresh_sessions:
                self._drop_session()
            elif not self._session.is_alive():
                self._drop_session(lost=True)
        session = self._session or await self._log_in()
        if session is None:
            return
        packets = await self._packets(session, course)
        self._on_course = course
        self._on_settled(self)
        turn = await self._commit(session, packets, course)
        if turn is Turn.LOST:
            floor.tally.unknown += 1
            floor.tally.fault = "the connection was lost during a commit: its outcome is unknown"
            self._drop_session(lost=True)
        if turn is not Turn.CHANGED:
            await self._pause()

    async def _log_in(self) -> Session | None:
        """A new session, counted; a reconnect if the one before was lost. None when leaving."""
        floor = self._floor
        async with floor.logins:
            if self._leaving.is_set():
                return None
            session = await Session.open(floor.target, DATABASE, timeout_s=LOGIN_TIMEOUT_S)
        self._session = session
        floor.connected += 1
        if self._was_lost:
            floor.tally.reconnects += 1
            self._was_lost = False
        return session

    def _drop_session(self, *, lost: bool = False) -> None:
        """Close the session, if there is one; the next one is a reconnect if this was lost."""
        self._was_lost = self._was_lost or lost
        if self._session is not None:
            self._session.close()
            self._session = None
            self._floor.connected -= 1

    async def _pause(self) -> None:
        """Wait before the next try, unless told to leave."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._retry.wait_s()):
                await self._leaving.wait()

    async def _packets(self, session: Session, course: Course) -> Callable[[], bytes]:
        """What builds this client's next command."""
        if (statement := course.draw_statement) is not None:
            return lambda: query_packet(statement())
        execute = await session.prepare(course.workload.prepared or "", timeout_s=LOGIN_TIMEOUT_S)
        key = course.draw_key
        return lambda: execute(key())

    async def _commit(self, session: Session, packets: Callable[[], bytes], course: Course) -> Turn:
        """Commit in a closed loop; answers why it ended. Runs from the event loop's callbacks."""
        floor, leaving, clock = self._floor, self._leaving, time.monotonic
        record, send = floor.tally.latencies_s.append, session.send
        turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        command = b""
        sent_s = 0.0
        is_first = True

        def end(reason: Turn) -> None:
            session.unwatch()
            if not turn.done():
                turn.set_result(reason)

        def send_command() -> None:
            nonlocal sent_s
            sent_s = clock()
            if not send(command):
                end(Turn.LOST)

        def on_ok() -> None:
            nonlocal command, sent_s, is_first
            record(clock() - sent_s)
            if is_first:
                is_first = False
                self._retry.reset()
                floor.on_first_commit()
            if floor.course is not course or leaving.is_set():
                end(Turn.CHANGED)
                return
            command = packets()
            sent_s = clock()
            if not send(command):
                end(Turn.LOST)

        def on_refused(number: int, text: str) -> None:
            floor.tally.errors += 1
            floor.tally.fault = f"{number} {text}"
            if number in _DEADLOCKS and not leaving.is_set():
                send_command()
                return
            floor.on_refused(ServerRefused(number, f"{number} {text}"))
            end(Turn.REFUSED)

        session.watch(on_ok, on_refused, lambda: end(Turn.LOST))
        command = packets()
        self.is_committing = True
        send_command()
        try:
            reason = await turn
            self.is_committing = False
        finally:
            session.unwatch()
        return reason


class ClosedLoop:
    """The clients as a group."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._staying: list[Client] = []
        self._present: dict[asyncio.Task[None], Client] = {}
        """Every client that has not ended, also those that leave."""
        self._unsettled: set[Client] = set()
        self._settled = asyncio.Event()

    @property
    def clients(self) -> int:
        """Clients asked for."""
        return len(self._staying)

    def change(self, clients: int, course: Course | None) -> None:
        """Take another number of clients and, unless None, another course."""
        if course is not None:
            self._floor.course = course
        while len(self._staying) > clients:
            leaving = self._staying.pop()
            leaving.leave()
            self._note_settled(leaving)
        if course is not None:
            self._unsettled.update(self._staying)
        while len(self._staying) < clients:
            client = Client(self._floor, self._note_settled)
            self._staying.append(client)
            self._unsettled.add(client)
            self._present[client.task] = client
            client.task.add_done_callback(self._present.pop)
        self._settled.clear()
        if not self._unsettled:
            self._settled.set()

    def _note_settled(self, client: Client) -> None:
        """This client is on the present course, or waits for the server."""
        self._unsettled.discard(client)
        if not self._unsettled:
            self._settled.set()

    async def settle(self) -> None:
        """Wait until every client is on the present course or waits for the server."""
        await self._settled.wait()

    async def stop(self, deadline_s: float) -> None:
        """Let commits under way end for so long, then close every connection."""
        self.change(0, None)
        if not self._present:
            return
        _, late = await asyncio.wait(self._present, timeout=deadline_s)
        self._floor.tally.unknown += sum(self._present[task].is_committing for task in late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

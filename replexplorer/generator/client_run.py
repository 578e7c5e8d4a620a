"""One client's transactions over one connection, driven by the event loop's callbacks.

Law: the next statement is sent from the reply to the last one, without a task switch. A run ends
only between two transactions, or when one cannot go on. A deadlock or a lock timeout retries the
same transaction; its time goes on. What was lost while a commit was under way is unknown,
what was lost before is not kept by the server and is an error. With a client log a transaction
is sent when its intent is on the disk; its time is counted from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from replexplorer.core.errors import ServerRefused
from replexplorer.core.load.workload import Draw, Transaction
from replexplorer.generator.connection import Build, Connection, Refusal, query_packet
from replexplorer.generator.dispatcher import ClientJob, Dispatcher
from replexplorer.generator.tally import CHANGED, CONFLICT, DEADLOCK, LOCK_TIMEOUT

READ_ONLY: Final = frozenset({1290, 1836})
"""The primary takes no writes: the option says so, or the whole server is in read-only mode."""
_ROLLBACK: Final = query_packet(b"ROLLBACK")


class RunEnd(Enum):
    """Why a run ended."""

    CHANGED = auto()
    """The client leaves, or its job is another."""
    REFUSED = auto()
    LOST = auto()


class ClientRun:
    """A client on one job; `last` is its whole life."""

    __slots__ = (
        "_begun_s",
        "_builds",
        "_connection",
        "_dispatcher",
        "_draw",
        "_end",
        "_intended_s",
        "_is_first",
        "_is_noting",
        "_is_recovering",
        "_job",
        "_kinds",
        "_leaving",
        "_log",
        "_send",
        "_step",
        "_target",
        "_transaction",
        "is_idle",
        "is_under_way",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        connection: Connection,
        job: ClientJob,
        builds: Sequence[Build],
        leaving: asyncio.Event,
        draw: Draw,
    ) -> None:
        self._dispatcher = dispatcher
        self._connection = connection
        self._job = job
        self._target = dispatcher.target
        self._builds = builds
        self._leaving = leaving
        self._draw = draw
        self._log = job.log
        self._kinds = [statement.kind for statement in job.workload.statements]
        self._send = connection.send
        self._end: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._transaction: Transaction = ()
        self._step = 0
        self._begun_s = self._intended_s = 0.0
        self._is_first = True
        self._is_recovering = False
        self._is_noting = False
        self.is_idle = False
        """It waits for an arrival."""
        self.is_under_way = False
        """A transaction was begun and is not over; stays so when the run is cancelled."""

    @property
    def is_in_doubt(self) -> bool:
        """A commit was sent and is not answered."""
        if not self.is_under_way or self._is_recovering or self._is_noting:
            return False
        return self._job.workload.statements[self._transaction[self._step][0]].commits

    async def last(self) -> RunEnd:
        """Do transactions until something changes."""
        on_gtid = self._dispatcher.tally.acknowledged.append
        self._connection.watch(self._on_end, self._on_refused, self._lose, on_gtid)
        self._dispatcher.runs.add(self)
        try:
            self.go_on()
            return await self._end
        finally:
            self.is_idle = False
            self._dispatcher.runs.discard(self)
            if not self._end.done():
                self._end.cancel()  # a note that comes now sends nothing
            self._connection.unwatch()

    def _finish(self, turn: RunEnd) -> None:
        """End this run."""
        self.is_idle = self.is_under_way = False
        self._connection.unwatch()
        if not self._end.done():
            self._end.set_result(turn)

    def go_on(self) -> None:
        """Begin what is to be done next, or wait for it."""
        dispatcher = self._dispatcher
        is_elsewhere = dispatcher.target is not self._target
        if is_elsewhere or dispatcher.job is not self._job or self._leaving.is_set():
            self._finish(RunEnd.CHANGED)
            return
        intended_s = dispatcher.take()
        if intended_s is None:
            dispatcher.park(self)
        else:
            self.begin(intended_s)

    def begin(self, intended_s: float) -> None:
        """Draw a transaction and send its first statement."""
        self.is_under_way = True
        self._intended_s = intended_s
        self._begun_s = time.monotonic()
        self._transaction = self._draw()
        if self._log is None:
            self._send_step(0)
        else:
            self._is_noting = True
            self._log.intend(*self._row, self._on_noted)

    @property
    def _row(self) -> tuple[int, int]:
        """Client and number of the row of the transaction."""
        client, seq = self._transaction[0][1][:2]
        return int(client), int(seq)

    def _on_noted(self) -> None:
        """The intent is on the disk: the statement may go out, unless the line went away meanwhile."""
        if self._end.done():
            return
        self._is_noting = False
        self._begun_s = time.monotonic()
        self._send_step(0)

    def _send_step(self, step: int) -> None:
        """Send one statement of the transaction."""
        self._step = step
        index, values = self._transaction[step]
        packets = self._builds[index](values)
        if not self._send(packets):
            self._lose(was_sent=False)

    def _on_end(self) -> None:
        """A statement was answered."""
        if self._is_recovering:
            self._is_recovering = False
            self._send_step(0)
            return
        tally, transaction, step = self._dispatcher.tally, self._transaction, self._step
        tally.queries[self._kinds[transaction[step][0]]] += 1
        if step + 1 < len(transaction):
            self._send_step(step + 1)
            return
        now_s = time.monotonic()
        if self._log is not None:
            self._log.acknowledge(*self._row, now_s)
        tally.latencies_s.append(now_s - self._begun_s)
        if self._intended_s:
            tally.responses_s.append(now_s - self._intended_s)
        self.is_under_way = False
        if self._is_first:
            self._is_first = False
            self._dispatcher.on_first_commit()
        self.go_on()

    @property
    def has_committed(self) -> bool:
        """A transaction went through."""
        return not self._is_first

    def _on_refused(self, refusal: Refusal) -> None:
        """The server refused a statement: retry the transaction, or give it up."""
        dispatcher, number = self._dispatcher, refusal.number
        if not self.is_under_way:
            # Said to nobody's statement, as a goodbye is.
            self._finish(RunEnd.LOST)
            return
        told = self._told(refusal)
        dispatcher.tally.fault = told
        if number in (DEADLOCK, LOCK_TIMEOUT, CONFLICT, CHANGED):
            dispatcher.tally.retried[number] += 1
            if number != LOCK_TIMEOUT or len(self._transaction) == 1:
                self._send_step(0)
                return
            # Only the statement was rolled back, the transaction's locks are still held.
            self._is_recovering = True
            if not self._send(_ROLLBACK):
                self._lose(was_sent=False)
            return
        dispatcher.tally.refused[number] += 1
        if self._log is not None:
            self._log.refuse(*self._row, number)
        self._finish(RunEnd.REFUSED)
        dispatcher.on_refused(ServerRefused(number, told))

    def _told(self, refusal: Refusal) -> str:
        """A refusal in one line, with what it means and where it was."""
        place = self._job.workload.statements[self._transaction[self._step][0]].place
        meaning = "the source is read-only: " if refusal.number in READ_ONLY else ""
        return f"{f'{place}: ' if place else ''}{refusal.number} {meaning}{refusal.text}"

    def abandon(self) -> None:
        """Wait no longer for what is under way: its connection is given up."""
        if not self._end.done():
            self._lose()

    def _lose(self, *, was_sent: bool = True) -> None:
        """The connection is gone; what could not even be sent is not in doubt."""
        tally = self._dispatcher.tally
        if was_sent and self.is_in_doubt:
            tally.unknown += 1
            tally.fault = "the connection was lost during a commit: its outcome is unknown"
        elif self.is_under_way:
            tally.lost += 1
            tally.fault = "the connection was lost within a transaction: nothing of it is kept"
        self._finish(RunEnd.LOST)

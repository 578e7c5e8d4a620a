"""What all clients of a generator share: what they do, when, and where it is counted.

From settings to what clients do: a built-in workload, or a user's file.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.load.pacing import Pace, Schedule
from replexplorer.core.load.script import read_script
from replexplorer.core.load.workload import WORKLOADS, Draw, Sources, Statement, Workload, draw_of
from replexplorer.core.records import dataclass, field
from replexplorer.generator.client_log import ClientLog
from replexplorer.generator.connection import Connection
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadSettings, LoadTarget

AT_ONCE: Final = 0.0
"""In place of an intended time: the closed loop has none."""
SETTLE_S: Final = 5.0
"""How long a change waits for clients whose commit is blocked."""
_LOGINS_AT_ONCE: Final = 16
"""Logins cost the server an RSA operation while its cache is cold."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientJob:
    """What every client is to do; a new object makes each client look at it."""

    workload: Workload
    draws: Callable[[], Draw]
    """Makes what draws one client's transactions."""
    fresh_sessions: int = 0
    log: ClientLog | None = None
    """Where each transaction, which is one row then, is noted before it is sent and after its reply."""


class Run(Protocol):
    """A client at work, which may wait for an arrival."""

    is_idle: bool
    is_under_way: bool

    def begin(self, intended_s: float) -> None:
        """Do a transaction that was intended for then."""

    def go_on(self) -> None:
        """Look again at what is to be done."""


@dataclass(slots=True)
class Dispatcher:
    """The place where arrivals meet clients."""

    target: LoadTarget
    job: ClientJob
    tally: Tally
    schedule: Schedule
    random: Random
    on_first_commit: Callable[[], None]
    on_refused: Callable[[ServerRefused], None]
    is_closed: bool = False
    """Clients go on by themselves; else they wait for arrivals."""
    is_held: bool = False
    """No client begins anything; arrivals gather."""
    connected: int = 0
    runs: set[Run] = field(default_factory=set)
    """Of every client that is logged in."""
    logins: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGINS_AT_ONCE))
    _idle: deque[Run] = field(default_factory=deque)
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def under_way(self) -> int:
        """Transactions begun and not answered."""
        return sum(run.is_under_way for run in self.runs)

    def take(self) -> float | None:
        """The intended time of what a free client does next; None when there is nothing to do."""
        waiting = self.schedule.waiting
        if not self.is_held:
            if waiting:
                return waiting.popleft()
            if self.is_closed:
                return AT_ONCE
        self._quiet.set()
        return None

    def park(self, client: Run) -> None:
        """This client waits for an arrival."""
        client.is_idle = True
        self._idle.append(client)

    def meet(self) -> None:
        """Give arrivals that wait to clients that wait, the longest waiting first."""
        waiting, idle = self.schedule.waiting, self._idle
        while waiting and idle and not self.is_held:
            client = idle.popleft()
            if client.is_idle:
                client.is_idle = False
                client.begin(waiting.popleft())
        self.tally.backlog_max = max(self.tally.backlog_max, len(waiting))

    def admit(self) -> None:
        """Take in what arrived until now, and let clients have it."""
        self.schedule.admit(time.monotonic(), self.tally.lateness_s.append)
        self.meet()

    def change_pace(self, pace: Pace, *, is_closed: bool) -> None:
        """Take another pace from now on; who waits is served first."""
        self.admit()
        self.schedule.change(pace, time.monotonic())
        self.is_closed = is_closed
        self.wake()

    def wake(self) -> None:
        """Let clients that wait look again."""
        parked = list(self._idle)
        self._idle.clear()
        for client in parked:
            if client.is_idle:
                client.is_idle = False
                client.go_on()

    async def drain(self) -> None:
        """Wait until nothing waits and nothing is under way; no arrival comes meanwhile."""
        while self.schedule.waiting or self.under_way():
            self._quiet.clear()
            await self._quiet.wait()

    async def hold(self) -> None:
        """Let no client begin anything, and wait for what is under way, but not for a blocked commit."""
        self.is_held = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self.under_way():
                    self._quiet.clear()
                    await self._quiet.wait()

    def let_go(self) -> None:
        """Go on after a hold."""
        self.is_held = False
        self.wake()


_CHECK_TIMEOUT_S = 5.0
_NOT_PREPARABLE = 1295
"""The server prepares no such statement, so it cannot be checked beforehand."""


def workload_of(settings: LoadSettings) -> Workload:
    """The workload that the settings name; raises UsageError."""
    if settings.script is not None:
        return read_script(settings.script, settings.workload).workload
    if settings.workload not in WORKLOADS:
        raise UsageError(f"no workload {settings.workload!r}", f"use one of {', '.join(WORKLOADS)}")
    workload = WORKLOADS[settings.workload]
    return workload.with_payload() if settings.payload_bytes else workload


def course_of(settings: LoadSettings, random: Random, log: ClientLog | None = None) -> ClientJob:
    """What these settings make the clients do, noted in the log; raises UsageError."""
    workload = workload_of(settings)
    if settings.script is not None:
        script = read_script(settings.script, settings.workload)
        return ClientJob(script.workload, lambda: script.draws(random), settings.fresh_sessions)
    sources = Sources(
        settings.table_size,
        random,
        key_spread=settings.key_spread,
        payload_bytes=settings.payload_bytes,
        writer=None if log is None else log.writer,
    )
    return ClientJob(workload, lambda: draw_of(workload, sources), settings.fresh_sessions, log)


async def check_script(
    workload: Workload, target: LoadTarget, settings: LoadSettings, random: Random
) -> None:
    """Let the server look at each statement of a user's file, with values drawn for it, without running it.

    Raises UsageError naming file and line for what it refuses, ServerUnreachable.
    """
    values: dict[int, tuple[int | bytes, ...]] = {}
    draw = course_of(settings, random).draws()
    for _ in range(100 * len(workload.statements)):
        values.update(draw())
        if len(values) == len(workload.statements):
            break
    connection = await Connection.open(target, workload.database, timeout_s=_CHECK_TIMEOUT_S)
    try:
        for index, drawn in sorted(values.items()):
            statement = workload.statements[index]
            text = (statement.format % drawn).decode()
            try:
                whole = Statement(statement.name, text)
                connection.forget([await connection.prepare(whole, timeout_s=_CHECK_TIMEOUT_S)])
            except ServerRefused as refused:
                if refused.number != _NOT_PREPARABLE:
                    raise UsageError(
                        f"{statement.place}: {refused.message}", "the server refuses this statement"
                    ) from None
    finally:
        connection.close()

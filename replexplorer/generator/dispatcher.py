"""What all clients of a generator share: what they do, when, and where it is counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from replexplorer.core.errors import ServerRefused
from replexplorer.core.load.pacing import Pace, Schedule
from replexplorer.core.load.workload import Draw, Workload
from replexplorer.generator.client_log import ClientLog
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadTarget

AT_ONCE: Final = 0.0
"""In place of an intended time: the closed loop has none."""
_LOGINS_AT_ONCE: Final = 16
"""Logins cost the server an RSA operation while its cache is cold."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientJob:
    """What every client is to do; a new object makes each client look at it."""

    workload: Workload
    draws: Callable[[], Draw]
    """Makes what draws one client's transactions."""
    fresh_sessions: int = 0
    by_statement: bool = False
    """Time each statement, too."""
    log: ClientLog | None = None
    """Where each transaction, which is one row then, is noted before it is sent and after its reply."""


class Parked(Protocol):
    """A client that waits for an arrival."""

    is_idle: bool

    def begin(self, intended_s: float) -> None:
        """Do a transaction that was intended for then."""
        ...

    def go_on(self) -> None:
        """Look again at what is to be done."""
        ...


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
    """Nobody begins anything; arrivals gather."""
    connected: int = 0
    under_way: Callable[[], int] = lambda: 0
    """Transactions begun and not answered."""
    logins: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGINS_AT_ONCE))
    _idle: deque[Parked] = field(default_factory=deque)
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

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

    def park(self, client: Parked) -> None:
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

    async def hold(self, at_most_s: float) -> None:
        """Let nobody begin anything, and wait for what is under way, but not for a blocked commit."""
        self.is_held = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                while self.under_way():
                    self._quiet.clear()
                    await self._quiet.wait()

    def let_go(self) -> None:
        """Go on after a hold."""
        self.is_held = False
        self.wake()

"""Who may change this stack, and when: one change at a time in this app, one app at a time among all.

Law: what is in force and what the requested document says come from the same hand, so every change
takes the turn, which the primary's agent gives out. A lab or a sweep keeps everybody else from it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.wire import Experiment, Lease
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.tasks import to_the_end

_TURN_SOON_S: Final = 0.5
"""Past it, it is said whom one waits for."""
_TURN_WITHIN_S: Final = 20.0
"""A change of another app may wait for a replica to register, or for a stream to heal."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts on a stack."""

    holder: str
    """What it is called: `tui`, `load`, `lab tour`, `set`."""
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)

    @property
    def writer(self) -> str:
        """How it signs what it requests: `tui (pid 4711)`."""
        return f"{self.holder} (pid {self.pid})"

    def is_other(self, lease: Lease | None) -> bool:
        """Whether somebody drives the load, and another process does."""
        return lease is not None and (lease.pid, lease.host) != (self.pid, self.host)


class Turns:
    """One actor's turns at a stack."""

    def __init__(self, fleet: Fleet, actor: Actor, report: Callable[[str], None]) -> None:
        self.actor = actor
        self._fleet = fleet
        self._report = report
        self._one = asyncio.Lock()
        """One change at a time, from its look to its document: a plan holds for what it saw."""
        self._turner: asyncio.Task[Any] | None = None
        """Who holds it for a change."""
        self._own: Experiment | None = None

    @property
    def is_measuring(self) -> bool:
        """An experiment of this app is under way."""
        return self._own is not None

    @property
    def is_changing(self) -> bool:
        """A change of this app is under way."""
        return self._turner is not None

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Beside no change of this app; other apps may change what they like."""
        async with self._one:
            yield

    @asynccontextmanager
    async def change(self, *, anyway: bool = False) -> AsyncIterator[None]:
        """The turn for a change. Raises StackUnavailable naming who does not end, and ExperimentUnderWay
        while another app's lab or sweep runs, unless `anyway`."""
        async with self._one, self._turn(anyway=anyway, patient=True):
            self._turner = asyncio.current_task()
            try:
                yield
            finally:
                self._turner = None

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """While nobody changes anything, an experiment between its phases included. Raises
        StackUnavailable at once where somebody does."""
        async with self._one, self._turn(anyway=True, patient=False):
            yield

    @asynccontextmanager
    async def _turn(self, *, anyway: bool, patient: bool) -> AsyncIterator[None]:
        """This app's turn among all that change this stack."""
        keeper, within_s = self._fleet.keeper, _TURN_SOON_S
        writer = self.actor.writer
        try:
            holder = await keeper.take_turn(writer, within_s=_TURN_SOON_S, anyway=anyway)
            if isinstance(holder, Lease) and patient:
                self._report(f"waiting for {holder.holder}, which is changing knobs")
                within_s = _TURN_WITHIN_S
                holder = await keeper.take_turn(writer, within_s=within_s, anyway=anyway)
            if isinstance(holder, Experiment):
                raise ExperimentUnderWay(holder)
            if holder is not None:
                raise StackUnavailable(
                    f"{holder.holder} has been changing knobs for {within_s:g} s", "try again"
                )
            yield
        finally:
            await to_the_end(keeper.leave_turn())

    async def abandon(self) -> None:
        """Cancel the change that is under way, if there is one, and wait until it is rolled back."""
        if self._turner is not None and self._turner is not asyncio.current_task():
            self._turner.cancel()
        async with self._one:
            return

    # -- experiments

    @asynccontextmanager
    async def measuring(self, kind: str, name: str) -> AsyncIterator[None]:
        """Nobody else turns a knob meanwhile, in any process; raises ExperimentUnderWay naming the one
        that runs already."""
        keeper = self._fleet.keeper
        running = await keeper.begin_experiment(kind, name, self.actor.holder)
        if running is not None:
            raise ExperimentUnderWay(running)
        self._own = Experiment(kind, name, self.actor.holder, self.actor.pid, self.actor.host)
        try:
            yield
        finally:
            self._own = None
            await to_the_end(keeper.end_experiment())

    def refuse_meanwhile(self) -> None:
        """Raise ExperimentUnderWay while this app's own lab or sweep runs; of others' the agent knows."""
        if self._own is not None:
            raise ExperimentUnderWay(self._own, is_own=True)

    async def refuse_under_experiment(self) -> None:
        """Raise ExperimentUnderWay while anybody's lab or sweep runs; where nobody can tell, none does."""
        self.refuse_meanwhile()
        keeper = self._fleet.keeper
        async with self._one:
            try:
                holder = await keeper.take_turn(self.actor.writer, within_s=_TURN_SOON_S)
            except ReplexplorerError:
                return
            finally:
                await to_the_end(keeper.leave_turn())
        if isinstance(holder, Experiment):
            raise ExperimentUnderWay(holder)

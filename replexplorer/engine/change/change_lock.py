"""Who may change this stack, and when: one change at a time in this app, one app at a time among all; and
what others have changed meanwhile.

Law: what is in force and what the requested document says come from the same hand, so every change
takes the turn, which the primary's agent gives out. A lab or a sweep keeps everybody else from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, same_value
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.wire import EXPERIMENT, TURN, Experiment, Lease
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.requested import Requested, SharedMark
from replexplorer.engine.tasks import to_the_end

_TURN_SOON_S: Final = 0.5
"""Past it, it is said whom one waits for."""
_TURN_WITHIN_S: Final = 20.0
"""A change of another app may wait for a replica to register, or for a stream to heal."""


@frozen
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


@dataclass(eq=False)
class ChangeLock:
    """One actor's turns at a stack."""

    _fleet: Fleet
    actor: Actor
    _report: Callable[[str], None]
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One change of this app at a time, from its look to its document: a plan holds for what it saw."""
    _turner: asyncio.Task[Any] | None = None
    """Who holds it for a change."""
    _own: Experiment | None = None

    @property
    def is_measuring(self) -> bool:
        """An experiment of this app is under way."""
        return self._own is not None

    @property
    def is_changing(self) -> bool:
        """A change of this app is under way."""
        return self._turner is not None

    @asynccontextmanager
    async def change(self, *, anyway: bool = False) -> AsyncIterator[None]:
        """The turn for a change. Raises StackUnavailable naming who does not end, and ExperimentUnderWay
        while another app's lab or sweep runs, unless `anyway`."""
        async with self.alone, self._turn(anyway=anyway, patient=True):
            self._turner = asyncio.current_task()
            try:
                yield
            finally:
                self._turner = None

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """While nobody changes anything, an experiment between its phases included. Raises
        StackUnavailable at once where somebody does."""
        async with self.alone, self._turn(anyway=True, patient=False):
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
                raise ExperimentUnderWay(
                    holder, "wait for its end, or add `--force`, which makes what it measures invalid"
                )
            if holder is not None:
                raise StackUnavailable(
                    f"{holder.holder} has been changing knobs for {within_s:g} s", "try again"
                )
            yield
        finally:
            await to_the_end(keeper.leave(TURN))

    async def abandon(self) -> None:
        """Cancel the change that is under way, if there is one, and wait until it is rolled back."""
        if self._turner is not None and self._turner is not asyncio.current_task():
            self._turner.cancel()
        async with self.alone:
            return

    # -- experiments

    @asynccontextmanager
    async def measuring(self, kind: str, name: str) -> AsyncIterator[None]:
        """Nobody else turns a knob meanwhile, in any process; raises ExperimentUnderWay naming the one
        that runs already."""
        keeper = self._fleet.keeper
        running = await keeper.begin_experiment(kind, name, self.actor.holder)
        if running is not None:
            raise ExperimentUnderWay(running, "wait for its end")
        self._own = Experiment(kind, name, self.actor.holder, self.actor.pid, self.actor.host)
        try:
            yield
        finally:
            self._own = None
            await to_the_end(keeper.leave(EXPERIMENT))

    def refuse_meanwhile(self) -> None:
        """Raise ExperimentUnderWay while this app's own lab or sweep runs; of others' the agent knows."""
        if self._own is not None:
            raise ExperimentUnderWay(self._own, "end it first", is_own=True)

    async def refuse_under_experiment(self) -> None:
        """Raise ExperimentUnderWay while anybody's lab or sweep runs; where nobody can tell, none does."""
        self.refuse_meanwhile()
        try:
            async with self.alone, self._turn(anyway=False, patient=False):
                return
        except ExperimentUnderWay:
            raise
        except ReplexplorerError:
            return


@dataclass(eq=False)
class DriftDetector:
    """What this session knows the knobs to be, and by whom."""

    _state: StackState
    _turns: ChangeLock
    noted: dict[KnobName, Value] = field(default_factory=dict)
    """The requests that this session knows of: its own, and those of others that it marked."""
    _left: dict[KnobName, Value] = field(default_factory=dict)
    """Server variables as apps have left them, or as this session found them."""
    faults: dict[tuple[str, str, float], Fault] = field(default_factory=dict)
    """The faults that this session knows to be in force, by `Fault.id`."""
    marks: set[str] = field(default_factory=set)
    """Ids of the marks that this session knows."""

    def open(self) -> None:
        """Take what is requested and set by now as known."""
        requested = self._state.requested
        self.noted = dict(requested.values)
        self.faults = {fault.id: fault for fault in requested.faults}
        self.marks = {mark.id for mark in requested.marks}
        for node in self._state.fleet.members:
            self.found(node)

    def forget(self) -> None:
        """Another stack has this one's name: nothing is known of it."""
        for known in (self.noted, self._left, self.faults, self.marks):
            known.clear()

    def turned(self, desired: Desired) -> None:
        """An app has turned these: they are known, and variables are as it left them."""
        self.noted |= desired
        self._left |= {name: value for name, value in desired.items() if name.knob.backing is Backing.SERVER}

    def lose(self, names: Iterable[KnobName]) -> None:
        """It is unknown how these were left."""
        for name in names:
            self._left.pop(name, None)

    def found(self, node: str) -> None:
        """Take the current variables as known, so that they are not reported as changes."""
        self._left |= self._variables(node)

    def fault_news(self) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
        """Faults that others injected since this session last knew, and those that others took back."""
        now = {fault.id: fault for fault in self._state.requested.faults}
        injected = tuple(fault for key, fault in now.items() if key not in self.faults)
        cleared = tuple(fault for key, fault in self.faults.items() if key not in now)
        self.faults = now
        return injected, cleared

    def mark_news(self) -> tuple[SharedMark, ...]:
        """Marks that others put since this session last knew."""
        news = tuple(mark for mark in self._state.requested.marks if mark.id not in self.marks)
        self.marks.update(mark.id for mark in news)
        return news

    async def keep_losses(self, node: str, lines: Sequence[str], since_wall_s: float) -> Sequence[str]:
        """Keep what a node came back without for all who watch, a fact each; answers those that are ours to
        tell: none where another app has found the same since this moment, in seconds since 1970."""
        by, wall_s = self._turns.actor.writer, self._state.fleet.outside.clock.wall()
        marks = [SharedMark(uuid.uuid4().hex, line, by, node, wall_s) for line in lines]
        self.marks.update(mark.id for mark in marks)

        def unless_known(now: Requested) -> Requested:
            is_known = any(
                each.loss_of == node and each.wall_s >= since_wall_s and each not in marks
                for each in now.marks
            )
            return now if is_known else now.with_marks(*marks)

        if marks:
            with contextlib.suppress(StackUnavailable):
                await self._state.write(unless_known)
                if marks[0] not in self._state.requested.marks:
                    return ()
        return lines

    def _variables(self, node: str) -> dict[KnobName, Value]:
        """A node's variables, as last looked at, where they are known."""
        placed = self._state.fleet.roster.placed(node)
        names = (name for name in self._state.names() if name.node == placed)
        found = {n: self._state.effective_value(n) for n in names if n.knob.backing is Backing.SERVER}
        return {name: value for name, value in found.items() if value is not None}

    async def news(self) -> tuple[Desired, Desired]:
        """What others requested since this session last knew, and what was requested of it before."""
        async with self._turns.alone:
            await self._state.read_document()
            before = dict(self.noted)
            changed = {
                name: value
                for name, value in self._state.requested.values.items()
                if before.get(name, name.knob.default) != value
            }
            self.turned(changed)
            return changed, before

    def unaccounted(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """Variables of a node that are not as they were left, each before and now; another app's change
        that is not written down yet is among them. One that was never seen is accounted for now."""
        now = self._variables(node)
        before = {name: self._left.setdefault(name, value) for name, value in now.items()}
        return {
            name: (before[name], value)
            for name, value in now.items()
            if not same_value(name.knob, before[name], value)
        }

    async def set_by_hand(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """What somebody else has set at this node, each before and now; answered once. Raises
        StackUnavailable while another app changes anything, for then nobody can say whose it is."""
        async with self._turns.quiet():
            await self._state.read_document()
            await self._state.look(node)
            wanted, noted = self._state.requested_value, self.noted
            by_hand = {
                name: (before, value)
                for name, (before, value) in self.unaccounted(node).items()
                # What another app has newly asked for is told by `news`.
                if noted.get(name, self._state.default_value(name)) == wanted(name)
                or not same_value(name.knob, wanted(name), value)
            }
            self.found(node)
            return by_hand

"""An experiment whose app was killed: whoever comes next pays what it owes the stack.

Law: nothing is touched while anybody's experiment runs, and what somebody has asked since the kill stays.
"""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.owed import Owed
from replexplorer.core.topology import Role
from replexplorer.engine.asking import execute
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.record.chronicle import Chronicle
from replexplorer.engine.requested import write_owed

_PREFIX = "after a kill: "


class Unfinished:
    """Finishes what a killed experiment left undone on one stack."""

    def __init__(
        self,
        sight: Sight,
        turns: Turns,
        controls: Controls,
        changes: MarkedChanges,
        faults: Faults,
        roles: RoleChanges,
        chronicle: Chronicle,
    ) -> None:
        self._sight = sight
        self._turns = turns
        self._controls = controls
        self._changes = changes
        self._faults = faults
        self._roles = roles
        self._chronicle = chronicle

    async def finish(self) -> tuple[str, ...]:
        """Give back what is owed, and answer what was done, in words; nothing where nothing is owed, or its
        experiment still runs. What cannot be done now stays owed."""
        await self._sight.read_document()
        owed = self._sight.requested.owed
        if self._turns.is_measuring:
            return ()
        await self._faults.forget_over()
        if owed is None:
            return ()
        try:
            async with self._turns.measuring("rollback", f"of the {owed.kind} {owed.name}"):
                done = await self._give_back(owed)
        except ExperimentUnderWay:
            return ()
        told = (f"the {owed.kind} {owed.name} was interrupted and is rolled back", *done)
        self._chronicle.tell(Severity.WARN, "; ".join(told))
        return told

    async def _give_back(self, owed: Owed) -> list[str]:
        done: list[str] = []
        for fault in sorted(self._faults.in_force(), key=lambda fault: -fault.number):
            if fault.by == owed.writer:
                await self._faults.clear(f"{fault.kind}@{fault.node}")
                done.append(f"fault {fault} undone")
        await self._sight.refresh()
        done += await self._source_back(owed)
        done += await self._start_threads()
        names = tuple(owed.before)
        wanted = owed.still({name: self._sight.requested_value(name) for name in names})
        if wanted:
            try:
                await self._changes.turn(wanted, _PREFIX, anyway=True)
            except ReplexplorerError:
                await self._controls.request(wanted)  # it comes with its server
            done.append(f"{', '.join(map(str, wanted))} restored")
        copied, left = await self._rebuild(owed)
        fleet = self._sight.fleet
        still = None if not left else replace(owed, before={}, turned={}, differing=tuple(left))
        self._sight.requested = await write_owed(fleet.keeper, fleet.roster, still)
        return [*done, *copied]

    async def _rebuild(self, owed: Owed) -> tuple[list[str], list[str]]:
        """Make the rows of all nodes equal again; answers what was done, in words, and the nodes that still
        have to get their copy."""
        fleet, done, left = self._sight.fleet, list[str](), list[str]()
        for node in owed.differing:
            if node not in fleet.members or node == fleet.source_name:
                continue
            self._chronicle.tell(Severity.INFO, f"copying {fleet.source_name} to {node}")
            try:
                await self._roles.rejoin(node, rebuild=True, anyway=True)
            except ReplexplorerError as error:
                left.append(node)
                done.append(
                    f"{node} may have rows that the source lacks ({error}): `replexplorer up` tries again"
                )
            else:
                done.append(f"{node} has a copy of {fleet.source_name}")
        return done, left

    async def _source_back(self, owed: Owed) -> list[str]:
        """Make the source of before the source again, or say why it cannot be."""
        fleet = self._sight.fleet
        if owed.source == fleet.source_name or owed.source not in fleet.members:
            return []
        try:
            await self._roles.rejoin(owed.source, anyway=True)
            await self._roles.switchover(owed.source, anyway=True)
        except ReplexplorerError as error:
            return [f"{owed.source} could not be made the source again: {error}"]
        return [f"{owed.source} is the source again"]

    async def _start_threads(self) -> list[str]:
        """Start what an experiment stopped at the replicas."""
        started = []
        for replica in self._sight.fleet.replicas:
            sample = self._sight.samples.get(replica.name)
            if replica.probed is None or sample is None or sample.view.role is Role.DETACHED:
                continue
            dialect = replica.dialect
            for state, statement, words in (
                (sample.view.io_thread, dialect.start_io(), "receiver"),
                (sample.view.sql_thread, dialect.start_applier(), "applier"),
            ):
                if state == "off":
                    await execute(replica.control, (statement,))
                    started.append(f"{words} of {replica.name} started")
        return started

"""The rig over a live session's parts: what `experiment.rig` promises, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from replexplorer.core.change.planner import make_plan
from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.owed import Owed
from replexplorer.core.experiment.sighting import UNKNOWN, Sighting
from replexplorer.core.fault import Fault, parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Assignment, Desired
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.workload import LEDGER
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.machine import busy_percent
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.counters import CostSample, commit_cost
from replexplorer.core.server.exposure import Exposure, over_time
from replexplorer.engine.asking import execute
from replexplorer.engine.change.bringup import bring_up
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.restore import Restorer
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.experiment.foreground import reckoned
from replexplorer.engine.experiment.rig import Findings
from replexplorer.engine.load import Driving, LoadDriver, measure
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.observe.samples import sample_cost, source_machine
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.observe.window import SamplePair
from replexplorer.engine.outcome import Cleared
from replexplorer.ports import (
    Ability,
    Clock,
    Journal,
    LoadSettings,
    Report,
    ServerProcess,
    Sql,
    UpOptions,
)

_LOOK_EVERY_S: Final = 0.1
_ATTACHED_WITHIN_S: Final = 30.0


class LiveLoad:
    """Our load as an experiment drives it (`experiment.rig.Load`)."""

    def __init__(self, sight: StackState, load: LoadDriver, driving: Driving) -> None:
        self._sight = sight
        self._load = load
        self._driving = driving

    @property
    def settings(self) -> LoadSettings | None:
        """See `experiment.rig.Load`."""
        return self._load.settings if self._load.is_running else None

    async def drive(self, *, clients: int) -> None:
        """See `experiment.rig.Load`."""
        await self._driving.drive(replace(self._driving.settings(), clients=clients))

    async def follow(self, *, clients: int | None = None, table_size: int | None = None) -> None:
        """See `experiment.rig.Load`."""
        if self.settings is None:
            return
        if table_size is not None:
            await self._load.resize(table_size)
        await self._load.change(self._sight.wanted_load() if clients is None else {keys.CLIENTS: clients})

    async def stop(self) -> None:
        """See `experiment.rig.Load`."""
        await self._driving.stop()

    async def keep_ledger(self, *, clients: int) -> None:
        """See `experiment.rig.Load`."""
        self._load.run = None
        asked = replace(self._driving.settings(), clients=clients, workload=LEDGER, script=None)
        await self._driving.drive(asked)

    async def client_log(self) -> RunLog:
        """See `experiment.rig.Load`."""
        logs, run = self._sight.fleet.outside.client_logs, self._load.run
        if logs is None or run is None:
            raise StackUnavailable("no load of this session kept a client log", "start the workload `ledger`")
        return await logs.read(run)

    async def measure(
        self,
        *,
        duration_s: float = 0.0,
        commits: int = 0,
        from_s: float | None = None,
        on_interval: Callable[[Interval], None] = lambda _: None,
        into: Measurement | None = None,
    ) -> Findings:
        """See `experiment.rig.Load`."""
        clock, intervals = self._sight.fleet.outside.clock, list[Interval]()
        exposures: list[Exposure] = []

        def take(interval: Interval) -> None:
            intervals.append(interval)
            if (seen := self._sight.exposures.exposure()) is not None:
                exposures.append(seen)
            on_interval(interval)

        machine, first = (
            await source_machine(self._sight.fleet),
            await self._sight.look_closely(self._sight.fleet.source_name),
        )
        cost = await sample_cost(self._sight.fleet)
        measured = await measure(
            self._load,
            clock,
            duration_s=duration_s,
            commits=commits,
            from_s=clock.monotonic() if from_s is None else from_s,
            on_interval=take,
            into=into,
        )
        costs = cost, await sample_cost(self._sight.fleet)
        last = await self._sight.look_closely(self._sight.fleet.source_name)
        return Findings(
            measured,
            SamplePair.of(first, last, intervals).anatomy(),
            over_time(exposures),
            busy_percent(machine, await source_machine(self._sight.fleet)),
            commit_cost(*costs, acknowledged=measured.commits),
        )


class LiveRig:
    """One attached stack (`experiment.rig.Rig`), for one experiment at a time."""

    def __init__(
        self,
        controls: Controls,
        load: LoadDriver,
        driving: Driving,
        outlook: Predictor,
        faults: Faults,
        roles: RoleChanges,
        restorer: Restorer,
    ) -> None:
        self._controls = controls
        self._fleet = controls.fleet
        self._sight = controls.sight
        self._turns = controls.turns
        self._faults = faults
        self._roles = roles
        self._restorer = restorer
        self.load = LiveLoad(controls.sight, load, driving)
        self.log = controls.chronicle
        self.forecast = outlook
        self._task: asyncio.Task[Any] | None = None
        """Who runs the experiment that is under way."""

    @property
    def clock(self) -> Clock:
        """See `experiment.rig.Rig`."""
        return self._fleet.outside.clock

    # -- looking

    @property
    def seen(self) -> Sighting:
        """See `experiment.rig.Rig`."""
        sight = self._sight
        capabilities = self._fleet.source.capabilities
        return Sighting(
            source=self._fleet.source_name,
            server=capabilities.title if capabilities else UNKNOWN,
            nodes=sight.node_views(),
            replicas=self._fleet.replica_names,
            knobs=sight.views(),
            version=sight.requested.version,
            writer=sight.requested.writer,
            is_ours=sight.requested.writer == self._turns.actor.writer,
            protection=sight.protection(),
            links=dict(sight.links),
            disks=dict(sight.disks),
            counters={name: sample.counters for name, sample in sight.samples.items()},
            exposure=sight.exposures.exposure(),
            system=self._fleet.system,
            driver=sight.driver if self._turns.actor.is_other(sight.driver) else None,
        )

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Sighting:
        """See `experiment.rig.Rig`."""
        await self._sight.refresh(probe=probe, with_gtids=with_gtids)
        return self.seen

    def at_risk(self) -> tuple[float, Exposure] | None:
        """See `experiment.rig.Rig`."""
        return self._sight.exposures.last_whole

    async def cost(self) -> CostSample | None:
        """See `experiment.rig.Rig`."""
        return await sample_cost(self._fleet)

    async def rtt_ms(self) -> float | None:
        """See `experiment.rig.Rig`."""
        # How many acknowledgements are needed says which link counts, and may have just been turned.
        await asyncio.gather(self._sight.look_at_links(), self._sight.look_at_source())
        return self.seen.rtt_ms

    # -- turning

    def parse(self, text: str) -> Assignment:
        """See `experiment.rig.Rig`."""
        return self._controls.parse(text)

    def check(self, desired: Desired) -> None:
        """See `experiment.rig.Rig`."""
        make_plan(self._sight.observed(), desired)

    async def turn(self, desired: Desired) -> None:
        """See `experiment.rig.Rig`."""
        await self._controls.set(desired)

    async def request(self, desired: Desired) -> None:
        """See `experiment.rig.Rig`."""
        await self._controls.request(desired)

    def lost(self, nodes: Iterable[str]) -> Desired:
        """See `experiment.rig.Rig`."""
        return self._sight.lost_values(nodes) if self._restorer.reapplies else {}

    # -- nodes

    def sql(self, node: str) -> Sql:
        """See `experiment.rig.Rig`."""
        return self._fleet.connection(node)

    def dialect(self, node: str) -> Dialect:
        """See `experiment.rig.Rig`."""
        return self._fleet.member(node).dialect

    def process(self, node: str) -> ServerProcess:
        """See `experiment.rig.Rig`."""
        return self._fleet.server_process(node)

    async def scale(self, replicas: int, report: Report) -> None:
        """See `experiment.rig.Rig`."""
        if replicas != len(self._fleet.replicas):
            self._fleet.need(Ability.SCALE)
        if replicas < len(self._fleet.replicas):
            kept = list(self._fleet.members)[: replicas + 1]
            if self._fleet.source_name not in kept:
                raise UsageError(
                    f"{self._fleet.source_name} is the source, and would go with the last nodes",
                    f"`replexplorer switchover --to {kept[0]}` first",
                )
            gone = list(self._fleet.members)[replicas + 1 :]
            await self._leave_behind(gone)
            await self._fleet.outside.provider.shrink(replicas)
            await self._fleet.discover()
            self._sight.forget_gone()
            await self._controls.forget_nodes(gone)
            if self._fleet.system.is_group:
                await form_group(self._fleet, lambda text: report(text, None))
        elif replicas > len(self._fleet.replicas):
            raised = await bring_up(self._fleet, UpOptions(replicas=replicas), report)
            await self._sight.refresh()
            await self._roles.seed(raised.to_copy, lambda text: report(text, None))
            if shared := self._sight.for_joined(raised.joined):
                await self._controls.set(shared)
        await self._sight.refresh()

    async def _leave_behind(self, nodes: Sequence[str]) -> None:
        """Let members leave their group one after the other: removed at once they could be a majority of it,
        without which the rest waits. Replicas end their connections: those that vanish with their network
        the source goes on counting until TCP gives them up."""
        if self._fleet.system.is_group:
            for node in nodes:
                await self._fleet.server_process(node).stop()
            return
        ending = [node for node in nodes if not self._is_down(node)]
        with suppress(ReplexplorerError):
            for node in ending:
                member = self._fleet.member(node)
                await execute(member.control, (member.dialect.stop_io(),))
            await self._until_registered(0, len(self._fleet.replicas) - len(ending))

    async def attach(self, replicas: int | None) -> None:
        """See `experiment.rig.Rig`."""
        members = self._fleet.replicas
        attached = {replica.name for replica in members[:replicas]}
        for replica in members:
            sample = self._sight.samples.get(replica.name)
            runs = replica.name in attached
            if replica.probed is None or (sample and (sample.view.io_thread == "off") is not runs):
                continue
            dialect = replica.dialect
            await execute(replica.control, (dialect.start_io() if runs else dialect.stop_io(),))
        down = sum(map(self._is_down, attached))
        await self._until_registered(len(attached) - down, len(attached))
        await self._sight.refresh()

    def _is_down(self, node: str) -> bool:
        """Whether a node's server did not answer when it was last looked at."""
        sample = self._sight.samples.get(node)
        return sample is not None and not sample.view.reachable

    async def _until_registered(self, least: int, most: int) -> None:
        """Wait until the source counts this number of replicas. It notices late that one has stopped, or
        died, and one that is dead is not waited for."""
        ends_s = self.clock.monotonic() + _ATTACHED_WITHIN_S
        while self.clock.monotonic() < ends_s:
            clients = (await self._sight.look_at_source()).status.clients
            if clients is None or least <= clients <= most:
                return
            await self.clock.sleep(_LOOK_EVERY_S)

    # -- breaking something on purpose

    async def inject(self, text: str) -> tuple[Fault, ...]:
        """See `experiment.rig.Rig`."""
        done = await self._faults.inject(parse_fault(text, self._fleet.roster))
        return tuple(each.fault for each in done)

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """See `experiment.rig.Rig`."""
        return await self._faults.clear(text)

    async def reckon(self, survivor: str, *, failed_at_s: float | None = None) -> LossLedger:
        """See `experiment.rig.Rig`."""
        return await reckoned(self, survivor, failed_at_s)

    # -- roles

    async def failover(self, to: str | None = None, *, since_s: float | None = None) -> RoleChange:
        """See `experiment.rig.Rig`."""
        return await self._roles.failover(to, since_s=since_s, anyway=True)

    async def switchover(self, to: str | None = None) -> RoleChange:
        """See `experiment.rig.Rig`."""
        return await self._roles.switchover(to, anyway=True)

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        """See `experiment.rig.Rig`."""
        return await self._roles.rejoin(node, rebuild=rebuild, anyway=True)

    # -- the experiment

    async def owe(self, owed: Owed | None) -> None:
        """See `experiment.rig.Rig`."""
        signed = None if owed is None else replace(owed, writer=self._turns.actor.writer)
        await self._sight.write(lambda now: replace(now, owed=signed))

    def reserved(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        """See `experiment.rig.Rig`."""
        return self._reserved(kind, name)

    @asynccontextmanager
    async def _reserved(self, kind: str, name: str) -> AsyncIterator[None]:
        if self._task is not None:
            raise UsageError("a lab, a sweep or a drill runs already", "stop it first")
        self._task = asyncio.current_task()
        try:
            await self._restorer.finish_killed()
            async with self._turns.measuring(kind, name):
                yield
        finally:
            self._task = None

    async def abandon(self) -> None:
        """Cancel the experiment that runs, and wait until everything is restored."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait({self._task})

    def journal(self, kind: str, identity: str) -> Journal | None:
        """See `experiment.rig.Rig`."""
        make = self._fleet.outside.journals
        return None if make is None else make(kind, identity)

"""All that an experiment may do with a stack: turn, look, measure, break, run SQL on a node, compare rows.

What it takes is restored by a `RestoreGuard`, however it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.snapshot import UNKNOWN, PendingRestore, Snapshot
from replexplorer.core.fault import Fault, parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.workload import LEDGER
from replexplorer.core.loss.client_log import Rows, RunLog
from replexplorer.core.loss.ledger import LossLedger, count_losses
from replexplorer.core.machine import busy_percent
from replexplorer.core.records import dataclass, frozen, replace
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.counters import CommitCost, CostSample, commit_cost
from replexplorer.core.server.exposure import Exposure, over_time
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.truth import Lag, LagSeen
from replexplorer.core.wire import Shape
from replexplorer.engine.change.bringup import bring_up
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.load import Driving, LoadDriver, measure
from replexplorer.engine.observe.samples import NodeSample, ledger_rows, sample_cost
from replexplorer.engine.observe.window import SamplePair
from replexplorer.engine.outcome import Cleared
from replexplorer.ports import (
    Ability,
    Clock,
    Journal,
    LoadSettings,
    Reporter,
    Sql,
    UpOptions,
    ask,
    execute,
)

if TYPE_CHECKING:
    from replexplorer.engine.change.controls import Controls
    from replexplorer.engine.change.faults import Faults
    from replexplorer.engine.change.roles import RoleChanges
    from replexplorer.engine.observe.predictor import Predictor
    from replexplorer.engine.observe.state import StackState

_LOOK_EVERY_S: Final = 0.1
_ATTACHED_WITHIN_S: Final = 30.0
_CATCH_UP_S: Final = 900.0
_STALLED_S: Final = 10.0
"""An applier that gets no further for so long will not."""
_ON_ITS_WAY_S: Final = 2.0
"""Of the survivor's commits, one that a connected node has not received within this is not on its way."""
_US_PER_S: Final = 1_000_000

T = TypeVar("T")
_Found = TypeVar("_Found", covariant=True)


@frozen
class Findings:
    """What a load did while it was measured."""

    load: Measurement
    """Its own figures."""
    anatomy: Anatomy | None = None
    """The mean commit taken apart; None without a commit, and where the source does not count."""
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile (`exposure_meter.over_time`); None before any look."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, meanwhile; None where no agent says."""
    cost: CommitCost | None = None
    """What a commit cost the servers meanwhile; None where it is not known."""
    lag: Lag | None = None
    """How far replicas were behind meanwhile; None where none says."""


_REPLICAS_EVERY_S: Final = 1.0
"""A look at how far behind they are, while something is measured."""


@dataclass(eq=False)
class MeasuredLoad:
    """Our load as an experiment drives and measures it."""

    state: StackState
    _load: LoadDriver
    _driving: Driving

    @property
    def settings(self) -> LoadSettings | None:
        """What our load was last told; None while we run none."""
        return self._load.settings if self._load.is_running else None

    @property
    def runs(self) -> bool:
        """Our load does, or begins."""
        return self._driving.runs

    async def drive(self) -> None:
        """Run the load as requested, but without clients; one that runs already follows. Raises
        StackUnavailable naming the driver when somebody else drives."""
        await self._driving.drive(replace(self._driving.settings(), clients=0))

    async def follow(self, *, clients: int | None = None, table_size: int | None = None) -> None:
        """Let the load go on with this many clients, or as requested, and on a table of this many rows;
        does nothing when none runs."""
        if self.settings is None:
            return
        if table_size is not None:
            await self._load.resize(table_size)
        await self._load.change(self.state.wanted_load() if clients is None else {keys.CLIENTS: clients})

    async def stop(self) -> None:
        """End our load; nothing when none runs."""
        await self._driving.stop()

    async def keep_ledger(self, *, clients: int) -> None:
        """Run the load with this many clients of the workload `ledger`, whatever is requested, their client
        logs those of a new run; `follow` goes back to what is requested. Raises as `drive`."""
        self._load.run = None
        asked = replace(self._driving.settings(), clients=clients, workload=LEDGER, script=None)
        await self._driving.drive(asked)

    async def client_log(self) -> RunLog:
        """All that the clients have noted in the run that `keep_ledger` began, up to now; raises
        StackUnavailable before it did."""
        logs, run = self.state.fleet.outside.client_logs, self._load.run
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
        """The load's figures over this many seconds and commits, from a moment of the monotonic clock on
        (None: with the next interval that begins), `into` what the caller keeps when it is cancelled. An
        open loop is drained at the end, and goes on with the next `follow`. Raises StackUnavailable when
        the load ends."""
        state, clock, intervals = self.state, self.state.fleet.outside.clock, list[Interval]()
        from_s = clock.monotonic() if from_s is None else from_s
        exposures: list[Exposure] = []
        lag = LagSeen()

        def take(interval: Interval) -> None:
            intervals.append(interval.outline())
            lag.add(state.window.replicas())
            if (seen := state.exposures.exposure()) is not None:
                exposures.append(seen)
            on_interval(interval)

        async def look(at_s: float = 0.0) -> tuple[NodeSample, CostSample | None]:
            await clock.sleep(max(0.0, at_s - clock.monotonic()))
            return await state.look_closely(state.fleet.source_name), await sample_cost(state.fleet)

        async def look_at_replicas() -> None:
            """Without a picture nothing else looks at them."""
            state.window.forget_applied()
            while True:
                for name in state.fleet.replica_names:
                    await state.look_closely(name)
                await clock.sleep(_REPLICAS_EVERY_S)

        looking = asyncio.create_task(look(from_s), name="look before")
        replicas = asyncio.create_task(look_at_replicas(), name="look at replicas")
        try:
            measured = await measure(
                self._load,
                clock,
                duration_s=duration_s,
                commits=commits,
                from_s=from_s,
                on_interval=take,
                into=into,
            )
            (first, before), (last, after) = await looking, await look()
        finally:
            looking.cancel()
            replicas.cancel()
        return Findings(
            measured,
            SamplePair.of(first, last, intervals).anatomy(),
            over_time(exposures),
            busy_percent(before.machine if before else None, after.machine if after else None),
            commit_cost(before, after, acknowledged=measured.commits),
            lag.lag,
        )


class StackApi:
    """One attached stack, for one experiment at a time."""

    def __init__(
        self,
        controls: Controls,
        load: LoadDriver,
        driving: Driving,
        predictor: Predictor,
        faults: Faults,
        roles: RoleChanges,
        *,
        reapplies: bool,
    ) -> None:
        """`reapplies`: what a restart takes is to be restored."""
        self.controls = controls
        self._fleet = controls.fleet
        self.state = controls.state
        self._turns = controls.turns
        self._faults = faults
        self.roles = roles
        self._reapplies = reapplies
        self.load = MeasuredLoad(controls.state, load, driving)
        self.log = controls.event_log
        self.clock: Clock = controls.fleet.outside.clock
        self.forecast = predictor
        self._task: asyncio.Task[Any] | None = None
        """Who runs the experiment that is under way."""

    # -- looking

    @property
    def seen(self) -> Snapshot:
        """What was last seen, with what was turned since."""
        state = self.state
        capabilities = self._fleet.source.capabilities
        return Snapshot(
            source=self._fleet.source_name,
            server=capabilities.title if capabilities else UNKNOWN,
            nodes=state.node_views(),
            replicas=self._fleet.replica_names,
            knobs=state.views(),
            version=state.requested.version,
            writer=state.requested.writer,
            is_ours=state.requested.writer == self._turns.actor.writer,
            protection=state.protection(),
            links=dict(state.links),
            disks=dict(state.disks),
            counters={name: sample.counters for name, sample in state.samples.items()},
            system=self._fleet.system,
            driver=state.driver if self._turns.actor.is_other(state.driver) else None,
        )

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
        """Look at everything now; what does not answer is unknown. With `probe` disks that were never
        probed are; what each server has executed is known only `with_gtids`."""
        await self.state.refresh(probe=probe, with_gtids=with_gtids)
        return self.seen

    def at_risk(self) -> tuple[float, Exposure] | None:
        """What the exposure meter found when the source last answered, and when on the monotonic clock; None
        before that. A fault is injected right after a look."""
        return self.state.exposures.last_whole

    async def cost(self) -> CostSample | None:
        """What the servers' work has cost so far: two of these around a load say what a commit costs
        (`commit_cost`); None where the source does not answer."""
        return await sample_cost(self._fleet)

    async def rtt_ms(self) -> float | None:
        """The round trip that a commit waits for, as the agents measure it now; None where no probe is
        answered."""
        # How many acknowledgements are needed says which link counts, and may have just been turned.
        await asyncio.gather(self.state.look_at_links(), self.state.look_at_source())
        return self.seen.rtt_ms

    def lost(self, nodes: Iterable[str]) -> Desired:
        """What was requested of these nodes and went with their restart; empty where the user wants that
        left alone."""
        return self.state.lost_values(nodes) if self._reapplies else {}

    # -- nodes

    def sql(self, node: str) -> Sql:
        """A new connection to a node's server, which the caller closes; raises StackUnavailable when there is
        no such node."""
        return self._fleet.connection(node)

    def dialect(self, node: str) -> Dialect:
        """How that node's server is asked; raises StackUnavailable when there is no such node, or when it
        was never reached."""
        return self._fleet.member(node).dialect

    async def scale(self, replicas: int, report: Reporter) -> None:
        """Bring replicas up, or remove the last ones with their data, until there are this many."""
        if replicas != len(self._fleet.replicas):
            self._fleet.need(Ability.SCALE)
        if replicas < len(self._fleet.replicas):
            kept = list(self._fleet.members)[: replicas + 1]
            if self._fleet.source_name not in kept:
                raise UsageError(
                    f"{self._fleet.source_name} is the source, and would go with the last nodes",
                    f"`replexplorer role switchover --to {kept[0]}` first",
                )
            gone = list(self._fleet.members)[replicas + 1 :]
            await self._leave_behind(gone)
            await self._bare_links(kept, gone)
            await self._fleet.outside.provider.shrink(replicas)
            await self._fleet.discover()
            self.state.forget_gone()
            await self.controls.forget_nodes(gone)
            if self._fleet.system.is_group:
                await form_group(self._fleet, report)
        elif replicas > len(self._fleet.replicas):
            raised = await bring_up(self._fleet, UpOptions(replicas=replicas), report)
            await self.state.refresh()
            await self.roles.seed(raised.to_copy, report)
            if shared := self.state.for_joined(raised.joined):
                await self.controls.set(shared)
        await self.state.refresh()

    async def _bare_links(self, nodes: Sequence[str], leaving: Sequence[str]) -> None:
        """Take away what these nodes' agents do to packets of those that are removed: a node that is made
        later has the same name, and its link would begin with it."""
        for agent in (self._fleet.member(node).agent for node in nodes):
            with suppress(ReplexplorerError):  # an agent that is away starts with no rules
                for peer in map(self._fleet.member, leaving):
                    if (address := peer.address.address) is not None:
                        await agent.set_link(peer.name, address, Shape())
                        await agent.set_flap(peer.name, address, None)

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
                await execute(member.control, (member.dialect.stop_io,))
            await self._until_registered(0, len(self._fleet.replicas) - len(ending))

    async def attach(self, replicas: int | None) -> None:
        """Let the first of the replicas, this many or for None all, receive events, and stop the others' IO
        threads; waits until the source has noticed."""
        members = self._fleet.replicas
        attached = {replica.name for replica in members[:replicas]}
        for replica in members:
            sample = self.state.samples.get(replica.name)
            runs = replica.name in attached
            if replica.probed is None or (sample and (sample.view.io_thread == "off") is not runs):
                continue
            dialect = replica.dialect
            await execute(replica.control, (dialect.start_io if runs else dialect.stop_io,))
        down = sum(map(self._is_down, attached))
        await self._until_registered(len(attached) - down, len(attached))
        await self.state.refresh()

    def _is_down(self, node: str) -> bool:
        """Whether a node's server did not answer when it was last looked at."""
        sample = self.state.samples.get(node)
        return sample is not None and not sample.view.reachable

    async def _until_registered(self, least: int, most: int) -> None:
        """Wait until the source counts this number of replicas. It notices late that one has stopped, or
        died, and one that is dead is not waited for."""
        ends_s = self.clock.monotonic() + _ATTACHED_WITHIN_S
        while self.clock.monotonic() < ends_s:
            clients = (await self.state.look_at_source()).status.clients
            if clients is None or least <= clients <= most:
                return
            await self.clock.sleep(_LOOK_EVERY_S)

    # -- breaking something on purpose

    async def inject(self, text: str) -> tuple[Fault, ...]:
        """Do a fault, `KIND[=VALUE][@NODE]`, to its nodes; answers what is in force by that. Raises
        UsageError, StackUnavailable, MissingPiece; then nothing of it is."""
        done = await self._faults.inject(parse_fault(text, self._fleet.roster))
        return tuple(each.fault for each in done)

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """Mend the faults that this text means, `KIND[@NODE]`, all for None; answers which, and what servers
        that are back lost. Raises UsageError
        where nothing of that kind is in force."""
        return await self._faults.clear(text)

    async def count_losses(self, survivor: str, *, failed_at_s: float | None = None) -> LossLedger:
        """End the load and compare what its clients were told with the rows on each node that answers, of
        which one is the survivor; `failed_at_s`: when the failure was, on the monotonic clock.

        What is on its way to a node is waited for, and what it has received is applied first. Raises
        StackUnavailable where the survivor does not answer, or does not apply what it has received.
        """
        await self.load.stop()
        log = await self.load.client_log()
        names = [node.name for node in self.seen.nodes]
        if survivor not in names:
            raise StackUnavailable(f"there is no node {survivor!r}", f"use one of {', '.join(names)}")
        others = [name for name in names if name != survivor]
        # The survivor first: what it lacks is the answer, and others are compared with it.
        found = {survivor: await self._applied_rows(survivor, log.run)}
        executed = found[survivor][1]
        looks = await asyncio.gather(
            *(self._applied_rows(name, log.run, executed) for name in others), return_exceptions=True
        )
        for name, look in zip(others, looks, strict=True):
            if isinstance(look, tuple):
                found[name] = look
            elif not isinstance(look, ReplexplorerError):
                raise look
        return count_losses(
            log,
            {name: found[name][0] for name in names if name in found},
            survivor,
            executed={name: executed for name, (_, executed) in found.items()},
            failed_at_us=None if failed_at_s is None else int(failed_at_s * _US_PER_S),
        )

    async def _applied_rows(self, node: str, run: int, comes: str = "") -> tuple[Rows, str]:
        """A node's rows and the GTID set that it executed, when it has applied what it received, and what is
        on its way of the set `comes`. Raises StackUnavailable where it does not apply it."""
        sql, dialect = self.sql(node), self.dialect(node)
        try:
            if comes:
                await ask(sql, dialect.reached(comes, _ON_ITS_WAY_S))
            moved_s, last = self.clock.monotonic(), ""
            while queued := await _queued(sql, dialect):
                if queued != last:
                    last, moved_s = queued, self.clock.monotonic()
                if self.clock.monotonic() - moved_s > _STALLED_S:
                    waiting = f"{gtid_count(queued):,} transactions wait there"
                    raise StackUnavailable(
                        f"{node} does not apply its relay log: {waiting}",
                        "see `replexplorer status`",
                    )
                await self.clock.sleep(_LOOK_EVERY_S)
            executed = await ask(sql, dialect.executed)
            return await ledger_rows(sql, dialect, run), executed
        finally:
            await sql.close()

    async def caught_up(self, within_s: float = _CATCH_UP_S, among: Sequence[str] | None = None) -> bool:
        """Wait until the replicas, or those `among` them, have what the source has now, on connections of its
        own: the lag is looked at meanwhile. Answers whether they have, each within this time."""
        executed = await self.ask(self.seen.source, self.dialect(self.seen.source).executed)
        have = [
            await self.ask(name, self.dialect(name).reached(executed, within_s))
            for name in (self.seen.replicas if among is None else among)
        ]
        return all(have)

    async def ask(self, node: str, question: Question[T]) -> T:
        """A node's answer, on a connection of its own."""
        sql = self.sql(node)
        try:
            return await ask(sql, question, deadline_s=_CATCH_UP_S)
        finally:
            await sql.close()

    # -- roles

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        """Let a node follow the source again, started where it is down; what it has and the source lacks is
        lost, and told. With `rebuild` it gets a copy of the source's data in any case. Raises as
        `RoleChanges.rejoin`."""
        return await self.roles.rejoin(node, rebuild=rebuild, anyway=True)

    # -- the experiment

    async def pending(self) -> tuple[PendingRestore, tuple[Fault, ...]] | None:
        """What the experiment under way, or one that was killed, gives back, with the faults in force that
        are its own; None where there is none, and while it is this session's."""
        await self.state.read_document()
        owed = self.state.requested.owed
        if self._turns.is_measuring:
            return None
        await self._faults.forget_over()
        if owed is None:
            return None
        return owed, tuple(fault for fault in self.state.faults if fault.by == owed.writer)

    async def record(self, pending: PendingRestore | None) -> None:
        """Let the stack keep what this experiment gives back, signed as ours; should it be killed, the next
        start does it. None: nothing any more."""
        signed = None if pending is None else replace(pending, writer=self._turns.actor.writer)
        await self.state.write(lambda now: replace(now, owed=signed))

    @asynccontextmanager
    async def reserved(self, kind: str, name: str) -> AsyncIterator[None]:
        """Nobody else turns a knob meanwhile, in any process. Raises UsageError while another experiment of
        this session runs, StackUnavailable naming that of another."""
        if self._task is not None:
            raise UsageError("a lab, a sweep or a drill is already running", "stop it first")
        self._task = asyncio.current_task()
        try:
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
        """The file that keeps what a `sweep` or a `matrix` of this identity has found; None: none does."""
        make = self._fleet.outside.journals
        return None if make is None else make(kind, identity)


class Procedure(Protocol[_Found]):
    """An experiment that can be run on a stack."""

    async def run(self, stack: StackApi) -> _Found:
        """Run it to its end, and return everything that it took."""


async def _queued(sql: Sql, dialect: Dialect) -> str:
    """What a node has received and not applied, a GTID set; empty for nothing."""
    behind = await ask(sql, dialect.behind(""))
    return "" if behind is None or behind.queued is None else behind.queued

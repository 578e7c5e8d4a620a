"""`StackApi` on a stack of plain values: what is asked is so at once, unless a step fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.snapshot import PendingRestore, Snapshot
from replexplorer.core.fault import Fault, parse_fault
from replexplorer.core.knobs.names import (
    SOURCE,
    Assignment,
    Desired,
    KnobName,
    KnobView,
    Value,
    defaults,
    parse_assignment,
)
from replexplorer.core.link import LinkView
from replexplorer.core.load.interval import Interval, Measurement, ProcessWork
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.loss.ledger import LossLedger, reckon
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.counters import CostSample
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import Membership, NodeView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import ASYNC, System
from replexplorer.core.topology import Role, Roster, node_names
from replexplorer.engine.experiment.stack_api import Findings, MeasuredLoad, StackApi
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.outcome import Cleared
from replexplorer.engine.record import EventLog
from replexplorer.ports import LoadSettings, Reporter
from tests.fakes.clock import VirtualClock
from tests.fakes.journals import FakeJournal, FakeShelf
from tests.fakes.servers import mysql_9

STEP_S = 0.01
INTERVAL_S = 0.5
LOCAL_MS = 1.0
CLIENTS = KnobName("clients", "load")
WORKLOAD = KnobName("workload", "load")
_STOPS = ("kill", "stop", "pause", "power_cut")
SEMI_SYNC = KnobName("semi_sync", SOURCE)


class FakeLog(EventLog):
    """`EventLog` that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[Severity, str]] = []
        self.titles: list[str] = []
        """Titles of all that began, in order."""
        self.restoring = False

    def tell(
        self, severity: Severity, text: str, *, mark: int | None = None, at_s: float | None = None
    ) -> None:
        """See `EventLog`."""
        self.events.append((severity, text))

    def begin_change(self, title: str) -> int:
        """See `EventLog`."""
        self.titles.append(title)
        return len(self.titles)

    def change_effective(
        self, number: int, title: str, text: str, *, measured_from_s: float | None = None
    ) -> None:
        """See `EventLog`."""
        self.tell(Severity.MARK, text, mark=number)

    def end_epoch(self, at_s: float | None = None) -> None:
        """See `EventLog`."""

    def begin_restoring(self) -> None:
        """See `EventLog`."""
        self.restoring = True

    def restored(self) -> None:
        """See `EventLog`."""
        self.restoring = False


class FakeForecast(Predictor):
    """`Predictor` of a model that was never fitted."""

    def __init__(self) -> None:
        """It looks at nothing."""

    def setting(self) -> OperatingPoint:
        """See `Predictor`."""
        return OperatingPoint(1, "update_index")

    def expected_tps(self, protection: Protection, rtt_ms: float | None) -> float | None:
        """See `Predictor`."""
        return None


class FakeLoad(MeasuredLoad):
    """`MeasuredLoad`: every commit takes as long as the settings say."""

    settings: LoadSettings | None = None

    def __init__(self, rig: FakeRig, settings: LoadSettings | None) -> None:
        self._rig = rig
        self.settings = settings
        self.elsewhere: str | None = None
        """Who else drives the load."""
        self.ledgers = 0
        """Runs of client logs that were begun."""
        self.log = RunLog(1, {}, {})
        """What the clients noted."""

    async def drive(self, *, clients: int) -> None:
        """See `MeasuredLoad`."""
        await self._rig.step("drive")
        if self.elsewhere is not None:
            raise StackUnavailable(f"{self.elsewhere} drives the load of this stack")
        self.settings = replace(self.settings or LoadSettings(0, "update_index"), clients=clients)

    async def follow(self, *, clients: int | None = None, table_size: int | None = None) -> None:
        """See `MeasuredLoad`."""
        await self._rig.step("follow")
        if self.settings is not None:
            if clients is None:
                workload = str(self._rig.requested[WORKLOAD])
                self.settings = replace(self.settings, workload=workload, ledger=None)
            clients = int(self._rig.requested[CLIENTS]) if clients is None else clients
            self.settings = replace(
                self.settings, clients=clients, table_size=table_size or self.settings.table_size
            )

    async def stop(self) -> None:
        """See `MeasuredLoad`."""
        await self._rig.step("stop")
        self.settings = None

    async def keep_ledger(self, *, clients: int) -> None:
        """See `MeasuredLoad`."""
        await self.drive(clients=clients)
        assert self.settings is not None
        self.ledgers += 1
        self.settings = replace(self.settings, workload="ledger", ledger=str(self.ledgers))

    async def client_log(self) -> RunLog:
        """See `MeasuredLoad`."""
        await self._rig.step("client_log")
        if not self.ledgers:
            raise StackUnavailable("no load of this session kept a client log")
        return self.log

    async def measure(
        self,
        *,
        duration_s: float = 0.0,
        commits: int = 0,
        from_s: float | None = None,
        on_interval: Callable[[Interval], None] = lambda _: None,
        into: Measurement | None = None,
    ) -> Findings:
        """See `MeasuredLoad`."""
        await self._rig.step("measure")
        measured, clock = Measurement() if into is None else into, self._rig.clock
        from_s = clock.monotonic() if from_s is None else from_s
        while measured.duration_s < duration_s or measured.commits < commits or not measured.intervals:
            begin_s = clock.monotonic()
            await clock.sleep(INTERVAL_S)
            if self.settings is None:
                raise StackUnavailable("the load ended")
            interval = self._interval(begin_s, self.settings.clients)
            on_interval(interval)
            if interval.start_s >= from_s:
                measured.add(interval)
        return Findings(measured)

    def _interval(self, begin_s: float, clients: int) -> Interval:
        service, rig = Histogram(), self._rig
        waits = rig.seen.protection.state is ProtectionState.PROTECTED
        latency_ms = LOCAL_MS + (rig.seen.rtt_ms or 0.0 if waits else 0.0)
        if not rig.down.intersection((SOURCE, rig.names[0])):
            commits = int(clients * INTERVAL_S * 1000 / latency_ms)
            service.record_all([round(latency_ms * 1000)] * commits)
        work = ProcessWork(1, clients, service.count, 0.1 * INTERVAL_S, INTERVAL_S)
        return Interval(
            begin_s, begin_s + INTERVAL_S, service, 0, 0, 0, clients, clients, "update_index", work=(work,)
        )


@dataclass
class FakeStatements:
    """`ports.Sql` of a test's own making."""

    node: str
    answer: Callable[[str, str], Sequence[Row]]
    closed: bool = False

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`."""
        await asyncio.sleep(STEP_S)
        return self.answer(self.node, statement)

    async def close(self) -> None:
        """See `ports.Sql`."""
        self.closed = True


@dataclass
class Taken:
    """Everything that an experiment may take, to be compared before and after."""

    requested: Mapping[KnobName, Value]
    effective: Mapping[KnobName, Value]
    replicas: int
    attached: int | None
    load: LoadSettings | None
    down: frozenset[str]
    reserved: str | None = None
    faults: tuple[str, ...] = ()
    owed: bool = False
    source: str = ""


@dataclass
class FakeRig(StackApi):
    """A stack that an experiment is tried on; each thing that is done to it is a step."""

    replicas: int = 1
    requested: dict[KnobName, Value] = field(default_factory=dict)
    answer: Callable[[str, str], Sequence[Row]] = lambda node, statement: ()
    """What a node's server answers to a statement."""
    down: set[str] = field(default_factory=set)
    """Nodes that do not answer."""
    reapplies: bool = True
    system: System = ASYNC
    members: dict[str, Membership] = field(default_factory=dict)
    """What nodes say of their group; all of them take writes."""
    log: FakeLog = field(init=False)
    load: FakeLoad = field(init=False)
    loss: LossLedger | None = None
    """What is reckoned; None: every row that was acknowledged is on every node."""

    def __post_init__(self) -> None:
        """As it is when nobody has worked on it yet."""
        self.promoted: str | None = None
        """The source, where that is not the first node."""
        self.clock = VirtualClock()
        self.log, self.forecast, self.load = FakeLog(), FakeForecast(), FakeLoad(self, None)
        self.shelf = FakeShelf()
        self.steps: list[str] = []
        self.turns: list[Desired] = []
        """What was asked of knobs, in order."""
        self.troubles: dict[int, Exception] = {}
        """What is raised at these steps, counted from 0."""
        self.on_step: Callable[[int], None] = lambda number: None
        self.requested = {**defaults(self.names[1:]), **self.requested}
        self.effective = dict(self.requested)
        self.attached: int | None = None
        self.rebuilt: list[str] = []
        self.meter: tuple[float, Exposure] | None = None
        self.reserved_by: str | None = None
        self.faults: list[Fault] = []
        self.comebacks: dict[str, Comeback] = {}
        """By kind of fault, what a server came back without."""
        self.owed: PendingRestore | None = None
        self.version = 1
        self.sqls: list[FakeStatements] = []
        self._with_gtids = False
        self.backlog = 0
        """Transactions of the source."""
        self.applied = 0
        """Those of them that the replicas have."""

    async def step(self, what: str, *nodes: str) -> None:
        """One thing that is done: it takes a moment, may fail, and needs these nodes."""
        number = len(self.steps)
        self.steps.append(what)
        self.on_step(number)
        await self.clock.sleep(STEP_S)
        if number in self.troubles:
            raise self.troubles[number]
        if gone := self.down.intersection(nodes):
            raise StackUnavailable(f"{' and '.join(sorted(gone))} does not answer")

    @property
    def names(self) -> list[str]:
        """Of all nodes, the source first."""
        names = node_names(self.replicas)
        source = self.promoted or names[0]
        return [source, *(name for name in names if name != source)]

    def _promote(self, node: str) -> None:
        self.promoted = None if node == node_names(self.replicas)[0] else node

    @property
    def taken(self) -> Taken:
        """As it is now."""
        return Taken(
            dict(self.requested),
            dict(self.effective),
            self.replicas,
            self.attached,
            self.load.settings,
            frozenset(self.down),
            self.reserved_by,
            tuple(map(str, self.faults)),
            self.owed is not None,
            self.names[0],
        )

    # -- looking

    @property
    def seen(self) -> Snapshot:
        """See `StackApi`."""
        waits = self.effective[SEMI_SYNC] == "on"
        return Snapshot(
            source=self.names[0],
            server="mysql of a test",
            nodes=[
                NodeView(
                    name,
                    Role.REPLICA if at and name not in self.members else Role.PRIMARY,
                    name not in self.down,
                    server_uuid=name,
                    gtid_executed=self._executed(at),
                    io_thread="on" if at else None,
                    sql_thread="on" if at else None,
                    member=self.members.get(name),
                )
                for at, name in enumerate(self.names)
            ],
            replicas=self.names[1:],
            knobs={
                name: KnobView(name, value, self.effective[name]) for name, value in self.requested.items()
            },
            version=self.version,
            writer="test (pid 1)",
            is_ours=True,
            protection=Protection(ProtectionState.PROTECTED if waits else ProtectionState.OFF, waits),
            links={name: LinkView(name, rtt_measured_ms=self._rtt_ms(name)) for name in self.names[1:]},
            system=self.system,
        )

    def _executed(self, at: int) -> str | None:
        """Known where it was asked for, as of real servers."""
        return f"a:1-{min(self.applied, self.backlog) if at else self.backlog}" if self._with_gtids else None

    def _rtt_ms(self, replica: str) -> float:
        return float(self.effective.get(KnobName("rtt", replica), 0.0))

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
        """See `StackApi`."""
        self._with_gtids = with_gtids
        await self.step("look")
        return self.seen

    def at_risk(self) -> tuple[float, Exposure] | None:
        """See `StackApi`."""
        return self.meter

    async def cost(self) -> CostSample | None:
        """See `StackApi`."""
        await self.step("cost")
        return None

    async def rtt_ms(self) -> float | None:
        """See `StackApi`."""
        await self.step("rtt_ms")
        return self.seen.rtt_ms

    # -- turning

    def parse(self, text: str) -> Assignment:
        """See `StackApi`."""
        return parse_assignment(text, Roster(tuple(self.names), self.names[0]))

    def check(self, desired: Desired) -> None:
        """See `StackApi`."""

    async def turn(self, desired: Desired) -> None:
        """See `StackApi`."""
        await self.step("turn", *(name.node for name in desired))
        self.turns.append(desired)
        await self.request(desired)
        self.effective.update(desired)
        if self.load.settings is not None and CLIENTS in desired:
            self.load.settings = replace(self.load.settings, clients=int(desired[CLIENTS]))

    async def request(self, desired: Desired) -> None:
        """See `StackApi`."""
        self.requested.update(desired)
        self.version += 1

    def lost(self, nodes: Iterable[str]) -> Desired:
        """See `StackApi`."""
        among = set(nodes)
        if not self.reapplies:
            return {}
        return {
            name: value
            for name, value in self.requested.items()
            if name.node in among and self.effective[name] != value
        }

    # -- nodes

    def sql(self, node: str) -> FakeStatements:
        """See `StackApi`."""
        self.sqls.append(FakeStatements(node, self.answer))
        return self.sqls[-1]

    def dialect(self, node: str) -> Dialect:
        """See `StackApi`."""
        return mysql_9()

    async def scale(self, replicas: int, report: Reporter) -> None:
        """See `StackApi`."""
        await self.step("scale")
        self.replicas = replicas
        fresh = defaults(self.names[1:])
        for values in (self.requested, self.effective):
            known = dict(values)
            values.clear()
            values.update({name: known.get(name, value) for name, value in fresh.items()})

    async def attach(self, replicas: int | None) -> None:
        """See `StackApi`."""
        await self.step("attach", *self.names[1:])
        self.attached = replicas

    # -- breaking something on purpose

    async def inject(self, text: str) -> tuple[Fault, ...]:
        """See `StackApi`."""
        request = parse_fault(text, Roster(tuple(self.names), self.names[0]))
        await self.step(f"inject {text}")
        done = tuple(
            Fault(len(self.faults) + at, request.kind.key, request.value, node, 0.0, None, "test", {})
            for at, node in enumerate(request.nodes, 1)
        )
        self.faults += done
        self.down.update(fault.node for fault in done if fault.kind in _STOPS)
        return done

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """See `StackApi`."""
        await self.step(f"clear {text}")
        over = tuple(
            fault for fault in self.faults if text in (None, fault.kind, f"{fault.kind}@{fault.node}")
        )
        if not over:
            raise UsageError(f"no fault {text} is in force")
        self.faults = [fault for fault in self.faults if fault not in over]
        self.down.difference_update(fault.node for fault in over if fault.kind in _STOPS)
        return tuple(Cleared(fault, self.comebacks.get(fault.kind)) for fault in over)

    async def reckon(self, survivor: str, *, failed_at_s: float | None = None) -> LossLedger:
        """See `StackApi`."""
        await self.load.stop()
        log = await self.load.client_log()
        await self.step("reckon", survivor)
        if self.loss is not None:
            return self.loss
        acknowledged = {client: each.acknowledged for client, each in log.clients.items()}
        rows = {name: acknowledged for name in self.names if name not in self.down}
        return reckon(log, rows, survivor, executed={})

    # -- the experiment

    # -- roles

    async def failover(self, to: str | None = None, *, since_s: float | None = None) -> RoleChange:
        """See `StackApi`."""
        node = to or self.names[1]
        await self.step(f"failover to {node}", node)
        before = self.names[0]
        self._promote(node)
        return RoleChange(ChangeKind.FAILOVER, before, node, fenced=True)

    async def switchover(self, to: str | None = None) -> RoleChange:
        """See `StackApi`."""
        node = to or self.names[1]
        await self.step(f"switchover to {node}", node)
        before = self.names[0]
        self._promote(node)
        return RoleChange(ChangeKind.SWITCHOVER, before, node, fenced=True)

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        """See `StackApi`."""
        await self.step(f"rejoin {node}")
        self.down.discard(node)
        self.rebuilt += [node] if rebuild else []
        return RoleChange(ChangeKind.REJOIN, node, self.names[0], fenced=True)

    async def pending(self) -> None:
        """See `StackApi`: no experiment was killed."""

    async def record(self, pending: PendingRestore | None) -> None:
        """See `StackApi`."""
        self.owed = pending

    @asynccontextmanager
    async def reserved(self, kind: str, name: str) -> AsyncIterator[None]:
        """See `StackApi`."""
        if self.reserved_by is not None:
            raise StackUnavailable(f"the {self.reserved_by} turns the knobs")
        self.reserved_by = f"{kind} {name}"
        try:
            yield
        finally:
            self.reserved_by = None

    def journal(self, kind: str, identity: str) -> FakeJournal:
        """See `StackApi`."""
        return self.shelf(kind, identity)

"""Running a drill: set up, its steps in turn, the rows compared, everything returned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.drill import CAUGHT_UP, WRITING, Doing, Drill, DrillStep
from replexplorer.core.experiment.drill_result import (
    DrillResult,
    FaultSpan,
    MeterReading,
    StateAt,
    between,
    cost_of,
    figures_of,
    first_after,
    judge,
    last_before,
    noted,
    rates_of,
    told_times_s,
)
from replexplorer.core.experiment.experiment import ExperimentProgress, Watch
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import Fault, parse_fault, written
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, KnobName, Value, desired_of
from replexplorer.core.load.interval import Measurement
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import waits_for_both
from replexplorer.core.server.counters import CostSample
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import MemberWatch
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import system_of
from replexplorer.core.topology import SOURCE, Roster
from replexplorer.engine.experiment.restore_guard import RestoreGuard, restore_guard
from replexplorer.engine.experiment.run import Conductor, carry_out
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import Report

_WATCH_EVERY_S: Final = 0.25
_READ_EVERY_S: Final = 0.05
"""Half as long as the meter takes between two looks."""


@dataclass(slots=True)
class DrillCourse:
    """One run's course; seconds since it began."""

    stack: StackApi
    began_s: float
    """On the monotonic clock."""
    timeline: tuple[StateAt, ...] = ()
    windows: tuple[FaultSpan, ...] = ()
    told: list[tuple[float, str]] = field(default_factory=list)
    fallbacks: int | None = None
    measured: Measurement = field(default_factory=Measurement)
    """Of the load, for the pace of what waits for it."""
    readings: list[tuple[float, Exposure]] = field(default_factory=list)
    """What the meter said, each with its second."""
    costs: list[tuple[float, CostSample]] = field(default_factory=list)
    """What the servers' work had cost at its beginning and right before the first fault, each with its
    second."""
    failed_s: float | None = None
    """When the failure was complete; None before."""
    silences: bool = False
    """It ended all commits."""
    mended_s: float | None = None
    """When the mending of the last fault began."""
    _before: int | None = None
    """Falls back, by the server's own count, at the look before."""
    _members: dict[str, MemberWatch] = field(default_factory=dict)
    """Of a group: what each says of itself, one that is cut off too."""
    _measuring: asyncio.Task[object] | None = None

    def now_s(self) -> float:
        """Seconds since it began."""
        return self.stack.clock.monotonic() - self.began_s

    def tell(self, text: str) -> None:
        """Note what was done or seen."""
        self.told.append((self.now_s(), text))

    def take(self, seen: Snapshot) -> None:
        """Note what a look has seen."""
        state = seen.protection.state.value
        if not self.timeline or self.timeline[-1].state != state:
            self.tell(f"protection: {state}")
        self.timeline = noted(self.timeline, self.now_s(), state)
        for node in seen.nodes:
            for _, text in self._members.setdefault(node.name, MemberWatch(node.name)).seen(node.member):
                self.tell(text)
        count = seen.protection.fallbacks
        if count is not None:
            if self._before is not None:
                grown = count - self._before if count >= self._before else count  # a restart counts from 0
                self.fallbacks = (self.fallbacks or 0) + grown
            self._before = count
            self.fallbacks = self.fallbacks or 0

    def read_meter(self) -> None:
        """Note what the meter said since it was read last."""
        found = self.stack.at_risk()
        if found is not None:
            read_s, exposure = found[0] - self.began_s, found[1]
            if not self.readings or self.readings[-1][0] < read_s:
                self.readings.append((read_s, exposure))

    async def count_cost(self) -> None:
        """Note what the servers' work has cost so far; nothing where the source does not answer."""
        at_s = self.now_s()
        found = await self.stack.cost()
        if found is not None:
            self.costs.append((at_s, found))

    def opened(self, faults: Sequence[Fault], from_s: float) -> None:
        """These are in force since a moment."""
        self.windows += tuple(
            FaultSpan(written(fault.kind, fault.value), fault.node, from_s, None) for fault in faults
        )

    def closed(self, faults: Sequence[Fault], to_s: float) -> None:
        """These are over."""
        over = {(written(fault.kind, fault.value), fault.node) for fault in faults}
        self.windows = tuple(
            replace(each, to_s=to_s) if each.to_s is None and (each.fault, each.node) in over else each
            for each in self.windows
        )

    def left_behind(self, node: str) -> None:
        """The node is the source no more: what was done to it has no effect on clients any longer."""
        to_s = self.now_s()
        self.windows = tuple(
            replace(each, to_s=to_s) if each.to_s is None and each.node == node else each
            for each in self.windows
        )

    def read_before(self, at_s: float) -> tuple[float, Exposure] | None:
        """The meter's last reading up to a moment; None where there was none."""
        return next((each for each in reversed(self.readings) if each[0] <= at_s), None)

    def check(self) -> None:
        """Raise what ended the measuring of the load, if anything did."""
        if self._measuring is not None and self._measuring.done():
            self._measuring.result()

    def writes_since(self, at_s: float) -> bool:
        """Whether an interval of the load that began after a moment of the monotonic clock had commits."""
        return any(each.commits for each in self.measured.intervals if each.start_s >= at_s)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look on, and measure the load, until the block ends."""
        self._measuring = asyncio.create_task(
            self.stack.load.measure(duration_s=inf, into=self.measured), name="drill load"
        )
        looking = asyncio.create_task(self._look_on(), name="drill looks")
        reading = asyncio.create_task(self._read_on(), name="drill meter")
        try:
            yield
            if looking.done():
                looking.result()
        finally:
            tasks = (looking, reading, self._measuring)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._measuring = None

    async def _look_on(self) -> None:
        while True:
            with suppress(ReplexplorerError):
                self.take(await self.stack.look())
            await self.stack.clock.sleep(_WATCH_EVERY_S)

    async def _read_on(self) -> None:
        while True:
            self.read_meter()
            await self.stack.clock.sleep(_READ_EVERY_S)


_LOOK_EVERY_S: Final = 0.1
_LEAST_S: Final = 0.001
"""Less than this is over."""
_DURABILITY: Final = (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)
_SILENCING: Final = ("kill", "stop", "pause", "power_cut")
"""Faults after which the source's clients have no OK any more."""


@dataclass(slots=True)
class StepWork:
    """Does what steps say; what it takes the drill's guard restores."""

    guard: RestoreGuard
    course: DrillCourse
    quick: bool
    tell: Report
    changes: list[RoleChange] = field(default_factory=list)
    """Of roles, in order."""
    _failing: bool = False
    """The last step injected something: what follows at once is one failure with it."""

    async def do(self, step: DrillStep) -> None:
        """Carry one out; raises what the stack does, and StackUnavailable for what one waits for in vain."""
        self.course.tell(step.text)
        carries_out: dict[Doing, Callable[[DrillStep], Awaitable[None]]] = {
            Doing.SET: self._set,
            Doing.LOAD: self._load,
            Doing.WAIT: self._wait,
            Doing.INJECT: self._inject,
            Doing.CLEAR: self._clear,
            Doing.UNTIL: self._until,
            Doing.FAILOVER: self._change_roles,
            Doing.SWITCHOVER: self._change_roles,
            Doing.REJOIN: self._change_roles,
        }
        if step.doing is not Doing.INJECT:
            self._failing = False
        await carries_out[step.doing](step)
        self.course.check()

    def node(self, text: str) -> str:
        """The node of a name or an alias; the source for an empty text."""
        return self._roster.find(text) or self.guard.stack.seen.source

    @property
    def _roster(self) -> Roster:
        return self.guard.stack.seen.roster

    async def _set(self, step: DrillStep) -> None:
        await self.guard.turn(desired_of(map(self.guard.stack.parse, step.settings)))

    async def _load(self, step: DrillStep) -> None:
        await self.guard.stack.load.follow(clients=int(step.what))

    async def _wait(self, step: DrillStep) -> None:
        await self._pass_time(0.0 if step.lasts is None else step.lasts.seconds(quick=self.quick))

    async def _pass_time(self, seconds: float) -> None:
        clock = self.guard.stack.clock
        began_s = clock.monotonic()
        while (left_s := began_s + seconds - clock.monotonic()) > _LEAST_S:
            self.tell("", 1 - left_s / seconds)
            await clock.sleep(min(_LOOK_EVERY_S, left_s))
            self.course.check()

    async def _inject(self, step: DrillStep) -> None:
        course, stack = self.course, self.guard.stack
        if not course.windows:
            await course.count_cost()
        if course.failed_s is None or self._failing:
            course.read_meter()
        from_s = course.now_s()
        durable = tuple(stack.seen.effective(KnobName(key, SOURCE)) for key in _DURABILITY)
        request = parse_fault(step.what, self._roster)
        system, loses = stack.seen.system, _loses_rows(request.kind.key, *durable)
        if not system.is_group and stack.seen.source in request.nodes and loses:
            # Its binlog or its rows are short: a replica has, or will get, what it has not.
            await self.guard.rebuild(stack.seen.replicas)
        elif system.elects and stack.seen.source in request.nodes and loses:
            # By its binlog it may have what its engine lost, and then asks the others for none of that.
            await self.guard.rebuild([stack.seen.source])
        done = await self.guard.inject(step.what)
        course.read_meter()
        course.opened(done, from_s)
        silences = done[-1].kind in _SILENCING and done[-1].node == stack.seen.source
        if course.failed_s is None or self._failing or (silences and not course.silences):
            course.failed_s, course.silences = course.now_s(), silences
        self._failing = True
        if step.lasts is not None:
            await self._pass_time(step.lasts.seconds(quick=self.quick))
            self._failing = False
            await self._mend(lambda: self._those(done))

    async def _those(self, faults: Sequence[Fault]) -> Sequence[Fault]:
        return [over for fault in faults for over in await self.guard.clear(f"{fault.kind}@{fault.node}")]

    async def _clear(self, step: DrillStep) -> None:
        await self._mend(lambda: self.guard.clear(step.what or None))

    async def _mend(self, mending: Callable[[], Awaitable[Sequence[Fault]]]) -> None:
        course = self.course
        course.mended_s = course.now_s()
        over = await mending()
        course.closed(over, course.now_s())

    async def _until(self, step: DrillStep) -> None:
        within_s = 0.0 if step.lasts is None else step.lasts.seconds(quick=self.quick)
        stack = self.guard.stack
        if step.what == WRITING:
            from_s = stack.clock.monotonic()
            while not self.course.writes_since(from_s):
                if stack.clock.monotonic() - from_s > within_s:
                    raise StackUnavailable(
                        f"no commit was acknowledged for {within_s:g} s", "`replexplorer status` shows why"
                    )
                await stack.clock.sleep(_LOOK_EVERY_S)
                self.course.check()
        elif step.what == CAUGHT_UP:
            if not await stack.caught_up(within_s):
                raise StackUnavailable(
                    f"a replica has not caught up within {within_s:g} s",
                    "`replexplorer status` shows its lag",
                )
        else:
            await reach(self.guard, step.what, within_s)

    async def _change_roles(self, step: DrillStep) -> None:
        stack, course = self.guard.stack, self.course
        before = stack.seen.source
        node = self.node(step.what) if step.what else None
        if step.doing is Doing.FAILOVER:
            since_s = None if course.failed_s is None else course.began_s + course.failed_s
            change = await stack.failover(node, since_s=since_s)
        elif step.doing is Doing.SWITCHOVER:
            change = await stack.switchover(node)
        else:
            change = await stack.rejoin(self.node(step.what))
        self.changes.append(change)
        for each in change.steps:
            course.tell(f"{each.node}: {each.name}, {each.took_ms:.0f} ms")
        if stack.seen.source != before:
            course.left_behind(before)


def _loses_rows(kind: str, sync_binlog: Value | None, flush: Value | None) -> bool:
    """Whether a source that comes back after this may lack what its replicas have."""
    if kind == "power_cut":
        return not waits_for_both(sync_binlog, flush)
    return kind == "kill" and flush == 0


async def reach(guard: RestoreGuard, state: str, within_s: float) -> None:
    """Wait for a protection state; raises StackUnavailable naming the one that is there instead."""
    await guard.until_state(ProtectionState(state), within_s=within_s)
    found = guard.stack.seen.protection.state
    if found.value != state:
        raise StackUnavailable(
            f"protection is {found} and not {state} after {within_s:g} s", "`replexplorer status` shows why"
        )


_SETTLES_S: Final = 0.5
_ALWAYS: Final = (
    keys.SEMI_SYNC,
    keys.WAIT_POINT,
    keys.SYNC_BINLOG,
    keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT,
)
"""Knobs of the source that a loss depends on."""


@dataclass(slots=True)
class DrillRun:
    """One run of a drill (`stack_api.Procedure`)."""

    drill: Drill
    quick: bool = False
    watch: Watch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    _number: int = 0

    def __post_init__(self) -> None:
        """Tell of its steps what is so under its settings."""
        self.drill = self.drill.narrated

    async def run(self, stack: StackApi) -> DrillResult:
        """Run it to its end. A server that is missed, what is waited for in vain and a presenter's abort end
        it as aborted; whatever ends it, its rollback runs and what it took is returned.

        Raises UsageError for what this stack cannot have, StackUnavailable while another driver holds the
        load or another experiment runs; nothing is changed by then.
        """

        def check(seen: Snapshot) -> None:
            self._check_system(seen)
            for text in self._settings():
                stack.parse(text)

        result = DrillResult(
            self.drill,
            self.drill.clients,
            server=stack.seen.server,
            started_wall_s=stack.clock.wall(),
            quick=self.quick,
        )
        async with restore_guard(stack, "drill", self.drill.name, check=check, report=self._tell) as guard:
            course = DrillCourse(stack, stack.clock.monotonic())
            work = StepWork(guard, course, self.quick, self._tell)
            try:
                await carry_out(self._work(result, work), guard, self.conductor, result)
            finally:
                await to_the_end(self._roll_back(work))
                _keep(result, work)
        result.repaired, result.unrestored = tuple(guard.repaired), guard.unrestored
        if result.aborted is None:
            result.expectations = judge(self.drill.expects, figures_of(result), result.timeline)
        return result

    def _check_system(self, seen: Snapshot) -> None:
        """Raise UsageError for a drill of another system than the stack's."""
        if seen.system.name not in self.drill.systems:
            meant = " or ".join(system_of(name).title for name in self.drill.systems)
            raise UsageError(
                f"{self.drill.name} is a drill of {meant}, and this stack is {seen.system.title}",
                "`replexplorer drill list` says which are for it",
            )

    def _settings(self) -> Iterable[str]:
        yield from self.drill.settings
        for step in (*self.drill.steps, *self.drill.rollback):
            yield from step.settings

    async def _work(self, result: DrillResult, work: StepWork) -> None:
        """Set up, run, reckon."""
        await self._set_up(result, work)
        async with work.course.watched():
            await self._steps(work)
        await self._reckon(result, work)

    async def _set_up(self, result: DrillResult, work: StepWork) -> None:
        guard, stack, drill = work.guard, work.guard.stack, self.drill
        self._tell("setting up", None)
        if drill.sets:
            stack.log.tell(Severity.INFO, drill.sets)
        await guard.enough_replicas(drill.replicas)
        await guard.look_alive()
        await guard.turn(desired_of(map(stack.parse, drill.settings)))
        await stack.load.keep_ledger(clients=drill.clients)
        for precheck in drill.prechecks:
            self._tell(f"waiting until {precheck.state}", None)
            await reach(guard, precheck.state, precheck.within_s)
        await stack.clock.sleep(_SETTLES_S)
        course = work.course
        course.began_s, result.started_wall_s = stack.clock.monotonic(), stack.clock.wall()
        course.take(await stack.look())
        await course.count_cost()
        result.system = stack.seen.system.name
        result.server, result.settings = stack.seen.server, self._effective(stack)

    def _effective(self, stack: StackApi) -> dict[KnobName, Value]:
        """The drill's knobs and those that a loss depends on, as they are."""
        names = [name for text in self.drill.settings for name in stack.parse(text).names]
        names += [KnobName(key, SOURCE) for key in _ALWAYS if stack.seen.system.has(BY_KEY[key])]
        found: dict[KnobName, Value] = {}
        for name in dict.fromkeys(names):
            effective = stack.seen.effective(name)
            found[name] = stack.seen.requested(name) if effective is None else effective
        return found

    async def _steps(self, work: StepWork) -> None:
        for number, step in enumerate(self.drill.steps, 1):
            self._number = number
            self._tell(step.text, 0.0)
            self._announce(work, number, step)
            await work.do(step)
            if number < len(self.drill.steps) and self.conductor.holds:
                self._tell("waiting for the next step", 1.0)
                await self.conductor.gate()

    def _announce(self, work: StepWork, number: int, step: DrillStep) -> None:
        """Say in the log what is done now; a fault and a turned knob have marks of their own."""
        shows = f": {step.shows}" if step.shows else ""
        text = f"step {number} of {len(self.drill.steps)}, {step.text}{shows}"
        work.guard.stack.log.tell(Severity.INFO, text)

    async def _reckon(self, result: DrillResult, work: StepWork) -> None:
        """Compare what clients were told with the rows that are there."""
        course, stack = work.course, work.guard.stack
        self._number = 0
        self._tell("comparing rows", None)
        end_s = course.now_s()
        if not course.windows:
            await course.count_cost()
        await stack.load.stop()
        times_s = [time_s - course.began_s for time_s in told_times_s(await stack.load.client_log())]
        failed_s = course.failed_s
        reading = None if failed_s is None else course.read_before(failed_s)
        if failed_s is not None and course.silences:
            # The server died within the injection: with the last OK that a client had before its end.
            failed_s = course.failed_s = last_before(times_s, failed_s) or failed_s
        failed_at_s = None if failed_s is None else course.began_s + failed_s
        result.ledger = await stack.reckon(work.node(self.drill.survivor), failed_at_s=failed_at_s)
        result.duration_s = course.now_s()
        await work.guard.rebuild(
            node
            for node, rows in result.ledger.nodes.items()
            if node not in (result.ledger.survivor, stack.seen.source) and (rows.extra or rows.errant_gtids)
        )
        if course.mended_s is not None:
            again_s = first_after(times_s, course.mended_s)
            result.recovery_ms = None if again_s is None else (again_s - course.mended_s) * 1000
        if failed_s is not None and reading is not None:
            read_s, exposure = reading
            # The look may have followed the last OK.
            read_s = min(read_s, failed_s)
            result.reading = MeterReading(exposure, read_s, failed_s, between(times_s, read_s, failed_s))
        result.cost = cost_of(course.costs, times_s)
        result.rates_tps = rates_of(times_s, course.windows, end_s)

    async def _roll_back(self, work: StepWork) -> None:
        """The drill's own rollback, each step whatever became of those before."""
        self._number = 0
        for step in self.drill.rollback:
            try:
                await work.do(step)
            except ReplexplorerError as error:
                work.guard.stack.log.tell(Severity.WARN, f"rollback, {step.text}: {error}")

    def _tell(self, doing: str, done: float | None = None) -> None:
        """Say what is done now; an empty text: the step that is under way."""
        steps = self.drill.steps
        left_s = sum(step.seconds(quick=self.quick) for step in steps[self._number :])
        if self._number:
            step = steps[self._number - 1]
            left_s += step.seconds(quick=self.quick) * (1 - (done or 0.0))
            doing = doing or step.text
        self.watch(ExperimentProgress(self.drill, self._number, doing, done, left_s))


def _keep(result: DrillResult, work: StepWork) -> None:
    """What is known, however far it came."""
    course = work.course
    result.windows, result.timeline = course.windows, course.timeline
    result.role_changes = tuple(work.changes)
    result.comebacks = tuple(work.guard.comebacks)
    result.course, result.fallbacks = tuple(course.told), course.fallbacks
    result.duration_s = result.duration_s or course.now_s()

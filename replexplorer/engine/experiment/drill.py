"""Running a drill: set up, its steps in turn, the rows compared, everything returned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.drill import CAUGHT_UP, WRITING, Doing, Drill, DrillStep
from replexplorer.core.experiment.drill_result import (
    DrillResult,
    FaultSpan,
    MeterReading,
    Moment,
    StateAt,
    between,
    cost_of,
    figures_of,
    first_after,
    judge,
    last_before,
    rates_of,
    told_times_s,
)
from replexplorer.core.experiment.experiment import Watch
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import Fault, parse_fault, written
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, KnobName, Value, desired_of
from replexplorer.core.load.interval import Measurement
from replexplorer.core.records import dataclass, field
from replexplorer.core.server.comeback import waits_for_both
from replexplorer.core.server.counters import CostSample
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import Membership, member_news
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import SOURCE
from replexplorer.engine.experiment.restore_guard import RestoreGuard
from replexplorer.engine.experiment.run import Conductor, StagesUnderWay, carry_out
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.tasks import end_all, to_the_end

_LOOK_EVERY_S: Final = 0.25
_POLL_S: Final = 0.1
_LEAST_S: Final = 0.001
"""Less than this is over."""
_SETTLES_S: Final = 0.5
_DURABILITY: Final = (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)
_ALWAYS: Final = (keys.SEMI_SYNC, keys.WAIT_POINT, *_DURABILITY)
"""Knobs of the source that a loss depends on."""
_SILENCING: Final = ("kill", "stop", "pause", "power_cut")
"""Faults after which the source's clients have no OK any more."""


@dataclass(slots=True)
class DrillRun:
    """One run of a drill (`stack_api.Procedure`)."""

    drill: Drill
    quick: bool = False
    watch: Watch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)

    def __post_init__(self) -> None:
        """Tell of its steps what is so under its settings."""
        self.drill = self.drill.narrated

    async def run(self, stack: StackApi) -> DrillResult:
        """Run it to its end. A server that is missed, what is waited for in vain and a presenter's abort end
        it as aborted; whatever ends it, its rollback runs and what it took is returned.

        Raises UsageError for what this stack cannot have, StackUnavailable while another driver holds the
        load or another experiment runs; nothing is changed by then.
        """
        drill = self.drill
        result = DrillResult(drill, drill.clients, quick=self.quick)
        takes_s = [step.seconds(quick=self.quick) for step in drill.steps]
        stages = StagesUnderWay(drill, self.watch, self.conductor, takes_s)

        async def work(guard: RestoreGuard) -> None:
            result.repaired = guard.repaired  # its guard may add to it until the end
            under_way = _DrillUnderWay(guard, self, result, stages, stack.clock.monotonic())
            try:
                await under_way.work()
            finally:
                await to_the_end(under_way.roll_back())
            if under_way.disturbances:
                result.aborted = f"changed while it ran, {'; '.join(under_way.disturbances)}"

        await carry_out(work, stack, result, stages, partial(self._check, stack))
        if result.aborted is None:
            result.relations = judge(drill.expects, figures_of(result), result.timeline)
        return result

    def _check(self, stack: StackApi, seen: Snapshot) -> None:
        """Raise UsageError for a drill of another system than the stack's, and for what cannot be set."""
        if why := self.drill.unfit(seen.system):
            raise UsageError(
                f"the drill {self.drill.name} {why}, and this stack is {seen.system.title}",
                "see `replexplorer drill list`",
            )
        steps = (*self.drill.steps, *self.drill.rollback)
        for text in (*self.drill.settings, *(text for step in steps for text in step.settings)):
            stack.controls.parse(text)


@dataclass(slots=True)
class _DrillUnderWay:
    """Does what the steps say and notes in the result what is seen meanwhile; what it takes its guard
    restores. Moments are seconds since it began."""

    guard: RestoreGuard
    run: DrillRun
    result: DrillResult
    stages: StagesUnderWay
    began_s: float
    """On the monotonic clock."""
    _measured: Measurement = field(default_factory=Measurement)
    """Of the load, for the pace of what waits for it."""
    _measuring: asyncio.Task[object] | None = None
    _reading: tuple[float, Exposure] | None = None
    """What the meter said last before the failure was complete, and when on the monotonic clock."""
    _costs: list[tuple[float, CostSample]] = field(default_factory=list)
    """What the servers' work had cost at its beginning and right before the first fault, each with its
    moment."""
    _held_from_s: float = inf
    """When the first fault was in force."""
    _held_to_s: float = inf
    """When the last one that is over began to end."""
    _failed_s: float | None = None
    """When the failure was complete; None before."""
    _failing: bool = False
    """The last step injected something: what follows at once is one failure with it."""
    _silences: bool = False
    """The failure ended all commits."""
    _mended_s: float | None = None
    """When the clearing of the last fault began."""
    _fallbacks: int | None = None
    """By the server's own count, at the look before."""
    _members: dict[str, Membership] = field(default_factory=dict)
    """Of a group: what each says of itself, one that is cut off too."""
    disturbances: dict[str, None] = field(default_factory=dict)
    """What somebody else asked of knobs meanwhile, until the source is another node."""

    @property
    def drill(self) -> Drill:
        """What is run."""
        return self.run.drill

    @property
    def stack(self) -> StackApi:
        """What it is run on."""
        return self.guard.stack

    def now_s(self) -> float:
        """Seconds since it began."""
        return self.stack.clock.monotonic() - self.began_s

    async def work(self) -> None:
        """Set up, run, compare."""
        await self._set_up()
        async with self._watched():
            for number, step in enumerate(self.drill.steps, 1):
                if number > 1:
                    await self.stages.gate()
                self.stages.begin(number, step.text)
                shows = f": {step.shows}" if step.shows else ""
                text = f"step {number} of {len(self.drill.steps)}, {step.text}{shows}"
                self.stack.log.tell(Severity.INFO, text)
                await self._do(step)
        await self._compare_rows()

    async def roll_back(self) -> None:
        """The drill's own rollback, each step whatever became of those before; then note what is known,
        however far it came."""
        self.stages.at = 0
        for step in self.drill.rollback:
            try:
                await self._do(step)
            except ReplexplorerError as error:
                self.stack.log.tell(Severity.WARN, f"rollback, {step.text}: {error}")
        self.result.duration_s = self.result.duration_s or self.now_s()
        self.result.comebacks = tuple(self.guard.comebacks)

    async def _set_up(self) -> None:
        guard, stack, drill, result = self.guard, self.stack, self.drill, self.result
        self.stages.tell("setting up")
        if drill.sets:
            stack.log.tell(Severity.INFO, drill.sets)
        await guard.enough_replicas(drill.replicas)
        await guard.look_alive()
        await guard.turn(desired_of(map(stack.controls.parse, drill.settings)))
        await stack.load.keep_ledger(clients=drill.clients)
        for precheck in drill.prechecks:
            self.stages.tell(f"waiting until {precheck.state}")
            await self._reach(precheck.state, precheck.within_s)
        await stack.clock.sleep(_SETTLES_S)
        self.began_s, result.started_wall_s = stack.clock.monotonic(), stack.clock.wall()
        self._take(await guard.look())
        await self._count_cost()
        seen = stack.seen
        names = [name for text in drill.settings for name in stack.controls.parse(text).names]
        names += [KnobName(key, SOURCE) for key in _ALWAYS if seen.system.has(BY_KEY[key])]
        result.system, result.server = seen.system.name, seen.server
        result.settings = {
            name: seen.requested(name) if (effective := seen.effective(name)) is None else effective
            for name in dict.fromkeys(names)
        }

    # -- what is seen meanwhile

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Look on, and measure the load, until the block ends."""
        self._measuring = asyncio.create_task(
            self.stack.load.measure(duration_s=inf, into=self._measured), name="drill load"
        )
        looking = asyncio.create_task(self._look_on(), name="drill looks")
        try:
            yield
            if looking.done():
                looking.result()
        finally:
            await end_all(looking, self._measuring)
            self._measuring = None

    async def _look_on(self) -> None:
        while True:
            with suppress(ReplexplorerError):
                self._take(await self.stack.look())
            await self.stack.clock.sleep(_LOOK_EVERY_S)

    def _note(self, text: str) -> None:
        """Note what was done or seen."""
        self.result.course.append(Moment(self.now_s(), text))

    def _take(self, seen: Snapshot) -> None:
        """Note what a look has seen."""
        result, state = self.result, seen.protection.state.value
        if not seen.is_ours and seen.source == self.guard.source:
            self.disturbances |= dict.fromkeys(self.guard.baseline.asked(seen).values())
        if not result.timeline or result.timeline[-1].state != state:
            self._note(f"protection: {state}")
            result.timeline.append(StateAt(self.now_s(), state))
        for node in seen.nodes:
            for _, text in member_news(node.name, self._members.get(node.name), node.member):
                self._note(text)
            if node.member is not None:
                self._members[node.name] = node.member
        count, before = seen.protection.fallbacks, self._fallbacks
        if count is not None:
            # A restart counts from 0.
            grown = 0 if before is None else count - before if count >= before else count
            result.fallbacks, self._fallbacks = (result.fallbacks or 0) + grown, count

    async def _count_cost(self) -> None:
        """Note what the servers' work has cost so far; nothing where the source does not answer."""
        at_s = self.now_s()
        if (found := await self.stack.cost()) is not None:
            self._costs.append((at_s, found))

    def _end_windows(self, ending_s: float, is_over: Callable[[FaultSpan], bool]) -> None:
        """These faults have no effect on clients any longer, and began to end then."""
        for each in self.result.windows:
            if each.to_s is None and is_over(each):
                each.to_s, self._held_to_s = self.now_s(), ending_s

    def _check_load(self) -> None:
        """Raise what ended the measuring of the load, if anything did."""
        if self._measuring is not None and self._measuring.done():
            self._measuring.result()

    # -- what the steps do

    async def _do(self, step: DrillStep) -> None:
        """Carry one out; raises what the stack does, and StackUnavailable for what one waits for in vain."""
        self._note(step.text)
        stack = self.stack
        lasts_s = 0.0 if step.lasts is None else step.lasts.seconds(quick=self.run.quick)
        self._failing = self._failing and step.doing is Doing.INJECT
        match step.doing:
            case Doing.SET:
                await self.guard.turn(desired_of(map(stack.controls.parse, step.settings)))
            case Doing.LOAD:
                await stack.load.follow(clients=int(step.what))
            case Doing.WAIT:
                await self._pass_time(step.text, lasts_s)
            case Doing.INJECT:
                done = await self._inject(step.what)
                if step.lasts is not None:
                    await self._pass_time(step.text, lasts_s)
                    self._failing = False
                    await self._mend(*(f"{fault.kind}@{fault.node}" for fault in done))
            case Doing.CLEAR:
                await self._mend(step.what or None)
            case Doing.UNTIL:
                await self._until(step.what, lasts_s)
            case _:
                await self._change_roles(step)
        self._check_load()

    async def _pass_time(self, doing: str, seconds: float) -> None:
        clock = self.stack.clock
        ends_s = clock.monotonic() + seconds
        while (left_s := ends_s - clock.monotonic()) > _LEAST_S:
            self.stages.tell(doing, 1 - left_s / seconds)
            await clock.sleep(min(_POLL_S, left_s))
            self._check_load()

    async def _inject(self, what: str) -> Sequence[Fault]:
        stack, result = self.stack, self.result
        if not result.windows:
            await self._count_cost()
        from_s, seen = self.now_s(), stack.seen
        durable = [seen.effective(KnobName(key, SOURCE)) for key in _DURABILITY]
        request = parse_fault(what, seen.roster)
        if seen.source in request.nodes and _loses_rows(request.kind.key, *durable):
            if not seen.system.is_group:
                # Its binlog or its rows are short: a replica has, or will get, what it has not.
                await self.guard.rebuild(seen.replicas)
            elif seen.system.elects:
                # By its binlog it may have what its engine lost, and then asks the others for none of that.
                await self.guard.rebuild([seen.source])
        done = await self.guard.inject(what)
        self._held_from_s = min(self._held_from_s, self.now_s())
        result.windows += [
            FaultSpan(written(each.kind, each.value), each.node, from_s, None) for each in done
        ]
        silences = done[-1].kind in _SILENCING and done[-1].node == stack.seen.source
        if self._failed_s is None or self._failing or (silences and not self._silences):
            self._failed_s, self._silences = self.now_s(), silences
            self._reading = stack.at_risk()
        self._failing = True
        return done

    async def _mend(self, *texts: str | None) -> None:
        """Clear what each of these means, all for None."""
        self._mended_s = self.now_s()
        over = [fault for text in texts for fault in await self.guard.clear(text)]
        gone = {(written(fault.kind, fault.value), fault.node) for fault in over}
        self._end_windows(self._mended_s, lambda each: (each.fault, each.node) in gone)

    async def _until(self, what: str, within_s: float) -> None:
        stack = self.stack
        if what == WRITING:
            from_s = stack.clock.monotonic()
            while not any(each.commits for each in self._measured.intervals if each.start_s >= from_s):
                if stack.clock.monotonic() - from_s > within_s:
                    raise StackUnavailable(
                        f"no commit was acknowledged for {within_s:g} s", "see `replexplorer status`"
                    )
                await stack.clock.sleep(_POLL_S)
                self._check_load()
        elif what != CAUGHT_UP:
            await self._reach(what, within_s)
        elif not await stack.caught_up(within_s):
            raise StackUnavailable(
                f"a replica has not caught up within {within_s:g} s", "see its lag in `replexplorer status`"
            )

    async def _reach(self, state: str, within_s: float) -> None:
        """Wait for a protection state; raises StackUnavailable naming the one that is there instead."""
        await self.guard.until_state(ProtectionState(state), within_s=within_s)
        found = self.stack.seen.protection.state
        if found.value != state:
            raise StackUnavailable(
                f"protection is {found} and not {state} after {within_s:g} s",
                "see `replexplorer status`",
            )

    def _node(self, text: str) -> str:
        """The node of a name or an alias; the source for an empty text."""
        return self.stack.seen.roster.find(text) or self.stack.seen.source

    async def _change_roles(self, step: DrillStep) -> None:
        stack = self.stack
        before, node = stack.seen.source, self._node(step.what) if step.what else None
        if step.doing is Doing.FAILOVER:
            since_s = None if self._failed_s is None else self.began_s + self._failed_s
            change = await stack.roles.failover(node, since_s=since_s, anyway=True)
        elif step.doing is Doing.SWITCHOVER:
            change = await stack.roles.switchover(node, anyway=True)
        else:
            change = await stack.rejoin(self._node(step.what))
        self.result.role_changes.append(change)
        for each in change.steps:
            self._note(f"{each.node}: {each.name}, {each.took_ms:.0f} ms")
        if stack.seen.source != before:
            self._end_windows(self.now_s(), lambda each: each.node == before)

    # -- what came of it

    async def _compare_rows(self) -> None:
        """Compare what clients were told with the rows that are there."""
        stack, result = self.stack, self.result
        self.stages.at = 0
        self.stages.tell("comparing rows")
        end_s = self.now_s()
        if not result.windows:
            await self._count_cost()
        await stack.load.stop()
        times_s = [time_s - self.began_s for time_s in told_times_s(await stack.load.client_log())]
        failed_s = self._failed_s
        if failed_s is not None and self._silences:
            # The server died within the injection: with the last OK that a client had before its end.
            failed_s = last_before(times_s, failed_s) or failed_s
        failed_at_s = None if failed_s is None else self.began_s + failed_s
        ledger = result.ledger = await stack.count_losses(
            self._node(self.drill.survivor), failed_at_s=failed_at_s
        )
        result.duration_s = self.now_s()
        await self.guard.rebuild(
            node
            for node, rows in ledger.nodes.items()
            if node not in (ledger.survivor, stack.seen.source) and (rows.extra or rows.errant_gtids)
        )
        if self._mended_s is not None:
            again_s = first_after(times_s, self._mended_s)
            result.recovery_ms = None if again_s is None else (again_s - self._mended_s) * 1000
        if failed_s is not None and self._reading is not None:
            read_at_s, exposure = self._reading
            read_s = min(read_at_s - self.began_s, failed_s)  # the look may have followed the last OK
            result.reading = MeterReading(exposure, read_s, failed_s, between(times_s, read_s, failed_s))
        result.cost = cost_of(self._costs, times_s)
        held_s = self._held_from_s, self._held_to_s
        result.tps = rates_of(times_s, result.windows, held_s, end_s)


def _loses_rows(kind: str, sync_binlog: Value | None, flush: Value | None) -> bool:
    """Whether a source that comes back after this may lack what its replicas have."""
    if kind == "power_cut":
        return not waits_for_both(sync_binlog, flush)
    return kind == "kill" and flush == 0

"""Running a drill: set up, its steps in turn, the rows compared, everything returned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.drill import Drill, DrillStep
from replexplorer.core.experiment.drill_result import (
    DrillResult,
    MeterReading,
    between,
    cost_of,
    figures_of,
    first_after,
    last_before,
    rates_of,
    told_times_s,
)
from replexplorer.core.experiment.drill_verdict import judge
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, KnobName, Value, desired_of
from replexplorer.core.system import system_of
from replexplorer.core.topology import SOURCE
from replexplorer.engine.experiment.conductor import Conductor, why_aborted
from replexplorer.engine.experiment.drills.course import DrillCourse
from replexplorer.engine.experiment.drills.progress import DrillProgress, DrillWatch
from replexplorer.engine.experiment.drills.steps import StepWork, reach
from replexplorer.engine.experiment.loan import on_loan
from replexplorer.engine.experiment.rig import Rig
from replexplorer.engine.finish import to_the_end

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
    """One run of a drill (`rig.Procedure`)."""

    drill: Drill
    quick: bool = False
    watch: DrillWatch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    _number: int = 0

    def __post_init__(self) -> None:
        """Tell of its steps what is so under its settings."""
        self.drill = self.drill.narrated

    async def run(self, rig: Rig) -> DrillResult:
        """Run it to its end. A server that is missed, what is waited for in vain and a presenter's abort end
        it as aborted; whatever ends it, its rollback runs and what it took is returned.

        Raises UsageError for what this stack cannot have, StackUnavailable while another driver holds the
        load or another experiment runs; nothing is changed by then.
        """

        def check(seen: Sighting) -> None:
            self._check_system(seen)
            for text in self._settings():
                rig.parse(text)

        result = DrillResult(self.drill, rig.seen.server, rig.clock.wall(), self.quick, self.drill.clients)
        async with on_loan(rig, "drill", self.drill.name, check=check, report=self._tell) as loan:
            course = DrillCourse(rig, rig.clock.monotonic())
            work = StepWork(loan, course, self.quick, self._tell)
            try:
                result.aborted = await why_aborted(self._work(result, work), loan, self.conductor)
            finally:
                await to_the_end(self._roll_back(work))
                _keep(result, work)
            if result.aborted is not None:
                loan.outcome = "was aborted"
        result.repaired, result.unrestored = tuple(loan.repaired), loan.unrestored
        if result.aborted is None:
            result.expectations = judge(self.drill.expects, figures_of(result), result.timeline)
        else:
            rig.log.tell(Severity.BAD, f"the drill was aborted: {result.aborted}")
        return result

    def _check_system(self, seen: Sighting) -> None:
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
        loan, rig, drill = work.loan, work.loan.rig, self.drill
        self._tell("setting up", None)
        if drill.sets:
            rig.log.tell(Severity.INFO, drill.sets)
        await loan.enough_replicas(drill.replicas)
        await loan.look_alive()
        await loan.turn(desired_of(map(rig.parse, drill.settings)))
        await rig.load.keep_ledger(clients=drill.clients)
        for precheck in drill.prechecks:
            self._tell(f"waiting until {precheck.state}", None)
            await reach(loan, precheck.state, precheck.within_s)
        await rig.clock.sleep(_SETTLES_S)
        course = work.course
        course.began_s, result.started_wall_s = rig.clock.monotonic(), rig.clock.wall()
        course.take(await rig.look())
        await course.count_cost()
        result.system = rig.seen.system.name
        result.server, result.settings = rig.seen.server, self._effective(rig)

    def _effective(self, rig: Rig) -> dict[KnobName, Value]:
        """The drill's knobs and those that a loss depends on, as they are."""
        names = [name for text in self.drill.settings for name in rig.parse(text).names]
        names += [KnobName(key, SOURCE) for key in _ALWAYS if rig.seen.system.has(BY_KEY[key])]
        found: dict[KnobName, Value] = {}
        for name in dict.fromkeys(names):
            effective = rig.seen.effective(name)
            found[name] = rig.seen.requested(name) if effective is None else effective
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
        work.loan.rig.log.tell(Severity.INFO, text)

    async def _reckon(self, result: DrillResult, work: StepWork) -> None:
        """Compare what clients were told with the rows that are there."""
        course, rig = work.course, work.loan.rig
        self._number = 0
        self._tell("comparing rows", None)
        end_s = course.now_s()
        if not course.windows:
            await course.count_cost()
        await rig.load.stop()
        times_s = [time_s - course.began_s for time_s in told_times_s(await rig.load.client_log())]
        failed_s = course.failed_s
        reading = None if failed_s is None else course.read_before(failed_s)
        if failed_s is not None and course.silences:
            # The server died within the injection: with the last OK that a client had before its end.
            failed_s = course.failed_s = last_before(times_s, failed_s) or failed_s
        failed_at_s = None if failed_s is None else course.began_s + failed_s
        result.ledger = await rig.reckon(work.node(self.drill.survivor), failed_at_s=failed_at_s)
        result.duration_s = course.now_s()
        await work.loan.rebuild(
            node
            for node, rows in result.ledger.nodes.items()
            if node not in (result.ledger.survivor, rig.seen.source) and (rows.extra or rows.errant_gtids)
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
                work.loan.rig.log.tell(Severity.WARN, f"rollback, {step.text}: {error}")

    def _tell(self, doing: str, done: float | None = None) -> None:
        """Say what is done now; an empty text: the step that is under way."""
        steps = self.drill.steps
        left_s = sum(step.seconds(quick=self.quick) for step in steps[self._number :])
        if self._number:
            step = steps[self._number - 1]
            left_s += step.seconds(quick=self.quick) * (1 - (done or 0.0))
            doing = doing or step.text
        self.watch(DrillProgress(self.drill, self._number, doing, done, left_s))


def _keep(result: DrillResult, work: StepWork) -> None:
    """What is known, however far it came."""
    course = work.course
    result.windows, result.timeline = course.windows, course.timeline
    result.role_changes = tuple(work.changes)
    result.comebacks = tuple(work.loan.comebacks)
    result.told, result.fallbacks = tuple(course.told), course.fallbacks
    result.duration_s = result.duration_s or course.now_s()

"""A lesson under way on a live stack: its steps, its questions, and what was measured of them.

Law: all is done at a console, by the rules of who may do what. Each step's start is known, and going back,
beginning a step again and the end return to one. After a kill nothing of a lesson is owed: its knobs are
requested as those that somebody has typed, and what its labs and drills took the next start restores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.drill import CAUGHT_UP, WRITING, Doing, Drill, DrillStep
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.drill_result import figures_of as figures_of_drill
from replexplorer.core.experiment.experiment import (
    ExperimentProgress,
    ExperimentResult,
    Watch,
)
from replexplorer.core.experiment.lab import LabResult, Length, Phase
from replexplorer.core.experiment.lesson import Answered, Lesson, LessonResult, LessonState, LessonStep
from replexplorer.core.experiment.relations import Found, figures_of
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SEMI_SYNC, Assignment
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.load.script import read_script
from replexplorer.core.load.workload import WORKLOADS
from replexplorer.core.server.exposure import FAILURES
from replexplorer.core.server.protection import Look, ProtectionState, unprotected_between
from replexplorer.engine.experiment.matrix import run_of
from replexplorer.engine.experiment.phase import Act, measured_rtt
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.tasks import Patience, to_the_end
from replexplorer.ports import Clock, execute

if TYPE_CHECKING:
    from replexplorer.engine.console import Console
    from replexplorer.engine.experiment.stack_api import StackApi

_WARMUP_S: Final = 2.0
_RTT_LOOKS: Final = 4
_LOOK_EVERY_S: Final = 0.25
_APPLIED_WITHIN_S: Final = 120.0


class LessonRun:
    """A lesson under way on a live stack, for the dashboard and for a run without a terminal."""

    def __init__(
        self,
        lesson: Lesson,
        console: Console,
        *,
        named: Callable[[str, str], Any],
        watch: Callable[[], object],
        clock: Clock,
    ) -> None:
        """`named` gives the `lab`, `drill` or `preset` of a name. `watch` is called whenever `state` or what
        is done may have changed."""
        self.lesson = lesson
        self.at = 0
        """The index of the step."""
        self.is_open = False
        """Its question waits for an answer."""
        self.busy = ""
        """What is being done; empty where nothing is."""
        self.answers: list[Answered] = []
        self.figures: dict[str, float] = {}
        """All that was measured, `STEP.FIGURE`."""
        self._console, self._clock = console, clock
        self._named, self.watch = named, watch
        self._began_wall_s = clock.wall()
        self._starts: list[Snapshot] = []
        """What was so at the beginning of the steps up to this one."""
        self._ran = True
        """Our load did before the lesson began."""

    @property
    def step(self) -> LessonStep:
        """The one that is under way."""
        return self.lesson.steps[self.at]

    @property
    def state(self) -> LessonState:
        """Where it is."""
        lesson, step = self.lesson, self.step
        return LessonState(
            lesson.name,
            lesson.title,
            lesson.minutes,
            self._began_wall_s,
            self.at + 1,
            len(lesson.steps),
            step.name,
            step.note,
            self.is_open,
            step.ask.words if step.ask else "",
            tuple(self.answers),
        )

    @property
    def result(self) -> LessonResult:
        """What it has come to so far."""
        return LessonResult(
            lesson=self.lesson,
            server=self._console.stack.seen.server,
            started_wall_s=self._began_wall_s,
            answers=list(self.answers),
            figures=dict(self.figures),
            relations=[each.relation for each in self.answers],
        )

    # -- going through it

    async def begin(self) -> None:
        """Enter the first step, with our load running; raises UsageError where this stack lacks a knob that
        is turned, LoadTaken where somebody else drives."""
        stack = self._console.stack
        with self._working("starting the load"):
            start = await stack.look()
            if why := self.lesson.unfit(start.system):
                raise UsageError(f"the lesson {self.lesson.name} cannot be given here", f"it {why}")
            self._starts, self._ran = [start], stack.load.runs
            if not self._ran:
                await self._console.toggle_load()
            await self._enter(0)

    async def next(self) -> None:
        """Enter the step behind this one; raises UsageError while the question is open, and at the last."""
        if self.is_open:
            raise UsageError("the question is open", "answer it, or reveal the answer")
        if self.at + 1 == len(self.lesson.steps):
            raise UsageError(f"this is the last step of {self.lesson.name}", "end it")
        with self._working("the next step"):
            await self._enter(self.at + 1)

    async def back(self) -> None:
        """Enter the step before this one, its start restored; raises UsageError at the first."""
        if not self.at:
            raise UsageError(f"this is the first step of {self.lesson.name}", "go to the next step")
        with self._working("restoring the start of the step before"):
            await self._restore(self._starts[self.at - 1])
            await self._enter(self.at - 1)

    async def reset(self) -> None:
        """Begin this step again: what was so at its start, all nodes whole and following, and the load's
        tables as new."""
        with self._working("restoring the start of this step"):
            await self._restore(self._starts[self.at])
            await _drop_tables(self._console.stack)
            await self._console.toggle_load()
            await self._enter(self.at)

    async def answer(self, given: float | str | None) -> Answered:
        """Take an answer, None to reveal it, do the step, measure and compare. Raises UsageError for what is
        no answer; whatever fails leaves the question open."""
        step, ask = self.step, self.step.ask
        if ask is None or not self.is_open:
            raise UsageError("no question is open", "go to the next step")
        given = None if given is None else ask.read(given)
        with self._working(step.name):
            self.is_open = False
            try:
                found = await self._do(step)
            except BaseException:
                self.is_open = True
                raise
            answered = ask.answered(step.name, given, Found(figures={**self.figures, **found}))
            self.figures |= {f"{step.name}.{name}": value for name, value in found.items()}
            self.answers.append(answered)
        return answered

    async def end(self) -> None:
        """Restore what was so before it began."""
        for start in self._starts[:1]:
            with self._working("restoring"):
                await to_the_end(self._restore(start))
                if not self._ran and self._console.stack.load.settings is not None:
                    await self._console.toggle_load()

    @contextmanager
    def _working(self, text: str) -> Iterator[None]:
        """Nothing else is done meanwhile; raises UsageError where something is."""
        if self.busy:
            raise UsageError(f"the lesson is busy: {self.busy}", "wait for its end")
        self._say(text)
        try:
            yield
        finally:
            self._say("")

    def _say(self, text: str, _done: float | None = None) -> None:
        self.busy = text
        self.watch()

    async def _enter(self, at: int) -> None:
        """Begin a step: note its start where it is new, and do at once what does not wait for an answer."""
        del self._starts[at + 1 :]
        if len(self._starts) == at:
            self._starts.append(await self._console.stack.look())
        self.at = at
        later = {each.name for each in self.lesson.steps[at:]}
        self.answers[:] = [each for each in self.answers if each.step not in later]
        self.is_open = self.step.ask is not None
        self.watch()
        if not self.is_open:
            await self._do(self.step)

    # -- what a step does

    async def _do(self, step: LessonStep) -> Mapping[str, float]:
        """Do all of a step and measure what it asks for; answers the figures."""
        before, found = await self._console.stack.look(), dict[str, float]()
        for each in step.do:
            self._say(each.text)
            found |= await self._carry_out(each)
        if step.ask is not None and not step.runs:
            found |= await self._measured(step.ask.seconds, before)
        return found

    async def _carry_out(self, each: DrillStep) -> Mapping[str, float]:
        """Do one thing; answers what it found."""
        console, what = self._console, each.what
        lasts_s = 0.0 if each.lasts is None else each.lasts.full_s
        match each.doing:
            case Doing.SET:
                await self._set(each.settings)
            case Doing.PRESET:
                await console.apply(self._named(each.doing, what))
            case Doing.LOAD:
                await self._set([f"{keys.CLIENTS}={what}"])
            case Doing.RESET:
                await console.reset()
            case Doing.WAIT:
                await self._clock.sleep(lasts_s)
            case Doing.INJECT:
                done = await console.inject(parse_fault(what, console.stack.seen.roster), lasts_s or None)
                await self._clock.sleep(lasts_s)
                for one in done if lasts_s else ():
                    await console.clear(f"{one.fault.kind}@{one.fault.node}")
            case Doing.CLEAR:
                await console.clear(what or None)
            case Doing.UNTIL:
                began_s = self._clock.monotonic()
                await self._until(what, lasts_s)
                return {"drain_s": self._clock.monotonic() - began_s} if what == CAUGHT_UP else {}
            case Doing.FAILOVER | Doing.SWITCHOVER:
                change = console.failover if each.doing is Doing.FAILOVER else console.switchover
                return {"rto_ms": (await change(what or None)).rto.total_ms or 0.0}
            case Doing.REJOIN:
                await console.rejoin(what)
            case Doing.LAB | Doing.DRILL:
                return await self._experiment(each)
        return {}

    async def _set(self, texts: Iterable[str]) -> None:
        await self._console.set([*map(self._console.parse, texts)])

    async def _until(self, what: str, within_s: float) -> None:
        """Wait until clients write, the replicas have what the source has, or this is the protection state;
        raises StackUnavailable where that takes too long."""
        stack, patience = self._console.stack, Patience(self._clock, within_s, _LOOK_EVERY_S)
        if what == CAUGHT_UP and await stack.caught_up(within_s):
            return
        while what != CAUGHT_UP and await patience.again():
            if what == WRITING:
                is_so = (await stack.load.measure()).load.commits > 0
            else:
                is_so = (await stack.look()).protection.state.value == what
            if is_so:
                return
        told = what.replace("_", " ")
        raise StackUnavailable(f"not {told} within {within_s:g} s", "see `replexplorer status`")

    async def _experiment(self, each: DrillStep) -> Mapping[str, float]:
        """Run a lab or a drill; answers its figures, of a lab `PHASE.FIGURE`. Raises StackUnavailable where
        it was aborted."""
        found = self._named(each.doing, each.what)
        if isinstance(found, Drill):
            found = found.with_settings(each.settings)
        run = run_of(found, True, lambda now: self._say(f"{each.text}: {now.doing}"), Conductor())
        result: ExperimentResult = await self._console.run(run)
        if result.aborted is not None:
            raise StackUnavailable(result.ending, "see `replexplorer status`")
        if isinstance(result, DrillResult):
            return figures_of_drill(result)
        phases = result.phases if isinstance(result, LabResult) else ()
        return {
            f"{phase.name}.{name}": value for phase in phases for name, value in figures_of(phase).items()
        }

    async def _measured(self, seconds: float, before: Snapshot) -> Mapping[str, float]:
        """The figures of the load for so long, and of what was counted since `before`; nobody else turns a
        knob meanwhile."""
        stack, length = self._console.stack, Length(seconds)
        phase = Phase(self.step.name, (), length, length, ProtectionState.OFF, "")
        act = Act(stack, phase, quick=False, tell=self._say)
        async with stack.reserved(self.lesson.kind, self.lesson.name):
            first = await stack.look()
            found = await act.measure(self._clock.monotonic() + _WARMUP_S)
            seen, rtt = await stack.look(), await measured_rtt(stack, _RTT_LOOKS)
            if found.load.total.mode == OPEN:
                await stack.load.follow()  # it was drained
        lag, exposure, result = found.lag, found.exposure, act.of_load(found)
        result = replace(
            result,
            tps=result.service.count / result.duration_s,
            rtt_measured_ms=rtt.ms if rtt else None,
            protection=seen.protection,
            protection_before=before.protection,
            fsync_measured_ms=seen.fsync_ms,
        )
        more: dict[str, Any] = {
            "unprotected": unprotected_between(_look_of(first), _look_of(seen)),
            "acks": seen.protection.replicas_acking,
            "lag_s": lag and lag.end,
            "lag_max_s": lag and lag.max,
            "applied_tps": lag and lag.applied_tps,
            "binlog_bytes": found.cost and found.cost.binlog_bytes,
            **{name: getattr(getattr(exposure, name, None), "commits", None) for name in FAILURES},
        }
        return figures_of(result) | {name: float(value) for name, value in more.items() if value is not None}

    # -- the stack

    async def _restore(self, start: Snapshot) -> None:
        """Clear all faults, bring every node back, to follow the source of before, and request again what was
        requested."""
        console = self._console
        await console.clear()
        await console.repair()
        await self._follow()
        if console.stack.seen.source != start.source:
            await console.switchover(start.source)
        await console.set([Assignment((name,), view.requested) for name, view in start.knobs.items()])

    async def _follow(self) -> None:
        """Let nodes follow the source that do not, with a copy of its data where they have diverged."""
        seen = await self._console.stack.look()
        for node in seen.nodes:
            astray = not seen.system.is_group and node.follows != seen.source
            if node.name != seen.source and (astray or node.diverged is not None):
                await self._console.rejoin(node.name, copy=node.diverged is not None)


def _look_of(seen: Snapshot) -> Look:
    """The source as the count of unprotected commits has it."""
    counters, is_on = seen.counters[seen.source], seen.effective(SEMI_SYNC) == "on"
    return Look(counters.at_s, seen.protection, counters, is_on)


async def _drop_tables(stack: StackApi) -> None:
    """End the load and drop its tables, once the replicas have applied what it wrote: its next start makes
    them again."""
    settings = stack.load.settings
    if settings is None:
        return
    await stack.load.stop()
    await stack.caught_up(_APPLIED_WITHIN_S)
    script, name = settings.script, settings.workload
    workload = WORKLOADS[name] if script is None else read_script(script, name).workload
    sql = stack.sql(stack.seen.source)
    try:
        await execute(sql, [table.drop for table in workload.tables], deadline_s=_APPLIED_WITHIN_S)
    finally:
        await sql.close()


async def headless(run: LessonRun, watch: Watch) -> LessonResult:
    """Go through a lesson with its own answers, each step and each answer told. What fails on the way ends it
    as aborted, and what it changed is restored in any case."""
    aborted, unrestored, moved = None, list[str](), run.watch

    def tell(ended: str = "") -> None:
        moved()
        if run.busy or ended:
            watch(ExperimentProgress(run.lesson, run.at + 1, run.busy, ended=ended))

    run.watch = tell
    try:
        await run.begin()
        while run.is_open or run.at + 1 < len(run.lesson.steps):
            if run.is_open:
                tell((await run.answer(None)).words)
            else:
                await run.next()
    except ReplexplorerError as error:
        if not run.answers:
            raise
        aborted = f"{run.step.name}: {error}"
    finally:
        try:
            await run.end()
        except ReplexplorerError as error:
            unrestored.append(str(error))
    return replace(run.result, aborted=aborted, unrestored=tuple(unrestored))

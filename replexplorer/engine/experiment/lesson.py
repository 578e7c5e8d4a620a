"""A lesson under way on a live stack: its steps, its questions, and what was measured of them.

Law: all is done at a console, by the rules of who may do what. Each step's start is known, and going back,
beginning a step again and the end return to one. After a kill nothing of a lesson is owed: its knobs are
requested as those that somebody has typed, and what its labs and drills took the next start restores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.drill import CAUGHT_UP, WRITING, Doing, DrillStep
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.drill_result import figures_of as figures_of_drill
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult, NamedExperiment
from replexplorer.core.experiment.lab import LabResult, Length, Phase
from replexplorer.core.experiment.lesson import Answered, Lesson, LessonResult, LessonState, LessonStep
from replexplorer.core.experiment.relations import Found, figures_of
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Assignment, Desired
from replexplorer.core.load.script import read_script
from replexplorer.core.load.workload import WORKLOADS
from replexplorer.core.server.exposure import FAILURES, Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.matrix import run_of
from replexplorer.engine.experiment.phase import Act, measured_rtt
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.tasks import Patience, to_the_end
from replexplorer.ports import Clock, execute

if TYPE_CHECKING:
    from replexplorer.engine.console import Console
    from replexplorer.engine.experiment.stack_api import StackApi

T = TypeVar("T")
_WARMUP_S: Final = 2.0
_RTT_LOOKS: Final = 4
_LOOK_EVERY_S: Final = 0.25
_APPLIED_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class _Work(Generic[T]):
    """Something that is done with the stack itself (`stack_api.Procedure`)."""

    do: Callable[[StackApi], Awaitable[T]]

    async def run(self, stack: StackApi) -> T:
        """Do it."""
        return await self.do(stack)


@dataclass(frozen=True, slots=True)
class _Start:
    """What is so as a step begins."""

    server: str
    source: str
    knobs: Desired
    """What is requested of each."""
    runs: bool
    """Our load does."""


class LessonRun:
    """A lesson under way on a live stack, for the dashboard and for a run without a terminal."""

    def __init__(
        self,
        lesson: Lesson,
        console: Console,
        *,
        experiments: Iterable[NamedExperiment],
        presets: Callable[[str], Sequence[str]],
        share: Callable[[LessonState], None] = lambda state: None,
        watch: Callable[[], object] = lambda: None,
        clock: Clock,
    ) -> None:
        """`experiments` are the labs and drills that it may run, `presets` gives the `KEY=VALUE` texts of a
        name. `share` hears where the lesson is whenever that changes, `watch` also that something else is
        done."""
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
        self._console = console
        self._experiments = {(each.kind, each.name): each for each in experiments}
        self._presets = presets
        self._share = share
        self._watch = watch
        self._clock = clock
        self._began_wall_s = clock.wall()
        self._starts: list[_Start] = []
        """Of the steps up to this one."""

    @property
    def step(self) -> LessonStep:
        """The one that is under way."""
        return self.lesson.steps[self.at]

    @property
    def state(self) -> LessonState:
        """Where it is."""
        return LessonState(
            lesson=self.lesson.name,
            title=self.lesson.title,
            minutes=self.lesson.minutes,
            began_wall_s=self._began_wall_s,
            number=self.at + 1,
            of=len(self.lesson.steps),
            step=self.step.name,
            note=self.step.note,
            is_open=self.is_open,
            question=self.step.ask.words if self.step.ask else "",
            answers=tuple(self.answers),
        )

    @property
    def result(self) -> LessonResult:
        """What it has come to so far."""
        return LessonResult(
            lesson=self.lesson,
            server=self._starts[0].server if self._starts else "",
            started_wall_s=self._began_wall_s,
            answers=list(self.answers),
            figures=dict(self.figures),
            relations=[each.relation for each in self.answers],
            duration_s=self._clock.wall() - self._began_wall_s,
        )

    # -- going through it

    async def begin(self) -> None:
        """Enter the first step, with our load running; raises LoadTaken where somebody else drives."""
        with self._working("starting the load"):
            start, seen = await self._now(), await self._look()
            if why := self.lesson.unfit(seen.system):
                raise UsageError(f"the lesson {self.lesson.name} cannot be given here", f"it {why}")
            self._starts = [start]
            if not start.runs:
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
            raise UsageError(f"this is the first step of {self.lesson.name}", "`next` goes on")
        with self._working("restoring the start of the step before"):
            await self._restore(self._starts[self.at - 1])
            await self._enter(self.at - 1)

    async def reset(self) -> None:
        """Begin this step again: what was so at its start, all nodes whole and following, and the load's
        tables as new."""
        with self._working("restoring the start of this step"):
            await self._restore(self._starts[self.at])
            await self._make_rows_new()
            await self._enter(self.at)

    async def answer(self, given: float | str | None) -> Answered:
        """Take an answer, None to reveal it, do the step, measure and compare. Raises UsageError for what is
        no answer; whatever fails leaves the question open."""
        step, ask = self.step, self.step.ask
        if ask is None or not self.is_open:
            raise UsageError("no question is open", "`next` goes on")
        given = None if given is None else ask.read(given)
        with self._working(""):
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
        if not self._starts:
            return
        start = self._starts[0]
        with self._working("restoring"):
            await to_the_end(self._restore(start))

    @contextmanager
    def _working(self, text: str) -> Iterator[None]:
        """Nothing else is done meanwhile; raises UsageError where something is."""
        if self.busy:
            raise UsageError(f"the lesson is busy: {self.busy}", "wait for its end")
        self._say(text or self.step.name)
        try:
            yield
        finally:
            self._say("")
            self._share(self.state)

    def _say(self, text: str) -> None:
        self.busy = text
        self._watch()

    async def _enter(self, at: int) -> None:
        """Begin a step: note its start where it is new, and do at once what does not wait for an answer."""
        del self._starts[at + 1 :]
        self.at, step = at, self.lesson.steps[at]
        later = {each.name for each in self.lesson.steps[at:]}
        self.answers[:] = [each for each in self.answers if each.step not in later]
        self.is_open = step.ask is not None
        self._share(self.state)
        if len(self._starts) == at:
            self._starts.append(await self._now())
        if not self.is_open:
            await self._do(step)

    # -- what a step does

    async def _do(self, step: LessonStep) -> Mapping[str, float]:
        """Do all of a step and measure what it asks for; answers the figures."""
        before, found = await self._look(), dict[str, float]()
        for each in step.do:
            self._say(each.text)
            found |= await self._carry_out(each)
        if step.ask is not None and not step.runs:
            self._say("measuring")
            found |= await self._run(partial(self._measured, step.name, step.ask.seconds, before))
        return found

    async def _carry_out(self, each: DrillStep) -> Mapping[str, float]:
        """Do one thing; answers what it found."""
        console, what = self._console, each.what
        lasts_s = None if each.lasts is None else each.lasts.full_s
        match each.doing:
            case Doing.SET:
                await self._set(each.settings)
            case Doing.PRESET:
                await self._set(self._presets(what))
            case Doing.LOAD:
                await self._set([f"{keys.CLIENTS}={what}"])
            case Doing.RESET:
                await console.reset()
            case Doing.WAIT:
                await self._clock.sleep(lasts_s or 0.0)
            case Doing.INJECT:
                done = await console.inject(parse_fault(what, (await self._look()).roster), lasts_s)
                if lasts_s is not None:
                    await self._clock.sleep(lasts_s)
                    for one in done:
                        await console.clear(f"{one.fault.kind}@{one.fault.node}")
            case Doing.CLEAR:
                await console.clear(what or None)
            case Doing.UNTIL:
                began_s = self._clock.monotonic()
                await self._until(what, lasts_s or 0.0)
                return {"drain_s": self._clock.monotonic() - began_s} if what == CAUGHT_UP else {}
            case Doing.FAILOVER | Doing.SWITCHOVER:
                change = console.failover if each.doing is Doing.FAILOVER else console.switchover
                took_ms = (await change(what or None)).rto.total_ms
                return {} if took_ms is None else {"rto_ms": took_ms}
            case Doing.REJOIN:
                await console.rejoin(what)
            case Doing.LAB | Doing.DRILL:
                return await self._experiment(each)
        return {}

    async def _set(self, texts: Iterable[str]) -> None:
        await self._console.set([*map(self._console.parse, texts)])

    async def _until(self, what: str, within_s: float) -> None:
        """Wait until this is so; raises StackUnavailable where that takes too long."""
        patience = Patience(self._clock, within_s, _LOOK_EVERY_S)
        while await patience.again():
            if await self._run(partial(_is_so, what, within_s)):
                return
        raise StackUnavailable(
            f"not {what.replace('_', ' ')} within {within_s:g} s", "see `replexplorer status`"
        )

    async def _experiment(self, each: DrillStep) -> Mapping[str, float]:
        """Run a lab or a drill; answers its figures, of a lab `PHASE.FIGURE`. Raises StackUnavailable where
        it was aborted."""
        found = self._experiments.get((each.doing.value, each.what))
        if found is None:
            raise UsageError(f"no {each.doing} {each.what}", f"see `replexplorer {each.doing} list`")

        def watch(now: ExperimentProgress) -> None:
            stage = f", {now.stage.name}" if now.stage else ""
            self._say(f"{each.text}{stage}: {now.doing}")

        result: ExperimentResult = await self._console.run(
            run_of(found, not each.is_full, watch, Conductor())
        )
        if result.aborted is not None:
            raise StackUnavailable(result.ending, "see `replexplorer status`")
        match result:
            case DrillResult():
                return figures_of_drill(result)
            case LabResult():
                return {
                    f"{phase.name}.{name}": value
                    for phase in result.phases
                    for name, value in figures_of(phase).items()
                }
        return {}

    async def _measured(
        self, name: str, seconds: float, before: Snapshot, stack: StackApi
    ) -> Mapping[str, float]:
        """The figures of the load for so long, and of what was counted since `before`; nobody else turns a
        knob meanwhile."""
        length = Length(seconds)
        phase = Phase(name, (), full=length, quick=length, state=ProtectionState.OFF, shows="")
        act = Act(stack, phase, quick=False, tell=lambda doing, done=None: self._say(doing))
        async with stack.reserved(self.lesson.kind, self.lesson.name):
            found = await act.measure(stack.clock.monotonic() + _WARMUP_S)
            seen = await stack.look()
            rtt = await measured_rtt(stack, _RTT_LOOKS)
        load = act.of_load(found)
        result = replace(
            load,
            tps=load.service.count / load.duration_s if load.duration_s else 0.0,
            rtt_measured_ms=rtt.ms if rtt else None,
            protection=seen.protection,
            protection_before=before.protection,
            fsync_measured_ms=seen.fsync_ms,
        )
        more: dict[str, Any] = {"unprotected": result.unprotected, "acks": seen.protection.replicas_acking}
        if (lag := found.lag) is not None:
            more |= {"lag_s": lag.end, "lag_max_s": lag.max, "applied_tps": lag.applied_tps}
            node = next(each for each in seen.nodes if each.name == lag.replica)
            more["queued"] = node.applier and node.applier.queued
        for failure in FAILURES if found.exposure else ():
            loss = getattr(found.exposure, failure)
            more[failure] = loss.commits if isinstance(loss, Loss) else None
        return figures_of(result) | {key: float(value) for key, value in more.items() if value is not None}

    # -- the stack

    async def _run(self, do: Callable[[StackApi], Awaitable[T]]) -> T:
        return await self._console.run(_Work(do))

    async def _look(self) -> Snapshot:
        return await self._run(lambda stack: stack.look())

    async def _now(self) -> _Start:
        """What is so now."""

        async def look(stack: StackApi) -> _Start:
            seen = await stack.look()
            knobs = {name: view.requested for name, view in seen.knobs.items()}
            return _Start(seen.server, seen.source, knobs, stack.load.settings is not None)

        return await self._run(look)

    async def _restore(self, start: _Start) -> None:
        """Clear all faults, bring every node back, to follow the source of before, and request again what was
        requested; a load that did not run ends."""
        console = self._console
        await console.clear()
        await console.repair()
        seen = await self._look()
        if seen.source != start.source:
            await self._follow([start.source], seen)
            await console.switchover(start.source)
            seen = await self._look()
        await self._follow(seen.replicas, seen)
        await console.set([Assignment((name,), value) for name, value in start.knobs.items()])
        if (await self._now()).runs is not start.runs:
            await console.toggle_load()

    async def _follow(self, nodes: Iterable[str], seen: Snapshot) -> None:
        """Let nodes follow the source, with a copy of its data where they have diverged."""
        diverged = {node.name for node in seen.nodes if node.diverged is not None}
        for node in nodes:
            await self._console.rejoin(node, copy=node in diverged)

    async def _make_rows_new(self) -> None:
        """Let the load make its tables again."""
        await self._run(_drop_tables)
        await self._console.toggle_load()


async def _is_so(what: str, within_s: float, stack: StackApi) -> bool:
    """Whether clients write, replicas have what the source has, which is waited for, or this is the
    protection state."""
    if what == WRITING:
        return (await stack.load.measure()).load.commits > 0
    if what == CAUGHT_UP:
        return await stack.caught_up(within_s)
    return (await stack.look()).protection.state.value == what


async def _drop_tables(stack: StackApi) -> None:
    """End the load and drop its tables on the source, once the replicas have applied what it wrote."""
    settings = stack.load.settings
    if settings is None:
        return
    await stack.load.stop()
    await stack.caught_up(_APPLIED_WITHIN_S)
    script = settings.script
    name = settings.workload
    workload = WORKLOADS[name] if script is None else read_script(script, name).workload
    sql = stack.sql(stack.seen.source)
    try:
        await execute(sql, [f"DROP TABLE IF EXISTS {table.quoted}" for table in workload.tables])
    finally:
        await sql.close()


async def headless(run: LessonRun, told: Callable[[Answered | None], None]) -> LessonResult:
    """Go through a lesson with its own answers; `told` hears of each step as it begins, and of each answer.
    What fails on the way ends it as aborted, and what it changed is restored in any case."""
    try:
        await run.begin()
        while True:
            told(None)
            if run.is_open:
                told(await run.answer(None))
            if run.at + 1 == len(run.lesson.steps):
                return run.result
            await run.next()
    except StackUnavailable as error:
        if not run.answers:
            raise
        return replace(run.result, aborted=f"{run.step.name}: {error}")
    finally:
        await run.end()

"""The experiments of a dashboard, which go on behind its screens, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult, NamedExperiment
from replexplorer.core.experiment.lesson import Lesson
from replexplorer.core.experiment.sweep import Sweep, read_sweep, runs_text
from replexplorer.core.experiment.sweep_result import Swept
from replexplorer.core.records import dataclass, field
from replexplorer.engine.experiment.matrix import run_of
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.engine.lesson import LessonRun
from replexplorer.formats.scenes import scene_texts
from replexplorer.ui.settings import Give

if TYPE_CHECKING:
    from replexplorer.engine.console import Console

Order = Callable[[LessonRun], Awaitable[object]]
"""What a lesson does when its trainer says so."""
Tone = Literal["information", "warning", "error"]
"""How prominently an end is reported."""
_TONES: Final[dict[str, Tone]] = {"holds": "information", "deviates": "warning", "aborted": "error"}
SUGGESTION: Final = "rtt=0,2,10,85 clients=1,8,32"
"""What the sweep's field has at first."""


@dataclass(slots=True, eq=False)
class RunningExperiment:
    """An experiment under way."""

    experiment: NamedExperiment
    hand: Conductor
    """The presenter's hand on it; a sweep does not wait for one."""
    step: ExperimentProgress | None = None
    """What it does; None before its first word."""
    task: asyncio.Task[None] | None = None
    procedure: Any = None
    """What the console runs; of a sweep it has what was measured so far, of a lesson where it is."""
    orders: asyncio.Queue[Order | None] = field(default_factory=asyncio.Queue)
    """What a lesson is to do next; None: end."""


@dataclass(slots=True)
class ExperimentControl:
    """Runs one experiment at a time."""

    console: Console | None
    experiments: list[NamedExperiment]
    """Those to choose from: the lessons, the labs, the drills, and the sweep that ran last."""
    moved: Callable[[], object]
    """Called when there is something else to show."""
    learn: Callable[[Swept], str] | None = None
    """What a finished sweep teaches the model, in words."""
    give: Give | None = None
    """Begins a lesson."""
    line: str = SUGGESTION
    """The sweep that was typed."""
    results: dict[str, ExperimentResult] = field(default_factory=dict)
    """What each found when it ran last, by kind and name."""
    unseen: ExperimentResult | None = None
    """It was not looked at."""
    end: tuple[str, Tone] | None = None
    """How the last one ended; whoever reports it sets it to None."""
    last: RunningExperiment | None = None
    """The one that runs or ran last."""

    @property
    def running(self) -> RunningExperiment | None:
        """The one under way, or restoring what it turned."""
        run = self.last
        return run if run is not None and run.task is not None and not run.task.done() else None

    @property
    def lesson(self) -> LessonRun | None:
        """The lesson under way; None before it has begun and where something else runs."""
        found = self.running.procedure if self.running is not None else None
        return found if isinstance(found, LessonRun) else None

    def result_of(self, experiment: NamedExperiment) -> ExperimentResult | None:
        """What it found when it ran last."""
        return self.results.get(_named(experiment))

    def read_sweep(self) -> Sweep:
        """The sweep of the typed line; raises UsageError."""
        return read_sweep(self.line, _live(self.console).parse, scene_texts)

    def start(self, experiment: NamedExperiment, *, quick: bool = False) -> asyncio.Task[None]:
        """Run it behind the dashboard."""
        if isinstance(experiment, Sweep):
            self.experiments[:] = [each for each in self.experiments if each.kind != "sweep"] + [experiment]
        self.unseen = None
        self.results.pop(_named(experiment), None)
        run = self.last = RunningExperiment(experiment, Conductor())
        run.task = asyncio.create_task(self._run(run, quick), name=_named(experiment))
        run.task.add_done_callback(lambda _: self.moved())
        return run.task

    def next(self) -> str:
        """Begin the next phase; returns what that means now."""
        hand = self.last.hand if self.last is not None else Conductor()
        if not (hand.waits or hand.paused):
            return "this phase is measured to its end first"
        told = "the next phase begins" if hand.waits else "the pause is cancelled"
        hand.next()
        return told

    def order(self, order: Order | None) -> None:
        """Have the lesson do this, or end, where it does nothing else."""
        run = self.running
        if run is None or self.lesson is None:
            return
        if self.lesson.busy or run.orders.qsize():
            self.end = f"the lesson is busy: {self.lesson.busy}", "warning"
            self.moved()
        else:
            run.orders.put_nowait(order)

    async def leave(self) -> None:
        """End the lesson under way; what else runs ends with its view."""
        run = self.running
        if run is not None and run.task is not None and self.lesson is not None:
            self.abort()
            await asyncio.wait({run.task})

    def pause(self) -> str:
        """Hold the lab before its next phase, or let it go on; returns what that means now."""
        paused = self.last is not None and self.last.hand.toggle()
        return "the lab waits before its next phase; the load runs on" if paused else "the lab continues"

    def abort(self) -> str:
        """End what runs; what it turned is restored."""
        run = self.running
        if run is not None and run.task is not None and run.hand.aborted is None:
            run.hand.abort()
            run.task.cancel()
        return "ending it, restoring the knobs"

    async def _give(self, run: RunningExperiment, lesson: Lesson) -> str:
        """Give a lesson, an order after the other; answers how it ended."""

        def moved() -> None:
            run.step = ExperimentProgress(lesson, given.at + 1, given.busy)
            self.moved()

        if self.give is None:
            raise UsageError("no lesson can be given here", "`replexplorer lesson run NAME` gives one")
        with self.give(lesson, moved) as given:
            run.procedure = given
            try:
                await given.begin()
                while order := await run.orders.get():
                    try:
                        await order(given)
                    except ReplexplorerError as error:
                        self.end = str(error), "error"
                        moved()
            finally:
                await given.end()
        right = sum(bool(each.is_right) for each in given.answers)
        return f"{_named(lesson)}: {right} of {len(given.answers)} answers right"

    async def _run(self, run: RunningExperiment, quick: bool) -> None:
        def show(step: ExperimentProgress) -> None:
            run.step = step
            self.moved()

        of, name = run.experiment, _named(run.experiment)
        try:
            if isinstance(of, Lesson):
                self.end = await self._give(run, of), "information"
                return
            run.procedure = SweepRun(of, show) if isinstance(of, Sweep) else run_of(of, quick, show, run.hand)
            result: ExperimentResult = await _live(self.console).run(run.procedure)
            if isinstance(result, Swept) and self.learn is not None:
                result.calibration = await asyncio.to_thread(self.learn, result)
        except asyncio.CancelledError:
            again = ", the same line continues" if isinstance(of, Sweep) else ""
            self.end = f"{name}: stopped; its knobs are restored{again}", "warning"
        except ReplexplorerError as error:
            self.end = f"{name}: {error}", "error"
        except Exception as error:  # whatever it is, the screen must say it
            self.end = f"{name}: {type(error).__name__}: {error}", "error"
        else:
            self.results[name] = self.unseen = result
            ending = f"{name}: {runs_text(len(result.runs))}" if isinstance(result, Swept) else result.ending
            self.end = ending, "error" if result.unrestored else _TONES[result.verdict]


def _named(experiment: NamedExperiment) -> str:
    return f"{experiment.kind} {experiment.name}"


def _live(console: Console | None) -> Console:
    """The console, where something can be done."""
    if console is None:
        raise ReplexplorerError("nothing can be turned here", "knobs turn in the live dashboard")
    return console

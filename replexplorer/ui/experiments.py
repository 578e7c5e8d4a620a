"""The experiments of a dashboard, which go on behind its screens: a lab or drill, and a sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult, NamedExperiment
from replexplorer.core.experiment.sweep import Sweep, read_sweep
from replexplorer.core.experiment.sweep_result import Swept, SweptRun
from replexplorer.engine.experiment.matrix import run_of
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.formats import paths
from replexplorer.formats.scenes import find_scene

if TYPE_CHECKING:
    from replexplorer.engine.console import Console

Tone = Literal["information", "warning", "error"]
"""How prominently an end is reported."""
_TONES: Final[dict[str, Tone]] = {"holds": "information", "deviates": "warning", "aborted": "error"}
SUGGESTION: Final = "rtt=0,2,10,85 clients=1,8,32"
"""What stands in the sweep's field at first."""


@dataclass(slots=True, eq=False)
class RunningLab:
    """A lab, drill or matrix under way."""

    lab: NamedExperiment
    hand: Conductor
    """The presenter's hand on it."""
    step: ExperimentProgress | None = None
    """What it does; None before its first word."""
    task: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """The next phase waits for a key."""
        return self.hand.waits

    @property
    def paused(self) -> bool:
        """It will wait, or waits, because somebody held it."""
        return self.hand.paused

    @property
    def aborting(self) -> bool:
        """It restores what it turned."""
        return self.hand.aborted is not None


@dataclass(slots=True)
class LabControl:
    """Runs one lab, drill or matrix at a time."""

    console: Console | None
    labs: tuple[NamedExperiment, ...]
    """The labs, then the drills."""
    moved: Callable[[], object]
    """Called when there is something else to show."""
    by_hand: bool = False
    """The next lab waits for a key between its phases."""
    results: dict[NamedExperiment, ExperimentResult] = field(default_factory=dict)
    """What each found when it ran last."""
    unseen: NamedExperiment | None = None
    """It has ended, and nobody has looked at its result."""
    end: tuple[str, Tone] | None = None
    """How the last one ended; whoever reports it sets it to None."""
    last: RunningLab | None = None
    """The one that runs or ran last."""

    @property
    def running(self) -> RunningLab | None:
        """The one under way, or restoring what it turned."""
        run = self.last
        return run if run is not None and run.task is not None and not run.task.done() else None

    def start(self, lab: NamedExperiment, *, quick: bool) -> asyncio.Task[None]:
        """Run a lab beside the dashboard."""
        self.unseen = None
        self.results.pop(lab, None)
        run = self.last = RunningLab(lab, Conductor(by_hand=self.by_hand))
        run.task = asyncio.create_task(self._run(run, quick), name=f"{lab.kind} {lab.name}")
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

    def pause(self) -> str:
        """Hold the lab before its next phase, or let it go on; returns what that means now."""
        paused = self.last is not None and self.last.hand.toggle()
        return "the lab waits before its next phase; the load runs on" if paused else "the lab continues"

    def abort(self) -> str:
        """End the lab; what it turned is restored."""
        run = self.running
        if run is not None and run.task is not None and run.hand.aborted is None:
            run.hand.abort("ended by hand")
            run.task.cancel()
        return "ending the lab, restoring the knobs"

    async def _run(self, run: RunningLab, quick: bool) -> None:
        def show(step: ExperimentProgress) -> None:
            run.step = step
            self.moved()

        lab = run.lab
        name = f"{lab.kind} {lab.name}"
        try:
            result = await _live(self.console).run(run_of(lab, quick, show, run.hand))
        except asyncio.CancelledError:
            self.end = f"{name}: stopped; its knobs are restored", "warning"
        except Exception as error:  # whatever it is, the screen must say it
            self.end = f"{name}: {_words(error)}", "error"
        else:
            self.results[lab], self.unseen = result, lab
            self.end = result.ending, "error" if result.unrestored else _TONES[result.verdict]


@dataclass(slots=True)
class SweepControl:
    """Runs one sweep at a time."""

    console: Console | None
    learn: Callable[[Swept], str] | None = None
    """What a finished sweep teaches the model, in words."""
    line: str = SUGGESTION
    """What was typed."""
    sweep: Sweep | None = None
    """The one that runs or ran last."""
    run: SweepRun | None = None
    """What it does and has measured so far."""
    progress: ExperimentProgress | None = None
    swept: Swept | None = None
    """Its result, when it came to its end."""
    problem: str = ""
    """Why it ended otherwise."""
    notes: list[str] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> Sequence[SweptRun]:
        """What was measured so far."""
        return self.run.runs if self.run else ()

    @property
    def running(self) -> Sweep | None:
        """The one under way, or restoring the knobs."""
        return None if self._task is None or self._task.done() else self.sweep

    @property
    def place(self) -> str:
        """`sweep 3 of 12`: the run under way; empty while none is."""
        if self.running is None:
            return ""
        done = self.progress.kept if self.progress else 0
        return f"sweep {min(done + 1, self.running.total)} of {self.running.total}"

    def read(self) -> Sweep:
        """The sweep of the typed line; raises UsageError."""
        return read_sweep(
            self.line,
            _live(self.console).parse,
            lambda name: find_scene(name, paths.scenes_directory()).assignments(),
        )

    def start(self, sweep: Sweep) -> None:
        """Run a sweep beside the dashboard."""
        self.sweep, self.progress, self.swept, self.problem, self.notes = sweep, None, None, "", []
        self.run = SweepRun(sweep, self._show)
        self._task = asyncio.create_task(self._run(self.run), name="sweep")

    def stop(self) -> None:
        """End it; the knobs are restored."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, run: SweepRun) -> None:
        try:
            self.swept = await _live(self.console).run(run)
            if self.learn is not None:
                self.notes.append(await asyncio.to_thread(self.learn, self.swept))
        except asyncio.CancelledError:
            self.problem = "stopped; the knobs are restored, the same line continues"
        except Exception as error:  # whatever it is, the screen must say it
            self.problem = _words(error)

    def _show(self, progress: ExperimentProgress) -> None:
        self.progress = progress
        if progress.stage is None and progress.ended:
            self.notes.append(progress.ended)


def _live(console: Console | None) -> Console:
    """The console, where something can be done."""
    if console is None:
        raise ReplexplorerError("nothing can be turned here", "knobs turn in the live dashboard")
    return console


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ReplexplorerError) else f"{type(error).__name__}: {error}"

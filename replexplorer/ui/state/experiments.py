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


@dataclass(frozen=True, slots=True)
class LabView:
    """A lab or a drill under way, as the strip shows it."""

    lab: NamedExperiment
    step: ExperimentProgress | None
    """None before its first word."""
    waits: bool
    """The next phase waits for a key."""
    paused: bool
    """It will wait, or waits, because somebody held it."""
    aborting: bool


@dataclass(slots=True)
class LabControl:
    """Runs one lab, drill or matrix at a time."""

    console: Console | None
    labs: tuple[NamedExperiment, ...]
    """The labs, then the drills."""
    moved: Callable[[], object]
    """Called when there is something else to show."""
    lab: NamedExperiment | None = None
    """The one that runs or ran last."""
    step: ExperimentProgress | None = None
    by_hand: bool = False
    """The next lab waits for a key between its phases."""
    results: dict[NamedExperiment, ExperimentResult] = field(default_factory=dict)
    """What each found when it ran last."""
    unseen: NamedExperiment | None = None
    """It has ended, and nobody has looked at its result."""
    end: tuple[str, Tone] | None = None
    """How the last one ended; whoever tells it sets it to None."""
    task: asyncio.Task[None] | None = None
    _conductor: Conductor = field(default_factory=Conductor)

    @property
    def view(self) -> LabView | None:
        """The one under way, or giving back what it turned."""
        if self.lab is None or self.task is None or self.task.done():
            return None
        hand = self._conductor
        return LabView(self.lab, self.step, hand.waits, hand.paused, hand.aborted is not None)

    def start(self, lab: NamedExperiment, *, quick: bool) -> asyncio.Task[None]:
        """Run a lab beside the dashboard."""
        self.lab, self.step, self.unseen = lab, None, None
        self.results.pop(lab, None)
        self._conductor = Conductor(by_hand=self.by_hand)
        self.task = asyncio.create_task(self._run(lab, quick), name=f"{lab.kind} {lab.name}")
        self.task.add_done_callback(lambda _: self.moved())
        return self.task

    def next(self) -> str:
        """Begin the next phase; answers what that means now."""
        hand = self._conductor
        told = "the next phase begins" if hand.waits else "the pause is cancelled"
        if not (hand.waits or hand.paused):
            return "this phase is measured to its end first"
        hand.next()
        return told

    def pause(self) -> str:
        """Hold the lab before its next phase, or let it go on; answers what that means now."""
        if not self._conductor.toggle():
            return "the lab continues"
        return "the lab waits before its next phase; the load runs on"

    def abort(self) -> str:
        """End the lab; what it turned is restored."""
        if self.task is not None and self._conductor.aborted is None:
            self._conductor.abort("ended by hand")
            self.task.cancel()
        return "ending the lab, restoring the knobs"

    async def _run(self, lab: NamedExperiment, quick: bool) -> None:
        name = f"{lab.kind} {lab.name}"
        try:
            result = await _live(self.console).run(run_of(lab, quick, self._show, self._conductor))
        except asyncio.CancelledError:
            self.end = f"{name}: stopped; its knobs are restored", "warning"
        except Exception as error:  # whatever it is, the screen must say it
            self.end = f"{name}: {_told(error)}", "error"
        else:
            self.results[lab], self.unseen = result, lab
            self.end = result.ending, "error" if result.unrestored else _TONES[result.verdict]

    def _show(self, step: ExperimentProgress) -> None:
        self.step = step
        self.moved()


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
    task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> Sequence[SweptRun]:
        """What was measured so far."""
        return self.run.runs if self.run else ()

    @property
    def is_running(self) -> bool:
        """A sweep is under way, or giving the knobs back."""
        return self.task is not None and not self.task.done()

    @property
    def place(self) -> str:
        """`sweep 3 of 12`: the run under way; empty while none is."""
        if not self.is_running or self.sweep is None:
            return ""
        done = self.progress.kept if self.progress else 0
        return f"sweep {min(done + 1, self.sweep.total)} of {self.sweep.total}"

    def read(self, line: str) -> Sweep:
        """The sweep of a typed line; raises UsageError."""
        return read_sweep(
            line,
            _live(self.console).parse,
            lambda name: find_scene(name, paths.scenes_directory()).assignments(),
        )

    def start(self, sweep: Sweep) -> None:
        """Run a sweep beside the dashboard."""
        self.sweep, self.progress, self.swept, self.problem, self.notes = sweep, None, None, "", []
        self.run = SweepRun(sweep, self._show)
        self.task = asyncio.create_task(self._run(self.run), name="sweep")

    def stop(self) -> None:
        """End it; the knobs are restored."""
        if self.task is not None:
            self.task.cancel()

    async def _run(self, run: SweepRun) -> None:
        try:
            self.swept = await _live(self.console).run(run)
            if self.learn is not None:
                self.notes.append(await asyncio.to_thread(self.learn, self.swept))
        except asyncio.CancelledError:
            self.problem = "stopped; the knobs are restored, the same line continues"
        except Exception as error:  # whatever it is, the screen must say it
            self.problem = _told(error)

    def _show(self, progress: ExperimentProgress) -> None:
        self.progress = progress
        if progress.stage is None and progress.ended:
            self.notes.append(progress.ended)


def _live(console: Console | None) -> Console:
    """The console, where something can be done."""
    if console is None:
        raise ReplexplorerError("nothing can be turned here", "knobs turn in the live dashboard")
    return console


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ReplexplorerError) else f"{type(error).__name__}: {error}"

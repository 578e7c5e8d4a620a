"""The dashboard's sweep: what was typed, the one under way, and what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.sweep import Sweep, read_sweep
from replexplorer.core.experiment.sweep_runs import SweptRun
from replexplorer.core.experiment.swept import SweepProgress, Swept
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.formats import paths
from replexplorer.formats.scenes import find_scene
from replexplorer.ui.desks.commander import Commander

SUGGESTION = "rtt=0,2,10,85 clients=1,8,32"
"""What stands in the field at first."""


@dataclass(slots=True)
class SweepDesk:
    """It outlives the screen that shows it: a sweep goes on behind the dashboard."""

    commander: Commander
    learn: Callable[[Swept], str] | None = None
    """What a finished sweep teaches the model, in words."""
    line: str = SUGGESTION
    sweep: Sweep | None = None
    """The one that runs or ran last."""
    progress: SweepProgress | None = None
    swept: Swept | None = None
    """Its result, when it came to its end."""
    problem: str = ""
    """Why it ended otherwise."""
    notes: tuple[str, ...] = ()
    task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> tuple[SweptRun, ...]:
        """What was measured so far."""
        return self.progress.runs if self.progress else ()

    @property
    def is_running(self) -> bool:
        """A sweep is under way, or giving the knobs back."""
        return self.task is not None and not self.task.done()

    @property
    def place(self) -> str:
        """`sweep 3 of 12`: the run under way; empty while none is."""
        if not self.is_running or self.sweep is None:
            return ""
        done = self.progress.done if self.progress else 0
        total = self.sweep.total
        return f"sweep {min(done + 1, total)} of {total}"

    def read(self, line: str) -> Sweep:
        """The sweep of a typed line; raises UsageError."""
        return read_sweep(
            line, self.commander.parse, lambda name: find_scene(name, paths.scenes_directory()).assignments()
        )

    def start(self, sweep: Sweep) -> None:
        """Run a sweep beside the dashboard."""
        self.sweep, self.progress, self.swept, self.problem, self.notes = sweep, None, None, "", ()
        self.task = asyncio.create_task(self._run(sweep), name="sweep")

    def stop(self) -> None:
        """End it; the knobs are restored."""
        if self.task is not None:
            self.task.cancel()

    async def _run(self, sweep: Sweep) -> None:
        try:
            self.swept = await self.commander.do(Run(SweepRun(sweep, self._show)))
            if self.learn is not None:
                self.notes = (*self.notes, await asyncio.to_thread(self.learn, self.swept))
        except asyncio.CancelledError:
            self.problem = "stopped; the knobs are restored, the same line continues"
        except ReplexplorerError as error:
            self.problem = str(error)
        except Exception as error:  # whatever it is, the screen must say it
            self.problem = f"{type(error).__name__}: {error}"

    def _show(self, progress: SweepProgress) -> None:
        self.progress = progress
        if progress.note is not None:
            self.notes = (*self.notes, progress.note)

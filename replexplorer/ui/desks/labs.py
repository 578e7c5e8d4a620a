"""The dashboard's labs, drills and matrix: which there are, the one under way, and what each found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import MATRIX, Matrix
from replexplorer.core.experiment.matrix_result import MatrixResult
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.conductor import Conductor
from replexplorer.engine.experiment.drills.matrix import MatrixRun
from replexplorer.engine.experiment.drills.run import DrillRun
from replexplorer.engine.experiment.labs import LABS
from replexplorer.engine.experiment.labs.run import LabRun
from replexplorer.ui.desks.commander import Commander
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.staged import Staged, StagedResult, StagedStep, kind_of

Tone = Literal["information", "warning", "error"]
"""How prominently an end is reported."""
_TONES: Final[dict[str, Tone]] = {"holds": "information", "deviates": "warning", "aborted": "error"}


@dataclass(frozen=True, slots=True)
class LabView:
    """A lab or a drill under way, as the strip shows it."""

    lab: Staged
    step: StagedStep | None
    """None before its first word."""
    waits: bool
    """The next phase waits for a key."""
    paused: bool
    """It will wait, or waits, because somebody held it."""
    aborting: bool


@dataclass(slots=True)
class LabDesk:
    """It outlives the screens that show it: a lab goes on behind the dashboard."""

    commander: Commander
    settings: Settings
    moved: Callable[[], object]
    """Called when there is something else to show."""
    lab: Staged | None = None
    """The one that runs or ran last."""
    step: StagedStep | None = None
    by_hand: bool = False
    """The next lab waits for a key between its phases."""
    results: dict[Staged, StagedResult] = field(default_factory=dict)
    """What each found when it ran last."""
    unseen: Staged | None = None
    """It has ended, and nobody has looked at its result."""
    task: asyncio.Task[None] | None = None
    _conductor: Conductor = field(default_factory=Conductor)
    _end: tuple[str, Tone] | None = None

    @property
    def labs(self) -> tuple[Staged, ...]:
        """Our labs, then the user's own, then the drills."""
        return (*LABS.values(), *self.settings.labs, *self.settings.drills)

    @property
    def is_running(self) -> bool:
        """A lab is under way, or giving back what it turned."""
        return self.task is not None and not self.task.done()

    @property
    def view(self) -> LabView | None:
        """The one under way."""
        if self.lab is None or not self.is_running:
            return None
        hand = self._conductor
        return LabView(self.lab, self.step, hand.waits, hand.paused, hand.aborted is not None)

    def start(self, lab: Staged, *, quick: bool) -> None:
        """Run a lab beside the dashboard."""
        self.lab, self.step, self.unseen = lab, None, None
        self._conductor = Conductor(by_hand=self.by_hand)
        name = f"{kind_of(lab)} {lab.name}"
        self.task = asyncio.create_task(self._run(lab, quick, self._conductor), name=name)
        self.task.add_done_callback(lambda _: self.moved())

    def next(self) -> str:
        """Begin the next phase; answers what that means now."""
        hand = self._conductor
        if hand.waits:
            hand.next()
            return "the next phase begins"
        if hand.paused:
            hand.next()
            return "the pause is cancelled"
        return "this phase is measured to its end first"

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

    def take_end(self) -> tuple[str, Tone] | None:
        """How the lab ended, once."""
        end, self._end = self._end, None
        return end

    async def _run(self, lab: Staged, quick: bool, conductor: Conductor) -> None:
        kind = kind_of(lab)
        result: StagedResult
        try:
            if isinstance(lab, Matrix):
                run = MatrixRun((), quick, watch=self._show, conductor=conductor)
                result = await self.commander.do(Run(run))
            elif isinstance(lab, Drill):
                result = await self.commander.do(Run(DrillRun(lab, quick, self._show, conductor)))
            else:
                result = await self.commander.do(Run(LabRun(lab, quick, self._show, conductor)))
        except asyncio.CancelledError:
            self._end = (f"{kind} {lab.name}: stopped; its knobs are restored", "warning")
        except ReplexplorerError as error:
            self._end = (f"{kind} {lab.name}: {error}", "error")
        except Exception as error:  # whatever it is, the screen must say it
            self._end = (f"{kind} {lab.name}: {type(error).__name__}: {error}", "error")
        else:
            self.results[lab] = result
            self.unseen = lab
            self._end = (_told(result), "error" if result.unrestored else _TONES[result.verdict])

    def _show(self, step: StagedStep) -> None:
        self.step = step
        self.moved()


def _told(result: StagedResult) -> str:
    """The end in a line."""
    if isinstance(result, MatrixResult):
        text, of = f"drill {MATRIX}: {result.verdict}", "cells"
        held = [each.as_theory is not False for each in result.cells]
        if result.aborted is not None:
            kept = len(result.cells)
            text += f", {kept} cell{' is' if kept == 1 else 's are'} kept and the next run continues"
    elif isinstance(result, DrillResult):
        text, of = f"drill {result.drill.name}: {result.verdict}", "expectations"
        held = [each.holds for each in result.expectations]
        if result.ledger is not None:
            text += f", {result.ledger.lost:,} of {result.ledger.acknowledged:,} rows lost"
    else:
        text, of = f"lab {result.lab.name}: {result.verdict}", "relations"
        held = [each.holds for each in result.relations]
    if result.aborted is not None:
        text += f", {result.aborted}"
    elif not all(held):
        text += f", {held.count(False)} of {len(held)} {of}"
    if result.unrestored:
        text += f"; not restored: {'; '.join(result.unrestored)}"
    return text

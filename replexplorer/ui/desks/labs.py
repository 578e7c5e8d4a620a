"""The dashboard's labs: which there are, the one under way, and what each found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.labs import LABS
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.run import LabRun
from replexplorer.engine.experiment.labs.step import Conductor, LabStep
from replexplorer.ui.desks.commander import Commander
from replexplorer.ui.settings import Settings

Tone = Literal["information", "warning", "error"]
"""How prominently an end is reported."""
_TONES: Final[dict[str, Tone]] = {"holds": "information", "deviates": "warning", "aborted": "error"}


@dataclass(frozen=True, slots=True)
class LabView:
    """A lab under way, as the strip shows it."""

    lab: Lab
    step: LabStep | None
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
    lab: Lab | None = None
    """The one that runs or ran last."""
    step: LabStep | None = None
    by_hand: bool = False
    """The next lab waits for a key between its phases."""
    results: dict[Lab, LabResult] = field(default_factory=dict)
    """What each lab found when it ran last."""
    unseen: Lab | None = None
    """It has ended, and nobody has looked at its result."""
    task: asyncio.Task[None] | None = None
    _conductor: Conductor = field(default_factory=Conductor)
    _end: tuple[str, Tone] | None = None

    @property
    def labs(self) -> tuple[Lab, ...]:
        """Ours, then the user's own."""
        return (*LABS.values(), *self.settings.labs)

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

    def start(self, lab: Lab, *, quick: bool) -> None:
        """Run a lab beside the dashboard."""
        self.lab, self.step, self.unseen = lab, None, None
        self._conductor = Conductor(by_hand=self.by_hand)
        self.task = asyncio.create_task(self._run(lab, quick, self._conductor), name=f"lab {lab.name}")
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

    async def _run(self, lab: Lab, quick: bool, conductor: Conductor) -> None:
        try:
            result = await self.commander.do(Run(LabRun(lab, quick, self._show, conductor)))
        except asyncio.CancelledError:
            self._end = (f"lab {lab.name}: stopped; its knobs are restored", "warning")
        except ReplexplorerError as error:
            self._end = (f"lab {lab.name}: {error}", "error")
        except Exception as error:  # whatever it is, the screen must say it
            self._end = (f"lab {lab.name}: {type(error).__name__}: {error}", "error")
        else:
            self.results[lab] = result
            self.unseen = lab
            self._end = (_told(result), "error" if result.unrestored else _TONES[result.verdict])

    def _show(self, step: LabStep) -> None:
        self.step = step
        self.moved()


def _told(result: LabResult) -> str:
    """The end in a line."""
    text = f"lab {result.lab.name}: {result.verdict}"
    if result.aborted is not None:
        text += f", {result.aborted}"
    elif failed := sum(not relation.holds for relation in result.relations):
        text += f", {failed} of {len(result.relations)} relations"
    if result.unrestored:
        text += f"; not restored: {'; '.join(result.unrestored)}"
    return text

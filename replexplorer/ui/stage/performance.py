"""A play performed on the dashboard, line by line.

Law: a line begins when the one before it has ended and is drawn; the first line that fails ends the play.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from textual import events

from replexplorer.core.errors import Interrupted, ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs.names import Assignment, desired_of, same_value
from replexplorer.core.play.condition import PlayMoment
from replexplorer.core.play.keyboard import PlayedKey
from replexplorer.core.play.script import (
    CaptionStep,
    DoStep,
    KeyStep,
    MarkStep,
    PlayLine,
    PlayScript,
    ShowStep,
    UntilStep,
    WaitStep,
)
from replexplorer.engine.console import Clear, Inject, Mark, Reset, Turn
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.stage.app import CaptionBar, PlayedApp
from replexplorer.ui.stage.followed import FollowedView
from replexplorer.ui.stage.stages import PlayStage

_GLANCE_S: Final = 0.02
_TAKEN_WITHIN_S: Final = 5.0
"""So long a key is waited for; one that something still handles then was taken."""
_DEFAULTS: Final = PlayLine(0, "start", DoStep("start", ""))
"""How a play on live servers begins that does not say it."""


class PlayFailed(ReplexplorerError):
    """A line of a play did not do what it says."""

    code = "play"


@dataclass(frozen=True, slots=True)
class PlayedLine:
    """A line that was performed."""

    line: PlayLine
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then; empty before the first tick."""
    changed: tuple[str, ...] = ()
    """What it changed, where it is what the play starts from."""


class Performance:
    """One play, once."""

    def __init__(
        self,
        script: PlayScript,
        view: FollowedView,
        set_stage: Callable[[PlayedApp], PlayStage],
        *,
        told: Callable[[PlayedLine], None] = lambda _: None,
        marked: Callable[[str], None] = lambda _: None,
        shows: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`told` hears of each line when it has ended; `marked` of what a cast marks; `shows` whether a cast
        takes what is drawn, from now on."""
        self._script = script
        self._view = view
        self._set_stage = set_stage
        self._told = told
        self._marked = marked
        self._shows = shows
        self._changed: tuple[str, ...] = ()
        self._caption = ""
        self._marks_before: int | None = None
        """How many marks there were when the newest key or mark line began; None after an `until`."""
        self.lines: list[PlayedLine] = []
        """Those that were performed."""
        self.failure: ReplexplorerError | None = None
        """Why it ended early."""
        self.left = ""
        """What the dashboard says it left behind."""
        self.crash: Exception | None = None
        """The defect that ended the app."""

    async def run(self, app: PlayedApp) -> None:
        """Wait for the dashboard, perform every line, and quit."""
        try:
            await self._ready(app)
            stage = self._set_stage(app)
            await stage.settle()
            lines = self._script.lines
            states_start = isinstance(lines[0].act, DoStep) and lines[0].act.word == "start"
            if self._view.console is not None and not states_start:
                lines = (_DEFAULTS, *lines)
            if self._view.console is None:
                self._shows(True)
            for line in lines:
                began_s = stage.now_s()
                await self._perform_told(app, stage, line)
                await self._keep_caption(app)
                await stage.settle()
                now_s = stage.now_s()
                played = PlayedLine(line, now_s, now_s - began_s, self._state, self._changed)
                self._changed = ()
                self.lines.append(played)
                self._told(played)
        except ReplexplorerError as error:
            self.failure = error
        except asyncio.CancelledError:
            self.failure = self._left()
            raise
        except Exception as error:  # a defect ends the play as it would the dashboard, told by who runs it
            app._handle_exception(error)
            return
        finally:
            self._shows(False)
        app.action_app_leave()

    @property
    def _state(self) -> str:
        moment = self._view.moment
        return "" if moment is None else str(moment.tick.protection.state)

    def _left(self) -> Interrupted:
        done = sum(each.line is not _DEFAULTS for each in self.lines)
        line = self._script.lines[min(done, len(self._script.lines) - 1)]
        return Interrupted(f"the play was left at line {line.number}", f"`{line.text}` was not done")

    async def _ready(self, app: PlayedApp) -> None:
        """Wait until the dashboard shows its first tick; raises what the start-up failed of."""
        while True:
            if self._view.failure is not None:
                raise self._view.failure
            screen = app.screen
            if isinstance(screen, DashboardScreen):
                self._view.picture = screen.picture
                if self._view.moment is not None:
                    return
            await asyncio.sleep(_GLANCE_S)

    async def _perform_told(self, app: PlayedApp, stage: PlayStage, line: PlayLine) -> None:
        """Perform it; an error says of which line it is."""
        try:
            await self._perform(app, stage, line)
        except ReplexplorerError as error:
            where = f"{self._script.file}, line {line.number}: " if line.number else ""
            error.message = f"{where}`{line.text}`: {error.message}"
            raise

    async def _perform(self, app: PlayedApp, stage: PlayStage, line: PlayLine) -> None:
        if isinstance(line.act, KeyStep | MarkStep | DoStep):
            self._marks_before = self._view.marks
        match line.act:
            case KeyStep(keys):
                for key in keys:
                    await self._press(app, stage, key)
                    await self._keep_caption(app)
            case WaitStep(length_s):
                await stage.rest(length_s)
            case UntilStep():
                await self._wait_for(stage, line.act)
            case CaptionStep(text):
                self._caption = text
                if text:
                    self._marked(text)
            case MarkStep(text):
                await self._mark(app, text)
            case ShowStep(is_shown):
                self._shows(is_shown)
            case DoStep("start", rest):
                await self._start(rest)
                await stage.settle()
                self._shows(True)
            case DoStep():
                await self._do(line.act)

    async def _press(self, app: PlayedApp, stage: PlayStage, key: PlayedKey) -> None:
        """Press a key; raises PlayFailed where nothing takes it."""
        said = app.untaken(key.name)  # the screen may be another one afterwards
        app.press(events.Key(key.name, key.character))
        await stage.settle()
        for _ in range(round(_TAKEN_WITHIN_S / _GLANCE_S)):
            if app.took is not None:
                break
            await asyncio.sleep(_GLANCE_S)
        if app.took is False:
            raise PlayFailed(*said)

    async def _start(self, rest: str) -> None:
        """Put the stack where the play starts from: no fault, each knob at its default, but for these."""
        console, moment = self._view.console, self._view.moment
        if console is None or moment is None:
            return
        knobs = moment.tick.knobs
        usual = [Assignment((name,), view.default) for name, view in knobs.items()]
        wanted = desired_of([*usual, *map(console.parse, rest.split())])
        other = [
            Assignment((name,), value)
            for name, value in wanted.items()
            if name not in knobs or not same_value(name.knob, knobs[name].requested, value)
        ]
        self._changed = tuple(await self._view.put(other))

    async def _do(self, step: DoStep) -> None:
        """As the verb of this name does."""
        console, moment = self._view.console, self._view.moment
        if console is None or moment is None or moment.tick.roster is None:
            return
        match step.word:
            case "set":
                await console.do(Turn(tuple(map(console.parse, step.rest.split()))))
            case "fault":
                await console.do(Inject(parse_fault(step.rest, moment.tick.roster)))
            case "clear":
                await console.do(Clear(step.rest or None))
            case _:
                await console.do(Reset())

    async def _wait_for(self, stage: PlayStage, act: UntilStep) -> None:
        before, self._marks_before = self._marks_before, None
        marks = self._view.marks if before is None else before

        def now(moment: PlayMoment) -> PlayMoment:
            return replace(moment, marks_since=self._view.marks - marks)

        if await stage.until(lambda moment: act.condition.holds(now(moment)), act.within_s):
            return
        moment = self._view.moment
        seen = "no picture came" if moment is None else act.condition.seen(now(moment))
        raise PlayFailed(f"did not hold within {act.within_s:g} s", seen)

    async def _mark(self, app: PlayedApp, text: str) -> None:
        console = self._view.console
        if console is None:  # a recording has the marks that it has
            self._marked(text)
            app.notify(text, timeout=3)
        else:
            await console.do(Mark(text))

    async def _keep_caption(self, app: PlayedApp) -> None:
        """The caption stands on the screen in front, and on no other."""
        for screen in app.screen_stack:
            for bar in screen.query(CaptionBar):
                if not self._caption or screen is not app.screen:
                    await bar.remove()
        if self._caption:
            bars = app.screen.query(CaptionBar)
            if bars:
                bars.first().update(self._caption)
            else:
                await app.screen.mount(CaptionBar(self._caption, markup=False))

"""A play performed on the dashboard, line by line: on live servers, or over a recording whose time is moved
by hand; and a cast of it where one is asked.

Laws: a line begins when the one before it has ended and is drawn; the first line that fails ends the play.
Over a recording the same play meets the same ticks each time, however fast the machine draws. What a play
turned is restored when its view is closed, however it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from rich.color import ColorSystem
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.widgets import Static

from replexplorer.core.errors import Interrupted, ReplexplorerError, UsageError
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs.names import Assignment, desired_of, format_change
from replexplorer.core.tick import Tick
from replexplorer.engine.lesson import LessonRun
from replexplorer.engine.view import Replay, Tape, View
from replexplorer.formats.play_script import (
    CastWriter,
    Condition,
    PlayedLine,
    PlayMoment,
    PlayScript,
    Step,
)  # fmt: skip
from replexplorer.formats.scenes import find_scene
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.startup import StartupScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import TALL_ROWS
from replexplorer.ui.widgets.strips import block_rows
from replexplorer.ui.words.runs import wrapped

_GLANCE_S: Final = 0.02
"""Between two looks whether there is another picture."""
_SETTLE_WITHIN_S: Final = 30.0
"""Longer no jump in a recording takes: a day of ticks is folded in less."""
_CLEARED: Final = "\x1b[?25l\x1b[H\x1b[2J"
"""How a cast begins: without a cursor, on an empty screen."""
_NOT_DRAWN: Final = ("\x1b]52;", "\x1b]22;")
"""How a text for the clipboard begins, and the pointer's shape: both are for whoever sits here, not for
those who play the cast."""
_READ_S, _READ_EACH_S = 2.0, 0.03
"""How long a lesson's caption is shown before it goes on: at least, and for each character."""
_DEFAULTS: Final = Step("start", text="start")
"""How a play on live servers begins that does not say it."""


class PlayFailed(ReplexplorerError):
    """A line of a play did not do what it says."""

    code = "play"


class ManualClock:
    """Seconds since the play began (`ports.Clock`); they pass when `advance_to` says so, so that a recording
    is played as fast as it is drawn, and the same each time."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        """Seconds since the play began."""
        return self._now_s

    wall = monotonic
    """The same: a recording has clock times of its own."""

    async def sleep(self, seconds: float) -> None:
        """Return once the time has been moved by so much."""
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_s + seconds, wakes))
        await wakes

    @property
    def next_s(self) -> float:
        """When the next sleeper wakes; infinite when there is none."""
        return min((due_s for due_s, wakes in self._sleepers if not wakes.done()), default=math.inf)

    def advance_to(self, at_s: float) -> None:
        """Let the time be this and wake who is due; it never goes back."""
        self._now_s = max(self._now_s, at_s)
        for due_s, wakes in self._sleepers:
            if due_s <= self._now_s and not wakes.done():
                wakes.set_result(None)
        self._sleepers = [each for each in self._sleepers if not each[1].done()]


class CaptionBar(Static):
    """What a play says, in a box at the screen's lower end; the dashboard makes room for it."""

    DEFAULT_CSS = """
    CaptionBar {
        dock: bottom; height: auto; width: 1fr; padding: 1 2;
        background: $rx-select; color: $rx-title; text-style: bold; text-align: center;
    }
    """

    def __init__(self, caption: str, letter_cells: int = 0) -> None:
        """In large letters where it fits into two lines of `letter_cells`; 0: never."""
        lines = wrapped(caption, max(1, letter_cells // 3)) if caption.isascii() else []
        are_large = letter_cells > 0 and len(lines) in (1, 2)
        rows = [row for line in lines for row in block_rows(line, bold=False)] if are_large else [caption]
        super().__init__("\n".join(rows), markup=False)
        self.said = (caption, letter_cells)
        """What it says, and the cells that its letters had."""


class _CapturingDriver(HeadlessDriver):
    """A terminal that is not there: what it would be sent goes into the cast of its app."""

    is_headless = False  # Textual draws for it as for a real one

    def write(self, data: str) -> None:
        """Pass on what is drawn."""
        if isinstance(self._app, PlayApp) and not data.startswith(_NOT_DRAWN):
            self._app.capture("o", data)


class PlayApp(ExplorerApp):
    """The dashboard with one play, once."""

    def __init__(
        self,
        script: PlayScript,
        view: View,
        settings: Settings,
        *,
        size: tuple[int, int] | None = None,
        cast: CastWriter | None = None,
        pictures: list[str] | None = None,
        told: Callable[[PlayedLine], None] = lambda _: None,
        clock: ManualClock | None = None,
    ) -> None:
        """`size`: columns and rows without a terminal; None: in the terminal of this process. `cast` takes
        what is drawn without one, `pictures` the screen as an SVG before each caption and at the end.
        `told` hears of each line when it has ended."""
        # Keys are the default ones, so that a play is the same for everybody.
        settings = replace(settings, keymap={})
        if clock is not None:
            settings = replace(settings, monotonic=clock.monotonic)
        super().__init__(view, settings)
        self._script = script
        self._without_terminal = size
        self._cast = cast
        self._pictures = pictures
        self._told = told
        self._clock = clock
        self._pilot: Pilot[str] = Pilot(self)
        self._began_s = time.monotonic()
        self._caption = ""
        self._bar: CaptionBar | None = None
        self._is_taken = False
        """Something took the key that was pressed last."""
        self._changed: tuple[str, ...] = ()
        self._dashboard: DashboardScreen | None = None
        self._first: Tick | None = None
        self._marks: set[int] = set()
        """Those that are in the cast."""
        self._mark_before: int | None = None
        """The newest mark when the line began that may make one; None after an `until`."""
        self._hidden_s = 0.0
        """So much time is not in the cast."""
        self._hidden_since_s: float | None = 0.0
        """In the cast it is still this moment; None: time passes there too."""
        self.lines: list[PlayedLine] = []
        """Those that were performed."""
        self.failure: ReplexplorerError | None = None
        """Why it ended early."""
        self.left = ""
        """What was restored and what the view leaves behind."""
        if size is not None:
            self.driver_class = _CapturingDriver
            if not self.no_color:
                self.console._color_system = ColorSystem.TRUECOLOR

    @classmethod
    def over(cls, script: PlayScript, tape: Tape, settings: Settings, **how: Any) -> Self:
        """A play over a recording: in real time in a terminal, else as fast as it is drawn."""
        clock = ManualClock()
        return cls(script, Replay(tape, clock), settings, clock=clock, **how)

    def perform(self) -> Self:
        """Perform it to its end."""
        self.capture("o", _CLEARED)
        self.left = self.run(size=self._without_terminal) or ""
        self.capture("o", "")
        return self

    @property
    def has_terminal(self) -> bool:
        """Not while its output is captured."""
        return self._without_terminal is None and super().has_terminal

    def on_mount(self) -> None:
        """Begin the play behind the start-up screen, which the dashboard's own handler shows."""
        if not self.has_terminal:  # then no key can end it
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                for number in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(number, self.end_in_time)
        self.run_worker(self._perform(), group="play", exit_on_error=False)

    def notify(self, message: str, **how: Any) -> None:
        """A toast; not in a cast over a recording, whose time goes its own way."""
        if self._clock is None or self.has_terminal:
            super().notify(message, **how)

    async def close_view(self, *, keep: bool) -> str:
        """Restore what was turned since the first tick and close the view."""
        restored = ""
        if self._view.console is not None and self._first is not None:
            values = [Assignment((name,), view.requested) for name, view in self._first.knobs.items()]
            try:
                changed = await self._put(values)
            except ReplexplorerError as error:
                restored = f"what the play turned could not be restored: {error}"
            else:
                restored = f"restored what the play turned: {'; '.join(changed)}" if changed else ""
        return "\n".join(filter(None, [restored, await super().close_view(keep=keep)]))

    # -- the cast

    @property
    def _now_s(self) -> float:
        """Seconds since the play began."""
        return time.monotonic() - self._began_s if self._clock is None else self._clock.monotonic()

    def capture(self, kind: str, data: str, ago_s: float = 0.0) -> None:
        """Put an event into the cast; while it is hidden, all in one moment and without marks."""
        hidden_since_s = self._hidden_since_s
        if self._cast is not None and (kind == "o" or hidden_since_s is None):
            now_s = self._now_s if hidden_since_s is None else hidden_since_s
            self._cast.event(now_s - self._hidden_s - ago_s, kind, data)

    def _take_picture(self) -> None:
        if self._pictures is not None:
            self._pictures.append(self.export_screenshot(title=self._script.title))

    def _show(self, is_shown: bool) -> None:
        """Let time pass in the cast, or not; harmless twice."""
        if is_shown and self._hidden_since_s is not None:
            self._hidden_s += self._now_s - self._hidden_since_s
            self._hidden_since_s = None
        elif not is_shown and self._hidden_since_s is None:
            self._hidden_since_s = self._now_s

    # -- time

    def _moment(self) -> PlayMoment:
        """What conditions are asked of; each numbered mark that is new goes into the cast."""
        picture = None if self._dashboard is None else self._dashboard.picture
        if picture is None or (tick := picture.tick) is None:
            raise RuntimeError("the dashboard is not ready")
        for event in tuple(picture.log) if len(self._marks) < len(picture.marks) else ():
            if event.mark is not None and event.mark not in self._marks:
                self._marks.add(event.mark)
                self.capture("m", f"({event.mark}) {event.text}", tick.at_s - event.at_s)
        player = self._view.player
        newest = max((mark.number for mark in picture.marks), default=0)
        return PlayMoment(
            tick,
            picture.recent,
            picture.elapsed_s,
            newest_mark=newest,
            marks_since=newest - (self._mark_before or 0),
            at_end=player is not None and player.position.position_s >= player.position.length_s,
        )

    async def _settle(self) -> None:
        """Wait until what was pressed has been handled and drawn; over a recording until it rests as well."""
        await self._pilot.pause(0)
        if isinstance(self._view, Replay):
            began_s = time.monotonic()
            while time.monotonic() - began_s < _SETTLE_WITHIN_S and not (
                self._view.rests
                and math.isclose(self._moment().elapsed_s, self._view.position.position_s, abs_tol=1e-6)
            ):
                await self._pilot.pause(0.002)
            await self._pilot.pause(0)

    async def _until(self, conditions: Sequence[Condition], within_s: float) -> bool:
        """Let time pass until these hold, to the end for none; False when they did not within that. Over a
        recording the moment that is drawn is asked first, on live servers the next one."""
        goal_s = self._now_s + within_s
        before = self._moment().tick if self._clock is None else None
        while (
            not conditions
            or (moment := self._moment()).tick is before
            or not all(each.holds(moment) for each in conditions)
        ):
            if not await self._pass_time(goal_s):
                return False
        return True

    async def _pass_time(self, goal_s: float) -> bool:
        """For a glance, or to the recording's next tick; whether it is not beyond the goal."""
        clock = self._clock
        if clock is None:
            await asyncio.sleep(_GLANCE_S)
            return self._now_s < goal_s
        next_s = clock.next_s
        if math.isinf(min(next_s, goal_s)):
            return False
        if self._without_terminal is None:  # somebody watches
            await asyncio.sleep(max(0.0, self._began_s + min(next_s, goal_s) - time.monotonic()))
        clock.advance_to(min(next_s, goal_s))
        for _ in range(10):  # who wakes has a turn before it is asked whether all rest
            await asyncio.sleep(0)
        await self._settle()
        return next_s <= goal_s

    # -- the lines

    async def _perform(self) -> None:
        """Wait for the dashboard, perform every line, and quit."""
        try:
            await self._wait_until_ready()
            lines = self._script.lines
            if self._view.console is None:
                self._show(True)
            elif lines[0].word != "start":
                lines = (_DEFAULTS, *lines)
            for line in lines:
                if line.word == "caption":
                    self._take_picture()
                began_s = self._now_s
                await self._do(line)
                await self._keep_caption()
                await self._settle()
                now_s, state = self._now_s, str(self._moment().tick.protection.state)
                played = PlayedLine(line.number, line.text, now_s, now_s - began_s, state, self._changed)
                self._changed = ()
                self.lines.append(played)
                self._told(played)
            self._take_picture()
        except ReplexplorerError as error:
            self.failure = error
        except asyncio.CancelledError:
            done = sum(each.line > 0 for each in self.lines)
            line = self._script.lines[min(done, len(self._script.lines) - 1)]
            told = f"the play was left at line {line.number}"
            self.failure = Interrupted(told, f"`{line.text}` was not done")
            raise
        except Exception as error:  # a defect ends the play as it would the dashboard
            self._handle_exception(error)
            return
        finally:
            self._show(False)
        self.action_app_leave()

    async def _wait_until_ready(self) -> None:
        """Wait until the dashboard shows its first tick; raises what the start-up failed of."""
        while not isinstance(self.screen, DashboardScreen) or self.screen.picture.tick is None:
            if isinstance(self.screen, StartupScreen) and self.screen.failure is not None:
                raise self.screen.failure
            await asyncio.sleep(_GLANCE_S)
        self._dashboard, self._first = self.screen, self.screen.picture.tick
        self._began_s = time.monotonic()
        await self._settle()

    async def _do(self, line: Step) -> None:
        """Perform a line; an error says which one it is."""
        try:
            await self._done(line)
        except ReplexplorerError as error:
            where = f"{self._script.file}, line {line.number}: " if line.number else ""
            error.message = f"{where}`{line.text}`: {error.message}"
            raise

    async def _done(self, line: Step) -> None:
        if line.word in ("key", "mark") or line.is_of_servers:
            self._mark_before = self._moment().newest_mark
        match line.word:
            case "key":
                for key in line.keys:
                    self._is_taken = True
                    await self._pilot.press(key)
                    await self._settle()
                    if not self._is_taken:
                        raise PlayFailed(f"{key} does nothing here", "press what this screen has: see `?`")
                    await self._keep_caption()
            case "wait":
                await self._until((), line.length_s)
            case "until":
                await self._wait_for(line.conditions, line.length_s)
            case "caption":
                self._caption = line.rest
                if line.rest:
                    self.capture("m", line.rest)
            case "mark" if self._view.console is None:  # a recording has the marks that it has
                self.capture("m", line.rest)
            case "hide" | "show":
                self._show(line.word == "show")
            case _:
                await self._command(line)

    async def _wait_for(self, conditions: Sequence[Condition], within_s: float) -> None:
        if self._mark_before is None:
            self._mark_before = self._moment().newest_mark
        held, moment = await self._until(conditions, within_s), self._moment()
        self._mark_before = None
        if not held:
            instead = "; ".join(each.seen(moment) for each in conditions if not each.holds(moment))
            raise PlayFailed(f"did not hold within {within_s:g} s", instead)

    async def _command(self, line: Step) -> None:
        """As the verb of this name does, on live servers."""
        console, tick, rest = self._view.console, self._moment().tick, line.rest
        if console is None or tick.roster is None:
            raise UsageError("a recording cannot be changed", "play it on live servers")
        match line.word:
            case "start":  # no fault, each knob at its default, but for these
                usual = [Assignment((name,), view.default) for name, view in tick.knobs.items()]
                wanted = desired_of([*usual, *map(console.parse, rest.split())])
                there = [Assignment((name,), value) for name, value in wanted.items() if name in tick.knobs]
                self._changed = tuple(await self._put(there))
                await self._settle()
                self._show(True)
            case "mark":
                await console.mark(rest)
            case "set":
                await console.set(tuple(map(console.parse, rest.split())))
            case "preset":
                await console.apply(find_scene(rest))
            case "fault":
                await console.inject(parse_fault(rest, tick.roster))
            case "clear":
                await console.clear(rest or None)
            case "lab" | "drill" if self._dashboard is not None:
                experiment = line.experiment
                control = self._dashboard.experiments
                await asyncio.wait([control.start(experiment, quick=rest.endswith(" quick"))])
                found = control.result_of(experiment)
                if found is None or found.verdict != "holds":
                    raise PlayFailed(found.ending if found else f"{line.word} {rest}: ended early", "")
            case "lesson" if self.settings.give is not None:
                with self.settings.give(line.experiment, lambda: None) as run:
                    await self._give(run)
            case _:
                await console.reset()

    async def _give(self, run: LessonRun) -> None:
        """Go through a lesson: what each step says as the caption while it is done, then what came of it."""
        try:
            await self._say(run.lesson.steps[0].say)
            await run.begin()
            while True:
                if run.is_open:
                    await self._say((await run.answer(None)).words)
                if run.at + 1 == len(run.lesson.steps):
                    return
                await self._say(run.lesson.steps[run.at + 1].say)
                await run.next()
        finally:
            await run.end()
            self._caption = ""

    async def _say(self, text: str) -> None:
        """Show it as the caption, long enough to be read."""
        await self._done(Step("caption", text))
        await self._keep_caption()
        await asyncio.sleep(_READ_S + len(text) * _READ_EACH_S)

    async def _put(self, assignments: Sequence[Assignment]) -> list[str]:
        """Clear every fault and turn these knobs of live servers; answers what that changed."""
        console = self._view.console
        if console is None:
            return []
        cleared = [f"cleared {each.fault}" for each in await console.clear()]
        turned = (await console.set(tuple(assignments))).changed
        return [*cleared, *(format_change(one.name, one.before, one.requested) for one in turned)]

    async def _keep_caption(self) -> None:
        """The caption is on the screen in front and on no other, in large letters before a room."""
        bar, dashboard = self._bar, self._dashboard
        before_room = dashboard is self.screen and dashboard.presenter.began_s is not None
        has_room = before_room and self.size.height >= TALL_ROWS and not self.settings.glyphs.ascii
        said = self._caption, self.size.width - 4 if has_room else 0
        if bar is not None and (bar.said != said or bar not in self.screen.children):
            self._bar = None
            await bar.remove()
        if self._caption and self._bar is None:
            self._bar = CaptionBar(*said)
            await self.screen.mount(self._bar)

    # -- keys that nothing takes

    def on_key(self) -> None:
        """A key has come up to here: no screen and no widget kept it, and a binding may still act."""
        self._is_taken = False

    async def run_action(self, *action: Any, **how: Any) -> bool:
        """Run an action; one that is done has taken the key."""
        done = await super().run_action(*action, **how)
        self._is_taken = self._is_taken or done
        return done

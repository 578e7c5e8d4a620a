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
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from rich.color import ColorSystem
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.widgets import Static

from replexplorer.core.errors import Interrupted, ReplexplorerError, UsageError
from replexplorer.core.experiment.experiment import NamedExperiment
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs.names import Assignment, desired_of, format_change, same_value
from replexplorer.core.play import Condition, PlayMoment
from replexplorer.core.tick import Tick
from replexplorer.engine.view import Replay, Tape, View
from replexplorer.formats.play_script import CastWriter, PlayScript, Step
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.startup import StartupScreen
from replexplorer.ui.settings import Settings

_GLANCE_S: Final = 0.02
"""Between two looks whether there is another picture."""
_SETTLE_WITHIN_S: Final = 30.0
"""Longer no jump in a recording takes: a day of ticks is folded in less."""
_CLEARED: Final = "\x1b[?25l\x1b[H\x1b[2J"
"""How a cast begins: without a cursor, on an empty screen."""
_NOT_DRAWN: Final = ("\x1b]52;", "\x1b]22;")
"""How a text for the clipboard begins, and the pointer's shape: both are for whoever sits here, not for
those who play the cast."""
_DEFAULTS: Final = Step("start", text="start")
"""How a play on live servers begins that does not say it."""


class PlayFailed(ReplexplorerError):
    """A line of a play did not do what it says."""

    code = "play"


@dataclass(frozen=True, slots=True)
class PlayedLine:
    """A line that was performed."""

    line: Step
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then; empty before the first tick."""
    changed: tuple[str, ...] = ()
    """What it changed, where it is what the play starts from."""


class ManualClock:
    """Seconds since the play began (`ports.Clock`); they pass when `advance_to` says so, so that a recording
    is played as fast as it is drawn, and the same each time."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._sleepers: dict[asyncio.Future[None], float] = {}

    def monotonic(self) -> float:
        """Seconds since the play began."""
        return self._now_s

    def wall(self) -> float:
        """The same: a recording has clock times of its own."""
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        """Return once the time has been moved by so much."""
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[wakes] = self._now_s + seconds
        try:
            await wakes
        finally:
            del self._sleepers[wakes]

    @property
    def next_s(self) -> float | None:
        """When the next sleeper wakes; None when there is none."""
        return min((due_s for wakes, due_s in self._sleepers.items() if not wakes.done()), default=None)

    def advance_to(self, at_s: float) -> None:
        """Let the time be this and wake who is due; it never goes back."""
        self._now_s = max(self._now_s, at_s)
        for wakes, due_s in self._sleepers.items():
            if due_s <= self._now_s and not wakes.done():
                wakes.set_result(None)


class CaptionBar(Static):
    """One line of a play over the lower end of the screen, the knob line and keys below it left free."""

    DEFAULT_CSS = """
    CaptionBar {
        layer: _toastrack; dock: bottom; height: auto; max-height: 4; width: 1fr;
        margin: 0 2 2 2; padding: 0 2;
        background: $rx-select; color: $rx-title; text-style: bold; text-align: center;
    }
    """


class _CapturingDriver(HeadlessDriver):
    """A terminal that is not there: what it would be sent goes into the cast of its app."""

    is_headless = False  # Textual draws for it as for a real one

    def write(self, data: str) -> None:
        """Pass on what is drawn."""
        if isinstance(self._app, PlayApp) and not data.startswith(_NOT_DRAWN):
            self._app.capture(data)


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
        told: Callable[[PlayedLine], None] = lambda _: None,
        clock: ManualClock | None = None,
    ) -> None:
        """`size`: columns and rows without a terminal; None: in the terminal of this process. `cast` takes
        what is drawn without one. `told` hears of each line when it has ended. Raises UsageError where a line
        names a lab or drill that there is not."""
        # Keys are the default ones, so that a play is the same for everybody.
        settings = replace(settings, keymap={})
        if clock is not None:
            settings = replace(settings, monotonic=clock.monotonic)
        super().__init__(view, settings)
        self._script = script
        self._without_terminal = size
        self._cast = cast
        self._told = told
        self._clock = clock
        self._pilot: Pilot[str] = Pilot(self)
        self._began_s = time.monotonic()
        self._caption = ""
        self._changed: tuple[str, ...] = ()
        self._dashboard: DashboardScreen | None = None
        self._first: Tick | None = None
        self._observed: Tick | None = None
        self._marks: set[int] = set()
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
        for line in script.lines if view.console is not None else ():
            if line.word in ("lab", "drill"):
                self._experiment(line)
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
        if self._cast is not None:
            self._cast.output(0.0, _CLEARED)
        self.left = self.run(size=self._without_terminal) or ""
        if self._cast is not None:
            self._cast.flush(self._cast_s)
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
                    asyncio.get_running_loop().add_signal_handler(number, self._end_in_time)
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

    @property
    def _cast_s(self) -> float:
        return (self._now_s if self._hidden_since_s is None else self._hidden_since_s) - self._hidden_s

    def capture(self, data: str) -> None:
        """Take what a terminal would be sent; while it is hidden, all in one moment."""
        if self._cast is not None:
            self._cast.output(self._cast_s, data)

    def _marker(self, label: str, ago_s: float = 0.0) -> None:
        if self._cast is not None and self._hidden_since_s is None:
            self._cast.marker(max(0.0, self._cast_s - ago_s), label)

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
        for event in tuple(picture.log) if tick is not self._observed else ():
            if event.mark is not None and event.mark not in self._marks:
                self._marks.add(event.mark)
                self._marker(f"({event.mark}) {event.text}", tick.at_s - event.at_s)
        self._observed = tick
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

    async def _until(self, holds: Callable[[PlayMoment], bool | None], within_s: float) -> bool:
        """Let time pass until it holds; False when it did not within that. Over a recording the moment that
        is drawn is asked first, on live servers the next one."""
        if self._clock is not None:
            return await self._until_over(self._clock, holds, within_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                before = self._moment().tick
                while (moment := self._moment()).tick is before or not holds(moment):
                    before = moment.tick
                    await asyncio.sleep(_GLANCE_S)
                await self._settle()
                return True
        return False

    async def _until_over(
        self, clock: ManualClock, holds: Callable[[PlayMoment], bool | None], within_s: float
    ) -> bool:
        goal_s = clock.monotonic() + within_s
        await self._settle()
        while not holds(self._moment()):
            next_s = clock.next_s
            if next_s is None or next_s > goal_s:
                if not math.isinf(goal_s):
                    await self._pass_to(clock, goal_s)
                return False
            await self._pass_to(clock, next_s)
        return True

    async def _pass_to(self, clock: ManualClock, at_s: float) -> None:
        if self._without_terminal is None:  # somebody watches
            await asyncio.sleep(max(0.0, self._began_s + at_s - time.monotonic()))
        clock.advance_to(at_s)
        for _ in range(10):  # who wakes has a turn before it is asked whether all rest
            await asyncio.sleep(0)
        await self._settle()

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
                began_s = self._now_s
                await self._do(line)
                await self._keep_caption()
                await self._settle()
                state = str(self._moment().tick.protection.state)
                played = PlayedLine(line, self._now_s, self._now_s - began_s, state, self._changed)
                self._changed = ()
                self.lines.append(played)
                self._told(played)
        except ReplexplorerError as error:
            self.failure = error
        except asyncio.CancelledError:
            done = sum(each.line is not _DEFAULTS for each in self.lines)
            line = self._script.lines[min(done, len(self._script.lines) - 1)]
            self.failure = Interrupted(
                f"the play was left at line {line.number}", f"`{line.text}` was not done"
            )
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
                    await self._pilot.press(key)
                    await self._settle()
                    await self._keep_caption()
            case "wait" if self._clock is None:
                await asyncio.sleep(line.length_s)
            case "wait":
                await self._until(lambda _: False, line.length_s)
            case "until" if line.condition is not None:
                await self._wait_for(line.condition, line.length_s)
            case "caption":
                self._caption = line.rest
                if line.rest:
                    self._marker(line.rest)
            case "mark" if self._view.console is None:  # a recording has the marks that it has
                self._marker(line.rest)
            case "hide" | "show":
                self._show(line.word == "show")
            case _:
                await self._command(line)

    async def _wait_for(self, condition: Condition, within_s: float) -> None:
        if self._mark_before is None:
            self._mark_before = self._moment().newest_mark
        try:
            if not await self._until(condition.holds, within_s):
                raise PlayFailed(f"did not hold within {within_s:g} s", condition.seen(self._moment()))
        finally:
            self._mark_before = None

    async def _command(self, line: Step) -> None:
        """As the verb of this name does, on live servers."""
        console, tick, rest = self._view.console, self._moment().tick, line.rest
        if console is None or tick.roster is None:
            raise UsageError("a recording cannot be changed", "play it on live servers")
        match line.word:
            case "start":  # no fault, each knob at its default, but for these
                usual = [Assignment((name,), view.default) for name, view in tick.knobs.items()]
                wanted = desired_of([*usual, *map(console.parse, rest.split())])
                other = [
                    Assignment((name,), value)
                    for name, value in wanted.items()
                    if name in tick.knobs and not same_value(name.knob, tick.knobs[name].requested, value)
                ]
                self._changed = tuple(await self._put(other))
                await self._settle()
                self._show(True)
            case "mark":
                await console.mark(rest)
            case "set":
                await console.set(tuple(map(console.parse, rest.split())))
            case "fault":
                await console.inject(parse_fault(rest, tick.roster))
            case "clear":
                await console.clear(rest or None)
            case "lab" | "drill" if self._dashboard is not None:
                found = await self._dashboard.run_experiment(
                    self._experiment(line), quick=rest.endswith(" quick")
                )
                if found is None or found.verdict != "holds":
                    raise PlayFailed(found.ending if found else f"{line.word} {rest}: ended early", "")
            case _:
                await console.reset()

    def _experiment(self, line: Step) -> NamedExperiment:
        """The lab or drill that a line names; raises UsageError."""
        known = self.settings.labs if line.word == "lab" else self.settings.drills
        name = line.rest.partition(" ")[0]
        found = next((each for each in known if each.name == name), None)
        if found is None:
            where = f"{self._script.file}, line {line.number}"
            raise UsageError(f"{where}: no {line.word} {name}", f"see `replexplorer {line.word} list`")
        return found

    async def _put(self, assignments: Sequence[Assignment]) -> list[str]:
        """Clear every fault and turn these knobs of live servers; answers what that changed."""
        console = self._view.console
        if console is None:
            return []
        cleared = [f"cleared {each.fault}" for each in await console.clear()]
        there = tuple(one for one in assignments if set(one.names) <= set(self._moment().tick.knobs))
        turned = (await console.set(there)).changed if there else ()
        return [*cleared, *(format_change(one.name, one.before, one.requested) for one in turned)]

    async def _keep_caption(self) -> None:
        """The caption stands on the screen in front, and on no other."""
        front = self.screen
        for screen in self.screen_stack:
            for bar in screen.query(CaptionBar):
                if not self._caption or screen is not front:
                    await bar.remove()
        if self._caption:
            bars = front.query(CaptionBar)
            if bars:
                bars.first().update(self._caption)
            else:
                await front.mount(CaptionBar(self._caption, markup=False))

"""Where a play is performed: in the terminal, or without one, with a cast of it where one is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from replexplorer.core.play.script import PlayScript
from replexplorer.engine.replay import Replay, Tape
from replexplorer.engine.view import View
from replexplorer.formats.cast import CastWriter
from replexplorer.ui.settings import Settings
from replexplorer.ui.stage.app import PlayedApp
from replexplorer.ui.stage.clock import StagedClock
from replexplorer.ui.stage.followed import FollowedView
from replexplorer.ui.stage.performance import Performance, PlayedLine
from replexplorer.ui.stage.stages import LiveStage, PlayStage, RecordedStage

_CLEARED: Final = "\x1b[?25l\x1b[H\x1b[2J"
"""How a cast begins: without a cursor, on an empty screen."""


class _Shutter:
    """When a cast is taken: time that is hidden is not in it. It is closed to begin with."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._hidden_s = 0.0
        self._since_s: float | None = 0.0

    @property
    def is_open(self) -> bool:
        """What is drawn is taken."""
        return self._since_s is None

    def at_s(self) -> float:
        """Where the cast is."""
        return (self._now_s() if self._since_s is None else self._since_s) - self._hidden_s

    def turn(self, *, is_open: bool) -> None:
        """Open or close it; harmless twice."""
        if is_open and self._since_s is not None:
            self._hidden_s += self._now_s() - self._since_s
            self._since_s = None
        elif not is_open and self._since_s is None:
            self._since_s = self._now_s()


@dataclass(frozen=True, slots=True)
class Venue:
    """How a play is shown."""

    settings: Settings
    """The dashboard's; keys are the default ones, so that a play is the same for everybody."""
    size: tuple[int, int] | None = None
    """Columns and rows without a terminal; None: in the terminal of this process."""
    cast: CastWriter | None = None
    """Takes what is drawn without a terminal."""
    told: Callable[[PlayedLine], None] = lambda _: None
    """Hears of each line when it has ended."""

    def play_live(self, script: PlayScript, view: View) -> Performance:
        """Perform it on live servers, in real time."""
        began_s = time.monotonic()
        return self._run(script, view, lambda: time.monotonic() - began_s, LiveStage)

    def play_over(self, script: PlayScript, tape: Tape) -> Performance:
        """Perform it over a recording: in real time in a terminal, else as fast as it is drawn."""
        clock = StagedClock()
        replay = Replay(tape, clock)

        def stage(app: PlayedApp, view: FollowedView) -> PlayStage:
            return RecordedStage(app, view, replay, clock, in_real_time=self.size is None)

        return self._run(script, replay, clock.monotonic, stage, clock)

    def _run(
        self,
        script: PlayScript,
        view: View,
        now_s: Callable[[], float],
        stage: Callable[[PlayedApp, FollowedView], PlayStage],
        clock: StagedClock | None = None,
    ) -> Performance:
        cast, shutter = self.cast, _Shutter(now_s)

        def mark(label: str, ago_s: float = 0.0) -> None:
            if cast is not None and shutter.is_open:
                cast.marker(max(0.0, shutter.at_s() - ago_s), label)

        def capture(data: str) -> None:
            if cast is not None and shutter.is_open:
                cast.output(shutter.at_s(), data)

        def show(is_shown: bool) -> None:
            was_open = shutter.is_open
            shutter.turn(is_open=is_shown)
            if is_shown and not was_open:
                app.redraw()

        followed = FollowedView(view, mark)
        performance = Performance(
            script, followed, lambda app: stage(app, followed), told=self.told, marked=mark, shows=show
        )
        settings = replace(self.settings, keymap={})
        if clock is not None:
            settings = replace(settings, monotonic=clock.monotonic)
        if cast is not None:
            cast.output(0.0, _CLEARED)
        app = PlayedApp(
            followed, settings, performance.run, capture=None if self.size is None else capture, clock=clock
        )
        performance.left = app.run(size=self.size) or ""
        performance.crash = app.crash
        if cast is not None:
            cast.flush(shutter.at_s())
        return performance

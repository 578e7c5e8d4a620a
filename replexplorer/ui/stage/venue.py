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
        cast = self.cast

        def mark(label: str) -> None:
            if cast is not None:
                cast.marker(now_s(), label)

        def capture(data: str) -> None:
            if cast is not None and not performance.is_over:
                cast.output(now_s(), data)

        followed = FollowedView(view, mark)
        performance = Performance(
            script, followed, lambda app: stage(app, followed), told=self.told, marked=mark
        )
        settings = replace(self.settings, keymap={}, keys_file=None, themes_directory=None)
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
            cast.flush(performance.ended_s)
        return performance

"""Where a play takes place: on live servers in real time, or over a recording whose time is moved by hand.

Law: over a recording the same play meets the same ticks each time, however fast the machine draws.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol

from textual.pilot import Pilot

from replexplorer.core.play.condition import PlayMoment
from replexplorer.engine.replay import Replay
from replexplorer.ui.stage.app import PlayedApp
from replexplorer.ui.stage.clock import StagedClock
from replexplorer.ui.stage.followed import FollowedView

_GLANCE_S = 0.002
_SETTLE_WITHIN_S = 30.0
"""Longer no jump in a recording takes: a day of ticks is folded in less."""
Holds = Callable[[PlayMoment], bool | None]
"""Whether what is waited for is so."""


class PlayStage(Protocol):
    """What a performance needs of time."""

    def now_s(self) -> float:
        """Seconds since the play began."""
        ...

    async def settle(self) -> None:
        """Wait until what was pressed has been handled and drawn."""
        ...

    async def rest(self, length_s: float) -> None:
        """Let so much time pass."""
        ...

    async def until(self, holds: Holds, within_s: float) -> bool:
        """Let time pass until it holds; False when it did not within that."""
        ...


class LiveStage:
    """Live servers: time passes by itself."""

    def __init__(self, app: PlayedApp, view: FollowedView) -> None:
        self._pilot = Pilot(app)
        self._view = view
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        """Since the stage was set."""
        return time.monotonic() - self._began_s

    async def settle(self) -> None:
        """Wait for the widgets."""
        await self._pilot.pause(0)

    async def rest(self, length_s: float) -> None:
        """Sleep."""
        await asyncio.sleep(length_s)

    async def until(self, holds: Holds, within_s: float) -> bool:
        """Ask of each moment from the next one on."""
        try:
            async with asyncio.timeout(within_s):
                while (moment := await self._view.moves()) is not None:
                    if holds(moment):
                        await self.settle()
                        return True
        except TimeoutError:
            pass
        return False


class RecordedStage:
    """A recording: each tick is drawn before the next one comes."""

    def __init__(
        self, app: PlayedApp, view: FollowedView, replay: Replay, clock: StagedClock, *, in_real_time: bool
    ) -> None:
        """`in_real_time`: for somebody who watches; else as fast as it is drawn."""
        self._app = app
        self._pilot = Pilot(app)
        self._view = view
        self._replay = replay
        self._clock = clock
        self._in_real_time = in_real_time
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        """By the staged clock."""
        return self._clock.monotonic()

    async def settle(self) -> None:
        """Wait until the recording rests and its last tick is drawn."""
        began_s = time.monotonic()
        await self._pilot.pause(0)
        while not self._is_settled and time.monotonic() - began_s < _SETTLE_WITHIN_S:
            await self._pilot.pause(_GLANCE_S)
        self._app.end_toasts()
        await self._pilot.pause(0)

    @property
    def _is_settled(self) -> bool:
        moment, position = self._view.moment, self._replay.position
        if self._view.ended:
            return True
        return (
            self._replay.rests
            and moment is not None
            and math.isclose(moment.elapsed_s, position.position_s, abs_tol=1e-6)
        )

    async def rest(self, length_s: float) -> None:
        """Play the ticks of so much time."""
        await self.until(lambda _: False, length_s)

    async def until(self, holds: Holds, within_s: float) -> bool:
        """Ask of the moment that is drawn, then of each one that comes."""
        goal_s = self._clock.monotonic() + within_s
        await self.settle()
        while not self._view.ended:
            if self._view.moment is not None and holds(self._view.moment):
                return True
            next_s = self._clock.next_s
            if next_s is None or next_s > goal_s:
                break
            await self._pass_to(next_s)
        if not math.isinf(goal_s):
            await self._pass_to(goal_s)
        return False

    async def _pass_to(self, at_s: float) -> None:
        if self._in_real_time:
            await asyncio.sleep(max(0.0, self._began_s + at_s - time.monotonic()))
        self._clock.advance_to(at_s)
        for _ in range(10):  # who wakes has a turn before it is asked whether all rest
            await asyncio.sleep(0)
        await self.settle()

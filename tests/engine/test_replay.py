"""Playing a recording: its ticks in their time, pause, speed, jumps and steps between marks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from replexplorer.engine.view import Replay
from tests.fakes.clock import VirtualClock
from tests.fakes.facade import FakeTape


class Screen:
    """Who takes the ticks, and when."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.seen: list[tuple[float, float]] = []
        """(now, the tick's at_s)"""

    async def look(self) -> None:
        async for tick in self._replay.ticks():
            self.seen.append((VirtualClock().monotonic(), tick.at_s))

    @property
    def at_s(self) -> float:
        return self.seen[-1][1]


@asynccontextmanager
async def playing(**options: Any) -> Any:
    replay = Replay(FakeTape(), VirtualClock(), **options)
    await replay.start(lambda *_: None)
    screen = Screen(replay)
    looking = asyncio.create_task(screen.look())
    yield replay, screen
    await replay.close()
    await asyncio.wait_for(looking, 1)


async def test_ticks_come_in_their_own_time() -> None:
    async with playing() as (replay, screen):
        await asyncio.sleep(30)
        assert [(now, at) for now, at in screen.seen] == [(half / 2 - 1, half / 2) for half in range(2, 43)]
        view = replay.position
        assert (view.position_s, view.length_s, view.playing) == (20.0, 20.0, False)


async def test_a_jump_gives_every_tick_up_to_its_goal_again() -> None:
    async with playing() as (replay, screen):
        await asyncio.sleep(8.1)
        replay.seek(-5)
        await asyncio.sleep(0.01)
        jumped = [at for now, at in screen.seen if now >= 8.1]
        assert jumped == [half / 2 for half in range(2, 9)], "from the first to 9 - 5 seconds"
        await asyncio.sleep(1)
        assert screen.at_s == 5.0


async def test_a_pause_holds_and_jumps_and_steps_between_marks_go_from_there() -> None:
    async with playing() as (replay, screen):
        await asyncio.sleep(3.2)
        replay.toggle()
        await asyncio.sleep(100)
        assert screen.at_s == 4.0
        jumps = [(partial(replay.seek, by_s), at_s) for by_s, at_s in ((3, 7.0), (-50, 1.0), (500, 21.0))]
        ways = (*[False] * 3, *[True] * 3)
        steps = [
            (partial(replay.step, on), at_s) for on, at_s in zip(ways, (10, 4, 1, 4, 10, 21), strict=True)
        ]
        for go, at_s in jumps + steps:
            go()
            await asyncio.sleep(1)
            assert (screen.at_s, replay.position.playing) == (at_s, False)
        replay.toggle()
        await asyncio.sleep(2.2)
        assert (screen.at_s, replay.position.playing) == (3.0, True), "at the end it begins again"
        replay.toggle()
        await asyncio.sleep(5)
        replay.toggle()
        await asyncio.sleep(2)
        assert screen.at_s == 5.0


async def test_speed_walks_through_its_steps_and_keeps_the_place() -> None:
    async with playing(speed=2.0) as (replay, screen):
        await asyncio.sleep(2.25)
        assert screen.at_s == pytest.approx(5.5, abs=0.5)
        for _ in range(10):
            replay.change_speed(faster=True)
        assert replay.position.speed == 16
        await asyncio.sleep(0.5)
        assert screen.at_s == pytest.approx(5.5 + 8, abs=0.5)
        for _ in range(10):
            replay.change_speed(faster=False)
        assert replay.position.speed == 0.5
        await asyncio.sleep(4)
        assert screen.at_s == pytest.approx(5.5 + 8 + 2, abs=0.5)

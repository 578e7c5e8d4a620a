"""Playing a recording: its ticks in their time, pause, speed, jumps and steps between marks."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from replexplorer.engine.view import Replay
from tests.fakes.clock import VirtualClock
from tests.fakes.facade import FakeTape


@asynccontextmanager
async def playing(speed: float = 1.0) -> AsyncIterator[tuple[Replay, list[tuple[float, float]]]]:
    """A replay, and when each tick came with the time that it is of."""
    replay, seen = Replay(FakeTape(), VirtualClock(), speed=speed), list[tuple[float, float]]()

    async def look() -> None:
        async for tick in replay.ticks():
            seen.append((VirtualClock().monotonic(), tick.at_s))

    await replay.start(lambda *_: None)
    looking = asyncio.create_task(look())
    yield replay, seen
    await replay.close()
    await asyncio.wait_for(looking, 1)


async def test_ticks_come_in_their_own_time_and_a_jump_gives_every_tick_up_to_its_goal_again() -> None:
    async with playing() as (replay, seen):
        await sleep(30)
        assert seen == [(half / 2 - 1, half / 2) for half in range(2, 43)]
        view = replay.position
        assert (view.position_s, view.length_s, view.playing) == (20.0, 20.0, False)
        seen.clear()
        replay.seek(-16)
        await sleep(0.01)
        assert [at_s for _, at_s in seen] == [half / 2 for half in range(2, 11)]
        await sleep(1)
        assert (seen[-1][1], replay.position.playing) == (6.0, True)


async def test_a_pause_holds_and_jumps_and_steps_between_marks_go_from_there() -> None:
    async with playing() as (replay, seen):
        await sleep(3.2)
        replay.toggle()
        await sleep(100)
        assert seen[-1][1] == 4.0
        jumps = [(partial(replay.seek, by_s), at_s) for by_s, at_s in ((3, 7), (-50, 1), (500, 21))]
        back = [(partial(replay.step, False), at_s) for at_s in (10, 4, 1)]
        on = [(partial(replay.step, True), at_s) for at_s in (4, 10, 21)]
        for go, at_s in jumps + back + on:
            go()
            await sleep(1)
            assert (seen[-1][1], replay.position.playing) == (at_s, False)
        replay.toggle()
        await sleep(2.2)
        assert (seen[-1][1], replay.position.playing) == (3.0, True), "at the end it begins again"


async def test_speed_walks_through_its_steps_and_keeps_the_place() -> None:
    async with playing(speed=2.0) as (replay, seen):
        await sleep(2.3)
        assert seen[-1][1] == 5.5
        for faster, speed, seconds, at_s in ((True, 16, 0.5, 13.5), (False, 0.5, 4, 15.5)):
            for _ in range(10):
                replay.change_speed(faster=faster)
            assert replay.position.speed == speed
            await sleep(seconds)
            assert abs(seen[-1][1] - at_s) <= 0.5

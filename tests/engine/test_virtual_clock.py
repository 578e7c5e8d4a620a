"""The tests' own clock: time leaps, order stays, and a test that waits for nothing fails."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.fakes.clock import MOST_ROUNDS, Counted, VirtualClock, cancelled_in_round, until, virtual


@virtual
async def test_an_hour_takes_no_time_and_timers_fire_in_order() -> None:
    clock, began_s = VirtualClock(), time.monotonic()
    fired: list[str] = []

    async def fire(after_s: float, name: str) -> None:
        await clock.sleep(after_s)
        fired.append(f"{name} at {clock.monotonic():g}")

    await asyncio.gather(fire(1800, "late"), fire(0.25, "early"), fire(60, "middle"))
    assert fired == ["early at 0.25", "middle at 60", "late at 1800"]
    assert time.monotonic() - began_s < 5


@virtual
async def test_timeouts_are_exact() -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(12.5):
            await asyncio.Event().wait()
    assert loop.time() - began_s == pytest.approx(12.5)


def test_waiting_for_nothing_fails() -> None:
    @virtual
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="nothing is under way"):
        stuck()


def test_turning_in_circles_fails() -> None:
    @virtual
    async def busy() -> None:
        for _ in range(10 * MOST_ROUNDS):
            await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="time stands still"):
        busy()


@virtual
async def test_until_waits_for_a_condition_and_not_for_ever() -> None:
    loop = asyncio.get_running_loop()
    await until(lambda: loop.time() > 5)
    with pytest.raises(AssertionError, match="not within 2 s"):
        await until(lambda: False, within_s=2)


@virtual
async def test_a_cancel_hits_the_await_that_is_named() -> None:
    reached: list[int] = []

    async def work() -> str:
        for number in range(1, 4):
            reached.append(number)
            await asyncio.sleep(1)
        return "done"

    counted = Counted(work())
    assert await counted == "done"
    assert counted.waits == 3
    reached.clear()
    with pytest.raises(asyncio.CancelledError):
        await Counted(work(), cancel_at=2)
    assert reached == [1, 2]
    assert await cancelled_in_round(work(), 2) is None
    assert await cancelled_in_round(work(), 100) == "done"

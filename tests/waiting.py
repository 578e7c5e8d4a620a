"""Waiting for the world outside: for a condition, with a deadline that a busy machine moves."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import asyncmy

from replexplorer.core.event import Event
from replexplorer.core.tick import Tick

T = TypeVar("T")

NO_ANSWER = (OSError, asyncio.IncompleteReadError, asyncmy.errors.Error)
"""What a server that is on its way up or down gives instead of an answer."""


def patience() -> float:
    """How many times longer than on an idle machine something may take here and now, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def until(
    ask: Callable[[], Awaitable[T]],
    what: str = "the condition",
    *,
    holds: Callable[[T], object] = bool,
    within_s: float = 20.0,
) -> T:
    """The first answer that holds. A server's silence is no answer; the deadline fails the test."""
    began_s, last = time.monotonic(), "nothing was answered"
    while True:
        try:
            if holds(answer := await ask()):
                return answer
            last = repr(answer)
        except NO_ANSWER as error:
            last = repr(error)
        assert time.monotonic() < began_s + within_s * patience(), (
            f"not within {within_s:g} s: {what}: {last}"
        )
        await asyncio.sleep(0.02)


def until_true(holds: Callable[[], object], what: str = "the condition", *, within_s: float = 20.0) -> None:
    """The same without an event loop, for tests of other processes."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() < began_s + within_s * patience(), f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


class Ticking(Protocol):
    """What watches and says so in ticks."""

    def ticks(self) -> AsyncIterator[Tick]:
        """Each tick as it comes."""
        ...


def load_runs(tick: Tick) -> bool:
    """Whether our load commits."""
    return tick.load is not None and tick.load.state == "running" and bool(tick.load.tps)


async def until_tick(
    session: Ticking, fits: Callable[[Tick], Any], what: str = "such a tick", *, within_s: float = 40.0
) -> Tick:
    """The first tick that fits; virtual seconds count as well as real ones."""
    tick = None
    try:
        async with asyncio.timeout(within_s * patience()):
            async for tick in session.ticks():
                if fits(tick):
                    return tick
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}; {tick}") from None
    raise AssertionError(f"the ticks ended before {what}; {tick}")


async def tick_after(session: Ticking, seconds: float = 3.0) -> Tick:
    """A tick once what was turned shows in the load."""
    await asyncio.sleep(seconds)
    return await until_tick(session, lambda _: True)


async def told(session: Ticking, text: str, *, within_s: float = 30.0) -> Event:
    """The first event with this text in it, its severity before it: `bad: db1 is down`."""

    def says(event: Event) -> bool:
        return text in f"{event.severity}: {event.text}"

    tick = await until_tick(session, lambda tick: any(map(says, tick.events)), text, within_s=within_s)
    return next(filter(says, tick.events))

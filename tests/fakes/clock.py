"""Time for tests: an event loop whose clock leaps to the next timer when nothing else is to be done."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, ParamSpec, TypeVar

from tests.ticks import WALL_S

LONGEST_S = 3600.0
"""Virtual seconds after which a test is stuck."""
MOST_ROUNDS = 100_000
"""Rounds of the loop at one moment after which a test turns in circles."""

T = TypeVar("T")
P = ParamSpec("P")


class _LeapingSelector(selectors.SelectSelector):
    """Never waits: when nothing is ready, the clock goes on to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._turns = 0
        self.on_round: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turns += 1
        if self._turns > MOST_ROUNDS:
            raise AssertionError("turning in circles: time stands still")
        # While callbacks are ready nothing from outside is waited for, and the kernel need not be asked.
        ready = super().select(0) if timeout != 0 else []
        if not ready and timeout != 0:
            if timeout is None:
                raise AssertionError("everything waits, and nothing is under way that could end it")
            self.now_s += timeout
            self._turns = 0
            if self.now_s > LONGEST_S:
                raise AssertionError(f"still running after {LONGEST_S:g} virtual seconds")
        if self.on_round is not None:
            self.on_round()
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, so that timeouts and sleeps cost nothing and are exact."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._leaping.now_s

    def each_round(self, callback: Callable[[], None] | None) -> None:
        """Call back in every round of the loop."""
        self._leaping.on_round = callback


def now_s() -> float:
    """The loop's own time."""
    return asyncio.get_running_loop().time()


def later(seconds: float, act: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
    """Let something happen by itself."""
    return asyncio.get_running_loop().call_later(seconds, act, *args)


class VirtualClock:
    """`ports.Clock` on the loop's own time."""

    def monotonic(self) -> float:
        """Virtual seconds."""
        return now_s()

    def wall(self) -> float:
        """A fixed moment plus virtual seconds."""
        return WALL_S + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait virtually."""
        await asyncio.sleep(seconds)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a coroutine a test that runs on virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def until(condition: Callable[[], object], *, every_s: float = 0.001, within_s: float = 60.0) -> None:
    """Look again and again until a condition holds; fails when it does not within so many virtual seconds."""
    for _ in range(round(within_s / every_s)):
        if condition():
            return
        await asyncio.sleep(every_s)
    raise AssertionError(f"not within {within_s:g} s")


class Counted(Generic[T], Awaitable[T]):
    """Awaits some work and counts how often it waits; at the `cancel_at`-th wait it is cancelled."""

    def __init__(self, work: Awaitable[T], cancel_at: int = 0) -> None:
        self._work = work
        self._cancel_at = cancel_at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, T]:
        inner = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waited = inner.send(None) if thrown is None else inner.throw(thrown)
            except StopIteration as done:
                value: T = done.value
                return value
            self.waits += 1
            task = asyncio.current_task()
            if self.waits == self._cancel_at and task is not None:
                task.cancel()
            thrown = None
            try:
                yield waited
            except BaseException as error:
                thrown = error


async def cancelled_in_round(work: Coroutine[Any, Any, T], number: int) -> T | None:
    """Run work and cancel it in the loop's `number`-th round since; None when that ended it.

    Rounds are finer than the work's own awaits: they also fall between the awaits of its children.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    task = asyncio.create_task(work)
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            task.cancel()

    loop.each_round(count)
    try:
        await asyncio.wait({task})
    finally:
        loop.each_round(None)
    return None if task.cancelled() else task.result()

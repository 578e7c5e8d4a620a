"""Work that must not stop halfway, and looking at something until it is so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from replexplorer.ports import Clock

_T = TypeVar("_T")


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work to its end and answer as it does.

    A cancel that comes meanwhile is not lost: it is delivered at the caller's next await.
    """
    task = asyncio.create_task(work)
    caller = asyncio.current_task()
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled and caller is not None:
        caller.uncancel()
        caller.cancel()
    return task.result()


async def all_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run works at once; the first failure ends the others before it is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end_all(*tasks)


async def end_all(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are over, whatever became of them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Patience:
    """Looks at something every so often, until it is over."""

    def __init__(self, clock: Clock, within_s: float, every_s: float = 0.1) -> None:
        self._clock = clock
        self._every_s = every_s
        self._within_s = within_s
        self._looked = False
        self.renew()

    def renew(self) -> None:
        """Begin the time again: something has moved."""
        self._ends_s = self._clock.monotonic() + self._within_s

    @property
    def is_over(self) -> bool:
        """The time is."""
        return self._clock.monotonic() > self._ends_s

    async def again(self) -> bool:
        """Whether there is time for a look, which is waited for; there is for the first in any case."""
        if self._looked:
            if self.is_over:
                return False
            await self._clock.sleep(self._every_s)
        self._looked = True
        return True

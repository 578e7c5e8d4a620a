"""Work that must not stop halfway, and looks of which a silent one must not keep the others' answers.

Law: silence says something only beside an answer, and only while we get to listen. On a busy machine
everything is slow, and nothing is away for that: what says nothing for several times as long as the
slowest that answered is not waited for, and time in which this process did not run does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

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


_SILENT_S: Final = 0.6
"""The least that a look is given."""
_TIMES_THE_SLOWEST: Final = 4.0
_AT_MOST_S: Final = 10.0
"""As long as nothing has answered."""
_LISTENS_EVERY_S: Final = 0.05


async def in_time(looks: Iterable[Coroutine[Any, Any, bool]], *, patient: bool = False) -> None:
    """Run looks at once, each of which says whether what it looked at has answered; those that are silent
    beside the others are cancelled, none where one is `patient`. What a look raises is raised."""
    waiting = {asyncio.create_task(look, name="look") for look in looks}
    listened_s, limit_s = 0.0, _AT_MOST_S
    try:
        while waiting and (patient or listened_s < limit_s):
            done, waiting = await asyncio.wait(
                waiting, timeout=_LISTENS_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            # A turn that came late counts as one: what came meanwhile was not heard.
            listened_s += 0.0 if done else _LISTENS_EVERY_S
            answered = [task.result() for task in done]
            if any(answered):
                limit_s = min(_AT_MOST_S, max(_SILENT_S, _TIMES_THE_SLOWEST * listened_s))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

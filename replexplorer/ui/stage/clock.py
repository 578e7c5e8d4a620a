"""Time that is moved by hand: a recording is then played as fast as it is drawn, and the same each time."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class StagedClock:
    """Seconds since the play began (`ports.Clock`); they pass when `advance_to` says so."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Seconds since the play began."""
        return self._now_s

    def wall(self) -> float:
        """The same: a recording has clock times of its own."""
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        """Return once the time has been moved by so much."""
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + seconds, next(self._order), wakes))
        await wakes

    @property
    def next_s(self) -> float | None:
        """When the next sleeper wakes; None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():  # given up meanwhile
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance_to(self, at_s: float) -> None:
        """Let the time be this and wake who is due; it never goes back."""
        self._now_s = max(self._now_s, at_s)
        while (due_s := self.next_s) is not None and due_s <= self._now_s:
            heapq.heappop(self._sleepers)[2].set_result(None)

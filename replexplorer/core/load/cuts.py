"""Intervals of several generator processes, put together where all of them cut the time.

Law: nothing is lost and nothing averaged: counts and histograms of whatever is put together are added.
"""

from __future__ import annotations

from collections import deque
from functools import reduce

from replexplorer.core.load.interval import Interval, together


class Cuts:
    """Puts the intervals of several processes together, each at the cuts that all of them made."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.origin_s = 0.0
        """Every process cuts at whole intervals after this moment."""
        self._waiting: dict[int, deque[Interval]] = {}

    def begin(self, origin_s: float, processes: int) -> None:
        """This number of processes begins at this moment: no interval is whole without each of them."""
        self.origin_s = origin_s
        for process in range(processes):
            self._waiting.setdefault(process, deque())

    def add(self, process: int, interval: Interval) -> list[Interval]:
        """Take one process's interval; answers what is whole now, oldest first."""
        if interval.end_s <= self.origin_s:  # the first one prepared, and nobody had begun
            return [interval]
        self._waiting.setdefault(process, deque()).append(interval)
        whole: list[Interval] = []
        while (cut := self._next_cut()) is not None:
            whole.append(self._taken(cut))
        return whole

    def _index(self, interval: Interval) -> int:
        """The number of the cut that an interval ends at."""
        return round((interval.end_s - self.origin_s) / self._interval_s)

    def _next_cut(self) -> int | None:
        """The next cut that every process has made; None while one has not come to it."""
        waiting = self._waiting.values()
        cut: int | None = None
        while True:
            reached = [
                next((n for n in map(self._index, each) if cut is None or n >= cut), None) for each in waiting
            ]
            if not reached or None in reached:
                return None
            later = max(number for number in reached if number is not None)
            if later == cut:
                return cut
            cut = later

    def _taken(self, cut: int) -> Interval:
        """All that ends at a cut or before."""
        parts = []
        for waiting in self._waiting.values():
            pieces = [waiting.popleft()]
            while waiting and self._index(waiting[0]) <= cut:
                pieces.append(waiting.popleft())
            parts.append(reduce(Interval.followed_by, pieces))
        return together(parts)

    def rest(self) -> Interval | None:
        """What is left when all processes have ended."""
        parts = [reduce(Interval.followed_by, each) for each in self._waiting.values() if each]
        self._waiting.clear()
        return together(parts) if parts else None

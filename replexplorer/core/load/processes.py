"""A load of several generator processes: what each has of it, and their intervals put together.

Law: nothing is lost and nothing averaged: counts and histograms of whatever is put together are added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from replexplorer.core.load.interval import FULL_CORE, Interval, together
from replexplorer.core.load.pacing import rate_parts


@dataclass(frozen=True, slots=True)
class LoadShare:
    """One process's part of a load; by default all of it."""

    clients: int
    share: float = 1.0
    """Of the clients."""
    leads: bool = True
    """It prepares and truncates the tables."""
    rate_tps: float | None = None
    """Its arrivals per second; those of all processes add up to the rate asked for, to the last bit.
    None: all of them."""
    origin_s: float | None = None
    """Intervals end at whole intervals after this time; None: after the first transaction's begin."""
    phase: float | None = None
    """Which part of the arrivals comes before its own in an even row (`Pace.phase`)."""
    waits: bool = False
    """Its clients log in and begin when it is told to, so that all processes begin at one moment."""


def shares_of(
    clients: Sequence[int], rate_tps: float, origin_s: float | None = None, *, waits: bool = False
) -> list[LoadShare]:
    """What each process has of a load whose clients are shared out so; the first one leads.

    With an `origin_s` the others cut their intervals from it on; a first one without it says where it is.
    """
    total, parts, before = sum(clients), list[LoadShare](), 0
    for mine, part_tps in zip(clients, rate_parts(rate_tps, clients), strict=True):
        share, phase = (mine / total, before / total) if total else (1.0, 0.0)
        parts.append(LoadShare(mine, share, not parts, part_tps, origin_s if parts else None, phase, waits))
        before += mine
    return parts


def processes_that_help(limited: str | None, processes: int, clients: int) -> int | None:
    """How many generator processes to have where a full core of one is the limit (`Interval.limited`); None
    where more of them would change nothing, and where it is not known how many there are."""
    if limited is None or not limited.startswith(FULL_CORE) or not 0 < processes < clients:
        return None
    return min(2 * processes, clients)


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

"""A load that is more than one process wide (`ports.LoadProcess`).

Law: clients never move between processes; what comes goes where there are fewest. The first process
leads: it prepares the tables and says where intervals are counted from, so that all processes cut time
at the same moments, and their histograms and counts add up exactly. When one dies the load has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from replexplorer.adapters.load_process import LoadChild
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.load.interval import Interval, together
from replexplorer.core.load.load_share import LoadShare
from replexplorer.core.load.pacing import OPEN, processes_for, share_out
from replexplorer.core.load.workload import statements_in
from replexplorer.ports import LoadSettings, LoadTarget, Report

_KEPT_INTERVALS: Final = 240


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Cuts:
    """Puts the intervals of several processes together, each at the cuts that all of them made."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.origin_s = 0.0
        self._waiting: dict[int, deque[Interval]] = {}

    def add(self, process: int, interval: Interval) -> list[Interval]:
        """Take one process's interval; answers what is whole now, oldest first."""
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


@dataclass(slots=True)
class _Member:
    """One process with the task that reads it."""

    child: LoadChild
    part: LoadShare
    reader: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Load:
    """What is running."""

    target: LoadTarget
    settings: LoadSettings
    interval_s: float
    cuts: Cuts
    members: list[_Member] = field(default_factory=list)


class LoadGroup:
    """The load in as many processes as it needs; it can be started again after a stop."""

    def __init__(
        self,
        report: Report | None = None,
        *,
        make: Callable[[Report | None], LoadChild] = LoadChild,
        most: int | None = None,
        host_cores: int | None = None,
    ) -> None:
        """`host_cores` are those of the machine where the processes run; None: this one."""
        self._report = report
        self._make = make
        self._cores = 2 * most if most is not None else host_cores or cores()
        self._spare: LoadChild | None = None
        self._load: _Load | None = None
        self._intervals: deque[Interval] = deque()
        self._news = asyncio.Event()
        self._is_stopping = False
        self._end: ReplexplorerError | None = None

    @property
    def pids(self) -> list[int]:
        """The processes' ids."""
        members = self._load.members if self._load is not None else []
        return [each.child.pid for each in members if each.child.pid is not None]

    async def spawn(self) -> None:
        """See `ports.LoadProcess`."""
        if self._spare is None and self._load is None:
            self._spare = self._make(self._report)
            await self._spare.spawn()

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """See `ports.LoadProcess`; `intervals` may be read meanwhile. On failure nothing is left."""
        if self._load is not None:
            raise UsageError("the load runs already")
        self._is_stopping, self._end = False, None
        self._intervals.clear()
        load = self._load = _Load(target, settings, interval_s, Cuts(interval_s))
        try:
            lead, self._spare = self._spare or self._make(self._report), None
            shares = share_out(settings.clients, [], self._wanted(settings))
            await self._join(load, lead, shares_of(shares, None)[0])
            load.cuts.origin_s = lead.origin_s
            await self._grow(load, shares)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    def _wanted(self, settings: LoadSettings) -> int:
        """How many processes these settings are worth."""
        per_s = settings.rate_tps * statements_in(settings.workload) if settings.mode == OPEN else 0.0
        return processes_for(settings.clients, per_s, self._cores)

    async def _join(self, load: _Load, child: LoadChild, part: LoadShare) -> None:
        """Start one more process."""
        member = _Member(child, part)
        load.members.append(member)
        member.reader = asyncio.create_task(self._read(load, member), name="load part")
        await child.start(load.target, load.settings, interval_s=load.interval_s, part=part)

    async def _grow(self, load: _Load, shares: list[int]) -> None:
        """Add the processes that are missing."""
        parts = shares_of(shares, load.cuts.origin_s)[len(load.members) :]
        children = [self._make(None) for _ in parts]
        try:
            await asyncio.gather(*(child.spawn() for child in children))
            for child, part in zip(children, parts, strict=True):
                await self._join(load, child, part)
        except BaseException:
            await asyncio.shield(asyncio.gather(*(child.stop() for child in children)))
            raise

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        load = self._running()
        before = [each.part.clients for each in load.members]
        shares = share_out(settings.clients, before, self._wanted(settings))
        parts = shares_of(shares, load.cuts.origin_s)
        lead, *others = zip(load.members, parts, strict=False)
        if _tables(settings) != _tables(load.settings):
            await asyncio.gather(*(member.child.hold() for member, _ in others))
        # The tables are ready before anybody else needs them.
        try:
            await lead[0].child.change(settings, lead[1])
        except ReplexplorerError:
            await asyncio.gather(*(member.child.change(load.settings, member.part) for member, _ in others))
            raise
        load.settings = settings
        await asyncio.gather(*(member.child.change(settings, part) for member, part in others))
        for member, part in (lead, *others):
            member.part = part
        await self._grow(load, shares)

    def _running(self) -> _Load:
        """What runs; raises what ended it, or UsageError."""
        if self._load is None or self._end is not None:
            raise self._end or UsageError("no load runs")
        return self._load

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`."""
        load = self._running()
        load.target = target
        await asyncio.gather(*(member.child.move(target) for member in load.members))

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        await asyncio.gather(*(member.child.drain() for member in self._running().members))

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`; raises LoadEnded when a process dies by itself."""
        while True:
            while self._intervals:
                yield self._intervals.popleft()
            if self._is_stopping:
                return
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()

    async def _read(self, load: _Load, member: _Member) -> None:
        """Take one process's intervals until it ends."""
        number = load.members.index(member)
        try:
            async for interval in member.child.intervals():
                for whole in load.cuts.add(number, interval):
                    self._keep(whole)
        except ReplexplorerError as error:
            if self._end is None:
                self._end = error
            self._news.set()

    def _keep(self, interval: Interval) -> None:
        """Keep an interval until somebody takes it; beyond a bound the newest are merged."""
        if len(self._intervals) >= _KEPT_INTERVALS:
            interval = self._intervals.pop().followed_by(interval)
        self._intervals.append(interval)
        self._news.set()

    async def stop(self) -> None:
        """See `ports.LoadProcess`; the last interval can be read afterwards. Harmless twice."""
        load, self._load = self._load, None
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.stop()
        if load is None:
            return
        try:
            await asyncio.gather(*(member.child.stop() for member in load.members))
        finally:
            readers = [member.reader for member in load.members if member.reader is not None]
            await asyncio.gather(*readers, return_exceptions=True)
            rest = load.cuts.rest()
            if rest is not None:
                self._keep(rest)
            self._is_stopping = True
            self._news.set()


def shares_of(shares: Sequence[int], origin_s: float | None) -> list[LoadShare]:
    """What each process has of a load whose clients are shared out so; the first one leads."""
    total, parts, before = sum(shares), list[LoadShare](), 0
    for clients in shares:
        share, phase = (clients / total, before / total) if total else (1.0, 0.0)
        parts.append(LoadShare(clients, share, not parts, origin_s if parts else None, phase))
        before += clients
    return parts


def _tables(settings: LoadSettings) -> tuple[int, int, str | None]:
    """What a change of makes tables be recreated."""
    return settings.table_size, settings.payload_bytes, settings.script

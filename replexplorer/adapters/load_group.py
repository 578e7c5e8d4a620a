"""A load that is more than one process wide (`ports.LoadProcess`).

Law: clients never move between processes; what comes goes where there are fewest. The first process
leads: it prepares the tables. All clients log in first and begin at one moment, and all processes cut time at
the same moments from then on, so that their histograms and counts add up exactly. They end together: when
one dies the others are stopped, since what is left would be another load than the one asked for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from replexplorer.adapters.load_process import LoadChild, LoadEnded
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.load.interval import Interval, ProcessWork, keep_for_reader
from replexplorer.core.load.pacing import OPEN, processes_for, share_out
from replexplorer.core.load.processes import Cuts, LoadShare, shares_of
from replexplorer.core.load.workload import statements_in
from replexplorer.ports import LoadSettings, LoadTarget, Report

_BEGIN_IN_S: Final = 0.25
"""From when all are ready to when they begin: longer than the command takes to the farthest of them."""

Make = Callable[[Report | None], LoadChild]
"""Makes a process where the load runs."""


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@dataclass(slots=True)
class _Member:
    """One process with the task that reads it."""

    number: int
    child: LoadChild
    part: LoadShare
    reader: asyncio.Task[None] | None = None

    def counted(self, interval: Interval) -> Interval:
        """What it reports, marked as its own."""
        seconds = interval.duration_s
        work = ProcessWork(
            self.number,
            self.part.clients,  # one that ends reports that it has none any more
            interval.commits,
            seconds * interval.cpu_percent / 100,
            seconds,
        )
        return replace(interval, work=(work,))


@dataclass(slots=True)
class _Load:
    """What is running."""

    target: LoadTarget
    settings: LoadSettings
    interval_s: float
    cuts: Cuts
    members: list[_Member] = field(default_factory=list)
    has_lost_one: bool = False


class LoadGroup:
    """The load in as many processes as it needs; it can be started again after a stop."""

    def __init__(
        self,
        report: Report | None = None,
        *,
        make: Make = LoadChild,
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
            clients = share_out(settings.clients, [], self._wanted(settings))
            parts = shares_of(clients, settings.rate_tps, waits=len(clients) > 1)
            lead, *others = self._add(load, parts)
            await self._spawn(load, [lead, *others])
            await self._join(load, lead)  # the tables are ready before anybody else needs them
            if others:
                await asyncio.gather(*(self._join(load, each) for each in others))
                await self._begin_together(load)
            else:
                load.cuts.origin_s = lead.child.origin_s
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    def _wanted(self, settings: LoadSettings) -> int:
        """How many processes are asked for, or these settings are worth."""
        if settings.processes:  # a process without a client would do nothing
            return max(1, min(settings.processes, settings.clients))
        per_s = settings.rate_tps * statements_in(settings.workload) if settings.mode == OPEN else 0.0
        return processes_for(settings.clients, per_s, self._cores)

    def _add(self, load: _Load, parts: Sequence[LoadShare]) -> list[_Member]:
        """The members with these parts that are not there yet; the first of all may be the spare."""
        before = len(load.members)
        for at, part in enumerate(parts[before:], before):
            child = None
            if self._spare is not None and not at:
                child, self._spare = self._spare, None
            child = child or self._make(self._report if part.leads else None)
            load.members.append(_Member(at + 1, child, part))
        return load.members[before:]

    async def _spawn(self, load: _Load, members: Sequence[_Member]) -> None:
        """Start the bare processes of members, and read them."""
        await asyncio.gather(*(member.child.spawn() for member in members))
        for member in members:
            member.reader = asyncio.create_task(self._read(load, member), name="load part")

    async def _join(self, load: _Load, member: _Member) -> None:
        """Let one more process take its part."""
        await member.child.start(load.target, load.settings, interval_s=load.interval_s, part=member.part)

    async def _begin_together(self, load: _Load) -> None:
        """Let all begin at one moment; returns at the last one's first commit."""
        at_s = time.monotonic() + _BEGIN_IN_S
        load.cuts.begin(at_s, len(load.members))
        await asyncio.gather(*(member.child.go(at_s) for member in load.members))

    async def _grow(self, load: _Load, parts: Sequence[LoadShare]) -> None:
        """Add the processes that are missing to a load that runs."""
        before = len(load.members)
        added = self._add(load, parts)
        try:
            await self._spawn(load, added)
            for member in added:
                await self._join(load, member)
        except BaseException:
            await asyncio.shield(asyncio.gather(*(member.child.stop() for member in added)))
            readers = [member.reader for member in added if member.reader is not None]
            await asyncio.gather(*readers, return_exceptions=True)
            del load.members[before:]
            raise

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        load = self._running()
        before = [each.part.clients for each in load.members]
        clients = share_out(settings.clients, before, self._wanted(settings))
        parts = shares_of(clients, settings.rate_tps, load.cuts.origin_s)
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
        await self._grow(load, parts)

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
        """Take one process's intervals until it ends; one that dies ends all."""
        try:
            async for interval in member.child.intervals():
                for whole in load.cuts.add(member.number - 1, member.counted(interval)):
                    self._keep(whole)
        except ReplexplorerError as error:
            if load.has_lost_one:
                return
            load.has_lost_one = True
            await self._stop_others(load, member)
            self._end = _told(error, member, load)
            self._news.set()

    async def _stop_others(self, load: _Load, lost: _Member) -> None:
        """What they counted until then stays."""
        others = [each for each in load.members if each is not lost]
        await asyncio.gather(*(each.child.stop() for each in others), return_exceptions=True)
        readers = [each.reader for each in others if each.reader is not None]
        await asyncio.gather(*readers, return_exceptions=True)
        self._keep_rest(load)

    def _keep_rest(self, load: _Load) -> None:
        rest = load.cuts.rest()
        if rest is not None:
            self._keep(rest)

    def _keep(self, interval: Interval) -> None:
        """Keep an interval until somebody takes it; beyond a bound the newest are merged."""
        keep_for_reader(self._intervals, interval)
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
            self._keep_rest(load)
            self._is_stopping = True
            self._news.set()


def _told(error: ReplexplorerError, lost: _Member, load: _Load) -> ReplexplorerError:
    """Why the load ended, with what the process had of it."""
    if len(load.members) == 1:
        return error
    return LoadEnded(
        f"process {lost.number} of {len(load.members)}, with {lost.part.clients} of the load's"
        f" {load.settings.clients} clients, is gone, so the others were stopped ({error.message})",
        error.hint,
    )


def _tables(settings: LoadSettings) -> tuple[int, int, str | None]:
    """What a change of makes tables be recreated."""
    return settings.table_size, settings.payload_bytes, settings.script

"""The load of a stack on several hosts (`ports.LoadProcess`): it runs on the host of the source, or on hosts
that were named.

Its intervals come over the daemons' streams; their times are put on this machine's clock. When the source is
on another host, the load goes on there in new processes, and what it counted until then is kept; processes
on hosts that were named stay where they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replexplorer.adapters.docker.load_host import ExecProcess, LoadHost
from replexplorer.adapters.load_group import LoadGroup
from replexplorer.adapters.load_process import LoadChild
from replexplorer.core.errors import UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.ports import LoadSettings, LoadTarget, Report

if TYPE_CHECKING:
    from replexplorer.adapters.docker.swarm import SwarmProvider


@dataclass(frozen=True, slots=True)
class _Place:
    """A host that processes of the load run on."""

    host: LoadHost
    ahead_s: float
    """Its monotonic clock less ours."""


class HostedLoad:
    """A load on whichever host the source is; it can be started again after a stop."""

    def __init__(self, stack: SwarmProvider, report: Report | None = None) -> None:
        self._stack = stack
        self._report = report
        self._host = ""
        self._settings: LoadSettings | None = None
        self._interval_s = 1.0
        self._groups: list[LoadGroup] = []
        """All that were started."""
        self._news = asyncio.Event()
        self._is_stopping = False

    async def spawn(self) -> None:
        """Nothing: on which host it will run is not known yet."""

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """See `ports.LoadProcess`."""
        if self._settings is not None:
            raise UsageError("the load runs already")
        self._refuse(settings)
        self._is_stopping = False
        self._groups.clear()
        self._settings, self._interval_s = settings, interval_s
        try:
            await self._start_at(target, settings)
        except BaseException:
            await asyncio.shield(self.stop())
            raise

    def _refuse(self, settings: LoadSettings) -> None:
        """Raise UsageError for a host without nodes."""
        known = self._stack.placement.names
        if unknown := [host for host in settings.processes if host and host not in known]:
            raise UsageError(
                f"{unknown[0]} is no host of stack {self._stack.name}", f"it is on {', '.join(known)}"
            )

    async def _start_at(self, target: LoadTarget, settings: LoadSettings) -> None:
        stack = self._stack
        source = stack.host_at(target.host, await stack.nodes())
        hosts = list(dict.fromkeys(settings.processes if any(settings.processes) else (source,)))
        places = dict(zip(hosts, await asyncio.gather(*map(self._place, hosts)), strict=True))

        def make(report: Report | None, host: str) -> LoadChild:
            return self._child(places[host or source], report)

        leads = places[settings.processes[0] if any(settings.processes) else source]
        group = LoadGroup(self._report, make=make, host_cores=leads.host.cores)
        self._host = source
        self._groups.append(group)
        self._news.set()
        await group.start(replace(target, path="direct"), settings, interval_s=self._interval_s)

    async def _place(self, host: str) -> _Place:
        """Have what the load needs on a host; raises ReplexplorerError."""
        there, clock = await asyncio.gather(
            self._stack.load_host(host, self._report), self._stack.clock(host)
        )
        return _Place(there, clock.monotonic_s)

    def _child(self, place: _Place, report: Report | None) -> LoadChild:
        async def launch() -> ExecProcess:
            return await ExecProcess.start(await self._stack.start_in(place.host), place.host.host)

        return LoadChild(report, launch=launch, ahead_s=place.ahead_s, told=self._told_at(place))

    def _told_at(self, place: _Place) -> Callable[[LoadSettings], LoadSettings]:
        """Makes the settings that a process on a host is told: its client log is on the disk there."""
        logs = dict[str, tuple[str, int]]()

        def told(settings: LoadSettings) -> LoadSettings:
            run = settings.ledger
            if run is None:
                return settings
            if run not in logs:
                logs[run] = self._stack.client_logs.place(run, place.host.host, place.ahead_s)
            directory, number = logs[run]
            return replace(settings, ledger=directory, ledger_file=number)

        return told

    def _running(self) -> LoadGroup:
        if self._settings is None or not self._groups:
            raise UsageError("no load runs")
        return self._groups[-1]

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        self._refuse(settings)
        await self._running().change(settings)
        self._settings = settings

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`; to another host by new processes there."""
        group, settings = self._running(), self._settings
        host = self._stack.host_at(target.host, await self._stack.nodes())
        if host == self._host or settings is None or any(settings.processes):
            self._host = host
            await group.move(replace(target, path="direct"))
            return
        await group.stop()
        await self._start_at(target, settings)

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        await self._running().drain()

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`; raises LoadEnded when a process, or its host, goes away."""
        at = 0
        while True:
            while at < len(self._groups):
                async for interval in self._groups[at].intervals():
                    yield interval
                at += 1
            if self._is_stopping:
                return
            self._news.clear()
            await self._news.wait()

    async def stop(self) -> None:
        """See `ports.LoadProcess`; harmless twice."""
        self._settings = None
        try:
            if self._groups:
                await self._groups[-1].stop()
        finally:
            self._is_stopping = True
            self._news.set()

"""`ports.LoadProcess` as a model: it commits as fast as the stack's settings allow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.load.interval import Interval, ProcessWork
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.stats.histogram import Histogram
from replexplorer.ports import LoadSettings, LoadTarget, Reporter
from tests.fakes.clock import now_s
from tests.known import known

PREPARING_S = 0.3
CHANGING_S = 0.01


def interval_of(start_s: float, values_us: Iterable[int], length_s: float = 0.5, **more: Any) -> Interval:
    """What one client that inserts rows did, with these service times."""
    counts = {"errors": 0, "unknown": 0, "reconnects": 0, "clients": 1, "connected": 1, "workload": "insert"}
    return Interval(start_s, start_s + length_s, Histogram.of(values_us), **{**counts, **more})


class FakeClientLogs:
    """`ports.ClientLogs` of one run, whoever begins it."""

    runs = 0

    def __init__(self) -> None:
        self.log = RunLog(1, {}, {})
        """What its clients note."""

    async def new_run(self, claim: Callable[[int], Awaitable[int]]) -> str:
        """See `ports.ClientLogs`."""
        self.runs += 1
        return f"run {self.runs}"

    def newest(self) -> str | None:
        """See `ports.ClientLogs`."""
        return f"run {self.runs}" if self.runs else None

    async def read(self, run: str) -> RunLog:
        """See `ports.ClientLogs`."""
        return self.log


class FakeLoadProcess:
    """One generator; `running` tells whether its process would be there."""

    settings: LoadSettings | None = None
    target: LoadTarget | None = None
    start_failure: ReplexplorerError | None = None
    drains = 0
    _failure: ReplexplorerError | None = None
    _task: asyncio.Task[None] | None = None

    def __init__(
        self,
        commit: Callable[[float, int], tuple[int, float]],
        changing: Callable[[str, str], str | None],
        report: Reporter,
    ) -> None:
        self._commit = commit
        """Called with seconds and clients; answers how many commits that makes and their latency in ms."""
        self._changing = changing
        self.report = report
        self.more: dict[str, Any] = {}
        """What its intervals say otherwise."""
        self.history: list[LoadSettings] = []
        self._end: asyncio.Event = asyncio.Event()
        self._intervals: asyncio.Queue[Interval | None] = asyncio.Queue()

    @property
    def running(self) -> bool:
        """The process is there."""
        return self._task is not None and not self._task.done()

    async def spawn(self) -> None:
        """See `ports.LoadProcess`."""

    async def start(self, target: LoadTarget, settings: LoadSettings, *, interval_s: float) -> None:
        """See `ports.LoadProcess`."""
        assert self._task is None, "started twice"
        self.target, self.settings = target, settings
        self._task = asyncio.create_task(self._work(interval_s), name="load process")
        with suppress(TimeoutError):
            async with asyncio.timeout(PREPARING_S):
                await self._end.wait()
        if self._end.is_set():
            raise ReplexplorerError("the load's process was ended")
        if self.start_failure is not None:
            await self.stop()
            raise self.start_failure
        self.history.append(settings)

    async def change(self, settings: LoadSettings) -> None:
        """See `ports.LoadProcess`."""
        if not self.running:
            raise ReplexplorerError("the load's process ended by itself")
        await asyncio.sleep(CHANGING_S / 2)
        trouble = self._changing("load", f"load {settings.clients} {settings.workload}")
        if trouble is not None:
            raise ReplexplorerError(f"the load cannot do that, {trouble}")
        self.settings = settings
        self.history.append(settings)
        await asyncio.sleep(CHANGING_S / 2)

    async def move(self, target: LoadTarget) -> None:
        """See `ports.LoadProcess`."""
        self.target = target

    async def drain(self) -> None:
        """See `ports.LoadProcess`."""
        self.drains += 1
        self._report(now_s() - 0.01, now_s(), "drained")

    async def intervals(self) -> AsyncIterator[Interval]:
        """See `ports.LoadProcess`."""
        while (interval := await self._intervals.get()) is not None:
            yield interval
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """See `ports.LoadProcess`."""
        self._end.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def die(self, error: ReplexplorerError | None = None) -> None:
        """The process ends by itself."""
        self._failure = error
        self._end.set()

    async def _work(self, interval_s: float) -> None:
        began_s = now_s()
        while not self._end.is_set():
            try:
                async with asyncio.timeout(interval_s):
                    await self._end.wait()
            except TimeoutError:
                self._report(began_s, now_s())
                began_s = now_s()
        self._intervals.put_nowait(None)

    def _report(self, began_s: float, ended_s: float, state: str = "running") -> None:
        settings = known(self.settings)
        clients, is_open = settings.clients, settings.mode == OPEN
        seconds = ended_s - began_s
        count, latency_ms = self._commit(seconds, clients)
        service = Histogram.of([round(latency_ms * 1000)] * count)
        self._intervals.put_nowait(
            Interval(
                began_s,
                ended_s,
                service,
                errors=0,
                unknown=0,
                reconnects=0,
                clients=clients,
                connected=clients,
                workload=settings.workload,
                state=state,
                mode=settings.mode,
                rate_asked_tps=settings.rate_tps if is_open else None,
                response=service if is_open else Histogram(),
                arrivals=count if is_open else 0,
                writes=count,
                **{"work": (ProcessWork(1, clients, count, 0.05 * seconds, seconds),), **self.more},
            )
        )

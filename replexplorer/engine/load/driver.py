"""Our background load: started, changed and stopped, its intervals kept until they are taken."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, Value
from replexplorer.core.load.interval import Interval, Measurement, keep_for_reader
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.load.workload import LEDGER
from replexplorer.core.server.comeback import Acknowledged
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import Clock, LoadProcess, LoadSettings, LoadTarget, Report


def load_knobs(settings: LoadSettings) -> dict[str, Value]:
    """The load's knobs as these settings have them."""
    return {
        keys.CLIENTS: settings.clients,
        keys.LOAD_MODE: settings.mode,
        keys.RATE: settings.rate_tps,
        keys.WORKLOAD: settings.workload,
        keys.KEY_SPREAD: settings.key_spread,
        keys.PAYLOAD: settings.payload_bytes,
    }


def with_knobs(
    settings: LoadSettings, knobs: Mapping[str, Value], files: Callable[[str], tuple[str, str]]
) -> LoadSettings:
    """The settings with these knobs as given; `files` reads a workload that is a user's. Raises UsageError
    when it cannot be read."""
    now = {**load_knobs(settings), **knobs}
    workload, script = str(now[keys.WORKLOAD]), settings.script
    if keys.WORKLOAD in knobs:
        script = files(workload)[1] if BY_KEY[keys.WORKLOAD].is_file(workload) else None
    return replace(
        settings,
        clients=int(now[keys.CLIENTS]),
        mode=str(now[keys.LOAD_MODE]),
        rate_tps=float(now[keys.RATE]),
        workload=workload,
        script=script,
        key_spread=int(now[keys.KEY_SPREAD]),
        payload_bytes=int(now[keys.PAYLOAD]),
    )


def _silent(text: str, done: float | None) -> None:
    """Nobody listens to the progress of a start."""


async def _unheard() -> None:
    """Nobody wants to know that another load runs."""


@dataclass(slots=True, eq=False)
class Inbox:
    """The load's intervals as one listener has yet to take them."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each interval, and when the load ends; whoever waits clears it."""
    _intervals: deque[Interval] = field(default_factory=deque)

    def put(self, interval: Interval) -> None:
        """Add the newest."""
        keep_for_reader(self._intervals, interval)
        self.arrived.set()

    def take(self) -> tuple[Interval, ...]:
        """The intervals since the last take, oldest first."""
        taken = tuple(self._intervals)
        self._intervals.clear()
        return taken


@dataclass(slots=True)
class _Running:
    """A started process with the task that reads it."""

    process: LoadProcess
    reader: asyncio.Task[None]


class LoadDriver:
    """One load process at most, and what it reported since each listener last asked."""

    def __init__(
        self,
        make: Callable[[Report], LoadProcess],
        *,
        interval_s: float,
        on_end: Callable[[str], None] = lambda _: None,
        files: Callable[[str], tuple[str, str]] = lambda written: (written, ""),
        new_run: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._make = make
        self._new_run = new_run
        """Makes the directory for a run of client logs."""
        self._files = files
        self._on_end = on_end
        self._interval_s = interval_s
        self._running: _Running | None = None
        self._spare: LoadProcess | None = None
        """A bare process for the next start."""
        self._report: Report = _silent
        self.run: str | None = None
        """The run of client logs that the `ledger` load is in, or was in last; None lets the next start, or
        change of one that runs, begin another."""
        self.inbox = Inbox()
        """The picture's."""
        self._inboxes = [self.inbox]
        self.acknowledged = Acknowledged()
        self.settings: LoadSettings | None = None
        """What the running load was last told."""
        self.target: LoadTarget | None = None
        """Where the load was started; None when it was stopped, or never begun."""
        self.fault: str | None = None
        """Why the process ended by itself; None while it runs or was stopped."""
        self.lost: str | None = None
        """Why there is nothing left to load, though the process tries on; None while there is."""
        self.prepared: float | None = None
        """Which part of the table was ready when that was told last, 0 to 1."""
        self.on_progress: Report = _silent
        """Hears that as well, whoever started or changed the load."""
        self.on_settings: Callable[[], Awaitable[None]] = _unheard
        """Awaited when a load was started or follows other settings; it does not raise."""

    async def warm_up(self) -> None:
        """Start the bare process of the next start, while there is something else to wait for."""
        self._spare = self._make(self._tell)
        await self._spare.spawn()

    def _tell(self, text: str, done: float | None) -> None:
        """Pass on how far the table is."""
        self.prepared = done
        self._report(text, done)
        self.on_progress(text, done)

    @property
    def is_running(self) -> bool:
        """Whether the process is up."""
        return self._running is not None and not self._running.reader.done()

    async def start(self, target: LoadTarget, settings: LoadSettings, report: Report = _silent) -> None:
        """Start the process, or change it when it runs already.

        Returns at the first commit, so it waits while commits are blocked; intervals come meanwhile.
        """
        if self.is_running:
            await self._adopt(settings)
            return
        settings = await self._with_run(settings)
        process, self._spare = self._spare, None
        await self.stop()
        if process is None:
            process = self._make(self._tell)
        self._report = report
        self.fault, self.settings, self.target, self.prepared = None, settings, target, None
        self._running = _Running(process, asyncio.create_task(self._read(process), name="load intervals"))
        try:
            await self.on_settings()
            await process.start(target, settings, interval_s=self._interval_s)
        except BaseException:
            await to_the_end(self.stop())
            raise

    async def _read(self, process: LoadProcess) -> None:
        """Take intervals until the process ends."""
        try:
            async for interval in process.intervals():
                self.acknowledged.add(interval.acknowledged_gtids, connected=interval.connected)
                interval = replace(interval, acknowledged_gtids="")
                for inbox in self._inboxes:
                    inbox.put(interval)
        except ReplexplorerError as error:
            self.fault = str(error)
            if self._running is not None and self._running.process is process:
                self._on_end(self.fault)
        for inbox in self._inboxes:
            inbox.arrived.set()

    def effective(self) -> Mapping[str, Value]:
        """Load knobs as they are now; empty when no load runs."""
        if not self.is_running or self.settings is None:
            return {}
        return load_knobs(self.settings)

    async def change(self, changes: Mapping[str, Value]) -> None:
        """Apply these load knobs to the running load; nothing when none runs."""
        if self.settings is not None:
            await self._adopt(with_knobs(self.settings, changes, self._files))

    async def move(self, target: LoadTarget) -> None:
        """Let the running load go on at another server; nothing when none runs."""
        if self._running is not None and self.is_running:
            self.target = target
            await self._running.process.move(target)

    async def drain(self) -> None:
        """Serve what arrived and let nothing more come; nothing when none runs."""
        if self._running is not None and self.is_running:
            await self._running.process.drain()

    async def fresh_sessions(self) -> None:
        """Let every client reconnect, because a variable is copied when a session begins."""
        if self.settings is not None:
            await self._adopt(replace(self.settings, fresh_sessions=self.settings.fresh_sessions + 1))

    async def resize(self, table_size: int) -> None:
        """Let the load work on a table of n rows; recreated where it has others."""
        if self.settings is not None and self.settings.table_size != table_size:
            await self._adopt(replace(self.settings, table_size=table_size))

    async def _adopt(self, settings: LoadSettings) -> None:
        """Make the running process follow these settings."""
        if self._running is not None:
            self.prepared = None
            settings = await self._with_run(settings)
            await self._running.process.change(settings)
            self.settings = settings
            await self.on_settings()

    async def _with_run(self, settings: LoadSettings) -> LoadSettings:
        """With the run that the clients' logs belong to, for the workload that has one: the one that they
        were in last, so that a load that was ended and begun elsewhere goes on in it."""
        if settings.workload != LEDGER or self._new_run is None:
            return settings if settings.ledger is None else replace(settings, ledger=None)
        self.run = settings.ledger or self.run or await self._new_run()
        return replace(settings, ledger=self.run)

    @contextmanager
    def listening(self) -> Iterator[Inbox]:
        """An inbox of one's own, beside the picture's: it gets every interval from now on."""
        inbox = Inbox()
        self._inboxes.append(inbox)
        try:
            yield inbox
        finally:
            self._inboxes.remove(inbox)

    def lose(self, why: str | None) -> None:
        """Say that there is nothing left to load, to whoever waits for intervals; None: there is again."""
        self.lost = why
        for inbox in self._inboxes:
            inbox.arrived.set()

    async def stop(self) -> None:
        """End the process, and a bare one that nobody started; nothing when there is none."""
        running, self._running, self.target = self._running, None, None
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.stop()
        if running is None:
            return
        try:
            await running.process.stop()
        finally:
            running.reader.cancel()
            await asyncio.gather(running.reader, return_exceptions=True)
            self.acknowledged.pause()


IntervalCallback = Callable[[Interval], None]


async def measure(
    load: LoadDriver,
    clock: Clock,
    *,
    duration_s: float,
    commits: int = 0,
    from_s: float | None = None,
    on_interval: IntervalCallback = lambda _: None,
    into: Measurement | None = None,
) -> Measurement:
    """Let the running load run and merge its intervals, or those that begin from a moment on,
    `into` what the caller keeps when it ends before its time.

    Ends with the interval that completes the duration and as many commits as asked; an open loop's
    backlog is drained then, so that no slow arrival is left out. Raises StackUnavailable when the load
    ends by itself, or has lost its stack.
    """
    measured = Measurement() if into is None else into
    with load.listening() as inbox:
        while measured.duration_s < duration_s - 0.05 or measured.commits < commits or not measured.intervals:
            for interval in await _next(load, inbox):
                on_interval(interval)
                if interval.state != "preparing" and (from_s is None or interval.start_s >= from_s):
                    measured.add(interval)
        if measured.intervals[-1].mode == OPEN:
            await _drain(load, inbox, measured, on_interval)
    return measured


async def _drain(
    load: LoadDriver, inbox: Inbox, measured: Measurement, on_interval: IntervalCallback
) -> None:
    """Serve who waits and take what that made."""
    await load.drain()
    while True:
        for interval in await _next(load, inbox):
            measured.extend_last(interval)
            if interval.state == "drained":
                return
            on_interval(interval)


async def _next(load: LoadDriver, inbox: Inbox) -> Sequence[Interval]:
    """The next intervals, at least one; raises StackUnavailable when the load ended."""
    while not (taken := inbox.take()):
        if load.lost is not None:
            raise StackUnavailable(load.lost, "`replexplorer up` makes it again")
        if not load.is_running:
            raise StackUnavailable(load.fault or "the load ended", "`replexplorer status` shows the stack")
        inbox.arrived.clear()
        await inbox.arrived.wait()
    return taken

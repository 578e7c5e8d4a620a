"""Servers that somebody else runs, whose settings are turned, and which may be given a load, for as long as
one looks on.

Law: a load there has a schema of its own, which is made before its first start and dropped by whoever ends
the visit, and a rate that it does not exceed. What it measures is kept apart from what the servers count of
all their clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.names import Assignment
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.tick import Tick
from replexplorer.engine.console import Command, Console, R, ToggleLoad
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.load.driver import LoadDriver
from replexplorer.engine.outcome import Preview
from replexplorer.engine.progress import ProgressCallback
from replexplorer.engine.session import Session
from replexplorer.ports import LoadProcess, LoadSettings, LoadTarget, Report

_INTERVAL_S: Final = 1.0


class VisitingLoad:
    """One load of these settings, started and stopped as often as one likes."""

    def __init__(
        self,
        process: Callable[[Report], LoadProcess],
        target: LoadTarget,
        settings: LoadSettings,
        make_schema: Callable[[], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self.total: Interval | None = None
        """All that it did so far; None before its first second."""
        self.on_end: Callable[[str], None] = lambda _: None
        """Hears why it ended by itself."""
        self._driver = LoadDriver(process, interval_s=_INTERVAL_S, on_end=lambda why: self.on_end(why))
        self._target = target
        self._make_schema = make_schema
        self._is_made = False
        self._last: Interval | None = None
        self._is_begun = False
        """Its first transaction was answered: what was reported before was of tables and logins."""
        self._taking: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is up."""
        return self._driver.is_running

    @property
    def fault(self) -> str | None:
        """Why it ended by itself; None while it runs or was stopped."""
        return self._driver.fault

    async def start(self, report: Report = lambda _, __: None) -> None:
        """Make the schema, once, and its tables, and begin; waits for the first commit. Raises
        ReplexplorerError."""
        if not self._is_made:
            await to_the_end(self._make())
        self._last, self._is_begun = None, False
        if self._taking is None:
            self._taking = asyncio.create_task(self._take_always(), name="take intervals")
        await self._driver.start(self._target, self.settings, report)
        self._take()
        self._is_begun = True

    async def _make(self) -> None:
        await self._make_schema()
        self._is_made = True

    async def stop(self) -> None:
        """Let nothing more be sent; what is under way has 0.8 s. Harmless twice."""
        await self._driver.stop()
        taking, self._taking = self._taking, None
        if taking is not None:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
        self._take()

    def view(self) -> LoadView:
        """What it did in its last second."""
        self._take()
        settings, last = self.settings, self._last
        if last is None or not self.is_running:
            state = "preparing" if self.is_running else "stopped"
            return LoadView(
                settings.clients,
                0,
                settings.workload,
                None,
                state=state,
                prepared=self._driver.prepared if self.is_running else None,
                fault=self.fault,
                mode=OPEN,
                rate_asked_tps=settings.rate_tps,
            )
        return LoadView(
            last.clients,
            last.connected,
            last.workload,
            last.tps,
            n=last.commits,
            duration_s=last.duration_s,
            mean_ms=last.service.mean_ms,
            errors=last.errors,
            unknown=last.unknown,
            reconnects=last.reconnects,
            state=last.state,
            fault=last.fault,
            mode=OPEN,
            rate_asked_tps=settings.rate_tps,
            response=last.response,
            response_p50_ms=last.response.percentile_ms(50),
            response_p95_ms=last.response.percentile_ms(95),
            response_p99_ms=last.response.percentile_ms(99),
            response_max_ms=last.response.max_ms,
            dropped=last.dropped,
        )

    async def _take_always(self) -> None:
        """Take intervals in as they come: the driver keeps the last minutes alone."""
        arrived = self._driver.inbox.arrived
        while True:
            await arrived.wait()
            arrived.clear()
            self._take()

    def _take(self) -> None:
        """Take in what was reported."""
        for interval in self._driver.inbox.take():
            self._last = interval
            if self._is_begun and interval.state != "drained":
                self.total = interval if self.total is None else self.total.followed_by(interval)


class Visit:
    """A session whose changes are taken back when it is closed (`view.View`)."""

    player: Final = None
    """Its time goes by itself."""

    def __init__(
        self, session: Session, take_back: Callable[[], Awaitable[object]], load: VisitingLoad | None = None
    ) -> None:
        """`take_back` undoes the settings, and drops what the load was given."""
        self._session = session
        self._take_back = take_back
        self._load = load
        self._beginning: asyncio.Task[None] | None = None
        self._console: Console = (
            session.console if load is None else _LoadConsole(session.console, self._toggle)
        )
        if load is not None:
            load.on_end = lambda why: session.chronicle.tell(Severity.BAD, why)

    @property
    def console(self) -> Console:
        """Where settings are turned, and the load is stopped and started."""
        return self._console

    async def start(self, progress: ProgressCallback) -> None:
        """See `view.View`; the load begins meanwhile, because its first commit may be a blocked one."""
        await self._session.start(progress)
        if self._load is not None:
            self._beginning = asyncio.create_task(self._begin(self._load), name="begin load")

    async def ticks(self) -> AsyncIterator[Tick]:
        """See `view.View`."""
        async for tick in self._session.ticks():
            yield tick if self._load is None else replace(tick, visitor=self._load.view())

    async def close(self, *, keep: bool = False) -> str:
        """Stop the load, let go of the servers and give each variable the value that it had, however this
        ends; answers nothing, for what was taken back is a list."""
        try:
            await to_the_end(self._stop())
        finally:
            try:
                await self._session.close(keep=True)
            finally:
                await to_the_end(self._undo())
        return ""

    async def _begin(self, load: VisitingLoad) -> None:
        try:
            await load.start()
        except ReplexplorerError as error:
            self._session.chronicle.tell(Severity.BAD, f"no load: {error}")
        else:
            self._session.chronicle.tell(Severity.INFO, "load started")

    async def _stop(self) -> None:
        """End the load, also one that is still beginning."""
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            beginning.cancel()
            await asyncio.gather(beginning, return_exceptions=True)
        if self._load is not None:
            await self._load.stop()

    async def _toggle(self) -> bool:
        """Stop the load, or start it again; answers whether it runs now."""
        if self._load is None:
            return False
        if self._load.is_running or (self._beginning is not None and not self._beginning.done()):
            await self._stop()
            self._session.chronicle.tell(Severity.INFO, "load stopped")
            return False
        self._beginning = asyncio.create_task(self._begin(self._load), name="begin load")
        return True

    async def _undo(self) -> None:
        await self._take_back()


class _LoadConsole:
    """The console of servers that somebody else made, with the one load that runs there."""

    def __init__(self, console: Console, toggle: Callable[[], Awaitable[bool]]) -> None:
        self._console = console
        self._toggle = toggle

    def parse(self, text: str) -> Assignment:
        """See `console.Console`."""
        return self._console.parse(text)

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """See `console.Console`."""
        return self._console.preview(assignments)

    def preview_fault(self, request: FaultRequest) -> Preview:
        """See `console.Console`."""
        return self._console.preview_fault(request)

    async def do(self, command: Command[R]) -> R:
        """See `console.Console`."""
        if isinstance(command, ToggleLoad):
            answer: Any = await self._toggle()
            found: R = answer
            return found
        return await self._console.do(command)

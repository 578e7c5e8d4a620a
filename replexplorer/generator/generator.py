"""The load as its process runs it: commands in, intervals out, clients between.

Commands are JSON lines `{"id", "do", ...}` (start, change, stop); each is answered by `done` or
`failed` with its id. Events: `interval`, `progress`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, UsageError
from replexplorer.core.workload import WORKLOADS, Workload
from replexplorer.generator.clients import ClosedLoop, Course, Floor
from replexplorer.generator.outbox import Outbox
from replexplorer.generator.tables import Tables
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadSettings, LoadTarget

STOP_COMMITS_S: Final = 0.8
"""How long commits under way may take when the load ends."""
SETTLE_S: Final = 5.0
"""How long a change waits for clients whose commit is blocked."""
_TICK_S: Final = 0.02
_TELL_LAST_S: Final = 0.1


class Generator:
    """One load: its settings, its clients and its reports."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._random = Random()
        self._tally = Tally()
        self._settings: LoadSettings | None = None
        self._tables: Tables | None = None
        self._floor: Floor | None = None
        self._loop: ClosedLoop | None = None
        self._begun: asyncio.Future[None] | None = None
        self._rows = 0
        self._preparing = 0
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._truncation: asyncio.Task[None] | None = None
        self._reporter: asyncio.Task[None] | None = None
        self._interval_s = 1.0

    async def obey(self, command: Mapping[str, Any]) -> None:
        """Carry a command out and answer it; never raises for what a server does."""
        number = command.get("id")
        try:
            match command.get("do"):
                case "start":
                    target = LoadTarget(**command["target"])
                    await self._start(target, LoadSettings(**command["settings"]), command["interval_s"])
                case "change":
                    async with self._changing:
                        await self._change(LoadSettings(**command["settings"]))
                case other:
                    raise UsageError(f"unknown command {other!r}")
        except ReplexplorerError as error:
            self._fail(number, error)
        except (KeyError, TypeError) as error:
            self._fail(number, UsageError(f"malformed command ({error})"))
        else:
            self._outbox.tell("done", id=number)

    def _fail(self, number: object, error: ReplexplorerError) -> None:
        """Answer a command with an error."""
        refusal = error.number if isinstance(error, ServerRefused) else None
        self._outbox.tell(
            "failed", id=number, code=error.code, number=refusal, message=error.message, hint=error.hint
        )

    async def _start(self, target: LoadTarget, settings: LoadSettings, interval_s: float) -> None:
        """Prepare, begin, and wait for the first commit."""
        if self._tables is not None:
            raise UsageError("the load runs already")
        _workload(settings)
        self._settings = settings
        self._tables = Tables(target, self._random, self._progress)
        self._keep(self._tick())
        self._interval_s = interval_s
        self._report_anew()
        async with self._changing:  # a change that comes meanwhile waits for the table
            await self._prepare(self._tables, settings)
        self._begun = asyncio.get_running_loop().create_future()
        self._floor = Floor(
            target,
            self._plan(settings),
            self._tally,
            self._random,
            on_first_commit=self._note_commit,
            on_refused=self._note_refusal,
        )
        self._loop = ClosedLoop(self._floor)
        self._loop.change(settings.clients, None)
        if settings.clients:
            await self._begun

    def _note_commit(self) -> None:
        """The load has begun: its first interval starts where its first commit did."""
        if self._begun is not None and not self._begun.done():
            self._tally.begin(time.monotonic() - max(self._tally.latencies_s, default=0.0))
            self._begun.set_result(None)
            self._report_anew()

    def _note_refusal(self, refused: ServerRefused) -> None:
        """A load whose very first statement is refused has not begun."""
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(refused)

    async def _change(self, settings: LoadSettings) -> None:
        """Take other settings; the old ones stay when a table cannot be prepared."""
        if self._loop is None or self._tables is None or self._settings is None:
            raise UsageError("the load does not run yet")
        old = self._settings
        if (settings.workload, settings.table_size) != (old.workload, old.table_size):
            await self._prepare(self._tables, settings)
        self._settings = settings
        same = (settings.workload, settings.table_size, settings.fresh_sessions) == (
            old.workload,
            old.table_size,
            old.fresh_sessions,
        )
        self._loop.change(settings.clients, None if same else self._plan(settings))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self._loop.settle()

    def _plan(self, settings: LoadSettings) -> Course:
        """What these settings make the clients do."""
        return Course.plan(_workload(settings), settings.table_size, settings.fresh_sessions, self._random)

    async def _prepare(self, tables: Tables, settings: LoadSettings) -> None:
        """Make the table fit."""
        self._preparing += 1
        try:
            self._rows = await tables.prepare(_workload(settings), settings.table_size)
        finally:
            self._preparing -= 1

    def _progress(self, text: str, done: float | None) -> None:
        """Tell how far the preparation is."""
        self._outbox.tell("progress", text=text, done=done)

    def _keep(self, work: Any) -> asyncio.Task[None]:
        """Run beside everything else until the load ends."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tick(self) -> None:
        """Measure how late the event loop's own timers are."""
        while True:
            due_s = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._tally.lateness_s.append(max(0.0, time.monotonic() - due_s))

    def _report_anew(self) -> None:
        """Count the seconds to the next report from the interval under way."""
        if self._reporter is not None:
            self._reporter.cancel()
        self._reporter = self._keep(self._report(self._tally.start_s))

    async def _report(self, due_s: float) -> None:
        """Send an interval each `interval_s` after `due_s`."""
        while True:
            due_s = max(due_s + self._interval_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())
            self._tell_interval()

    def _tell_interval(self) -> None:
        """End the interval under way and send it."""
        settings, floor = self._settings, self._floor
        if settings is None:
            return
        workload = WORKLOADS[settings.workload] if floor is None else floor.course.workload
        clients = self._loop.clients if self._loop is not None else settings.clients
        connected = floor.connected if floor is not None else 0
        state = "waiting" if clients and not connected and floor is not None else "running"
        interval = self._tally.fold(
            clients=clients,
            connected=connected,
            workload=workload.name,
            state="preparing" if self._preparing else state,
        )
        self._outbox.tell_interval(interval)
        if workload.grows:
            self._rows += interval.commits
            if self._rows >= settings.rows_bound and self._truncation is None and self._tables is not None:
                self._truncation = asyncio.create_task(self._truncate(self._tables, workload))

    async def _truncate(self, tables: Tables, workload: Workload) -> None:
        """Empty the table that reached its bound."""
        try:
            await tables.truncate(workload)
            if self._floor is not None and self._floor.course.workload is workload:
                self._rows = 0
            self._tally.rows_reset += 1
        except ReplexplorerError as error:
            self._tally.fault = str(error)
        finally:
            self._truncation = None

    async def stop(self) -> None:
        """End the clients, send what is left to tell."""
        tasks = [*self._tasks] + ([self._truncation] if self._truncation is not None else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._loop is not None:
            await self._loop.stop(STOP_COMMITS_S)
        self._tell_interval()
        await self._outbox.drain(_TELL_LAST_S)


def _workload(settings: LoadSettings) -> Workload:
    """The workload by its name; raises UsageError."""
    if settings.workload not in WORKLOADS:
        raise UsageError(f"no workload {settings.workload!r}", f"one of {', '.join(WORKLOADS)}")
    return WORKLOADS[settings.workload]

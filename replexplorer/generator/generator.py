"""The load as its process runs it: commands in, intervals out, clients between.

Commands are JSON lines `{"id", "do", ...}` (start, go, change, move, hold, drain); each is answered by
`done` or `failed` with its id. Events: `interval`, `progress`, and `ended` when it cannot go on. Of
several generators of one load each has a part: this many clients, a share of the arrivals; the one that
leads looks after the tables, and all of them `go` at one moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import floor as whole
from random import Random
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED, LoadShare, Pace, Schedule
from replexplorer.core.load.workload import LEDGER, Table
from replexplorer.core.records import dataclass, replace
from replexplorer.generator.client_log import ClientLog, LogHealth, Reader, readers_of
from replexplorer.generator.clients import Alarm, Clients
from replexplorer.generator.dispatcher import ClientJob, check_script, course_of, workload_of
from replexplorer.generator.tables import Tables
from replexplorer.generator.tally import Gauges, Outbox, Tally
from replexplorer.ports import LoadSettings, LoadTarget

_TICK_S: Final = 0.02
_GROWN_BYTES: Final = 1 << 30
"""A table that grows is truncated at so much payload, however few rows that is."""


@dataclass(eq=False)
class Generator:
    """The load of this process, as commands make and change it."""

    _outbox: Outbox
    _end: Callable[[], None]
    """Ends the process, which then stops the load."""
    _load: _Load | None = None

    async def obey(self, command: Mapping[str, Any]) -> None:
        """Carry a command out and answer it; never raises for what a server does."""
        number = command.get("id")
        try:
            await self._do(command)
        except ReplexplorerError as error:
            self._fail(number, error)
        except (KeyError, TypeError) as error:
            self._fail(number, UsageError(f"malformed command ({error})"))
        else:
            self._outbox.tell("done", id=number)

    async def _do(self, command: Mapping[str, Any]) -> None:
        verb, load = command["do"], self._load
        if verb == "start":
            if load is not None:
                raise UsageError("the load is already running")
            self._load = _Load(
                self._outbox,
                self._end,
                LoadTarget(**command["target"]),
                LoadSettings(**command["settings"]),
                LoadShare(**command["part"]),
                command["interval_s"],
            )
            await self._load.start()
            return
        if load is None:
            if verb in ("move", "hold"):  # it begins where its start says
                return
            raise UsageError("the load does not run yet")
        match verb:
            case "go":
                await load.go(command["at_s"], command["origin_s"])
            case "change":
                await load.change(LoadSettings(**command["settings"]), LoadShare(**command["part"]))
            case "move":
                await load.move(LoadTarget(**command["target"]))
            case "hold":
                await load.hold()
            case "drain":
                await load.drain()
            case other:
                raise UsageError(f"unknown command {other!r}")

    def _fail(self, number: object, error: ReplexplorerError) -> None:
        """Answer a command with an error."""
        refusal = error.number if isinstance(error, ServerRefused) else None
        self._outbox.tell(
            "failed", id=number, code=error.code, number=refusal, message=error.message, hint=error.hint
        )

    async def stop(self) -> None:
        """End the load, send what is left to report."""
        if self._load is not None:
            await self._load.stop()
        await self._outbox.drain()


class _Load:
    """One load, or a part of it: its settings, its clients and its reports."""

    def __init__(
        self,
        outbox: Outbox,
        end: Callable[[], None],
        target: LoadTarget,
        settings: LoadSettings,
        part: LoadShare,
        interval_s: float,
    ) -> None:
        self._outbox = outbox
        self._end = end
        self._logs: list[ClientLog] = []
        """Of each run that this process was told to keep; the last one is in use."""
        self._readers: asyncio.Task[None] | None = None
        self._random = Random()
        self._tally = Tally()
        self._schedule = Schedule(self._random)
        self._settings = settings
        self._part = part
        self._interval_s = interval_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._tables = Tables(target, self._random, self._progress)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The first transaction went through."""
        self._clients = Clients(
            target,
            course_of(settings, self._random, self._log_of(settings, part, target)),
            self._tally,
            self._schedule,
            self._random,
            on_first_commit=self._note_commit,
            on_refused=self._note_failure,
        )
        self._alarm = Alarm(self._arrive)
        self._is_awaited = True
        """Its clients may be ready, those of other processes may not: `go` says when all begin."""
        self._rows = 0.0
        """Of the table that grows."""
        self._preparing = 0
        self._changing = asyncio.Lock()
        self._is_truncating = False
        self._reporter: asyncio.Task[None] | None = None
        self._is_drained = False
        """No arrival comes until the next change."""
        self._has_ended = False
        """And nothing is left to be served."""

    async def start(self) -> None:
        """Prepare the tables and log in; `go` lets transactions come."""
        clients = self._part.clients
        self._keep(self._tick())
        if self._part.leads:
            self._report_from(self._tally.start_s)
        async with self._changing:  # a change that comes meanwhile waits for the table
            await self._prepare(self._settings)
            self._clients.let_go()
        self._clients.change(clients, None)
        if clients:
            # Arrivals wait for the logins, not for the clients: nobody intended them before.
            await self._clients.settle()

    async def go(self, at_s: float, origin_s: float) -> None:
        """Begin at this moment, as the other processes of the load do, and wait for the first commit;
        intervals end at whole intervals after the origin."""
        if not self._is_awaited:
            raise UsageError("the load is already running")
        if self._reporter is not None:  # what it would say of the time before is no part of the load
            self._reporter.cancel()
        await asyncio.sleep(at_s - time.monotonic())
        self._is_awaited = False
        self._tally.begin(at_s)
        self._report_from(origin_s)
        self._set_pace()
        if self._part.clients and self._has_arrivals():
            await self._begun

    def _has_arrivals(self) -> bool:
        """Whether a commit can be waited for: at a low rate the first arrival may be far away."""
        due_s = self._schedule.next_s
        return due_s is None or due_s < time.monotonic() + self._interval_s

    def _note_commit(self) -> None:
        """A transaction went through."""
        if not self._begun.done():
            self._begun.set_result(None)

    def _note_failure(self, error: ReplexplorerError) -> None:
        """A load whose very first statement is refused has not begun."""
        if not self._begun.done():
            self._begun.set_exception(error)

    async def change(self, settings: LoadSettings, part: LoadShare) -> None:
        """Take other settings; the old ones stay when a table cannot be prepared."""
        async with self._changing:
            clients = self._clients
            same = _course_part(settings) == _course_part(self._settings)
            try:
                if not same:
                    await self._prepare(settings)
                log = self._log_of(settings, part, clients.target)
                self._settings, self._part = settings, part
                self._is_drained = self._has_ended = False
                clients.change(part.clients, None if same else course_of(settings, self._random, log))
                self._set_pace()
            finally:
                clients.let_go()
            await self._clients.settle()

    def _log_of(self, settings: LoadSettings, part: LoadShare, target: LoadTarget) -> ClientLog | None:
        """Where these settings' transactions are noted; a file of its own for each run. Raises MissingPiece
        where none can be made."""
        if settings.workload != LEDGER or settings.ledger is None:
            self._end_readers()
            return None
        if not self._logs or self._logs[-1].directory != settings.ledger:
            health = LogHealth(self._tally.log_syncs_s, self._tally.log_waits_s)
            self._logs.append(ClientLog(settings.ledger, health, self._give_up, settings.ledger_file))
            self._end_readers()
        if part.leads and self._readers is None:
            self._readers = self._keep(self._read(readers_of(target, self._logs[-1])))
        return self._logs[-1]

    async def _read(self, readers: Sequence[Reader]) -> None:
        """Look at each node for rows that are there."""
        async with asyncio.TaskGroup() as group:
            for reader in readers:
                group.create_task(reader.live())

    def _end_readers(self) -> None:
        """No one looks any more."""
        if self._readers is not None:
            self._readers.cancel()
            self._readers = None

    def _give_up(self, error: ReplexplorerError) -> None:
        """The load cannot go on: say why and end; commits under way are unknown to the log."""
        self._tally.fault = str(error)
        self._note_failure(error)
        self._outbox.tell("ended", message=error.message, hint=error.hint)
        self._end()

    async def move(self, target: LoadTarget) -> None:
        """Go on at another server; a change that is under way is not waited for, which may wait for the
        one of before."""
        self._tables.move(target)
        await self._clients.move(target)

    def _pace(self) -> Pace:
        """As asked for."""
        settings, part = self._settings, self._part
        if settings.mode == CLOSED:
            return Pace()
        return Pace.open(settings.rate_tps, settings.spacing, part.share, part.phase)

    def _set_pace(self) -> None:
        """Let arrivals come as asked; without clients nobody can be meant to be served."""
        pace = self._pace()
        is_held = self._is_drained or self._is_awaited or not self._part.clients
        self._clients.change_pace(
            Pace() if is_held else pace, is_closed=not is_held and pace.rate_tps is None
        )
        if not self._part.clients:
            self._schedule.drop_waiting()
        self._wind_alarm()

    def _arrive(self) -> None:
        """Arrivals are due."""
        self._clients.admit()
        self._wind_alarm()

    def _wind_alarm(self) -> None:
        self._alarm.set(self._schedule.next_s)

    async def drain(self) -> None:
        """End the arrivals, serve who waits, report."""
        async with self._changing:
            self._is_drained = True
            self._set_pace()
            await self._clients.drain()
            self._has_ended = True
            self._tell_interval()

    async def _prepare(self, settings: LoadSettings) -> None:
        """Make the tables fit, and see whether the server takes a user's statements."""
        if not self._part.leads:
            return
        workload = workload_of(settings)
        self._preparing += 1
        try:
            self._rows = await self._tables.prepare(workload, settings.table_size, self.hold)
            if settings.script is not None:
                await check_script(workload, self._clients.target, settings, self._random)
        finally:
            self._preparing -= 1

    async def hold(self) -> None:
        """A table is recreated: nobody works on it meanwhile."""
        await self._clients.hold()

    def _progress(self, text: str, done: float | None = None) -> None:
        """Report how far the preparation is."""
        self._outbox.tell("progress", text=text, done=done)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background until the load ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tick(self) -> None:
        """Measure how late the event loop's own timers are, where no arrival tells it."""
        while True:
            due_s = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            if self._schedule.next_s is None:
                self._tally.lateness_s.append(max(0.0, time.monotonic() - due_s))

    def _report_from(self, origin_s: float) -> None:
        """Let intervals end at whole intervals after this time."""
        if self._reporter is not None:
            self._reporter.cancel()
        self._reporter = self._keep(self._report(origin_s))

    async def _report(self, origin_s: float) -> None:
        """Send an interval at each of its ends."""
        count = whole((time.monotonic() - origin_s) / self._interval_s)
        while True:
            count = max(count + 1, whole((time.monotonic() - origin_s) / self._interval_s))
            await asyncio.sleep(origin_s + count * self._interval_s - time.monotonic())
            self._tell_interval()

    def _tell_interval(self) -> None:
        """End the interval under way and send it."""
        if not self._is_drained:
            self._arrive()
        interval = self._tally.fold(self._gauges(), self._schedule)
        self._outbox.tell_interval(interval)
        if self._part.leads and not self._is_awaited:
            self._watch_growth(interval, self._clients.job)

    def _gauges(self) -> Gauges:
        """What there is to say of this moment."""
        group = self._clients
        clients = self._part.clients if self._is_awaited else group.asked
        state = "waiting" if clients and not group.connected else "running"
        is_preparing = self._preparing or self._is_awaited
        return Gauges(
            part=self._part,
            clients=clients,
            connected=group.connected,
            under_way=group.under_way(),
            workload=group.job.workload.name,
            state="preparing" if is_preparing else "drained" if self._has_ended else state,
            pace=self._pace(),
        )

    def _watch_growth(self, interval: Interval, job: ClientJob) -> None:
        """Truncate a table that grew to its bound; other generators' rows are as many as their clients."""
        table, settings, mine = job.workload.grown, self._settings, self._part.clients
        if table is None:
            return
        self._rows += interval.commits * (settings.clients / mine if mine else 1.0)
        bound = settings.rows_bound
        if settings.payload_bytes:
            bound = min(bound, _GROWN_BYTES // settings.payload_bytes)
        if self._rows >= bound and not self._is_truncating:
            self._is_truncating = True
            self._keep(self._truncate(table, job))

    async def _truncate(self, table: Table, job: ClientJob) -> None:
        """Empty the table that reached its bound. Where the load ends before the server answers it may be
        emptied all the same: what was there is not looked for then, either."""
        is_settled = True
        try:
            await self._tables.truncate(table)
            if self._clients.job is job:
                self._rows = 0
            self._tally.rows_reset += 1
        except ReplexplorerError as error:
            self._tally.fault, is_settled = str(error), False
        finally:
            if is_settled and job.log is not None:
                job.log.reset()
            self._is_truncating = False

    async def stop(self) -> None:
        """End the clients, send what is left to report."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._alarm.close()
        self._clients.change_pace(Pace(), is_closed=False)
        self._schedule.drop_waiting()
        await self._clients.stop()
        await asyncio.gather(*(log.close() for log in self._logs))
        self._is_drained = True
        self._tell_interval()


def _course_part(settings: LoadSettings) -> LoadSettings:
    """The settings that make a job; the rest at some fixed value."""
    return replace(settings, clients=0, rows_bound=0, mode=CLOSED, rate_tps=0.0, spacing="")

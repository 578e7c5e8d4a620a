"""The load: our process with its intervals, the lease that says who drives, and the heartbeat.

Law: a heartbeat is written only while our load runs, so that an idle stack stays idle; one at a time, on a
connection of its own, for under semi-sync it waits like any commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from replexplorer.core.errors import (
    LoadTaken,
    ReplexplorerError,
    ServerRefused,
    ServerUnreachable,
    StackUnavailable,
)
from replexplorer.core.event import Severity
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, Value
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.load.workload import LEDGER
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.server.comeback import Acknowledged
from replexplorer.core.wire import Lease
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.state import ACKNOWLEDGED, StackState
from replexplorer.engine.record import EventLog
from replexplorer.engine.tasks import end_all, to_the_end
from replexplorer.ports import Clock, LoadProcess, LoadSettings, LoadTarget, Reporter, Sql, ask, execute

_FIELDS: Final[Mapping[str, tuple[str, Callable[[Value], Value]]]] = {
    keys.CLIENTS: ("clients", int),
    keys.LOAD_MODE: ("mode", str),
    keys.RATE: ("rate_tps", float),
    keys.WORKLOAD: ("workload", str),
    keys.KEY_SPREAD: ("key_spread", int),
    keys.PAYLOAD: ("payload_bytes", int),
}
"""Which field of the settings a knob asks for, and its type."""


def with_knobs(
    settings: LoadSettings, knobs: Mapping[str, Value], files: Callable[[str], tuple[str, str]]
) -> LoadSettings:
    """The settings with these knobs as given; `files` reads a workload that is a user's. Raises UsageError
    when it cannot be read."""
    changes: dict[str, Any] = {
        name: kind(knobs[key]) for key, (name, kind) in _FIELDS.items() if key in knobs
    }
    workload = changes.get("workload")
    if workload is not None:
        changes["script"] = files(workload)[1] if BY_KEY[keys.WORKLOAD].is_file(workload) else None
    return replace(settings, **changes)


_WAITING_AT_MOST: Final = 240
"""Intervals that wait for a reader; two minutes of them."""


@dataclass(slots=True, eq=False)
class Inbox:
    """The load's intervals as one listener has yet to take them."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each interval, and when the load ends; the waiter clears it."""
    _intervals: deque[Interval] = field(default_factory=deque)

    def put(self, interval: Interval) -> None:
        """Add the newest; beyond a bound it is merged with the one before, so that a slow reader loses
        detail and never a commit."""
        if len(self._intervals) >= _WAITING_AT_MOST:
            interval = self._intervals.pop().followed_by(interval)
        self._intervals.append(interval)
        self.arrived.set()

    def take(self) -> tuple[Interval, ...]:
        """The intervals since the last take, oldest first."""
        taken = tuple(self._intervals)
        self._intervals.clear()
        return taken


class LoadDriver:
    """One load process at most, and what it reported since each listener last asked."""

    def __init__(
        self,
        make: Callable[[Reporter], LoadProcess],
        *,
        interval_s: float,
        on_end: Callable[[str], None],
        files: Callable[[str], tuple[str, str]] = lambda written: (written, ""),
        new_run: Callable[[], Awaitable[str]] | None,
    ) -> None:
        self._make = make
        self._new_run = new_run
        """Makes the directory for a run of client logs."""
        self._files = files
        self._on_end = on_end
        self._interval_s = interval_s
        self._process: LoadProcess | None = None
        """The one that runs, or without a reader a bare one for the next start."""
        self._reader: asyncio.Task[None] | None = None
        """Takes its intervals."""
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
        self.on_progress: list[Reporter] = []
        """Hear that too, whichever app started or changed the load."""
        self.on_settings: Callable[[], Awaitable[None]] | None = None
        """Awaited when a load was started or follows other settings; it does not raise."""

    async def warm_up(self) -> None:
        """Start the bare process of the next start, while there is something else to wait for."""
        self._process = self._make(self._tell)
        await self._process.spawn()

    def _tell(self, text: str, done: float | None = None) -> None:
        """Pass on how far the table is."""
        self.prepared = done
        for report in self.on_progress:
            report(text, done)

    @property
    def is_running(self) -> bool:
        """Whether the process is up."""
        return self._reader is not None and not self._reader.done()

    async def start(self, target: LoadTarget, settings: LoadSettings) -> None:
        """Start the process, or change it when it runs already.

        Returns at the first commit, so it waits while commits are blocked; intervals come meanwhile.
        """
        if self.is_running:
            await self._adopt(settings)
            return
        settings = await self._with_run(settings)
        if self._reader is not None:  # it ended by itself
            await self.stop()
        process = self._process or self._make(self._tell)
        self.fault, self.settings, self.target, self.prepared = None, settings, target, None
        self._process = process
        self._reader = asyncio.create_task(self._read(process), name="load intervals")
        try:
            if self.on_settings is not None:
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
            if self._process is process:
                self._on_end(self.fault)
        for inbox in self._inboxes:
            inbox.arrived.set()

    def effective(self) -> Mapping[str, Value]:
        """Load knobs as they are now; empty when no load runs."""
        if not self.is_running or self.settings is None:
            return {}
        return {key: getattr(self.settings, name) for key, (name, _) in _FIELDS.items()}

    async def change(self, changes: Mapping[str, Value]) -> None:
        """Apply these load knobs to the running load; nothing when none runs."""
        if self.settings is not None:
            await self._adopt(with_knobs(self.settings, changes, self._files))

    async def move(self, target: LoadTarget) -> None:
        """Let the running load go on at another server; nothing when none runs."""
        if self._process is not None and self.is_running:
            self.target = target
            await self._process.move(target)

    async def drain(self) -> None:
        """Serve what arrived and let nothing more come; nothing when none runs."""
        if self._process is not None and self.is_running:
            await self._process.drain()

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
        if self._process is not None and self._reader is not None:
            self.prepared = None
            settings = await self._with_run(settings)
            await self._process.change(settings)
            self.settings = settings
            if self.on_settings is not None:
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
        """An inbox of one's own, besides the picture's: it gets every interval from now on."""
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
        process, reader = self._process, self._reader
        self._process = self._reader = self.target = None
        try:
            if process is not None:
                await process.stop()
        finally:
            if reader is not None:
                await end_all(reader)
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
            raise StackUnavailable(load.lost, "run `replexplorer up` to make it again")
        if not load.is_running:
            raise StackUnavailable(load.fault or "the load ended", "see `replexplorer status`")
        inbox.arrived.clear()
        await inbox.arrived.wait()
    return taken


KEPT_BINLOG_BYTES: Final = 1 << 30
LEAST_FREE_BYTES: Final = 5 << 30
LEAST_FREE_SHARE: Final = 0.1
_DEADLINE_S: Final = 10.0


def purge_to(binlogs: Sequence[tuple[str, int]], needed: str | None, kept_bytes: int) -> str | None:
    """The first binlog to keep; None when nothing may go.

    `binlogs` are name and size, oldest first; `needed` is the oldest that a replica still reads,
    None when no replica reads from here. The newest files up to `kept_bytes` stay.
    """
    total = sum(size for _, size in binlogs)
    first = 0
    while first < len(binlogs) - 1 and total > kept_bytes and binlogs[first][0] != needed:
        total -= binlogs[first][1]
        first += 1
    return binlogs[first][0] if first else None


def is_low(free_bytes: int, total_bytes: int) -> bool:
    """Whether a disk has too little room for a load to go on."""
    return free_bytes < LEAST_FREE_BYTES or free_bytes < LEAST_FREE_SHARE * total_bytes


async def trim_binlogs(fleet: Fleet) -> None:
    """Purge what no node needs on every node; a node or replica that does not answer keeps all. Members of a
    group have received all that is committed, and one that is not there yet may need any of it."""
    if fleet.system.is_group:
        if await _all_are_members(fleet):
            await asyncio.gather(*(_trim(member, None) for member in fleet.members.values()))
        return
    try:
        needed = [await _read_by(replica) for replica in fleet.replicas]
    except ReplexplorerError:
        return
    oldest = min((name for name in needed if name), default=None)
    if fleet.replicas and (oldest is None or not all(needed)):
        return
    for member in fleet.members.values():
        await _trim(member, oldest if member.name == fleet.source_name else None)


async def _all_are_members(fleet: Fleet) -> bool:
    """Whether every node takes part in the group."""
    try:
        for member in fleet.members.values():
            question = member.dialect.membership
            if question is None or not (await ask(member.poll, question)).is_ready:
                return False
    except ReplexplorerError:
        return False
    return True


async def _read_by(replica: Member) -> str | None:
    """The source's binlog that a replica reads now; None when it does not say."""
    threads = await ask(replica.poll, replica.dialect.threads)
    return threads.reads if threads else None


async def _trim(member: Member, needed: str | None) -> None:
    """Purge one node's binlogs; a refusal leaves them."""
    try:
        binlogs = await ask(member.control, member.dialect.binlogs, deadline_s=_DEADLINE_S)
        first = purge_to(binlogs, needed, KEPT_BINLOG_BYTES)
        if first is not None:
            await execute(member.control, (member.dialect.purge_binlogs(first),), deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return


async def low_disk(fleet: Fleet) -> str | None:
    """In words, when the stack's disk has too little room; None while it has, or is unknown."""
    try:
        disk = (await fleet.source.agent.health()).volumes.get("data")
    except ReplexplorerError:
        return None
    if disk is None or not is_low(disk.free_bytes, disk.total_bytes):
        return None
    free, total = disk.free_bytes / (1 << 30), disk.total_bytes / (1 << 30)
    return f"only {free:.1f} GB of {total:.0f} GB are free on the disk of the stack's volumes"


_RETRY_S: Final = 1.0
_UPKEEP_EVERY_S: Final = 20.0


class Driving:
    """One session's part in driving the load."""

    def __init__(
        self,
        holder: str,
        state: StackState,
        load: LoadDriver,
        event_log: EventLog,
        *,
        bare: LoadSettings,
        beside: bool,
    ) -> None:
        """`holder` is what other apps call us (`tui`, `load`, `lab tour`), `bare` the load without its knobs;
        `beside` drives a second load although another app holds the lease."""
        self._holder = holder
        self._bare = bare
        self._beside = beside
        self._state = state
        self._fleet = state.fleet
        self._load = load
        self._event_log = event_log
        self._beginning: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self.viewer_of: Lease | None = None
        """Who drives the load when it is not us."""
        self._published: Mapping[str, Value] | None = None
        """The load as the lease says that we run it; None before we took the lease."""
        self._selected: str | None = None
        """The knob that our user looks at; it is kept with our lease."""
        load.on_settings = self._publish
        load.on_progress.append(self._tell_preparing)

    def settings(self, knobs: Mapping[str, Value] | None = None) -> LoadSettings:
        """The load as requested, these knobs apart."""
        wanted = {**self._state.wanted_load(), **(knobs or {})}
        return with_knobs(self._bare, wanted, self._fleet.outside.workload_file)

    async def target(self) -> LoadTarget:
        """Where a load connects: the primary, by the path that the control connection found."""
        logins = self._fleet.logins
        sample = await self._state.look_at_source()
        view = sample.view
        if not view.reachable or view.host is None or view.port is None:
            if sample.late is not None:
                raise ServerUnreachable(sample.late, "try again")
            raise ServerUnreachable("the source is down", "run `replexplorer up` to bring it back")
        readers = {
            each.name: (each.host, each.port)
            for each in (view, *(other for other in self._state.node_views() if other.name != view.name))
            if each.host is not None and each.port is not None
        }
        # Where the app needs a tunnel the load runs on the server's own host, and needs none.
        path = "published" if view.path == "published" else "direct"
        source = self._fleet.source
        tracks = source.probed is not None and not self._fleet.system.is_group
        tracking = source.dialect.tracks_gtids if tracks else None
        return LoadTarget(
            view.host, view.port, logins.dsn_user, logins.dsn_password, path, readers, tracking=tracking
        )

    async def drive(self, settings: LoadSettings) -> None:
        """Run a load of our own; raises LoadTaken naming the driver when somebody drives."""
        holder = await self._take_the_lease()
        if holder is not None:
            raise LoadTaken(
                f"{holder.holder} (pid {holder.pid} on {holder.host}) drives the load of this stack",
                "end it, or add a load with --share-load",
            )
        await self._start(settings)

    async def follow(self) -> bool:
        """Let our load go on where the source is now; answers whether it had to move. Raises
        ServerUnreachable while the source does not answer."""
        if not self._load.is_running:
            return False
        target = await self.target()
        before = self._load.target
        if before is not None and replace(target, readers=before.readers) == before:
            return False
        if before is None or before.password != target.password:  # another stack, without our tables
            await self.stop()
            self.begin()
        else:
            await self._load.move(target)
        return True

    async def client_log(self) -> RunLog:
        """What the clients of the `ledger` load that runs now were told, whoever drives it; raises
        StackUnavailable saying why there is no account of that."""
        logs, lease = self._fleet.outside.client_logs, await self._fleet.keeper.lease()
        no_account = "only the workload `ledger` keeps a client log"
        if self._load.is_running:
            run = None if self._load.settings is None else self._load.settings.ledger
        elif lease is None or not lease.load:
            raise StackUnavailable("no load of this program runs", no_account)
        elif lease.load.get(keys.WORKLOAD) != LEDGER:
            run = None
        elif lease.host != socket.gethostname():
            raise StackUnavailable(f"the client logs of {lease} are on {lease.host}")
        else:
            run = None if logs is None else logs.newest()
        if logs is None or run is None:
            raise StackUnavailable("the load keeps no client log", no_account)
        return await logs.read(run)

    def begin(self) -> None:
        """Drive the load from now on, or watch another driver's; the log says so."""
        self._beginning = asyncio.create_task(self._begin(), name="begin load")

    @property
    def runs(self) -> bool:
        """Our load does, or begins."""
        return self._load.is_running or (self._beginning is not None and not self._beginning.done())

    async def toggle(self) -> bool:
        """Stop or start our load; raises StackUnavailable when another app drives it."""
        if self._load.is_running:
            await self.stop()
            await self._publish()
            self._event_log.tell(Severity.INFO, "load stopped")
            return False
        await self.drive(self.settings())
        self.viewer_of = None
        self._event_log.tell(Severity.INFO, "load started")
        return True

    async def stop(self) -> None:
        """End our load, also one that is still beginning."""
        own = (None, asyncio.current_task())
        tasks = [task for task in (self._beginning, self._upkeep) if task not in own]
        self._beginning = self._upkeep = None
        await end_all(*tasks)
        await self._load.stop()

    def watch(self, lease: Lease | None) -> None:
        """Watch the load of whoever drives it, and drive none ourselves."""
        if lease is not None and self.viewer_of is None:
            self._event_log.tell(Severity.INFO, f"{lease} drives the load")
            self.viewer_of = lease

    async def lease_seen(self, lease: Lease | None) -> None:
        """The driver's lease as it is now: ours may have gone with its bridge, another's with its app."""
        if lease is None and self.viewer_of is not None:
            viewed, self.viewer_of = self.viewer_of, None
            self._event_log.tell(Severity.INFO, f"{viewed} no longer drives the load")
        elif lease is None and self._load.is_running:
            await self._take_the_lease()
        elif self.viewer_of is not None:
            self.viewer_of = lease
        else:
            await self.publish_news()  # it ended by itself

    async def publish_news(self) -> None:
        """Note with our lease what our load is, if something else is noted there."""
        if self._published not in (None, self._news()):
            await self._publish()

    async def point(self, selected: str | None) -> None:
        """Publish the selected knob to spectators; ignored while another app drives."""
        if selected != self._selected:
            self._selected = selected
            if self._published is not None:
                await self._publish()

    def _news(self) -> dict[str, Value]:
        """What our load is now, with what its clients were answered until they lost their server."""
        running, before = dict(self._load.effective()), self._load.acknowledged.before
        return running | {ACKNOWLEDGED: before} if running and before else running

    async def _take_the_lease(self) -> Lease | None:
        """Take the lease, with what our load is now; answers who holds it when it is not ours."""
        running = self._news()
        holder = await self._fleet.keeper.take_lease(self._holder, load=running, selected=self._selected)
        if holder is not None and self._beside:
            if self._published is None:
                self._event_log.mark(f"{holder} drives a load too")
            holder = None
        self._published = running if holder is None else None
        return holder

    async def _publish(self) -> None:
        """Note with the lease what our load is now, for other apps."""
        with contextlib.suppress(ReplexplorerError):
            await self._take_the_lease()

    async def _start(self, settings: LoadSettings) -> None:
        """Start our load on a disk that has room for it, and keep the stack small meanwhile."""
        low = await low_disk(self._fleet)
        if low is not None:
            raise StackUnavailable(low, "make room: a load needs 5 GB and 10 %")
        if self._upkeep is None:
            self._upkeep = asyncio.create_task(self._keep_small(), name="upkeep")
        await self._load.start(await self.target(), settings)

    async def _keep_small(self) -> None:
        """Purge what no node needs; stop the load when the disk fills anyway."""
        while True:
            await self._fleet.outside.clock.sleep(_UPKEEP_EVERY_S)
            await trim_binlogs(self._fleet)
            low = await low_disk(self._fleet)
            if low is not None:
                self._load.fault = f"the load was stopped: {low}"  # before who measures it asks why it ended
                await self.stop()
                self._event_log.tell(Severity.BAD, self._load.fault)
                return

    async def _begin(self) -> None:
        """Begin; a primary that is away is waited for, anything else is reported and left."""
        waiting = False
        while True:
            try:
                holder = await self._take_the_lease()
                if holder is not None:
                    self.viewer_of = holder
                    await self._load.stop()
                    told = f"{holder} drives the load: this is a second view"
                    self._event_log.tell(Severity.WARN, told)
                    return
                await self._start(self.settings())
                return
            except ServerUnreachable as error:
                if not waiting:
                    self._event_log.tell(Severity.WARN, f"the load waits for the source: {error.message}")
                waiting = True
                await self._fleet.outside.clock.sleep(_RETRY_S)
            except ReplexplorerError as error:
                self._event_log.tell(Severity.BAD, f"no load: {error}")
                return

    def _tell_preparing(self, text: str, done: float | None = None) -> None:
        """The table's preparing, in the log."""
        if not done:
            self._event_log.tell(Severity.INFO, text)


EVERY_S: Final = 1.0
_NO_SUCH_TABLE: Final = 1146
_WAITS_S: Final = 86_400.0
"""As long as semi-sync lets it wait: who gives up leaves a transaction in the server that still waits."""


@dataclass(eq=False)
class Heartbeat:
    """Our heartbeats to one stack's primary."""

    _fleet: Fleet
    _sql: Sql | None = None
    _member: Member | None = None

    async def beat(self) -> None:
        """Write one and wait for its acknowledgement; raises ReplexplorerError."""
        member = self._fleet.source
        if self._sql is None or member is not self._member:
            await self.close()
            self._sql, self._member = self._fleet.connection(member.name), member
        sql, dialect = self._sql, member.dialect
        try:
            await execute(sql, (dialect.beat,), deadline_s=_WAITS_S)
        except ServerRefused as refused:
            if refused.number != _NO_SUCH_TABLE:
                raise
            await execute(sql, (dialect.heartbeat_table,), deadline_s=_WAITS_S)

    async def close(self) -> None:
        """Close the connection."""
        sql, self._sql = self._sql, None
        if sql is not None:
            with contextlib.suppress(ReplexplorerError):
                await sql.close()

"""Who drives the load: the lease, our own load under it, or the sight of somebody else's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from replexplorer.core.errors import LoadTaken, ReplexplorerError, ServerUnreachable, StackUnavailable
from replexplorer.core.event import Severity
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Value
from replexplorer.core.load.workload import LEDGER
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.wire import Lease
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.load.driver import LoadDriver, with_knobs
from replexplorer.engine.observe.sight import ACKNOWLEDGED, Sight
from replexplorer.engine.record.chronicle import Chronicle
from replexplorer.ports import LoadSettings, LoadTarget

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
    """Purge what nobody needs on every node; a node or replica that does not answer keeps all. Members of a
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
            question = member.dialect.membership()
            if question is None or not (await ask(member.poll, question)).is_ready:
                return False
    except ReplexplorerError:
        return False
    return True


async def _read_by(replica: Member) -> str | None:
    """The source's binlog that a replica reads now; None when it does not say."""
    threads = await ask(replica.poll, replica.dialect.threads())
    return threads.reads if threads else None


async def _trim(member: Member, needed: str | None) -> None:
    """Purge one node's binlogs; a refusal leaves them."""
    try:
        binlogs = await ask(member.control, member.dialect.binlogs(), deadline_s=_DEADLINE_S)
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


@dataclass(frozen=True, slots=True)
class Driver:
    """How we show ourselves to other apps."""

    holder: str
    """`tui`, `load`, `lab tour`."""
    beside: bool
    """Drive a second load although somebody holds the lease."""
    table_size: int
    processes: int = 0
    """Of the generator; 0: as many as the load is worth."""


class Driving:
    """One session's part in driving the load."""

    def __init__(self, driver: Driver, sight: Sight, load: LoadDriver, chronicle: Chronicle) -> None:
        self._driver = driver
        self._sight = sight
        self._fleet = sight.fleet
        self._load = load
        self._chronicle = chronicle
        self._beginning: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self.viewer_of: Lease | None = None
        """Who drives the load when it is not us."""
        self._published: Mapping[str, Value] | None = None
        """The load as the lease says that we run it; None before we took the lease."""
        self._selected: str | None = None
        """The knob that our user looks at; it stands beside our lease."""
        load.on_settings = self._publish

    def settings(self) -> LoadSettings:
        """The load as requested."""
        bare = LoadSettings(0, "", self._driver.table_size, processes=self._driver.processes)
        return with_knobs(bare, self._sight.wanted_load(), self._fleet.outside.workload_file)

    async def target(self) -> LoadTarget:
        """Where a load connects: the primary, by the path that the control connection found."""
        if self._fleet.credentials is None:
            raise StackUnavailable("no stack is attached", "replexplorer up")
        view = (await self._sight.look_at_source()).view
        if not view.reachable or view.host is None or view.port is None:
            raise ServerUnreachable("the primary is down", "`replexplorer up` brings it back")
        user, password = self._fleet.credentials.dsn_user, self._fleet.credentials.dsn_password
        readers = {
            each.name: (each.host, each.port)
            for each in (view, *(other for other in self._sight.node_views() if other.name != view.name))
            if each.host is not None and each.port is not None
        }
        # Where the app needs a tunnel the load runs on the server's own host, and needs none.
        path = "published" if view.path == "published" else "direct"
        source = self._fleet.source
        tracks = source.probed is not None and not self._fleet.system.is_group
        tracking = source.dialect.tracks_gtids if tracks else None
        return LoadTarget(view.host, view.port, user, password, path, readers, tracking=tracking)

    async def drive(self, settings: LoadSettings) -> None:
        """Run a load of our own; raises LoadTaken naming the driver when somebody drives."""
        holder = await self._take_the_lease()
        if holder is not None:
            raise LoadTaken(
                f"{holder.holder} (pid {holder.pid} on {holder.host}) drives the load of this stack",
                "end it, or add a load with --beside",
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
        no_account = "only the workload `ledger` keeps account of what its clients are told"
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
            raise StackUnavailable("the load keeps no account of its clients", no_account)
        return await logs.read(run)

    def begin(self) -> None:
        """Drive the load from now on, or watch another driver's; the log says so."""
        self._beginning = asyncio.create_task(self._begin(), name="begin load")

    async def toggle(self) -> bool:
        """Stop or start our load; raises StackUnavailable when another app drives it."""
        if self._load.is_running:
            await self.stop()
            await self._publish()
            self._chronicle.tell(Severity.INFO, "load stopped")
            return False
        await self.drive(self.settings())
        self.viewer_of = None
        self._chronicle.tell(Severity.INFO, "load started")
        return True

    async def stop(self) -> None:
        """End our load, also one that is still beginning."""
        tasks = [
            task for task in (self._beginning, self._upkeep) if task not in (None, asyncio.current_task())
        ]
        self._beginning = self._upkeep = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._load.stop()

    def watch(self, lease: Lease | None) -> None:
        """Watch the load of whoever drives it, and drive none ourselves."""
        if lease is not None and self.viewer_of is None:
            self._chronicle.tell(Severity.INFO, f"{lease} drives the load")
            self.viewer_of = lease

    async def lease_seen(self, lease: Lease | None) -> None:
        """The driver's lease as it is now: ours may have gone with its bridge, another's with its app."""
        if lease is None and self.viewer_of is not None:
            viewed, self.viewer_of = self.viewer_of, None
            self._chronicle.tell(Severity.INFO, f"{viewed} no longer drives the load")
        elif lease is None and self._load.is_running:
            await self._take_the_lease()
        elif self.viewer_of is not None:
            self.viewer_of = lease
        else:
            await self.publish_news()  # it ended by itself

    async def publish_news(self) -> None:
        """Say beside our lease what our load is, where something else stands there."""
        if self._published not in (None, self._news()):
            await self._publish()

    async def point(self, selected: str | None) -> None:
        """Show who watches which knob our user looks at; nobody hears of it while another app drives."""
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
        holder = await self._fleet.keeper.take_lease(
            self._driver.holder, beside=self._driver.beside, load=running, selected=self._selected
        )
        self._published = running if holder is None else None
        return holder

    async def _publish(self) -> None:
        """Say beside the lease what our load is now, for whoever looks."""
        with contextlib.suppress(ReplexplorerError):
            await self._take_the_lease()

    async def _start(self, settings: LoadSettings) -> None:
        """Start our load on a disk that has room for it, and keep the stack small meanwhile."""
        low = await low_disk(self._fleet)
        if low is not None:
            raise StackUnavailable(low, "make room: a load needs 5 GB and 10 %")
        if self._upkeep is None:
            self._upkeep = asyncio.create_task(self._keep_small(), name="upkeep")
        await self._load.start(await self.target(), settings, self._tell_preparing)

    async def _keep_small(self) -> None:
        """Purge what nobody needs; stop the load when the disk fills all the same."""
        while True:
            await self._fleet.outside.clock.sleep(_UPKEEP_EVERY_S)
            await trim_binlogs(self._fleet)
            low = await low_disk(self._fleet)
            if low is not None:
                self._load.fault = f"the load was stopped: {low}"  # before who measures it asks why it ended
                await self.stop()
                self._chronicle.tell(Severity.BAD, self._load.fault)
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
                    self._chronicle.tell(Severity.WARN, told)
                    return
                await self._start(self.settings())
                return
            except ServerUnreachable as error:
                if not waiting:
                    self._chronicle.tell(Severity.WARN, f"the load waits for the primary: {error.message}")
                waiting = True
                await self._fleet.outside.clock.sleep(_RETRY_S)
            except ReplexplorerError as error:
                self._chronicle.tell(Severity.BAD, f"no load: {error}")
                return

    def _tell_preparing(self, text: str, done: float | None) -> None:
        """The table's preparing, in the log."""
        if not done:
            self._chronicle.tell(Severity.INFO, text)

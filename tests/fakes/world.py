"""A whole stack as a model: servers, sidecars, Docker and the loads, and apps that reach it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from asyncio import sleep
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from replexplorer.core import wire
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.knobs.names import defaults
from replexplorer.core.role_change import BootRoles
from replexplorer.core.server.counters import CpuUsed
from replexplorer.core.topology import Roster, ends_of, is_pair, node_name, node_names
from replexplorer.core.wire import Document, Shape
from replexplorer.engine.fleet import Outside
from replexplorer.engine.requested import Requested
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.ports import (
    Ability,
    Credentials,
    HostView,
    NodeAddress,
    Reporter,
    ServerProcess,
    UpOptions,
)
from tests.fakes.clock import VirtualClock, later, now_s
from tests.fakes.journals import FakeShelf
from tests.fakes.load import FakeClientLogs, FakeLoadProcess
from tests.fakes.recorder import FakeRecorder
from tests.fakes.server import FakeServer
from tests.fakes.sidecar import (
    AGENT,
    BASE_MS,
    SHARED,
    FakeAgent,
    FakeLink,
    FakeSidecar,
    StoredDocument,
    link_key,
)
from tests.fakes.sql import FakeSql

CPU_A_COMMIT_S = 0.0005
DOCKER_S = 0.01
CREATING_S = 3.0
LOCAL_MS = 1.0
"""Execute and fsync time of one commit."""
TWO_REPLICAS = pytest.mark.parametrize("world", [2], indirect=True)
"""Has a test of the engine play on a source and two replicas."""
_OUTSIDERS = ("server ", "load process")


class World:
    """One stack and everything around it."""

    reached: ClassVar[weakref.WeakSet[World]] = weakref.WeakSet()
    """By an app, in the test under way."""

    removals = 0
    trouble_at: int | None = None
    """The index into `changes` of the one that fails, once."""
    stack_failure: ReplexplorerError | None = None
    """Raised by the next `up`."""
    servers_stay_away = False
    """Servers of a new stack never accept a login."""
    load_failure: ReplexplorerError | None = None
    """The next load's `start` fails so."""
    recorder: FakeRecorder | None = None
    """Where sessions are recorded; None: they are not."""
    boot_roles: BootRoles | None = None
    """What servers are when they start; None: as they were made."""
    keepers: set[str] | None = None
    """Nodes whose agents keep what all apps share; None: all."""
    unreceived = 0
    """How many of the source's commits a node that joins has yet to receive."""
    generation = 0
    """How many stacks of this name were made so far."""
    _part_of_a_commit = 0.0

    def __init__(self, *, replicas: int = 1, exists: bool = True) -> None:
        self.node_names = node_names(replicas)
        self.exists = exists
        self.changes: list[tuple[str, str]] = []
        """Everything that was told to change, as (node, what), in order."""
        self.client_logs = FakeClientLogs()
        """Where `ledger` loads keep account."""
        self.journals = FakeShelf()
        """What sweeps and matrices have found."""
        self.copies: dict[str, dict[str, bool]] = {}
        """Saved data by its name: which servers had ended."""
        self.restored: dict[str, str] = {}
        """Copies that were set back, by mark."""
        self.sqls: list[FakeSql] = []
        self.loads: list[FakeLoadProcess] = []
        self.moved: dict[str, str] = {}
        """Node to an address that is not its first."""
        self.power_cuts: list[tuple[str, str]] = []
        self.logs: dict[str, list[str]] = {}
        """What servers wrote since they were started, by node."""
        self._pids: Iterator[int] = iter(range(100, 10_000))
        self._make()

    def _make(self) -> None:
        """Servers, sidecars and the volume, fresh."""
        self.generation += 1
        self.boot_roles = None
        self.document, places = StoredDocument(), tempfile.mkdtemp()
        self.places = Path(places)
        weakref.finalize(self, shutil.rmtree, places, ignore_errors=True)
        self.links = defaultdict(FakeLink, {name: FakeLink() for name in self.node_names[1:]})
        self.servers = {name: FakeServer(name, at, self) for at, name in enumerate(self.node_names)}
        self.sidecars = {name: FakeSidecar(name, self) for name in self.node_names}

    @property
    def credentials(self) -> Credentials:
        """A new stack has new passwords."""
        return Credentials("replexplorer", f"control-{self.generation}", "sandbox", f"dsn-{self.generation}")

    def remove(self) -> None:
        """`down` in another shell."""
        self.exists = False
        for node in self.node_names:
            self.crash(node)
            self.sidecars[node].stop()

    def grow(self) -> None:
        """`up --replicas` in another shell."""
        name = node_name(len(self.node_names) + 1)
        self.node_names.append(name)
        self.links[name] = FakeLink()
        self.servers[name] = FakeServer(name, len(self.node_names), self)
        self.servers[name].missing = self.unreceived
        self.sidecars[name] = FakeSidecar(name, self)

    def shrink(self, replicas: int) -> None:
        """Remove all replicas but the first so many."""
        for name in self.node_names[replicas + 1 :]:
            self.crash(name)
            self.sidecars.pop(name).stop()
            del self.links[name], self.servers[name]
        del self.node_names[replicas + 1 :]

    # -- what there is

    @property
    def primary(self) -> FakeServer:
        """The source."""
        return self.servers[self.source_name]

    @property
    def source_name(self) -> str:
        """Who takes writes, or else who is followed by most."""

        def rank(name: str) -> tuple[bool, int]:
            one = self.servers[name]
            takes_writes = one.running and not one.is_replica and one.variables["super_read_only"] == "OFF"
            return takes_writes, sum(
                each.is_replica and each.follows == name for each in self.servers.values()
            )

        return max(self.node_names, key=rank)

    def link_of(self, replica: str) -> str:
        """The link between the source and this node."""
        return link_key(self.source_name, replica) if replica != self.source_name else replica

    @property
    def replica(self) -> FakeServer:
        """The first replica."""
        return self.servers["db2"]

    def _shapes(self, link: str) -> list[Shape]:
        """What both ends of a link do, by the world's name for it."""
        one, other = ends_of(link) if is_pair(link) else ("db1", link)
        both = self.sidecars[one].shapes.get(other), self.sidecars[other].shapes.get(one)
        return [shape for shape in both if shape]

    def total_delay_ms(self, link: str) -> float:
        return sum(shape.delay_ms for shape in self._shapes(link))

    def _cuts(self, link: str) -> bool:
        return any(shape.cut for shape in self._shapes(link))

    def shaped(self, node: str, peer: str) -> None:
        """A side of a link changed: the stream stops, or TCP tries again a moment later, and what waits is
        acknowledged."""
        name = link_key(node, peer)
        link = self.links[name]
        link.set_flow(not self._cuts(name), link.retry_s)
        if not self._cuts(name):
            later(link.retry_s, lambda: self.primary.replica_came())

    def reconnected(self, replica: str) -> None:
        """A new IO thread does not wait for TCP's next try."""
        link = self.links[self.link_of(replica)]
        if not self._cuts(self.link_of(replica)):
            link.set_flow(False, 0)
            link.set_flow(True, 0)

    def rtt_ms(self, replica: str = "db2") -> float:
        """The round trip that packets take."""
        return BASE_MS + self.total_delay_ms(self.link_of(replica))

    def acknowledging_s(self) -> list[float]:
        return sorted(
            self.rtt_ms(name) / 1000
            for name, server in self.servers.items()
            if server.is_replica
            and server.running
            and server.registered
            and not server.silent
            and not self._cuts(self.link_of(name))
        )

    def changing(self, node: str, what: str) -> str | None:
        self.changes.append((node, what))
        return "refused by the test" if len(self.changes) - 1 == self.trouble_at else None

    def told(self) -> list[str]:
        """What was changed, each with its node when it is not the primary's."""
        return [what if node in ("db1", "load") else f"{node}: {what}" for node, what in self.changes]

    def state(self) -> dict[str, Any]:
        """Everything that a `set` may turn, as it really is."""
        running = [load.settings for load in self.loads if load.running and load.settings]
        return {
            "variables": {name: dict(server.variables) for name, server in self.servers.items()},
            "threads": {name: (server.io, server.sql) for name, server in self.servers.items()},
            "delays": {
                name: {peer: round(ms, 6) for peer, ms in sidecar.delays.items()}
                for name, sidecar in self.sidecars.items()
            },
            "loads": [(settings.clients, settings.workload) for settings in running],
        }

    @property
    def requested(self) -> dict[str, Any]:
        """The knobs in the document, those of links as they are typed where the first node is the source."""
        roster = Roster(tuple(self.node_names), self.node_names[0])
        read = Requested.read(Document(**vars(self.document)), roster)
        return {str(name): value for name, value in read.values.items()}

    def holder(self, place: wire.Place) -> Any:
        """Who has it; None where nobody has."""
        found = SHARED.Places(self.places).holder(place)
        return AGENT._held(AGENT.Bridge(None), place, found).holder

    @property
    def taken(self) -> dict[str, Any]:
        """Everything that an experiment may take, each by a name, to be compared before and after."""
        kept, state = self.document.content, self.state()
        there = {
            f"{node} {key}": value
            for node, variables in state["variables"].items()
            for key, value in variables.items()
            if key != "read_only"  # super_read_only says as much, and leaves it on
        }
        for node, server in self.servers.items():
            there[f"{node} threads"] = server.io != "No", server.sql
            there[f"{node} delays"] = state["delays"][node]
        asked = {str(name): value for name, value in defaults(self.node_names[1:]).items()} | self.requested
        there |= {name: value for name, value in asked.items() if ":" not in name or value not in (0, "none")}
        there |= {name: kept.get(name) or None for name in ("faults", "owed", "role_change")}
        there |= {"source": self.source_name, "experiment": self.holder("experiment")}
        return there | {"nodes": [*self.node_names], "loads": state["loads"]}

    def address(self, node: str) -> NodeAddress:
        """Where its server is."""
        at = self.node_names.index(node)
        return NodeAddress(
            node,
            self.servers[node].running,
            self.sidecars[node].running,
            self.moved.get(node, f"10.0.0.{at + 2}"),
            3306,
            "127.0.0.1",
            33060 + at,
            f"{node} {self.generation}",
            keeps=self.keepers is None or node in self.keepers,
        )

    # -- what happens to it

    def elect(self, node: str) -> None:
        """Somebody makes this node the source of all others, by hand."""
        for name, server in self.servers.items():
            server.is_replica, server.follows = name != node, node
            server.variables["super_read_only"] = "OFF" if name == node else "ON"

    def crash(self, node: str) -> None:
        """kill -9 of a server; replicas lose their source."""
        followers = [each for each in self.servers.values() if each.is_replica and each.follows == node]
        self.servers[node].crash()
        for server in followers:
            server.source_went()

    def restart(self, node: str) -> None:
        """A server dies and is back at once."""
        self.crash(node)
        self.servers[node].boot()

    def commit(self, seconds: float, clients: int) -> tuple[int, float]:
        """What a load does meanwhile: commits and their latency in ms."""
        primary = self.primary
        if not primary.running:
            return 0, 0.0
        waits = primary.enabled and primary.operational
        times = self.acknowledging_s()
        if waits and len(times) < primary.required:
            primary.load_waits_from_s = primary.load_waits_from_s or now_s()
            return 0, 0.0
        primary.load_waits_from_s = None
        latency_ms = LOCAL_MS + (times[primary.required - 1] * 1000 if waits else 0.0)
        exact = clients * seconds * 1000 / latency_ms + self._part_of_a_commit
        count = int(exact)
        self._part_of_a_commit = exact - count
        primary.commits += count
        primary.counters["yes_tx" if waits else "no_tx"] += count if primary.enabled else 0
        return count, latency_ms

    # -- apps

    def outside(self) -> Outside:
        """The adapters of one app, a process of its own."""
        self.reached.add(self)
        pid = next(self._pids)

        def sql(node: NodeAddress, credentials: Credentials) -> FakeSql:
            assert credentials == self.credentials, "the passwords of a stack that is gone"
            connection = FakeSql(self.servers[node.name], str(node.address))
            self.sqls.append(connection)
            return connection

        def load(report: Reporter) -> FakeLoadProcess:
            process = FakeLoadProcess(self.commit, self.changing, report)
            process.start_failure, self.load_failure = self.load_failure, None
            self.loads.append(process)
            return process

        recorder, provider = self.recorder, FakeProvider(self)
        record = None if recorder is None else lambda: recorder
        return Outside(
            provider,
            sql,
            lambda node: FakeAgent(self.sidecars[node], pid),
            load,
            VirtualClock(),
            record,
            self.journals,
            snapshots=provider,
            client_logs=self.client_logs,
        )

    def session(self, holder: str = "tui", **options: Any) -> Session:
        """An app's session, as a process of its own."""
        session = Session(self.outside(), SessionOptions(holder=holder, **options))
        session.turns.actor = replace(session.turns.actor, pid=next(self._pids))
        return session

    @asynccontextmanager
    async def apart(self, holder: str, **options: Any) -> AsyncIterator[Session]:
        """A session that has reached nothing yet, disconnected at the end."""
        session = self.session(holder, **options)
        try:
            yield session
        finally:
            await session.disconnect()

    @asynccontextmanager
    async def attached(self, holder: str = "set", **options: Any) -> AsyncIterator[Session]:
        """A session on the running stack."""
        async with self.apart(holder, **options) as session:
            await session.attach()
            yield session

    @asynccontextmanager
    async def brought_up(self, **options: Any) -> AsyncIterator[Session]:
        """A session that has created or repaired the stack."""
        async with self.apart("up", **options) as session:
            await session.up(lambda *_: None)
            yield session

    @asynccontextmanager
    async def started(self, holder: str = "tui", **options: Any) -> AsyncIterator[Session]:
        """A session that drives the load and watches, closed at the end."""
        session = self.session(holder, **options)
        try:
            await session.start(lambda *_: None)
            yield session
        finally:
            await session.close()

    # -- what is left

    def open_connections(self) -> int:
        """Sessions that any server still has."""
        return sum(len(server.sessions) for server in self.servers.values())

    def open_bridges(self) -> int:
        """Bridges into sidecars."""
        return sum(len(sidecar._bridges) for sidecar in self.sidecars.values())

    def running_loads(self) -> int:
        """Processes of loads."""
        return sum(load.running for load in self.loads)

    def left(self) -> tuple[list[str], int, int, int]:
        """Tasks, connections, bridges and loads that are there."""
        return tasks_left(), self.open_connections(), self.open_bridges(), self.running_loads()


def tasks_left() -> list[str]:
    """Tasks of the engine that still run, besides the caller's own."""
    own = asyncio.current_task()
    return [
        task.get_name()
        for task in asyncio.all_tasks()
        if task is not own and not task.get_name().startswith(_OUTSIDERS)
    ]


@dataclass
class FakeProcess:
    """`ports.ServerProcess` over the world."""

    _world: World
    _node: str

    @property
    def _server(self) -> FakeServer:
        return self._world.servers[self._node]

    async def kill(self) -> None:
        """See `ports.ServerProcess`."""
        await sleep(DOCKER_S)
        self._world.crash(self._node)

    stop = kill

    async def stored_view(self) -> int | None:
        return None

    async def lose_unsynced(self, mode: str) -> tuple[str, ...]:
        """See `ports.ServerProcess`."""
        await sleep(DOCKER_S)
        if self._server.running:
            raise StackUnavailable("the server still runs")
        self._world.power_cuts.append((self._node, mode))
        return ("binlog.000001 512 bytes",)

    async def pause(self) -> None:
        """See `ports.ServerProcess`."""
        raise StackUnavailable("no server of this world can be frozen")

    async def start(self) -> None:
        """See `ports.ServerProcess`."""
        await sleep(DOCKER_S)
        if not self._server.running:
            self._server.boot()

    async def log(self) -> Sequence[tuple[float, str]]:
        """See `ports.ServerProcess`."""
        return [(float(number), line) for number, line in enumerate(self._world.logs.get(self._node, ()))]

    async def cpu(self) -> CpuUsed | None:
        """See `ports.ServerProcess`: CPU_A_COMMIT_S for each of the source's commits, on each node."""
        await sleep(DOCKER_S)
        if not self._server.running:
            raise StackUnavailable("the server has ended")
        return CpuUsed(str(self._server.started_s), CPU_A_COMMIT_S * self._world.primary.commits)


class FakeProvider:
    """`ports.Provider` and `ports.Snapshots` over the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.name = "default"
        self.abilities = frozenset(Ability)

    async def nodes(self) -> list[NodeAddress]:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        return [*map(self._world.address, self._world.node_names)] if self._world.exists else []

    async def up(self, options: UpOptions, report: Reporter) -> bool:
        """See `ports.Provider`."""
        world = self._world
        failure, world.stack_failure = world.stack_failure, None
        if failure is not None:
            raise failure
        is_new = not world.exists
        if is_new:
            report("creating", 0.5)
            await sleep(CREATING_S)
            world.exists = True
            world._make()
        else:
            await sleep(DOCKER_S)
            while options.replicas is not None and len(world.node_names) <= options.replicas:
                world.grow()
        for sidecar in world.sidecars.values():
            if not sidecar.running:
                sidecar.boot()
        for server in world.servers.values():
            if is_new or not server.running:
                server.boot()
                server.starting = world.servers_stay_away
        return is_new

    async def shrink(self, replicas: int) -> None:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        self._world.shrink(replicas)

    async def keep_roles(self, roles: BootRoles) -> None:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        self._world.boot_roles = roles

    async def down(self, report: Reporter | None = None) -> int:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        self._world.removals += 1
        existed, self._world.exists = self._world.exists, False
        return 5 if existed else 0

    async def hosts(self) -> Sequence[HostView]:
        """See `ports.Provider`."""
        return ()

    async def credentials(self) -> Credentials:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        return self._world.credentials

    async def server_age_s(self, node: str, *, ended: bool = False) -> float | None:
        """See `ports.Provider`."""
        await sleep(DOCKER_S)
        server = self._world.servers[node]
        return now_s() - server.started_s if server.running or ended else None

    def server_process(self, node: str) -> ServerProcess:
        """See `ports.Provider`."""
        return FakeProcess(self._world, node)

    def server_log(self, node: str) -> str:
        """See `ports.Provider`."""
        return f"log {node}"

    async def save_data(self) -> tuple[str, int]:
        """See `ports.Snapshots`."""
        name = f"copy {len(self._world.copies) + 1}"
        self._world.copies[name] = {node: not each.running for node, each in self._world.servers.items()}
        return name, 100

    async def restore_data(self, copy: str, mark: str) -> None:
        """See `ports.Snapshots`."""
        assert not any(server.running for server in self._world.servers.values())
        self._world.restored[mark] = copy

    async def was_restored(self, mark: str) -> bool:
        """See `ports.Snapshots`."""
        return mark in self._world.restored

    async def keep_data(self, copies: Collection[str]) -> None:
        """See `ports.Snapshots`."""
        self._world.copies = {name: self._world.copies[name] for name in copies}

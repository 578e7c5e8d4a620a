"""Stacks as Docker objects: `ports.Provider` over the SDK, with a client for each host.

A stack is on this machine's daemon, or its nodes are on the hosts of one swarm: then an attachable overlay is
its network, and each host has the sidecars and servers of its nodes and a tools volume of its own. What all
apps share - requests, lease, turn - is kept by the sidecars of the first node's host.

Laws: whatever is there is taken as found by label and repaired; what a call began and could not finish is
taken down again. A host that is away never hides the others. The SDK blocks, so every call runs in a thread.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replexplorer.adapters import client_logs, secrets
from replexplorer.adapters.docker import execs, hosts, inventory, snapshots
from replexplorer.adapters.docker.client import client, spoken
from replexplorer.adapters.docker.hosts import Daemons, Placement
from replexplorer.adapters.docker.process import ServerContainer
from replexplorer.core.errors import (
    MissingPiece,
    ReplexplorerError,
    StackUnavailable,
    TakenAway,
    UsageError,
)
from replexplorer.core.role_change import BootRoles
from replexplorer.core.topology import in_order, node_names
from replexplorer.formats import paths
from replexplorer.ports import (
    Ability,
    Bridge,
    ClientLogs,
    Credentials,
    HostView,
    LoadTarget,
    NodeAddress,
    Reporter,
    ServerProcess,
    UpOptions,
)

if TYPE_CHECKING:
    from replexplorer.adapters.load import LoadPlace

ACCOUNTS_FILE: Final = "accounts"
"""The passwords' file in the stack's state directory."""

_CLOCK_WITHIN_S: Final = 5.0

T = TypeVar("T")


class DockerProvider:
    """One stack; made without touching Docker."""

    def __init__(
        self,
        name: str,
        placed: Placement | None = None,
        *,
        subnet: str | None = None,
        compose: Path | None = None,
    ) -> None:
        """`placed` says on which hosts its nodes are, or are to be; None: on this machine."""
        self.name = name
        self.abilities = frozenset(Ability)
        self._subnet = subnet
        self._compose = compose or paths.shipped("compose")
        self._daemons = Daemons(name, placed)

    @property
    def placement(self) -> Placement:
        """Where its nodes are; raises StackUnavailable for a stack on this machine."""
        if self._daemons.placement is None:
            raise StackUnavailable(f"stack {self.name} is on this machine", "run `replexplorer up`")
        return self._daemons.placement

    @property
    def accounts_file(self) -> Path:
        """Where this host keeps the stack's passwords."""
        return paths.stack_directory(self.name) / ACCOUNTS_FILE

    async def _call(self, work: Callable[[Daemons], T]) -> T:
        def run() -> T:
            with spoken():
                return work(self._daemons)

        return await asyncio.to_thread(run)

    async def on(self, node: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of the daemon that a node is on."""
        return await self._call(lambda daemons: daemons.on(node, work))

    async def at(self, host: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of one of its hosts; raises StackUnavailable."""
        if host not in self.placement.names:
            raise StackUnavailable(
                f"the host {host} is not part of stack {self.name}", "start the load again"
            )
        return await self._call(lambda daemons: daemons.ask(host, work))

    async def nodes(self) -> Sequence[NodeAddress]:
        """The nodes in order; empty when there is no such stack."""

        def work(daemons: Daemons) -> list[NodeAddress]:
            found = daemons.each(lambda host, client: inventory.containers(client, self.name))
            containers = [each for some in found.values() for each in some]
            nodes = inventory.addresses(containers)
            if daemons.placement is None or (not containers and len(found) == len(daemons.names)):
                return nodes
            return _placed(nodes, daemons.placement)

        return await self._call(work)

    async def up(self, options: UpOptions, report: Reporter) -> bool:
        """Make or repair the stack; answers whether this call created it.

        Raises UsageError for another image or fewer replicas than a live stack has, MissingPiece
        for what the machine lacks, StackUnavailable when the passwords are lost. A cancel takes
        down what this call created, and leaves a stack that was there. Of a stack on several hosts raises
        StackUnavailable naming a host that is away or in no swarm, UsageError for a node that is on another
        host.
        """
        placed = self._daemons.placement
        if placed is not None:
            for node, host in options.hosts.items():
                if placed.hosts.get(node, host) != host:
                    raise UsageError(
                        f"{node} of stack {self.name} is on {placed.hosts[node]}, not on {host}",
                        f"run `replexplorer down --stack {self.name}` first",
                    )
            self._daemons.placement = replace(placed, hosts={**placed.hosts, **options.hosts})
        cancelled = threading.Event()
        say = _from_thread(report, cancelled)

        def work(daemons: Daemons) -> bool:
            from docker.errors import ImageNotFound, NotFound

            from replexplorer.adapters.docker.build import Builder

            with self._lock(say):
                try:
                    return Builder(daemons, self._compose, self.accounts_file, self._subnet, say).up(options)
                except NotFound as error:
                    if isinstance(error, ImageNotFound):
                        raise
                    raise TakenAway(self.name) from None

        task = asyncio.ensure_future(self._call(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled.set()
            with suppress(Exception):
                await task
            raise

    async def shrink(self, replicas: int) -> None:
        """Remove the replicas behind the first n, with their data."""

        kept = node_names(replicas)

        def work(daemons: Daemons) -> None:
            with self._lock(lambda *_: None):
                daemons.every(lambda host, client: inventory.remove_nodes(client, self.name, kept))
                if daemons.placement is not None:
                    on = {node: host for node, host in daemons.placement.hosts.items() if node in kept}
                    daemons.note(hosts=on)

        await self._call(work)

    async def keep_roles(self, roles: BootRoles) -> None:
        """As a file on the tools volume of each host, which start-mysqld reads at each start; it is put there
        by the daemon, so no container has to run. A host that is away gets it when `up` finds it again. Each
        server gets the CPU weight of its role."""

        def put(host: str, client: Any) -> None:
            from replexplorer.adapters.docker.build import put_roles, weigh_servers

            found = inventory.containers(client, self.name)
            sidecars = [each for each in found if each.role == "sidecar"]
            if not sidecars:
                raise StackUnavailable(f"no such stack: {self.name}", "run `replexplorer up`")
            put_roles(client, sidecars[0].id, roles.text)
            weigh_servers(client, found, roles.source)

        def work(daemons: Daemons) -> None:
            daemons.note(roles=roles.text)
            daemons.each(put)

        await self._call(work)

    async def save_data(self) -> tuple[str, int]:
        """See `ports.Snapshots`."""
        return await self._alone(lambda client: snapshots.save(client, self.name))

    async def restore_data(self, copy: str, mark: str) -> None:
        """See `ports.Snapshots`."""
        await self._alone(lambda client: snapshots.restore(client, self.name, copy, mark))

    async def was_restored(self, mark: str) -> bool:
        """See `ports.Snapshots`."""
        return await self._alone(lambda client: snapshots.was_restored(client, self.name, mark))

    async def keep_data(self, copies: Collection[str]) -> None:
        """See `ports.Snapshots`."""
        await self._alone(lambda client: snapshots.keep(client, self.name, copies))

    async def _alone(self, work: Callable[[Any], T]) -> T:
        """Do work on this machine while no `up` or `down` works on the stack."""

        def run(daemons: Daemons) -> T:
            with self._lock(lambda *_: None):
                return daemons.ask(hosts.HERE, work)

        return await self._call(run)

    async def down(self, report: Reporter | None = None) -> int:
        """Remove all that carries this stack's label; answers how many things went. Raises StackUnavailable
        naming the hosts that cannot be reached: all are still known then, and the network goes with the last
        of them."""
        say = _from_thread(report or (lambda *_: None))

        def work(daemons: Daemons) -> int:
            with self._lock(say):
                count, left = inventory.remove_everywhere(daemons, self.name)
                if left:
                    raise StackUnavailable(
                        f"removed {count} containers, networks and volumes of stack {self.name}; still there,"
                        f" because the host is away: {'; '.join(map(self.placement.words, left))}",
                        f"run `replexplorer down --stack {self.name}` again when it is back",
                    )
                if daemons.placement is not None:
                    hosts.forget(self.name)
                secrets.forget(self.accounts_file)
                client_logs.forget(paths.ledgers_directory(self.name))
                return count

        return await self._call(work)

    async def hosts(self) -> Sequence[HostView]:
        """Each host, asked now, its clock by a sidecar there; none of a stack on this machine."""
        daemons = self._daemons
        if daemons.placement is None:
            return ()
        infos = await self._call(lambda each: each.each(lambda host, client: client.info()))
        return await asyncio.gather(*(self._view(host, infos.get(host)) for host in daemons.names))

    async def _view(self, host: str, info: Mapping[str, Any] | None) -> HostView:
        placed = self.placement
        view = HostView(host, placed.nodes_on(host), keeps=host == placed.names[0])
        if info is None:
            return replace(view, fault=self._daemons.away.get(host, "it does not answer"))
        view = replace(view, manages=bool(info.get("Swarm", {}).get("ControlAvailable")))
        with suppress(ReplexplorerError, TimeoutError):
            async with asyncio.timeout(_CLOCK_WITHIN_S):
                clock = await self.clock(host)
            return replace(view, clock_ms=clock.ahead_ms, clock_within_ms=clock.within_ms)
        return view

    async def clock(self, host: str) -> execs.ClockDifference:
        """The clocks of a host, by the first of its sidecars that runs; raises StackUnavailable."""
        failure: StackUnavailable | None = None
        for node in self.placement.nodes_on(host):
            try:
                return await execs.clock(await self._in_sidecar(node, execs.CLOCK_COMMAND), host)
            except StackUnavailable as error:
                failure = error
        raise failure or StackUnavailable(f"the host {host} has no node", "run `replexplorer up`")

    async def credentials(self) -> Credentials:
        """The stack's accounts; raises StackUnavailable when there is no stack, or its passwords are lost."""
        placed = self._daemons.placement
        network = placed.network if placed is not None else await self.on("", self._network)
        kept = secrets.read(self.accounts_file)
        if kept is None or kept.network != network:
            raise StackUnavailable(
                f"stack {self.name} found, cannot log in: its passwords are lost or another user's",
                f"run `replexplorer down --stack {self.name}`",
            )
        return kept.credentials

    def _network(self, client: Any) -> str:
        found = inventory.take(client, self.name)
        if not found.containers:
            raise StackUnavailable(f"no such stack: {self.name}", "run `replexplorer up`")
        return found.identity

    async def server_age_s(self, node: str, *, ended: bool = False) -> float | None:
        """See `ports.Provider`."""
        return await self.on(
            node, lambda client: inventory.server_age_s(client, self.name, node, ended=ended)
        )

    def server_process(self, node: str) -> ServerProcess:
        """The container that the node's mysqld is the first process of."""
        return ServerContainer(self, node)

    def server_log(self, node: str) -> str:
        """Docker's own command for it, by label: a container may have any name."""
        labels = f"--filter label={inventory.STACK}={self.name} --filter label={inventory.NODE}={node}"
        host = "" if self._daemons.placement is None else self._daemons.placement.hosts.get(node, "")
        flag = f" -H {host}" if "://" in host else f" --context {host}" if host else ""
        docker = f"docker{flag}"
        return f"{docker} logs $({docker} ps -aq {labels} --filter label={inventory.ROLE}=mysqld)"

    async def open_bridge(self, node: str) -> Bridge:
        """A long-lived exec into that node's sidecar; raises StackUnavailable when it is down."""
        begun = await self._in_sidecar(node, execs.BRIDGE_COMMAND)
        return await execs.DockerBridge.start(begun, f"the sidecar of {node}")

    async def _in_sidecar(self, node: str, command: Sequence[str]) -> execs.Exec:
        def create(client: Any) -> execs.Exec:
            sidecar = inventory.container(client, self.name, node, "sidecar")
            if sidecar is None or not sidecar.running:
                raise StackUnavailable(f"the sidecar of {node} is down", "run `replexplorer up`")
            return execs.Exec.create(client, sidecar.id, command)

        return await self.on(node, create)

    async def dial(self, node: str) -> socket.socket:
        """A connection to a node's server, through an exec in its sidecar; raises StackUnavailable."""
        return await execs.dial(await self._in_sidecar(node, execs.relay_command(inventory.MYSQL_PORT)), node)

    def host_at(self, address: str, nodes: Sequence[NodeAddress]) -> str:
        """The host of the node that has this address; raises StackUnavailable."""
        for node in nodes:
            if node.address == address and node.machine is not None:
                return node.machine
        raise StackUnavailable(
            f"no node of stack {self.name} has the address {address}", "run `replexplorer up`"
        )

    @property
    def load_place(self) -> Callable[[LoadTarget], Awaitable[LoadPlace]] | None:
        """Where its load runs, on the host of the source; None: on this machine."""
        if self._daemons.placement is None:
            return None
        from replexplorer.adapters.docker.load import beside

        return partial(beside, self)

    @cached_property
    def client_logs(self) -> ClientLogs:
        """Where the clients of its `ledger` loads note what they do: on the disk of the load's host."""
        directory = paths.ledgers_directory(self.name)
        if self._daemons.placement is None:
            return client_logs.FileClientLogs(directory)
        from replexplorer.adapters.docker.load import FarClientLogs

        return FarClientLogs(directory, self)

    async def close(self) -> None:
        """Close the connections to the daemons; a later call opens them again."""
        await asyncio.to_thread(self._daemons.close)

    @contextmanager
    def _lock(self, report: Reporter) -> Iterator[None]:
        """One `up` or `down` a stack at a time on this host."""
        file = paths.state_directory() / "stacks" / f".{self.name}.lock"
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            stream = os.fdopen(os.open(file, flags, 0o600), "w")
        except OSError as error:
            raise MissingPiece(f"cannot write {file}", error.strerror or str(error)) from None
        with stream:
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    # Shown once and called each time: it raises where the work is cancelled.
                    report(f"another replexplorer works on stack {self.name}: waiting")
                    time.sleep(0.1)
            yield


def _placed(found: Sequence[NodeAddress], placed: Placement) -> list[NodeAddress]:
    """All nodes of the stack with their hosts; those of a host that is away do not run."""
    by_name = {node.name: node for node in found}
    nodes = []
    for name in in_order({*by_name, *placed.hosts}):
        host = placed.hosts.get(name)
        node = by_name.get(name) or NodeAddress(name, False, False, None, inventory.MYSQL_PORT, None, None)
        system = placed.system or node.system
        nodes.append(replace(node, machine=host, keeps=host == placed.names[0], system=system))
    return nodes


def _from_thread(report: Reporter, cancelled: threading.Event | None = None) -> Reporter:
    """Reports from another thread, each said once; must be called on the loop. Long work reports often, so
    this is where a cancel reaches it."""
    loop, said = asyncio.get_running_loop(), ""

    def say(text: str, done: float | None = None) -> None:
        nonlocal said
        if cancelled is not None and cancelled.is_set():
            raise StackUnavailable("interrupted", "try again")
        if text != said:
            said = text
            loop.call_soon_threadsafe(report, text, done)

    return say


async def stack_names() -> list[str]:
    """Every stack of which anything is there on this daemon."""

    def run() -> list[str]:
        with client() as daemon:
            return inventory.stack_names(daemon)

    return await asyncio.to_thread(run)

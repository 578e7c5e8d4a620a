"""A stack whose nodes are on several Docker hosts of one swarm: `DockerProvider` over a client a host.

An attachable overlay is its network; each host has the sidecars and servers of its nodes and a tools volume
of its own. What all apps share - requests, lease, turn - is kept by the sidecars of one host, that of the
first node: the volumes of the others know nothing of it.

Law: a host that is away never hides the others. What it keeps from being done is said with its name.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replexplorer.adapters import secrets
from replexplorer.adapters.agent import BridgedAgent
from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.docker import inventory, placement, tunnel
from replexplorer.adapters.docker.bridge import STDOUT, Exec, frames
from replexplorer.adapters.docker.daemons import Daemons
from replexplorer.adapters.docker.far_logs import FarClientLogs
from replexplorer.adapters.docker.kept_copy import KeptCopy, check_keeper
from replexplorer.adapters.docker.load_host import LoadHost, file_in
from replexplorer.adapters.docker.placement import Placement
from replexplorer.adapters.docker.process import Run, ServerContainer
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.adapters.docker.removal import remove_other_nodes, remove_stack
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.topology import in_order
from replexplorer.formats import paths
from replexplorer.ports import (
    Credentials,
    HostView,
    LoadProcess,
    NodeAddress,
    Report,
    ServerProcess,
    UpOptions,
)

if TYPE_CHECKING:
    from replexplorer.adapters.docker.build import Builder

T = TypeVar("T")

_MYSQL_PORT: Final = 3306
_CLOCK_WITHIN_S: Final = 5.0
_IN_USE_S: Final = 20.0
"""How long the swarm may take to learn that a network is not in use any more."""
_AGAIN_S: Final = 0.2
_READ: Final = (0, 1)
"""How `cat` ends that has written all of a file, or found none: its process never noted anything."""


class SwarmProvider(DockerProvider):
    """One stack on the hosts of a swarm; made without touching Docker."""

    def __init__(
        self,
        name: str,
        placed: Placement,
        *,
        subnet: str | None = None,
        compose: Path | None = None,
        slow: Callable[[str], None] | None = None,
    ) -> None:
        """`placed` says where its nodes are, or are to be."""
        super().__init__(name, subnet=subnet, compose=compose, slow=slow)
        self._daemons = Daemons(placed)

    @property
    def placement(self) -> Placement:
        """Where its nodes are."""
        return self._daemons.placement

    def _connected(self) -> Any:
        self._client = self._daemons  # what a busy daemon is waited for is asked of it
        return self._daemons

    async def _call_at(self, node: str, work: Callable[[Any], T]) -> T:
        return await self._call(lambda daemons: daemons.on(node, work))

    def _nodes(self, daemons: Any) -> list[NodeAddress]:
        noted = placement.read(self.name)
        if noted is not None:  # another program may have told another host to keep what is requested
            daemons.placement = replace(daemons.placement, keeper=noted.keeper, given_up=noted.given_up)
        found = daemons.each(lambda host, client: inventory.containers(client, self.name))
        containers = [each for some in found.values() for each in some]
        inventory.refuse_other_names(self.name, containers)
        if not containers and len(found) == len(self.placement.names):
            return []
        return self._placed(inventory.addresses(containers))

    def _placed(self, found: Sequence[NodeAddress]) -> list[NodeAddress]:
        """All nodes of the stack with their hosts; those of a host that is away do not run."""
        placed, by_name = self.placement, {node.name: node for node in found}
        keeper = placed.names[0]
        nodes = []
        for name in in_order({*by_name, *placed.hosts}):
            host = placed.hosts.get(name)
            node = by_name.get(name) or NodeAddress(name, False, False, None, _MYSQL_PORT, None, None)
            system = placed.system or node.system
            nodes.append(replace(node, machine=host, keeps=host == keeper, system=system))
        return nodes

    def _builder(self, client: Any, report: Report, cancelled: threading.Event) -> Builder:
        from replexplorer.adapters.docker.swarm_build import SwarmBuilder

        return SwarmBuilder(
            client, self.name, self._compose, self.accounts_file, self._subnet, report, cancelled
        )

    async def up(self, options: UpOptions, report: Report) -> bool:
        """See `ports.Provider`; raises StackUnavailable naming a host that is away or in no swarm, UsageError
        for a node that is on another host."""
        for node, host in options.hosts.items():
            if self.placement.hosts.get(node, host) != host:
                raise UsageError(
                    f"{node} of stack {self.name} is on {self.placement.hosts[node]}, not on {host}",
                    f"`replexplorer down --stack {self.name}` first",
                )
        self._daemons.placement = replace(self.placement, hosts={**self.placement.hosts, **options.hosts})
        return await super().up(options, report)

    def _is_outdated(self, client: Any) -> bool:
        answers = client.each(lambda host, each: super(SwarmProvider, self)._is_outdated(each))
        return any(answers.values())

    def server_process(self, node: str) -> ServerProcess:
        """The container of the node's mysqld; of a host that was given up it counts as ended."""
        return _OnAHost(partial(self._call_at, node), self.name, node, partial(self._is_given_up, node))

    def _is_given_up(self, node: str) -> bool:
        host = self.placement.hosts.get(node)
        return host is not None and host == self.placement.given_up and host in self._daemons.away

    def _keep_nodes(self, client: Any, kept: Sequence[str]) -> None:
        client.every(lambda host, each: remove_other_nodes(each, self.name, kept))
        hosts = {node: host for node, host in self.placement.hosts.items() if node in kept}
        self._note(replace(self.placement, hosts=hosts))

    def _keep_roles(self, client: Any, text: str) -> None:
        """On the tools volume of each host; a host that is away gets it when `up` finds it again."""
        self._note(replace(self.placement, roles=text))
        client.each(lambda host, each: super(SwarmProvider, self)._keep_roles(each, text))

    def _note(self, placed: Placement) -> None:
        self._daemons.placement = placed
        placement.write(self.name, placed)

    def _remove(self, client: Any) -> int:
        """Remove what can be reached; raises StackUnavailable naming the hosts that cannot. All hosts are
        still known then: the network goes with the last of them."""
        done = client.each(lambda host, each: remove_stack(each, self.name, networks=False))
        count: int = sum(done.values())
        left = [host for host in self.placement.names if host not in done]
        count += remove_overlay(client, self.name, patient=not left)
        if not left:
            self._forget()
            return count
        words = "; ".join(self.placement.words(host) for host in left)
        raise StackUnavailable(
            f"removed {count} containers, networks and volumes of stack {self.name}; still there, because"
            f" the host is away: {words}",
            f"`replexplorer down --stack {self.name}` again when it is back",
        )

    def _forget(self) -> None:
        super()._forget()
        self.witness.forget()
        placement.forget(self.name)

    def _credentials(self, client: Any) -> Credentials:
        accounts = secrets.read(self.accounts_file)
        if accounts is not None and accounts.origin == self.placement.network:
            return accounts.credentials()
        raise StackUnavailable(
            f"stack {self.name} found, cannot log in: its passwords are lost or another user's",
            f"replexplorer down --stack {self.name}",
        )

    def server_log(self, node: str) -> str:
        """As of a stack on one host, asked of the node's own."""
        host = self.placement.hosts.get(node, "")
        flag = f"-H {host}" if "://" in host else f"--context {host}"
        return super().server_log(node).replace("docker ", f"docker {flag} ")

    async def hosts(self) -> Sequence[HostView]:
        """Each host, asked now, its clock by a sidecar there."""
        daemons = self._daemons
        infos = await self._call(lambda each: each.each(lambda host, client: client.info()))
        return await asyncio.gather(*(self._view(host, infos.get(host)) for host in daemons.placement.names))

    async def _view(self, host: str, info: Mapping[str, Any] | None) -> HostView:
        placed = self.placement
        view = HostView(host, placed.nodes_on(host), keeps=host == placed.names[0])
        if info is None:
            return replace(view, fault=self._daemons.away.get(host, "it does not answer"))
        manages = bool(info.get("Swarm", {}).get("ControlAvailable"))
        with suppress(ReplexplorerError, TimeoutError):
            async with asyncio.timeout(_CLOCK_WITHIN_S):
                clock = await self.clock(host)
            return replace(view, manages=manages, clock_ms=clock.ahead_ms, clock_within_ms=clock.within_ms)
        return replace(view, manages=manages)

    async def clock(self, host: str) -> tunnel.ClockDifference:
        """The clocks of a host, by the first of its sidecars that runs; raises StackUnavailable."""
        failure: StackUnavailable | None = None
        for node in self.placement.nodes_on(host):
            try:
                return await tunnel.clock(await self._in_sidecar(node, tunnel.CLOCK_COMMAND), host)
            except StackUnavailable as error:
                failure = error
        raise failure or StackUnavailable(f"the host {host} has no node", "replexplorer up")

    async def dial(self, node: str) -> socket.socket:
        """A connection to a node's server, through an exec in its sidecar; raises StackUnavailable."""
        return await tunnel.dial(await self._in_sidecar(node, tunnel.relay_command(_MYSQL_PORT)), node)

    def host_at(self, address: str, nodes: Sequence[NodeAddress]) -> str:
        """The host of the node that has this address; raises StackUnavailable."""
        for node in nodes:
            if node.address == address and node.machine is not None:
                return node.machine
        raise StackUnavailable(f"no node of stack {self.name} has the address {address}", "replexplorer up")

    async def load_host(self, host: str, report: Report | None) -> LoadHost:
        """What the load runs in on a host, made when it is not there; raises ReplexplorerError."""
        loop = asyncio.get_running_loop()

        def say(text: str, done: float | None) -> None:
            if report is not None:
                loop.call_soon_threadsafe(report, text, done)

        node = self.placement.nodes_on(host)[0]
        return await self._call_at(node, lambda client: LoadHost.ready(client, self.name, host, say))

    @property
    def load(self) -> Callable[[Report], LoadProcess] | None:
        """A load that runs on the host of the source."""
        from replexplorer.adapters.docker.hosted_load import HostedLoad

        return partial(HostedLoad, self)

    @cached_property
    def witness(self) -> KeptCopy:
        """What keeps a copy here of what is requested."""
        return KeptCopy(self.name)

    async def keep_on(self, host: str) -> None:
        """Let another host keep what is requested, while the one that does is away. Raises UsageError for a
        host that is none of the stack's, StackUnavailable where it cannot be, or need not."""
        await self._call(lambda daemons: daemons.each(lambda _, client: client.ping()))
        check_keeper(self.placement, host, self._daemons.away)
        agent = BridgedAgent(self.placement.nodes_on(host)[0], self.open_bridge)
        try:
            await self.witness.hand_over(host, agent)
        finally:
            await agent.close()
        self._daemons.placement = placement.read(self.name) or self.placement

    @cached_property
    def client_logs(self) -> FarClientLogs:
        """Those of the load's processes, which are on the hosts' disks."""
        return FarClientLogs(FileClientLogs(paths.ledgers_directory(self.name)), self._in_load)

    async def _in_load(self, host: str, path: str) -> AsyncIterator[bytes]:
        """What a file in the load's container on a host holds; nothing where there is none."""
        if host not in self.placement.names:
            raise StackUnavailable(f"the host {host} is none of stack {self.name}", "start the load again")
        node = self.placement.nodes_on(host)[0]
        begun = await self._call_at(node, lambda client: file_in(client, self.name, path))
        reader, writer = await begun.start(f"the load's container on {host}")
        try:
            async for stream, content in frames(reader):
                if stream == STDOUT:
                    yield content
        finally:
            writer.close()
        ended = await self._call_at(node, lambda client: client.exec_inspect(begun.id))
        if ended["Running"] or ended["ExitCode"] not in _READ:
            raise StackUnavailable(f"the client log {path} on {host} cannot be read", "try again")

    async def start_in(self, place: LoadHost) -> Exec:
        """A load process that is not started yet."""
        node = self.placement.nodes_on(place.host)[0]
        return await self._call_at(node, place.process)

    async def close(self) -> None:
        """Close the connections to the daemons; a later call opens them again."""
        await asyncio.to_thread(self._daemons.close)


class _OnAHost(ServerContainer):
    """A server whose host may have been given up by its user."""

    def __init__(self, run: Run, stack: str, node: str, is_given_up: Callable[[], bool]) -> None:
        super().__init__(run, stack, node)
        self._is_given_up = is_given_up

    async def kill(self) -> None:
        """See `ports.ServerProcess`."""
        try:
            await super().kill()
        except StackUnavailable:
            if not self._is_given_up():
                raise


def remove_overlay(daemons: Daemons, stack: str, *, patient: bool) -> int:
    """Remove the stack's network through whichever host manages the swarm; answers how many went.

    The swarm learns a moment later that the last container has left it, so one that is in use is tried again
    if one is `patient`; what is in use by a host that is away stays.
    """
    label = {"label": f"{inventory.STACK}={stack}"}

    def remove(host: str, client: Any) -> int:
        from docker.errors import APIError, NotFound

        if not client.info().get("Swarm", {}).get("ControlAvailable"):
            return 0
        gone = 0
        for network in client.networks(filters=label):
            ends_s = time.monotonic() + (_IN_USE_S if patient else 0)
            while True:
                try:
                    client.remove_network(network["Id"])
                    gone += 1
                except NotFound:
                    pass
                except APIError:
                    if time.monotonic() < ends_s:
                        time.sleep(_AGAIN_S)
                        continue
                    if patient:
                        raise
                break
        return gone

    return sum(daemons.each(remove).values())

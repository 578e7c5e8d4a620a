"""The daemons of several hosts, each with a client that is opened when it is first needed.

Law: a host that does not answer costs nobody else anything: it is named, and the others are asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from replexplorer.adapters.docker.client import NoDaemon, connect, spoken
from replexplorer.adapters.docker.placement import Placement, address_of
from replexplorer.core.errors import StackUnavailable

AGAIN: Final = "start it, then `replexplorer up` repairs the stack"
_KEEPER_AGAIN: Final = (
    f"{AGAIN}; it keeps what is requested, so nothing can be changed until then, or until"
    " `replexplorer up --keep-on HOST`"
)

T = TypeVar("T")


class Daemons:
    """The clients of one stack's hosts; used from several threads."""

    def __init__(self, placement: Placement, opened: Callable[[str], Any] = connect) -> None:
        """`opened` makes a client for an address."""
        self.placement = placement
        self.away: dict[str, str] = {}
        """Why a host could not be asked when it was last tried, by host."""
        self._opened = opened
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def at(self, host: str) -> Any:
        """The client of a host; raises NoDaemon naming it when nothing answers there."""
        with self._lock:
            found = self._clients.get(host)
        if found is not None:
            return found
        with spoken():
            made = self._opened(address_of(host))
        with self._lock:
            kept = self._clients.setdefault(host, made)
        if kept is not made:
            made.close()
        return kept

    def of(self, node: str) -> Any:
        """The client of the host that a node is on; raises StackUnavailable naming it when it is away."""
        host = self.placement.hosts.get(node)
        if host is None:
            raise StackUnavailable(f"there is no {node} on any host of the stack", "replexplorer up")
        return self._ask(host, lambda client: client)

    def on(self, node: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of a node's host; raises StackUnavailable naming it when it is away."""
        host = self.placement.hosts.get(node)
        if host is None:
            raise StackUnavailable(f"there is no {node} on any host of the stack", "replexplorer up")
        return self._ask(host, work)

    def _ask(self, host: str, work: Callable[[Any], T]) -> T:
        try:
            with spoken():
                done = work(self.at(host))
        except NoDaemon as error:
            self._lose(host, error)
            raise self._unavailable(host) from None
        self.away.pop(host, None)
        return done

    def each(self, work: Callable[[str, Any], T]) -> dict[str, T]:
        """Do work on all hosts at once; what those answer that are there, the others are in `away`."""
        hosts = self.placement.names

        def one(host: str) -> tuple[str, T] | None:
            try:
                return host, self._ask(host, lambda client: work(host, client))
            except StackUnavailable:
                if host in self.away:
                    return None
                raise

        with ThreadPoolExecutor(len(hosts)) as pool:
            return dict(found for found in pool.map(one, hosts) if found is not None)

    def every(self, work: Callable[[str, Any], T]) -> dict[str, T]:
        """As `each`, of all hosts; raises StackUnavailable naming the one that is away."""
        found = self.each(work)
        for host in self.placement.names:
            if host not in found:
                raise self._unavailable(host)
        return found

    def _lose(self, host: str, error: NoDaemon) -> None:
        self.away[host] = error.message
        with self._lock:
            client = self._clients.pop(host, None)
        if client is not None:
            with suppress(Exception):
                client.close()

    def _unavailable(self, host: str) -> StackUnavailable:
        why = self.away.get(host, "it does not answer")
        keeps = host == self.placement.names[0]
        return StackUnavailable(
            f"the host {self.placement.words(host)} is away: {why}", _KEEPER_AGAIN if keeps else AGAIN
        )

    def longest(self) -> tuple[float, str] | None:
        """See `client.PatientClient.longest`, of all hosts."""
        with self._lock:
            clients = list(self._clients.values())
        waits = [
            wait for client in clients if (wait := getattr(client, "longest", lambda: None)()) is not None
        ]
        return max(waits, default=None)

    def close(self) -> None:
        """Close all clients; a later call opens them again."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()


def manager_of(infos: Mapping[str, Mapping[str, Any]], clients: Callable[[str], Any]) -> str:
    """The host through which the swarm is managed, of what each host's daemon says of itself (`docker info`).

    Raises StackUnavailable where one is in no swarm, none manages it, or they are in several.
    """
    for host, info in infos.items():
        if info.get("Swarm", {}).get("LocalNodeState") != "active":
            raise StackUnavailable(
                f"the host {host} is in no swarm",
                "`docker swarm init` on one host, and what it prints (`docker swarm join ...`) on the others",
            )
    manager = next((host for host, info in infos.items() if info["Swarm"].get("ControlAvailable")), None)
    if manager is None:
        raise StackUnavailable(
            "none of the hosts manages the swarm, which makes the network",
            "place a node on a manager, or `docker node promote` one of these",
        )
    members = {str(node["ID"]) for node in clients(manager).nodes()}
    for host, info in infos.items():
        if str(info["Swarm"].get("NodeID")) not in members:
            raise StackUnavailable(
                f"the hosts {manager} and {host} are in two swarms",
                "`docker swarm leave` and join one of them",
            )
    return manager

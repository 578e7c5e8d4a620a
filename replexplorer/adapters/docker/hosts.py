"""The hosts of a stack: which node is on which, and a client of each host's daemon.

Which host each node is on is kept in a file of the stack's state directory: every verb reads it, so that
another shell finds the hosts by the stack's name alone. Law: a host that does not answer costs nobody else
anything: it is named, and the others are asked. A stack that was placed on no host is on this machine's
daemon, and says what that one says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from replexplorer.adapters.docker.client import NoDaemon, connect, spoken
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.records import frozen
from replexplorer.core.topology import in_order, node_number
from replexplorer.formats import paths
from replexplorer.formats.files import keep_record, read_bytes

HERE: Final = ""
"""The host of a stack that was placed on none."""
_FILE: Final = "hosts.json"
_MOST_BYTES: Final = 1 << 16
_AGAIN: Final = "start it, then `replexplorer up` repairs the stack"

T = TypeVar("T")


@frozen
class Placement:
    """Where one stack's nodes are."""

    hosts: Mapping[str, str]
    """Node to host, as `up --on` was told; the first one keeps what all apps of the stack share."""
    network: str = ""
    """The overlay's id; empty until it is made."""
    system: str | None = None
    """What the stack is; None until it is made."""
    roles: str | None = None
    """What servers are when they start, for the hosts that could not be told; None: as they were made."""

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, the one that keeps what is shared first."""
        return tuple(dict.fromkeys(self.hosts[node] for node in in_order(self.hosts)))

    def nodes_on(self, host: str) -> tuple[str, ...]:
        """The nodes of a host in order."""
        return tuple(node for node in in_order(self.hosts) if self.hosts[node] == host)

    def words(self, host: str) -> str:
        """`unix:///run/docker.sock (db1, db3)`."""
        return f"{host} ({', '.join(self.nodes_on(host))})"


def asked(words: Iterable[str]) -> dict[str, str]:
    """Node to host of `NODE=HOST` words; raises UsageError for what is none, and for a node given twice."""
    found: dict[str, str] = {}
    for word in words:
        node, sign, host = word.partition("=")
        if not sign or not host.strip() or node_number(node) is None:
            raise UsageError(
                f"--on {word}", "write NODE=HOST, for example db1=unix:///run/docker.sock or db2=CONTEXT"
            )
        if node in found:
            raise UsageError(f"--on names {node} twice", "a node is on one host")
        found[node] = host.strip()
    return found


def checked(hosts: Mapping[str, str], nodes: Iterable[str]) -> dict[str, str]:
    """The hosts of all these nodes; raises UsageError where one has none, or where there is no such node."""
    wanted = list(nodes)
    for node in wanted:
        if node not in hosts:
            raise UsageError(f"{node} has no host", f"--on {node}=HOST as well")
    for node in hosts:
        if node not in wanted:
            raise UsageError(
                f"--on {node}=...: the stack has no {node}", f"its nodes are {', '.join(wanted)}"
            )
    return {node: hosts[node] for node in wanted}


def address_of(host: str) -> str:
    """Where a host's daemon listens, `unix://...` or `tcp://...`; a host is that, or a context's name.

    Raises UsageError for an unknown context, MissingPiece for what cannot be used from here.
    """
    address = host if "://" in host else _address_of_context(host)
    if not address.startswith(("unix://", "tcp://")):
        raise MissingPiece(
            f"no Docker host {host!r}: SSH and TLS are not supported",
            "use unix:///PATH, tcp://HOST:PORT, or a context's name; a socket elsewhere is forwarded by"
            " `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`",
        )
    return address


def _address_of_context(name: str) -> str:
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        context = ContextAPI.get_context(name)
    except (DockerException, OSError, ValueError) as error:
        raise UsageError(f"the Docker context {name!r} is broken ({error})", "docker context ls") from None
    if context is None:
        raise UsageError(
            f"no Docker context {name!r}", "run `docker context ls` to list them, or give unix:///PATH"
        )
    if getattr(context, "TLSConfig", None) is not None:
        return "tls://"
    found = str(context.Host or "unix:///var/run/docker.sock").removeprefix("http+")
    return found.replace("http://", "tcp://", 1)  # as the SDK writes what Docker's own command writes as tcp


def _file(stack: str) -> Path:
    return paths.stack_directory(stack) / _FILE


def read(stack: str) -> Placement | None:
    """Where a stack's nodes are; None of one that is on this machine alone, or is not there."""
    from pydantic import TypeAdapter

    try:
        placed = TypeAdapter(Placement).validate_json(read_bytes(_file(stack), _MOST_BYTES))
        if not placed.hosts or any(node_number(node) is None for node in placed.hosts):
            raise ValueError("no hosts of nodes")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise MissingPiece(
            f"cannot read which hosts stack {stack} is on, {_file(stack)} ({why})",
            "correct or remove the file",
        ) from None
    return placed


def write(stack: str, placement: Placement) -> None:
    """Keep it, mode 0600; raises MissingPiece when it cannot be written."""
    keep_record(_file(stack), asdict(placement))


def forget(stack: str) -> None:
    """The stack is on no hosts any more."""
    file = _file(stack)
    with suppress(OSError):
        file.unlink(missing_ok=True)
        file.parent.rmdir()


def stacks() -> list[str]:
    """The stacks of this user that are on named hosts."""
    directory = paths.stack_directory("any").parent
    return sorted(file.parent.name for file in directory.glob(f"*/{_FILE}"))


class Daemons:
    """The clients of one stack's hosts, each opened when it is first needed; used from several threads."""

    def __init__(
        self, stack: str, placement: Placement | None = None, opened: Callable[..., Any] = connect
    ) -> None:
        """`opened` makes a client for an address, or without one for this machine's daemon."""
        self.stack = stack
        self.placement = placement
        self.away: dict[str, str] = {}
        """Why a host could not be asked when it was last tried, by host."""
        self._opened = opened
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def note(self, **changes: Any) -> None:
        """Keep what became of a stack's placement; nothing of a stack on this machine."""
        if self.placement is not None:
            self.placement = replace(self.placement, **changes)
            write(self.stack, self.placement)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, the one that keeps what is shared first."""
        return (HERE,) if self.placement is None else self.placement.names

    def host_of(self, node: str) -> str:
        """The host that a node is on; raises StackUnavailable for a node that is on none."""
        host = HERE if self.placement is None else self.placement.hosts.get(node)
        if host is None:
            raise StackUnavailable(f"there is no {node} on any host of the stack", "run `replexplorer up`")
        return host

    def at(self, host: str) -> Any:
        """The client of a host; raises NoDaemon naming it when nothing answers there."""
        with self._lock:
            found = self._clients.get(host)
        if found is not None:
            return found
        with spoken():
            made = self._opened(address_of(host)) if host else self._opened()
        with self._lock:
            kept = self._clients.setdefault(host, made)
        if kept is not made:
            made.close()
        return kept

    def on(self, node: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of a node's host; raises StackUnavailable naming it when it is away."""
        return self.ask(self.host_of(node), work)

    def ask(self, host: str, work: Callable[[Any], T]) -> T:
        """Do work with the client of a host; raises StackUnavailable naming it when it is away."""
        try:
            with spoken():
                done = work(self.at(host))
        except NoDaemon as error:
            if host == HERE:
                raise
            self.away[host] = error.message
            with self._lock:
                client = self._clients.pop(host, None)
            if client is not None:
                with suppress(Exception):
                    client.close()
            raise self._unavailable(host) from None
        self.away.pop(host, None)
        return done

    def each(self, work: Callable[[str, Any], T]) -> dict[str, T]:
        """Do work on all hosts at once; what those answer that are there, the others are in `away`."""

        def one(host: str) -> tuple[str, T] | None:
            try:
                return host, self.ask(host, lambda client: work(host, client))
            except StackUnavailable:
                if host in self.away:
                    return None
                raise

        with ThreadPoolExecutor(len(self.names)) as pool:
            return dict(found for found in pool.map(one, self.names) if found is not None)

    def every(self, work: Callable[[str, Any], T]) -> dict[str, T]:
        """As `each`, of all hosts; raises StackUnavailable naming the one that is away."""
        found = self.each(work)
        for host in self.names:
            if host not in found:
                raise self._unavailable(host)
        return found

    def _unavailable(self, host: str) -> StackUnavailable:
        why = self.away.get(host, "it does not answer")
        words = host if self.placement is None else self.placement.words(host)
        keeps = "; it stores the requested values, so nothing can be changed until it is back"
        return StackUnavailable(
            f"the host {words} is away: {why}", f"{_AGAIN}{keeps if host == self.names[0] else ''}"
        )

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
                "run `docker swarm init` on one host, and its `docker swarm join ...` on the others",
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
                "run `docker swarm leave` and join one of them",
            )
    return manager

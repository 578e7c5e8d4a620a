"""Which host each node of a stack is on: kept in a file of the stack's state directory.

Every verb reads the file, so that another shell finds the hosts by the stack's name alone; containers and
volumes carry their host's name as a label for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.topology import in_order, node_number
from replexplorer.formats import paths
from replexplorer.formats.small_file import read_bytes
from replexplorer.formats.whole_file import keep_record

_FILE: Final = "hosts.json"
_MOST_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one stack's nodes are."""

    hosts: Mapping[str, str]
    """Node to host, as `up --on` was told; the first one keeps what all apps of the stack share, unless there
    is a `keeper`."""
    network: str = ""
    """The overlay's id; empty until it is made."""
    system: str | None = None
    """What the stack is; None until it is made."""
    roles: str | None = None
    """What servers are when they start, for the hosts that could not be told; None: as they were made."""

    keeper: str | None = None
    """The host that keeps it since the one of before was away."""
    given_up: str | None = None
    """The one of before, of which its user said so: its servers count as ended until it is there again."""

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, the one that keeps what is shared first."""
        hosts = dict.fromkeys(self.hosts[node] for node in in_order(self.hosts))
        return tuple(sorted(hosts, key=lambda host: host != self.keeper))

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
            raise UsageError(f"--on {word}", "NODE=HOST, as db1=unix:///run/docker.sock or db2=CONTEXT")
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

    Raises UsageError for an unknown context, MissingPiece for an address that cannot be used from here.
    """
    address = host if "://" in host else _address_of_context(host)
    scheme = address.partition("://")[0]
    if scheme == "ssh":
        place = address.partition("://")[2]
        raise MissingPiece(
            f"the Docker host {host}: SSH is not spoken here",
            f"forward its socket, `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock {place}`, and name"
            " unix:///tmp/docker.sock",
        )
    if scheme not in ("unix", "tcp"):
        raise UsageError(f"no Docker host {host!r}", "unix:///PATH, tcp://HOST:PORT, or a context's name")
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
            f"no Docker context {name!r}", "`docker context ls` lists them, or give unix:///PATH"
        )
    if getattr(context, "TLSConfig", None) is not None:
        raise MissingPiece(
            f"the Docker context {name!r} needs TLS, which is not spoken here",
            "forward its socket over ssh, and name unix:///PATH",
        )
    found = str(context.Host or "unix:///var/run/docker.sock").removeprefix("http+")
    return found.replace("http://", "tcp://", 1)  # as the SDK writes what Docker's own command writes as tcp


def _file(stack: str) -> Path:
    return paths.stack_directory(stack) / _FILE


def read(stack: str) -> Placement | None:
    """Where a stack's nodes are; None of one that is on this machine alone, or is not there."""
    try:
        content = json.loads(read_bytes(_file(stack), _MOST_BYTES))
        hosts = {str(node): str(host) for node, host in content["hosts"].items()}
        if not hosts or any(node_number(node) is None for node in hosts):
            raise ValueError("no hosts of nodes")
        network = str(content.get("network", ""))
        return Placement(
            hosts,
            network,
            content.get("system"),
            content.get("roles"),
            content.get("keeper"),
            content.get("given_up"),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MissingPiece(
            f"cannot read which hosts stack {stack} is on, {_file(stack)} ({error})",
            "correct or remove the file",
        ) from None


def write(stack: str, placement: Placement) -> None:
    """Keep it, mode 0600; raises MissingPiece when it cannot be written."""
    content = {
        "hosts": dict(placement.hosts),
        "network": placement.network,
        "system": placement.system,
        "roles": placement.roles,
        "keeper": placement.keeper,
        "given_up": placement.given_up,
    }
    keep_record(_file(stack), content)


def forget(stack: str) -> None:
    """The stack is on no hosts any more."""
    file = _file(stack)
    with suppress(OSError):
        file.unlink(missing_ok=True)
    with suppress(OSError):
        file.parent.rmdir()


def stacks() -> list[str]:
    """The stacks of this user that are on named hosts."""
    directory = paths.stack_directory("any").parent
    return sorted(file.parent.name for file in directory.glob(f"*/{_FILE}"))

"""What is there of a stack, found by label and never by name, and how it is taken away."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from replexplorer.adapters.docker.hosts import Daemons
from replexplorer.core.machine import ServerLimits
from replexplorer.core.records import frozen
from replexplorer.core.system import DEFAULT
from replexplorer.core.topology import in_order, node_name, node_number
from replexplorer.ports import NodeAddress

LABEL: Final = "dev.replexplorer."
"""The prefix of all our labels."""
STACK: Final = f"{LABEL}stack"
VERSION: Final = f"{LABEL}version"
"""Of the program that made it."""
CPUS: Final = f"{LABEL}cpus"
"""On the network: the most cores of each server."""
MEMORY: Final = f"{LABEL}memory"
"""On the network: the most memory of each server, in bytes."""
NODE: Final = f"{LABEL}node"
ROLE: Final = f"{LABEL}role"
REPLICAS: Final = f"{LABEL}replicas"
"""On the network: how many replicas were asked for, so that a half-made stack is finished as asked."""
IMAGE: Final = f"{LABEL}image"
"""On the network: the server's image, for the same reason."""

SYSTEM: Final = f"{LABEL}system"
"""What the stack is (`core.system.SYSTEMS`); a stack of before there were several has no such label."""

HOST: Final = f"{LABEL}host"
"""Of a stack on several hosts: the one that a container or volume is on, as `up --on` was told."""

MYSQL_PORT: Final = 3306

_HELD_S: Final = 10.0
"""How long what cannot be removed is tried again: another `down` removes it too, or something on it."""
_IN_USE_S: Final = 20.0
"""How long the swarm may take to learn that a network is not in use any more."""


@frozen
class Container:
    """One container of a stack."""

    id: str
    node: str
    role: str
    image: str
    """As it was named when the container was made."""
    image_id: str
    state: str
    """Docker's word: created, running, paused, exited, dead, ..."""
    address: str | None
    published: tuple[str, int] | None
    """Host and port, as Docker has bound it."""
    system: str = DEFAULT
    """What its stack is."""

    @property
    def running(self) -> bool:
        """Its process lives and is not frozen."""
        return self.state == "running"


@frozen
class Inventory:
    """Everything that carries one stack's label."""

    containers: tuple[Container, ...]
    networks: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()

    def container(self, node: str, role: str) -> Container | None:
        """The container of a node in a role."""
        return next((c for c in self.containers if (c.node, c.role) == (node, role)), None)

    def nodes(self) -> list[str]:
        """Names of the nodes of which anything is there, in order."""
        found = {c.node for c in self.containers} | {_of(volume).get(NODE) for volume in self.volumes}
        return in_order(name for name in found if name is not None)

    @property
    def noted(self) -> Mapping[str, str]:
        """What the network's labels say of the stack."""
        return _of(self.networks[0]) if self.networks else {}

    def image(self) -> str | None:
        """The image of the stack's servers."""
        servers = (each.image for each in self.containers if each.role == "mysqld")
        return next(servers, None) or self.noted.get(IMAGE)

    def limits(self) -> ServerLimits:
        """What each server may take."""
        cpus, memory = self.noted.get(CPUS), self.noted.get(MEMORY)
        return ServerLimits(float(cpus) if cpus else None, int(memory) if memory else None)

    def system(self) -> str | None:
        """What the stack is; None where nothing of it says so."""
        return self.containers[0].system if self.containers else self.noted.get(SYSTEM)

    @property
    def identity(self) -> str:
        """Tells this stack from an older one of the same name: its network's id."""
        return str(self.networks[0]["Id"]) if self.networks else ""

    @property
    def empty(self) -> bool:
        """Nothing of the stack is there."""
        return not (self.containers or self.networks or self.volumes)


def containers(client: Any, stack: str) -> tuple[Container, ...]:
    """The stack's containers, running or not: one call of a few milliseconds."""
    listed = client.containers(all=True, filters={"label": f"{STACK}={stack}"})
    return tuple(_container(item) for item in listed if {NODE, ROLE} <= item["Labels"].keys())


def container(client: Any, stack: str, node: str, role: str) -> Container | None:
    """The container of a node in a role, running or not."""
    return next((c for c in containers(client, stack) if (c.node, c.role) == (node, role)), None)


def _of(item: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of what the daemon lists."""
    return item.get("Labels") or {}


def take(client: Any, stack: str) -> Inventory:
    """Everything of the stack."""
    label = {"label": f"{STACK}={stack}"}
    return Inventory(
        containers(client, stack),
        tuple(client.networks(filters=label)),
        tuple(client.volumes(filters=label)["Volumes"] or ()),
    )


def stack_names(client: Any) -> list[str]:
    """Every stack of which anything is there."""
    label = {"label": STACK}
    found: list[Mapping[str, Any]] = [
        *client.containers(all=True, filters=label),
        *client.networks(filters=label),
        *(client.volumes(filters=label)["Volumes"] or ()),
    ]
    return sorted({_of(item)[STACK] for item in found})


def addresses(found: Sequence[Container]) -> list[NodeAddress]:
    """The nodes of these containers in order; one that is missing among them is down."""
    last = max((node_number(each.node) or 0 for each in found), default=0)
    return [_address(node_name(number), Inventory(tuple(found))) for number in range(1, last + 1)]


def _address(name: str, found: Inventory) -> NodeAddress:
    sidecar, server = found.container(name, "sidecar"), found.container(name, "mysqld")
    host, port = (sidecar and sidecar.published) or (None, None)
    return NodeAddress(
        name=name,
        server_running=server is not None and server.running,
        sidecar_running=sidecar is not None and sidecar.running,
        address=sidecar.address if sidecar else None,
        port=MYSQL_PORT,
        published_host=host,
        published_port=port,
        identity=sidecar.id if sidecar else "",
        system=next((made.system for made in (sidecar, server) if made), DEFAULT),
    )


def server_age_s(client: Any, stack: str, node: str, *, ended: bool = False) -> float | None:
    """Seconds since the node's server was started, or made if it never was; None where it has ended, unless
    that is asked for."""
    for container in containers(client, stack):
        is_new = container.state == "created"
        if (container.node, container.role) == (node, "mysqld") and (container.running or is_new or ended):
            told = client.inspect_container(container.id)
            since = told["Created"] if is_new else told["State"]["StartedAt"]
            return (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    return None


def _container(item: Mapping[str, Any]) -> Container:
    labels = item["Labels"]
    networks = (item.get("NetworkSettings") or {}).get("Networks") or {}
    address = next((found["IPAddress"] for found in networks.values() if found.get("IPAddress")), None)
    ports = [port for port in item.get("Ports") or () if port.get("PublicPort")]
    return Container(
        id=item["Id"],
        node=labels[NODE],
        role=labels[ROLE],
        image=item["Image"],
        image_id=item["ImageID"],
        state=item["State"],
        address=address,
        published=(ports[0]["IP"], ports[0]["PublicPort"]) if ports else None,
        system=labels.get(SYSTEM, DEFAULT),
    )


def remove_nodes(client: Any, stack: str, kept: Collection[str] | None = None) -> int:
    """Remove this stack's containers, killed and not waited for, and its volumes; with `kept` those of all
    other nodes alone. Answers how many went."""
    label = {"label": f"{STACK}={stack}"}

    def gone(items: Iterable[Any], key: str) -> list[str]:
        nodes = [(item[key], _of(item).get(NODE)) for item in items]
        return [name for name, node in nodes if kept is None or (node is not None and node not in kept)]

    count = _remove_all(
        gone(client.containers(all=True, filters=label), "Id"),
        lambda found: client.remove_container(found, force=True, v=True),
    )
    volumes = gone(client.volumes(filters=label)["Volumes"] or (), "Name")
    return count + _remove_all(volumes, lambda found: client.remove_volume(found, force=True))


def remove_everywhere(daemons: Daemons, stack: str) -> tuple[int, list[str]]:
    """Remove what carries this stack's label on all hosts that can be asked; answers how many things went,
    and the hosts that are away, with which the network stays."""
    done = daemons.each(lambda host, client: remove_nodes(client, stack))
    left = [host for host in daemons.names if host not in done]
    is_overlay = daemons.placement is not None
    networks = daemons.each(lambda host, client: _remove_networks(client, stack, is_overlay, bool(left)))
    return sum(done.values()) + sum(networks.values()), left


def _remove_networks(client: Any, stack: str, is_overlay: bool, in_use: bool) -> int:
    """Remove the stack's network, an overlay where this host manages the swarm, also when somebody has put a
    container of his own on it; answers how many went. The swarm learns a moment later that the last container
    has left it; what is `in_use` by a host that is away stays."""
    from docker.errors import APIError

    if is_overlay and not client.info().get("Swarm", {}).get("ControlAvailable"):
        return 0

    def remove(network: str) -> None:
        if not is_overlay:
            for container in client.inspect_network(network)["Containers"] or {}:
                client.disconnect_container_from_network(container, network, force=True)
        client.remove_network(network)

    networks = [item["Id"] for item in client.networks(filters={"label": f"{STACK}={stack}"})]
    try:
        return _remove_all(networks, remove, 0.0 if in_use else _IN_USE_S)
    except APIError:
        if in_use:
            return 0
        raise


def _remove_all(found: Collection[str], remove: Callable[[str], object], held_s: float = _HELD_S) -> int:
    """Remove all at once; what is gone already counts as gone, and what somebody else still holds, or takes
    away as well, is tried again for a while. Answers how many there were."""
    from docker.errors import APIError, NotFound

    def one(name: str) -> None:
        ends_s = time.monotonic() + held_s
        while True:
            try:
                remove(name)
            except NotFound:
                return
            except APIError:
                if time.monotonic() > ends_s:
                    raise
                time.sleep(0.1)
            else:
                return

    with ThreadPoolExecutor(max(len(found), 1)) as pool:
        list(pool.map(one, found))
    return len(found)

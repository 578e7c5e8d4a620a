"""What is there of a stack, found by label and never by name, and how it is taken away.

Containers that the Compose tool made are as good as ours: they carry the same labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from replexplorer.adapters.docker.hosts import Daemons
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.machine import ServerLimits
from replexplorer.core.system import DEFAULT
from replexplorer.core.topology import in_order, node_name, node_number
from replexplorer.formats.stack_file import LABEL, limits_in
from replexplorer.ports import NodeAddress

STACK: Final = f"{LABEL}stack"
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

_MYSQL_PORT: Final = 3306

COMPOSE_PROJECT: Final = "com.docker.compose.project"
"""The Compose tool's own label."""

_CONFLICTS: Final = (403, 409)
"""A network with endpoints, a volume in use: two `down` at once, from two users, see these for a moment."""
_GOING: Final = "is marked for removal"
"""What the daemon says, as a defect of its own (500), of a container that another `down` removes now."""
_HELD_S: Final = 10.0
_IN_USE_S: Final = 20.0
"""How long the swarm may take to learn that a network is not in use any more."""


@dataclass(frozen=True, slots=True)
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
    by_compose: bool
    system: str = DEFAULT
    """What its stack is."""

    @property
    def running(self) -> bool:
        """Its process lives and is not frozen."""
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that carries one stack's label."""

    containers: tuple[Container, ...]
    networks: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()

    def container(self, node: str, role: str) -> Container | None:
        """The container of a node in a role."""
        return next((c for c in self.containers if (c.node, c.role) == (node, role)), None)

    def volume(self, role: str, node: str | None = None) -> Mapping[str, Any] | None:
        """The volume of a role, of a node where it has one."""
        for volume in self.volumes:
            labels = volume.get("Labels") or {}
            if labels.get(ROLE) == role and labels.get(NODE) == node:
                return volume
        return None

    def nodes(self) -> list[str]:
        """Names of the nodes of which anything is there, in order."""
        labels = [volume.get("Labels") or {} for volume in self.volumes]
        found = {c.node for c in self.containers} | {label[NODE] for label in labels if NODE in label}
        return in_order(found)

    def asked_replicas(self) -> int:
        """How many replicas there are, or were asked for."""
        asked = [(network.get("Labels") or {}).get(REPLICAS, "") for network in self.networks]
        return max([int(text) for text in asked if text.isdigit()] + [len(self.nodes()) - 1, 0])

    def image(self) -> str | None:
        """The image of the stack's servers."""
        for container in self.containers:
            if container.role == "mysqld":
                return container.image
        for network in self.networks:
            if name := (network.get("Labels") or {}).get(IMAGE):
                return str(name)
        return None

    def limits(self) -> ServerLimits:
        """What each server may take."""
        return limits_in((self.networks[0].get("Labels") or {}) if self.networks else {})

    def system(self) -> str | None:
        """What the stack is; None where nothing of it says so."""
        if self.containers:
            return self.containers[0].system
        labels = (network.get("Labels") or {} for network in self.networks)
        return next((str(each[SYSTEM]) for each in labels if SYSTEM in each), None)

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


def sidecars(client: Any, stack: str) -> list[Container]:
    """The stack's sidecars, running or not."""
    return [each for each in containers(client, stack) if each.role == "sidecar"]


def refuse_other_names(stack: str, found: Iterable[Container]) -> None:
    """Raise StackUnavailable for a stack of before nodes were named by number."""
    others = {container.node for container in found if node_number(container.node) is None}
    if others:
        raise StackUnavailable(
            f"stack {stack} was made by an earlier replexplorer (its nodes: {', '.join(in_order(others))})",
            f"`replexplorer down --stack {stack}`, then up",
        )


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
    return sorted({(item.get("Labels") or {})[STACK] for item in found})


def addresses(found: Iterable[Container]) -> list[NodeAddress]:
    """The nodes of these containers in order; one that is missing among them is down."""
    by_node: dict[str, dict[str, Container]] = {}
    for container in found:
        by_node.setdefault(container.node, {})[container.role] = container
    for number in range(1, max((node_number(name) or 0 for name in by_node), default=0)):
        by_node.setdefault(node_name(number), {})
    nodes = []
    for name in in_order(by_node):
        sidecar, server = by_node[name].get("sidecar"), by_node[name].get("mysqld")
        nodes.append(
            NodeAddress(
                name=name,
                server_running=server is not None and server.running,
                sidecar_running=sidecar is not None and sidecar.running,
                address=sidecar.address if sidecar else None,
                port=_MYSQL_PORT,
                published_host=sidecar.published[0] if sidecar and sidecar.published else None,
                published_port=sidecar.published[1] if sidecar and sidecar.published else None,
                identity=sidecar.id if sidecar else "",
                system=next((made.system for made in (sidecar, server) if made), DEFAULT),
            )
        )
    return nodes


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
        by_compose=COMPOSE_PROJECT in labels,
        system=labels.get(SYSTEM, DEFAULT),
    )


def remove_stack(client: Any, stack: str, *, networks: bool = True) -> int:
    """Remove containers, networks (if wanted) and volumes with this stack's label, killed and not waited for;
    answers how many went."""
    label = {"label": f"{STACK}={stack}"}
    count = _remove_all(
        [item["Id"] for item in client.containers(all=True, filters=label)],
        lambda found: client.remove_container(found, force=True, v=True),
    )
    found = [item["Id"] for item in client.networks(filters=label)] if networks else []
    volumes = [item["Name"] for item in client.volumes(filters=label)["Volumes"] or ()]
    count += _remove_all(found, lambda found: _remove_network(client, found))
    return count + _remove_all(volumes, lambda found: client.remove_volume(found, force=True))


def remove_everywhere(daemons: Daemons, stack: str) -> tuple[int, list[str]]:
    """Remove what carries this stack's label on all hosts that can be asked; answers how many things went,
    and the hosts that are away."""
    placed = daemons.placement
    done = daemons.each(lambda host, client: remove_stack(client, stack, networks=placed is None))
    left = [host for host in daemons.names if host not in done]
    count = sum(done.values())
    if placed is not None:
        count += sum(daemons.each(lambda host, client: _remove_overlay(client, stack, not left)).values())
    return count, left


def remove_other_nodes(client: Any, stack: str, kept: Iterable[str]) -> None:
    """Remove the containers and volumes of this stack's nodes but for those that are to be kept."""
    label = {"label": [f"{STACK}={stack}", NODE]}
    among = set(kept)

    def others(items: Iterable[Any], key: str) -> list[str]:
        return [item[key] for item in items if item["Labels"][NODE] not in among]

    containers = others(client.containers(all=True, filters=label), "Id")
    _remove_all(containers, lambda found: client.remove_container(found, force=True, v=True))
    volumes = others(client.volumes(filters=label)["Volumes"] or (), "Name")
    _remove_all(volumes, lambda found: client.remove_volume(found, force=True))


def _remove_network(client: Any, network: str) -> None:
    """Remove a network, also when somebody has put a container of his own on it."""
    for container in client.inspect_network(network)["Containers"] or {}:
        client.disconnect_container_from_network(container, network, force=True)
    client.remove_network(network)


def _remove_overlay(client: Any, stack: str, patient: bool) -> int:
    """Remove the stack's network where this host manages the swarm; answers how many went.

    The swarm learns a moment later that the last container has left it, so one that is in use is tried again
    if one is `patient`; what is in use by a host that is away stays.
    """
    from docker.errors import APIError

    if not client.info().get("Swarm", {}).get("ControlAvailable"):
        return 0
    networks = [item["Id"] for item in client.networks(filters={"label": f"{STACK}={stack}"})]
    try:
        return _remove_all(networks, client.remove_network, _IN_USE_S if patient else 0.0, any_error=True)
    except APIError:
        if patient:
            raise
        return 0


def _remove_all(
    found: Iterable[str],
    remove: Callable[[str], object],
    held_s: float = _HELD_S,
    *,
    any_error: bool = False,
) -> int:
    """Remove all at once; what is gone already, or is going, counts as gone, and what somebody else still
    holds, who takes it away as well, is tried again for a while, with `any_error` whatever is said."""
    from docker.errors import APIError, NotFound

    def one(name: str) -> None:
        ends_s = time.monotonic() + held_s
        while True:
            try:
                remove(name)
            except NotFound:
                return
            except APIError as error:
                if "already in progress" in str(error):
                    return
                is_held = any_error or error.status_code in _CONFLICTS or _GOING in str(error)
                if not is_held or time.monotonic() > ends_s:
                    raise
                time.sleep(0.1)
            else:
                return

    names = list(found)
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        list(pool.map(one, names))
    return len(names)

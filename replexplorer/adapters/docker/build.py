"""Bringing a stack up, on this machine or on several hosts: what is missing is made, what is dead is started,
what is whole is left. On several hosts each has the images, and one overlay is the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters import secrets
from replexplorer.adapters.docker import hosts, images, inventory, load, snapshots
from replexplorer.adapters.docker.client import archive, connect
from replexplorer.adapters.docker.hosts import HERE, Daemons, address_of, manager_of
from replexplorer.adapters.docker.images import image_id
from replexplorer.adapters.docker.inventory import Container, Inventory
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.machine import ServerLimits
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.system import System, new_stack, system_of
from replexplorer.core.topology import MOST_REPLICAS, node_name, node_names, node_number
from replexplorer.ports import Credentials, Reporter, UpOptions

_KILL_LIMIT_S: Final = 10
_DATA: Final = "/var/lib/replexplorer/data"
_TOOLS: Final = "/var/lib/replexplorer/tools"
PUBLISHED: Final[tuple[str, int | None]] = ("127.0.0.1", None)
"""Where a server's port is published on its host; None: the daemon picks a free one."""
CPU_SHARES: Final = 262_144
"""Of a sidecar, the greatest weight: on a full machine the queue and the probe wait for a core behind mysqld.
With 32 clients on two cores one probe in a hundred was 132 ms late at 85 ms, and with this weight 27 (89 and
22 at 1 ms). A sidecar takes 1 % of a core meanwhile. A daemon without the CPU controller ignores it."""
SOURCE_SHARES: Final = 1024
REPLICA_SHARES: Final = 4096
"""On a full machine an applier gets a core before the source does, so that the load's clients wait and not
the replica: it takes 1.5 to 2 times the source's CPU a commit. With 8 clients on two cores a replica of the
source's weight was 3.3 and 5.9 s behind after 20 s, one of this weight 0 s, and the TPS were the same (1,871
and 1,935; 1,808 and 2,052). Members of a group weigh the same: each of them may be the primary."""
CONGESTION: Final = {"net.ipv4.tcp_congestion_control": "reno"}
"""BBR models the path and believes in its old round trip for 10 s: after a jump from 0 to 85 ms it sends 4
packets a round trip, and commits of a busy source wait for seconds. Reno is on every kernel and open to every
namespace; cubic is not."""


@frozen
class StackSpec:
    """What a stack's objects are made with.

    A sidecar owns its node's network namespace, address, alias and port, and the server joins it. So a server
    can be killed, started again and replaced, and the network around it stays.
    """

    stack: str
    system: str
    images: Mapping[str, str]
    """By role: `sidecar` and `mysqld`."""
    limits: ServerLimits
    """Of each server."""

    def labels(self, role: str, node: str | None = None) -> dict[str, str]:
        """What every object of ours carries: its stack, its role and the node that it is of."""
        labels = {
            inventory.STACK: self.stack,
            inventory.VERSION: replexplorer.__version__,
            inventory.SYSTEM: self.system,
            inventory.ROLE: role,
        }
        return labels if node is None else {**labels, inventory.NODE: node}

    def limit_labels(self) -> dict[str, str]:
        """Labels by which a network keeps the limits; none for what has no limit."""
        cpus, memory = self.limits.cpus, self.limits.memory_bytes
        labels = {} if cpus is None else {inventory.CPUS: f"{cpus:g}"}
        return labels if memory is None else {**labels, inventory.MEMORY: str(memory)}

    def environment(self, node: str, role: str) -> dict[str, str]:
        """A container's settings at its start; the first node follows no source."""
        if role == "sidecar":
            return {"RX_NODE": node}
        first = node_name(1)
        source = {} if node == first else {"RX_SOURCE": first}
        return {"RX_NODE": node, "RX_SERVER_ID": str(node_number(node)), "RX_SYSTEM": self.system, **source}


def put_roles(client: Any, sidecar: str, text: str) -> None:
    """Let what servers are when they start be this, by the tools volume of a sidecar."""
    client.put_archive(sidecar, _TOOLS, archive([("roles", text.encode())]))


def weigh_servers(client: Any, found: Sequence[Container], source: str) -> None:
    """Give each server of a host the CPU weight of its role."""
    for container in found:
        if container.role == "mysqld":
            shares = server_shares(container.system, container.node, source)
            client.update_container(container.id, cpu_shares=shares)


def server_shares(system: str, node: str, source: str) -> int:
    """The CPU weight of a node's server."""
    is_replica = node != source and not system_of(system).is_group
    return REPLICA_SHARES if is_replica else SOURCE_SHARES


@dataclass
class Builder:
    """One `up` of one stack; used once, in a thread of its own."""

    daemons: Daemons
    compose: Path
    accounts_file: Path
    subnet: str | None
    report: Reporter
    """Raises where the work is cancelled."""
    manager: str = HERE
    """The host through which the swarm is managed."""
    found: Mapping[str, Inventory] = field(default_factory=dict)
    """What is there of the stack, by host."""

    @property
    def stack(self) -> str:
        """Its name."""
        return self.daemons.stack

    def up(self, options: UpOptions) -> bool:
        """Make or repair; answers whether the stack was created here. Of a stack on several hosts raises
        StackUnavailable naming a host that is away, or in no swarm."""
        daemons = self.daemons
        if daemons.placement is None:
            return self._up(options)
        self.manager = manager_of(daemons.every(lambda host, client: client.info()), daemons.at)
        created = self._up(options)
        if not daemons.placement.network:  # it was there, and this machine did not know it
            found = self._take()
            daemons.note(network=found.identity, system=found.system())
        self._spread(load.ensure_image(daemons.at(self.manager), self.stack, self.manager, self.report))
        return created

    def _up(self, options: UpOptions) -> bool:
        self.daemons.every(lambda host, client: snapshots.finish(client, self.stack))
        found = self._take()
        created = not found.containers
        system, flavor = self._check_system(options, found)
        nodes = self._nodes(options, found, system)
        self._check_image(options, found)
        limits = self._limits(options, found)
        if _whole(found, nodes) and not any(self._is_cut_off(found, node) for node in nodes):
            return False
        made = self._images(options.image, flavor, found.image(), system)
        spec = StackSpec(self.stack, system.name, made, limits)
        if created and not found.empty:
            self.report("removing what a broken start left")
            inventory.remove_everywhere(self.daemons, self.stack)
            found = self._take()
        try:
            self._make(found, nodes, spec)
        except BaseException:
            with suppress(Exception):
                if created:
                    _, left = inventory.remove_everywhere(self.daemons, self.stack)
                    secrets.forget(self.accounts_file)
                    if not left:
                        hosts.forget(self.stack)
                else:
                    kept = found.nodes()
                    self.daemons.each(lambda host, client: inventory.remove_nodes(client, self.stack, kept))
            raise
        return created

    def _take(self) -> Inventory:
        """Everything of the stack."""
        found = self.found = self.daemons.every(lambda host, client: inventory.take(client, self.stack))
        return Inventory(
            tuple(each for some in found.values() for each in some.containers),
            found[self.manager].networks,
            tuple(each for some in found.values() for each in some.volumes),
        )

    def _is_another(self, has: str, asked: object) -> UsageError:
        """What to raise where a stack that is there is to be something else."""
        return UsageError(
            f"stack {self.stack} {has}, not {asked}",
            f"run `replexplorer down --stack {self.stack}` first, or use another --stack",
        )

    def _check_system(self, options: UpOptions, found: Inventory) -> tuple[System, str | None]:
        """What the stack is, or is to be, and the flavour of a server that is to be made; None: whichever
        was asked for."""
        has = found.system()
        if has is None or not found.containers:
            asked = options.system or has
            system, flavor, _ = new_stack(asked, options.flavor, options.replicas)
            return system, flavor
        if options.system not in (None, has):
            raise self._is_another(f"is {system_of(has).title}", system_of(options.system).title)
        return system_of(has), options.flavor

    def _nodes(self, options: UpOptions, found: Inventory, system: System) -> list[str]:
        has = max(int(found.noted.get(inventory.REPLICAS, 0)), len(found.nodes()) - 1, 0)
        wanted = options.replicas if options.replicas is not None else has or system.nodes - 1
        if options.replicas is not None and not 1 <= wanted <= MOST_REPLICAS:
            raise UsageError(f"a stack cannot have {wanted} replicas", f"give 1 to {MOST_REPLICAS}")
        if found.containers and wanted < has:
            one = int(system.is_group)  # of a group all nodes are counted
            raise UsageError(
                f"stack {self.stack} has {has + one} {'nodes' if one else 'replicas'}, not {wanted + one}",
                f"run `replexplorer down --stack {self.stack}` first: a live stack only grows",
            )
        nodes = node_names(wanted)
        placed = self.daemons.placement
        if placed is not None:
            self.daemons.placement = replace(placed, hosts=hosts.checked(placed.hosts, nodes))
        return nodes

    def _limits(self, options: UpOptions, found: Inventory) -> ServerLimits:
        """What each server may take; a live stack keeps what it has."""
        has = found.limits()
        if not found.containers:
            return has if options.limits == ServerLimits() else options.limits
        if options.limits not in (ServerLimits(), has):
            raise self._is_another(f"has other limits for each server ({has})", options.limits)
        return has

    def _check_image(self, options: UpOptions, found: Inventory) -> None:
        servers = [container for container in found.containers if container.role == "mysqld"]
        has = images.flavor_of(servers[0].image) if servers else None
        if has is not None and options.flavor is not None and has != options.flavor:
            says = {flavor: recipe.says for flavor, recipe in images.SERVERS.items()}
            raise self._is_another(f"runs {says[has]}", says[options.flavor])
        if options.image is None or not servers:
            return
        wanted = self._image_id(options.image)
        if any(options.image != server.image and wanted != server.image_id for server in servers):
            raise self._is_another(f"runs the image {servers[0].image}", options.image)

    def _images(
        self, asked: str | None, flavor: str | None, live: str | None, system: System
    ) -> Mapping[str, str]:
        """The images by role, all of them here."""
        image = asked or live
        ours = images.flavor_of(image) if image else None
        if image is None or (ours and self._image_id(image) is None and asked is None):
            server = images.server_for(system.name, ours or flavor or system.flavors[0])
            made = self._ensure([server, images.SIDECAR])
            image = made["mysqld"]
        else:
            if not ours and (asked or self._image_id(image) is None):
                images.require(image, self.report)
            made = self._ensure([images.SIDECAR])
            if asked:
                images.check_foreign(image, self.compose, self.report, system.name)
        return {**made, "mysqld": image}

    def _image_id(self, name: str) -> str | None:
        """The image's id on a host that has it, else on this machine."""
        found = self.daemons.each(lambda host, client: image_id(client, name))
        known = next((each for each in found.values() if each is not None), None)
        if known is None and self.daemons.placement is not None:
            with suppress(MissingPiece), closing(connect()) as local:
                return image_id(local, name)
        return known

    def _ensure(self, recipes: Sequence[images.Recipe]) -> dict[str, str]:
        """Have these images on one host at least; role to reference."""
        is_there = None if self.daemons.placement is None else lambda name: self._image_id(name) is not None
        return images.ensure(recipes, self.compose, self.report, is_there)

    def _make(self, found: Inventory, nodes: Sequence[str], spec: StackSpec) -> None:
        daemons, placed = self.daemons, self.daemons.placement
        for name in spec.images.values():
            self._spread(name)
        self.report("creating the network and the volumes", 0.0)
        steps = {
            host: Steps(
                daemons.at(host),
                self.found[host],
                spec,
                {inventory.HOST: host} if placed is not None else {},
            )
            for host in daemons.names
        }
        by_node = {node: steps[daemons.host_of(node)] for node in nodes}
        firsts = {daemons.host_of(node): node for node in reversed(nodes)}
        whole = Steps(daemons.at(self.manager), found, spec, {})
        with ThreadPoolExecutor(2 * len(nodes) + 2) as pool:
            making = pool.submit(whole.network, self.subnet, len(nodes) - 1, is_overlay=placed is not None)
            volumes = [pool.submit(step.volume, "data", node) for node, step in by_node.items()]
            volumes += [pool.submit(step.volume, "tools", None) for step in steps.values()]
            network = making.result()
            for volume in volumes:
                volume.result()
            if placed is not None:
                daemons.note(network=network, system=spec.system)
            accounts = self._passwords(found, network)
            self.report("starting the servers", 0.3)
            # The first sidecar of a host fills its tools volume; passwords and roles follow. The first node's
            # head start lets a replica's first connect find it listening: the next try is a second later.
            made = {}
            for node in firsts.values():
                client, made[node] = by_node[node].client, by_node[node].sidecar(node)
                files = [("accounts", secrets.encode(accounts).encode())]
                content = archive(files, mode=0o400, user=secrets.SERVER_UID)
                client.put_archive(made[node].id, f"{_TOOLS}/secrets", content)
                if placed is not None and placed.roles is not None:
                    put_roles(client, made[node].id, placed.roles)
            first = pool.submit(self._node, by_node[nodes[0]], nodes[0], made.get(nodes[0]), None)
            others = [
                pool.submit(self._node, by_node[node], node, made.get(node), first) for node in nodes[1:]
            ]
            for node_up in (first, *others):
                node_up.result()
        self.report("the servers are starting", 0.6)

    def _passwords(self, found: Inventory, network: str) -> Credentials:
        """The stack's passwords, made where there is no data yet, and kept on this machine."""
        kept = secrets.read(self.accounts_file)
        if found.volumes and kept is None:
            raise StackUnavailable(
                f"stack {self.stack} found, cannot log in: its passwords are lost",
                f"run `replexplorer down --stack {self.stack}`",
            )
        accounts = kept.credentials if found.volumes and kept is not None else secrets.generate()
        secrets.write(self.accounts_file, secrets.StoredAccounts(accounts, network))
        return accounts

    def _node(self, step: Steps, node: str, sidecar: Made | None, first: Future[None] | None) -> None:
        """Bring one node up: its sidecar, then (after `first`) the server in the sidecar's namespace."""
        made = sidecar or step.sidecar(node)
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(step.start, made)
            server = step.server(node, made)
            namespace_is_new = started.result()
        client = step.client
        if server.state == "running" and (namespace_is_new or _is_older(client, server.id, made.id)):
            # It runs on in the namespace of the sidecar's former life.
            client.kill(server.id)
            client.wait(server.id, timeout=_KILL_LIMIT_S)
            server = Made(server.id, "exited")
        if first is not None:
            first.result()
        step.start(server)

    def _is_cut_off(self, found: Inventory, node: str) -> bool:
        """Whether a node's server is older than its sidecar's present life: it is in a dead namespace."""
        sidecar, server = (found.container(node, role) for role in ("sidecar", "mysqld"))
        if sidecar is None or server is None:
            return False
        return self.daemons.on(node, lambda client: _is_older(client, server.id, sidecar.id))

    def _spread(self, name: str) -> None:
        """Have an image on every host: what one has, or this machine, is loaded onto the others at once."""
        has = self.daemons.every(lambda host, client: image_id(client, name) is not None)
        missing = [host for host in has if not has[host]]
        if not missing or self.daemons.placement is None:
            return
        origin = next((host for host in has if has[host]), None)
        self.report(f"loading {name} onto {', '.join(missing)}")

        def load(host: str) -> None:
            with (
                closing[Any](
                    connect(origin and address_of(origin), timeout_s=images.BUILD_SILENCE_S)
                ) as source,
                closing[Any](connect(address_of(host), timeout_s=images.BUILD_SILENCE_S)) as target,
            ):
                for said in target.load_image(source.get_image(name)):
                    if "error" in said:
                        raise MissingPiece(f"{host} does not take the image {name}", str(said["error"]))
                if image_id(target, name) is None:
                    raise StackUnavailable(f"{host} has no image {name} after it was loaded", "try again")

        with ThreadPoolExecutor(len(missing)) as pool:
            list(pool.map(load, missing))


def _is_older(client: Any, server: str, sidecar: str) -> bool:
    """Whether a server was started before its sidecar was."""
    began = [str(client.inspect_container(one)["State"]["StartedAt"]) for one in (server, sidecar)]
    return datetime.fromisoformat(began[0]) < datetime.fromisoformat(began[1])


@frozen
class Made:
    """A container that is there now."""

    id: str
    state: str


@frozen
class Steps:
    """Each object of a stack on one daemon: the one that is there, else a new one."""

    client: Any
    found: Inventory
    spec: StackSpec
    labels: Mapping[str, str]
    """On what is made here, besides those of its stack."""

    def _name(self, *parts: str | None) -> str:
        return "-".join(("replexplorer", self.spec.stack, *filter(None, parts)))

    def network(self, subnet: str | None, replicas: int, *, is_overlay: bool) -> str:
        """The stack's network; answers what tells it from others of the same name."""
        if self.found.networks:
            return self.found.identity
        from docker.types import IPAMConfig, IPAMPool

        labels = {
            **self.spec.labels("network"),
            **self.spec.limit_labels(),
            inventory.REPLICAS: str(replicas),
            inventory.IMAGE: self.spec.images["mysqld"],
            **self.labels,
        }
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]) if subnet else None
        made = self.client.create_network(
            self._name(),
            ipam=ipam,
            check_duplicate=True,
            labels=labels,
            **(
                {"driver": "overlay", "attachable": True, "scope": "swarm"}
                if is_overlay
                else {"driver": "bridge", "enable_ipv6": False}
            ),
        )
        return str(made["Id"])

    def volume(self, role: str, node: str | None) -> None:
        """Have a volume; the daemon leaves one of this name as it is."""
        labels = {**self.spec.labels(role, node), **self.labels}
        self.client.create_volume(self._name(node, role), labels=labels)

    def sidecar(self, node: str) -> Made:
        """The container that has the node's network; one that was taken off it is made again, with its ports
        and aliases."""
        found = self.found.container(node, "sidecar")
        if found is not None and _is_disconnected(found):
            self.client.remove_container(found.id, force=True)
        elif found is not None:
            return Made(found.id, found.state)
        network, port = self._name(), inventory.MYSQL_PORT
        endpoint = self.client.create_endpoint_config(aliases=[node])
        host = self._host_config(
            node,
            "rw",
            network_mode=network,
            port_bindings={port: PUBLISHED},
            cap_add=["NET_ADMIN"],
            cpu_shares=CPU_SHARES,
            # The server's group, which may list its directories: so the agent counts their bytes.
            group_add=[str(secrets.SERVER_UID)],
            sysctls=CONGESTION,
        )
        return self._create(
            node,
            "sidecar",
            self._name(node, "net"),
            host,
            hostname=node,
            stop_signal="SIGKILL",
            ports=[port],
            networking_config=self.client.create_networking_config({network: endpoint}),
        )

    def server(self, node: str, sidecar: Made) -> Made:
        """The container of the node's server, in the network of this sidecar."""
        found = self.found.container(node, "mysqld")
        if found is not None and self._joined(found) == sidecar.id:
            return Made(found.id, found.state)
        if found is not None:
            self.client.remove_container(found.id, force=True, v=True)
        limits, user = self.spec.limits, secrets.SERVER_UID
        host = self._host_config(
            node,
            "ro",
            network_mode=f"container:{sidecar.id}",
            cpu_shares=server_shares(self.spec.system, node, node_name(1)),
            nano_cpus=None if limits.cpus is None else round(limits.cpus * 1e9),
            mem_limit=limits.memory_bytes,
        )
        return self._create(
            node,
            "mysqld",
            self._name(node),
            host,
            user=f"{user}:{user}",
            entrypoint=["/bin/sh", f"{_TOOLS}/start-mysqld"],
            command=[],
        )

    def start(self, made: Made) -> bool:
        """Make the container run; answers whether it had to be started."""
        if made.state == "running":
            return False
        if made.state == "paused":
            self.client.unpause(made.id)
            return False
        self.client.start(made.id)
        return True

    def _joined(self, server: Container) -> str:
        """The container whose namespace a server joined when it was made."""
        mode: str = self.client.inspect_container(server.id)["HostConfig"]["NetworkMode"]
        return mode.removeprefix("container:")

    def _create(self, node: str, role: str, name: str, host: Any, **more: Any) -> Made:
        made = self.client.create_container(
            self.spec.images[role],
            name=name,
            environment=self.spec.environment(node, role),
            labels={**self.spec.labels(role, node), **self.labels},
            host_config=host,
            **more,
        )
        return Made(made["Id"], "created")

    def _host_config(self, node: str, tools: str, **more: Any) -> Any:
        """With the node's volumes, the one of tools `ro` or `rw`, and no more than it needs."""
        data = f"{self._name(node, 'data')}:{_DATA}:rw"
        return self.client.create_host_config(
            binds=[data, f"{self._name('tools')}:{_TOOLS}:{tools}"],
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            restart_policy={"Name": "no"},
            **more,
        )


def _whole(found: Inventory, nodes: Sequence[str]) -> bool:
    """Every container of these nodes runs, and each sidecar is on the network."""
    wanted = [found.container(node, role) for node in nodes for role in ("sidecar", "mysqld")]
    return all(
        container is not None and container.running and not _is_disconnected(container)
        for container in wanted
    )


def _is_disconnected(container: Container) -> bool:
    """Whether a sidecar runs and is on no network: somebody has taken it off."""
    return container.role == "sidecar" and container.running and container.address is None

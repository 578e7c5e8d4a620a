"""Bringing a stack up: what is missing is made, what is dead is started, what is whole is left."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import replexplorer
from replexplorer.adapters import secrets
from replexplorer.adapters.docker import images, inventory
from replexplorer.adapters.docker.base_image import image_id
from replexplorer.adapters.docker.inventory import Container, Inventory
from replexplorer.adapters.docker.removal import remove_other_nodes, remove_stack
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.limits import ServerLimits
from replexplorer.core.system import System, new_stack, system_of
from replexplorer.core.topology import MOST_REPLICAS, node_names
from replexplorer.formats.stack_file import Mount, Service, StackFile, read_stack_file
from replexplorer.ports import Report, UpOptions

_KILL_LIMIT_S: Final = 10
_SECRETS: Final = "/var/lib/replexplorer/tools/secrets"


class Builder:
    """One `up` of one stack; used once, in a thread of its own."""

    def __init__(
        self,
        client: Any,
        stack: str,
        compose: Path,
        accounts_file: Path,
        subnet: str | None,
        report: Report,
        cancelled: threading.Event,
    ) -> None:
        self._client = client
        self._stack = stack
        self._compose = compose
        self._accounts_file = accounts_file
        self._subnet = subnet
        self._report = report
        self._cancelled = cancelled

    def up(self, options: UpOptions) -> bool:
        """Make or mend; answers whether the stack was created here."""
        found = self._take()
        inventory.refuse_other_names(self._stack, found.containers)
        created = not found.containers
        system, flavor = self._check_system(options, found)
        nodes = self._nodes(options, found, system)
        self._check_image(options, found)
        limits = self._limits(options, found)
        if _whole(found, nodes) and not any(self._is_cut_off(found, node) for node in nodes):
            return False
        topology, server_image = self._topology(options.image, flavor, found.image(), system)
        topology = topology.limited(limits)
        if created and not found.empty:
            self._report("removing what a broken start left", None)
            self._remove()
            found = Inventory(())
        try:
            self._make(found, nodes, topology, server_image)
        except BaseException:
            with suppress(Exception):
                if created:
                    self._remove()
                    secrets.forget(self._accounts_file)
                else:
                    self._remove_others(found.nodes())
            raise
        return created

    def _take(self) -> Inventory:
        """Everything of the stack."""
        return inventory.take(self._client, self._stack)

    def _remove(self) -> None:
        remove_stack(self._client, self._stack)

    def _remove_others(self, kept: Sequence[str]) -> None:
        remove_other_nodes(self._client, self._stack, kept)

    def _client_of(self, node: str) -> Any:
        """The client of the daemon that a node is on."""
        return self._client

    def _check_system(self, options: UpOptions, found: Inventory) -> tuple[System, str | None]:
        """What the stack is, or is to be, and the flavour of a server that is to be made; None: whichever
        was asked for."""
        has = found.system()
        if has is None or not found.containers:
            asked = options.system or has
            system, flavor, _ = new_stack(asked, options.flavor, options.replicas)
            return system, flavor
        if options.system not in (None, has):
            raise UsageError(
                f"stack {self._stack} is {system_of(has).title}, not {system_of(options.system).title}",
                f"`replexplorer down --stack {self._stack}` first, or another --stack",
            )
        return system_of(has), options.flavor

    def _nodes(self, options: UpOptions, found: Inventory, system: System) -> list[str]:
        has = found.asked_replicas()
        wanted = options.replicas if options.replicas is not None else has or system.nodes - 1
        if options.replicas is not None and not 1 <= wanted <= MOST_REPLICAS:
            raise UsageError(f"a stack cannot have {wanted} replicas", f"give 1 to {MOST_REPLICAS}")
        if found.containers and wanted < has:
            one = int(system.is_group)  # of a group all nodes are counted
            raise UsageError(
                f"stack {self._stack} has {has + one} {'nodes' if one else 'replicas'}, not {wanted + one}",
                f"a live stack only grows: `replexplorer down --stack {self._stack}` first",
            )
        return node_names(wanted)

    def _limits(self, options: UpOptions, found: Inventory) -> ServerLimits:
        """What each server may take; a live stack keeps what it has."""
        has = found.limits()
        if not found.containers:
            return has if options.limits == ServerLimits() else options.limits
        if options.limits not in (ServerLimits(), has):
            raise UsageError(
                f"stack {self._stack} has other limits for each server ({has}), not {options.limits}",
                f"`replexplorer down --stack {self._stack}` first, or another --stack",
            )
        return has

    def _check_image(self, options: UpOptions, found: Inventory) -> None:
        servers = [container for container in found.containers if container.role == "mysqld"]
        if options.image is not None and options.flavor is not None:
            raise UsageError(
                f"an image and the flavor {options.flavor} are two answers to which server",
                "give one of the two: what an image holds is found out",
            )
        has = images.flavor_of(servers[0].image) if servers else None
        if has is not None and options.flavor is not None and has != options.flavor:
            says = {flavor: recipe.says for flavor, recipe in images.SERVERS.items()}
            raise UsageError(
                f"stack {self._stack} runs {says[has]}, not {says[options.flavor]}",
                f"`replexplorer down --stack {self._stack}` first, or another --stack",
            )
        if options.image is None or not servers:
            return
        wanted = self._image_id(options.image)
        if any(options.image != server.image and wanted != server.image_id for server in servers):
            raise UsageError(
                f"stack {self._stack} runs the image {servers[0].image}, not {options.image}",
                f"`replexplorer down --stack {self._stack}` first, or another --stack",
            )

    def _topology(
        self, asked: str | None, flavor: str | None, live: str | None, system: System
    ) -> tuple[StackFile, str]:
        """stack.yaml with the images in it, all of them here."""
        # Read once before anything is built, so that a broken file costs no build.
        read_stack_file(self._compose / "stack.yaml")
        image = asked or live
        ours = images.flavor_of(image) if image else None
        if image is None or (ours and self._image_id(image) is None and asked is None):
            server = images.server_for(system.name, ours or flavor or system.flavors[0])
            made = self._ensure([server, images.SIDECAR])
            image = made["mysqld"]
        else:
            if not ours and (asked or self._image_id(image) is None):
                images.require(image, self._report)
            made = self._ensure([images.SIDECAR])
            if asked:
                images.check_foreign(image, self._compose, self._report, system.name)
        variables = {
            "RX_STACK": self._stack,
            "RX_VERSION": replexplorer.__version__,
            "RX_SIDECAR_TAG": made["sidecar"].rpartition(":")[2],
            "RX_MYSQL_IMAGE": image,
            "RX_SYSTEM": system.name,
        }
        return read_stack_file(self._compose / "stack.yaml", variables), image

    def _image_id(self, name: str) -> str | None:
        return image_id(self._client, name)

    def _ensure(self, recipes: Sequence[images.Recipe]) -> dict[str, str]:
        """Have these images; role to reference."""
        return images.ensure(recipes, self._compose, self._report)

    def _make(self, found: Inventory, nodes: Sequence[str], topology: StackFile, image: str) -> None:
        self._report("creating the network and the volumes", 0.0)
        step = Steps(self._client, self._stack, found, topology)
        with ThreadPoolExecutor(len(nodes) + 2) as pool:
            network = pool.submit(step.network, self._subnet, len(nodes) - 1, image, enable_ipv6=False)
            volumes = [pool.submit(step.volume, "data", node) for node in nodes]
            volumes.append(pool.submit(step.volume, "tools", None))
            results_of([network, *volumes])
            accounts = self._accounts(found, network.result())
            self._stop_if_cancelled()
            self._report("starting the servers", 0.3)
            # The first sidecar fills the tools volume, then the passwords follow. The first node's
            # head start lets a replica's first connect find it listening: the next try is a second later.
            sidecar = step.sidecar(nodes[0])
            if accounts is not None:
                self._client.put_archive(sidecar.id, _SECRETS, secrets.archive(accounts))
            first = pool.submit(self._node, step, nodes[0], sidecar, None)
            results_of([first, *(pool.submit(self._node, step, node, None, first) for node in nodes[1:])])
        self._stop_if_cancelled()
        self._report("the servers are starting", 0.6)

    def _accounts(self, found: Inventory, network: str) -> secrets.Passwords | None:
        """The passwords to put on the tools volume; None when they lie there already.

        Data that is there keeps the passwords that it was made with.
        """
        by_compose = any(container.by_compose for container in found.containers)
        if by_compose and found.volumes and secrets.read(self._accounts_file) is None:
            return None
        accounts = self._passwords(found, network)
        return accounts if found.volume("tools") is None else None

    def _passwords(self, found: Inventory, network: str) -> secrets.Passwords:
        """The stack's passwords, made where there is no data yet, and kept on this machine."""
        if not found.volumes:
            accounts = secrets.generate(network)
        elif (kept := secrets.read(self._accounts_file)) is not None:
            accounts = secrets.Passwords(kept.passwords, network)
        else:
            raise StackUnavailable(
                f"stack {self._stack} found, cannot log in: its passwords are lost",
                f"replexplorer down --stack {self._stack}",
            )
        secrets.write(self._accounts_file, accounts)
        return accounts

    def _node(self, step: Steps, node: str, sidecar: Made | None, first: Future[None] | None) -> None:
        """Bring one node up: its sidecar, then (after `first`) the server in the sidecar's namespace."""
        self._stop_if_cancelled()
        made = sidecar or step.sidecar(node)
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(step.start, made)
            server = step.server(node, made)
            namespace_is_new = started.result()
        client = self._client_of(node)
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
        return _is_older(self._client_of(node), server.id, sidecar.id)

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise StackUnavailable("interrupted while the stack came up", "try again")


def _is_older(client: Any, server: str, sidecar: str) -> bool:
    """Whether a server was started before its sidecar was."""
    began = [str(client.inspect_container(one)["State"]["StartedAt"]) for one in (server, sidecar)]
    return datetime.fromisoformat(began[0]) < datetime.fromisoformat(began[1])


class Made:
    """A container that is there now."""

    def __init__(self, container_id: str, state: str) -> None:
        self.id = container_id
        self.state = state


class Steps:
    """Each object of a stack on one daemon: the one that is there, else a new one as stack.yaml says."""

    def __init__(
        self,
        client: Any,
        stack: str,
        found: Inventory,
        topology: StackFile,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`labels` are on what is made here beside those of the file."""
        self._client = client
        self._labels = dict(labels or {})
        self._prefix = f"replexplorer-{stack}"
        self._found = found
        self._topology = topology

    def network(
        self, subnet: str | None, replicas: int, image: str, driver: str = "bridge", **options: Any
    ) -> str:
        """The stack's network; answers what tells it from others of the same name."""
        if self._found.networks:
            return self._found.identity
        from docker.types import IPAMConfig, IPAMPool

        labels = {
            **self._topology.network_labels(),
            inventory.REPLICAS: str(replicas),
            inventory.IMAGE: image,
            **self._labels,
        }
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]) if subnet else None
        made = self._client.create_network(
            self._prefix, driver=driver, ipam=ipam, check_duplicate=True, labels=labels, **options
        )
        return str(made["Id"])

    def volume(self, role: str, node: str | None) -> Mapping[str, Any]:
        """A volume, as the daemon describes it."""
        if (found := self._found.volume(role, node)) is not None:
            return found
        made: Mapping[str, Any] = self._client.create_volume(
            self._volume_name(role, node), labels=self._topology.volume_labels(role, node) | self._labels
        )
        return made

    def sidecar(self, node: str) -> Made:
        """The container that has the node's network; one that was taken off it is made again, with its ports
        and aliases."""
        found = self._found.container(node, "sidecar")
        if found is not None and _is_disconnected(found):
            self._client.remove_container(found.id, force=True)
        elif found is not None:
            return Made(found.id, found.state)
        service = self._topology.service(node, "sidecar")
        network = self._network_name()
        aliases = list(next(iter(service.networks.values())).aliases)
        endpoint = self._client.create_endpoint_config(aliases=aliases)
        host = self._host_config(
            service,
            network_mode=network,
            port_bindings=dict(map(_binding, service.ports)),
        )
        return self._create(
            service,
            f"{self._prefix}-{node}-net",
            host,
            hostname=service.hostname,
            ports=[port for port, _ in map(_binding, service.ports)],
            networking_config=self._client.create_networking_config({network: endpoint}),
        )

    def server(self, node: str, sidecar: Made) -> Made:
        """The container of the node's server, in the network of this sidecar."""
        found = self._found.container(node, "mysqld")
        if found is not None and self._joined(found) == sidecar.id:
            return Made(found.id, found.state)
        if found is not None:
            self._client.remove_container(found.id, force=True, v=True)
        service = self._topology.service(node, "mysqld")
        host = self._host_config(service, network_mode=f"container:{sidecar.id}")
        return self._create(service, f"{self._prefix}-{node}", host)

    def start(self, made: Made) -> bool:
        """Make the container run; answers whether it had to be started."""
        if made.state == "running":
            return False
        if made.state == "paused":
            self._client.unpause(made.id)
            return False
        self._client.start(made.id)
        return True

    def _joined(self, server: Container) -> str:
        """The container whose namespace a server joined when it was made."""
        mode: str = self._client.inspect_container(server.id)["HostConfig"]["NetworkMode"]
        return mode.removeprefix("container:")

    def _create(self, service: Service, name: str, host: Any, **more: Any) -> Made:
        made = self._client.create_container(
            service.image,
            name=name,
            user=service.user,
            entrypoint=list(service.entrypoint) if service.entrypoint is not None else None,
            command=list(service.command) if service.command is not None else None,
            environment=service.environment,
            labels=service.labels | self._labels,
            stop_signal=service.stop_signal,
            host_config=host,
            **more,
        )
        return Made(made["Id"], "created")

    def _host_config(self, service: Service, **more: Any) -> Any:
        return self._client.create_host_config(
            binds=[self._bind(mount, service.node) for mount in service.volumes],
            cap_drop=list(service.cap_drop),
            cap_add=list(service.cap_add),
            cpu_shares=service.cpu_shares,
            nano_cpus=None if service.cpus is None else round(service.cpus * 1e9),
            mem_limit=service.mem_limit,
            group_add=list(service.group_add) or None,
            security_opt=list(service.security_opt),
            sysctls=dict(service.sysctls) or None,
            restart_policy={"Name": "no"},
            **more,
        )

    def _bind(self, mount: Mount, node: str) -> str:
        labels = self._topology.volumes[mount.volume].labels
        role = labels[inventory.ROLE]
        name = self._volume_name(role, node if inventory.NODE in labels else None)
        return f"{name}:{mount.path}:{'ro' if mount.read_only else 'rw'}"

    def _volume_name(self, role: str, node: str | None) -> str:
        found = self._found.volume(role, node)
        return str(found["Name"]) if found else "-".join(filter(None, (self._prefix, node, role)))

    def _network_name(self) -> str:
        return str(self._found.networks[0]["Name"]) if self._found.networks else self._prefix


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


def _binding(port: str) -> tuple[int, tuple[str, int | None]]:
    """`127.0.0.1::3306` as the SDK wants it."""
    host, published, inside = port.split(":")
    return int(inside), (host, int(published) if published else None)


def results_of(futures: Sequence[Future[Any]]) -> None:
    """Wait for all, then raise what the first failing one raised."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise errors[0]

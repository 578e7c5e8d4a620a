"""Bringing a stack up on several hosts: images on each, one overlay, then as on one host, node by node."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from replexplorer.adapters import secrets
from replexplorer.adapters.docker import images, inventory, placement
from replexplorer.adapters.docker.base_image import BUILD_SILENCE_S, image_id
from replexplorer.adapters.docker.build import Builder, Steps, results_of
from replexplorer.adapters.docker.client import connect
from replexplorer.adapters.docker.daemons import Daemons, manager_of
from replexplorer.adapters.docker.inventory import Inventory
from replexplorer.adapters.docker.placement import address_of
from replexplorer.adapters.docker.provider import put_roles
from replexplorer.adapters.docker.removal import remove_other_nodes, remove_stack
from replexplorer.adapters.docker.swarm import remove_overlay
from replexplorer.core.errors import MissingPiece, StackUnavailable
from replexplorer.core.system import System
from replexplorer.formats.stack_file import StackFile
from replexplorer.ports import Report, UpOptions

_SECRETS: Final = "/var/lib/replexplorer/tools/secrets"


class SwarmBuilder(Builder):
    """One `up` of one stack on several hosts; used once, in a thread of its own."""

    def __init__(
        self,
        daemons: Daemons,
        stack: str,
        compose: Path,
        accounts_file: Path,
        subnet: str | None,
        report: Report,
        cancelled: threading.Event,
    ) -> None:
        super().__init__(daemons, stack, compose, accounts_file, subnet, report, cancelled)
        self._daemons = daemons
        self._manager = ""
        """The host through which the swarm is managed."""
        self._found: dict[str, Inventory] = {}
        """What is there of the stack, by host."""

    def up(self, options: UpOptions) -> bool:
        """Make or mend; raises StackUnavailable naming a host that is away, or in no swarm."""
        was_known = placement.read(self._stack) is not None
        infos = self._daemons.every(lambda host, client: client.info())
        self._manager = manager_of(infos, self._daemons.at)
        try:
            created = super().up(options)
        except BaseException:
            if not was_known and not self._daemons.away:
                placement.forget(self._stack)
            raise
        if not self._daemons.placement.network:  # it was there, and this machine did not know it
            found = self._take()
            self._keep(found.identity, found.system())
        if self._daemons.placement.given_up is not None:  # all are there
            self._daemons.placement = replace(self._daemons.placement, given_up=None)
            placement.write(self._stack, self._daemons.placement)
        return created

    def _keep(self, network: str, system: str | None) -> None:
        placed = replace(self._daemons.placement, network=network, system=system)
        self._daemons.placement = placed
        placement.write(self._stack, placed)

    def _take(self) -> Inventory:
        found = self._found = self._daemons.every(lambda host, client: inventory.take(client, self._stack))
        return Inventory(
            tuple(each for some in found.values() for each in some.containers),
            found[self._manager].networks,
            tuple(each for some in found.values() for each in some.volumes),
        )

    def _nodes(self, options: UpOptions, found: Inventory, system: System) -> list[str]:
        nodes = super()._nodes(options, found, system)
        placed = self._daemons.placement
        self._daemons.placement = replace(placed, hosts=placement.checked(placed.hosts, nodes))
        return nodes

    def _remove(self) -> None:
        self._daemons.each(lambda host, client: remove_stack(client, self._stack, networks=False))
        remove_overlay(self._daemons, self._stack, patient=not self._daemons.away)

    def _remove_others(self, kept: Sequence[str]) -> None:
        self._daemons.each(lambda host, client: remove_other_nodes(client, self._stack, kept))

    def _client_of(self, node: str) -> Any:
        return self._daemons.of(node)

    def _image_id(self, name: str) -> str | None:
        """The image's id on a host that has it, else on this machine."""
        found = self._daemons.each(lambda host, client: image_id(client, name))
        known = next((each for each in found.values() if each is not None), None)
        if known is None:
            with suppress(MissingPiece), closing(connect()) as local:
                return image_id(local, name)
        return known

    def _ensure(self, recipes: Sequence[images.Recipe]) -> dict[str, str]:
        """Have these images on one host at least, else built on this machine, which has the network."""
        wanted = {recipe.role: images.reference(recipe, self._compose) for recipe in recipes}
        missing = [recipe for recipe in recipes if self._image_id(wanted[recipe.role]) is None]
        return wanted | (images.ensure(missing, self._compose, self._report) if missing else {})

    def _make(self, found: Inventory, nodes: Sequence[str], topology: StackFile, image: str) -> None:
        daemons, placed = self._daemons, self._daemons.placement
        service = topology.service(nodes[0], "sidecar")
        for name in (service.image, image):
            self._spread(name)
        self._stop_if_cancelled()
        self._report("creating the network and the volumes", 0.0)
        steps = {
            host: Steps(daemons.at(host), self._stack, self._found[host], topology, {inventory.HOST: host})
            for host in placed.names
        }
        whole = Steps(daemons.at(self._manager), self._stack, found, topology)
        network = whole.network(
            self._subnet, len(nodes) - 1, image, "overlay", attachable=True, scope="swarm"
        )
        self._keep(network, service.labels[inventory.SYSTEM])
        with ThreadPoolExecutor(2 * len(nodes) + 2) as pool:
            volumes = [pool.submit(steps[placed.hosts[node]].volume, "data", node) for node in nodes]
            volumes += [pool.submit(steps[host].volume, "tools", None) for host in placed.names]
            results_of(volumes)
            accounts = self._passwords(found, network)
            self._stop_if_cancelled()
            self._report("starting the servers", 0.3)
            # The first sidecar of each host fills the host's tools volume; passwords and roles follow.
            made = {}
            for host in placed.names:
                node = placed.nodes_on(host)[0]
                made[node] = sidecar = steps[host].sidecar(node)
                daemons.at(host).put_archive(sidecar.id, _SECRETS, secrets.archive(accounts))
                if placed.roles is not None:
                    put_roles(daemons.at(host), sidecar.id, placed.roles)
            first = pool.submit(self._node, steps[placed.hosts[nodes[0]]], nodes[0], made.get(nodes[0]), None)
            others = [
                pool.submit(self._node, steps[placed.hosts[node]], node, made.get(node), first)
                for node in nodes[1:]
            ]
            results_of([first, *others])
        self._stop_if_cancelled()
        self._report("the servers are starting", 0.6)

    def _spread(self, name: str) -> None:
        """Have an image on every host: what one has, or this machine, is loaded onto the others at once."""
        has = self._daemons.every(lambda host, client: image_id(client, name) is not None)
        missing = [host for host in self._daemons.placement.names if not has[host]]
        if not missing:
            return
        origin = next((host for host in has if has[host]), None)
        address = None if origin is None else address_of(origin)
        progress = _Loading(self._report, name, missing)

        def load(host: str) -> None:
            with ExitStack() as opened:
                source, target = (
                    opened.enter_context(closing[Any](connect(at, timeout_s=BUILD_SILENCE_S)))
                    for at in (address, address_of(host))
                )
                size = int(source.inspect_image(name)["Size"])
                for said in target.load_image(progress.counted(host, source.get_image(name), size)):
                    if "error" in said:
                        raise MissingPiece(f"{host} does not take the image {name}", str(said["error"]))
                if image_id(target, name) is None:
                    raise StackUnavailable(f"{host} has no image {name} after it was loaded", "try again")

        with ThreadPoolExecutor(len(missing)) as pool:
            results_of([pool.submit(load, host) for host in missing])


class _Loading:
    """One line for several hosts that an image is loaded onto."""

    def __init__(self, report: Report, name: str, hosts: Sequence[str]) -> None:
        self._report = report
        self._name = name
        self._done = dict.fromkeys(hosts, 0.0)

    def counted(self, host: str, stream: Iterator[bytes], size: int) -> Iterator[bytes]:
        """The stream, reported as it goes; `size` bytes are about all of it."""
        at = 0
        for block in stream:
            at += len(block)
            self._done[host] = min(at / size, 1.0) if size else 1.0
            # In tenths: each line that says something else is printed where no terminal rewrites it.
            words = ", ".join(f"{each} {10 * int(10 * share)} %" for each, share in self._done.items())
            self._report(f"loading {self._name}: {words}", sum(self._done.values()) / len(self._done))
            yield block

"""Keeping what is known fresh: one task a node, one for links, one for what other apps write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from replexplorer.core.counters import Rates, Sample, rates, restarted
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs import PRIMARY, Desired
from replexplorer.engine.bringup import watch_links
from replexplorer.engine.controls import Controls
from replexplorer.engine.observer import NodeSample
from replexplorer.ports import Lease

_PRIMARY_EVERY_S: Final = 0.5
_REPLICA_EVERY_S: Final = 1.0
_LINKS_EVERY_S: Final = 0.5
_SHARED_EVERY_S: Final = 1.0
_DOCKER_EVERY_S: Final = 2.0

_REBOOT_SLACK_S: Final = 1.0
"""An agent's uptime and our clock are read apart: its start may seem to move so far."""


class Listener(Protocol):
    """Who is told what the looking finds to have happened."""

    async def server_restarted(self, node: str) -> None:
        """A server began anew."""
        ...

    async def sidecar_restarted(self, node: str) -> None:
        """A sidecar's agent began anew."""
        ...

    async def written_elsewhere(self, changed: Desired, before: Desired, writer: str) -> None:
        """Another app wrote these requests; `before` has what was requested of them until then."""
        ...

    async def lease_seen(self, lease: Lease | None) -> None:
        """Who drives the load, each time that it was asked."""
        ...


class Watcher:
    """Background looking; it tells its listener when something happened by itself."""

    def __init__(self, controls: Controls, listener: Listener) -> None:
        self._controls = controls
        self._clock = controls.fleet.outside.clock
        self._listener = listener
        self._tasks: list[asyncio.Task[None]] = []
        self._boots_s: dict[str, float] = {}
        """When each agent started, on our clock."""
        self.lease: Lease | None = None
        """Who drives the load, as last seen."""
        self.footprint_bytes: int | None = None

    def start(self) -> None:
        """Begin to look; what is requested by now is nobody's news."""
        self._controls.noted = dict(self._controls.requested.values)
        loops: list[Coroutine[Any, Any, None]] = [
            *(self._watch_node(name) for name in self._controls.fleet.members),
            self._every(_LINKS_EVERY_S, self._controls.look_at_links),
            self._every(_SHARED_EVERY_S, self._look_at_shared),
            self._every(_DOCKER_EVERY_S, self._look_at_containers),
        ]
        self._tasks = [asyncio.create_task(loop, name="watch") for loop in loops]

    async def stop(self) -> None:
        """End all looking."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def failed(self) -> BaseException | None:
        """A defect that ended a task; None while all is well."""
        return next(
            (
                task.exception()
                for task in self._tasks
                if task.done() and not task.cancelled() and task.exception()
            ),
            None,
        )

    def server_rates(self) -> Rates | None:
        """What the primary's counters say of the time between its last two samples."""
        now, before = (
            self._controls.samples.get(PRIMARY),
            self._controls.samples_before.get(PRIMARY),
        )
        return rates(_counted(before), _counted(now)) if now and before else None

    async def _every(self, seconds: float, look: Callable[[], Awaitable[object]]) -> None:
        while True:
            with contextlib.suppress(ReplexplorerError):  # shown by what the look left unknown
                await look()
            await self._clock.sleep(seconds)

    async def _watch_node(self, name: str) -> None:
        every_s = _PRIMARY_EVERY_S if name == PRIMARY else _REPLICA_EVERY_S
        answered: NodeSample | None = None
        while name in self._controls.fleet.members:
            sample = await self._controls.look(name)
            if sample.view.reachable and sample.values:
                if answered is not None and restarted(_counted(answered), _counted(sample)):
                    self._controls.fleet.members[name].capabilities = None
                    await self._controls.look(name)
                    await self._listener.server_restarted(name)
                answered = sample
            await self._clock.sleep(every_s)

    async def _look_at_shared(self) -> None:
        """The document and the lease, which other apps write."""
        controls = self._controls
        changed, before = await controls.news()
        if changed:
            writer = controls.requested.writer
            if writer == controls.writer:  # ours came after the other's
                writer = "another app"
            await self._listener.written_elsewhere(changed, before, writer)
        self.lease = await controls.fleet.primary.agent.lease()
        await self._listener.lease_seen(self.lease)

    async def _look_at_containers(self) -> None:
        """Addresses move when a sidecar is made anew; the links' probes then have to be set again."""
        before = {name: member.address.address for name, member in self._controls.fleet.members.items()}
        await self._controls.fleet.discover()
        after = {name: member.address.address for name, member in self._controls.fleet.members.items()}
        begun = [name for name in after if await self._agent_restarted(name)]
        if before != after or begun:
            await watch_links(self._controls.fleet)
        for name in begun:
            await self._listener.sidecar_restarted(name)

    async def _agent_restarted(self, node: str) -> bool:
        """Whether the agent began anew since it was last asked; False while it does not answer."""
        try:
            health = await self._controls.fleet.members[node].agent.health()
        except ReplexplorerError:
            return False
        boot_s = self._clock.monotonic() - float(health["uptime_s"])
        known_s = self._boots_s.setdefault(node, boot_s)
        self._boots_s[node] = boot_s
        return boot_s - known_s > _REBOOT_SLACK_S


def _counted(sample: NodeSample) -> Sample:
    return Sample(sample.at_s, sample.status, sample.view.server_uuid)

"""Keeping what is known fresh: one task a node, one for links, one for what other apps write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from replexplorer.core.counters import Rates, Sample, rates, restarted
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs import PRIMARY
from replexplorer.engine.bringup import watch_links
from replexplorer.engine.controls import Controls
from replexplorer.engine.observer import NodeSample
from replexplorer.engine.requested import Requested
from replexplorer.ports import Lease

_PRIMARY_EVERY_S: Final = 0.5
_REPLICA_EVERY_S: Final = 1.0
_LINKS_EVERY_S: Final = 0.5
_SHARED_EVERY_S: Final = 1.0
_DOCKER_EVERY_S: Final = 2.0

OnRestart = Callable[[str], Awaitable[None]]
OnDocument = Callable[[Requested, Requested], Awaitable[None]]


class Watcher:
    """Background looking; it calls back when a server restarted or another app wrote the document."""

    def __init__(self, controls: Controls, *, on_restart: OnRestart, on_document: OnDocument) -> None:
        self._controls = controls
        self._clock = controls.fleet.outside.clock
        self._on_restart = on_restart
        self._on_document = on_document
        self._tasks: list[asyncio.Task[None]] = []
        self.lease: Lease | None = None
        """Who drives the load, as last seen."""
        self.footprint_bytes: int | None = None

    def start(self) -> None:
        """Begin to look."""
        loops: list[Coroutine[Any, Any, None]] = [
            *(self._watch_node(name) for name in self._controls.fleet.members),
            self._every(_LINKS_EVERY_S, self._controls.look_at_links),
            self._every(_SHARED_EVERY_S, self._look_at_shared),
            self._every(_DOCKER_EVERY_S, self._look_at_containers),
        ]
        self._tasks = [asyncio.create_task(loop, name="watch") for loop in loops]

    async def stop(self) -> None:
        """End all looking."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

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
                    await self._on_restart(name)
                answered = sample
            await self._clock.sleep(every_s)

    async def _look_at_shared(self) -> None:
        """The document and the lease, which other apps write."""
        known = self._controls.requested
        await self._controls.read_document()
        now = self._controls.requested
        if now.version > known.version and now.writer != self._controls.writer:
            await self._on_document(known, now)
        self.lease = await self._controls.fleet.primary.agent.lease()

    async def _look_at_containers(self) -> None:
        """Addresses move when a sidecar is made anew; the links' probes then have to be set again."""
        before = {name: member.address.address for name, member in self._controls.fleet.members.items()}
        await self._controls.fleet.discover()
        after = {name: member.address.address for name, member in self._controls.fleet.members.items()}
        if before != after:
            await watch_links(self._controls.fleet)


def _counted(sample: NodeSample) -> Sample:
    return Sample(sample.at_s, sample.status, sample.view.server_uuid)

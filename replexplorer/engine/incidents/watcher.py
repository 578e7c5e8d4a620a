"""Keeping what is known fresh: one task a node, one for links, for disks, for what other apps write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from replexplorer.core.errors import NoSuchStack, ReplexplorerError
from replexplorer.core.knobs import keys
from replexplorer.core.server.counters import Rates, rates, restarted
from replexplorer.core.topology import Role
from replexplorer.engine.asking import probe
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.fleet import Member
from replexplorer.engine.incidents.responder import Responder
from replexplorer.engine.load import EVERY_S as _HEARTBEAT_EVERY_S
from replexplorer.engine.load import Heartbeat
from replexplorer.engine.observe.samples import NodeSample, watch_links
from replexplorer.ports import NodeAddress

_SOURCE_EVERY_S: Final = 0.5
_REPLICA_EVERY_S: Final = 1.0
_LINKS_EVERY_S: Final = 1.0
_SHARED_EVERY_S: Final = 1.0
_PLACES_EVERY_S: Final = 3.0
_GTIDS_EVERY_S: Final = 5.0


class Watcher:
    """Background looking; it tells its responder when something happened by itself."""

    def __init__(self, controls: Controls, responder: Responder, *, beats: bool = False) -> None:
        self._sight = controls.sight
        self._drift = controls.drift
        self._turns = controls.turns
        self._beats = beats
        self.heartbeat = Heartbeat(controls.fleet)
        self._clock = controls.clock
        self._responder = responder
        self._tasks: list[asyncio.Task[None]] = []
        self._node_tasks: dict[str, asyncio.Task[None]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By node: who finds out whose change that was."""
        self._primary: Member | None = None
        """The primary as the responder knows it."""
        self._boots: dict[str, str | None] = {}
        """What each agent drew when it began, as last seen."""
        self._is_there = True
        """Something of the stack is."""
        self._errant: set[str] = set()
        """Replicas with transactions that the primary lacks."""
        self._diverged: set[str] = set()
        """Nodes that differ from the source until they are copied."""

    def start(self) -> None:
        """Begin to look; what is requested by now is nobody's news."""
        self._drift.open()
        loops: list[Coroutine[Any, Any, None]] = [
            self._every(_LINKS_EVERY_S, self._sight.look_at_links),
            self._every(_LINKS_EVERY_S, self._sight.look_at_disks),
            self._every(_SHARED_EVERY_S, self._look_at_shared),
            self._every(_PLACES_EVERY_S, self._look_at_places),
            self._every(_GTIDS_EVERY_S, self._look_at_gtids),
            self._watch_exposure(),
        ]
        if self._beats:
            loops.append(self._every(_HEARTBEAT_EVERY_S, self._beat))
        self._primary = self._sight.fleet.source
        self._follow_members()
        self._tasks = [asyncio.create_task(loop, name="watch") for loop in loops]

    def _follow_members(self) -> None:
        """Watch every node that is there; the watching of one that is gone ends by itself."""
        for name in self._sight.fleet.members:
            task = self._node_tasks.get(name)
            if task is None or (task.done() and (task.cancelled() or task.exception() is None)):
                self._node_tasks[name] = asyncio.create_task(self._watch_node(name), name=f"watch {name}")

    async def stop(self) -> None:
        """End all looking."""
        tasks = [*self._tasks, *self._node_tasks.values(), *self._asking.values()]
        self._tasks, self._node_tasks, self._asking = [], {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.heartbeat.close()

    @property
    def failed(self) -> BaseException | None:
        """A defect that ended a task; None while all is well."""
        return next(
            (
                task.exception()
                for task in (*self._tasks, *self._node_tasks.values(), *self._asking.values())
                if task.done() and not task.cancelled() and task.exception()
            ),
            None,
        )

    def server_rates(self) -> Rates | None:
        """What the primary's counters say of the time between its last two samples."""
        now, before = (
            self._sight.source_sample,
            self._sight.source_sample_before,
        )
        return rates(before.counters, now.counters) if now and before else None

    async def _every(self, seconds: float, look: Callable[[], Awaitable[object]]) -> None:
        while True:
            with contextlib.suppress(ReplexplorerError):  # shown by what the look left unknown
                await look()
            await self._clock.sleep(seconds)

    async def _watch_exposure(self) -> None:
        exposures = self._sight.exposures
        while True:
            await exposures.look()
            kept, alone = self._sight.requested.alone, exposures.alone
            if alone not in (None, kept) or (kept is not None and exposures.is_answered):
                with contextlib.suppress(ReplexplorerError):  # tried again with the next look
                    await self._responder.silence_seen(alone)
            await self._clock.sleep(exposures.every_s)

    async def _watch_node(self, name: str) -> None:
        answered: NodeSample | None = None
        reachable = True
        while (member := self._sight.fleet.members.get(name)) is not None:
            source = self._sight.fleet.source_name
            sample = await self._sight.look_closely(name)
            if source != self._sight.fleet.source_name:
                with contextlib.suppress(ReplexplorerError):  # tried again with the places
                    await self._look_whether_moved()
            if sample.view.reachable != reachable:
                reachable = sample.view.reachable
                self._responder.reachable_seen(name, reachable)
            if sample.membership is not None:
                self._responder.member_seen(sample.view)
            elif not sample.view.is_source and sample.view.role is not Role.DETACHED:
                self._responder.threads_seen(sample.view)
            if sample.view.is_source and not reachable:
                with contextlib.suppress(ReplexplorerError):
                    self._see_whether_there(await self._sight.fleet.outside.provider.nodes())
            if sample.view.reachable and sample.values:
                if answered is not None and restarted(answered.counters, sample.counters):
                    with contextlib.suppress(ReplexplorerError):
                        # Another version may have started; whoever asks meanwhile knows the one before.
                        member.probed = await probe(member.poll)
                    if name not in self._sight.fleet.members:
                        return
                    await self._sight.look(name)
                    self._drift.found(name)
                    await self._responder.server_restarted(name)
                elif answered is None:
                    self._drift.found(name)
                elif self._drift.unaccounted(name) and not self._turns.is_changing:
                    self._ask_whose(name)
                answered = sample
            source = self._sight.fleet.source_name
            await self._clock.sleep(_SOURCE_EVERY_S if name == source else _REPLICA_EVERY_S)

    def _see_whether_there(self, nodes: Sequence[NodeAddress]) -> None:
        """Tell that the stack has gone, once, and that it is back."""
        if bool(nodes) != self._is_there:
            self._is_there = bool(nodes)
            self._responder.stack_seen(self._is_there)

    async def _look_at_gtids(self) -> None:
        """What replicas have and the primary lacks."""
        await self._sight.look_at_gtids()
        for node, gtids in self._sight.errant_gtids.items():
            if gtids is not None and bool(gtids) != (node in self._errant):
                self._errant ^= {node}
                self._responder.errant_seen(node, gtids)
        self._look_at_diverged()

    def _look_at_diverged(self) -> None:
        """Which nodes differ until they are copied, by what is kept and by what they have lost; of one that
        was not asked for its transactions nothing is over."""
        for node in self._sight.fleet.replica_names:
            why = self._sight.diverged(node)
            is_whole = why is None and self._sight.holes.get(node) == ""
            if is_whole if node in self._diverged else why is not None:
                self._diverged ^= {node}
                self._responder.diverged_seen(node, why)

    def _ask_whose(self, node: str) -> None:
        """Find out whose change that was, beside the looking: another app's may be under way for long."""
        asking = self._asking.get(node)
        if asking is None or (asking.done() and (asking.cancelled() or asking.exception() is None)):
            self._asking[node] = asyncio.create_task(self._tell_whose(node), name=f"whose {node}")

    async def _tell_whose(self, node: str) -> None:
        with contextlib.suppress(ReplexplorerError):  # asked again with the next look
            changes = await self._drift.set_by_hand(node)
            if changes:
                self._responder.set_by_hand(node, changes)

    async def _beat(self) -> None:
        """One heartbeat while our load runs."""
        if self._sight.load.effective().get(keys.CLIENTS):
            await self.heartbeat.beat()

    async def _look_at_shared(self) -> None:
        """The document and the lease, which other apps write."""
        sight = self._sight
        changed, before = await self._drift.news()
        if changed:
            writer = sight.requested.writer
            if writer == self._turns.actor.writer:  # ours came after the other's
                writer = "another app"
            await self._responder.written_elsewhere(changed, before, writer)
        self._responder.faults_seen(*self._drift.fault_news())
        self._responder.marks_seen(self._drift.mark_news())
        self._look_at_diverged()
        sight.driver = await sight.fleet.keeper.lease()
        await self._responder.lease_seen(sight.driver)

    async def _look_at_places(self) -> None:
        """Addresses move when a sidecar is recreated; the links' probes then have to be set again."""
        fleet = self._sight.fleet
        before, known = dict(fleet.members), fleet.credentials
        try:
            await fleet.discover()
        except NoSuchStack:
            self._see_whether_there(())
            raise
        self._see_whether_there([member.address for member in fleet.members.values()])
        if known != fleet.credentials:
            await self._begin_anew()
        after = dict(fleet.members)
        self._follow_members()
        begun = [name for name, member in after.items() if await self._agent_restarted(member)]
        if before != after or begun:
            await watch_links(fleet, self._sight.pairs_of_interest())
        for name in begun:
            await self._responder.sidecar_restarted(name)
        await self._look_whether_moved()

    async def _look_whether_moved(self) -> None:
        """Tell that the source is another one, or elsewhere; told once."""
        primary = self._sight.fleet.source
        if primary is not self._primary and primary.capabilities is not None:
            before, self._primary = self._primary, primary
            try:
                await self._responder.primary_moved()
            except ReplexplorerError:
                self._primary = before
                raise

    async def _begin_anew(self) -> None:
        """Another stack of the same name: nothing that was seen says anything of it."""
        for task in self._node_tasks.values():
            task.cancel()
        await asyncio.gather(*self._node_tasks.values(), return_exceptions=True)
        self._node_tasks.clear()
        self._boots.clear()
        self._errant.clear()
        self._diverged.clear()
        await self._responder.stack_remade()

    async def _agent_restarted(self, member: Member) -> bool:
        """Whether the agent restarted since it was last asked; False while it does not answer."""
        try:
            boot = (await member.agent.health()).boot
        except ReplexplorerError:
            return False
        known, self._boots[member.name] = self._boots.get(member.name, boot), boot
        return boot != known

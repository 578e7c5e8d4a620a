"""Keeping what is known fresh, saying what happened by itself, and giving back what was taken: one task a
node, one for links, for disks, for what other apps write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final

from replexplorer.core.errors import NoSuchStack, ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.fault import Fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, format_change, same_value
from replexplorer.core.preset import DataChange
from replexplorer.core.role_change import ChangeKind
from replexplorer.core.server.counters import Rates, rates, restarted
from replexplorer.core.server.exposure import Alone
from replexplorer.core.server.gtid import transactions
from replexplorer.core.server.node_view import Membership, NodeView, ThreadWatch, member_news
from replexplorer.core.topology import Role
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.restore import Restorer
from replexplorer.engine.fleet import Member
from replexplorer.engine.load import EVERY_S as _HEARTBEAT_EVERY_S
from replexplorer.engine.load import Driving, Heartbeat, LoadDriver
from replexplorer.engine.observe.exposure_watch import EVERY_S as EXPOSURE_EVERY_S
from replexplorer.engine.observe.samples import NodeSample, probe, watch_links
from replexplorer.engine.tasks import Patience, end_all
from replexplorer.ports import NodeAddress

_SOURCE_EVERY_S: Final = 0.5
_EVERY_S: Final = 1.0
"""Replicas, links, disks, and what other apps write."""
_PLACES_EVERY_S: Final = 3.0
_GTIDS_EVERY_S: Final = 5.0
_LET_IN_WITHIN_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.5


class Monitor:
    """Background looking at one stack."""

    def __init__(
        self,
        controls: Controls,
        restorer: Restorer,
        load: LoadDriver,
        driving: Driving,
        faults: Faults,
        *,
        beats: bool,
        only_watches: bool,
    ) -> None:
        """It `beats` while our load runs; one that `only_watches` restores and keeps nothing."""
        self._controls = controls
        self._state = controls.state
        self._fleet = controls.fleet
        self._drift = controls.drift
        self._turns = controls.turns
        self._event_log = controls.event_log
        self._tell = controls.event_log.tell
        self._clock = controls.clock
        self._restorer = restorer
        self._load = load
        self._driving = driving
        self._faults = faults
        self._beats = beats
        self._only_watches = only_watches
        self.heartbeat = Heartbeat(controls.fleet)
        self.on_remade: Callable[[], None] = lambda: None
        """Called when the stack was replaced under the same name; forget earlier changes."""
        self._tasks: list[asyncio.Task[None]] = []
        self._node_tasks: dict[str, asyncio.Task[None]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By node: who finds out whose change that was."""
        self._primary: Member | None = None
        """The primary as our load knows it."""
        self._boots: dict[str, str | None] = {}
        """What each agent drew when it began, as last seen."""
        self._is_there = True
        """Something of the stack is."""
        self._errant: set[str] = set()
        """Replicas with transactions that the primary lacks."""
        self._diverged: set[str] = set()
        """Nodes that differ from the source until they are copied."""
        self._threads: dict[str, ThreadWatch] = {}
        """By replica."""
        self._members: dict[str, Membership] = {}
        """By node of a group, what it said last."""
        self._data_change: DataChange | None = None
        """The last one that is known."""
        self._takes_writes: str | None = None
        """The node of a group that did when it was last told."""

    def start(self) -> None:
        """Begin to look; what is requested by now counts as known."""
        self._drift.open()
        self._data_change = self._state.requested.data_change
        loops: list[Coroutine[Any, Any, None]] = [
            self._every(_EVERY_S, self._state.look_at_links),
            self._every(_EVERY_S, self._state.look_at_disks),
            self._every(_EVERY_S, self._look_at_shared),
            self._every(_PLACES_EVERY_S, self._look_at_places),
            self._every(_GTIDS_EVERY_S, self._look_at_gtids),
            self._watch_exposure(),
        ]
        if self._beats:
            loops.append(self._every(_HEARTBEAT_EVERY_S, self._beat))
        self._primary = self._fleet.source
        self._follow_members()
        self._tasks = [asyncio.create_task(loop, name="watch") for loop in loops]

    def _follow_members(self) -> None:
        """Watch every node that is there; the watching of one that is gone ends by itself."""
        for name in self._fleet.members:
            if _may_begin(self._node_tasks.get(name)):
                self._node_tasks[name] = asyncio.create_task(self._watch_node(name), name=f"watch {name}")

    def _all_tasks(self) -> list[asyncio.Task[None]]:
        return [*self._tasks, *self._node_tasks.values(), *self._asking.values()]

    async def stop(self) -> None:
        """End all looking."""
        tasks = self._all_tasks()
        self._tasks, self._node_tasks, self._asking = [], {}, {}
        await end_all(*tasks)
        await self.heartbeat.close()

    @property
    def failed(self) -> BaseException | None:
        """A defect that ended a task; None while all is well."""
        ended = (task for task in self._all_tasks() if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception())), None)

    def server_rates(self) -> Rates | None:
        """What the primary's counters say of the time between its last two samples."""
        now, before = self._state.source_sample, self._state.source_sample_before
        return rates(before.counters, now.counters) if now and before else None

    async def _every(self, seconds: float, look: Callable[[], Awaitable[object]]) -> None:
        while True:
            with contextlib.suppress(ReplexplorerError):  # shown by what the look left unknown
                await look()
            await self._clock.sleep(seconds)

    async def _beat(self) -> None:
        """One heartbeat while our load runs."""
        if self._state.load.effective().get(keys.CLIENTS):
            await self.heartbeat.beat()

    async def _watch_exposure(self) -> None:
        """What a failure would lose; since when no replica answers is kept for whoever looks later, as
        `status` does."""
        exposures = self._state.exposures
        while True:
            await exposures.look()
            kept, alone = self._state.requested.alone, exposures.alone
            is_news = alone not in (None, kept) or (kept is not None and exposures.is_answered)
            if is_news and not self._only_watches:
                with contextlib.suppress(ReplexplorerError):  # tried again with the next look
                    await self._keep_alone(alone)
            await self._clock.sleep(EXPOSURE_EVERY_S)

    async def _keep_alone(self, alone: Alone | None) -> None:
        await self._state.write(lambda now: replace(now, alone=alone))

    # -- a node

    async def _watch_node(self, name: str) -> None:
        answered: NodeSample | None = None
        reachable = True
        while (member := self._fleet.members.get(name)) is not None:
            source = self._fleet.source_name
            sample = await self._state.look_closely(name)
            view = sample.view
            if source != self._fleet.source_name:
                with contextlib.suppress(ReplexplorerError):  # tried again with the places
                    await self._look_whether_moved()
            if view.reachable != reachable:
                reachable = view.reachable
                if reachable:
                    self._tell(Severity.GOOD, f"{name} answers again")
                else:
                    self._tell(Severity.BAD, f"{name} is down: {view.why_down or 'no login succeeds'}")
            self._look_at_replication(view)
            if view.is_source and not reachable:
                with contextlib.suppress(ReplexplorerError):
                    self._see_whether_there(await self._fleet.outside.provider.nodes())
            if reachable and sample.values:
                if answered is not None and restarted(answered.counters, sample.counters):
                    with contextlib.suppress(ReplexplorerError):
                        # Another version may have started; whoever asks meanwhile knows the one before.
                        member.probed = await probe(member.poll)
                    if name not in self._fleet.members:
                        return
                    await self._state.look(name)
                    self._drift.found(name)
                    await self._server_restarted(name)
                elif answered is None:
                    self._drift.found(name)
                elif self._drift.unaccounted(name) and not self._turns.is_changing:
                    self._ask_whose(name)
                answered = sample
            await self._clock.sleep(_SOURCE_EVERY_S if name == self._fleet.source_name else _EVERY_S)

    def _look_at_replication(self, view: NodeView) -> None:
        """Say what a replica's threads are where that is another thing than before, or what a node of a group
        says of it; while a change is under way threads come and go with it."""
        if view.member is not None:
            if self._takes_writes is None and view.is_source:
                self._takes_writes = view.name
            for told in member_news(view.name, self._members.get(view.name), view.member):
                self._tell(*told)
            self._members[view.name] = view.member
        elif view.is_source or view.role is Role.DETACHED or self._event_log.unchanged_since_s == inf:
            return
        elif news := self._threads.setdefault(view.name, ThreadWatch()).seen(view):
            self._tell(*news)

    async def _server_restarted(self, node: str) -> None:
        """A server restarted and lost what SET GLOBAL had set: restore it as configured."""
        self._event_log.server_restarted(node)
        if self._only_watches:
            self._tell(Severity.WARN, f"{node} restarted")
            return
        if node == self._fleet.source_name:
            self._state.own.offs = 0
        if self._fleet.system.is_group:
            await self._until_member(node)
        await self._faults.came_back(node)
        await self._state.look_at_links()
        await self._restorer.restore(f"{node} restarted", self._state.lost_values((node,)))

    async def _until_member(self, node: str) -> None:
        """Wait for a server to be let into its group: its variables cannot be set on the way there; one that
        is not let in in time is left to `up`."""
        patience = Patience(self._clock, _LET_IN_WITHIN_S, _LOOK_EVERY_S)
        while await patience.again():
            member = (await self._state.look(node)).view.member
            if member is not None and member.is_ready:
                return

    def _ask_whose(self, node: str) -> None:
        """Find out whose change that was, in the background: another app's may be under way for long."""
        if _may_begin(self._asking.get(node)):
            self._asking[node] = asyncio.create_task(self._tell_whose(node), name=f"whose {node}")

    async def _tell_whose(self, node: str) -> None:
        with contextlib.suppress(ReplexplorerError):  # asked again with the next look
            changes = await self._drift.set_by_hand(node)
            if changes:
                self._set_by_hand(node, changes)

    def _set_by_hand(self, node: str, changes: Mapping[KnobName, tuple[Value, Value]]) -> None:
        """Record variables of a server that were changed by other clients."""
        title = ", ".join(format_change(name, before, now) for name, (before, now) in changes.items())
        wanted = self._state.requested_value
        again = all(same_value(name.knob, wanted(name), now) for name, (_, now) in changes.items())
        whose = f"by hand on {node}{', as requested again' if again else ''}"
        self._event_log.mark(title, f"{title}, {whose}")

    # -- what replicas have

    async def _look_at_gtids(self) -> None:
        """What replicas have and the primary lacks."""
        await self._state.look_at_gtids()
        for node, gtids in self._state.errant_gtids.items():
            if gtids is None or bool(gtids) == (node in self._errant):
                continue
            self._errant ^= {node}
            if gtids:
                lacks = f"{node} has {transactions(gtids)} that the source lacks: {gtids}"
                self._tell(Severity.BAD, lacks)
            else:
                self._tell(Severity.GOOD, f"{node} no longer has transactions that the source lacks")
        self._look_at_diverged()

    def _look_at_diverged(self) -> None:
        """Which nodes differ until they are copied, by what is kept and by what they have lost; of one that
        was not asked for its transactions nothing is over. One that is being copied has no log
        meanwhile."""
        change = self._state.requested.role_change
        copied = change.source if change is not None and change.kind is ChangeKind.REJOIN else None
        for node in self._fleet.replica_names:
            if node == copied:
                continue
            why = self._state.divergence(node)
            if node not in self._diverged and why is not None:
                self._diverged.add(node)
                self._tell(Severity.BAD, f"{node} DIVERGED: {why}")
            elif node in self._diverged and why is None and self._state.holes.get(node) == "":
                self._diverged.remove(node)
                self._tell(Severity.GOOD, f"{node} no longer differs from the source")

    # -- other apps

    async def _look_at_shared(self) -> None:
        """The document and the lease, which other apps write."""
        state = self._state
        changed, before = await self._drift.news()
        if changed:
            writer = state.requested.writer
            if writer == self._turns.actor.writer:  # ours came after the other's
                writer = "another app"
            await self._written_elsewhere(changed, before, writer)
        injected, cleared = self._drift.fault_news()
        for fault in injected:
            self._fault_seen(fault, f"fault {fault}", f"by {fault.by}", Severity.BAD)
        for fault in cleared:
            self._fault_seen(fault, f"fault over: {fault}", "by another app", Severity.GOOD)
        for mark in self._drift.mark_news():
            if mark.loss_of:  # what they found lost is a fact alone
                self._tell(Severity.BAD, mark.text)
            else:
                self._event_log.mark(mark.text, f"{mark.text}, by {mark.by}")
        self._look_at_diverged()
        await self._look_at_data_change()
        state.driver = await self._fleet.keeper.lease()
        if self._only_watches:
            self._driving.watch(state.driver)
        await self._driving.lease_seen(state.driver)

    async def _look_at_data_change(self) -> None:
        """Where rows were set back our load begins again: its table may be gone."""
        change, before = self._state.requested.data_change, self._data_change
        self._data_change = change
        if change and change != before and change.sets_back and change.ended_s and self._load.is_running:
            await self._driving.stop()
            self._driving.begin()

    async def _written_elsewhere(self, changed: Desired, before: Desired, writer: str) -> None:
        """Another app turned knobs: mark it, and let our load follow."""
        title = ", ".join(
            format_change(name, before.get(name, name.knob.default), value) for name, value in changed.items()
        )
        number = self._event_log.begin_change(title, changed)
        load = {name.key: value for name, value in changed.items() if name.knob.backing is Backing.LOAD}
        try:
            if load and self._load.is_running:
                await self._load.change(load)
        except ReplexplorerError as error:
            self._event_log.change_failed(number, f"{title}, by {writer}: our load did not follow: {error}")
            return
        self._event_log.change_effective(number, title, f"{title}, by {writer}")

    def _fault_seen(self, fault: Fault, title: str, whose: str, severity: Severity) -> None:
        """Another app injected a fault or took it back: mark it, unless the knobs that it turned for that
        have a mark already."""
        if fault.before:
            self._tell(severity, f"{title}, {whose}")
        else:
            self._event_log.mark(title, f"{title}, {whose}")

    # -- places

    def _see_whether_there(self, nodes: Sequence[NodeAddress]) -> None:
        """Tell that all of the stack has gone, once, and that something of its name is there again."""
        if bool(nodes) == self._is_there:
            return
        self._is_there = bool(nodes)
        name = self._fleet.outside.provider.name
        self._load.lose(None if self._is_there else f"stack '{name}' was removed")
        if self._load.lost is not None:
            self._tell(Severity.BAD, self._load.lost)

    async def _look_at_places(self) -> None:
        """Addresses move when a sidecar is recreated; the links' probes then have to be set again."""
        fleet = self._fleet
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
            await watch_links(fleet, self._state.pairs_of_interest())
        for name in begun:
            await self._sidecar_restarted(name)
        await self._look_whether_moved()

    async def _agent_restarted(self, member: Member) -> bool:
        """Whether the agent restarted since it was last asked; False while it does not answer."""
        try:
            boot = (await member.agent.health()).boot
        except ReplexplorerError:
            return False
        known, self._boots[member.name] = self._boots.get(member.name, boot), boot
        return boot != known

    async def _sidecar_restarted(self, node: str) -> None:
        """A sidecar's agent began without its rules: restore links and disk as configured."""
        if self._only_watches:
            self._tell(Severity.WARN, f"the sidecar of {node} restarted")
            return
        await asyncio.gather(self._state.look_at_links(), self._state.look_at_disks())
        await self._restorer.restore(f"the sidecar of {node} restarted", self._state.lost_by_sidecar(node))
        try:
            await self._faults.resume_flaps(node)
        except ReplexplorerError as error:
            self._tell(Severity.WARN, f"the link of {node} stopped flapping: {error}")

    async def _look_whether_moved(self) -> None:
        """Where the primary is another node, or answers at another place or to another password, our load
        goes on there; of a group that is an election, a mark as any change's."""
        primary = self._fleet.source
        if primary is self._primary or primary.capabilities is None:
            return
        before, self._primary = self._primary, primary
        elected, self._takes_writes = self._takes_writes != primary.name, primary.name
        if self._fleet.system.is_group and elected:
            self._event_log.mark(f"election: {primary.name} takes writes")
        try:
            if await self._driving.follow():
                self._tell(Severity.INFO, f"the load continues at {primary.name}")
        except ReplexplorerError:
            self._primary = before
            raise

    async def _begin_anew(self) -> None:
        """Another stack of the same name: nothing that was seen says anything of it, or is so any more."""
        for task in self._node_tasks.values():
            task.cancel()
        await asyncio.gather(*self._node_tasks.values(), return_exceptions=True)
        for known in (self._node_tasks, self._boots, self._errant, self._diverged):
            known.clear()
        self.on_remade()
        self._restorer.forget()
        self._state.forget()
        self._drift.forget()
        await self._state.read_document()
        self._tell(Severity.WARN, "the stack was removed and created again: its knobs and rows are new")


def _may_begin(task: asyncio.Task[None] | None) -> bool:
    """Whether there is none, or it has ended without a defect, which is to be seen."""
    return task is None or (task.done() and (task.cancelled() or task.exception() is None))

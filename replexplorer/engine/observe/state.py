"""What is known of a stack: servers, links and requests, as last looked at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from replexplorer.core.change.planner import Observed
from replexplorer.core.dialect.dialect import Capabilities
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import Fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SEMI_SYNC,
    Backing,
    KnobName,
    KnobView,
    Place,
    Value,
    all_names,
    for_joined,
    same_value,
)
from replexplorer.core.link import LinkSettings, LinkView
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.role_change import hole_words, outlived_words
from replexplorer.core.server.comeback import Acknowledged
from replexplorer.core.server.counters import BinlogLook, binlogs_of
from replexplorer.core.server.disk import DISK_KNOBS, DiskView, is_over
from replexplorer.core.server.gtid import numbered_by, subtract_gtids
from replexplorer.core.server.node_view import NodeView, diverged_words, judge_group
from replexplorer.core.server.protection import (
    Evidence,
    Protection,
    ProtectionState,
    acks_between,
    blocked_after_s,
    judge,
)
from replexplorer.core.topology import Role, ends_of, in_order, is_pair, role_of
from replexplorer.core.wire import Lease
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.exposure_watch import ExposureWatch
from replexplorer.engine.observe.samples import (
    NodeSample,
    TimeoutLook,
    asked,
    bare_view,
    errant_gtids,
    hole_of,
    sample_applied,
    sample_commits,
    sample_disk,
    sample_link,
    sample_node,
    standing_of,
)
from replexplorer.engine.observe.window import SampleWindow
from replexplorer.engine.requested import Merge, Requested, write_document
from replexplorer.ports import Ability

NO_LOAD = "no load runs"
"""The note of a load knob that is stored and has no effect yet."""
_SECOND_LOOK_S = 0.3
ACKNOWLEDGED: Final = "acknowledged_gtids"
"""Where a driver's lease has what its clients were answered until they lost their server."""


class RunningLoad(Protocol):
    """The load of this app."""

    acknowledged: Acknowledged

    def effective(self) -> Mapping[str, Value]:
        """Load knobs as they are now; empty when no load of this app runs."""


@dataclass(slots=True)
class OwnDoing:
    """What this app does to the stack, so that a look does not take it for the servers' own doing."""

    offs: int = 0
    """Times that it switched semi-sync off since the primary started: each counts in the server's
    `no_times`."""
    healing: set[str] = field(default_factory=set)
    """Replicas whose partition is over and whose stream has not moved yet."""


class StackState:
    """The last look at everything; looking changes nothing."""

    def __init__(self, fleet: Fleet, load: RunningLoad) -> None:
        self.fleet = fleet
        self.load = load
        self.own = OwnDoing()
        self._requested = Requested()
        self._timeouts = TimeoutLook(fleet)
        self.samples: dict[str, NodeSample] = {}
        """The last sample of each node."""
        self.samples_before: dict[str, NodeSample] = {}
        """The one before it."""
        self.links: dict[str, LinkView] = {}
        """The source's, by the node at the other end."""
        self.pairs: dict[str, LinkView] = {}
        """Those between two others of which something is asked, by both nodes (`db2:db3`)."""
        self.disks: dict[str, DiskView] = {}
        self._binlogs: dict[str, BinlogLook] = {}
        """By node, as `in_full` found them last."""
        self.errant_gtids: dict[str, str | None] = {}
        """By replica, as `look_at_gtids` last found."""
        self.holes: dict[str, str | None] = {}
        """By replica: transactions of its own that it has lost; as found at the same time."""
        self.driver: Lease | None = None
        """Who drives the stack's load, as last asked; None: nobody, or it is not known."""
        self.driver_is_known = False
        """Whether an agent answered when it was asked for the driver."""
        self.acknowledged = ""
        """GTID set that the clients of the driver's load were answered until they lost their server."""
        self.window = SampleWindow()
        self.exposures = ExposureWatch(fleet)
        self.counts_commits = True
        """Whether `look_closely` asks for a commit's waits; off only to measure what that costs."""

    @property
    def requested(self) -> Requested:
        """What is requested, said from the node that is the source now."""
        if self._requested.source != self.fleet.source_name:
            self._requested = self._requested.said_from(self.fleet.roster)
        return self._requested

    @requested.setter
    def requested(self, found: Requested) -> None:
        self._requested, self.exposures.kept = found, found.alone

    def forget(self) -> None:
        """Another stack has this one's name: nothing is known of it."""
        self.requested = Requested()
        self.own.offs = 0
        self.exposures.forget()
        for seen in (self.samples, self.samples_before, self.links, self.pairs, self.disks):
            seen.clear()

    def forget_gone(self) -> None:
        """Nothing is known any more of nodes that the stack has no longer."""
        for seen in (self.samples, self.samples_before, self.disks):
            for node in seen.keys() - self.fleet.members.keys():
                del seen[node]

    async def refresh(
        self, *, with_gtids: bool = False, probe: bool = False, links: Iterable[str] = ()
    ) -> None:
        """Look at everything at once; what cannot be learned stays unknown. With `probe` disks that
        were never probed are; `links` are looked at though nothing is asked of them."""
        await self.read_document()
        source = self.fleet.source_name
        await asyncio.gather(
            *(self.look(name, with_gtids=with_gtids) for name in self.fleet.members),
            self.look_at_links(links),
            self.look_at_disks(probe=probe),
            self.look_at_driver(),
        )
        if source != self.fleet.source_name:
            await self.look_at_links(links)
        if with_gtids:
            await self.look_at_gtids()

    async def look_at_gtids(self) -> None:
        """Compare what each replica has executed with what the primary has; of a server that did not answer
        when it was last looked at nothing is asked."""
        source, replicas = self.fleet.source, self.fleet.replicas
        asked = [each for each in replicas if self.reachable(source.name) and self.reachable(each.name)]
        names = [each.name for each in asked]
        found = await asyncio.gather(*(errant_gtids(source, each) for each in asked))
        self.errant_gtids = dict(zip(names, found, strict=True))
        lost = await asyncio.gather(*(hole_of(source, each) for each in asked))
        self.holes = dict(zip(names, lost, strict=True))

    def diverged(self, node: str) -> str | None:
        """Why a node's rows may not be the source's until it is copied, said of the node; None where nothing
        says so."""
        if node == self.fleet.source_name:
            return None
        if lost := self.holes.get(node):
            return hole_words(lost)
        source = self.fleet.source
        lost = numbered_by(source.server_uuid or "", self.errant_gtids.get(node) or "")
        seen = self.requested.diverged.get(node)  # who saw more has said why
        return seen or (outlived_words(lost, source.name) if lost else None)

    def divergence(self, node: str) -> str | None:
        """The same with the remedy, for people."""
        stack = self.fleet.outside.provider.name if self.fleet.can(Ability.OWN) else None
        why = self.diverged(node)
        return None if why is None else diverged_words(why, node, stack)

    async def look_at_driver(self) -> None:
        """Ask who drives the load, and which."""
        self.driver, self.driver_is_known, self.acknowledged = None, False, ""
        with contextlib.suppress(ReplexplorerError):
            lease, self.driver_is_known = await self.fleet.keeper.lease(), True
            load = dict(lease.load or {}) if lease is not None else {}
            self.acknowledged = str(load.pop(ACKNOWLEDGED, ""))
            self.driver = replace(lease, load=load) if lease is not None and lease.load else lease

    async def read_document(self) -> None:
        """Read the requested values; those known stay when the agent does not answer, or when what it
        read was written before what is known by now."""
        try:
            document = await self.fleet.keeper.document()
        except ReplexplorerError:
            return
        found = Requested.read(document, self.fleet.roster)  # as the roles are now, not when it was asked for
        if found.version >= self.requested.version:
            self.requested = found

    async def write(self, merge: Merge) -> None:
        """Change the document that all apps share. Raises StackUnavailable."""
        self.requested = await write_document(self.fleet.keeper, self.fleet.roster, merge)

    async def look(self, node: str, *, with_gtids: bool = False) -> NodeSample:
        """Sample one server, and see what its role is."""
        clock = self.fleet.outside.clock
        before = self.samples.get(node)
        sample = await sample_node(self.fleet.members[node], clock.monotonic(), before, with_gtids=with_gtids)
        self.fleet.saw(standing_of(self.fleet, sample))
        view = self._with_role(sample.view)
        timeouts = await self._timeouts.look(node, sample, before)
        sample = replace(sample, answered_s=clock.monotonic(), view=view, logged_timeouts=timeouts)
        if before is not None:
            self.samples_before[node] = before
        self.samples[node] = sample
        return sample

    def miss(self, node: str) -> None:
        """Take a server for down without a look, because its process does not run."""
        now_s = self.fleet.outside.clock.monotonic()
        sample = NodeSample(now_s, bare_view(self.fleet.members[node], reachable=False))
        self.fleet.saw(standing_of(self.fleet, sample))
        self.samples[node] = replace(sample, view=self._with_role(sample.view))

    def _with_role(self, view: NodeView) -> NodeView:
        """The node with its role as it is seen now."""
        standing = replace(self.fleet.standing(view.name), reachable=view.reachable)
        source = self.fleet.source_name
        role = role_of(standing, source)
        why = None if view.reachable else self._why_down(view.name)
        return replace(view, role=role, follows=standing.follows, is_source=view.name == source, why_down=why)

    def _why_down(self, node: str) -> str | None:
        """What of a node's containers does not run, in words; None where all do, or nobody here made them."""
        member = self.fleet.members.get(node)
        if member is None or not self.fleet.can(Ability.OWN):
            return None
        server, sidecar = member.address.server_running, member.address.sidecar_running
        if server and not sidecar:
            return f"mysqld of {node} runs, its sidecar is away"
        if server:
            return None
        return f"mysqld of {node} has ended" + ("" if sidecar else ", its sidecar is away")

    async def look_at_source(self) -> NodeSample:
        """Sample the source's server."""
        return await self.look(self.fleet.source_name)

    @property
    def source_sample(self) -> NodeSample | None:
        """The last sample of the source."""
        return self.samples.get(self.fleet.source_name)

    @property
    def source_sample_before(self) -> NodeSample | None:
        """The one before it."""
        return self.samples_before.get(self.fleet.source_name)

    async def look_closely(self, node: str) -> NodeSample:
        """Sample one server as `look` does, and what its commits wait for or how far it is behind."""
        sample = await self.look(node)
        member, credentials = self.fleet.members.get(node), self.fleet.credentials
        if node == self.fleet.source_name:
            if member and credentials and sample.view.reachable and self.counts_commits:
                user = credentials.dsn_user if self.fleet.can(Ability.TAKE_ROWS) else None
                commits = await sample_commits(member, user, self.fleet.outside.clock)
                sample = replace(sample, commits=commits)
            self.window.add_sample(sample)
        else:
            applied = None
            if member and sample.view.reachable:
                source = self.fleet.source if self.reachable(self.fleet.source_name) else None
                applied = await sample_applied(source, member, self.fleet.outside.clock)
            self.window.add_applied(node, applied)
        return sample

    async def look_at_links(self, more: Iterable[str] = ()) -> None:
        """Ask the agents for the source's links, for those of which something is asked, and for `more`."""
        if not self.fleet.can(Ability.SHAPE_LINKS):
            return  # no sidecar of these servers knows their links
        more = frozenset(more)
        replicas, pairs = self.fleet.replica_names, self.pairs_of_interest(more)
        views = await asyncio.gather(*(self._link_of(link) for link in (*replicas, *pairs)))
        self.links = {view.replica: view for view in views[: len(replicas)]}
        self.pairs = {
            view.replica: view
            for view in views[len(replicas) :]
            if view.settings != LinkSettings()
            or view.is_shaped
            or view.replica in more
            or self.fleet.system.mesh
        }

    async def _link_of(self, link: str) -> LinkView:
        towards, back = self.fleet.ends(link)
        return await sample_link(
            link, towards, back, self.asked_of_link(link), healing=back.name in self.own.healing
        )

    def pairs_of_interest(self, more: Iterable[str] = ()) -> tuple[str, ...]:
        """Links between two nodes that are not the source of which something is asked, or was in force
        when they were last looked at, and those among `more`; in a mesh all of them."""
        asked = (name.node for name, value in self.requested.values.items() if value != name.knob.default)
        in_force = (link for link, view in self.pairs.items() if view.is_shaped)
        others, roster = self.fleet.replica_names, self.fleet.roster
        always = roster.pairs if roster.mesh else ()
        among = {link for link in (*asked, *in_force, *more, *always) if is_pair(link)}
        return tuple(link for link in in_order(among) if all(end in others for end in ends_of(link)))

    def link(self, node: str) -> LinkView | None:
        """The link whose knobs stand here, as last looked at."""
        return self.links.get(node) or self.pairs.get(node)

    async def look_at_disks(self, *, probe: bool = False) -> None:
        """Ask the agents for every disk; with `probe` those that were never probed are."""
        if not self.fleet.can(Ability.DELAY_FSYNC):
            return
        members = self.fleet.members.values()
        views = await asyncio.gather(*(self.disk_of(member, probe=probe) for member in members))
        self.disks = {view.node: view for view in views}

    async def disk_of(self, member: Member, *, probe: bool) -> DiskView:
        """Ask the agent for one disk; with `probe` one that was never probed is."""
        placed = self.fleet.roster.placed(member.name)
        asked_ms = float(self.requested_value(KnobName(keys.FSYNC_DELAY, placed)))
        return await sample_disk(member, asked_ms, probe=probe)

    def asked_of_link(self, link: str) -> LinkSettings:
        """What is requested of a link."""
        return LinkSettings.of(
            {name.key: value for name, value in self.requested.values.items() if name.node == link}
        )

    def asked_rtts_ms(self) -> tuple[float, ...]:
        """The round trips requested of all links."""
        return tuple(self.asked_of_link(replica).total_ms for replica in self.fleet.replica_names)

    def protection(self) -> Protection:
        """The protection state from what was last seen: of a group, whether a majority of it answers."""
        sample, before = self.source_sample, self.source_sample_before
        if self.fleet.system.is_group:
            seen = {name: self.samples[name] for name in self.fleet.members if self.reachable(name)}
            return judge_group(
                self.fleet.system,
                {name: each.view.member for name, each in seen.items()},
                [name for name, each in seen.items() if each.refuses_writes is False],
                requested_size=len(self.fleet.members),
            )
        requested = self.requested_value(SEMI_SYNC) == "on"
        if sample is None or not sample.view.reachable:
            return judge(Evidence(reachable=False, requested=requested))
        values, replicas, clock = sample.values, self.fleet.replica_names, self.fleet.outside.clock
        able = [name for name in replicas if not self._cannot_acknowledge(name)]
        enabled_s = self.requested.enabled_s
        looked_wall_s = clock.wall() - (clock.monotonic() - sample.at_s)
        return judge(
            Evidence(
                reachable=True,
                requested=requested,
                enabled=values[keys.SEMI_SYNC] == "on" if keys.SEMI_SYNC in values else None,
                wait_point=str(values[keys.WAIT_POINT]) if keys.WAIT_POINT in values else None,
                timeout_ms=_whole(values.get(keys.SEMI_SYNC_TIMEOUT)),
                required=_whole(values.get(keys.SEMI_SYNC_REPLICAS)),
                status=sample.status,
                yes_tx_at_enabling=self.requested.yes_tx_at_enabling,
                enabled_for_s=None if enabled_s is None else looked_wall_s - enabled_s,
                asked_rtts_ms=self.asked_rtts_ms(),
                oldest_wait_s=sample.oldest_wait_s,
                waiting=sample.waiting,
                acks_since_last=acks_between(before.status if before else None, sample.status),
                logged_timeouts=sample.logged_timeouts,
                replicas_able=len(able) if replicas else None,
                links_open=(
                    sum(not self.is_cut(name) for name in replicas)
                    if self.fleet.can(Ability.SHAPE_LINKS)
                    else None
                ),
                diverged=tuple(name for name in able if self.diverged(name) and self.reachable(name)),
                own_offs=self.own.offs,
            )
        )

    def _cannot_acknowledge(self, replica: str) -> bool:
        """Whether a replica says itself that it is not connected, or not registered; one that does not
        answer says nothing."""
        sample = self.samples.get(replica)
        if sample is None or not sample.view.reachable:
            return False
        connected = sample.view.io_thread in (None, "on")
        return not connected or sample.status.replica_registered is False

    def is_cut(self, replica: str) -> bool:
        """Whether the link in force lets no acknowledgement through; False while unknown."""
        link = self.links.get(replica)
        if link is None or link.values is None:
            return False
        in_force = LinkSettings.of({key: link.values.get(key) for key in (keys.PARTITION, keys.LOSS)})
        return link.is_down or in_force.is_silent

    def node_views(self) -> tuple[NodeView, ...]:
        """The nodes that were looked at, in the order of their names; the lag of one that is not whole says
        nothing."""
        views = [
            self._with_role(self.samples[name].view) for name in self.fleet.members if name in self.samples
        ]
        return tuple(
            replace(
                view,
                errant_gtids=self.errant_gtids.get(view.name),
                diverged=(why := self.divergence(view.name)),
                lag_s=view.lag_s if why is None else None,
            )
            for view in views
        )

    async def in_full(self) -> tuple[NodeView, ...]:
        """The nodes as last looked at, each with what it has executed, received and logged, asked now; a
        second call tells how fast binlogs grow. The source is asked first: the others only gain meanwhile."""
        source = self.fleet.source_name
        has = None
        if self.reachable(source):
            has = await asked(self.fleet.source, lambda dialect: dialect.executed)
        return tuple(await asyncio.gather(*(self._in_full(view, has) for view in self.node_views())))

    async def _in_full(self, view: NodeView, source_has: str | None) -> NodeView:
        if not view.reachable or view.name not in self.fleet.members:
            return view
        member = self.fleet.members[view.name]
        executed = await asked(member, lambda dialect: dialect.executed)
        threads = await asked(member, lambda dialect: dialect.threads) if view.io_thread else None
        files = await asked(member, lambda dialect: dialect.binlogs)
        now, before = BinlogLook(self.fleet.outside.clock.monotonic(), files), self._binlogs.get(view.name)
        self._binlogs[view.name] = now
        missing = None
        if not view.is_source and source_has is not None and executed is not None:
            missing = subtract_gtids(source_has, executed)
        return replace(
            view,
            gtid_executed=executed,
            missing_gtids=missing,
            binlogs=binlogs_of(before, now),
            retrieved_gtids=threads.retrieved if threads else None,
            received_to=threads.received_to if threads else None,
            applied_to=threads.applied_to if threads else None,
        )

    async def look_twice_if_waiting(self) -> None:
        """A commit that waits long is `blocked` only if no acknowledgement comes between two looks."""
        sample = self.source_sample
        waits_s = None if sample is None else sample.oldest_wait_s
        if waits_s is not None and waits_s > blocked_after_s(self.asked_rtts_ms()):
            await self.fleet.outside.clock.sleep(_SECOND_LOOK_S)
            await self.look_at_source()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """In force: recorded, and not seen to be over."""
        now_s = self.fleet.outside.clock.wall()
        return tuple(
            fault
            for fault in self.requested.faults
            if (sample := self.samples.get(fault.node)) is None
            or not is_over(fault, sample.view, sample.status.uptime_s, now_s)
        )

    def requested_value(self, name: KnobName) -> Value:
        """A knob's requested value, else its default."""
        return self.requested.values.get(name, self.default_value(name))

    def default_value(self, name: KnobName) -> Value:
        """A knob's default on the server of its node, as far as that is known."""
        known = self._capabilities(name)
        return name.knob.default_of(None if known is None else known.flavor)

    def _capabilities(self, name: KnobName) -> Capabilities | None:
        """What the server of a knob's node has; None until it was probed."""
        member = self.fleet.members.get(self.fleet.named(name.node))
        return None if member is None else member.capabilities

    def effective_value(self, name: KnobName) -> Value | None:
        """What a knob really is; None when unknown or when no load runs."""
        node = self.fleet.named(name.node)
        held: NodeSample | LinkView | DiskView | None
        match name.knob.backing:
            case Backing.SERVER:
                held = self.samples.get(node)
            case Backing.LINK:
                held = self.link(name.node)
            case Backing.DISK:
                held = self.disks.get(node)
            case Backing.LOAD:
                return self.running_load().get(name.key)
        return None if held is None or held.values is None else held.values.get(name.key)

    def running_load(self) -> Mapping[str, Value]:
        """The knobs of the load that runs, ours or the driver's, by key; empty when none runs, or its
        driver does not say."""
        own = self.load.effective()
        return own or (self.driver.load if self.driver is not None else None) or {}

    def no_effect(self) -> str:
        """Why a load knob that is requested has no effect here, or not yet."""
        if self.driver is None or self.driver.load == {}:
            return NO_LOAD
        return f"the running load follows (driver: {self.driver})"

    def _all_names(self) -> tuple[KnobName, ...]:
        return all_names(self.fleet.replica_names, tuple(self.pairs))

    def names(self) -> tuple[KnobName, ...]:
        """The knobs that can be turned here, in catalogue order."""
        return tuple(name for name in self._all_names() if self._can_turn(name))

    def _can_turn(self, name: KnobName) -> bool:
        return self.fleet.carries_out(name.knob) and self._exists(name)

    def _exists(self, name: KnobName) -> bool:
        """Whether the server of its node has a knob, as far as that is known."""
        known = self._capabilities(name)
        return known is None or known.has(name.key)

    def views(self) -> dict[KnobName, KnobView]:
        """Every knob with requested and effective, those of servers also where they can only be read."""
        return {
            name: self._view(name)
            for name in self._all_names()
            if (self._exists(name) if name.knob.backing is Backing.SERVER else self._can_turn(name))
        }

    def found_values(self) -> dict[KnobName, Value]:
        """The servers' variables as they were last seen."""
        return {
            name: view.effective
            for name, view in self.views().items()
            if name.knob.backing is Backing.SERVER and view.effective is not None
        }

    def _view(self, name: KnobName) -> KnobView:
        effective = self.effective_value(name)
        note = self.no_effect() if name.knob.backing is Backing.LOAD and effective is None else None
        known = self._capabilities(name)
        flavor, here = (None, None) if known is None else (known.flavor, known.narrowed(name.key))
        variable = None if known is None else known.variables.get(name.key)
        source = self.fleet.source_name
        return KnobView(name, self.requested_value(name), effective, note, flavor, here, source, variable)

    def observed(self) -> Observed:
        """What the planner has to know, from what was last seen."""
        placed = self.fleet.roster.placed
        up = {
            placed(name): member.probed
            for name, member in self.fleet.members.items()
            if member.probed is not None and self.reachable(name)
        }
        # Another's load is not ours to turn.
        own_load = {KnobName(key, Place.LOAD): self.load.effective().get(key) for key in self.wanted_load()}
        # Of a link between two others that nobody asked anything of, a plan may take that for granted.
        bare = {name: name.knob.default for name in all_names((), tuple(self.fleet.roster.pairs))}
        return Observed(
            values={**bare, **{name: self.effective_value(name) for name in self._all_names()}, **own_load},
            replicas=self.fleet.replica_names,
            servers=up,
            late={placed(name): sample.late for name, sample in self.samples.items() if sample.late},
            semi_sync_clients=self.protection().replicas_acking if self.source_sample else None,
            registered={
                name: sample.status.replica_registered
                for name, sample in self.samples.items()
                if name != self.fleet.source_name
            },
            appliers_off=frozenset(
                name for name, sample in self.samples.items() if sample.view.sql_thread in ("off", "error")
            ),
            detached=frozenset(
                name for name, sample in self.samples.items() if sample.view.role is Role.DETACHED
            ),
            load_runs=bool(self.load.effective()),
            restarts_threads=self.fleet.can(Ability.RESTART_THREADS),
            commits_are_acknowledged=self.fleet.can(Ability.OWN)
            and self.protection().state is ProtectionState.PROTECTED,
            takes_rows=self.fleet.can(Ability.TAKE_ROWS),
            mended_by="run `replexplorer up` to bring it back"
            if self.fleet.can(Ability.OWN)
            else "start it there",
            asked_of_links={
                name: self.asked_of_link(name) for name in (*self.fleet.replica_names, *self.pairs)
            },
            impossible={
                KnobName(key, placed(disk.node)): disk.fault
                for disk in self.disks.values()
                if disk.fault
                for key in DISK_KNOBS
            },
        )

    def reachable(self, node: str) -> bool:
        """Whether a node answered the last look."""
        sample = self.samples.get(node)
        return sample is not None and sample.view.reachable

    def lost_values(self, nodes: Iterable[str]) -> dict[KnobName, Value]:
        """What was requested and is not so on these nodes: SET GLOBAL does not survive a restart,
        and a link's rules end with the sidecar at either end."""
        among = set(nodes)
        return {
            name: value
            for name, value in self.requested.values.items()
            if among.intersection(self._nodes_of(name)) and self._is_lost(name, value)
        }

    def own_defaults(self) -> dict[KnobName, Value]:
        """Variables of the servers that are not at our default and were never asked for: a flavour or an
        image may come with others."""
        return {
            name: value
            for name, value in self.found_values().items()
            if name not in self.requested.values and not same_value(name.knob, value, name.knob.default)
        }

    def for_joined(self, nodes: Collection[str]) -> dict[KnobName, Value]:
        """What most nodes, or links, that were there before these joined were asked for: it is theirs as
        well."""
        return for_joined(self.requested.values, self.names(), nodes, self._nodes_of) if nodes else {}

    def _nodes_of(self, name: KnobName) -> tuple[str, ...]:
        """The nodes that carry a knob out."""
        if name.knob.backing is Backing.LINK:
            return ends_of(self.fleet.roster.link(name.node))
        return (self.fleet.named(name.node),)

    def lost_by_sidecar(self, node: str) -> dict[KnobName, Value]:
        """What was requested of this node's agent, and of its links, and is not in force."""
        return {
            name: value
            for name, value in self.lost_values((node,)).items()
            if name.knob.backing in (Backing.LINK, Backing.DISK)
        }

    def _is_lost(self, name: KnobName, value: Value) -> bool:
        if name.knob.backing is Backing.LOAD or not self._can_turn(name):
            return False
        effective = self.effective_value(name)
        if effective is None or same_value(name.knob, effective, value):
            return False
        link = self.link(name.node) if name.knob.backing is Backing.LINK else None
        return link is None or not link.as_asked

    def wanted_load(self) -> Mapping[str, Value]:
        """The load's knobs as requested."""
        return {
            name.key: self.requested_value(name)
            for name in all_names(())
            if name.knob.backing is Backing.LOAD
        }


def _whole(value: Value | None) -> int | None:
    return None if value is None else int(value)

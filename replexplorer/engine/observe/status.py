"""The whole stack at one moment, for `status` and `get`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import Value
from replexplorer.core.link import LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import NOT_REACHED, Exposure, Unknown
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.wire import Experiment
from replexplorer.engine.asking import ask
from replexplorer.engine.fleet import STARTS_WITHIN_S, Member
from replexplorer.engine.observe.samples import (
    NodeSample,
    answers,
    bare_view,
    errant_gtids,
    hole_of,
    sample_applied,
    watch_link,
)
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.outcome import DrivenLoad, Status
from replexplorer.engine.tasks import in_time, to_the_end
from replexplorer.ports import Ability

_LOGIN_WITHIN_S: Final = 5.0
"""A server that is silent beside the others is given up before."""
_ON_ITS_WAY_S: Final = 0.5
"""What a replica has not received after so long is not just under way."""
_SINCE_WHEN: Final = (
    "no replica answers, and no app watched when the last one went: what it lacks is not known"
)
_NO_AGENT: Final = "its agents did not answer in time"


def state_word(nodes: Sequence[NodeView]) -> str:
    """up, partial (some nodes down) or down (all)."""
    reachable = [node.reachable for node in nodes]
    if all(reachable):
        return "up"
    return "partial" if any(reachable) else "down"


async def take_status(sight: StackState, *, patient: bool = False) -> Status:
    """Look at everything now: what is silent beside the rest is not waited for, unless one is `patient`.

    Raises StackUnavailable when there is no stack.
    """
    glance = _Glance(sight)
    await sight.fleet.discover()
    await glance.look(patient=patient)
    await sight.look_twice_if_waiting()
    if sight.source_sample is not None and sight.source_sample.view.reachable:
        replicas = [each for each in sight.fleet.replicas if each.name in sight.samples]
        await asyncio.gather(
            sight.exposures.look_until_known(), *(_look_how_late(sight, each) for each in replicas)
        )
    oldest_commit_s = await _oldest_commit_s(sight)
    nobody: Mapping[str, Value] | None = {} if sight.driver_is_known else None
    nodes = sight.node_views()
    return Status(
        stack=sight.fleet.outside.provider.name,
        system=sight.fleet.system.name,
        state=await glance.state(nodes),
        nodes=nodes,
        protection=sight.protection(),
        links=tuple(
            replace(link, source=sight.fleet.source_name)
            for link in (*sight.links.values(), *sight.pairs.values())
        ),
        disks=tuple(sight.disks.values()),
        load=DrivenLoad.of(sight.driver, sight.driver.load if sight.driver is not None else nobody),
        footprint_bytes=glance.footprint_bytes(),
        knobs=sight.views(),
        faults=sight.faults,
        interrupted=await _interrupted(sight),
        exposure=_exposure(sight),
        oldest_commit_s=oldest_commit_s,
        hosts=tuple(await sight.fleet.outside.provider.hosts()),
    )


async def _interrupted(sight: StackState) -> str | None:
    """The experiment that still has something to give back though nobody runs it any more."""
    owed, keeper = sight.requested.owed, sight.fleet.keeper
    if owed is None:
        return None
    try:
        holder = await keeper.take_turn("status", within_s=0.0)
    except ReplexplorerError:
        return None
    finally:
        await to_the_end(keeper.leave_turn())
    return None if isinstance(holder, Experiment) else f"{owed.kind} {owed.name}"


def _exposure(sight: StackState) -> Exposure:
    """What a failure would lose. One moment cannot tell since when no replica answers: where nobody has kept
    that, what went unprotected since the first look is a number that says nothing."""
    found = sight.exposures.exposure() or NOT_REACHED
    if sight.exposures.is_alone and sight.exposures.alone is None:
        return replace(found, source_lost=Unknown(_SINCE_WHEN))
    return found


async def _oldest_commit_s(sight: StackState) -> float | None:
    """How long the oldest commit on the source is under way; one that a full disk holds says no more."""
    sample, source = sight.source_sample, sight.fleet.source
    if sample is None or not sample.view.reachable or source.probed is None or sight.fleet.system.is_group:
        return None
    try:
        return (await ask(source.poll, source.dialect.waits())).oldest_commit_s
    except ReplexplorerError:
        return None


async def _look_how_late(sight: StackState, replica: Member) -> None:
    """Its lag by what its source has and it has not: by its own word one that gets nothing is not behind.

    What was on its way is asked for again a while later. The age of the newest that it has applied is then
    at least its lag, and unknown where transactions carry no time.
    """
    if sight.samples[replica.name].view.io_thread is None:
        return
    clock = sight.fleet.outside.clock
    applied = await sample_applied(sight.fleet.source, replica, clock)
    if applied is None or not applied.missing_gtids:
        return
    await clock.sleep(_ON_ITS_WAY_S)
    try:
        later = await ask(replica.poll, replica.dialect.behind(applied.missing_gtids))
    except ReplexplorerError:
        return
    if later is None or not later.missing:
        return
    age_us = later.applied_us if later.applying_us is None else later.applying_us
    lag_s = None if age_us is None or later.by_heartbeat else round(age_us / 1e6, 1)
    sample = sight.samples[replica.name]
    sight.samples[replica.name] = replace(sample, view=replace(sample.view, lag_s=lag_s))


class _Glance:
    """One look at everything at once."""

    def __init__(self, sight: StackState) -> None:
        self._sight = sight
        self._fleet = sight.fleet
        self._answered: set[str] = set()
        """Nodes to which a login succeeded."""
        self._looked: set[str] = set()
        """Nodes of which all is known that is to be."""
        self._footprints: dict[str, int | None] = {}

    async def look(self, *, patient: bool) -> None:
        """Look; what does not answer in time stays unknown, and a server is down then."""
        sight, fleet = self._sight, self._fleet
        document = asyncio.create_task(sight.read_document(), name="look")
        self._forget_links()
        source = fleet.source_name
        shapes, delays = fleet.can(Ability.SHAPE_LINKS), fleet.can(Ability.DELAY_FSYNC)
        sight.disks = {name: DiskView(name) for name in fleet.members} if delays else {}
        looks = [
            *(self._server(member) for member in fleet.members.values()),
            *(self._link(name, document) for name in fleet.replica_names if shapes),
            *([self._pairs(document)] if shapes else []),
            *(self._disk(member, document) for member in fleet.members.values() if delays),
            *(self._count(member) for member in fleet.members.values()),
            self._driver(),
        ]
        try:
            await in_time(looks, patient=patient)
            if source != fleet.source_name:  # the roles were not known: these are other links
                self._forget_links()
                again = [self._link(name, document) for name in fleet.replica_names if shapes]
                again += [self._pairs(document)] if shapes else []
                again += [self._errant(member) for member in fleet.replicas]
                await in_time(again, patient=patient)
        finally:
            document.cancel()
            await asyncio.gather(document, return_exceptions=True)
        now_s = fleet.outside.clock.monotonic()
        for name, member in fleet.members.items():
            if name not in self._looked:
                sight.samples[name] = NodeSample(now_s, bare_view(member, reachable=name in self._answered))

    async def _server(self, member: Member) -> bool:
        """The server, if it runs at all."""
        if not member.address.server_running:
            return False
        if await answers(member.poll, within_s=_LOGIN_WITHIN_S):
            self._answered.add(member.name)
            await self._sight.look(member.name, with_gtids=True)
            self._looked.add(member.name)
            await self._errant(member)
        return member.name in self._answered

    async def _errant(self, member: Member) -> bool:
        """What a node that answered has executed and the source has not."""
        primary = self._fleet.source
        if member is primary or not primary.address.server_running or member.name not in self._answered:
            return False
        self._sight.errant_gtids[member.name] = await errant_gtids(primary, member)
        self._sight.holes[member.name] = await hole_of(primary, member)
        return True

    def _forget_links(self) -> None:
        names = self._fleet.replica_names if self._fleet.can(Ability.SHAPE_LINKS) else ()
        self._sight.links = {name: LinkView(name, fault=_NO_AGENT) for name in names}

    async def _link(self, link: str, document: asyncio.Task[None]) -> bool:
        await asyncio.wait({document})
        if link == self._fleet.source_name:  # it was not known to be
            return True
        await watch_link(*self._fleet.ends(link))
        return await self._sight.look_at_link(link)

    async def _pairs(self, document: asyncio.Task[None]) -> bool:
        """The links between two nodes that are not the source, once it is known which are asked for."""
        await asyncio.wait({document})
        links = self._sight.pairs_of_interest()
        self._sight.pairs = {link: LinkView(link, fault=_NO_AGENT) for link in links}
        return all(await asyncio.gather(*(self._link(link, document) for link in links)))

    async def _disk(self, member: Member, document: asyncio.Task[None]) -> bool:
        """The disk; a probe of one that was never probed comes last, and may come too late."""
        await asyncio.wait({document})
        for probe in (False, True):
            self._sight.disks[member.name] = view = await self._sight.disk_of(member, probe=probe)
        return view.delay_ms is not None or view.fault is not None

    async def _count(self, member: Member) -> bool:
        try:
            health = await member.agent.health()
        except ReplexplorerError:
            return False
        self._footprints[member.name] = health.footprint_bytes
        return True

    async def _driver(self) -> bool:
        await self._sight.look_at_driver()
        return self._sight.driver_is_known

    def footprint_bytes(self) -> int | None:
        """Bytes in all volumes; None where one agent does not say."""
        counted = [self._footprints.get(name) for name in self._fleet.members]
        return None if None in counted else sum(each or 0 for each in counted)

    async def state(self, nodes: Sequence[NodeView]) -> str:
        """The stack's state; `starting` while no server answers and one has just begun."""
        word = state_word(nodes)
        if word != "down":
            return word
        ages = await asyncio.gather(*(self._age_s(node.name) for node in nodes))
        return "starting" if any(age is not None and age < STARTS_WITHIN_S for age in ages) else word

    async def _age_s(self, node: str) -> float | None:
        try:
            return await self._fleet.outside.provider.server_age_s(node)
        except ReplexplorerError:
            return None

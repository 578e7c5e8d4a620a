"""The whole stack at one moment, for `status` and `get`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import Value
from replexplorer.core.server.exposure import NOT_REACHED, Exposure, Unknown
from replexplorer.core.server.gtid import common_gtids
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.truth import replica_truth
from replexplorer.core.wire import TURN, Experiment
from replexplorer.engine.fleet import STARTS_WITHIN_S, Member
from replexplorer.engine.observe.samples import asked, sample_applied, watch_links
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.outcome import DrivenLoad, Status
from replexplorer.engine.tasks import to_the_end

_ON_ITS_WAY_S: Final = 1.0
"""What a replica has not applied after so long is not just under way; its pace is that of so long."""
_SINCE_WHEN: Final = (
    "no replica answers, and no app watched when the last one went: what it lacks is not known"
)


def state_word(nodes: Sequence[NodeView]) -> str:
    """up, partial (some nodes down) or down (all)."""
    reachable = [node.reachable for node in nodes]
    if all(reachable):
        return "up"
    return "partial" if any(reachable) else "down"


async def take_status(state: StackState) -> Status:
    """Look at everything now; raises StackUnavailable when there is no stack."""
    await state.fleet.discover()
    await asyncio.gather(state.read_document(), state.fleet.open_bridges())
    looked = None
    while looked != state.fleet.source_name:  # where the roles were not known these are other links
        looked = state.fleet.source_name
        await watch_links(state.fleet, state.pairs_of_interest())
        await state.refresh(with_gtids=True, probe=True)
    await state.in_full()  # binlogs are seen to grow from here on
    sizes = await asyncio.gather(*map(_size, state.fleet.members.values()))
    await state.look_twice_if_waiting()
    replicas = [each for each in state.fleet.replicas if each.name in state.samples]
    source = state.fleet.source if state.reachable(state.fleet.source_name) else None
    looks = [_look_how_late(state, source, each) for each in replicas]
    if source is not None:
        looks.append(state.exposures.look_until_known())
    await asyncio.gather(*looks)
    copies = [each.bytes for each in state.requested.saved.values()]
    oldest_commit_s = await _oldest_commit_s(state)
    nobody: Mapping[str, Value] | None = {} if state.driver_is_known else None
    nodes = await state.in_full()
    word = state_word(nodes)
    if word == "down":
        ages_s = await asyncio.gather(*(_age_s(state, node.name) for node in nodes))
        word = "starting" if min(ages_s) < STARTS_WITHIN_S else word
    return Status(
        stack=state.fleet.outside.provider.name,
        system=state.fleet.system.name,
        state=word,
        nodes=nodes,
        protection=state.protection(),
        links=tuple(
            replace(link, source=state.fleet.source_name)
            for link in (*state.links.values(), *state.pairs.values())
        ),
        disks=tuple(state.disks.values()),
        load=DrivenLoad.of(state.driver, state.driver.load if state.driver is not None else nobody),
        footprint_bytes=None if None in sizes else sum(size or 0 for size in (*sizes, *copies)),
        knobs=state.views(),
        faults=state.faults,
        interrupted=await _interrupted(state),
        exposure=_exposure(state),
        oldest_commit_s=oldest_commit_s,
        hosts=tuple(await state.fleet.outside.provider.hosts()),
    )


async def _interrupted(state: StackState) -> str | None:
    """The experiment that still has something to give back though it no longer runs."""
    owed, keeper = state.requested.owed, state.fleet.keeper
    if owed is None:
        return None
    try:
        holder = await keeper.take_turn("status", within_s=0.0)
    except ReplexplorerError:
        return None
    finally:
        await to_the_end(keeper.leave(TURN))
    return None if isinstance(holder, Experiment) else f"{owed.kind} {owed.name}"


def _exposure(state: StackState) -> Exposure:
    """What a failure would lose. One moment cannot tell since when no replica answers: where nobody has kept
    that, what went unprotected since the first look is a number that says nothing."""
    found = state.exposures.exposure() or NOT_REACHED
    if state.exposures.is_alone and state.exposures.alone is None:
        return replace(found, source_lost=Unknown(_SINCE_WHEN))
    return found


async def _oldest_commit_s(state: StackState) -> float | None:
    """How long the oldest commit on the source is under way; one that a full disk holds says no more."""
    sample, source = state.source_sample, state.fleet.source
    if sample is None or not sample.view.reachable or state.fleet.system.is_group:
        return None
    waits = await asked(source, lambda dialect: dialect.waits)
    return None if waits is None else waits.oldest_commit_s


async def _look_how_late(state: StackState, source: Member | None, replica: Member) -> None:
    """Its lag by what its source has and it has not: by its own word one that gets nothing is not behind.

    `source` is None while it does not answer: then what it has received is known and no more. What was on
    its way is looked at again a while later, which gives its pace too. The age of the newest that
    it has applied is then at least its lag, and unknown where transactions carry no time.
    """
    sample, clock = state.samples[replica.name], state.fleet.outside.clock
    if sample.view.io_thread is None:
        return
    first = later = await sample_applied(source, replica, clock)
    if first is not None and first.behind.missing:
        await clock.sleep(_ON_ITS_WAY_S)
        later = await sample_applied(source, replica, clock)
    if first is None or later is None:
        return
    lag_s, behind = sample.view.lag_s, later.behind
    if common_gtids(first.behind.missing or "", behind.missing or ""):
        age_us = behind.applied_us if behind.applying_us is None else behind.applying_us
        lag_s = None if age_us is None or behind.by_heartbeat else round(age_us / 1e6, 1)
    applier = replica_truth(replica.name, later, first)
    view = replace(sample.view, lag_s=lag_s, applier=applier)
    state.samples[replica.name] = replace(sample, view=view)


async def _size(member: Member) -> int | None:
    """Bytes in a node's volumes; None where its agent does not say."""
    try:
        return (await member.agent.health(footprint=True)).footprint_bytes
    except ReplexplorerError:
        return None


async def _age_s(state: StackState, node: str) -> float:
    """How long ago its server was started; infinity where that is not known."""
    try:
        return await state.fleet.outside.provider.server_age_s(node) or inf
    except ReplexplorerError:
        return inf

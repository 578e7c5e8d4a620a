"""From a replica to the source: everything that it lacks first, then writes, then everybody else.

Law: a node takes writes only once no other can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    BY_KEY,
    SOURCE,
    Backing,
    Desired,
    KnobName,
    Value,
    same_value,
)
from replexplorer.core.link import turned_round
from replexplorer.core.role_change import (
    BestCandidate,
    Candidate,
    ChangeKind,
    choose,
    hole_words,
    not_without_loss,
)
from replexplorer.core.server.comeback import NOT_KNOWN
from replexplorer.core.server.gtid import gtid_count, numbered_by, subtract_gtids, transactions
from replexplorer.core.topology import Standing, in_order, is_pair, link_between
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.change.role_run import RoleRun
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.samples import hole_of
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.requested import Requested
from replexplorer.engine.tasks import Patience

_WAIT_EACH_S: Final = 4.0
_ARRIVES_EVERY_S: Final = 0.05
_ARRIVES_WITHIN_S: Final = 2.0
_DRAINS_WITHIN_S: Final = 600.0
"""How long a relay log may take to be applied."""
_CONNECTS_WITHIN_S: Final = 15.0
"""How long the link to the node that hands on what is lacking may take to carry the first of it."""
_NEAR_WITHIN_S: Final = 20.0
"""How long a replica may take to come near its source before a switchover blocks writes."""
_NEAR_S: Final = 0.7
"""A replica that has what its source had so long ago is near."""
_BLOCKS_WITHIN_S: Final = 5.0
_CAUGHT_UP_WITHIN_S: Final = 1.0
"""How long, beside two round trips, the rest may take while writes are blocked."""


async def take_the_place(
    run: RoleRun, source: str, wanted: str | None, *, accept_loss: bool
) -> tuple[str, str]:
    """End the source for good, choose among what has been received by then, drain that, and fetch what
    another node has beside; answers the node, and what others have and it lacks all the same."""
    async with run.step("end the old source", source):
        await run.fleet.server_process(source).kill()
    followers = list(filter(run.sight.reachable, run.followers(source)))
    async with run.step("wait for what still arrives", ", ".join(followers)):
        candidates = await _until_nothing_arrives(run, source)
    chosen = choose(candidates, await run.lineage(source), wanted, accept_loss=accept_loss)
    run.promotes(chosen.node)
    async with run.step("fence the old source", source):
        await run.keep_roles(chosen.node, [name for name in followers if name != chosen.node])
    member = run.fleet.member(chosen.node)
    async with run.step("drain the relay log", chosen.node) as said:
        await _drain_all(run, member, said)
    if chosen.donor is not None:
        try:
            await _fetch(run, chosen, chosen.donor)
        except ReplexplorerError as error:
            await run.follow(member, run.fleet.member(source), [])
            refusal = not_without_loss(chosen, f"{chosen.donor} could not hand them on: {error.message}")
            if not accept_loss:
                raise refusal from None
            run.warnings.append(refusal.message)
            await run.run(member, (member.dialect.stop_io(),), [])
    lost = subtract_gtids(chosen.lacks, await run.executed(member))
    await _note_who_differs(run, source, member, lost)
    return chosen.node, lost


async def _note_who_differs(run: RoleRun, source: str, to: Member, lost: str) -> None:
    """Keep that the old source may lack rows whose GTIDs it has; that the new one uses the numbers of its
    own which it lost again: who has those transactions can never follow it; and where the new one had
    diverged, that all others differ from it now."""
    differ: dict[str, str | None] = {source: NOT_KNOWN} if run.may_lack_rows(source) else {}
    others = [name for name in run.fleet.members if name != to.name]
    if to.name in run.sight.requested.diverged:
        why = f"may have other rows than {to.name}, which had diverged"
        differ = {to.name: None, **dict.fromkeys(others, why)}
    if again := numbered_by(to.server_uuid or " ", lost):
        why = f"may have {transactions(again)} whose numbers {to.name} uses again"
        differ |= dict.fromkeys(others, why)
    if differ:
        await run.sight.write(lambda now: now.differing(differ))


async def _fetch(run: RoleRun, chosen: BestCandidate, donor: str) -> None:
    """Let a node that is drained follow another one until it has all that only that one has of the
    source's transactions. Raises StackUnavailable, ServerRefused; then it still follows that one."""
    to, giver = run.fleet.member(chosen.node), run.fleet.member(donor)
    async with run.step(f"fetch {transactions(chosen.lacks)} of {donor}", to.name) as said:
        # It hands on what is in its binlog: what it has applied.
        if await ask(giver.control, giver.dialect.threads()) is not None:
            await _drain(run, giver, chosen.lacks, [])
        await run.follow(to, giver, said)
        before, patience = chosen.lacks, Patience(run.clock, _CONNECTS_WITHIN_S, _ARRIVES_EVERY_S)
        while lacks := subtract_gtids(chosen.lacks, await run.executed(to)):
            threads = await ask(to.control, to.dialect.threads())
            if lacks != before:
                before = lacks
                patience.renew()
            ended = threads is None or "error" in (threads.io, threads.sql)
            if ended or not await patience.again():
                why = threads.fault if threads and threads.fault else "nothing came"
                raise StackUnavailable(why, f"{to.name} still lacks {transactions(lacks)}")
        await _drain_all(run, to, said)


async def _until_nothing_arrives(run: RoleRun, source: str) -> list[Candidate]:
    """What the replicas have once two looks see the same: an event that was sent may still be read."""
    before, patience = None, Patience(run.clock, _ARRIVES_WITHIN_S, _ARRIVES_EVERY_S)
    while (now := await run.candidates(source)) != before and await patience.again():
        before = now
    return now


async def _drain_all(run: RoleRun, member: Member, said: list[str]) -> None:
    """Let a node receive nothing more, and apply what it has received."""
    await run.run(member, (member.dialect.stop_io(),), said)
    await _drain(run, member, await run.received(member), said)


async def _drain(run: RoleRun, member: Member, received: str, said: list[str]) -> None:
    """Wait until all that was received is applied; raises StackUnavailable where it is not."""
    await run.run(member, (member.dialect.start_applier(),), said)
    patience = Patience(run.clock, _DRAINS_WITHIN_S)
    question = member.dialect.reached(received, _WAIT_EACH_S)
    while not await ask(member.control, question, deadline_s=2 * _WAIT_EACH_S):
        threads = await ask(member.control, member.dialect.threads())
        if threads is None or threads.sql != "on":
            why = f": {threads.fault}" if threads and threads.fault else ""
            raise StackUnavailable(f"the applier of {member.name} ended{why}", "its relay log is kept")
        if patience.is_over:
            raise StackUnavailable(
                f"{member.name} did not apply its relay log within {_DRAINS_WITHIN_S:.0f} s", ""
            )
        run.report(f"{member.name} applies what it has received")
    said.append(question.statement)


async def come_near(run: RoleRun, source: str, to: str) -> None:
    """Wait, while writes go on, until a replica is so near to its source that they need not wait long."""
    old, new = run.fleet.member(source), run.fleet.member(to)
    patience = Patience(run.clock, _NEAR_WITHIN_S)
    while True:
        executed, asked_s = await run.executed(old), run.clock.monotonic()
        await ask(new.control, new.dialect.reached(executed, _WAIT_EACH_S), deadline_s=2 * _WAIT_EACH_S)
        if run.clock.monotonic() - asked_s < _NEAR_S:
            return
        if patience.is_over:
            behind = gtid_count(subtract_gtids(executed, await run.executed(new)))
            raise StackUnavailable(
                f"{to} does not catch up: it is {behind:,} transactions behind {source} after"
                f" {_NEAR_WITHIN_S:.0f} s",
                "lower the load, or try again later",
            )
        run.report(f"{to} catches up, writes go on meanwhile")


async def block(run: RoleRun, source: str, to: str) -> None:
    """Block writes at the source, and wait until the replica has all of them."""
    old, new = run.fleet.member(source), run.fleet.member(to)
    async with run.step("block writes", source) as said:
        for statement in old.dialect.refuse_writes():
            await execute(old.control, (statement,), deadline_s=_BLOCKS_WITHIN_S)
            said.append(statement)
    others = run.followers(source, but=to)
    async with run.step("receive and apply the rest", to) as said:
        within_s = _CAUGHT_UP_WITHIN_S + 2 * max(run.sight.asked_rtts_ms(), default=0.0) / 1000
        question = new.dialect.reached(await run.executed(old), within_s)
        has_all, _ = await asyncio.gather(
            ask(new.control, question, deadline_s=within_s + _WAIT_EACH_S), run.keep_roles(to, others)
        )
        said.append(question.statement)
        if not has_all:
            raise StackUnavailable(
                f"{to} did not have every transaction within {within_s:.1f} s", f"{source} takes writes again"
            )


async def promote(run: RoleRun, to: str) -> None:
    """Make a replica that has everything take writes, with what is asked of the source."""
    member = run.fleet.member(to)
    dialect = member.dialect
    async with run.step("promote", to) as said:
        await run.run(member, (dialect.stop_threads(), *dialect.follow_nobody()), said)
        for name, value in of_the_source(run.sight, to, run.under_way.source):
            if name.key == keys.SEMI_SYNC:
                run.yes_tx = (await ask(member.control, dialect.status())).yes_tx
            try:
                await run.run(member, (dialect.set(name.key, value),), said)
            except (ServerRefused, UsageError) as refused:
                run.warnings.append(f"{to} did not take {name.key} {value}: {refused}")
        run.history = await run.executed(member)
        await run.run(member, dialect.open_for_writes(), said)
    run.opened_s = run.clock.monotonic()


async def hand_over(run: RoleRun) -> None:
    """Let everybody follow the new source: the load, the other replicas, the document. What fails is a
    warning."""
    fleet, sight = run.fleet, run.sight
    source, to = run.under_way.source, run.under_way.to
    new = fleet.member(to)
    sight.see(replace(fleet.standing(source), refuses_writes=True))  # as it was left, or will start
    sight.see(Standing(to, reachable=True, follows=None, refuses_writes=False))
    sight.own.offs = 0
    follow = [
        each
        for each in fleet.replicas
        if fleet.standing(each.name).follows is not None and sight.reachable(each.name)
    ]
    if run.under_way.kind is ChangeKind.SWITCHOVER:
        follow.append(fleet.member(source))
    await asyncio.gather(
        _first_write(run, new), _move_load(run), *(_point(run, member, new) for member in follow)
    )
    change = replace(run.under_way, step="let the knobs follow")

    def moved(now: Requested) -> Requested:
        enabled = now.with_roles_moved(to, source).enabling(run.yes_tx, run.clock.wall())
        return replace(enabled, role_change=change, history=run.history or now.history)

    await sight.write(moved)


async def _first_write(run: RoleRun, new: Member) -> None:
    """One commit at the new source."""
    deadline_s = max(2.0, 3 * max(run.sight.asked_rtts_ms(), default=0.0) / 1000)
    with run.at_once("first write", new.name, f"the first commit at {new.name} was not answered") as said:
        await execute(new.kick, (new.dialect.kick(),), deadline_s=deadline_s)
        said.append(new.dialect.kick())
        run.written_s = run.clock.monotonic()


async def _move_load(run: RoleRun) -> None:
    began_s = run.clock.monotonic()
    try:
        if await run.load.follow():
            run.did("point the load there", run.under_way.to, (), began_s)
    except ReplexplorerError as error:
        run.warnings.append(f"the load did not follow: {error}")


async def _point(run: RoleRun, member: Member, new: Member) -> None:
    """Let a node follow the new source, unless it cannot be whole that way."""
    failure = f"{member.name} does not follow {new.name}"
    with run.at_once(f"follow {new.name}", member.name, failure) as said:
        lost = await hole_of(new, member)
        why = hole_words(lost) if lost else run.sight.requested.diverged.get(member.name)
        if why is not None:
            await run.run(member, (member.dialect.stop_threads(),), said)
            raise StackUnavailable(f"it {why}", f"`replexplorer rejoin {member.name}` copies it")
        await run.follow(member, new, said)


def of_the_source(sight: StackState, to: str, source: str) -> Iterator[tuple[KnobName, Value]]:
    """The variables of the server `to`, a replica still, that are not as is asked of the source, which it
    is about to be, with what is asked; semi-sync comes last, and only where enough other replicas follow."""
    sample = sight.samples[to]
    asked = {name.key for name in sight.requested.values if name.node in (SOURCE, to)}
    wanted = [key for key in asked if BY_KEY[key].backing is Backing.SERVER and key in sample.values]
    for key in sorted(wanted, key=lambda key: (key == keys.SEMI_SYNC, list(BY_KEY).index(key))):
        name = KnobName(key, SOURCE)
        value = sight.requested_value(name)
        if same_value(name.knob, sample.values[key], value):
            continue
        if key == keys.SEMI_SYNC and value == "on" and not _enough(sight, to, source):
            continue
        yield name, value


def _enough(sight: StackState, to: str, source: str) -> bool:
    """Whether as many nodes will follow the new source as a commit has to wait for."""
    required = int(sight.requested_value(KnobName(keys.SEMI_SYNC_REPLICAS, SOURCE)))
    views = {name: sample.view for name, sample in sight.samples.items()}
    follow = [name for name, view in views.items() if view.reachable and name != to and name != source]
    stays = [name for name in follow if sight.fleet.standing(name).follows is not None]
    is_alive = source in views and views[source].reachable
    return len(stays) + is_alive >= required


def goes_with_the_roles(sight: StackState, before: Desired, source: str, to: str) -> Desired:
    """What is to be turned after the roles of `source` and `to` have changed places: `before` is what was
    requested when `source` was the source, read then."""
    names = set(sight.names())
    wanted: dict[KnobName, Value] = {}
    others = [name for name in sight.fleet.members if name not in (source, to)]
    links = [key for key, knob in BY_KEY.items() if knob.backing is Backing.LINK and key != keys.PARTITION]
    for key in links:
        default = BY_KEY[key].default
        for other in others:
            pair_before = KnobName(key, link_between(to, other))
            wanted[KnobName(key, other)] = before.get(KnobName(key, other), default)
            # A pair's directions run by name: the other end stays where it is, before or behind both.
            is_first = in_order((source, other))[0] == source
            key_now = key if (in_order((to, other))[0] == to) == is_first else turned_round(key, default)[0]
            wanted[KnobName(key_now, link_between(source, other))] = before.get(pair_before, default)
    wanted = {
        name: value
        for name, value in wanted.items()
        if (name in names or (is_pair(name.node) and value != name.knob.default))
        and sight.requested_value(name) != value
    }
    return {**not_so_yet(sight), **wanted}


def not_so_yet(sight: StackState) -> Desired:
    """What is requested and not in force of the nodes that answer and of all links; of a node that was the
    source and follows now, that is what is asked of a replica."""
    wanted = {**sight.lost_values(sight.fleet.members), **_as_replicas(sight)}
    return {name: value for name, value in wanted.items() if _answers(sight, name)}


def _answers(sight: StackState, name: KnobName) -> bool:
    """Whether the node of a knob answers; what is no node's does."""
    sample = sight.samples.get(sight.fleet.named(name.node))
    is_of_node = name.knob.backing in (Backing.SERVER, Backing.DISK)
    return not is_of_node or (sample is not None and sample.view.reachable)


def _as_replicas(sight: StackState) -> Desired:
    asked = {name.key for name in sight.requested.values if name.node == SOURCE}
    wanted: dict[KnobName, Value] = {}
    for name in sight.names():
        if name.key not in asked or name.node == SOURCE:
            continue
        effective, value = sight.effective_value(name), sight.requested_value(name)
        of_node = name.knob.backing in (Backing.SERVER, Backing.DISK)
        if of_node and effective is not None and not same_value(name.knob, effective, value):
            wanted[name] = value
    return wanted

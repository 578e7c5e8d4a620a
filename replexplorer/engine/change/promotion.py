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
from replexplorer.core.knobs.names import SOURCE, Backing, Desired, KnobName, Value, same_value
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
from replexplorer.core.topology import Standing
from replexplorer.engine.asking import ask
from replexplorer.engine.change.role_run import RoleRun, Statements
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


async def take_the_place(run: RoleRun, wanted: str | None, *, accept_loss: bool) -> str:
    """End the source for good, choose among what has been received by then, drain that, and fetch what
    another node has beside; answers what others have and the chosen node lacks all the same."""
    old = run.old
    source = old.name
    async with run.step("end the old source", source):
        await run.fleet.server_process(source).kill()
    followers = list(filter(run.state.reachable, run.followers(source)))
    async with run.step("wait for what still arrives", ", ".join(followers)):
        candidates = await _until_nothing_arrives(run, source)
    chosen = choose(candidates, await run.lineage(source), wanted, accept_loss=accept_loss)
    run.under_way = replace(run.under_way, to=chosen.node)
    member = run.new
    async with run.step("fence the old source", source):
        await run.keep_roles(chosen.node, [name for name in followers if name != chosen.node])
    async with run.step("drain the relay log", chosen.node) as sql:
        await _drain_all(run, sql)
    if chosen.donor is not None:
        try:
            await _fetch(run, chosen, chosen.donor)
        except ReplexplorerError as error:
            await run.follow(Statements(member), old)
            refusal = not_without_loss(chosen, f"{chosen.donor} could not hand them on: {error.message}")
            if not accept_loss:
                raise refusal from None
            run.warnings.append(refusal.message)
            await Statements(member)(member.dialect.stop_io())
    lost = subtract_gtids(chosen.lacks, await member.executed())
    await _note_who_differs(run, lost)
    return lost


async def _note_who_differs(run: RoleRun, lost: str) -> None:
    """Keep that the old source may lack rows whose GTIDs it has; that the new one uses the numbers of its
    own which it lost again: who has those transactions can never follow it; and where the new one had
    diverged, that all others differ from it now."""
    source, to = run.old.name, run.new.name
    differ: dict[str, str | None] = {source: NOT_KNOWN} if run.may_lack_rows(source) else {}
    others = [name for name in run.fleet.members if name != to]
    if to in run.state.requested.diverged:
        differ = {to: None, **dict.fromkeys(others, f"may have other rows than {to}, which had diverged")}
    if again := numbered_by(run.new.server_uuid or " ", lost):
        why = f"may have {transactions(again)} whose numbers {to} uses again"
        differ |= dict.fromkeys(others, why)
    if differ:
        await run.state.write(lambda now: now.differing(differ))


async def _fetch(run: RoleRun, chosen: BestCandidate, donor: str) -> None:
    """Let a node that is drained follow another one until it has all that only that one has of the
    source's transactions. Raises StackUnavailable, ServerRefused; then it still follows that one."""
    to, giver = run.new, run.fleet.member(donor)
    async with run.step(f"fetch {transactions(chosen.lacks)} of {donor}", to.name) as sql:
        # It hands on what is in its binlog: what it has applied.
        if await giver.threads() is not None:
            await _drain(run, Statements(giver), chosen.lacks)
        await run.follow(sql, giver)
        before, patience = chosen.lacks, Patience(run.clock, _CONNECTS_WITHIN_S, _ARRIVES_EVERY_S)
        while lacks := subtract_gtids(chosen.lacks, await to.executed()):
            threads = await to.threads()
            if lacks != before:
                before = lacks
                patience.renew()
            ended = threads is None or "error" in (threads.io, threads.sql)
            if ended or not await patience.again():
                why = threads.fault if threads and threads.fault else "nothing came"
                raise StackUnavailable(why, f"{to.name} still lacks {transactions(lacks)}")
        await _drain_all(run, sql)


async def _until_nothing_arrives(run: RoleRun, source: str) -> list[Candidate]:
    """What the replicas have once two looks see the same: an event that was sent may still be read."""
    before, patience = None, Patience(run.clock, _ARRIVES_WITHIN_S, _ARRIVES_EVERY_S)
    while (now := await run.candidates(source)) != before and await patience.again():
        before = now
    return now


async def _drain_all(run: RoleRun, sql: Statements) -> None:
    """Let a node receive nothing more, and apply what it has received."""
    await sql(sql.member.dialect.stop_io())
    await _drain(run, sql, await run.received(sql.member))


async def _drain(run: RoleRun, sql: Statements, received: str) -> None:
    """Wait until all that was received is applied; raises StackUnavailable where it is not."""
    member = sql.member
    await sql(member.dialect.start_applier())
    patience = Patience(run.clock, _DRAINS_WITHIN_S)
    while not await _reaches(sql, received, _WAIT_EACH_S):
        threads = await member.threads()
        if threads is None or threads.sql != "on":
            why = f": {threads.fault}" if threads and threads.fault else ""
            raise StackUnavailable(f"the applier of {member.name} ended{why}", "its relay log is kept")
        if patience.is_over:
            raise StackUnavailable(
                f"{member.name} did not apply its relay log within {_DRAINS_WITHIN_S:.0f} s", ""
            )
        run.report(f"{member.name} applies what it has received")


async def _reaches(sql: Statements, gtids: str, within_s: float) -> bool:
    """Whether a node has executed all of these in time, which is told then."""
    question = sql.member.dialect.reached(gtids, within_s)
    has_all = await ask(sql.member.control, question, deadline_s=within_s + _WAIT_EACH_S)
    if has_all:
        sql.append(question.statement)
    return has_all


async def come_near(run: RoleRun) -> None:
    """Wait, while writes go on, until a replica is so near to its source that they need not wait long."""
    old, new = run.old, run.new
    patience = Patience(run.clock, _NEAR_WITHIN_S)
    while True:
        executed, asked_s = await old.executed(), run.clock.monotonic()
        await _reaches(Statements(new), executed, _WAIT_EACH_S)
        if run.clock.monotonic() - asked_s < _NEAR_S:
            return
        if patience.is_over:
            behind = gtid_count(subtract_gtids(executed, await new.executed()))
            raise StackUnavailable(
                f"{new.name} does not catch up: it is {behind:,} transactions behind {old.name} after"
                f" {_NEAR_WITHIN_S:.0f} s",
                "lower the load, or try again later",
            )
        run.report(f"{new.name} catches up, writes go on meanwhile")


async def block(run: RoleRun) -> None:
    """Block writes at the source, and wait until the replica has all of them."""
    old, new = run.old, run.new
    async with run.step("block writes", old.name) as sql:
        await sql(*old.dialect.refuse_writes(), within_s=_BLOCKS_WITHIN_S)
    others = run.followers(old.name, but=new.name)
    async with run.step("receive and apply the rest", new.name) as sql:
        within_s = _CAUGHT_UP_WITHIN_S + 2 * max(run.state.asked_rtts_ms(), default=0.0) / 1000
        has_all, _ = await asyncio.gather(
            _reaches(sql, await old.executed(), within_s), run.keep_roles(new.name, others)
        )
        if not has_all:
            raise StackUnavailable(
                f"{new.name} did not have every transaction within {within_s:.1f} s",
                f"{old.name} takes writes again",
            )


async def promote(run: RoleRun) -> None:
    """Make a replica that has everything take writes, with what is asked of the source."""
    member, dialect = run.new, run.new.dialect
    async with run.step("promote", member.name) as sql:
        await sql(dialect.stop_threads(), *dialect.follow_nobody())
        for name, value in _of_the_source(run):
            if name.key == keys.SEMI_SYNC:
                run.yes_tx = (await ask(member.control, dialect.status())).yes_tx
            try:
                await sql(dialect.set(name.key, value))
            except (ServerRefused, UsageError) as refused:
                run.warnings.append(f"{member.name} did not take {name.key} {value}: {refused}")
        run.history = await member.executed()
        await sql(*dialect.open_for_writes())
    run.opened_s = run.clock.monotonic()


def _of_the_source(run: RoleRun) -> Iterator[tuple[KnobName, Value]]:
    """The variables of the replica that is about to be the source that are not as is asked of the source,
    with what is asked; semi-sync comes last, and only where enough other replicas follow."""
    state, to, source = run.state, run.new.name, run.old.name
    values = state.samples[to].values
    asked = {name.key for name in state.requested.values if name.node in (SOURCE, to)}
    for key in sorted(asked & values.keys(), key=lambda key: (key == keys.SEMI_SYNC, key)):
        name = KnobName(key, SOURCE)
        value = state.requested_value(name)
        if name.knob.backing is not Backing.SERVER or same_value(name.knob, values[key], value):
            continue
        if key == keys.SEMI_SYNC and value == "on":
            follow = [*filter(state.reachable, run.followers(source, but=to))]
            required = int(state.requested_value(KnobName(keys.SEMI_SYNC_REPLICAS, SOURCE)))
            if len(follow) + state.reachable(source) < required:
                continue
        yield name, value


async def hand_over(run: RoleRun) -> None:
    """Let everybody follow the new source: the load, the other replicas, the document. What fails is a
    warning."""
    fleet, state, old, new = run.fleet, run.state, run.old, run.new
    fleet.saw(replace(fleet.standing(old.name), refuses_writes=True))  # as it was left, or will start
    fleet.saw(Standing(new.name, reachable=True, follows=None, refuses_writes=False))
    state.own.offs = 0
    replicas = (each for each in fleet.replicas if state.reachable(each.name))
    follow = [each for each in replicas if fleet.standing(each.name).follows is not None]
    if run.under_way.kind is ChangeKind.SWITCHOVER:
        follow.append(old)
    await asyncio.gather(
        _first_write(run, new), _move_load(run), *(_point(run, member, new) for member in follow)
    )
    change = replace(run.under_way, step="let the knobs follow")

    def moved(now: Requested) -> Requested:
        if now.role_change == change:  # whoever did it was killed after that, or its answer was lost
            return now
        enabled = now.with_roles_moved(new.name, old.name).enabling(run.yes_tx, run.clock.wall())
        return replace(enabled, role_change=change, history=run.history or now.history)

    await state.write(moved)
    run.drift.noted.update(state.requested.values)  # names of links are said from the new source


async def _first_write(run: RoleRun, new: Member) -> None:
    """One commit at the new source."""
    deadline_s = max(2.0, 3 * max(run.state.asked_rtts_ms(), default=0.0) / 1000)
    failure, kick = f"the first commit at {new.name} was not answered", new.dialect.kick()
    async with run.step("first write", new.name, failure) as sql:
        await new.kick.query(kick, deadline_s=deadline_s)
        sql.append(kick)
        run.written_s = run.clock.monotonic()


async def _move_load(run: RoleRun) -> None:
    if run.state.load.effective():
        async with run.step("point the load there", run.new.name, "the load did not follow"):
            await run.load.follow()


async def _point(run: RoleRun, member: Member, new: Member) -> None:
    """Let a node follow the new source, unless it cannot be whole that way."""
    failure = f"{member.name} does not follow {new.name}"
    async with run.step(f"follow {new.name}", member.name, failure) as sql:
        lost = await hole_of(new, member)
        why = hole_words(lost) if lost else run.state.requested.diverged.get(member.name)
        if why is not None:
            await sql(member.dialect.stop_threads())
            raise StackUnavailable(f"it {why}", f"`replexplorer rejoin {member.name}` copies it")
        await run.follow(sql, new)


def not_so_yet(state: StackState) -> Desired:
    """What is requested and not in force of the nodes that answer and of all links; of a node that was the
    source and follows now, that is what is asked of a replica."""
    of_source = {name.key for name in state.requested.values if name.node == SOURCE}
    wanted = state.lost_values(state.fleet.members)
    for name in state.names():
        if name.key in of_source and name.node != SOURCE and name.knob.backing in _OF_NODE:
            effective, value = state.effective_value(name), state.requested_value(name)
            if effective is not None and not same_value(name.knob, effective, value):
                wanted[name] = value
    return {
        name: value
        for name, value in wanted.items()
        if name.knob.backing not in _OF_NODE or state.reachable(state.fleet.named(name.node))
    }


_OF_NODE: Final = (Backing.SERVER, Backing.DISK)

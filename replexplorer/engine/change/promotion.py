"""From a replica to the source, with everything that it lacks first, and from a node that was away
back to one that follows; in a group, how an operator chooses who takes writes.

Law: a node takes writes only once no other can.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from replexplorer.core.change.planner import kick_deadline_s
from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SEMI_SYNC_REPLICAS,
    SOURCE,
    Backing,
    Desired,
    KnobName,
    Value,
    same_value,
)
from replexplorer.core.role_change import (
    BestCandidate,
    Candidate,
    ChangeKind,
    RecoveryPoint,
    RoleChange,
    choose,
    hole_words,
    not_without_loss,
)
from replexplorer.core.server.comeback import NOT_KNOWN
from replexplorer.core.server.gtid import gtid_count, numbered_by, subtract_gtids, transactions
from replexplorer.core.topology import Belonging, Standing
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.role_run import ENDS_WITHIN_S, RoleRun, Statements
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.samples import hole_of
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.requested import Requested
from replexplorer.engine.tasks import Patience, end_all, to_the_end
from replexplorer.ports import Ability, ask

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
"""How long, besides two round trips, the rest may take while writes are blocked."""


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
            await Statements(member)(member.dialect.stop_io)
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
    await sql(sql.member.dialect.stop_io)
    await _drain(run, sql, await run.received(sql.member))


async def _drain(run: RoleRun, sql: Statements, received: str) -> None:
    """Wait until all that was received is applied; raises StackUnavailable where it is not."""
    member = sql.member
    await sql(member.dialect.start_applier)
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
        run.report(f"{new.name} catches up; writes continue meanwhile")


async def block(run: RoleRun) -> None:
    """Block writes at the source, and wait until the replica has all of them."""
    old, new = run.old, run.new
    async with run.step("block writes", old.name) as sql:
        await sql(*old.dialect.refuse_writes, within_s=_BLOCKS_WITHIN_S)
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
        await sql(dialect.stop_threads, *dialect.follow_nobody)
        for name, value in _of_the_source(run):
            if name.key == keys.SEMI_SYNC:
                run.yes_tx = (await ask(member.control, dialect.status)).yes_tx
            try:
                await sql(dialect.set(name.key, value))
            except (ServerRefused, UsageError) as refused:
                run.warnings.append(f"{member.name} did not take {name.key} {value}: {refused}")
        run.history = await member.executed()
        await sql(*dialect.open_for_writes)
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
            required = int(state.requested_value(SEMI_SYNC_REPLICAS))
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
    deadline_s = kick_deadline_s(run.state.asked_rtts_ms())
    failure, kick = f"the first commit at {new.name} was not answered", new.dialect.kick
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
            await sql(member.dialect.stop_threads)
            raise StackUnavailable(f"it {why}", f"`replexplorer role rejoin {member.name}` copies it")
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


_COPIES_WITHIN_S: Final = 3600.0
_COPY_EVERY_S: Final = 0.5

Consent = Callable[[str, str], Awaitable[bool]]
"""Whether a node may lose these transactions: called with its name and their GTID set."""


async def come_back(run: RoleRun, consent: Consent | None, *, anyway: bool) -> str:
    """Let a node follow the source, or be a member of its group; answers the transactions that it lost for
    it. It gets the source's data in place of its own where it has any such, where it has lost the end of its
    own log, or differs for another reason that is kept, where it lacks what no binlog of the source has any
    more, and `anyway`."""
    member, source, system = run.old, run.new, run.fleet.system
    name, following = member.name, run.followers(source.name, but=member.name)
    if not run.state.reachable(name):
        async with run.step("start the server", name):
            if not system.is_group:
                await run.keep_roles(source.name, following)
            member = await run.start(name)
    executed, dialect, errant = await member.executed(), member.dialect, ""
    if system.numbers_alike:
        position = await ask(source.control, source.dialect.position)
        errant = subtract_gtids(executed, position.owned, position.executed)
    lacks, why = "", None
    if not system.is_group:
        lacks = subtract_gtids(await ask(source.control, source.dialect.purged), executed)
        lost = await hole_of(source, member)
        why = hole_words(lost) if lost else run.state.requested.diverged.get(name)
    if why is not None:
        run.warnings.append(f"{name} {why}: it gets a copy of {source.name}")
        run.report(run.warnings[-1])
    if errant or anyway or why or lacks:
        if not dialect.copies:
            await _gets_all_back(member, source)
        if errant and consent is not None and not await consent(name, errant):
            raise StackUnavailable(
                f"{name} keeps {transactions(errant)} that the source lacks, and stays as it is",
                "`replexplorer role rejoin` again, and yes, replaces its data",
            )
        async with run.step("leave the group" if system.is_group else "keep writes away", name) as sql:
            if system.is_group:
                await sql(*dialect.leave)
            else:
                await run.keep_roles(source.name, following)
                if await member.threads() is not None:
                    await sql(dialect.stop_threads)
            await sql(*dialect.refuse_clients)
        if dialect.copies:
            member = await copy(run, member, source)
        else:
            async with run.step("empty it", name) as sql:
                databases = await ask(member.control, dialect.databases)
                await sql(*dialect.follow_nobody, *dialect.empty(databases))
        if not system.is_group:
            await run.state.write(lambda now: now.differing({name: None}))
    if system.is_group:
        async with run.step("join the group", name):
            await form_group(run.fleet, run.report)
    else:
        async with run.step(f"follow {source.name}", name) as sql:
            await run.follow(sql, source)
        await run.state.look(name)
    return errant


async def copy(run: RoleRun, member: Member, source: Member) -> Member:
    """Replace a node's data by a copy of the source's; the node takes no writes of clients already."""
    fleet, credentials, dialect = run.fleet, run.fleet.logins, member.dialect
    fleet.need(Ability.STOP_SERVERS)
    async with run.step(f"copy {source.name}", member.name) as sql:
        for each in (source, member):
            if not await ask(each.control, each.dialect.can_copy):
                await Statements(each)(*each.dialect.allow_copy)
        address = SourceAddress(source.name, credentials.control_user, credentials.control_password)
        watching = asyncio.create_task(_tell_copied(run, member), name="watch the copy")
        try:
            for question in dialect.copy_from(address):
                try:
                    await ask(member.control, question, deadline_s=_COPIES_WITHIN_S)
                except ServerRefused as refused:
                    if not dialect.ended_to_restart(refused.number):
                        raise
                sql.append(question.statement)
        finally:
            await end_all(watching)
        await _until_ended(run, member.name)
    async with run.step("start on the copy", member.name):
        member = await run.start(member.name)
        found = await ask(member.control, member.dialect.copying)
        if found.fault:
            raise StackUnavailable(f"the copy for {member.name} failed: {found.fault}", "rejoin it again")
    return member


async def _gets_all_back(member: Member, source: Member) -> None:
    """Raises StackUnavailable where a source no longer has its first binlog, or sends a node what it has
    numbered itself, which a server with its `server_id` leaves out."""
    uuid, why = member.server_uuid, None
    first = next(iter(await ask(source.control, source.dialect.binlogs)), ("none", 0))[0]
    if uuid and (own := numbered_by(uuid, await source.executed())):
        why = f"it leaves out {transactions(own)} that it numbered itself"
    elif int("".join(filter(str.isdigit, first.rpartition(".")[2])) or 0) != 1:
        why = f"the binlogs of {source.name} begin with {first}"
    if why is not None:
        raise StackUnavailable(
            f"{member.name} cannot be emptied and receive everything again: {why}, and"
            f" {source.dialect.capabilities.title} cannot be copied",
            "run `replexplorer down`, then `up`, to make a new stack",
        )


async def _tell_copied(run: RoleRun, member: Member) -> None:
    while True:
        await run.clock.sleep(_COPY_EVERY_S)
        with contextlib.suppress(ReplexplorerError):
            found = await ask(member.poll, member.dialect.copying)
            if found.stage is not None:
                copied, of = found.copied_bytes / 1e6, found.estimated_bytes / 1e6
                run.report(f"{member.name}: {found.stage.lower()}, {copied:.0f} of {of:.0f} MB")


async def _until_ended(run: RoleRun, node: str) -> None:
    """Wait until a server that shuts down has ended; past that it is ended."""
    patience = Patience(run.clock, ENDS_WITHIN_S)
    while await patience.again():
        await run.fleet.discover()
        if not run.fleet.member(node).address.server_running:
            return
    await run.fleet.server_process(node).kill()


_ELECTED_WITHIN_S: Final = 60.0


def refuse_where_all_write(fleet: Fleet, what: str) -> None:
    """Raises UsageError where each member takes writes and gets what it lacks by itself."""
    if not fleet.system.elects:
        title = fleet.system.title
        raise UsageError(
            f"{what}: every member of {title} takes writes, and one that comes back gets what it lacks",
            "run `replexplorer up` to start those that are down",
        )


async def switchover_in_group(run: RoleRun, to: str | None) -> RoleChange:
    """Let `to`, or the next member by name, take the writes. Raises UsageError, StackUnavailable."""
    fleet, source = run.fleet, run.fleet.source
    refuse_where_all_write(fleet, "switchover")
    wanted = run.wanted(to) or next(filter(partial(is_member, run), fleet.replica_names), "any other")
    for name in (source.name, wanted):
        if not is_member(run, name):
            raise StackUnavailable(f"{name} is not a member with a majority", "see `replexplorer status`")
    chosen = fleet.member(wanted)
    electing, kick = source.dialect.elect(chosen.server_uuid or ""), chosen.dialect.kick
    if electing is None:
        raise UsageError(f"switchover: every node of {fleet.system.title} takes writes")
    run.begin(source.name, wanted)
    run.since_s = run.detected_s
    try:
        async with run.step("elect it", wanted) as sql:
            await to_the_end(source.run(electing, deadline_s=_ELECTED_WITHIN_S))
            sql.append(electing)
            await _until_it_takes_writes(run, wanted)
        run.opened_s = run.clock.monotonic()
        await run.load.follow()
        async with run.step("first write", wanted) as sql:
            await chosen.kick.query(kick, deadline_s=_ELECTED_WITHIN_S)
            sql.append(kick)
        run.written_s = run.clock.monotonic()
    finally:
        await to_the_end(run.record(None))
    await run.state.refresh()
    return replace(run.done(), rpo=RecoveryPoint(0, 0.0), rto=run.recovery)


def is_member(run: RoleRun, node: str) -> bool:
    """Whether a node answers and is a member that a majority answers."""
    return run.fleet.standing(node).belongs is Belonging.MEMBER and run.state.reachable(node)


async def _until_it_takes_writes(run: RoleRun, node: str) -> None:
    patience = Patience(run.clock, _ELECTED_WITHIN_S)
    while await patience.again():
        await run.look()
        if run.fleet.source_name == node:
            return
    raise StackUnavailable(f"{node} was elected and takes no writes", "see `replexplorer status`")

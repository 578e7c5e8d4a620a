"""A node comes back: it follows the source as it is, or with a copy of the source's data. In a group members
elect; an operator may choose who, and bring a node back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.errors import (
    ReplexplorerError,
    ServerRefused,
    StackUnavailable,
    UsageError,
)
from replexplorer.core.role_change import RecoveryPoint, RoleChange, hole_words
from replexplorer.core.server.gtid import numbered_by, subtract_gtids, transactions
from replexplorer.core.topology import Belonging
from replexplorer.engine.asking import ask
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.role_run import ENDS_WITHIN_S, RoleRun, Statements
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.samples import hole_of
from replexplorer.engine.tasks import Patience, to_the_end
from replexplorer.ports import Ability

_COPIES_WITHIN_S: Final = 3600.0
_COPY_EVERY_S: Final = 0.5

Consent = Callable[[str, str], Awaitable[bool]]
"""Whether a node may lose these transactions: called with its name and their GTID set."""


async def come_back(run: RoleRun, consent: Consent | None, *, anyway: bool = False) -> str:
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
        position = await ask(source.control, source.dialect.position())
        errant = subtract_gtids(executed, position.owned, position.executed)
    lacks, why = "", None
    if not system.is_group:
        lacks = subtract_gtids(await ask(source.control, source.dialect.purged()), executed)
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
                "`replexplorer rejoin` again, and yes, replaces its data",
            )
        async with run.step("leave the group" if system.is_group else "keep writes away", name) as sql:
            if system.is_group:
                await sql(*dialect.leave())
            else:
                await run.keep_roles(source.name, following)
                if await member.threads() is not None:
                    await sql(dialect.stop_threads())
            await sql(*dialect.refuse_clients())
        if dialect.copies:
            member = await copy(run, member, source)
        else:
            async with run.step("empty it", name) as sql:
                databases = await ask(member.control, dialect.databases())
                await sql(*dialect.follow_nobody(), *dialect.empty(databases))
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
            if not await ask(each.control, each.dialect.can_copy()):
                await Statements(each)(*each.dialect.allow_copy())
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
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await _until_ended(run, member.name)
    async with run.step("start on the copy", member.name):
        member = await run.start(member.name)
        found = await ask(member.control, member.dialect.copying())
        if found.fault:
            raise StackUnavailable(f"the copy for {member.name} failed: {found.fault}", "rejoin it again")
    return member


async def _gets_all_back(member: Member, source: Member) -> None:
    """Raises StackUnavailable where a source no longer has its first binlog, or sends a node what it has
    numbered itself, which a server with its `server_id` leaves out."""
    uuid, why = member.server_uuid, None
    first = next(iter(await ask(source.control, source.dialect.binlogs())), ("none", 0))[0]
    if uuid and (own := numbered_by(uuid, await source.executed())):
        why = f"it leaves out {transactions(own)} that it numbered itself"
    elif int("".join(filter(str.isdigit, first.rpartition(".")[2])) or 0) != 1:
        why = f"the binlogs of {source.name} begin with {first}"
    if why is not None:
        raise StackUnavailable(
            f"{member.name} cannot be emptied and receive everything again: {why}, and"
            f" {source.dialect.capabilities.title} cannot be copied",
            "`replexplorer down` and `up` make a new stack",
        )


async def _tell_copied(run: RoleRun, member: Member) -> None:
    while True:
        await run.clock.sleep(_COPY_EVERY_S)
        with contextlib.suppress(ReplexplorerError):
            found = await ask(member.poll, member.dialect.copying())
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
            "`replexplorer up` starts those that are down",
        )


async def switchover_in_group(run: RoleRun, to: str | None) -> RoleChange:
    """Let `to`, or the next member by name, take the writes. Raises UsageError, StackUnavailable."""
    fleet, source = run.fleet, run.fleet.source
    refuse_where_all_write(fleet, "switchover")
    wanted = run.wanted(to) or next((name for name in fleet.replica_names if is_member(run, name)), None)
    if wanted is None:
        raise StackUnavailable(f"no member beside {source.name} answers", "`replexplorer up` repairs it")
    for name in (source.name, wanted):
        if not is_member(run, name):
            raise StackUnavailable(
                f"{name} is no member that a majority answers", "`replexplorer status` says what it is"
            )
    chosen = fleet.member(wanted)
    electing, kick = source.dialect.elect(chosen.server_uuid or ""), chosen.dialect.kick()
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
    return run.done(rpo=RecoveryPoint(0, 0.0), rto=run.recovery)


def is_member(run: RoleRun, node: str) -> bool:
    """Whether a node answers and is a member that a majority answers."""
    return run.fleet.standing(node).belongs is Belonging.MEMBER and run.state.reachable(node)


async def _until_it_takes_writes(run: RoleRun, node: str) -> None:
    patience = Patience(run.clock, _ELECTED_WITHIN_S)
    while await patience.again():
        await run.look()
        if run.fleet.source_name == node:
            return
    raise StackUnavailable(f"{node} was elected and takes no writes", "`replexplorer status`")

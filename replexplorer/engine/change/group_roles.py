"""Changes of roles in a group: its members elect; an operator may choose who, and bring a node back."""

from __future__ import annotations

from typing import Final

from replexplorer.core.errors import ServerUnreachable, StackUnavailable, UsageError
from replexplorer.core.role_change import RecoveryPoint, RoleChange
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.topology import Belonging
from replexplorer.engine.asking import ask
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.rejoin import Consent, consented, copy
from replexplorer.engine.change.role_run import RoleRun
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.tasks import Patience, to_the_end

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
    wanted = run.wanted(to) or next((name for name in fleet.replica_names if _is_member(run, name)), None)
    if wanted is None:
        raise StackUnavailable(f"no member beside {source.name} answers", "`replexplorer up` repairs it")
    for name in (source.name, wanted):
        if not _is_member(run, name):
            raise StackUnavailable(
                f"{name} is no member that a majority answers", "`replexplorer status` says what it is"
            )
    chosen = fleet.member(wanted)
    if chosen.server_uuid is None:
        raise ServerUnreachable(f"{wanted} was not reached yet")
    electing, kick = source.dialect.elect(chosen.server_uuid), chosen.dialect.kick()
    if electing is None:
        raise UsageError(f"switchover: every node of {fleet.system.title} takes writes")
    run.begin(source.name, wanted)
    run.since_s = run.detected_s
    try:
        async with run.step("elect it", wanted) as said:
            await to_the_end(source.run(electing, deadline_s=_ELECTED_WITHIN_S))
            said.append(electing)
            await _until_it_takes_writes(run, wanted)
        run.opened_s = run.clock.monotonic()
        await run.load.follow()
        async with run.step("first write", wanted) as said:
            await chosen.kick.query(kick, deadline_s=_ELECTED_WITHIN_S)
            said.append(kick)
        run.written_s = run.clock.monotonic()
    finally:
        await to_the_end(run.record(None))
    await run.sight.refresh()
    return run.done(rpo=RecoveryPoint(0, 0.0), rto=run.recovery)


async def rejoin_group(run: RoleRun, node: str, consent: Consent | None, *, rebuild: bool) -> RoleChange:
    """Let a node be a member again; one that has transactions which the group lacks loses them with its
    data, where `consent` says so. Raises UsageError, StackUnavailable."""
    if rebuild:
        refuse_where_all_write(run.fleet, "rejoin --copy")
    name, source = run.node(node), run.fleet.source
    run.begin(name, source.name)
    if _is_member(run, name) and not rebuild:
        return run.done()
    if name == source.name or not _is_member(run, source.name):
        raise StackUnavailable(
            f"no member takes writes, so there is no group for {name} to come back to",
            "`replexplorer up` founds it again from the node that has most",
        )
    try:
        errant = await _come_back(run, consent, rebuild=rebuild)
    finally:
        await to_the_end(run.record(None))
    await run.sight.refresh()
    await run.sight.look_at_gtids()
    rpo = RecoveryPoint(gtid_count(errant))
    return run.done(rpo=rpo, errant_gtids={name: errant} if errant else {})


async def _come_back(run: RoleRun, consent: Consent | None, *, rebuild: bool) -> str:
    fleet, name, source = run.fleet, run.old.name, run.new
    if not run.sight.reachable(name):
        async with run.step("start the server", name):
            await run.start(name)
    member, errant = run.old, ""
    if fleet.system.numbers_alike:
        position = await ask(source.control, source.dialect.position())
        errant = subtract_gtids(await member.executed(), position.owned, position.executed)
    if errant:
        await consented(consent, name, errant)
    if errant or rebuild:
        async with run.step("leave the group", name) as said:
            await run.run(member, said, *member.dialect.leave(), *member.dialect.refuse_clients())
        await copy(run, member, source)
    async with run.step("join the group", name):
        await form_group(fleet, run.report)
    return errant


def _is_member(run: RoleRun, node: str) -> bool:
    return run.fleet.standing(node).belongs is Belonging.MEMBER and run.sight.reachable(node)


async def _until_it_takes_writes(run: RoleRun, node: str) -> None:
    patience = Patience(run.clock, _ELECTED_WITHIN_S)
    while await patience.again():
        await run.look()
        if run.fleet.source_name == node:
            return
    raise StackUnavailable(f"{node} was elected and takes no writes", "`replexplorer status`")

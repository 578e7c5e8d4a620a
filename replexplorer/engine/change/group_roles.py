"""Changes of roles in a group: its members elect; an operator may choose who, and bring a node back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replexplorer.core.errors import ServerUnreachable, StackUnavailable, UsageError
from replexplorer.core.role_change import ChangeKind, RecoveryPoint, RoleChange
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.topology import Belonging
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.promotion import FollowingLoad
from replexplorer.engine.change.rebuild import Consent, Rebuild
from replexplorer.engine.change.role_course import RoleCourse, recovery
from replexplorer.engine.change.role_nodes import RoleNodes
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import Ability

_ELECTED_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.1


class GroupRoles:
    """Who changes the roles of one group's members."""

    def __init__(
        self, nodes: RoleNodes, rebuild: Rebuild, load: FollowingLoad, report: Callable[[str], None]
    ) -> None:
        self._nodes = nodes
        self._rebuild = rebuild
        self._load = load
        self._report = report

    @property
    def _fleet(self) -> Fleet:
        return self._nodes.fleet

    def refuse_failover(self) -> None:
        """Raises UsageError: nobody has to."""
        self._refuse_where_all_write("failover")
        raise UsageError(
            f"failover: {self._fleet.system.title} elects another primary by itself",
            "`replexplorer switchover --to NODE` chooses one while a majority answers",
        )

    def _refuse_where_all_write(self, what: str) -> None:
        """Raises UsageError where each member takes writes and gets what it lacks by itself."""
        title = self._fleet.system.title
        if not self._fleet.system.elects:
            raise UsageError(
                f"{what}: every member of {title} takes writes, and one that comes back gets what it lacks",
                "`replexplorer up` starts those that are down",
            )

    async def switchover(self, to: str | None) -> RoleChange:
        """Let `to`, or the next member by name, take the writes. Raises UsageError, StackUnavailable."""
        self._refuse_where_all_write("switchover")
        clock = self._nodes.clock
        await self._nodes.look()
        source = self._fleet.source
        wanted = self._nodes.wanted(to, source.name) or self._next(source.name)
        for name in (source.name, wanted):
            if not self._is_member(name):
                raise StackUnavailable(
                    f"{name} is no member that a majority answers", "`replexplorer status` says what it is"
                )
        chosen = self._fleet.member(wanted)
        statement = source.dialect.elect(self._uuid(chosen))
        if statement is None:
            raise UsageError(f"switchover: every node of {self._fleet.system.title} takes writes")
        course = self._nodes.course(ChangeKind.SWITCHOVER, source.name, wanted)
        began_s = clock.monotonic()
        try:
            async with course.step("elect it", wanted) as said:
                await to_the_end(execute(source.control, (statement,), deadline_s=_ELECTED_WITHIN_S))
                said.append(statement)
                await self._until_it_takes_writes(wanted)
            opened_s = clock.monotonic()
            await self._load.follow()
            written_s = await self._first_write(course, chosen)
        finally:
            await to_the_end(self._nodes.forget())
        await self._nodes.sight.refresh()
        return RoleChange(
            ChangeKind.SWITCHOVER,
            source.name,
            wanted,
            tuple(course.steps),
            rpo=RecoveryPoint(0, 0.0),
            rto=recovery(began_s, began_s, opened_s, written_s),
            warnings=tuple(course.warnings),
            in_group=True,
        )

    async def rejoin(self, node: str, consent: Consent | None, *, rebuild: bool) -> RoleChange:
        """Let a node be a member again; one that has transactions which the group lacks loses them with its
        data, where `consent` says so. Raises UsageError, StackUnavailable."""
        if rebuild:
            self._refuse_where_all_write("rejoin --copy")
        await self._nodes.look()
        name, source = self._nodes.node(node), self._fleet.source
        if self._is_member(name) and not rebuild:
            return RoleChange(ChangeKind.REJOIN, name, source.name, fenced=True, in_group=True)
        if name == source.name or not self._is_member(source.name):
            raise StackUnavailable(
                f"no member takes writes, so there is no group for {name} to come back to",
                "`replexplorer up` founds it again from the node that has most",
            )
        course = self._nodes.course(ChangeKind.REJOIN, name, source.name)
        try:
            errant = await self._come_back(course, name, consent, rebuild=rebuild)
        finally:
            await to_the_end(self._nodes.forget())
        await self._nodes.sight.refresh()
        await self._nodes.sight.look_at_gtids()
        return RoleChange(
            ChangeKind.REJOIN,
            name,
            source.name,
            tuple(course.steps),
            rpo=RecoveryPoint(gtid_count(errant)),
            errant_gtids={name: errant} if errant else {},
            fenced=True,
            in_group=True,
        )

    async def _come_back(
        self, course: RoleCourse, name: str, consent: Consent | None, *, rebuild: bool
    ) -> str:
        fleet, source = self._fleet, self._fleet.source
        if not self._nodes.reachable(name):
            fleet.need(Ability.STOP_SERVERS)
            async with course.step("start the server", name):
                await fleet.server_process(name).start()
                await self._nodes.until_it_answers(name)
        member = fleet.member(name)
        errant = ""
        if fleet.system.numbers_alike:
            executed = await ask(member.control, member.dialect.executed())
            position = await ask(source.control, source.dialect.position())
            errant = subtract_gtids(executed, position.owned, position.executed)
        if errant or rebuild:
            if errant:
                await self._rebuild.consented(consent, name, errant)
            async with course.step("leave the group", name) as said:
                dialect = member.dialect
                await self._nodes.run(member, (*dialect.leave(), *dialect.refuse_clients()), said)
            await self._rebuild.copy(course, member, source)
        async with course.step("join the group", name):
            await form_group(fleet, self._report)
        return errant

    def _next(self, source: str) -> str:
        others = [name for name in self._fleet.replica_names if self._is_member(name)]
        if not others:
            raise StackUnavailable(f"no member beside {source} answers", "`replexplorer up` repairs it")
        return others[0]

    def _is_member(self, node: str) -> bool:
        return self._fleet.standing(node).belongs is Belonging.MEMBER and self._nodes.reachable(node)

    def _uuid(self, member: Member) -> str:
        known = member.capabilities.server_uuid if member.capabilities else None
        if known is None:
            raise ServerUnreachable(f"{member.name} was not reached yet")
        return known

    async def _until_it_takes_writes(self, node: str) -> None:
        ends_s = self._nodes.clock.monotonic() + _ELECTED_WITHIN_S
        while True:
            await self._nodes.look()
            if self._fleet.source_name == node:
                return
            if self._nodes.clock.monotonic() > ends_s:
                raise StackUnavailable(f"{node} was elected and takes no writes", "`replexplorer status`")
            await self._nodes.clock.sleep(_LOOK_EVERY_S)

    async def _first_write(self, course: RoleCourse, member: Member) -> float | None:
        """When a commit at the new primary was answered."""
        async with course.step("first write", member.name) as said:
            statement = member.dialect.kick()
            await execute(member.kick, (statement,), deadline_s=_ELECTED_WITHIN_S)
            said.append(statement)
        return self._nodes.clock.monotonic()

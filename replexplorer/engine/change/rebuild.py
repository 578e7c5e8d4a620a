"""A node comes back: it follows the source as it is, or with a copy of the source's data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable
from replexplorer.core.role_change import hole_words
from replexplorer.core.server.gtid import numbered_by, subtract_gtids, transactions
from replexplorer.engine.asking import ask
from replexplorer.engine.change.role_course import RoleCourse
from replexplorer.engine.change.role_nodes import ENDS_WITHIN_S, RoleNodes
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.server_sample import hole_of
from replexplorer.ports import Ability

_LOOK_EVERY_S: Final = 0.1
_COPIES_WITHIN_S: Final = 3600.0
_COPY_EVERY_S: Final = 0.5

Consent = Callable[[str, str], Awaitable[bool]]
"""Whether a node may lose these transactions: called with its name and their GTID set."""


class Rebuild:
    """Brings nodes of one stack back."""

    def __init__(self, nodes: RoleNodes) -> None:
        self._nodes = nodes

    async def come_back(
        self,
        course: RoleCourse,
        member: Member,
        source: Member,
        consent: Consent | None,
        *,
        anyway: bool = False,
    ) -> str:
        """Let a node follow the source; answers the transactions that it lost for it. It gets the source's
        data in place of its own where it has any such, where it has lost the end of its own log, or differs
        for another reason that is kept, where it lacks what no binlog of the source has any more, and
        `anyway`."""
        fleet = self._nodes.fleet
        following = [name for name in self._nodes.followers(source.name) if name != member.name]
        if not self._nodes.reachable(member.name):
            self._nodes.fleet.need(Ability.STOP_SERVERS)
            async with course.step("start the server", member.name):
                await fleet.outside.provider.keep_roles(self._nodes.boot_roles(source.name, following))
                await fleet.server_process(member.name).start()
                await self._nodes.until_it_answers(member.name)
            member = fleet.member(member.name)
            await self._nodes.sight.look(member.name)
        executed = await ask(member.control, member.dialect.executed())
        position = await ask(source.control, source.dialect.position())
        purged = await ask(source.control, source.dialect.purged())
        errant = subtract_gtids(executed, position.owned, position.executed)
        lost = await hole_of(source, member)
        why = hole_words(lost) if lost else self._nodes.sight.requested.diverged.get(member.name)
        if why is not None:
            course.warnings.append(f"{member.name} {why}: it gets a copy of {source.name}")
            self._nodes.report(course.warnings[-1])
        if errant or anyway or why or subtract_gtids(purged, executed):
            if not member.dialect.copies:
                await self._gets_all_back(member, source)
            if errant:
                await self.consented(consent, member.name, errant)
            if member.dialect.copies:
                await self._keep_writes_away(course, member, source)
                await self.copy(course, member, source)
            else:
                await self._empty(course, member, source)
            member = fleet.member(member.name)
            await self._nodes.note_diverged({member.name: None})
        async with course.step(f"follow {source.name}", member.name) as said:
            await self._nodes.follow(member, source, said)
        await self._nodes.sight.look(member.name)
        return errant

    async def consented(self, consent: Consent | None, node: str, errant: str) -> None:
        """Raises StackUnavailable where somebody says no."""
        if consent is not None and not await consent(node, errant):
            raise StackUnavailable(
                f"{node} keeps {transactions(errant)} that the source lacks, and stays as it is",
                "`replexplorer rejoin` again, and yes, replaces its data",
            )

    async def copy(self, course: RoleCourse, member: Member, source: Member) -> None:
        """Replace a node's data by a copy of the source's; the node takes no writes of clients already."""
        fleet, credentials = self._nodes.fleet, self._nodes.fleet.credentials
        if credentials is None:
            raise StackUnavailable("no stack is attached", "replexplorer up")
        self._nodes.fleet.need(Ability.STOP_SERVERS)
        async with course.step(f"copy {source.name}", member.name) as said:
            for each in (source, member):
                if not await ask(each.control, each.dialect.can_copy()):
                    await self._nodes.run(each, each.dialect.allow_copy(), said)
            address = SourceAddress(source.name, credentials.control_user, credentials.control_password)
            watching = asyncio.create_task(self._tell_copied(member), name="watch the copy")
            try:
                await self._copy_from(member, address, said)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            await self._until_ended(member.name)
        async with course.step("start on the copy", member.name):
            await fleet.server_process(member.name).start()
            await self._nodes.until_it_answers(member.name)
            member = fleet.member(member.name)
            found = await ask(member.control, member.dialect.copying())
            if found.fault:
                raise StackUnavailable(f"the copy for {member.name} failed: {found.fault}", "rejoin it again")

    async def _keep_writes_away(self, course: RoleCourse, member: Member, source: Member) -> None:
        following = [name for name in self._nodes.followers(source.name) if name != member.name]
        async with course.step("keep writes away", member.name) as said:
            provider = self._nodes.fleet.outside.provider
            await provider.keep_roles(self._nodes.boot_roles(source.name, following))
            dialect = member.dialect
            threads = await ask(member.control, dialect.threads())
            if threads is not None:
                await self._nodes.run(member, (dialect.stop_threads(),), said)
            await self._nodes.run(member, dialect.refuse_clients(), said)

    async def _gets_all_back(self, member: Member, source: Member) -> None:
        """Raises StackUnavailable where a source no longer has its first binlog, or sends a node what it has
        numbered itself, which a server with its `server_id` leaves out."""
        node, uuid = member.name, self._nodes.uuid(member)
        if uuid and (own := numbered_by(uuid, await ask(source.control, source.dialect.executed()))):
            raise StackUnavailable(
                f"{node} cannot be emptied and receive everything again: it leaves out {transactions(own)}"
                f" that it numbered itself, and {source.dialect.capabilities.title} cannot be copied",
                "`replexplorer down` and `up` make a new stack",
            )
        first = next(iter(await ask(source.control, source.dialect.binlogs())), ("none", 0))[0]
        if int("".join(filter(str.isdigit, first.rpartition(".")[2])) or 0) != 1:
            raise StackUnavailable(
                f"{node} cannot be emptied and receive everything again: the binlogs of {source.name} begin"
                f" with {first}, and {source.dialect.capabilities.title} cannot be copied",
                "`replexplorer down` and `up` make a new stack",
            )

    async def _empty(self, course: RoleCourse, member: Member, source: Member) -> None:
        """Take a node's data away: it receives all that the source has logged once it follows."""
        await self._keep_writes_away(course, member, source)
        async with course.step("empty it", member.name) as said:
            dialect = member.dialect
            databases = await ask(member.control, dialect.databases())
            await self._nodes.run(member, (*dialect.follow_nobody(), *dialect.empty(databases)), said)

    async def _copy_from(self, member: Member, address: SourceAddress, said: list[str]) -> None:
        dialect = member.dialect
        for question in dialect.copy_from(address):
            try:
                await ask(member.control, question, deadline_s=_COPIES_WITHIN_S)
            except ServerRefused as refused:
                if not dialect.ended_to_restart(refused.number):
                    raise
            said.append(question.statement)

    async def _tell_copied(self, member: Member) -> None:
        while True:
            await self._nodes.clock.sleep(_COPY_EVERY_S)
            with contextlib.suppress(ReplexplorerError):
                found = await ask(member.poll, member.dialect.copying())
                if found.stage is not None:
                    copied, of = found.copied_bytes / 1e6, found.estimated_bytes / 1e6
                    self._nodes.report(f"{member.name}: {found.stage.lower()}, {copied:.0f} of {of:.0f} MB")

    async def _until_ended(self, node: str) -> None:
        """Wait until a server that shuts down has ended; past that it is ended."""
        ends_s = self._nodes.clock.monotonic() + ENDS_WITHIN_S
        while self._nodes.clock.monotonic() < ends_s:
            await self._nodes.fleet.discover()
            if not self._nodes.fleet.member(node).address.server_running:
                return
            await self._nodes.clock.sleep(_LOOK_EVERY_S)
        await self._nodes.fleet.server_process(node).kill()

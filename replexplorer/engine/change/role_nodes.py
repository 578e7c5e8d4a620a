"""A stack's nodes as a change of roles sees them and works on them, and its record in the document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.role_change import BootRoles, Candidate, ChangeKind, Lineage, UnderWay
from replexplorer.core.server.comeback import loses_rows
from replexplorer.core.server.gtid import unite_gtids
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.change.not_started import no_login
from replexplorer.engine.change.role_course import RoleCourse
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.fleet import STARTS_WITHIN_S, Fleet, Member
from replexplorer.engine.observe.server_sample import answers
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.requested import write_diverged, write_role_change
from replexplorer.ports import Clock

ENDS_WITHIN_S: Final = 90.0
"""How long a statement, or a server's end, may take where nothing waits for it but the change itself: MySQL
itself waits up to 60 s for the rest of a transaction of which the applier has received a part before it stops
(SLAVE_WAIT_GROUP_DONE in the server's source)."""
_LOOK_EVERY_S: Final = 0.1
_GONE_WITHIN_S: Final = 5.0
"""A server whose process runs has this long to answer before it counts as gone."""


class RoleNodes:
    """One stack's nodes."""

    def __init__(self, sight: Sight, turns: Turns, report: Callable[[str], None]) -> None:
        self.sight = sight
        self.report = report
        self._turns = turns

    @property
    def fleet(self) -> Fleet:
        """The stack's."""
        return self.sight.fleet

    @property
    def clock(self) -> Clock:
        """The time that a change goes by."""
        return self.fleet.outside.clock

    async def look(self) -> None:
        """Look at the document and at every server; one whose process does not run, or is frozen, is not
        waited for."""
        await self.fleet.discover()
        await self.sight.read_document()
        await asyncio.gather(*(self._look_at(member) for member in self.fleet.members.values()))

    async def _look_at(self, member: Member) -> None:
        """Look at one server, unless its process does not run or is frozen."""
        if member.address.server_running:
            await self.sight.look(member.name)
        else:
            self.sight.miss(member.name)

    def reachable(self, node: str) -> bool:
        """Whether a node answered the last look."""
        sample = self.sight.samples.get(node)
        return sample is not None and sample.view.reachable

    async def is_there(self, node: str) -> bool:
        """Whether a node's server runs and answers; a connection of its own waits behind nobody's."""
        if not self.fleet.member(node).address.server_running:
            return False
        sql = self.fleet.connection(node)
        try:
            return await answers(sql, within_s=_GONE_WITHIN_S)
        finally:
            await sql.close()

    def node(self, text: str) -> str:
        """The node of this name or alias; raises UsageError."""
        roster = self.fleet.roster
        found = roster.find(text)
        if found is None:
            raise UsageError(f"no node '{text}' in this stack", f"its nodes are {', '.join(roster.names)}")
        return found

    def wanted(self, to: str | None, source: str) -> str | None:
        """The node that is to be promoted, checked; None: whichever is best."""
        if to is None:
            return None
        node = self.node(to)
        if node == source:
            others = ", ".join(self.fleet.replica_names)
            raise UsageError(f"{node} is the source already", f"one of {others}" if others else "")
        return node

    def follows(self, node: str, source: str) -> bool:
        """Whether a node replicates from the source as it should."""
        sample = self.sight.samples.get(node)
        if sample is None or not sample.view.reachable:
            return False
        runs = sample.view.io_thread in ("on", "connecting") and sample.view.sql_thread == "on"
        return runs and self.fleet.standing(node).follows == source

    async def candidates(self, source: str, *, streaming: bool = False) -> list[Candidate]:
        """The replicas with what they have; `streaming`: both threads must run, and what is executed
        counts."""
        found = (self._candidate(member, source, streaming) for member in self.fleet.replicas)
        return list(await asyncio.gather(*found))

    async def _candidate(self, member: Member, source: str, streaming: bool) -> Candidate:
        view = self.sight.samples[member.name].view
        if not view.reachable:
            return Candidate(member.name, "", "is down")
        try:
            received = await self.received(member, executed_alone=streaming)
        except ReplexplorerError as error:
            return Candidate(member.name, "", f"does not say what it has ({error.message})")
        follows = self.fleet.standing(member.name).follows
        trouble = None
        if follows != source:
            trouble = "follows nobody" if follows is None else f"follows {follows}"
        elif view.sql_thread == "error":
            trouble = f"has an applier that ended with an error ({view.replication_fault})"
        elif streaming and (view.io_thread, view.sql_thread) != ("on", "on"):
            trouble = f"does not replicate (IO thread {view.io_thread}, SQL thread {view.sql_thread})"
        diverged = self.sight.requested.diverged.get(member.name)
        return Candidate(member.name, received, trouble, self.uuid(member) or "", diverged)

    async def lineage(self, source: str) -> Lineage:
        """Which transactions are the source's; one that answers says what it has executed, of one that does
        not its replicas know the UUID, and the document what it had when it was promoted."""
        member, history = self.fleet.member(source), self.sight.requested.history
        if self.reachable(source):
            history = await ask(member.control, member.dialect.executed())
        uuid = self.uuid(member)
        for name in self.followers(source):
            if uuid is None and self.reachable(name):
                replica = self.fleet.member(name)
                threads = await ask(replica.control, replica.dialect.threads())
                uuid = None if threads is None else threads.source_uuid
        return Lineage(uuid or "", history)

    def uuid(self, member: Member) -> str | None:
        """A server's own, which begins each GTID that it numbers; None where it has none, or was never
        reached."""
        return member.capabilities.server_uuid if member.capabilities else None

    async def received(self, member: Member, *, executed_alone: bool) -> str:
        """All that a replica has: what waits in its relay log first, for it only becomes executed."""
        behind = None if executed_alone else await ask(member.control, member.dialect.behind(""))
        executed = await ask(member.control, member.dialect.executed())
        return unite_gtids((behind.queued or "") if behind else "", executed)

    def may_lack_rows(self, source: str) -> bool:
        """Whether a source that ends may lose rows whose GTIDs it keeps, by the setting of its redo log."""
        key = keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT
        sample = self.sight.samples.get(source)
        asked = {key: self.sight.requested_value(KnobName(key, SOURCE))}
        cut = any((each.kind, each.node) == ("power_cut", source) for each in self.sight.requested.faults)
        return loses_rows("power_cut" if cut else "kill", {**asked, **(sample.values if sample else {})})

    async def note_diverged(self, change: Mapping[str, str | None]) -> None:
        """Keep which nodes differ from the source, and why; None: this one does not any more."""
        fleet = self.fleet
        self.sight.requested = await write_diverged(fleet.keeper, fleet.roster, change)

    def course(self, kind: ChangeKind, source: str, to: str) -> RoleCourse:
        """A change that begins now."""
        by, began_s = self._turns.actor.writer, self.clock.wall()
        under_way = UnderWay(kind, source, to, "", by, began_s)
        return self.course_of(under_way)

    def course_of(self, under_way: UnderWay) -> RoleCourse:
        """A change that has begun, with what is requested now."""
        asked = self.sight.requested.values
        return RoleCourse(under_way, self.write, self.clock.monotonic, self.report, asked)

    async def write(self, under_way: UnderWay | None) -> None:
        """Record the change that is under way; None: there is none."""
        fleet = self.fleet
        self.sight.requested = await write_role_change(fleet.keeper, fleet.roster, under_way)

    async def forget(self) -> None:
        """No change is under way any more."""
        await self.write(None)

    async def run(self, member: Member, statements: Iterable[str], said: list[str]) -> None:
        """Run statements, each of which is told once it is done."""
        for statement in statements:
            await execute(member.control, (statement,), deadline_s=ENDS_WITHIN_S)
            said.append(statement)

    async def ask(self, member: Member, question: Question[None], said: list[str]) -> None:
        """Ask what changes something, which is told once it is done."""
        await ask(member.control, question, deadline_s=ENDS_WITHIN_S)
        said.append(question.statement)

    def boot_roles(self, source: str, following: Collection[str]) -> BootRoles:
        """What the servers are when they start: those that do not follow take no writes."""
        others = (name for name in self.fleet.members if name != source and name not in following)
        return BootRoles(source, frozenset(others))

    def followers(self, source: str) -> list[str]:
        """The nodes that follow this one, as last seen."""
        return [name for name in self.fleet.members if self.fleet.standing(name).follows == source]

    async def follow(self, member: Member, source: Member, said: list[str]) -> None:
        """Point a node at a source, by its position, and start its threads; it takes no writes."""
        credentials, dialect = self.fleet.credentials, member.dialect
        if credentials is None:
            raise StackUnavailable("no stack is attached", "replexplorer up")
        address = SourceAddress(source.name, credentials.replication_user, credentials.replication_password)
        await self.run(member, (dialect.stop_threads(), *dialect.refuse_writes()), said)
        await self.ask(member, dialect.follow(address), said)
        await self.run(member, (*dialect.register(), dialect.start_threads()), said)

    def threads(self, node: str) -> tuple[str | None, str | None]:
        """The states of its IO and SQL threads at the last look."""
        view = self.sight.samples[node].view
        return view.io_thread, view.sql_thread

    async def until_it_answers(self, node: str) -> None:
        """Wait for a login; raises StackUnavailable when none succeeds in time."""
        ends_s = self.clock.monotonic() + STARTS_WITHIN_S
        while True:
            await self.fleet.discover()
            if await answers(self.fleet.member(node).control):
                await self.sight.look(node)
                return
            if self.clock.monotonic() > ends_s:
                raise await no_login(self.fleet, node)
            await self.clock.sleep(_LOOK_EVERY_S)

    async def keep_roles(self) -> None:
        """Whoever follows the source now may do so again when it starts."""
        source = self.fleet.source_name
        following = [name for name in self.followers(source) if self.reachable(name)]
        await self.fleet.outside.provider.keep_roles(self.boot_roles(source, following))

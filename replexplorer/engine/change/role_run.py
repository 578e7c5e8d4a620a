"""One change of roles as it goes: its nodes, and its steps, each recorded before it is done and timed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from replexplorer.core.dialect.dialect import SourceAddress
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.role_change import (
    BootRoles,
    Candidate,
    ChangeKind,
    Lineage,
    RecoveryTime,
    RoleChange,
    RoleStep,
    UnderWay,
)
from replexplorer.core.server.comeback import loses_rows
from replexplorer.core.server.gtid import unite_gtids
from replexplorer.engine.change.bringup import until_it_answers
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.fleet import Member
from replexplorer.engine.load import Driving
from replexplorer.engine.observe.samples import answers
from replexplorer.ports import Ability, ask

ENDS_WITHIN_S: Final = 90.0
"""How long a statement, or a server's end, may take where nothing waits for it but the change itself: MySQL
itself waits up to 60 s for the rest of a transaction of which the applier has received a part before it stops
(SLAVE_WAIT_GROUP_DONE in the server's source)."""
_GONE_WITHIN_S: Final = 5.0
"""A server whose process runs has this long to answer before it counts as gone."""


class Statements(list[str]):
    """What has run on one node's server, in order; called with statements, it runs them there."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member

    async def __call__(self, *statements: str, within_s: float = ENDS_WITHIN_S) -> None:
        """Run them, each of which is told once it is done."""
        for statement in statements:
            await self.member.run(statement, deadline_s=within_s)
            self.append(statement)


class RoleRun:
    """One change of roles."""

    def __init__(self, controls: Controls, load: Driving, kind: ChangeKind) -> None:
        self.load = load
        self.state = controls.state
        self.drift = controls.drift
        self.fleet = controls.fleet
        self.clock = controls.clock
        self.report = controls.report
        self.under_way = UnderWay(kind, "", "", "", controls.turns.actor.writer, controls.clock.wall())
        """As it is recorded; its nodes are known once it has begun."""
        self.steps: list[RoleStep] = []
        self.warnings: list[str] = []
        self.history: str | None = None
        """GTID set of the new source when it was about to be opened for writes; None before that."""
        self.yes_tx: int | None = None
        """The new source's acknowledgement counter before semi-sync was enabled there; None: it was not."""
        self.since_s = self.detected_s = self.opened_s = self.clock.monotonic()
        """When the source was lost, when that was certain, when the new one was open for writes."""
        self.written_s: float | None = None
        """When a commit there was answered; None where none was in time."""

    # -- the change

    @property
    def old(self) -> Member:
        """The node that was the source when it began; of a rejoin the node that comes back."""
        return self.fleet.member(self.under_way.source)

    @property
    def new(self) -> Member:
        """The node that is to be the source."""
        return self.fleet.member(self.under_way.to)

    def begin(self, source: str, to: str) -> None:
        """It begins now, between these nodes."""
        self.detected_s = self.clock.monotonic()
        self.under_way = replace(self.under_way, source=source, to=to)

    async def record(self, under_way: UnderWay | None) -> None:
        """Keep with the stack what is under way; None: nothing."""
        await self.state.write(lambda now: replace(now, role_change=under_way))

    @asynccontextmanager
    async def step(self, name: str, node: str, failure: str = "") -> AsyncIterator[Statements]:
        """One step: recorded, then done and timed, with what runs on the node's server. One beside others,
        whose `failure` is a warning that begins so, is not recorded."""
        if not failure:
            self.under_way = replace(self.under_way, step=name)
            await self.record(self.under_way)
            self.report(f"{node}: {name}")
        began_s, sql = self.clock.monotonic(), Statements(self.fleet.members.get(node, self.old))
        try:
            yield sql
        except ReplexplorerError as error:
            if not failure:
                raise
            self.warnings.append(f"{failure}: {error}")
            if not sql:
                return
        took_ms = (self.clock.monotonic() - began_s) * 1000
        self.steps.append(RoleStep(name, node, tuple(sql), took_ms))

    @property
    def recovery(self) -> RecoveryTime:
        """The parts of the time without a source."""
        written_s = self.written_s
        return RecoveryTime(
            detect_ms=(self.detected_s - self.since_s) * 1000,
            promote_ms=(self.opened_s - self.detected_s) * 1000,
            first_write_ms=None if written_s is None else (written_s - self.opened_s) * 1000,
            total_ms=None if written_s is None else (written_s - self.since_s) * 1000,
        )

    def done(self) -> RoleChange:
        """The change, as it was carried out."""
        change = self.under_way
        return RoleChange(
            change.kind,
            change.source,
            change.to,
            tuple(self.steps),
            fenced=True,
            warnings=tuple(self.warnings),
            in_group=self.fleet.system.is_group,
        )

    # -- looking at the nodes

    async def look(self) -> None:
        """Look at the document and at every server; one whose process does not run, or is frozen, is not
        waited for."""
        await self.fleet.discover()
        await self.state.read_document()
        running = []
        for member in self.fleet.members.values():
            if member.address.server_running:
                running.append(member.name)
            else:
                self.state.miss(member.name)
        await asyncio.gather(*map(self.state.look, running))

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

    def wanted(self, to: str | None) -> str | None:
        """The node that is to be promoted, checked; None: whichever is best."""
        if to is None:
            return None
        node, others = self.node(to), ", ".join(self.fleet.replica_names)
        if node == self.fleet.source_name:
            raise UsageError(f"{node} is the source already", f"use one of {others}" if others else "")
        return node

    def followers(self, source: str, *, but: str = "") -> list[str]:
        """The nodes that follow this one, as last seen, `but` one."""
        return [
            name for name in self.fleet.members if self.fleet.standing(name).follows == source and name != but
        ]

    async def candidates(self, source: str, *, streaming: bool = False) -> list[Candidate]:
        """The replicas with what they have; `streaming`: both threads must run, and what is executed
        counts."""
        found = (self._candidate(member, source, streaming) for member in self.fleet.replicas)
        return list(await asyncio.gather(*found))

    async def _candidate(self, member: Member, source: str, streaming: bool) -> Candidate:
        name, view = member.name, self.state.samples[member.name].view
        if not view.reachable:
            return Candidate(name, "", "is down")
        try:
            has = await (member.executed() if streaming else self.received(member))
        except ReplexplorerError as error:
            return Candidate(name, "", f"does not report its transactions ({error.message})")
        trouble = None
        if (follows := self.fleet.standing(name).follows) != source:
            trouble = "follows no source" if follows is None else f"follows {follows}"
        elif view.sql_thread == "error":
            trouble = f"has an applier that ended with an error ({view.replication_fault})"
        elif streaming and (view.io_thread, view.sql_thread) != ("on", "on"):
            trouble = f"does not replicate (IO thread {view.io_thread}, SQL thread {view.sql_thread})"
        diverged = self.state.requested.diverged.get(name)
        return Candidate(name, has, trouble, member.server_uuid or "", diverged)

    async def lineage(self, source: str) -> Lineage:
        """Which transactions are the source's; one that answers says what it has executed, of one that does
        not its replicas know the UUID, and the document what it had when it was promoted."""
        member, history = self.fleet.member(source), self.state.requested.history
        if self.state.reachable(source):
            history = await member.executed()
        uuid = member.server_uuid
        for name in self.followers(source):
            if uuid is None and self.state.reachable(name):
                threads = await self.fleet.member(name).threads()
                uuid = None if threads is None else threads.source_uuid
        return Lineage(uuid or "", history)

    async def received(self, member: Member) -> str:
        """All that a replica has: what waits in its relay log first, for it only becomes executed."""
        behind = await ask(member.control, member.dialect.behind(""))
        return unite_gtids((behind.queued or "") if behind else "", await member.executed())

    def may_lack_rows(self, source: str) -> bool:
        """Whether a source that ends may lose rows whose GTIDs it keeps, by the setting of its redo log."""
        key = keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT
        sample = self.state.samples.get(source)
        asked = {key: self.state.requested_value(KnobName(key, SOURCE))}
        cut = any((each.kind, each.node) == ("power_cut", source) for each in self.state.requested.faults)
        return loses_rows("power_cut" if cut else "kill", {**asked, **(sample.values if sample else {})})

    # -- working on the nodes

    async def follow(self, sql: Statements, source: Member) -> None:
        """Point a node at a source, by its position, and start its threads; it takes no writes, and its
        applier waits for no acknowledgement."""
        credentials, dialect = self.fleet.logins, sql.member.dialect
        address = SourceAddress(source.name, credentials.replication_user, credentials.replication_password)
        await sql(dialect.stop_threads, *dialect.refuse_writes)
        pointing = dialect.follow(address)
        await ask(sql.member.control, pointing, deadline_s=ENDS_WITHIN_S)
        sql.append(pointing.statement)
        sample = self.state.samples.get(sql.member.name)
        if sample is not None and sample.values.get(keys.SEMI_SYNC) == "on":
            await sql(dialect.set(keys.SEMI_SYNC, "off"))
        await sql(*dialect.register, dialect.start_threads)

    async def start(self, node: str) -> Member:
        """Start a node's server and wait for a login; raises StackUnavailable."""
        self.fleet.need(Ability.STOP_SERVERS)
        await self.fleet.server_process(node).start()
        await until_it_answers(self.fleet, node)
        await self.state.look(node)
        return self.fleet.member(node)

    async def keep_roles(self, source: str, following: Collection[str]) -> None:
        """Let servers be this when they start: those that do not follow the source take no writes."""
        others = (name for name in self.fleet.members if name != source and name not in following)
        await self.fleet.outside.provider.keep_roles(BootRoles(source, frozenset(others)))

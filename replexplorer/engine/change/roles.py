"""Changes of roles carried out: failover, switchover, rejoin, and the end of one that was interrupted.

Laws: what is about to be done stands in the stack's document before it is done, so that whoever does it
may die. Before a node takes writes, no other can, nor could if its server were started. What fails
before that is taken back; what fails after it is told, and what is left is finished by the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, Desired, KnobName
from replexplorer.core.loss.ledger import reckon
from replexplorer.core.role_change import ChangeKind, RecoveryPoint, RoleChange, RoleStep, choose
from replexplorer.core.server.gtid import gtid_count, transactions
from replexplorer.engine.asking import ledger_rows
from replexplorer.engine.change.group_roles import GroupRoles
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.promotion import FollowingLoad, Promotion
from replexplorer.engine.change.rebuild import Consent, Rebuild
from replexplorer.engine.change.role_course import RoleCourse, recovery
from replexplorer.engine.change.role_endings import Endings
from replexplorer.engine.change.role_knobs import goes_with_the_roles, not_so_yet
from replexplorer.engine.change.role_nodes import RoleNodes
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.observe.probing import watch_links
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.record.chronicle import Chronicle
from replexplorer.ports import Ability

_LOOK_EVERY_S: Final = 0.1
_REPLICATES_WITHIN_S: Final = 30.0
_US_PER_S: Final = 1_000_000


class RoleChanges:
    """Who changes one stack's roles."""

    def __init__(
        self,
        sight: Sight,
        turns: Turns,
        changes: MarkedChanges,
        load: FollowingLoad,
        chronicle: Chronicle,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sight = sight
        self._turns = turns
        self._changes = changes
        self._chronicle = chronicle
        self._nodes = RoleNodes(sight, turns, report)
        self._promotion = Promotion(self._nodes, load)
        self._rebuild = Rebuild(self._nodes)
        self._group = GroupRoles(self._nodes, self._rebuild, load, report)
        self._endings = Endings(self._nodes, self._promotion, chronicle)
        self._fleet = sight.fleet
        self._clock = sight.fleet.outside.clock

    async def failover(
        self,
        to: str | None = None,
        *,
        since_s: float | None = None,
        anyway: bool = False,
        accept_loss: bool = False,
    ) -> RoleChange:
        """Promote the replica that lacks least, or `to`, in place of a source that is gone; what other nodes
        have of the source's transactions beside it fetches first. With `accept_loss` it goes without what
        cannot be fetched, or what its own log has lost.

        `since_s` is when it was lost, on the monotonic clock; None: now. Raises UsageError where there is no
        such node, StackUnavailable while the source answers and where no node can be promoted without a loss;
        then nothing is changed but that a source that was frozen or hung has ended.
        """
        if accept_loss and to is None:
            raise UsageError("failover: a loss is accepted for one node", "--to NODE --accept-loss")
        if self._fleet.system.is_group:
            self._group.refuse_failover()
        since_s = self._clock.monotonic() if since_s is None else since_s
        self._fleet.need(Ability.STOP_SERVERS)
        async with self._turns.change(anyway=anyway):
            await self._nodes.look()
            source = self._fleet.source_name
            wanted = self._nodes.wanted(to, source)
            if await self._nodes.is_there(source):
                raise StackUnavailable(
                    f"{source} answers: a failover is for a source that is gone",
                    "`replexplorer switchover` changes the roles while it answers",
                )
            lineage = await self._nodes.lineage(source)
            chosen = choose(
                await self._nodes.candidates(source), lineage, wanted, accept_loss=accept_loss
            ).node
            detected_s = self._clock.monotonic()
            course = self._nodes.course(ChangeKind.FAILOVER, source, chosen)
            mark = self._chronicle.begin_change(str(course.under_way))
            try:
                chosen, accepted = await self._promotion.take_the_place(
                    course, source, wanted, accept_loss=accept_loss
                )
                opened_s, settings = await to_the_end(self._promotion.promote(course, chosen))
            except BaseException as error:
                self._chronicle.change_failed(mark, f"{course.under_way} failed: {error}")
                await to_the_end(self._endings.try_to_take_back(course.under_way))
                raise
            written_s = await to_the_end(self._promotion.hand_over(course, settings))
        if accepted:
            course.warnings.append(
                f"{transactions(accepted)} that other nodes had are lost to {chosen}: {accepted}"
            )
        after = await to_the_end(self._settle_down(course, mark))
        return replace(
            after,
            rpo=replace(await self._lost(since_s), accepted=accepted),
            rto=recovery(since_s, detected_s, opened_s, written_s),
            fenced=True,
        )

    async def switchover(self, to: str | None = None, *, anyway: bool = False) -> RoleChange:
        """Let the source and a replica, the nearest or `to`, change places: writes wait, none is lost.

        Raises UsageError where there is no such node, StackUnavailable while the source does not answer,
        and where no replica has everything in time; then the source takes writes as before.
        """
        if self._fleet.system.is_group:
            async with self._turns.change(anyway=anyway):
                return await self._marked(self._group.switchover(to))
        async with self._turns.change(anyway=anyway):
            await self._nodes.look()
            source = self._fleet.source_name
            wanted = self._nodes.wanted(to, source)
            if not self._nodes.reachable(source):
                raise StackUnavailable(
                    f"{source} does not answer: a switchover needs it", "`replexplorer failover`"
                )
            lineage = await self._nodes.lineage(source)
            candidates = await self._nodes.candidates(source, streaming=True)
            chosen = choose(candidates, lineage, wanted, catches_up=True).node
            await self._promotion.come_near(source, chosen)
            course = self._nodes.course(ChangeKind.SWITCHOVER, source, chosen)
            mark = self._chronicle.begin_change(str(course.under_way))
            blocked_s = self._clock.monotonic()
            try:
                await self._promotion.block(course, source, chosen)
                opened_s, settings = await to_the_end(self._promotion.promote(course, chosen))
            except BaseException as error:
                blocked_ms = (self._clock.monotonic() - blocked_s) * 1000
                told = f"{course.under_way} failed: {error}; writes waited {blocked_ms:.0f} ms"
                self._chronicle.change_failed(mark, told)
                await to_the_end(self._endings.try_to_take_back(course.under_way))
                raise
            written_s = await to_the_end(self._promotion.hand_over(course, settings))
        after = await to_the_end(self._settle_down(course, mark))
        return replace(
            after,
            rpo=RecoveryPoint(0, 0.0),
            rto=recovery(blocked_s, blocked_s, opened_s, written_s),
            fenced=True,
        )

    async def rejoin(
        self, node: str, *, consent: Consent | None = None, rebuild: bool = False, anyway: bool = False
    ) -> RoleChange:
        """Let a node follow the source again; one that has transactions which the source lacks loses them
        with all its data, where `consent` says so, and gets a copy of the source's. With `rebuild` it gets
        one in any case: a source that lost rows whose GTIDs it kept differs from a node that follows it.

        Raises UsageError where there is no such node or it is the source, StackUnavailable where either
        does not answer, or consent is not given.
        """
        if self._fleet.system.is_group:
            async with self._turns.change(anyway=anyway):
                return await self._marked(self._group.rejoin(node, consent, rebuild=rebuild))
        async with self._turns.change(anyway=anyway):
            await self._nodes.look()
            source = self._fleet.source
            name = self._nodes.node(node)
            if name == source.name:
                raise UsageError(f"{name} is the source", f"one of {', '.join(self._fleet.replica_names)}")
            if not self._nodes.reachable(source.name):
                raise StackUnavailable(
                    f"the source {source.name} does not answer",
                    "`replexplorer up` or `replexplorer failover`",
                )
            course = self._nodes.course(ChangeKind.REJOIN, name, source.name)
            await self._sight.look_at_gtids()
            differs = self._sight.errant_gtids.get(name) or self._sight.diverged(name)
            if self._nodes.follows(name, source.name) and not differs and not rebuild:
                return RoleChange(ChangeKind.REJOIN, name, source.name, fenced=True)
            mark = self._chronicle.begin_change(str(course.under_way))
            try:
                errant = await self._rebuild.come_back(
                    course, self._fleet.member(name), source, consent, anyway=rebuild
                )
            except BaseException as error:
                self._chronicle.change_failed(mark, f"{course.under_way} failed: {error}")
                await to_the_end(self._nodes.forget())
                raise
        after = await to_the_end(self._settle_down(course, mark))
        return replace(
            after,
            rpo=RecoveryPoint(gtid_count(errant)),
            errant_gtids={**after.errant_gtids, **({name: errant} if errant else {})},
            fenced=True,
        )

    async def seed(self, nodes: Iterable[str], report: Callable[[str], None]) -> None:
        """Give nodes that have just joined a copy of the source's data, one after the other. Where the server
        cannot (an image without the clone plugin) they apply what is logged; raises as `rejoin`."""
        for node in nodes:
            report(f"{node}: gets a copy of {self._fleet.source_name}")
            try:
                await self.rejoin(node, rebuild=True, anyway=True)
            except ServerRefused:
                await self.rejoin(node, anyway=True)

    async def _marked(self, work: Coroutine[Any, Any, RoleChange]) -> RoleChange:
        """A change of a group's roles, told in the log; an election is a mark of its own."""
        done = await work
        self._chronicle.tell(Severity.GOOD, f"{done.kind} of {done.source_before} is done")
        return done

    async def settle(self) -> str | None:
        """End a change of roles that somebody was interrupted in, by what its nodes are now; answers what
        was done, in words, None where there was none. Whoever is still at it is waited for."""
        await self._sight.read_document()
        if self._sight.requested.role_change is None:
            return None
        async with self._turns.change(anyway=True):
            await self._nodes.look()
            change = self._sight.requested.role_change
            if change is None:  # it was under way, and has ended meanwhile
                return None
            told = f"{change}, begun by {change.by}, was interrupted at '{change.step}'"
            try:
                if self._fleet.system.is_group:  # its members have agreed on what they are
                    await self._nodes.forget()
                else:
                    told = f"{told}: {await to_the_end(self._endings.end(change))}"
            except ReplexplorerError as error:
                told = f"{told}, and cannot be ended yet: {error}"
        self._chronicle.tell(Severity.WARN, told)
        return told

    async def _lost(self, since_s: float) -> RecoveryPoint:
        """What the clients of a `ledger` load were told is committed and the source of now lacks: the log is
        read before the rows, so that what is committed meanwhile is not missed there."""
        source = self._fleet.source
        try:
            log = await self._promotion.load.client_log()
            rows = await ledger_rows(source.control, source.dialect, log.run)
        except ReplexplorerError as error:
            return RecoveryPoint(unknown=f"the old source is away, and {error}")
        since_us = int(since_s * _US_PER_S)
        found = reckon(log, {source.name: rows}, source.name, executed={}, failed_at_us=since_us)
        return RecoveryPoint(found.lost, found.oldest_lost_age_ms if found.lost else 0.0)

    async def _settle_down(self, course: RoleCourse, mark: int) -> RoleChange:
        """What can wait until the roles have changed: links, knobs and what starts from now on; then the
        change is over."""
        change = course.under_way
        await self._sight.refresh()
        await self._until_replicating(course)
        await self._demote(course)
        await self._nodes.keep_roles()
        with contextlib.suppress(ReplexplorerError):
            await watch_links(self._fleet)
        await self._sight.look_at_links()
        wanted: Desired
        if change.kind is ChangeKind.REJOIN:
            wanted = not_so_yet(self._sight)
        else:
            wanted = goes_with_the_roles(self._sight, course.asked, change.source, change.to)
        if unfit := self.too_few_to_acknowledge():
            wanted = {name: value for name, value in wanted.items() if name.key != keys.SEMI_SYNC}
            course.warnings.append(unfit)
        if wanted:
            await self._turn(course, wanted)
        await self._nodes.forget()
        await self._sight.look_at_gtids()
        self._chronicle.change_effective(mark, str(change), f"{change} is done")
        for warning in course.warnings:
            self._chronicle.tell(Severity.WARN, warning)
        errant = {node: gtids for node, gtids in self._sight.errant_gtids.items() if gtids}
        return RoleChange(
            change.kind,
            change.source,
            change.to,
            tuple(course.steps),
            errant_gtids=errant,
            warnings=tuple(course.warnings),
        )

    async def _turn(self, course: RoleCourse, wanted: Desired) -> None:
        began_s = self._clock.monotonic()
        try:
            result = await self._changes.turn(wanted, "goes with the roles: ", anyway=True)
        except ReplexplorerError as error:
            course.warnings.append(f"not all that is asked is in force: {error}")
            return
        said = tuple(statement for each in result.changed for statement in each.statements)
        took_ms = (self._clock.monotonic() - began_s) * 1000
        course.steps.append(RoleStep("let links and knobs follow", self._fleet.source_name, said, took_ms))
        course.warnings += result.warnings

    def too_few_to_acknowledge(self) -> str | None:
        """Why semi-sync that is asked for is not switched on; None where it is on, not asked for, or can
        be."""
        sight = self._sight
        wanted = sight.requested_value(KnobName(keys.SEMI_SYNC, SOURCE)) == "on"
        required = int(sight.requested_value(KnobName(keys.SEMI_SYNC_REPLICAS, SOURCE)))
        follow = sum(self._nodes.follows(name, self._fleet.source_name) for name in self._fleet.replica_names)
        sample = sight.source_sample
        if not wanted or follow >= required or (sample and sample.values.get(keys.SEMI_SYNC) == "on"):
            return None
        return (
            f"semi_sync stays off: {follow} of {required} replicas could acknowledge; a rejoin switches it on"
        )

    async def _until_replicating(self, course: RoleCourse) -> None:
        """Wait until the nodes that were pointed at the source replicate; a late one is a warning."""
        source = self._fleet.source_name
        ends_s = self._clock.monotonic() + _REPLICATES_WITHIN_S
        while True:
            names = [name for name in self._nodes.followers(source) if self._nodes.reachable(name)]
            await asyncio.gather(*(self._sight.look(name) for name in names))
            late = [
                name
                for name in names
                if self._nodes.threads(name) != ("on", "on") and not self._sight.is_cut(name)
            ]
            if not late:
                return
            failed = [name for name in late if "error" in self._nodes.threads(name)]
            if failed or self._clock.monotonic() > ends_s:
                for name in late:
                    why = self._sight.samples[name].view.replication_fault
                    course.warnings.append(f"{name} does not replicate yet{f': {why}' if why else ''}")
                return
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _demote(self, course: RoleCourse) -> None:
        """A replica whose semi-sync source is on would let its applier wait for acknowledgements."""
        for member in self._fleet.replicas:
            sample = self._sight.samples.get(member.name)
            if sample is None or not sample.view.reachable or sample.values.get(keys.SEMI_SYNC) != "on":
                continue
            began_s, said = self._clock.monotonic(), list[str]()
            try:
                await self._nodes.run(member, (member.dialect.set(keys.SEMI_SYNC, "off"),), said)
            except ReplexplorerError as error:
                course.warnings.append(f"{member.name}: {error}")
            took_ms = (self._clock.monotonic() - began_s) * 1000
            course.steps.append(RoleStep("wait for no acknowledgement", member.name, tuple(said), took_ms))

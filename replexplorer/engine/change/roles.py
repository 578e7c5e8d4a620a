"""Changes of roles carried out: failover, switchover, rejoin, and the end of one that was interrupted.

Laws: what is about to be done stands in the stack's document before it is done, so that whoever does it
may die. Before a node takes writes, no other can, nor could if its server were started. What fails
before that is taken back; what fails after it is reported, and what is left is finished by the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.knobs.names import Backing
from replexplorer.core.loss.ledger import count_losses
from replexplorer.core.role_change import ChangeKind, RecoveryPoint, RoleChange, choose
from replexplorer.core.server.gtid import gtid_count, transactions
from replexplorer.engine.change.bringup import until_replicating
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.promotion import (
    Consent,
    block,
    come_back,
    come_near,
    hand_over,
    is_member,
    not_so_yet,
    promote,
    refuse_where_all_write,
    switchover_in_group,
    take_the_place,
)
from replexplorer.engine.change.role_run import RoleRun, Statements
from replexplorer.engine.load import Driving
from replexplorer.engine.observe.samples import ledger_rows, watch_links
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import Ability, ask

_REPLICATES_WITHIN_S: Final = 30.0
_US_PER_S: Final = 1_000_000


class RoleChanges:
    """Who changes one stack's roles."""

    def __init__(self, controls: Controls, load: Driving) -> None:
        self._controls = controls
        self._load = load
        self._state = controls.state
        self._turns = controls.turns
        self._event_log = controls.event_log
        self._fleet = controls.fleet
        self._clock = controls.clock

    async def failover(
        self,
        to: str | None = None,
        *,
        since_s: float | None = None,
        anyway: bool,
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
            raise UsageError(
                f"failover: {self._fleet.system.title} elects who takes writes, or all do, by itself",
                "`replexplorer role switchover --to NODE` chooses one while a majority answers",
            )
        self._fleet.need(Ability.STOP_SERVERS)
        run = RoleRun(self._controls, self._load, ChangeKind.FAILOVER)
        run.since_s = run.since_s if since_s is None else since_s
        async with self._turns.change(anyway=anyway):
            await run.look()
            source, wanted = self._fleet.source_name, run.wanted(to)
            if await run.is_there(source):
                raise StackUnavailable(
                    f"{source} answers: a failover is for a source that is gone",
                    "`replexplorer role switchover` changes the roles while it answers",
                )
            candidates, lineage = await run.candidates(source), await run.lineage(source)
            run.begin(source, choose(candidates, lineage, wanted, accept_loss=accept_loss).node)
            async with self._or_back(run) as mark:
                accepted = await take_the_place(run, wanted, accept_loss=accept_loss)
                await to_the_end(promote(run))
            await to_the_end(hand_over(run))
        if accepted:
            lost_to = f"{transactions(accepted)} that other nodes had are lost to {run.under_way.to}"
            run.warnings.append(f"{lost_to}: {accepted}")
        after = await to_the_end(self._settle_down(run, mark))
        lost = replace(await self._lost(run.since_s), accepted=accepted)
        return replace(after, rpo=lost, rto=run.recovery)

    async def switchover(self, to: str | None, *, anyway: bool) -> RoleChange:
        """Let the source and a replica, the nearest or `to`, change places: writes wait, none is lost.

        Raises UsageError where there is no such node, StackUnavailable while the source does not answer,
        and where no replica has everything in time; then the source takes writes as before.
        """
        run = RoleRun(self._controls, self._load, ChangeKind.SWITCHOVER)
        async with self._turns.change(anyway=anyway):
            await run.look()
            if self._fleet.system.is_group:
                change = await switchover_in_group(run, to)
                self._event_log.tell(Severity.GOOD, f"switchover of {change.source_before} is done")
                return change
            source, wanted = self._fleet.source_name, run.wanted(to)
            if not self._state.reachable(source):
                raise StackUnavailable(
                    f"{source} does not answer: a switchover needs it", "`replexplorer role failover`"
                )
            lineage = await run.lineage(source)
            candidates = await run.candidates(source, streaming=True)
            run.begin(source, choose(candidates, lineage, wanted, catches_up=True).node)
            await come_near(run)
            run.since_s = run.detected_s = self._clock.monotonic()
            async with self._or_back(run) as mark:
                await block(run)
                await to_the_end(promote(run))
            await to_the_end(hand_over(run))
        after = await to_the_end(self._settle_down(run, mark))
        return replace(after, rpo=RecoveryPoint(0, 0.0), rto=run.recovery)

    async def rejoin(
        self, node: str, *, consent: Consent | None = None, rebuild: bool = False, anyway: bool
    ) -> RoleChange:
        """Let a node follow the source again; one that has transactions which the source lacks loses them
        with all its data, where `consent` says so, and gets a copy of the source's. With `rebuild` it gets
        one in any case: a source that lost rows whose GTIDs it kept differs from a node that follows it.

        Raises UsageError where there is no such node or it is the source, StackUnavailable where either
        does not answer, or consent is not given.
        """
        run = RoleRun(self._controls, self._load, ChangeKind.REJOIN)
        async with self._turns.change(anyway=anyway):
            await run.look()
            source, name, system = self._fleet.source, run.node(node), self._fleet.system
            if system.is_group and rebuild:
                refuse_where_all_write(self._fleet, "rejoin --copy")
            run.begin(name, source.name)
            await self._state.look_at_gtids()
            differs = self._state.errant_gtids.get(name) or self._state.diverged(name)
            is_whole = is_member(run, name) if system.is_group else self._follows(name) and not differs
            if is_whole and not rebuild:
                return run.done()
            if name == source.name and not system.is_group:
                raise UsageError(
                    f"{name} is the source", f"use one of {', '.join(self._fleet.replica_names)}"
                )
            if system.is_group and (name == source.name or not is_member(run, source.name)):
                raise StackUnavailable(
                    f"no member takes writes, so there is no group for {name} to come back to",
                    "run `replexplorer up` to found it again from the most advanced node",
                )
            if not self._state.reachable(source.name):
                raise StackUnavailable(
                    f"the source {source.name} does not answer",
                    "`replexplorer up` or `replexplorer role failover`",
                )
            async with self._or_back(run) as mark:
                errant = await come_back(run, consent, anyway=rebuild)
        after = await to_the_end(self._settle_down(run, mark))
        lost = {name: errant} if errant else {}
        rpo = RecoveryPoint(gtid_count(errant))
        return replace(after, rpo=rpo, errant_gtids={**after.errant_gtids, **lost})

    async def seed(self, nodes: Iterable[str], report: Callable[[str], None]) -> None:
        """Give nodes that have just joined a copy of the source's data, one after the other. Where the server
        cannot (an image without the clone plugin) they apply what is logged; raises as `rejoin`."""
        for node in nodes:
            report(f"{node}: gets a copy of {self._fleet.source_name}")
            try:
                await self.rejoin(node, rebuild=True, anyway=True)
            except ServerRefused:
                await self.rejoin(node, anyway=True)

    def _follows(self, node: str) -> bool:
        """Whether a node replicates from the source as it should."""
        if not self._state.reachable(node):
            return False
        view = self._state.samples[node].view
        runs = view.io_thread in ("on", "connecting") and view.sql_thread == "on"
        return runs and self._fleet.standing(node).follows == self._fleet.source_name

    # -- how it ends

    @asynccontextmanager
    async def _or_back(self, run: RoleRun) -> AsyncIterator[int]:
        """A change under the mark of this number; what fails in it is taken back, as far as can be."""
        began_s = self._clock.monotonic()
        mark = self._event_log.begin_change(str(run.under_way))
        try:
            yield mark
        except BaseException as error:
            waited = f"; writes waited {(self._clock.monotonic() - began_s) * 1000:.0f} ms"
            is_blocking = run.under_way.kind is ChangeKind.SWITCHOVER
            self._event_log.change_failed(
                mark, f"{run.under_way} failed: {error}{waited if is_blocking else ''}"
            )
            await to_the_end(self._give_up(run))
            raise

    async def _give_up(self, run: RoleRun) -> None:
        """Take back what failed; where that fails too, the record is left for the next start."""
        try:
            if run.under_way.kind is ChangeKind.REJOIN:
                await run.record(None)
            else:
                await self._take_back(run)
        except ReplexplorerError as error:
            self._event_log.tell(Severity.BAD, f"{run.under_way} is not rolled back yet: {error}")

    async def settle(self) -> str | None:
        """End a change of roles that somebody was interrupted in, by what its nodes are now; answers what
        was done, in words, None where there was none. Whoever is still at it is waited for."""
        await self._state.read_document()
        if self._state.requested.role_change is None:
            return None
        async with self._turns.change(anyway=True):
            run = RoleRun(self._controls, self._load, ChangeKind.REJOIN)
            await run.look()
            change = self._state.requested.role_change
            if change is None:  # it was under way, and has ended meanwhile
                return None
            run.under_way = change
            told = f"{change}, begun by {change.by}, was interrupted at '{change.step}'"
            try:
                told += await to_the_end(self._end(run))
            except ReplexplorerError as error:
                told += f", and cannot be ended yet: {error}"
        self._event_log.tell(Severity.WARN, told)
        return told

    async def _end(self, run: RoleRun) -> str:
        """Finish what somebody was interrupted in where the new source takes writes, else take it back;
        answers which, as the end of a sentence."""
        change = run.under_way
        to = self._state.samples.get(change.to)
        if self._fleet.system.is_group or change.kind is ChangeKind.REJOIN:
            await run.record(None)
            # A group's members have agreed on what they are.
            again = f": `replexplorer role rejoin {change.source}` begins it again"
            return "" if self._fleet.system.is_group else again
        if to is not None and to.refuses_writes is False:
            await self._finish(run)
            return f": finished, {change.to} is the source"
        if not self._state.reachable(change.source):
            raise StackUnavailable(
                f"{change.source} is down, and {change.to} was not promoted",
                "`replexplorer role failover` finishes it, `replexplorer up` rolls it back",
            )
        await self._take_back(run)
        return f": rolled back, {change.source} is the source"

    async def _finish(self, run: RoleRun) -> None:
        """The new source takes writes: everybody else follows it, as far as they can."""
        to = run.new
        if self._fleet.standing(to.name).follows is not None:
            await Statements(to)(to.dialect.stop_threads, *to.dialect.follow_nobody)
        run.history = await to.executed()
        await hand_over(run)
        await run.look()
        await self._keep_roles(run)
        await run.record(None)

    async def _take_back(self, run: RoleRun) -> None:
        """The source of before is the source: it takes writes again where it answers, and who followed it
        follows it again, with what is asked of a replica. What cannot be is left for the next start."""
        source = run.old
        follow = [*run.followers(source.name, but=run.under_way.to), run.under_way.to]
        await run.keep_roles(source.name, follow)
        if self._state.reachable(source.name):
            try:
                await Statements(source)(*source.dialect.open_for_writes)
            except ReplexplorerError:
                # It may refuse the undo of what it refused, and take writes all the same.
                if (await ask(source.control, source.dialect.settings)).refuses_writes is not False:
                    raise
        for node in follow:
            with contextlib.suppress(ReplexplorerError):
                await run.follow(Statements(self._fleet.member(node)), source)
        await run.look()
        for name, value in not_so_yet(self._state).items():
            if name.node == run.under_way.to and name.knob.backing is Backing.SERVER:
                with contextlib.suppress(ReplexplorerError):
                    await Statements(run.new)(run.new.dialect.set(name.key, value))
        await run.record(None)
        await run.look()

    async def _lost(self, since_s: float) -> RecoveryPoint:
        """What the clients of a `ledger` load were told is committed and the source of now lacks: the log is
        read before the rows, so that what is committed meanwhile is not missed there."""
        source = self._fleet.source
        try:
            log = await self._load.client_log()
            rows = await ledger_rows(source.control, source.dialect, log.run)
        except ReplexplorerError as error:
            return RecoveryPoint(unknown=f"the old source is away, and {error}")
        since_us = int(since_s * _US_PER_S)
        found = count_losses(log, {source.name: rows}, source.name, executed={}, failed_at_us=since_us)
        return RecoveryPoint(found.lost, found.oldest_lost_age_ms if found.lost else 0.0)

    async def _settle_down(self, run: RoleRun, mark: int) -> RoleChange:
        """What can wait until the roles have changed: links, knobs and what starts from now on; then the
        change is over."""
        state = self._state
        await state.refresh()
        if not self._fleet.system.is_group:
            await self._let_follow(run)
        await run.record(None)
        await state.look_at_gtids()
        self._event_log.change_effective(mark, str(run.under_way), f"{run.under_way} is done")
        for warning in run.warnings:
            self._event_log.tell(Severity.WARN, warning)
        errant = {node: gtids for node, gtids in state.errant_gtids.items() if gtids}
        return replace(run.done(), errant_gtids=errant)

    async def _let_follow(self, run: RoleRun) -> None:
        """Let replicas, links and knobs follow, and servers that start from now on."""
        state = self._state
        await self._until_replicating(run)
        await self._keep_roles(run)
        with contextlib.suppress(ReplexplorerError):
            await watch_links(self._fleet)
        await state.look_at_links(self._fleet.roster.pairs)
        if wanted := not_so_yet(state):
            async with run.step("let links and knobs follow", self._fleet.source_name, "knobs") as sql:
                done, left = await self._controls.turn_each(wanted, "moved with the roles: ")
                sql += [each for result in done for change in result.changed for each in change.statements]
                run.warnings += [warning for result in done for warning in result.warnings]
                run.warnings += [f"{name} is not in force: {error}" for name, error in left.items()]

    async def _keep_roles(self, run: RoleRun) -> None:
        """Whoever follows the source now may do so again when it starts."""
        source = self._fleet.source_name
        await run.keep_roles(source, list(filter(self._state.reachable, run.followers(source))))

    async def _until_replicating(self, run: RoleRun) -> None:
        """Wait until the nodes that were pointed at the source replicate; a late one is a warning."""
        names = list(filter(self._state.reachable, run.followers(self._fleet.source_name)))
        if run.under_way.kind is ChangeKind.REJOIN:
            names = [run.under_way.source]
        ends_s = self._clock.monotonic() + _REPLICATES_WITHIN_S

        async def wait_for(name: str) -> None:
            try:
                await until_replicating(self._fleet, self._fleet.member(name), ends_s, run.warnings.append)
            except ReplexplorerError as error:
                run.warnings.append(error.message)
            await self._state.look(name)

        await asyncio.gather(*map(wait_for, names))

"""From a replica to the source: everything that it lacks first, then writes, then everybody else.

Law: a node takes writes only once no other can.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, Protocol

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.role_change import (
    BestCandidate,
    Candidate,
    ChangeKind,
    RoleStep,
    choose,
    hole_words,
    not_without_loss,
)
from replexplorer.core.server.comeback import NOT_KNOWN
from replexplorer.core.server.gtid import gtid_count, numbered_by, subtract_gtids, transactions
from replexplorer.core.topology import Standing
from replexplorer.engine.asking import ask, execute
from replexplorer.engine.change.role_course import RoleCourse
from replexplorer.engine.change.role_knobs import of_the_source
from replexplorer.engine.change.role_nodes import RoleNodes
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.server_sample import hole_of
from replexplorer.engine.requested import write_role_change

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


class FollowingLoad(Protocol):
    """Our load, as far as a change of roles concerns it."""

    async def follow(self) -> bool:
        """Let it go on where the source is now; answers whether it had to move."""
        ...

    async def client_log(self) -> RunLog:
        """What the clients of the `ledger` load that runs now were told, whoever drives it; raises
        StackUnavailable saying why there is no account of that."""
        ...


class Promotion:
    """Promotes nodes of one stack."""

    def __init__(self, nodes: RoleNodes, load: FollowingLoad) -> None:
        self._nodes = nodes
        self.load = load
        """Ours, as far as a change of roles concerns it."""

    async def take_the_place(
        self, course: RoleCourse, source: str, wanted: str | None, *, accept_loss: bool
    ) -> tuple[str, str]:
        """End the source for good, choose among what has been received by then, drain that, and fetch what
        another node has beside; answers the node, and what others have and it lacks all the same."""
        async with course.step("end the old source", source):
            await self._nodes.fleet.server_process(source).kill()
        followers = [name for name in self._nodes.followers(source) if self._nodes.reachable(name)]
        async with course.step("wait for what still arrives", ", ".join(followers)):
            candidates = await self._until_nothing_arrives(source)
        lineage = await self._nodes.lineage(source)
        chosen = choose(candidates, lineage, wanted, accept_loss=accept_loss)
        course.under_way = replace(course.under_way, to=chosen.node)
        async with course.step("fence the old source", source):
            others = [name for name in followers if name != chosen.node]
            await self._nodes.fleet.outside.provider.keep_roles(self._nodes.boot_roles(chosen.node, others))
        member = self._nodes.fleet.member(chosen.node)
        async with course.step("drain the relay log", chosen.node) as said:
            await self._nodes.run(member, (member.dialect.stop_io(),), said)
            await self._drain(member, await self._nodes.received(member, executed_alone=False), said)
        if chosen.donor is not None:
            try:
                await self._fetch(course, chosen, chosen.donor)
            except ReplexplorerError as error:
                await self._nodes.follow(member, self._nodes.fleet.member(source), [])
                refusal = not_without_loss(chosen, f"{chosen.donor} could not hand them on: {error.message}")
                if not accept_loss:
                    raise refusal from None
                course.warnings.append(refusal.message)
                await self._nodes.run(member, (member.dialect.stop_io(),), [])
        lost = subtract_gtids(chosen.lacks, await self._executed(member))
        await self._note_who_differs(source, chosen.node, lost)
        return chosen.node, lost

    async def _note_who_differs(self, source: str, to: str, lost: str) -> None:
        """Keep that the old source may lack rows whose GTIDs it has; that the new one uses the numbers of its
        own which it lost again: who has those transactions can never follow it; and where the new one had
        diverged, that all others differ from it now."""
        differ: dict[str, str | None] = {source: NOT_KNOWN} if self._nodes.may_lack_rows(source) else {}
        others = [name for name in self._nodes.fleet.members if name != to]
        if to in self._nodes.sight.requested.diverged:
            differ = {to: None, **dict.fromkeys(others, f"may have other rows than {to}, which had diverged")}
        if again := numbered_by(self._nodes.uuid(self._nodes.fleet.member(to)) or " ", lost):
            differ |= dict.fromkeys(others, f"may have {transactions(again)} whose numbers {to} uses again")
        if differ:
            await self._nodes.note_diverged(differ)

    async def _fetch(self, course: RoleCourse, chosen: BestCandidate, donor: str) -> None:
        """Let a node that is drained follow another one until it has all that only that one has of the
        source's transactions. Raises StackUnavailable, ServerRefused; then it still follows that one."""
        to, giver = self._nodes.fleet.member(chosen.node), self._nodes.fleet.member(donor)
        async with course.step(f"fetch {transactions(chosen.lacks)} of {donor}", to.name) as said:
            # It hands on what is in its binlog: what it has applied.
            if await ask(giver.control, giver.dialect.threads()) is not None:
                await self._drain(giver, chosen.lacks, [])
            await self._nodes.follow(to, giver, said)
            before, ends_s = chosen.lacks, self._nodes.clock.monotonic() + _CONNECTS_WITHIN_S
            while lacks := subtract_gtids(chosen.lacks, await self._executed(to)):
                threads = await ask(to.control, to.dialect.threads())
                if lacks != before:
                    before, ends_s = lacks, self._nodes.clock.monotonic() + _CONNECTS_WITHIN_S
                ended = threads is None or "error" in (threads.io, threads.sql)
                if ended or self._nodes.clock.monotonic() > ends_s:
                    why = threads.fault if threads and threads.fault else "nothing came"
                    raise StackUnavailable(why, f"{to.name} still lacks {transactions(lacks)}")
                await self._nodes.clock.sleep(_ARRIVES_EVERY_S)
            await self._nodes.run(to, (to.dialect.stop_io(),), said)
            await self._drain(to, await self._nodes.received(to, executed_alone=False), said)

    async def _executed(self, member: Member) -> str:
        return await ask(member.control, member.dialect.executed())

    async def _until_nothing_arrives(self, source: str) -> list[Candidate]:
        """What the replicas have once two looks see the same: an event that was sent may still be read."""
        before: list[Candidate] | None = None
        ends_s = self._nodes.clock.monotonic() + _ARRIVES_WITHIN_S
        while (
            now := await self._nodes.candidates(source)
        ) != before and self._nodes.clock.monotonic() < ends_s:
            before = now
            await self._nodes.clock.sleep(_ARRIVES_EVERY_S)
        return now

    async def _drain(self, member: Member, received: str, said: list[str]) -> None:
        """Wait until all that was received is applied; raises StackUnavailable where it is not."""
        await self._nodes.run(member, (member.dialect.start_applier(),), said)
        ends_s = self._nodes.clock.monotonic() + _DRAINS_WITHIN_S
        while True:
            question = member.dialect.reached(received, _WAIT_EACH_S)
            if await ask(member.control, question, deadline_s=2 * _WAIT_EACH_S):
                said.append(question.statement)
                return
            threads = await ask(member.control, member.dialect.threads())
            if threads is None or threads.sql != "on":
                why = threads.fault if threads else None
                raise StackUnavailable(
                    f"the applier of {member.name} ended{f': {why}' if why else ''}",
                    "its relay log is kept",
                )
            if self._nodes.clock.monotonic() > ends_s:
                raise StackUnavailable(
                    f"{member.name} did not apply its relay log within {_DRAINS_WITHIN_S:.0f} s", ""
                )
            self._nodes.report(f"{member.name} applies what it has received")

    async def come_near(self, source: str, to: str) -> None:
        """Wait, while writes go on, until a replica is so near to its source that they need not wait long."""
        old, new = self._nodes.fleet.member(source), self._nodes.fleet.member(to)
        ends_s = self._nodes.clock.monotonic() + _NEAR_WITHIN_S
        while True:
            executed = await ask(old.control, old.dialect.executed())
            asked_s = self._nodes.clock.monotonic()
            await ask(new.control, new.dialect.reached(executed, _WAIT_EACH_S), deadline_s=2 * _WAIT_EACH_S)
            now_s = self._nodes.clock.monotonic()
            if now_s - asked_s < _NEAR_S:
                return
            if now_s > ends_s:
                behind = subtract_gtids(executed, await ask(new.control, new.dialect.executed()))
                raise StackUnavailable(
                    f"{to} does not catch up: it is {gtid_count(behind):,} transactions behind {source} after"
                    f" {_NEAR_WITHIN_S:.0f} s",
                    "lower the load, or try again later",
                )
            self._nodes.report(f"{to} catches up, writes go on meanwhile")

    async def block(self, course: RoleCourse, source: str, to: str) -> None:
        """Block writes at the source, and wait until the replica has all of them."""
        old, new = self._nodes.fleet.member(source), self._nodes.fleet.member(to)
        async with course.step("block writes", source) as said:
            for statement in old.dialect.refuse_writes():
                await execute(old.control, (statement,), deadline_s=_BLOCKS_WITHIN_S)
                said.append(statement)
        others = [name for name in self._nodes.followers(source) if name != to]
        async with course.step("receive and apply the rest", to) as said:
            executed = await ask(old.control, old.dialect.executed())
            within_s = _CAUGHT_UP_WITHIN_S + 2 * max(self._nodes.sight.asked_rtts_ms(), default=0.0) / 1000
            question = new.dialect.reached(executed, within_s)
            has_all, _ = await asyncio.gather(
                ask(new.control, question, deadline_s=within_s + _WAIT_EACH_S),
                self._nodes.fleet.outside.provider.keep_roles(self._nodes.boot_roles(to, others)),
            )
            said.append(question.statement)
            if not has_all:
                raise StackUnavailable(
                    f"{to} did not have every transaction within {within_s:.1f} s",
                    f"{source} takes writes again",
                )

    async def promote(self, course: RoleCourse, to: str) -> tuple[float, tuple[int | None, bool]]:
        """Make a replica that has everything take writes, with what is asked of the source; answers when
        it was open, and its acknowledgement counter before semi-sync was enabled."""
        member = self._nodes.fleet.member(to)
        dialect = member.dialect
        yes_tx: int | None = None
        enabled = False
        async with course.step("promote", to) as said:
            await self._nodes.run(member, (dialect.stop_threads(), *dialect.follow_nobody()), said)
            for name, value in of_the_source(self._nodes.sight, to, course.under_way.source):
                if name.key == keys.SEMI_SYNC:
                    yes_tx = (await ask(member.control, dialect.status())).yes_tx
                    enabled = True
                try:
                    await self._nodes.run(member, (dialect.set(name.key, value),), said)
                except (ServerRefused, UsageError) as refused:
                    course.warnings.append(f"{to} did not take {name.key} {value}: {refused}")
            course.history = await self._executed(member)
            await self._nodes.run(member, dialect.open_for_writes(), said)
        return self._nodes.clock.monotonic(), (yes_tx, enabled)

    async def hand_over(self, course: RoleCourse, settings: tuple[int | None, bool]) -> float | None:
        """Let everybody follow the new source: the load, the other replicas, the document. Answers when a
        commit there was answered; None where none was in time. What fails is a warning."""
        to = course.under_way.to
        new = self._nodes.fleet.member(to)
        before = self._nodes.fleet.standing(course.under_way.source)
        self._nodes.sight.see(replace(before, refuses_writes=True))  # as it was left, or will start
        self._nodes.sight.see(Standing(to, reachable=True, follows=None, refuses_writes=False))
        self._nodes.sight.own.offs = 0
        others = [
            member
            for member in self._nodes.fleet.replicas
            if self._nodes.fleet.standing(member.name).follows is not None
            and self._nodes.reachable(member.name)
        ]
        if course.under_way.kind is ChangeKind.SWITCHOVER:
            others.append(self._nodes.fleet.member(course.under_way.source))
        written, _, *_ = await asyncio.gather(
            self._first_write(course, new),
            self._move_load(course),
            *(self._point(course, member, new) for member in others),
        )
        fleet = self._nodes.fleet
        yes_tx, enabled = settings
        self._nodes.sight.requested = await write_role_change(
            fleet.keeper,
            fleet.roster,
            replace(course.under_way, step="let the knobs follow"),
            moved=(to, course.under_way.source),
            yes_tx_at_enabling=yes_tx if enabled else None,
            written_s=self._nodes.clock.wall(),
            history=course.history,
        )
        return written

    async def _first_write(self, course: RoleCourse, new: Member) -> float | None:
        """One commit at the new source; None where it was not answered within its deadline."""
        deadline_s = max(2.0, 3 * max(self._nodes.sight.asked_rtts_ms(), default=0.0) / 1000)
        began_s = self._nodes.clock.monotonic()
        try:
            await execute(new.kick, (new.dialect.kick(),), deadline_s=deadline_s)
        except ReplexplorerError as error:
            course.warnings.append(f"the first commit at {new.name} was not answered: {error}")
            return None
        now_s = self._nodes.clock.monotonic()
        course.steps.append(
            RoleStep("first write", new.name, (new.dialect.kick(),), (now_s - began_s) * 1000)
        )
        return now_s

    async def _move_load(self, course: RoleCourse) -> None:
        began_s = self._nodes.clock.monotonic()
        try:
            if await self.load.follow():
                took_ms = (self._nodes.clock.monotonic() - began_s) * 1000
                course.steps.append(RoleStep("point the load there", course.under_way.to, (), took_ms))
        except ReplexplorerError as error:
            course.warnings.append(f"the load did not follow: {error}")

    async def _point(self, course: RoleCourse, member: Member, new: Member) -> None:
        """Let a node follow the new source, unless it cannot be whole that way."""
        began_s, said = self._nodes.clock.monotonic(), list[str]()
        why = self._nodes.sight.requested.diverged.get(member.name)
        if lost := await hole_of(new, member):
            why = hole_words(lost)
        try:
            if why is not None:
                await self._nodes.run(member, (member.dialect.stop_threads(),), said)
                raise StackUnavailable(f"it {why}", f"`replexplorer rejoin {member.name}` copies it")
            await self._nodes.follow(member, new, said)
        except ReplexplorerError as error:
            course.warnings.append(f"{member.name} does not follow {new.name}: {error}")
        took_ms = (self._nodes.clock.monotonic() - began_s) * 1000
        course.steps.append(RoleStep(f"follow {new.name}", member.name, tuple(said), took_ms))

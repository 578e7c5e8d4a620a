"""How a change of roles ends that failed or was interrupted: taken back, or finished."""

from __future__ import annotations

import contextlib

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.event import Severity
from replexplorer.core.role_change import ChangeKind, Ending, UnderWay, ending_of
from replexplorer.engine.asking import ask
from replexplorer.engine.change.promotion import Promotion
from replexplorer.engine.change.role_nodes import RoleNodes
from replexplorer.engine.fleet import Member
from replexplorer.engine.record.chronicle import Chronicle


class Endings:
    """Ends what is left of a change on one stack."""

    def __init__(self, nodes: RoleNodes, promotion: Promotion, chronicle: Chronicle) -> None:
        self._nodes = nodes
        self._promotion = promotion
        self._chronicle = chronicle

    async def end(self, change: UnderWay) -> str:
        """End what somebody was interrupted in; answers how."""
        to = self._nodes.sight.samples.get(change.to)
        match ending_of(
            change,
            to_takes_writes=to is not None and to.refuses_writes is False,
            source_answers=self._nodes.reachable(change.source),
        ):
            case Ending.LEAVE:
                raise StackUnavailable(
                    f"{change.source} is down, and {change.to} was not promoted",
                    "`replexplorer failover` finishes it, `replexplorer up` rolls it back",
                )
            case Ending.TAKE_BACK:
                await self._take_back(change)
                return f"rolled back, {change.source} is the source"
            case Ending.FINISH if change.kind is ChangeKind.REJOIN:
                await self._nodes.forget()
                return f"`replexplorer rejoin {change.source}` begins it again"
            case Ending.FINISH:
                await self._finish(change)
                return f"finished, {change.to} is the source"

    async def _finish(self, change: UnderWay) -> None:
        """The new source takes writes: everybody else follows it, as far as they can."""
        course = self._nodes.course_of(change)
        to = self._nodes.fleet.member(change.to)
        if self._nodes.fleet.standing(change.to).follows is not None:
            dialect = to.dialect
            await self._nodes.run(to, (dialect.stop_threads(), *dialect.follow_nobody()), [])
        course.history = await ask(to.control, to.dialect.executed())
        await self._promotion.hand_over(course, (None, False))
        await self._nodes.look()
        await self._nodes.keep_roles()
        await self._nodes.forget()

    async def _take_back(self, change: UnderWay) -> None:
        """The source of before is the source: it takes writes again where it answers, and who followed it
        follows it again. What cannot be is left for the next start."""
        fleet = self._nodes.fleet
        others = [member for member in fleet.members.values() if member.name != change.source]
        followed = [member for member in others if await self._can_follow_again(member, change.source)]
        await fleet.outside.provider.keep_roles(
            self._nodes.boot_roles(change.source, [member.name for member in followed])
        )
        source = fleet.member(change.source)
        if self._nodes.reachable(change.source):
            await self._open_again(source)
        for member in followed:
            with contextlib.suppress(ReplexplorerError):
                await self._follow_again(member, source)
        await self._nodes.forget()
        await self._nodes.look()

    async def try_to_take_back(self, change: UnderWay) -> None:
        """Take back what failed; where that fails too, the record is left for the next start."""
        try:
            await self._take_back(change)
        except ReplexplorerError as error:
            self._chronicle.tell(Severity.BAD, f"{change} is not rolled back yet: {error}")

    async def _open_again(self, source: Member) -> None:
        """A server that refuses a statement may refuse its undo, and take writes all the same."""
        try:
            await self._nodes.run(source, source.dialect.open_for_writes(), [])
        except ReplexplorerError:
            if (await ask(source.control, source.dialect.settings())).refuses_writes is not False:
                raise

    async def _can_follow_again(self, member: Member, source: str) -> bool:
        """Whether a node followed this source when the change began: it does still, or it was the one that
        was to be promoted."""
        change = self._nodes.sight.requested.role_change
        is_to = change is not None and change.to == member.name
        return is_to or self._nodes.fleet.standing(member.name).follows == source

    async def _follow_again(self, member: Member, source: Member) -> None:
        threads = await ask(member.control, member.dialect.threads())
        if threads is None or threads.source_host != source.name:
            await self._nodes.follow(member, source, [])
        else:
            await self._nodes.run(
                member, (*member.dialect.refuse_writes(), member.dialect.start_threads()), []
            )

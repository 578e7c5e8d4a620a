"""Servers that run become the members of one group.

Law: a group is founded only where no node is a member of one and none still waits for the rest of its own,
at the node that has executed most; all others join. Founding beside a group that lives would
split it. Where the majority of one is gone, what is left of it goes on, once the nodes that answer are all
known to be members of no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, StackUnavailable
from replexplorer.core.role_change import BootRoles
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.server.node_view import Membership, majority_of
from replexplorer.core.topology import Belonging
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.samples import link_states
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import ask

JOINS_WITHIN_S: Final = 180.0
"""How long all members together may take: 8 s on an idle machine, 65 s with seven other programs a core."""
_LOOK_EVERY_S: Final = 0.1
_STATEMENT_WITHIN_S: Final = 70.0
"""START GROUP_REPLICATION answers within a minute (refman: it waits that long for the view)."""
_AGAIN_AFTER_S: Final = 2.0
"""A node that was not let in is tried again: another one may have been on its way in."""
_BY_ITSELF_S: Final = 8.0
"""A server that starts asks to be let in by itself, and has this long (4 s on an idle machine) before it is
told to begin again."""
_NOTICES_WITHIN_S: Final = 20.0
"""A member notices within 5 s that the others do not answer, on an idle machine."""
_ALONE_FOR_S: Final = 10.0
"""Members that are cut off may find each other again by themselves for this long."""
_BUSY: Final = 3724
"""What a server refuses a setting of its group with while another one, or its own START, is under way."""

Tell = Callable[[str], None]


async def is_cut(fleet: Fleet, one: str, other: str) -> bool:
    """Whether a partition keeps packets between these two nodes, always or at times; False while an agent is
    away."""
    try:
        ends = await link_states(fleet.member(one), fleet.member(other))
    except ReplexplorerError:
        return False
    return any(side.shape.cut or side.flap is not None for side in ends)


async def form_group(fleet: Fleet, tell: Tell) -> None:
    """Let every node that can be reached be a member; `tell` hears each that was not and is.

    A node whose links are all cut is left as it is. Raises StackUnavailable naming the node that is not let
    in, with why.
    """
    await _Forming(fleet, tell).until_all_are_members()


async def go_on_without_the_ended(fleet: Fleet, tell: Tell) -> None:
    """Let what is left of a group go on where the servers of its majority have ended; for before they start.

    A server that has ended is a member of no other group, so this splits none. One that starts asks what is
    left to let it in: that has no majority for it, and then cannot go on alone either (error 3724, measured).
    """
    await _Forming(fleet, tell).without_the_ended()


def _may_take_it_later(error: ReplexplorerError) -> bool:
    """Whether the server was busy with its group, or did not answer."""
    return isinstance(error, ServerUnreachable) or (
        isinstance(error, ServerRefused) and error.number == _BUSY
    )


class _Forming:
    """One forming of a group."""

    def __init__(self, fleet: Fleet, tell: Tell) -> None:
        self._fleet = fleet
        self._tell = tell
        self._clock = fleet.outside.clock
        self._began_s = self._clock.monotonic()
        self._has_founded = False
        self._tried_s: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        """By node: what the server said when it was last not let in."""

    async def until_all_are_members(self) -> None:
        was_whole = False
        while True:
            seen = await self._look()
            cut = await self._cut()
            views = {each.view for name, each in seen.items() if each.is_ready and name not in cut}
            # One that was put out while it was cut off takes itself for a member, in the view of before,
            # until it hears of that (3 s, measured).
            is_one = len(views) == 1
            missing = [
                name for name, each in seen.items() if name not in cut and not (each.is_ready and is_one)
            ]
            if missing and self._is_late(JOINS_WITHIN_S):
                raise await self._why_not(missing[0], seen)
            if missing:
                await self._go_on(seen, missing)
            elif was_whole:
                await self._keep()
                return
            was_whole = not missing
            await self._clock.sleep(_LOOK_EVERY_S)

    async def without_the_ended(self) -> None:
        await self._fleet.discover()
        running = [each for each in self._fleet.members.values() if each.address.server_running]
        while len(running) < len(self._fleet.members) and not self._is_late(_NOTICES_WITHIN_S):
            seen = await self._look()
            left = [each for each in seen.values() if each.belongs in (Belonging.MEMBER, Belonging.CUT_OFF)]
            size = max((each.size or 0 for each in left), default=0)
            if not left or len(left) >= majority_of(size) or len(seen) < len(running):
                return  # nothing is left, a majority is, or one that is frozen may be of another group
            alone = all(each.belongs in (Belonging.CUT_OFF, Belonging.OUTSIDE) for each in seen.values())
            if alone and await self._go_on_alone(seen):
                return
            await self._clock.sleep(_LOOK_EVERY_S)

    def _is_late(self, within_s: float) -> bool:
        return self._clock.monotonic() - self._began_s > within_s

    async def _look(self) -> dict[str, Membership]:
        """What each node that answers says of its group."""
        found = {}
        for name, member in self._fleet.members.items():
            question = member.probed.membership if member.probed is not None else None
            if question is not None:
                with contextlib.suppress(ReplexplorerError):
                    found[name] = await ask(member.control, question)
        return found

    async def _cut(self) -> set[str]:
        """Nodes whose links to all others are cut."""
        names = list(self._fleet.members)
        cut = set()
        for name in names:
            links = await asyncio.gather(*(is_cut(self._fleet, name, peer) for peer in names if peer != name))
            if links and all(links):
                cut.add(name)
        return cut

    async def _go_on(self, seen: Mapping[str, Membership], missing: list[str]) -> None:
        """One step towards a group of all."""
        if ready := [name for name, each in seen.items() if each.is_ready]:
            # Asked of each other, two that join at once wait for each other (20 s and not 4, measured).
            seeds = self._addresses(ready)
            joining = [name for name in missing if self._is_due(name, seen[name])]
            await asyncio.gather(*(self._join(name, seeds) for name in joining))
        elif any(each.belongs is Belonging.JOINING for each in seen.values()):
            return
        elif any(each.belongs is Belonging.CUT_OFF for each in seen.values()):
            if self._is_late(_ALONE_FOR_S):
                await self._go_on_alone(seen)
        else:
            await self._found()

    def _is_due(self, name: str, seen: Membership) -> bool:
        """Whether a node is to be told to join now."""
        now_s, tried_s = self._clock.monotonic(), self._tried_s.get(name)
        if seen.belongs in (Belonging.JOINING, Belonging.MEMBER):
            return False
        if tried_s is not None:
            return now_s - tried_s >= _AGAIN_AFTER_S
        return self._has_founded or now_s - self._began_s >= _BY_ITSELF_S

    async def _found(self) -> None:
        """Let the node that has executed most be the first member."""
        first, _ = await self._most(self._fleet.members.values())
        self._tell(f"{first.name}: founds the group")
        await self._begin_with(first, first.dialect.found)

    async def _go_on_alone(self, seen: Mapping[str, Membership]) -> bool:
        """No majority comes back: the member that has executed most goes on as the group, and the others that
        are cut off leave what is left of theirs; then all can be let in. Answers whether it goes on."""
        alone = (name for name, each in seen.items() if each.belongs is Belonging.CUT_OFF)
        first, others = await self._most(self._fleet.members[name] for name in alone)
        for member in others:
            await member.run(*member.dialect.leave, deadline_s=_STATEMENT_WITHIN_S)
        self._tell(f"{first.name}: continues without the lost majority")
        return await self._begin_with(first, first.dialect.go_on_with(self._addresses([first.name])))

    async def _most(self, members: Iterable[Member]) -> tuple[Member, list[Member]]:
        """The member that has executed most, and the others."""
        count = {each.name: (gtid_count(await each.executed()), each) for each in members}
        first = max(count, key=lambda name: count[name][0])
        return count[first][1], [each for name, (_, each) in count.items() if name != first]

    async def _begin_with(self, first: Member, statements: tuple[str, ...]) -> bool:
        """Answers whether the group begins; else the server was busy or did not answer: look at it again."""
        self._has_founded = True
        try:
            await first.run(*statements, deadline_s=_STATEMENT_WITHIN_S)
        except ReplexplorerError as error:
            if not _may_take_it_later(error):
                raise
            self._refused[first.name] = error.message
            return False
        finally:
            await to_the_end(self._after_founding(first))
        return True

    async def _after_founding(self, first: Member) -> None:
        """As soon as the server takes it: what was asked may be under way though its answer was lost."""
        ends_s = self._clock.monotonic() + _STATEMENT_WITHIN_S
        while True:
            try:
                return await first.run(*first.dialect.after_founding)
            except ReplexplorerError as error:
                if not _may_take_it_later(error) or self._clock.monotonic() > ends_s:
                    raise
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _join(self, name: str, seeds: tuple[str, ...]) -> None:
        member = self._fleet.members[name]
        try:
            await member.run(*member.dialect.join(seeds), deadline_s=_STATEMENT_WITHIN_S)
        except ServerRefused as refused:
            self._refused[name] = refused.message
        else:
            self._refused.pop(name, None)
            self._tell(f"{name}: joins the group")
        self._tried_s[name] = self._clock.monotonic()

    def _addresses(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{name}:{self._fleet.members[name].address.port}" for name in names)

    async def _keep(self) -> None:
        """Servers that start from now on ask the others to let them in."""
        roles = BootRoles(self._fleet.source_name, seeds=self._addresses(self._fleet.members))
        await self._fleet.outside.provider.keep_roles(roles)

    async def _why_not(self, name: str, seen: Mapping[str, Membership]) -> StackUnavailable:
        """Why a node is not a member, in the server's words."""
        state = seen[name].state
        said = self._refused.get(name)
        member = self._fleet.members[name]
        with contextlib.suppress(ReplexplorerError):
            if errant := subtract_gtids(await member.executed(), await self._fleet.source.executed()):
                return StackUnavailable(
                    f"{name} cannot join: it has transactions that the group lacks: {errant}",
                    f"`replexplorer role rejoin {name}` gives it a copy of the group's data",
                )
        log = self._fleet.outside.provider.server_log(name)
        copy = f"`replexplorer role rejoin {name} --copy` gives it a copy of the group's data; "
        return StackUnavailable(
            f"{name} is not a member of the group ({state}){f': {said}' if said else ''}",
            f"{copy if self._fleet.system.elects else ''}its log: {log}",
        )

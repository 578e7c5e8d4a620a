"""Looking at what nodes have before a server ends and after it runs again, and keeping which differ since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import Had
from replexplorer.core.knobs import keys
from replexplorer.core.records import dataclass
from replexplorer.core.server.comeback import Comeback, compare, loses_rows
from replexplorer.core.server.exposure import Loss, Unknown
from replexplorer.core.server.gtid import subtract_gtids, unite_gtids
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.samples import asked, errant_gtids, probe
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.tasks import Patience
from replexplorer.ports import ask

_WITHIN_S: Final = 2.0
_DRAINED_WITHIN_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.2


async def had_before(state: StackState, node: str, fault: str) -> Had:
    """What the nodes have now, right before this fault ends the server of one."""
    fleet, member = state.fleet, state.fleet.member(node)
    sample, seen = state.samples.get(node), state.exposures.last_whole
    loss: Loss | Unknown | None = None
    if seen is not None and node == fleet.source_name:
        loss = seen[1].power_cut if fault == "power_cut" else seen[1].process_dies
    purged: str | None = None
    with suppress(ReplexplorerError):
        purged = await ask(member.poll, member.dialect.purged, deadline_s=_WITHIN_S)
    values = sample.values if sample else {}
    sets, is_lax = await _sets(state, fleet.members), loses_rows(fault, values)
    loses_log = is_lax or (fault == "power_cut" and values.get(keys.SYNC_BINLOG, 1) != 1)
    loses_any = is_lax and not (isinstance(loss, Loss) and loss.high == 0)
    return Had(sets, purged, 0, loses_any, sets.get(node) if loses_log else None)


async def seen_last(member: Member, ending: Awaitable[None]) -> str | None:
    """End a server; answers what it had executed when it answered last, None where it did not any more."""
    task, last = asyncio.ensure_future(ending), None
    with suppress(ReplexplorerError):
        while not task.done():
            last = await ask(member.poll, member.dialect.executed, deadline_s=_WITHIN_S)
    await task
    return last


async def _sets(state: StackState, nodes: Collection[str]) -> dict[str, str]:
    """What these nodes have executed or received, of those that answer."""
    members = [state.fleet.member(name) for name in nodes]
    found = await asyncio.gather(*(asked(each, lambda dialect: dialect.received_gtids) for each in members))
    return {name: gtids for name, gtids in zip(nodes, found, strict=True) if gtids is not None}


@dataclass(eq=False)
class Return:
    """One server that is started again; made right before that."""

    _state: StackState
    node: str
    _had: Had
    _others: dict[str, str] | None = None
    _acknowledged: str | None = None
    started_wall_s: float = 0.0
    """When the server was started, in seconds since 1970 and at most a second too early; known after the
    look."""

    async def look_before(self) -> None:
        """See what the others have of it while it is away: nothing that it writes from now on."""
        others = [name for name in self._state.fleet.members if name != self.node]
        if not self._state.fleet.member(self.node).address.server_running:
            self._others = await _sets(self._state, others)
            self._acknowledged = await self._answered()

    async def _answered(self) -> str:
        """What clients were answered until they lost the server, by our load or the driver's."""
        if not (own := self._state.load.acknowledged.before):
            await self._state.look_at_driver()
        return own or self._state.acknowledged

    async def look_after(self) -> Comeback | None:
        """What it came back without, and keep which nodes differ since; None where it does not answer."""
        fleet = self._state.fleet
        member, is_source = fleet.member(self.node), self.node == fleet.source_name
        others = self._others
        if others is None:  # it ran already, and may have given its numbers to others
            replicas, had = fleet.replicas if is_source else (), self._had.executed
            errant = await asyncio.gather(*(errant_gtids(member, each) for each in replicas))
            ahead = {each.name: gtids or "" for each, gtids in zip(replicas, errant, strict=True)}
            others = {
                name: unite_gtids(had.get(name, ""), ahead.get(name, ""))
                for name in {*had, *ahead} - {self.node}
            }
        try:
            if member.probed is None:  # it was down when this session came
                member.probed = await probe(member.poll)
            names = await ask(member.control, member.dialect.binlogs)
            logged = await ask(member.control, member.dialect.logged_before(names[-1][0])) if names else ""
            purged = await ask(member.control, member.dialect.purged)
            uptime_s = (await ask(member.control, member.dialect.status)).uptime_s or 0
        except ReplexplorerError:
            return None
        self.started_wall_s = fleet.outside.clock.wall() - uptime_s - 1
        uuid = member.capabilities.server_uuid if member.capabilities else None
        acknowledged = await self._answered() if self._acknowledged is None else self._acknowledged
        found = compare(
            self.node, uuid, self._had, others, unite_gtids(logged, purged), purged, acknowledged,
            is_source=is_source, since=await self._since(others, purged), rows_apart=uuid is None,
        )  # fmt: skip
        if uuid is not None or is_source:
            self._state.load.acknowledged.judged(uuid)
        known = self._state.requested.diverged if self._others is None else {}  # who saw more has said why
        if new := {name: why for name, why in found.differs.items() if name not in known}:
            await self._state.write(lambda now: now.differing(new))
        return found

    async def _since(self, others: Mapping[str, str], purged: str) -> dict[str, str]:
        """What the others have by now. One that lacks some of `purged` may still read what the kernel held
        for it when the server ended: it is asked again for a while."""
        patience = Patience(self._state.fleet.outside.clock, _DRAINED_WITHIN_S, _LOOK_EVERY_S)
        since: dict[str, str] = {}
        while await patience.again():
            since = await _sets(self._state, others)
            if not any(subtract_gtids(purged, has, since.get(name, "")) for name, has in others.items()):
                break
        return since

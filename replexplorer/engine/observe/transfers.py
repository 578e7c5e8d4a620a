"""What a member that joins or comes back is given, how far that is, and how long it took."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.dialect.flavours import TRANSFERS
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.node_view import Membership, Transfer, TransferKind
from replexplorer.core.topology import Belonging
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.samples import asked
from replexplorer.ports import Ability, Reporter, ask

_LOOK_EVERY_S: Final = 1.0
_DEADLINE_S: Final = 2.0
_BEFORE_S: Final = 30.0
"""A transfer may have begun so long before the first look at its member: its server was started before."""


class TransferLook:
    """Follows the members of one fleet: by their logs where they accept no login meanwhile, else by their own
    positions beside the source's."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._had: dict[str, int] = {}
        """Transactions that a member had at the first look at its recovery."""
        self._looked_s: dict[str, float] = {}
        self._last: dict[str, Transfer | None] = {}

    async def look(
        self, member: Member, membership: Membership | None, *, anew: bool = False
    ) -> Transfer | None:
        """The last transfer of a member that says this of itself, which may be over; None where it had none,
        or it is unknown. The answer is a second old at most, or of now where it is asked `anew`."""
        name, now_s = member.name, self._fleet.outside.clock.monotonic()
        if anew or now_s - self._looked_s.get(name, -inf) >= _LOOK_EVERY_S:
            self._looked_s[name] = now_s
            with contextlib.suppress(ReplexplorerError):
                self._last[name] = await self._of(member, membership)
        return self._last.get(name)

    async def _of(self, member: Member, membership: Membership | None) -> Transfer | None:
        now_s, last = self._fleet.outside.clock.wall(), self._last.get(member.name)
        if (log_says := TRANSFERS.get(self._fleet.system.name)) is not None:
            if not member.address.server_running or not self._fleet.can(Ability.STOP_SERVERS):
                return None
            return log_says(await self._fleet.server_process(member.name).log(), now_s)
        runs = last is not None and last.runs
        if membership is None or membership.belongs is not Belonging.JOINING:
            if last is None or not runs or membership is None or not membership.is_ready:
                return None
            return replace(last, elapsed_s=now_s - last.began_s, runs=False, done=last.total)
        executed = gtid_count(await ask(member.poll, member.dialect.executed, deadline_s=_DEADLINE_S))
        if last is None or not runs:
            last, self._had[member.name] = Transfer(TransferKind.INCREMENTAL, now_s, 0.0), executed
        had, total = self._had[member.name], last.total
        if total is None and (source := self._fleet.source) is not member:
            needed = await asked(source, lambda dialect: dialect.executed)
            total = None if needed is None else max(0, gtid_count(needed) - had)
        donor = last.donor if membership.donor is None else self._fleet.node_at(membership.donor)
        done = None if total is None else min(executed - had, total)
        return replace(last, elapsed_s=now_s - last.began_s, donor=donor, done=done, total=total)


class TransferNews:
    """Says what members that are waited for are given: `report` hears how far it is, `tell` hears of each
    that is over what it was and how long it took."""

    def __init__(self, fleet: Fleet, tell: Callable[[str], None], report: Reporter = lambda *_: None) -> None:
        self._fleet = fleet
        self._tell = tell
        self._report = report
        self._look = TransferLook(fleet)
        self._waited: dict[str, float] = {}
        """Since when each is waited for, in seconds since 1970."""
        self._reported: dict[str, Transfer] = {}
        self._told: set[tuple[str, float]] = set()

    async def look(self, member: Member, membership: Membership | None) -> None:
        """Take what a member says of itself; None: it does not answer."""
        name = member.name
        if membership is None or not membership.is_ready:
            self._waited.setdefault(name, self._fleet.outside.clock.wall())
            found = await self._look.look(member, membership)
            if found is not None and found.runs and found is not self._reported.get(name):
                self._reported[name] = found
                self._report(f"{name} {found.words}", found.share)
            return
        since_s = self._waited.pop(name, None)
        if since_s is None:
            return
        found = await self._look.look(member, membership, anew=True)
        if found is None or found.runs or found.began_s < since_s - _BEFORE_S:
            return
        if (name, found.began_s) not in self._told:
            self._told.add((name, found.began_s))
            self._tell(f"{name}: {found.words}")

"""Looking at the source's logs and at what its replicas have received, for the exposure.

Laws: looking changes nothing and never raises; what a look costs is five short statements, on connections
of their own, so that a number is not old before the next one is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused
from replexplorer.core.server.exposure import (
    LATE_S,
    Alone,
    Exposure,
    ExposureMeter,
    Loss,
    Received,
    SourceLook,
    Unknown,
    silent,
)
from replexplorer.core.system import WaitsFor
from replexplorer.core.topology import Belonging
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import ask

EVERY_S: Final = 0.2
"""Between two looks: what lies between two looks is what `low` and `high` are apart."""
KNOWN_WITHIN_S: Final = 1.5
_AT_FIRST_EVERY_S: Final = 0.03
_SOURCE_WITHIN_S: Final = 2.0
_REPLICA_WITHIN_S: Final = 0.5
_NOT_AGAIN_S: Final = 1.0
"""A replica that did not answer is left alone for so long: it is waited for within each look."""
_ALONE: Final = "no other member takes part, and members number transactions each in its own way"


class ExposureWatch:
    """One stack's looks."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._clock = fleet.outside.clock
        self._meter = ExposureMeter()
        self._source: Member | None = None
        self._received: dict[str, Received] = {}
        """By replica, the last answer."""
        self._again_s: dict[str, float] = {}
        """By replica that did not answer: when it is asked again."""
        self._one = asyncio.Lock()
        self.kept: Alone | None = None
        """Since when no replica answers, as the stack keeps it."""
        self._checked: Alone | None = None
        """What was kept when it was last seen whether that holds."""
        self._held: Alone | None = None
        """The same where it holds."""
        self._fault: str | None = None
        self._before_fault: tuple[float, Exposure] | None = None

    def forget(self) -> None:
        """Nothing that was seen says anything of what is there now."""
        self._meter.forget()
        self._before_fault = None
        self._received.clear()
        self._again_s.clear()
        self._source, self._fault = None, None

    @property
    def alone(self) -> Alone | None:
        """Since when no replica answers, as it is to be kept: as it is kept already, or as it was seen here
        where one had answered before; None while one answers, and where nobody knows."""
        alone = self._meter.alone
        if self._meter.is_answered:
            return None
        if alone is None or self._held is not None or not self._received:
            return self._held
        return replace(alone, source=self._fleet.source_name, since_wall_s=self._clock.wall())

    @property
    def is_alone(self) -> bool:
        """Whether commits go unprotected, for no replica answered the last look and none is waited for."""
        return self._meter.alone is not None and bool(self._fleet.replicas)

    @property
    def is_answered(self) -> bool:
        """Whether a replica answered at the last look."""
        return self._meter.is_answered

    def exposure(self) -> Exposure | None:
        """As of the last look; Unknown where the source does not answer, None before the first look."""
        if self._fault is not None:
            return silent(self._fault)
        looked_s, found = self._meter.looked_s, self._found()
        if looked_s is None or found is None:
            return None
        ago_s = self._clock.monotonic() - looked_s
        if ago_s > LATE_S:
            return silent(f"{self._fleet.source_name} was not looked at for more than {LATE_S:g} s")
        return replace(found, read_ago_s=round(max(0.0, ago_s), 1))

    @property
    def last_whole(self) -> tuple[float, Exposure] | None:
        """When the source answered the last look, on the monotonic clock, and what that found. It stays while
        the source does not answer; None before one."""
        looked_s, found = self._meter.looked_s, self._found()
        return self._before_fault if looked_s is None or found is None else (looked_s, found)

    def _found(self) -> Exposure | None:
        """What the last look found. What another node lacks is said by GTIDs; where each node numbers by
        itself, nothing is lacking while every other member has a commit before it is acknowledged."""
        found, fleet = self._meter.exposure(), self._fleet
        if (
            found is not None
            and isinstance(found.source_lost, Unknown)
            and found.source_lost.low
            and self._held
        ):
            ago_s = self._clock.wall() - self._held.since_wall_s
            return replace(
                found, source_lost=replace(found.source_lost, why=f"no replica answers for {ago_s:.0f} s")
            )
        if found is None or fleet.system.numbers_alike:
            return found
        part = [name for name in fleet.members if fleet.standing(name).belongs is Belonging.MEMBER]
        all_have = fleet.system.waits is WaitsFor.ALL and fleet.source_name in part and len(part) > 1
        return replace(found, source_lost=Loss(0, 0, 0) if all_have else Unknown(_ALONE))

    async def look_before_failure(self) -> None:
        """Look right before something is done to the source, so that `last_whole` is of that moment. One that
        did not answer last time is not waited for."""
        if self._fault is None:
            await self.look()

    async def look_until_known(self) -> None:
        """Look until what is known now is all known, as far as a second or so of looking can make it so: a
        redo log that no commit flushes is flushed once a second."""
        ends_s = self._clock.monotonic() + KNOWN_WITHIN_S
        while True:
            await self.look()
            seen = self.exposure()
            if seen is None or self._fault is not None or isinstance(seen.power_cut, Loss):
                return
            if self._clock.monotonic() >= ends_s:
                return
            await self._clock.sleep(_AT_FIRST_EVERY_S)

    async def look(self) -> None:
        """Look once; of a source that was never reached nothing is asked."""
        async with self._one:
            source = self._fleet.members.get(self._fleet.source_name)
            if source is None or source.probed is None:
                return
            if source is not self._source:
                self.forget()
                self._source = source
            try:
                await self._look(source)
            except ServerRefused as refused:
                self._miss(refused.message)
            except ReplexplorerError:
                self._miss(f"{source.name} does not answer")
            else:
                self._fault = None

    def _miss(self, fault: str) -> None:
        self._before_fault, self._fault = self.last_whole, fault
        self._meter.forget()

    async def _look(self, source: Member) -> None:
        sql, dialect = source.meter, source.dialect
        first = await ask(sql, dialect.executed, deadline_s=_SOURCE_WITHIN_S)
        replicas = self._fleet.replicas
        answered = set(await asyncio.gather(*map(self._ask_replica, replicas)))
        asked_s = self._clock.monotonic()
        before = await ask(sql, dialect.executed, deadline_s=_SOURCE_WITHIN_S)
        log_asked_s = self._clock.monotonic()
        log = await ask(sql, dialect.log_state, deadline_s=_SOURCE_WITHIN_S)
        at_s = (log_asked_s + self._clock.monotonic()) / 2
        after = await ask(sql, dialect.executed, deadline_s=_SOURCE_WITHIN_S)
        look = SourceLook(at_s, before, after, log, asked_s=asked_s, first=first)
        received: dict[str, Received | None] = {}
        for replica in replicas:
            known = self._received.get(replica.name)
            if known is not None and replica.name not in answered:
                known = Received(known.at_s, known.gtids, in_turn=False)
            received[replica.name] = known
        await self._check_kept()
        self._meter.take(look, received, self._held)

    async def _check_kept(self) -> None:
        """See whether what is kept holds: of this source, and no replica's server has started since. One that
        was seen to answer ends it."""
        if self.kept != self._checked:
            self._checked, self._held = self.kept, None
            if self.kept is not None and self.kept.source == self._fleet.source_name:
                since_s = self._clock.wall() - self.kept.since_wall_s
                age_s, names = self._fleet.outside.provider.server_age_s, self._fleet.replica_names
                with contextlib.suppress(ReplexplorerError):
                    ages_s = await asyncio.gather(*(age_s(name, ended=True) for name in names))
                    if all(each_s is None or each_s >= since_s for each_s in ages_s):
                        self._held = self.kept

    async def _ask_replica(self, replica: Member) -> str | None:
        """Ask one replica; answers its name when it answered."""
        now_s = self._clock.monotonic()
        if replica.probed is None or now_s < self._again_s.get(replica.name, now_s):
            return None
        try:
            gtids = await ask(replica.meter, replica.dialect.received_gtids, deadline_s=_REPLICA_WITHIN_S)
        except ReplexplorerError:
            self._again_s[replica.name] = self._clock.monotonic() + _NOT_AGAIN_S
            return None
        self._received[replica.name] = Received(self._clock.monotonic(), gtids)
        return replica.name

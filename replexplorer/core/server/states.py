"""The protection states one after the other: when each began, what went unprotected, what is an outage.

Law: a state is taken for an outage only when no change is under way that may be all there is to it, and
semi-sync found off though asked for only when it stays so for a while: who switches it off writes the
request down a moment later. Commits are counted by the binlog (`Binlog_cache_use`): the semi-sync
counters count queues under after_sync (docs/facts.md, trap 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replexplorer.core.server.counters import Sample, restarted
from replexplorer.core.server.protection import Protection, ProtectionState

_OFF_PATIENCE_S: Final = 3.0
_ALWAYS: Final = frozenset({ProtectionState.BLOCKED, ProtectionState.DEGRADED, ProtectionState.DOWN})
_SOUND: Final = frozenset({ProtectionState.PROTECTED, ProtectionState.OFF})
"""What ends an outage; armed is on its way."""


@dataclass(frozen=True, slots=True)
class Look:
    """The primary at one moment."""

    at_s: float
    protection: Protection
    counters: Sample
    enabled: bool = False
    """The source's switch is on."""


@dataclass(frozen=True, slots=True)
class OutageSpan:
    """A stretch of an outage in one state."""

    state: ProtectionState
    from_s: float
    to_s: float
    unprotected: int = 0
    """Commits within it."""
    is_first: bool = False
    """Of its state: it begins when the oldest waiting commit did, before anybody saw it."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """One state gave way to another."""

    at_s: float
    before: ProtectionState
    after: ProtectionState
    lasted_s: float
    """The state before."""
    is_outage: bool = False
    """The state after is one."""
    outage_s: float | None = None
    """When the outage began that this turn ended; None when it ended none."""
    unprotected: int = 0
    """Commits in that outage."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look brought."""

    stretches: tuple[OutageSpan, ...] = ()
    turn: StateChange | None = None


def is_outage(protection: Protection) -> bool:
    """Whether commits stand still or go unprotected though semi-sync is asked for, or none can be made."""
    if protection.state is ProtectionState.OFF:
        return protection.requested
    return protection.state in _ALWAYS


class States:
    """Follows the primary look by look."""

    def __init__(self) -> None:
        self._last: Look | None = None
        self.state = ProtectionState.OFF
        """The one in force, after the first look."""
        self.since_s = 0.0
        """When it began."""
        self.unprotected = 0
        """Commits since the first look."""
        self._is_outage = False
        self._outage_s: float | None = None
        self._outage_unprotected = 0
        self._held: tuple[ProtectionState, float] | None = None
        """An outage that is not taken for one yet, and when it was first seen."""
        self._held_unprotected = 0

    @property
    def settled(self) -> bool:
        """The state of the last look is the one in force."""
        return self._held is None

    @property
    def in_outage(self) -> bool:
        """The state in force is an outage."""
        return self._is_outage

    def see(self, look: Look, *, changing: bool = False) -> Seen:
        """Take a look; `changing`: a change is under way."""
        last, self._last = self._last, look
        turned_s = self._turned_s(last, look)
        unprotected = unprotected_between(last, look) if last is not None else 0
        if last is not None and self._must_wait(look, turned_s, changing=changing):
            self._held_unprotected += unprotected
            return Seen(self._stay(last, look, 0))
        if self._held is not None:
            unprotected += self._held_unprotected if is_outage(look.protection) else 0
            self._held, self._held_unprotected = None, 0
        self.unprotected += unprotected
        state = look.protection.state
        if last is None:
            self._begin(state, turned_s, look)
            return Seen((self._stretch(turned_s, look.at_s, 0, is_first=True),) if self._is_outage else ())
        if state is self.state and is_outage(look.protection) == self._is_outage:
            return Seen(self._stay(last, look, unprotected))
        return self._turn(last, look, turned_s, unprotected)

    def _must_wait(self, look: Look, turned_s: float, *, changing: bool) -> bool:
        """Whether this look's outage is not to be taken for one yet."""
        state = look.protection.state
        if self._is_outage and (state is not ProtectionState.OFF or self.state is ProtectionState.DOWN):
            return False
        if not is_outage(look.protection) or (state is self.state and self._is_outage):
            return False
        if self._held is None or self._held[0] is not state:
            self._held = state, turned_s
        patience_s = _OFF_PATIENCE_S if state is ProtectionState.OFF else 0.0
        return changing or look.at_s - self._held[1] < patience_s

    def _turned_s(self, last: Look | None, look: Look) -> float:
        """When the look's state began, as closely as is known."""
        state = look.protection.state
        if self._held is not None and self._held[0] is state:
            return self._held[1]
        low_s = self.since_s if last is not None and not self._is_outage else None
        if last is not None and self._is_outage:
            low_s = last.at_s
        began_s = look.at_s
        if state is ProtectionState.BLOCKED:
            began_s -= look.protection.oldest_wait_s or 0.0
        elif self.state is ProtectionState.BLOCKED and state is ProtectionState.DEGRADED:
            began_s = self.since_s + (look.protection.timeout_ms or 0) / 1000
        return min(look.at_s, began_s if low_s is None else max(low_s, began_s))

    def _turn(self, last: Look, look: Look, turned_s: float, unprotected: int) -> Seen:
        """Another state is in force."""
        before, was_outage, since_s = self.state, self._is_outage, self.since_s
        outage_s, counted = self._outage_s, self._outage_unprotected
        is_now = is_outage(look.protection)
        stretches = []
        if was_outage:
            # The rest of the state before; commits belong to whichever of the two went unprotected.
            stretches.append(self._stretch(last.at_s, turned_s, 0 if is_now else unprotected))
            counted = self._outage_unprotected
        self._begin(look.protection.state, turned_s, look)
        if is_now:
            stretches.append(self._stretch(turned_s, look.at_s, unprotected, is_first=True))
        over = outage_s is not None and look.protection.state in _SOUND and not is_now
        turn = StateChange(
            turned_s,
            before,
            look.protection.state,
            max(0.0, turned_s - since_s),
            is_now,
            outage_s if over else None,
            counted if over else 0,
        )
        return Seen(tuple(stretches), turn)

    def _begin(self, state: ProtectionState, since_s: float, look: Look) -> None:
        self.state, self.since_s = state, since_s
        self._is_outage = is_outage(look.protection)
        if self._is_outage and self._outage_s is None:
            self._outage_s, self._outage_unprotected = since_s, 0
        elif not self._is_outage and state in _SOUND:
            self._outage_s = None

    def _stay(self, last: Look, look: Look, unprotected: int) -> tuple[OutageSpan, ...]:
        """The state in force goes on."""
        return (self._stretch(last.at_s, look.at_s, unprotected),) if self._is_outage else ()

    def _stretch(self, from_s: float, to_s: float, unprotected: int, *, is_first: bool = False) -> OutageSpan:
        self._outage_unprotected += unprotected
        return OutageSpan(self.state, from_s, to_s, unprotected, is_first)


def unprotected_between(before: Look, after: Look) -> int:
    """Commits between two looks confirmed to clients without an acknowledgement, while semi-sync
    was asked for; 0 where that is unknown.

    Where some were acknowledged and some not, the binlog's commits are shared out as the queues were.
    Those that a timeout released had gone to the binlog before.
    """
    if restarted(before.counters, after.counters):
        return 0
    commits = _grown(before.counters.status.binlog_cache_use, after.counters.status.binlog_cache_use)
    if not before.enabled and not after.enabled:
        is_off = before.protection.state is after.protection.state is ProtectionState.OFF
        return commits if is_off and before.protection.requested and after.protection.requested else 0
    if not (before.enabled and after.enabled):
        return 0
    alone = _grown(before.counters.status.no_tx, after.counters.status.no_tx)
    acknowledged = _grown(before.counters.status.yes_tx, after.counters.status.yes_tx)
    if not alone:
        return 0
    released = 0
    if before.protection.state is ProtectionState.BLOCKED and after.protection.state in _ALWAYS:
        released = before.protection.waiting or 0
    return max(alone, round(commits * alone / (alone + acknowledged)) + released)


def _grown(before: int | None, after: int | None) -> int:
    """How much a counter grew; one that was reset grew at least to what it says now."""
    if before is None or after is None:
        return 0
    return after if after < before else after - before

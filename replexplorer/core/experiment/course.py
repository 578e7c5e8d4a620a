"""What a measurement went through: protection, fall-backs, commits that no replica had, what was turned.

Law: a state holds from the look that found it to the next one, and BLOCKED from when the oldest waiting
commit began, as its event says. A counter that fell was reset and
counts from 0. What nobody could read is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from replexplorer.core.event import Event, Severity
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick


@dataclass(frozen=True, slots=True)
class Glimpse:
    """The primary at a moment."""

    at_s: float
    """Seconds since the session began."""
    from_s: float
    """From when on its state held; before the look where commits had waited for a while."""
    state: str
    fallbacks: int | None
    """Of the server, since it started."""
    unprotected: int | None
    """Commits confirmed to clients without an acknowledgement, since the session began."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What happened between two moments."""

    seconds: dict[str, float]
    """By protection state, in the order in which they came."""
    fallbacks: int | None
    unprotected: int | None
    """While semi-sync was asked for."""
    events: tuple[Event, ...]
    """Marks, warnings and faults, oldest first."""


@dataclass(slots=True)
class Course:
    """The glimpses and events of one session."""

    glimpses: list[Glimpse] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def add(self, tick: Tick) -> None:
        """Take a tick."""
        seen = tick.protection
        waited_s = (seen.oldest_wait_s or 0.0) if seen.state is ProtectionState.BLOCKED else 0.0
        self.glimpses.append(
            Glimpse(tick.at_s, tick.at_s - waited_s, seen.state.value, seen.fallbacks, seen.unprotected)
        )
        self.events += [event for event in tick.events if event.severity is not Severity.INFO]

    def between(self, from_s: float, to_s: float) -> Passage:
        """What happened from one moment to another."""
        return Passage(
            seconds=self._seconds(from_s, to_s),
            fallbacks=self._grown(from_s, lambda glimpse: glimpse.fallbacks),
            unprotected=self._grown(from_s, lambda glimpse: glimpse.unprotected),
            events=tuple(
                sorted(
                    (event for event in self.events if from_s <= event.at_s <= to_s),
                    key=lambda event: event.at_s,
                )
            ),
        )

    def _seconds(self, from_s: float, to_s: float) -> dict[str, float]:
        seconds: dict[str, float] = {}
        begins_s = [*accumulate((glimpse.from_s for glimpse in self.glimpses[1:]), max, initial=from_s), to_s]
        for glimpse, (begin_s, end_s) in zip(self.glimpses, pairwise(begins_s), strict=False):
            held_s = min(end_s, to_s) - max(begin_s, from_s)
            if held_s > 0:
                seconds[glimpse.state] = seconds.get(glimpse.state, 0.0) + held_s
        return seconds

    def _grown(self, from_s: float, counter: Callable[[Glimpse], int | None]) -> int | None:
        """How far a counter came since a moment."""
        before = [counter(each) for each in self.glimpses if each.at_s <= from_s]
        after = [counter(each) for each in self.glimpses if each.at_s > from_s]
        counts = [count for count in (*before[-1:], *after) if count is not None]
        return _growth(counts) if len(counts) > 1 else None


def _growth(counts: Sequence[int]) -> int:
    return sum(now - before if now >= before else now for before, now in pairwise(counts))

"""What a load did, cut into equal stretches: the pieces that batches are made of.

Law: memory does not grow with time. Seconds are joined two by two whenever there are too many
stretches, so the stretches of a long epoch are longer and nothing that was counted is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final, Self

from replexplorer.core.stats.batch_means import LEAST_BATCH_S
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.ranks import Ranks

MOST_STRETCHES: Final = 160
"""Stretches that are kept."""
_TIMER_S: Final = 0.01
"""A second is over when so much of it is missing: intervals end by a timer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """This many seconds of load."""

    duration_s: float
    commits: int
    latency: Ranks

    @property
    def tps(self) -> float:
        """Commits per second."""
        return self.commits / self.duration_s

    @classmethod
    def joined(cls, parts: Sequence[Stretch]) -> Self:
        """Several stretches as one."""
        counts: Counter[int] = Counter()
        for part in parts:
            for slot, count in part.latency.counts():
                counts[slot] += count
        return cls(
            sum(part.duration_s for part in parts), sum(part.commits for part in parts), Ranks(counts.items())
        )


@dataclass(slots=True)
class Moments:
    """Mean and deviation of readings that are not kept (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, reading: float) -> None:
        """Take a reading."""
        self.count += 1
        off = reading - self.mean
        self.mean += off / self.count
        self._squares += off * (reading - self.mean)

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 below two readings."""
        return sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0


@dataclass(slots=True)
class Stretches:
    """Equal stretches of one epoch, oldest first."""

    full: list[Stretch] = field(default_factory=list)
    """Those that are complete."""
    seconds_each: int = 1
    """Seconds in a stretch."""
    seconds: int = 0
    """Seconds taken so far."""
    tps: Moments = field(default_factory=Moments)
    """Of the single seconds."""
    p95_ms: Moments = field(default_factory=Moments)
    """Of the single seconds that had a commit."""
    _open: list[Stretch] = field(default_factory=list)
    _second: Histogram = field(default_factory=Histogram)
    _second_s: float = 0.0
    _second_commits: int = 0

    @property
    def each_s(self) -> float:
        """Mean length of a full stretch; 0 when there is none."""
        return sum(stretch.duration_s for stretch in self.full) / len(self.full) if self.full else 0.0

    def add(self, duration_s: float, commits: int, latency: Histogram) -> None:
        """Take an interval."""
        self._second_s += duration_s
        self._second_commits += commits
        self._second.add(latency)
        if self._second_s >= LEAST_BATCH_S - _TIMER_S:
            self._take(Stretch(self._second_s, self._second_commits, Ranks.of(self._second)))
            self._second, self._second_s, self._second_commits = Histogram(), 0.0, 0

    def _take(self, second: Stretch) -> None:
        self.seconds += 1
        self.tps.add(second.tps)
        p95_ms = second.latency.value_ms(0.95)
        if p95_ms is not None:
            self.p95_ms.add(p95_ms)
        self._open.append(second)
        if len(self._open) < self.seconds_each:
            return
        self.full.append(Stretch.joined(self._open) if self.seconds_each > 1 else second)
        self._open = []
        if len(self.full) >= MOST_STRETCHES:
            pairs = zip(self.full[::2], self.full[1::2], strict=True)
            self.full = [Stretch.joined(pair) for pair in pairs]
            self.seconds_each *= 2

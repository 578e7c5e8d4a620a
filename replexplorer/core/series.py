"""The charts' memory: one point a tick, bounded, and the page of time that is shown.

Law: a percentile is read from merged histograms. A point takes back earlier ticks until it has
20 commits for p95 and 100 for p99, at most 10 s of them and never across a mark; where that does
not suffice the line has a gap and only the slowest commit is drawn. TPS takes back ticks too while
so few commits lie in one that it would show the ticks' own beat, at most 2 s; a second without any
commit is 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.density import DensityHistory
from replexplorer.core.histogram import Histogram
from replexplorer.core.points import Point, Points
from replexplorer.core.tick import LoadView, Tick

_LOOK_BACK_S: Final = 10.0
_ENOUGH_P50: Final = 5
_ENOUGH_P95: Final = 20
_ENOUGH_P99: Final = 100
_ENOUGH_TPS: Final = 100
_TPS_LOOK_BACK_S: Final = 2.0
_STALL_S: Final = 1.0
_CAPACITY: Final = 7200
"""An hour at two ticks a second."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One tick that a later point may still take back."""

    start_s: float
    duration_s: float
    """Of the load's interval."""
    latency: Histogram


@dataclass(slots=True)
class History:
    """All points of a session, the oldest dropped."""

    capacity: int = _CAPACITY
    points: Points = field(default_factory=Points)
    density: DensityHistory = field(default_factory=DensityHistory)
    """All histograms of the last hour, merged by time and latency."""
    _recent: deque[_Part] = field(default_factory=deque)
    """Oldest first."""
    _mark_s: float = -math.inf
    _newest: Histogram | None = None
    """The last one taken: a tick without a newer interval brings it again."""

    def feed(self, tick: Tick) -> None:
        """Take a tick; one that is not newer than the last is ignored."""
        last_s = self.points[-1].at_s if self.points else None
        if last_s is not None and tick.at_s <= last_s:
            return
        for event in tick.events:
            if event.mark is not None and event.at_s > self._mark_s:
                self._mark_s = event.at_s
                self._recent.clear()
        ceiling = tick.ceiling.tps if tick.ceiling else None
        point = self._point(tick.at_s, last_s, tick.load, ceiling)
        self.points.append(point._replace(predicted_tps=tick.predicted.tps) if tick.predicted else point)
        if len(self.points) > self.capacity:
            self.points.forget(max(1, self.capacity // 8))  # seldom, so that it costs nothing a tick

    def page(self, from_s: float, to_s: float) -> list[Point]:
        """The points with from_s <= at_s <= to_s, oldest first."""
        low = bisect_left(self.points, from_s, key=lambda point: point.at_s)
        high = bisect_right(self.points, to_s, key=lambda point: point.at_s)
        return self.points[low:high]

    def _point(
        self, at_s: float, last_s: float | None, load: LoadView | None, ceiling: float | None
    ) -> Point:
        if load is None:
            return Point(at_s, ceiling_tps=ceiling)
        latency = load.latency
        if latency is None:
            return Point(
                at_s, load.tps, ceiling, load.p50_ms, load.p95_ms, load.p99_ms, load.max_ms, n=load.n
            )
        start_s = at_s if last_s is None else last_s
        is_newer = latency is not self._newest
        if is_newer:
            self._newest = latency
            self.density.add(at_s - load.duration_s if load.duration_s > 0 else start_s, at_s, latency)
        if start_s >= self._mark_s:
            if is_newer:
                self._recent.append(_Part(start_s, load.duration_s, latency))
            merged = self._merged_back(at_s)
            tps = self._tps_back(at_s)
        else:
            merged, tps = {}, None  # a tick on both sides of a mark belongs to neither
        p50, p95, p99 = (merged.get(enough) for enough in (_ENOUGH_P50, _ENOUGH_P95, _ENOUGH_P99))
        return Point(
            at_s,
            tps=load.tps if tps is None else tps,
            ceiling_tps=ceiling,
            p50_ms=p50.percentile_ms(50) if p50 else None,
            p95_ms=p95.percentile_ms(95) if p95 else None,
            p99_ms=p99.percentile_ms(99) if p99 else None,
            max_ms=latency.max_ms,
            n=max((each.count for each in merged.values()), default=latency.count),
        )

    def _merged_back(self, at_s: float) -> dict[int, Histogram]:
        """For each count that suffices, the fewest newest ticks that reach it; absent: out of reach."""
        while self._recent and self._recent[0].start_s < at_s - _LOOK_BACK_S:
            self._recent.popleft()
        found: dict[int, Histogram] = {}
        total = Histogram()
        for part in reversed(self._recent):
            total.add(part.latency)
            for enough in (_ENOUGH_P50, _ENOUGH_P95, _ENOUGH_P99):
                if enough not in found and total.count >= enough:
                    found[enough] = Histogram.merged([total])
            if _ENOUGH_P99 in found:
                break
        return found

    def _tps_back(self, at_s: float) -> float | None:
        """TPS over the fewest newest ticks that have enough commits; None where lengths are unknown."""
        commits, duration_s = 0, 0.0
        for part in reversed(self._recent):
            if duration_s and part.start_s < at_s - _TPS_LOOK_BACK_S:
                break
            commits += part.latency.count
            duration_s += part.duration_s
            if commits >= _ENOUGH_TPS or (commits == 0 and duration_s >= _STALL_S):
                break
        return commits / duration_s if duration_s > 0 else None


def page_of(now_s: float, origin_s: float, length_s: float) -> tuple[float, float]:
    """The page of time that shows `now_s`: it fills from the origin, then jumps by quarters.

    Answers its left and right edge in seconds; the left one never lies before the origin.
    """
    quarter_s = length_s / 4
    jumps = max(0, math.ceil((now_s - origin_s - length_s) / quarter_s))
    start_s = origin_s + jumps * quarter_s
    return start_s, start_s + length_s

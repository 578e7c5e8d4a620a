"""The charts' memory: one point a tick, bounded, and the page of time that is shown.

Law: all figures of a point are of one window (core/history/recent.py). It takes back earlier ticks until it
has 100 commits, at most 10 s of them and never across a mark or a stall; where it has fewer than 20
p95 has a gap, below 100 p99, and the slowest commit is drawn. A second without any commit is a stall
(twice the fastest commit, where that is longer): a window of its own with 0 TPS.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from replexplorer.core.load.interval import LoadView
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.server.exposure import FAILURES, Loss
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick

ENOUGH: Final[Mapping[str, int]] = {"p50": 5, "p95": 20, "p99": 100}
"""Commits that a percentile needs behind it to be drawn."""
_COUNTED: Final = ("errors", "unknown", "reconnects", "deadlocks", "lock_timeouts", "conflicts", "dropped")
_USUAL_S: Final = 0.5
"""Length of an interval that does not say it."""


class Point(NamedTuple):
    """One tick on the charts; None is a gap."""

    at_s: float
    tps: float | None = None
    ceiling_tps: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    """Slowest commit of the same window as the percentiles."""
    predicted_tps: float | None = None
    slowest_ms: float | None = None
    """Slowest commit of this tick alone: where its dot stands."""
    process_dies: float | None = None
    """Commits that the death of mysqld would lose."""
    power_cut: float | None = None
    """Commits that a power cut of the source's machine would lose."""
    source_lost: float | None = None
    """Commits that no replica has."""
    mean_ms: float | None = None
    """The server's mean time for the commit, where its counters are all that is known."""
    n: int = 0
    """Commits behind TPS and percentiles, ticks taken back included."""
    lags_s: Mapping[str, float | None] = MappingProxyType({})
    """How far each replica is behind, by its name."""


@frozen
class Recent:
    """What every screen shows of the load now; an unknown figure is None."""

    length_s: float = 0.0
    """Length of the window; 0 when unknown."""
    n: int = 0
    """Commits in it."""
    tps: float | None = None
    qps: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    mean_ms: float | None = None
    """The server's mean time for the commit, where `is_by_server`."""
    is_by_server: bool = False
    """Other people's clients, of whom the server's counters are all that is known."""
    is_mixed: bool = False
    """A change took effect within it: its figures belong to neither side."""
    is_reported: bool = False
    """The figures are as they came, without the histogram that would say how much stands behind them."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Errors, unknown outcomes, reconnects, deadlocks, lock timeouts and dropped arrivals."""

    def latency_ms(self, name: str) -> float | None:
        """`p50`, `p95`, `p99` or `max`."""
        found: float | None = getattr(self, f"{name}_ms")
        return found

    def is_firm(self, name: str) -> bool:
        """Whether enough commits of one setting stand behind a percentile."""
        enough = self.is_reported or self.n >= ENOUGH.get(name, 1)
        return enough and not self.is_mixed and self.latency_ms(name) is not None

    def point(self, at_s: float, ceiling_tps: float | None, **figures: Any) -> Point:
        """It on the charts, with further figures; a percentile with too little behind it is a gap."""
        p50, p95, p99 = (self.latency_ms(name) if self.is_firm(name) else None for name in ENOUGH)
        point = Point(at_s, self.tps, ceiling_tps, p50, p95, p99, self.max_ms, mean_ms=self.mean_ms, n=self.n)
        return point._replace(**figures)

    def per_second(self, counted: str) -> float:
        """Errors, dropped arrivals and so on as a rate."""
        return self.counts.get(counted, 0) / (self.length_s if self.length_s > 0 else _USUAL_S)


def recent_of(parts: Sequence[LoadView], length_s: float, *, is_mixed: bool = False) -> Recent:
    """Several intervals of the load as one window of that length, the newest last; one alone where it
    brings no histogram."""
    newest = parts[-1]
    n, tps = newest.n, newest.tps
    latencies = [newest.latency_ms(name) for name in (*ENOUGH, "max")]
    if newest.latency is not None:
        merged = Histogram.merged(part.latency for part in parts if part.latency is not None)
        n, tps = merged.count, merged.count / length_s if length_s > 0 else newest.tps
        latencies = [*(merged.percentile_ms(float(name[1:])) for name in ENOUGH), merged.max_ms]
    p50, p95, p99, highest = latencies
    answered = sum((part.qps or 0.0) * part.duration_s for part in parts)
    return Recent(
        length_s,
        n,
        tps,
        answered / length_s if length_s > 0 else newest.qps,
        p50,
        p95,
        p99,
        highest,
        mean_ms=newest.mean_ms if newest.is_by_server else None,
        is_by_server=newest.is_by_server,
        is_mixed=is_mixed,
        is_reported=newest.latency is None,
        counts={name: sum(getattr(part, name) for part in parts) for name in _COUNTED},
    )


_LOOK_BACK_S: Final = 10.0
_STALL_S: Final = 1.0
_STALL_COMMITS: Final = 2
"""A stall is at least as long as this many of the fastest commits."""
_CAPACITY: Final = 7200
"""An hour at two ticks a second."""


class _Part(NamedTuple):
    """One tick that a later point may still take back."""

    start_s: float
    load: LoadView

    @property
    def commits(self) -> int:
        """How many there were."""
        return self.load.latency.count if self.load.latency is not None else 0


@dataclass(slots=True)
class History:
    """All points of a session, the oldest dropped."""

    capacity: int = _CAPACITY
    points: list[Point] = field(default_factory=list)
    recent: Recent = field(default_factory=Recent)
    """The window of the newest tick: what the screens show as now."""
    _parts: deque[_Part] = field(default_factory=deque)
    """Oldest first: what the window may take back."""
    _mark_s: float = -math.inf
    _stalls: bool = False
    """The parts are all without a commit, and long enough to be a stall."""
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
                self._forget()
        figures: dict[str, Any] = {"predicted_tps": tick.predicted.tps if tick.predicted else None}
        for name in FAILURES if tick.exposure is not None else ():
            loss = getattr(tick.exposure, name)
            figures[name] = loss.commits if isinstance(loss, Loss) else loss.low or None
        figures["lags_s"] = tick.lags_s
        figures["slowest_ms"] = self._take(tick.at_s, last_s, tick.load)
        self.points.append(
            self.recent.point(tick.at_s, tick.ceiling.tps if tick.ceiling else None, **figures)
        )
        if len(self.points) > self.capacity:
            del self.points[: max(1, self.capacity // 8)]

    def page(self, from_s: float, to_s: float) -> list[Point]:
        """The points with from_s <= at_s <= to_s, oldest first."""
        low = bisect_left(self.points, from_s, key=lambda point: point.at_s)
        high = bisect_right(self.points, to_s, key=lambda point: point.at_s)
        return self.points[low:high]

    def _forget(self) -> None:
        """Nothing before this moment is taken back any more."""
        self._parts.clear()
        self._stalls = False

    def _take(self, at_s: float, last_s: float | None, load: LoadView | None) -> float | None:
        """Take the load of a tick into the window; its slowest commit in ms."""
        # No clients, as between a lab's phases: that is not a stall: nothing is measured.
        rests = load is not None and load.clients == 0 and load.state == "running"
        if load is None or load.latency is None or rests:
            self._forget()
            self.recent = Recent() if load is None or rests else recent_of([load], load.duration_s)
            return None if load is None else load.max_ms
        start_s = at_s if last_s is None else last_s
        is_newer, self._newest = load.latency is not self._newest, load.latency
        if start_s < self._mark_s:  # a tick on both sides of a mark belongs to neither
            self.recent = recent_of([load], load.duration_s, is_mixed=True)
        else:
            if is_newer:
                self._add(_Part(start_s, load))
            self.recent = self._window(at_s, load)
        return load.latency.max_ms

    def _add(self, part: _Part) -> None:
        """Add the newest part; what lies before a stall, and the stall once it is over, are dropped."""
        if self._stalls and part.commits:
            self._forget()
        self._parts.append(part)
        empty = list(takewhile(lambda each: not each.commits, reversed(self._parts)))
        if empty and sum(each.load.duration_s for each in empty) >= self._stall_s():
            self._stalls = True
            self._parts = deque(reversed(empty))

    def _stall_s(self) -> float:
        """How long no commit must come to be a stall: over a slow link a commit takes seconds."""
        fastest_ms = min(
            (part.load.latency.min_ms or 0.0 for part in self._parts if part.load.latency and part.commits),
            default=0.0,
        )
        return max(_STALL_S, _STALL_COMMITS * fastest_ms / 1000)

    def _window(self, at_s: float, load: LoadView) -> Recent:
        """The fewest newest parts with enough commits for every percentile; all there are where none
        suffice."""
        while self._parts and self._parts[0].start_s < at_s - _LOOK_BACK_S:
            self._parts.popleft()
        taken: list[_Part] = []
        commits = 0
        for part in reversed(self._parts):
            taken.insert(0, part)
            commits += part.commits
            if commits >= max(ENOUGH.values()):
                break
        if not taken:  # nothing newer than the mark yet
            return recent_of([load], load.duration_s, is_mixed=True)
        return recent_of([part.load for part in taken], sum(part.load.duration_s for part in taken))


def page_of(now_s: float, origin_s: float, length_s: float) -> tuple[float, float]:
    """The page of time that shows `now_s`: it fills from the origin, then jumps by quarters.

    Answers its left and right edge in seconds; the left one never lies before the origin.
    """
    quarter_s = length_s / 4
    jumps = max(0, math.ceil((now_s - origin_s - length_s) / quarter_s))
    start_s = origin_s + jumps * quarter_s
    return start_s, start_s + length_s


# -- a whole session for one page

_LEAST_STRETCH_S: Final = 1.0


@dataclass(slots=True)
class Digest:
    """A whole session as a bounded row of stretches: takes its ticks in order; `points` are the stretches,
    each at its end.

    Percentiles are read from merged histograms. A tick that brings a mark begins a stretch; where commits of
    both sides are in it, it is one of its own, without percentiles.
    """

    length_s: float
    """From the first tick to the last."""
    most: int = 600
    """About how many stretches."""
    _done: list[Point] = field(default_factory=list)
    _open: list[Tick] = field(default_factory=list)
    _key: tuple[int, int] = (0, 0)
    """Which stretch is open: its number, and the marks before it."""
    _first_s: float | None = None
    _marks: int = 0

    def feed(self, tick: Tick) -> None:
        """Take the next tick."""
        first_s = self._first_s = tick.at_s if self._first_s is None else self._first_s
        if any(event.mark is not None for event in tick.events):
            self._marks += 1
        key = int((tick.at_s - first_s) / max(_LEAST_STRETCH_S, self.length_s / self.most)), self._marks
        if key != self._key:
            self._close()
        self._key = key
        self._open.append(tick)
        if _is_mixed(tick):
            self._close(is_mixed=True)

    @property
    def points(self) -> list[Point]:
        """The stretches so far, the open one included."""
        self._close()
        return self._done

    def _close(self, *, is_mixed: bool = False) -> None:
        if self._open:
            self._done.append(_stretch(self._open, is_mixed=is_mixed))
        self._open = []


def _is_mixed(tick: Tick) -> bool:
    """A mark lies within the interval of its load."""
    began_s = tick.at_s - (tick.load.duration_s if tick.load is not None else 0.0)
    return any(event.mark is not None and event.at_s > began_s for event in tick.events)


def _stretch(ticks: list[Tick], *, is_mixed: bool) -> Point:
    """Several ticks in one point; a percentile with too few commits behind it is a gap."""
    newest = ticks[-1]
    loads = [tick.load for tick in ticks if tick.load is not None]
    measured = [load for load in loads if load.latency is not None and load.duration_s > 0] or loads[-1:]
    recent = Recent()
    if measured:
        recent = recent_of(measured, sum(load.duration_s for load in measured), is_mixed=is_mixed)
    return recent.point(
        newest.at_s,
        newest.ceiling.tps if newest.ceiling else None,
        predicted_tps=newest.predicted.tps if newest.predicted else None,
        lags_s=_most_behind(ticks),
        **{name: _most_at_risk(ticks, name) for name in FAILURES},
    )


def _most_behind(ticks: list[Tick]) -> Mapping[str, float | None]:
    """The most that each replica was behind at any look of the stretch."""
    seen = [(name, lag_s) for tick in ticks for name, lag_s in tick.lags_s.items() if lag_s is not None]
    return dict(sorted(seen, key=lambda each: each[1]))


def _most_at_risk(ticks: list[Tick], name: str) -> float | None:
    """The most that this failure would have lost at any look of the stretch; None: not known."""
    seen = [getattr(tick.exposure, name) for tick in ticks if tick.exposure is not None]
    return max((float(loss.commits) for loss in seen if isinstance(loss, Loss)), default=None)

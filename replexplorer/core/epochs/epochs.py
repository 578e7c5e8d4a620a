"""What each change did: the figures before it and since, and one test of the difference.

Laws: an epoch runs from the moment when its change was effective plus one latency to the next
change; what lies between is left out. Word and colour come from one test, on TPS in the closed
loop and on response p95 in the open one; other figures have intervals and no verdict. A change
that does nothing is called faster or slower at any moment of its epoch with 5 % or less, as far as
noise is faster than the epochs are long; epochs are not corrected
for each other, so of twenty idle changes one may be. What is tested and shown is a ratio (`ratio`).
Where either side holds an outage - a stall, a fall back to async, a restart - nothing is compared.

What one change did: the figures before it and since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED, OPEN
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.server.comeback import Outage
from replexplorer.core.server.exposure import Exposure, over_time
from replexplorer.core.server.protection import OutageSpan, ProtectionState, StateChange
from replexplorer.core.server.truth import Lag, LagSeen, ReplicaTruth
from replexplorer.core.stats.histogram import Histogram, Ranks
from replexplorer.core.stats.measured import (
    PERCENTS,
    Estimate,
    Lack,
    MeanTps,
    Percentile,
    Spreads,
    Stretches,
    estimate,
    spreads_of,
)
from replexplorer.core.stats.ratio import ComparedSide, Ratio, lack_of, ratio_of

TOO_SHORT: Final = "too short"
TOO_NOISY: Final = "too noisy"
LAG: Final = "lag"
"""What an applier's change is judged by: no test."""
BEFORE: Final = " before"
"""Behind either: it is the epoch before that lacks something."""


@frozen
class EpochSide:
    """An epoch's figures; latencies are responses in the open loop."""

    tps: Estimate = field(default_factory=Estimate)
    p50_ms: Estimate = field(default_factory=Estimate)
    p95_ms: Estimate = field(default_factory=Estimate)
    p99_ms: Estimate = field(default_factory=Estimate)
    n: int = 0
    """Commits."""
    length_s: float = 0.0
    """What was measured, the transition left out."""
    outage: Outage = field(default_factory=Outage)
    """What stood in the way of commits meanwhile: then the figures are of no one state."""
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile (`exposure_meter.over_time`); None before any look."""
    lag: Lag | None = None
    """How far replicas were behind; None before any look, and where none says."""


@frozen
class Epoch:
    """What one change did: the figures before it and since."""

    number: int
    at_s: float
    """When its change was in force, where its mark stands; until then, when the change began."""
    title: str
    """`rtt 20 -> 85 ms`, `baseline`."""
    before_tps: float | None
    after_tps: float | None
    delta_percent: float | None = None
    """Of the tested figure: TPS in the closed loop, response p95 in the open one; -100 or more."""
    verdict: str = "measuring"
    """baseline, measuring, faster, slower, no difference shown, not comparable (the load's mode was
    another one before), outage (on either side: nothing is compared), too short (it ended before there were
    ten batches), too noisy (there are, and what they share is too much for two independent ones); too short
    before, too noisy before: the epoch before was, which nothing changes any more; lag: its change was of
    appliers alone, whose work no commit waits for."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    n: int = 0
    mode: str = "closed"
    """The load's mode: closed or open."""
    low_percent: float | None = None
    high_percent: float | None = None
    """The difference's 95 % interval, which holds at every moment of the epoch at once; None: no
    bound on this side."""
    before: EpochSide | None = None
    after: EpochSide | None = None
    """Figures with intervals of their own, without a verdict."""

    more_s: float | None = None
    """How many seconds more would do, where it is too short or too noisy; None: not known."""

    @property
    def ratio(self) -> float | None:
        """The tested figure after divided by before; None where it is not compared or was 0 before."""
        return _ratio(self.delta_percent)

    @property
    def low_ratio(self) -> float | None:
        """The lower end of the ratio's interval, never below 0; None: no bound."""
        return _ratio(self.low_percent)

    @property
    def high_ratio(self) -> float | None:
        """The upper end of the ratio's interval; None: no bound."""
        return _ratio(self.high_percent)


def _ratio(percent: float | None) -> float | None:
    """Of a change, never below 0."""
    return None if percent is None else max(0.0, 1 + percent / 100)


_KEPT: Final = 100
_MOST_EXPOSURES: Final = 240
"""Of an epoch; of a longer one every second is kept, then every fourth."""
_OUTAGE: Final = "outage"
_UNDER_WAY_S: Final = 1.0
"""So long before a change a commit may have begun that waits because of it."""
_STILL_OPEN: Final = 3
"""Newest epochs that may still get intervals, by themselves or for the comparison."""


def waited(interval: Interval) -> Histogram:
    """What a client waited: the response in the open loop, else the service time."""
    return interval.response if interval.mode == OPEN else interval.service


@dataclass(slots=True)
class _Segment:
    """One epoch's figures while they come in; memory does not grow with its length."""

    number: int
    at_s: float
    """When its change began; the epoch before ends here."""
    title: str
    effective_s: float | None
    """When its change was effective; None: not yet."""
    until_s: float | None = None
    """When the next change began; None: still running."""
    from_s: float | None = None
    """Where its figures begin; None: no commit was seen since it was effective."""
    mode: str = CLOSED
    latency: Histogram = field(default_factory=Histogram)
    commits: int = 0
    duration_s: float = 0.0
    stretches: Stretches = field(default_factory=Stretches)
    version: int = 0
    """Counts whatever changes a row."""
    outage: Outage = field(default_factory=Outage)
    """What of an outage lies in it."""
    next_s: float | None = None
    """When the change after it began: until then an outage goes on in it."""
    of_appliers: bool = False
    """Its change was of appliers alone."""
    _lag: LagSeen = field(default_factory=LagSeen)
    inherits: bool = False
    """What it has of an outage is the rest of one that began before its change."""
    _exposures: list[Exposure] = field(default_factory=list)
    _exposures_seen: int = 0
    _exposure_stride: int = 1
    _spreads: Spreads = field(default_factory=Spreads)
    _spread_at: int = 0
    """Full seconds when the spreads were taken."""
    _figures: _Figures | None = None

    def add(self, interval: Interval) -> None:
        """Take an interval that lies within the segment."""
        if self.effective_s is None or interval.start_s < self.effective_s:
            return
        latency = waited(interval)
        if self.from_s is None:
            if latency.max_us is None:
                return
            # Commits begun under the old settings end by the slowest of the first that are seen.
            self.from_s = self.effective_s + latency.max_us / 1e6
        if interval.start_s < self.from_s:
            return
        self.mode = interval.mode
        self.duration_s += interval.duration_s
        self.commits += interval.commits
        self.latency.add(latency)
        self.stretches.add(interval.duration_s, interval.commits, latency)
        self.touch()

    def expose(self, at_s: float, exposure: Exposure) -> None:
        """Take what a failure would have lost at this moment; before its figures begin it belongs to none."""
        if self.from_s is None or at_s < self.from_s:
            return
        if len(self._exposures) >= _MOST_EXPOSURES:
            self._exposures, self._exposure_stride = self._exposures[::2], 2 * self._exposure_stride
        if self._exposures_seen % self._exposure_stride == 0:
            self._exposures.append(exposure)
        self._exposures_seen += 1
        self.touch()

    def fall_back(self, look: Iterable[ReplicaTruth]) -> None:
        """Take how far replicas are behind; before its change is in force that is not its doing."""
        if self.effective_s is not None:
            self._lag.add(look)
            self.touch()

    def within(self, from_s: float, to_s: float) -> float:
        """How much of this time lies in it, in seconds; negative: none of it."""
        return min(to_s, to_s if self.next_s is None else self.next_s) - max(from_s, self.at_s)

    def suffer(self, state: ProtectionState, seconds: float, unprotected: int) -> None:
        """A stretch of an outage lies in it."""
        out = self.outage
        match state:
            case ProtectionState.BLOCKED:
                out = replace(out, blocked_s=out.blocked_s + seconds)
            case ProtectionState.DOWN:
                out = replace(out, down_s=out.down_s + seconds)
            case _:
                fell_first = out.fell_first or not (out.blocked_s or out.down_s)
                out = replace(out, unprotected_s=out.unprotected_s + seconds, fell_first=fell_first)
        self.outage = replace(out, unprotected=out.unprotected + unprotected, again_s=None)
        self.touch()

    def take_rest(self, rest: Outage) -> None:
        """An outage of its own ended under the change that followed, whose measurement does not hold it."""
        self.suffer(ProtectionState.BLOCKED, rest.blocked_s, 0)
        self.suffer(ProtectionState.DOWN, rest.down_s, 0)
        if rest.unprotected_s or rest.unprotected:
            self.suffer(ProtectionState.DEGRADED, rest.unprotected_s, rest.unprotected)
        self.outage = replace(self.outage, again_s=rest.again_s)

    def touch(self) -> None:
        """Something changed."""
        self.version += 1
        self._figures = None

    def figures(self) -> _Figures:
        """The figures of now; how they scatter is worked out again with each second that is full."""
        if self._figures is None:
            ranks = Ranks.of(self.latency)
            if self._spread_at != self.stretches.seconds:
                self._spread_at = self.stretches.seconds
                self._spreads = spreads_of(self.stretches, ranks, self.latency.mean_ms)
            self._figures = self._figures_with(ranks)
        return self._figures

    def _figures_with(self, ranks: Ranks) -> _Figures:
        tps = self.commits / self.duration_s if self.duration_s > 0 else None
        spread = self._spreads.tps
        mean = spread if isinstance(spread, Lack) else MeanTps(tps or 0.0, spread)
        percentiles = [
            spread if isinstance(spread, Lack) else Percentile(percent / 100, ranks, spread)
            for percent, spread in zip(PERCENTS, self._spreads.shares, strict=True)
        ]
        p50, p95, p99 = [
            estimate(self.latency.percentile_ms(percent), found)
            for percent, found in zip(PERCENTS, percentiles, strict=True)
        ]
        exposure = over_time(self._exposures)
        side = EpochSide(
            estimate(tps, mean), p50, p95, p99, self.commits, self.duration_s,
            exposure=exposure, lag=self._lag.lag,
        )  # fmt: skip
        if self.outage:
            side = _without_intervals(side, self.outage)
        if self.mode == OPEN:
            found = ComparedSide(ranks.between_ms(0.95), percentiles[1], self._spreads.p95_seen)
            return _Figures(side, OPEN, found)
        return _Figures(side, CLOSED, ComparedSide(tps, mean, self._spreads.tps_seen))

    def forget(self) -> None:
        """Keep the figures and let go what they were made from."""
        self.figures()
        self.stretches, self._exposures = Stretches(), []


@frozen
class _Figures:
    """What one side of a comparison knows."""

    side: EpochSide
    mode: str
    tested: ComparedSide
    """The figure that is compared: TPS, or response p95 in ms."""


class Epochs:
    """Gathers intervals and changes, and answers with the epoch ledger's rows.

    Times are the intervals' clock; rows count them from `began_s`. An interval that ended before
    the last change but comes after it still counts for the epoch before.
    """

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._segments: deque[_Segment] = deque(maxlen=_KEPT)
        self._segments.append(_Segment(0, began_s, "baseline", effective_s=began_s))
        self._rows: dict[int, tuple[tuple[int, int], Epoch]] = {}
        """By number: the versions of both sides that a row was made from, and the row."""
        self._final: set[int] = set()
        """Rows that stay as they are."""
        self._in_outage = False

    def add(self, interval: Interval) -> None:
        """Take an interval of the load; one during which the load did not run is left out."""
        if interval.state != "running" or interval.duration_s <= 0:
            return
        segment = self._at(interval.start_s, interval.end_s)
        if segment is not None and segment.number not in self._final:
            segment.add(interval)

    def expose(self, at_s: float, exposure: Exposure) -> None:
        """Take what a failure would have lost at this moment, for the epoch that it lies in."""
        segment = self._at(at_s, at_s)
        if segment is not None and segment.number not in self._final:
            segment.expose(at_s, exposure)

    def fall_back(self, at_s: float, look: Iterable[ReplicaTruth]) -> None:
        """Take how far replicas are behind at this moment, for the epoch that it lies in."""
        segment = self._at(at_s, at_s)
        if segment is not None and segment.number not in self._final:
            segment.fall_back(look)

    def _at(self, from_s: float, to_s: float) -> _Segment | None:
        """The epoch that all of this time lies in."""
        segment = next((each for each in reversed(self._segments) if each.at_s <= from_s), None)
        within = segment is not None and (segment.until_s is None or to_s <= segment.until_s)
        return segment if within else None

    def begin(self, number: int, at_s: float, title: str, *, of_appliers: bool = False) -> None:
        """A change begins: the epoch before ends here, and the new one waits until it is effective."""
        self.end(at_s)
        self._segments[-1].next_s = at_s
        if len(self._segments) == _KEPT:
            self._rows.pop(self._segments[0].number, None)
            self._final.discard(self._segments[0].number)
        self._segments.append(_Segment(number, at_s, title, effective_s=None, of_appliers=of_appliers))

    def effective(
        self, number: int, at_s: float, title: str | None = None, *, from_s: float | None = None
    ) -> None:
        """The change was effective at this moment; `title` replaces its title when given, and with
        `from_s` the epoch is what is measured from there on: an outage that its change passed through is not
        in it; one that began before the change is all of the epoch's before."""
        for before, segment in pairwise([None, *self._segments]):
            if segment is not None and segment.number == number:
                segment.effective_s, segment.from_s = at_s, from_s
                if from_s is not None and not self._in_outage:
                    if before is not None and segment.inherits and before.number not in self._final:
                        before.take_rest(segment.outage)
                    segment.outage = Outage()
                segment.title = title or segment.title
                segment.touch()

    def end(self, at_s: float) -> None:
        """The newest epoch ends here, unless it has ended; what comes before the next change is in none."""
        newest = self._segments[-1]
        if newest.until_s is None:
            newest.until_s = at_s
            newest.touch()

    def suffer(self, stretch: OutageSpan) -> None:
        """An outage went on for a stretch: it counts for the epochs that it lies in.

        A commit that was under way when a change began may have been the first to wait: its stall is the
        change's alone.
        """
        self._in_outage = True
        length_s, left = stretch.to_s - stretch.from_s, stretch.unprotected
        for segment in reversed(self._segments):
            seconds = segment.within(stretch.from_s, stretch.to_s)
            if segment.number in self._final or seconds < 0:
                continue
            begins_here = segment.at_s <= stretch.from_s + (_UNDER_WAY_S if stretch.is_first else 0.0)
            if begins_here:
                seconds = max(seconds, seconds + segment.at_s - stretch.from_s)
            segment.inherits = segment.inherits or not begins_here
            commits = left if begins_here or not length_s else round(left * seconds / length_s)
            left -= commits
            segment.suffer(stretch.state, seconds, commits)
            if begins_here:
                return

    def turned(self, turn: StateChange) -> None:
        """Another protection state is in force."""
        self._in_outage = turn.is_outage
        newest = self._segments[-1]
        newest.touch()
        if turn.outage_s is not None and turn.after is ProtectionState.PROTECTED and newest.outage:
            newest.outage = replace(newest.outage, again_s=turn.at_s - turn.outage_s)

    def restarted(self, at_s: float, node: str) -> None:
        """A server restarted; once is enough."""
        segment = self._at(at_s, at_s)
        if segment is not None:
            if node not in segment.outage.restarts:
                segment.outage = replace(segment.outage, restarts=(*segment.outage.restarts, node))
            segment.touch()

    def rows(self) -> tuple[Epoch, ...]:
        """All epochs that are kept, newest last."""
        segments = list(self._segments)
        rows: list[Epoch] = []
        for index, segment in enumerate(segments):
            if segment.number not in self._final:
                self._refresh(segments[index - 1] if index else None, segment)
                if index < len(segments) - _STILL_OPEN:
                    self._final.add(segment.number)
                    if index:
                        segments[index - 1].forget()
            rows.append(self._rows[segment.number][1])
        return tuple(rows)

    def _refresh(self, before: _Segment | None, segment: _Segment) -> None:
        """Make a row again when one of its sides has changed."""
        versions = (before.version if before else -1, segment.version)
        known = self._rows.get(segment.number)
        if known is None or known[0] != versions:
            self._rows[segment.number] = versions, self._row(before, segment)

    def _row(self, before: _Segment | None, segment: _Segment) -> Epoch:
        """The epoch ledger's row of one epoch."""
        old, new = before.figures() if before else None, segment.figures()
        found, verdict, lack = _compared(old, new, is_over=segment.until_s is not None)
        if before is None and segment.number == 0:
            verdict = "baseline"
        if segment.of_appliers and new.side.lag is not None and verdict != _OUTAGE:
            found, verdict, lack = None, LAG, None
        comparable = old is not None and old.mode == new.mode and verdict not in (_OUTAGE, LAG)
        base = old.tested.value if old and comparable else None
        low = high = None
        if found and base:
            low, high = _percent(found.low), _percent(found.high)
        side = new.side
        if self._in_outage and segment.until_s is None and side.outage:
            side = replace(side, outage=replace(side.outage, lasts=True))
        return Epoch(
            number=segment.number,
            at_s=(segment.at_s if segment.effective_s is None else segment.effective_s) - self._began_s,
            title=segment.title,
            before_tps=old.side.tps.value if old else None,
            after_tps=side.tps.value,
            delta_percent=_percent(new.tested.value / base)
            if base and new.tested.value is not None
            else None,
            verdict=verdict,
            more_s=None if lack is None else lack.more_s,
            p50_ms=side.p50_ms.value,
            p95_ms=side.p95_ms.value,
            p99_ms=side.p99_ms.value,
            n=side.n,
            mode=new.mode,
            low_percent=low,
            high_percent=high,
            before=old.side if old else None,
            after=side,
        )


def _compared(old: _Figures | None, new: _Figures, *, is_over: bool) -> tuple[Ratio | None, str, Lack | None]:
    """The ratio of the tested figure and the word for it, and what a comparison lacks."""
    if (old is not None and old.side.outage) or new.side.outage:
        return None, _OUTAGE, None
    if old is None:
        return None, TOO_SHORT, None
    if old.side.n and new.side.n and old.mode != new.mode:
        return None, "not comparable", None
    found = ratio_of(old.tested, new.tested)
    if found is None:
        before, since = lack_of(old.tested, new.tested)
        if before is not None:
            # It grows no longer: only a huge effect will show.
            return None, (TOO_NOISY if before.is_noise else TOO_SHORT) + BEFORE, before
        if since is not None and since.is_noise:
            return None, TOO_NOISY, since
        return None, TOO_SHORT if is_over else "measuring", since
    if found.sign == 0:
        return found, "no difference shown", None
    return found, "faster" if (found.sign > 0) == (new.mode == CLOSED) else "slower", None


def _without_intervals(side: EpochSide, outage: Outage) -> EpochSide:
    """The figures of several states together: no interval says how far they would repeat."""
    tps, p50, p95, p99 = (Estimate(each.value) for each in (side.tps, side.p50_ms, side.p95_ms, side.p99_ms))
    return replace(side, tps=tps, p50_ms=p50, p95_ms=p95, p99_ms=p99, outage=outage)


def _percent(ratio: float | None) -> float | None:
    """The change that a ratio is."""
    return None if ratio is None else 100 * (ratio - 1)

"""What each change did: TPS before it and since, with a confidence interval.

Laws: an epoch runs from the moment when its change was effective plus one latency to the next
change; what lies between is left out. TPS of neighbouring seconds is correlated, so the interval
comes from batch means (Law & Kelton, Simulation Modeling and Analysis, "batch means"), widened
by the correlation that the batches still show, and compared by Welch's t. One test a change, on
TPS alone; before both sides have 10 batches of >= 1 s and >= 2 latencies there is no verdict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Final

from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval
from replexplorer.core.student import t_quantile_975
from replexplorer.core.tick import Epoch

LEAST_BATCHES: Final = 10
"""Batches that each side needs before a verdict."""
LEAST_BATCH_S: Final = 1.0
"""Shortest batch."""
LEAST_BATCH_LATENCIES: Final = 2
"""Shortest batch in mean latencies."""
_MOST_BATCHES: Final = 20
_MOST_CHUNKS: Final = 160
_KEPT: Final = 100
_STILL_OPEN: Final = 3
"""Newest epochs that may still get intervals, by themselves or for the comparison."""


@dataclass(slots=True)
class _Chunk:
    """A stretch of the epoch: the smallest piece that batches are made of."""

    duration_s: float = 0.0
    commits: int = 0

    def add(self, duration_s: float, commits: int) -> None:
        self.duration_s += duration_s
        self.commits += commits


@dataclass(frozen=True, slots=True)
class _Mean:
    """A mean TPS with the variance of that mean."""

    tps: float
    variance: float
    freedom: float
    """Degrees of freedom of that variance, fewer where the batches are correlated."""


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
    chunks: list[_Chunk] = field(default_factory=list)
    chunk_s: float = LEAST_BATCH_S
    service: Histogram = field(default_factory=Histogram)
    duration_s: float = 0.0

    def add(self, interval: Interval) -> None:
        """Take an interval that lies within the segment."""
        if self.effective_s is None or interval.start_s < self.effective_s:
            return
        if self.from_s is None:
            if interval.service.max_us is None:
                return
            # Commits begun under the old settings end by the slowest of the first that are seen.
            self.from_s = self.effective_s + interval.service.max_us / 1e6
        if interval.start_s < self.from_s:
            return
        self.duration_s += interval.duration_s
        self.service.add(interval.service)
        if not self.chunks or self.chunks[-1].duration_s >= self.chunk_s - 1e-6:
            self._open_chunk()
        self.chunks[-1].add(interval.duration_s, interval.commits)

    def _open_chunk(self) -> None:
        """Begin a chunk; when there are too many, join neighbours and make chunks twice as long."""
        if len(self.chunks) >= _MOST_CHUNKS:
            for left, right in zip(self.chunks[::2], self.chunks[1::2], strict=True):
                left.add(right.duration_s, right.commits)
            self.chunks = self.chunks[::2]
            self.chunk_s *= 2
        self.chunks.append(_Chunk())

    @property
    def tps(self) -> float | None:
        """Commits per second over all of it."""
        return self.service.count / self.duration_s if self.duration_s > 0 else None

    def mean(self) -> _Mean | None:
        """The mean with its variance; None while there are too few batches."""
        tps = self.tps
        full = [chunk for chunk in self.chunks if chunk.duration_s >= self.chunk_s - 1e-6]
        if tps is None or not full:
            return None
        latency_s = (self.service.mean_ms or 0.0) / 1000
        least_s = max(LEAST_BATCH_S, LEAST_BATCH_LATENCIES * latency_s)
        a_batch = max(1, -int(-(least_s - 1e-6) // self.chunk_s), len(full) // _MOST_BATCHES)
        count = len(full) // a_batch
        if count < LEAST_BATCHES:
            return None
        batches = [full[index * a_batch : (index + 1) * a_batch] for index in range(count)]
        return _mean_of(tps, [_tps_of(batch) for batch in batches])


def _tps_of(batch: Sequence[_Chunk]) -> float:
    return sum(chunk.commits for chunk in batch) / sum(chunk.duration_s for chunk in batch)


def _mean_of(tps: float, batches: Sequence[float]) -> _Mean:
    """Variance of the mean of batches, widened by their lag-1 correlation.

    k batches with correlation rho are worth k (1 - rho) / (1 + rho) independent ones. The
    correlation found in k batches is too low by about (1 + 4 rho) / k on average.
    """
    count = len(batches)
    middle = fmean(batches)
    deviations = [batch - middle for batch in batches]
    squares = sum(deviation * deviation for deviation in deviations)
    if squares == 0:
        return _Mean(tps, 0.0, float(count - 1))
    products = sum(left * right for left, right in pairwise(deviations))
    rho = products / squares
    rho = min(max(rho + (1 + 4 * rho) / count, 0.0), 0.9)
    worth = (1 - rho) / (1 + rho)
    variance = squares / (count - 1) / count / worth
    return _Mean(tps, variance, max(1.0, (count - 1) * worth))


class Epochs:
    """Gathers intervals and changes, and answers with the ledger's rows.

    Times are the intervals' clock. An interval that ended before the last change but comes after
    it still counts for the epoch before.
    """

    def __init__(self, began_s: float) -> None:
        self._segments: deque[_Segment] = deque(maxlen=_KEPT)
        self._segments.append(_Segment(0, began_s, "baseline", effective_s=began_s))
        self._closed_rows: dict[int, Epoch] = {}

    def add(self, interval: Interval) -> None:
        """Take an interval of the load; one during which the load did not run is left out."""
        if interval.state != "running" or interval.duration_s <= 0:
            return
        for segment in reversed(self._segments):
            if interval.start_s >= segment.at_s:
                if segment.until_s is None or interval.end_s <= segment.until_s:
                    segment.add(interval)
                return

    def begin(self, number: int, at_s: float, title: str) -> None:
        """A change begins: the epoch before ends here, and the new one waits until it is effective."""
        self._segments[-1].until_s = at_s
        if len(self._segments) == _KEPT:
            self._closed_rows.pop(self._segments[0].number, None)
        self._segments.append(_Segment(number, at_s, title, effective_s=None))

    def effective(self, number: int, at_s: float, title: str | None = None) -> None:
        """The change was effective at this moment; `title` replaces its title when given."""
        for segment in self._segments:
            if segment.number == number:
                segment.effective_s = at_s
                segment.title = title or segment.title

    def rows(self) -> tuple[Epoch, ...]:
        """All epochs that are kept, newest last."""
        segments = list(self._segments)
        closed = len(segments) - _STILL_OPEN
        rows: list[Epoch] = []
        for index, segment in enumerate(segments):
            row = self._closed_rows.get(segment.number)
            if row is None:
                row = _row(segments[index - 1] if index else None, segment)
            if index < closed:
                self._closed_rows[segment.number] = row
            rows.append(row)
        return tuple(rows)


def _row(before: _Segment | None, segment: _Segment) -> Epoch:
    """The ledger's row of one epoch."""
    before_tps, after_tps = (before.tps if before else None), segment.tps
    delta, ci, verdict = _compared(before, segment)
    return Epoch(
        number=segment.number,
        at_s=segment.at_s,
        title=segment.title,
        before_tps=before_tps,
        after_tps=after_tps,
        delta_percent=delta,
        ci_percent=ci,
        verdict=verdict,
        p50_ms=segment.service.percentile_ms(50),
        p95_ms=segment.service.percentile_ms(95),
        p99_ms=segment.service.percentile_ms(99),
        n=segment.service.count,
    )


def _compared(before: _Segment | None, after: _Segment) -> tuple[float | None, float | None, str]:
    """Difference and half width of its interval, both in percent of before, and the verdict."""
    if before is None:
        return None, None, "baseline" if after.number == 0 else "too short"
    old, new = before.mean(), after.mean()
    if old is None or new is None:
        ended = old is None or after.until_s is not None
        return _percent(before.tps, after.tps), None, "too short" if ended else "measuring"
    difference = new.tps - old.tps
    half = _half_width(old, new)
    verdict = "no difference shown"
    if abs(difference) > half:
        verdict = "faster" if difference > 0 else "slower"
    return _percent(old.tps, new.tps), 100 * half / old.tps if old.tps else None, verdict


def _percent(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else 100 * (after - before) / before


def _half_width(old: _Mean, new: _Mean) -> float:
    """Half of the 95 % interval of a difference of means (Welch)."""
    total = old.variance + new.variance
    if total == 0:
        return 0.0
    freedom = total**2 / (old.variance**2 / old.freedom + new.variance**2 / new.freedom)
    return float(t_quantile_975(freedom) * total**0.5)

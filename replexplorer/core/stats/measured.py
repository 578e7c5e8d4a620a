"""One epoch's TPS and percentiles, each with what it may be off.

Law: a percentile comes from the merged histogram, and so do its bounds. How far the *share* of
commits below it scatters is taken from batches, as for any mean, put into Wilson's interval (1927)
for as many independent commits, and turned into milliseconds by the histogram (Woodruff 1952).
Percentiles of single batches would not do: at 11 commits a second a batch's p99 is its maximum.
TPS is above zero and errs by factors: its bounds are as many standard errors of its logarithm off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Final

from replexplorer.core.stats.batch_means import (
    LEAST_BATCH_LATENCIES,
    LEAST_BATCH_S,
    LEAST_BATCHES,
    Lack,
    Spread,
    spread_or_lack,
)
from replexplorer.core.stats.ranks import Ranks
from replexplorer.core.stats.stretches import Stretches
from replexplorer.core.stats.student import t_quantile_975

PERCENTS: Final = (50, 95, 99)
"""Percentiles of the epoch ledger."""
FARTHEST: Final = 10.0
"""A bound whose logarithm is farther off is none: a factor of 22,000 says nothing."""
_IN_NONE: Final = 3.0
"""Events in a time that shows none with 5 % (the rule of three: Hanley & Lippman-Hand 1983)."""
_ROUNDING: Final = 0.01
"""A batch that is nearly full is full: intervals end by a timer."""
_LEFT_OUT: Final = 20
"""At either end of a range the farthest of this many stretches does not count."""
_LEAST_BEYOND: Final = 10
"""Independent commits above a percentile without which it is not compared."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % confidence interval at this moment."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    """None: no bound on this side, for want of data."""


@dataclass(frozen=True, slots=True)
class MeanTps:
    """Commits per second over all of an epoch."""

    value: float
    spread: Spread

    @property
    def log_variance(self) -> float:
        """Of the logarithm: the relative variance (delta method); of a TPS above 0."""
        return self.spread.variance / self.value**2

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance."""
        return self.spread.freedom

    @property
    def length_s(self) -> float:
        """What was measured."""
        return self.spread.length_s

    def bounds(self, errors: float) -> tuple[float | None, float | None]:
        """Divided and multiplied by this many standard errors; None where that is no bound."""
        return bounds_of(self.value, self.spread.variance, errors, self.length_s)


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of all commits of an epoch, in ms."""

    share: float
    """0.95 for p95."""
    ranks: Ranks
    spread: Spread
    """Of the share of commits up to the value."""

    @property
    def value(self) -> float:
        """The percentile between the middles of slots."""
        return self.ranks.between_ms(self.share) or 0.0

    @property
    def log_variance(self) -> float | None:
        """Of the logarithm, from the bounds at one standard error; None when there is too little above it.

        Where 5 % of the seconds are slow a minute has three of them: that is no p95 to compare.
        """
        if self.lack is not None:
            return None
        low, high = self.bounds(1.0)
        return None if not low or high is None else (log(high / low) / 2) ** 2

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance."""
        return self.spread.freedom

    @property
    def length_s(self) -> float:
        """What was measured."""
        return self.spread.length_s

    @property
    def lack(self) -> Lack | None:
        """What a comparison needs more: independent commits beyond the percentile; None: nothing."""
        beyond = (1 - self.share) * self._worth
        if beyond >= _LEAST_BEYOND:
            return None
        is_noise = (1 - self.share) * self.ranks.count >= _LEAST_BEYOND
        return Lack(self.length_s * (_LEAST_BEYOND / max(beyond, 1e-3) - 1), is_noise)

    @property
    def _worth(self) -> float:
        """Independent commits whose share would scatter as this one does, at most all commits."""
        scatter = self.spread.variance
        alone = self.share * (1 - self.share)
        return min(alone / scatter, self.ranks.count) if scatter > 0 else self.ranks.count

    def bounds(self, errors: float) -> tuple[float | None, float | None]:
        """This many standard errors less and more; None where the ranks do not reach so far."""
        share, commits = self.share, self.ranks.count
        weight = errors**2 / self._worth
        middle = (share + weight / 2) / (1 + weight)
        half = sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
        low = self.ranks.between_ms(middle - half) if (middle - half) * commits >= 1 else None
        high = self.ranks.between_ms(middle + half) if (1 - middle - half) * commits >= 1 else None
        return low, high


@dataclass(frozen=True, slots=True)
class Extremes:
    """The range of a figure over an epoch's stretches, without the farthest one in twenty at either end: one
    stalled second in a minute must not hide that a load became sixteen times as slow."""

    least: float
    most: float
    batches: int
    """For how many batches it stands."""

    @classmethod
    def of(cls, values: Sequence[float], batches: int) -> Extremes:
        """Of one value or more."""
        ordered, off = sorted(values), len(values) // _LEFT_OUT
        return cls(ordered[off], ordered[-1 - off], batches)


_NOTHING: Final = Lack(LEAST_BATCHES * LEAST_BATCH_S, is_noise=False)


@dataclass(frozen=True, slots=True)
class Spreads:
    """The scatter of an epoch's figures, or what is lacking for it."""

    tps: Spread | Lack = _NOTHING
    shares: tuple[Spread | Lack, ...] = (_NOTHING,) * len(PERCENTS)
    """As in `PERCENTS`."""
    tps_seen: Extremes | None = None
    p95_seen: Extremes | None = None
    """In ms."""


def bounds_of(
    value: float, variance: float, errors: float, length_s: float
) -> tuple[float | None, float | None]:
    """A rate divided and multiplied by `errors` standard errors of its logarithm; None where that is no
    bound. Where nothing was committed in `length_s` it is below three in that time."""
    if value <= 0:
        return 0.0, _IN_NONE / length_s if length_s > 0 else None
    half = errors * sqrt(variance) / value
    return (None, None) if half > FARTHEST else (value * exp(-half), value * exp(half))


def spreads_of(stretches: Stretches, ranks: Ranks, mean_ms: float | None) -> Spreads:
    """The scatter that these stretches show; `ranks` are of all commits, `mean_ms` is their mean."""
    full = stretches.full
    if not full:
        return Spreads()
    each_s = stretches.each_s
    least_s = max(LEAST_BATCH_S, LEAST_BATCH_LATENCIES * (mean_ms or 0.0) / 1000)
    tps = spread_or_lack([stretch.tps for stretch in full], each_s, least_s)
    shares: list[Spread | Lack] = []
    for percent in PERCENTS:
        slot = ranks.slot(percent / 100)
        parts = [] if slot is None else [stretch.latency for stretch in full]
        shares.append(spread_or_lack(_shares(parts, slot or 0), each_s, least_s))
    batches = int(len(full) * each_s / least_s + _ROUNDING)
    seen = Extremes.of([stretch.tps for stretch in full], batches)
    p95s_ms = [p95_ms for stretch in full if (p95_ms := stretch.latency.between_ms(0.95)) is not None]
    return Spreads(
        tps,
        tuple(shares),
        replace(seen, most=max(seen.most, _IN_NONE / (len(full) * each_s))),
        Extremes.of(p95s_ms, min(batches, len(p95s_ms))) if p95s_ms else None,
    )


def estimate(shown: float | None, side: MeanTps | Percentile | Lack) -> Estimate:
    """The figure as the screens show it, with its own 95 % interval of this moment."""
    if isinstance(side, Lack) or shown is None:
        return Estimate(shown)
    low, high = side.bounds(t_quantile_975(side.freedom))
    # A percentile is shown by the middle of its slot, which may lie half a slot beside the bounds.
    return Estimate(
        shown, None if low is None else min(low, shown), None if high is None else max(high, shown)
    )


def remembering(side: MeanTps | Percentile, before: MeanTps | Percentile) -> MeanTps | Percentile | Lack:
    """The side after, with a correlation time that is not shorter than before."""
    spread = side.spread.remembering(before.spread.memory_s)
    if isinstance(spread, Lack):
        return spread
    found = replace(side, spread=spread)
    return (found.lack if isinstance(found, Percentile) else None) or found


def _shares(parts: Sequence[Ranks], slot: int) -> list[float]:
    """How far each part moves the share of commits up to this slot, around a mean of 0.

    A ratio's residuals (Cochran 1977, 6.4): parts with more commits count more, empty ones not at all.
    """
    below = [part.upto(slot) for part in parts]
    counts = [part.count for part in parts]
    total = sum(counts)
    if not total:
        return []
    share, mean_count = sum(below) / total, total / len(parts)
    return [(low - share * count) / mean_count for low, count in zip(below, counts, strict=True)]

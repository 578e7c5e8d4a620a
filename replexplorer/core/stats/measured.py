"""One epoch's TPS and percentiles, each with what it may be off.

Law: a percentile comes from the merged histogram, and so do its bounds. How far the *share* of
commits below it scatters is taken from batches, as for any mean, put into Wilson's interval (1927)
for as many independent commits, and turned into milliseconds by the histogram (Woodruff 1952).
Percentiles of single batches would not do: at 11 commits a second a batch's p99 is its maximum.
TPS is above zero and errs by factors: its bounds are as many standard errors of its logarithm off.

Student's t: the 97.5 % quantile, for 95 % confidence intervals.

How much the mean of correlated readings scatters: batch means.

Law: neighbouring seconds of a load resemble each other, so the scatter of a mean is taken from
batches (Law, Simulation Modeling and Analysis, 9.5.3), never from the readings: 10 to 30 of them
(Schmeiser 1982: more gain nothing). They grow to half a correlation time where that leaves 20;
correlation that they still show counts against them: k batches with lag-1 correlation rho are
worth k (1 - rho) / (1 + rho) independent ones (Zwiers & von Storch 1995).

What a load did, cut into equal stretches: the pieces that batches are made of.

Law: memory does not grow with time. Seconds are joined two by two whenever there are too many
stretches, so the stretches of a long epoch are longer and nothing that was counted is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import ceil, exp, log, sqrt
from typing import Final, Self

from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.stats.histogram import Histogram, Ranks

_NORMAL: Final = 1.959964
_QUANTILES: Final = (
    (1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (5, 2.57058), (6, 2.44691), (7, 2.36462),
    (8, 2.30600), (9, 2.26216), (10, 2.22814), (11, 2.20099), (12, 2.17881), (13, 2.16037), (14, 2.14479),
    (15, 2.13145), (16, 2.11991), (17, 2.10982), (18, 2.10092), (19, 2.09302), (20, 2.08596), (22, 2.07387),
    (24, 2.06390), (26, 2.05553), (28, 2.04841), (30, 2.04227), (40, 2.02108), (60, 2.00030), (120, 1.97993),
)  # fmt: skip
"""Degrees of freedom and quantile."""
_FREEDOMS: Final = tuple(freedom for freedom, _ in _QUANTILES)


def t_quantile_975(freedom: float) -> float:
    """The 97.5 % quantile for these degrees of freedom (>= 1, fractions allowed), within 0.001 from 5 on.

    Between two rows of the table the quantile is linear in 1/freedom, nearly exactly.
    """
    if freedom <= 1:
        return _QUANTILES[0][1]
    index = bisect_right(_FREEDOMS, freedom)
    low_freedom, low = _QUANTILES[index - 1]
    inverse_high, high = (
        (1 / _QUANTILES[index][0], _QUANTILES[index][1]) if index < len(_QUANTILES) else (0, _NORMAL)
    )
    share = (1 / low_freedom - 1 / freedom) / (1 / low_freedom - inverse_high)
    return low + (high - low) * share


LEAST_BATCHES: Final = 10
"""Batches without which nothing is said."""
LEAST_BATCH_S: Final = 1.0
"""Shortest batch."""
LEAST_BATCH_LATENCIES: Final = 2
"""Shortest batch in mean latencies."""
_GOOD_BATCHES: Final = 20
_MOST_BATCHES: Final = 30
_LEAST_WORTH: Final = 2.0
"""Independent batches without which there is no degree of freedom left."""
_MOST_CORRELATION: Final = 0.98
_SERIES_ROUNDING: Final = 1e-9
"""Relative deviations below it are arithmetic: their correlation says nothing."""


@frozen
class Spread:
    """The scatter of a mean."""

    square: float
    """Mean squared deviation of the batches."""
    worth: float
    """How many independent batches they are worth, 2 or more."""
    length_s: float
    """What the batches cover."""
    memory_s: float
    """Correlation time: a stretch so long is worth one independent reading."""

    @property
    def variance(self) -> float:
        """Of the mean."""
        return self.square / self.freedom

    @property
    def freedom(self) -> float:
        """Degrees of freedom of that variance."""
        return self.worth - 1

    def remembering(self, memory_s: float) -> Spread | Lack:
        """The scatter if the correlation time is not shorter than this; what is lacking when too little is
        left.

        Ten seconds cannot tell their own correlation time. The minute before them can.
        """
        return replace(self, worth=min(self.worth, self.length_s / memory_s)).enough()

    def enough(self) -> Spread | Lack:
        """Itself, or how much longer it must last: what batches are worth grows with their number."""
        if self.worth >= _LEAST_WORTH:
            return self
        return Lack(self.length_s * (_LEAST_WORTH / self.worth - 1), is_noise=True)


@frozen
class Lack:
    """Why a mean has no interval yet."""

    more_s: float
    """Seconds that are still needed, as far as one can tell."""
    is_noise: bool
    """There are batches enough, and too few independent ones among them."""


def spread_of(readings: Sequence[float], each_s: float, least_s: float) -> Spread | None:
    """The scatter of the mean of readings that stand for `each_s` seconds each.

    None while there are not 10 batches of `least_s` seconds, or not two independent ones among them.
    """
    found = spread_or_lack(readings, each_s, least_s)
    return found if isinstance(found, Spread) else None


def spread_or_lack(readings: Sequence[float], each_s: float, least_s: float) -> Spread | Lack:
    """The same, with what is lacking where there is none."""
    count = len(readings)
    most = count // LEAST_BATCHES
    least = max(1, ceil(least_s / each_s - 0.01))
    if most < least:
        return Lack((LEAST_BATCHES * least - count) * each_s, is_noise=False)
    memory = _inflation(readings)
    wanted = min(ceil(memory / 2), count // _GOOD_BATCHES)
    size = min(most, max(least, ceil(count / _MOST_BATCHES), wanted))
    upto = list(accumulate(readings, initial=0.0))[::size]
    batches = [(high - low) / size for low, high in pairwise(upto)]
    worth = min(len(batches) / _inflation(batches), count / memory)
    middle = sum(batches) / len(batches)
    square = sum([(batch - middle) ** 2 for batch in batches]) / len(batches)
    return Spread(square, worth, count * each_s, memory * each_s).enough()


def _inflation(values: Sequence[float]) -> float:
    """How many correlated values are worth an independent one: (1 + rho) / (1 - rho), 1 or more.

    The correlation found in k values is too low by about (1 + 4 rho) / k on average (Kendall 1954).
    """
    middle = sum(values) / len(values)
    deviations = [value - middle for value in values]
    squares = sum([deviation * deviation for deviation in deviations])
    if squares <= len(values) * (_SERIES_ROUNDING * max(1.0, abs(middle))) ** 2:
        return 1.0
    rho = sum([left * right for left, right in pairwise(deviations)]) / squares
    rho += (1 + 4 * rho) / len(values)
    rho = min(max(rho, 0.0), _MOST_CORRELATION)
    return (1 + rho) / (1 - rho)


MOST_STRETCHES: Final = 160
"""Stretches that are kept."""
_TIMER_S: Final = 0.01
"""A second is over when so much of it is missing: intervals end by a timer."""


@frozen
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
class Stretches:
    """Equal stretches of one epoch, oldest first."""

    full: list[Stretch] = field(default_factory=list)
    """Those that are complete."""
    seconds_each: int = 1
    """Seconds in a stretch."""
    seconds: int = 0
    """Seconds taken so far."""
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
        self._open.append(second)
        if len(self._open) < self.seconds_each:
            return
        self.full.append(Stretch.joined(self._open) if self.seconds_each > 1 else second)
        self._open = []
        if len(self.full) >= MOST_STRETCHES:
            pairs = zip(self.full[::2], self.full[1::2], strict=True)
            self.full = [Stretch.joined(pair) for pair in pairs]
            self.seconds_each *= 2


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


@frozen
class Estimate:
    """A figure with its 95 % confidence interval at this moment."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    """None: no bound on this side, for want of data."""


class _Scattered:
    """A figure with the scatter that it has."""

    __slots__ = ()
    spread: Spread

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance."""
        return self.spread.freedom

    @property
    def length_s(self) -> float:
        """What was measured."""
        return self.spread.length_s


@frozen
class MeanTps(_Scattered):
    """Commits per second over all of an epoch."""

    value: float
    spread: Spread

    @property
    def log_variance(self) -> float:
        """Of the logarithm: the relative variance (delta method); of a TPS above 0."""
        return self.spread.variance / self.value**2

    def bounds(self, errors: float) -> tuple[float | None, float | None]:
        """Divided and multiplied by this many standard errors; None where that is no bound."""
        return bounds_of(self.value, self.spread.variance, errors, self.length_s)


@frozen
class Percentile(_Scattered):
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


@frozen
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


@frozen
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
    # A percentile is shown by the middle of its slot, which may lie half a slot outside the bounds.
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

"""How much the mean of correlated readings scatters: batch means.

Law: neighbouring seconds of a load resemble each other, so the scatter of a mean is taken from
batches (Law, Simulation Modeling and Analysis, 9.5.3), never from the readings: 10 to 30 of them
(Schmeiser 1982: more gain nothing). They grow to half a correlation time where that leaves 20;
correlation that they still show counts against them: k batches with lag-1 correlation rho are
worth k (1 - rho) / (1 + rho) independent ones (Zwiers & von Storch 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import ceil
from typing import Final

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
_ROUNDING: Final = 1e-9
"""Relative deviations below it are arithmetic: their correlation says nothing."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    if squares <= len(values) * (_ROUNDING * max(1.0, abs(middle))) ** 2:
        return 1.0
    rho = sum([left * right for left, right in pairwise(deviations)]) / squares
    rho += (1 + 4 * rho) / len(values)
    rho = min(max(rho, 0.0), _MOST_CORRELATION)
    return (1 + rho) / (1 - rho)

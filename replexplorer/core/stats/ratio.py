"""How many times as much a figure became: a ratio with its interval, and its words.

Law: what is compared - commits a second, milliseconds - is above zero and differs by factors, so the
test and its interval are those of the logarithm, and no bound lies below zero. No
scatter that the test assumes reaches farther than what was seen: where the two sides' seconds lie
apart, the ratio lies between those of their extremes, with a margin that is the wider the fewer they
are. That bounds what few correlated seconds leave open, and says a huge effect after three of them;
it also says one where noise hangs together for so long that there are no two independent batches. One
stretch in twenty at each end does not count. Why that is sound in noise that remembers: a level that
wanders does not jump, so two neighbouring ranges of the same process meet where they join. Measured by
simulation (seed fixed, 1,800 pairs of epochs of 3 to 120 s, looked at every second, logarithms
autoregressive from second to second with rho 0.5 to 0.98 and a deviation of 10 % to a factor of e, half
of them with stalls): 2 % of idle changes are claimed by ranges at any look, 9 % in the worst kind.
Whole runs that were repeated are independent, and looked at once: for them Student's interval does.

One comparison that may be looked at all the time.

Law: the epoch ledger asks its question again with every second, and a test that is asked until it says
yes does so sooner or later: at 95 % each time, one idle change in five is claimed within two
minutes. So the interval is wide enough for all looks together, from the first verdict to the end
of an epoch of a day (repeated confidence intervals: Jennison & Turnbull 1989). What the side
before knows bounds what the side after can add, so a short one costs little width.

Ratios in words: `x0.12`, `[0.10, 0.14]`, `8.3 times slower`; the same on screen and in reports.

Law: as many digits as the interval bears, never an exponent, and each figure in at most six characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, floor, hypot, log, log10, pi, sqrt
from typing import Final

from replexplorer.core.records import frozen
from replexplorer.core.stats.measured import (
    FARTHEST,
    LEAST_BATCH_S,
    LEAST_BATCHES,
    Extremes,
    Lack,
    MeanTps,
    Percentile,
    remembering,
    t_quantile_975,
)

_CLAIMED_IN_VAIN: Final = 0.05
_FIRST_LOOK_S: Final = LEAST_BATCHES * LEAST_BATCH_S
_LAST_LOOK_S: Final = 86_400.0


def boundary(growth: float) -> float:
    """Standard errors that an idle difference exceeds with 5 % while its variance falls to 1/growth.

    Solves Siegmund's approximation for Brownian motion and a square-root boundary b (Sequential
    Analysis, 1985, chapter 4): (b - 1/b) phi(b) ln(growth) + 4 phi(b) / b = 0.05. `growth` >= 1.
    """
    looks = log(growth)
    found = 2.8
    for _ in range(6):
        inner = ((found - 1 / found) * looks + 4 / found) / (_CLAIMED_IN_VAIN * sqrt(2 * pi))
        found = sqrt(2 * log(inner))
    return found


def in_small_samples(errors: float, freedom: float) -> float:
    """Student's t that is as rare as this many normal standard errors (Wallace 1959).

    Within about 1 % from 5 degrees of freedom on, too large below.
    """
    scaled = errors * (8 * freedom + 3) / (8 * freedom + 1)
    return sqrt(freedom * (exp(scaled * scaled / freedom) - 1))


LEAST_SEEN: Final = 3
"""Batches on a side without which their range says nothing."""
_MARGIN: Final = 4.0
"""The range of n batches is widened by the factor 1 + this / (n - 1): 3 for three, 1.44 for ten."""


@frozen
class ComparedSide:
    """One side of a comparison: a figure that is never negative."""

    value: float | None
    scatter: MeanTps | Percentile | Lack
    """The same with its scatter, or what is lacking for it."""
    seen: Extremes | None
    """None: not one batch is full."""


@frozen
class Ratio:
    """After divided by before, with an interval that holds at every moment of the epoch at once."""

    value: float | None
    """None: there was nothing before."""
    low: float | None
    high: float | None
    """None: no bound on this side; never below 0."""

    @property
    def sign(self) -> int:
        """1 when it is shown to be above one, -1 below, 0 when no difference is shown."""
        if self.low is not None and self.low > 1:
            return 1
        return -1 if self.high is not None and self.high < 1 else 0


def ratio_of(before: ComparedSide, after: ComparedSide) -> Ratio | None:
    """After divided by before; None while nothing can be said of it."""
    ranges = _by_range(before.seen, after.seen)
    found = _by_scatter(before, after)
    if found is None and (ranges is None or ranges.sign == 0):
        return None
    known = [each for each in (found, ranges) if each is not None]
    value = after.value / before.value if before.value and after.value is not None else None
    low = max((each.low for each in known if each.low is not None), default=None)
    high = min((each.high for each in known if each.high is not None), default=None)
    if value is not None:
        # The second that is not full yet is in the value and in no range.
        low = None if low is None else min(low, value)
        high = None if high is None else max(high, value)
    return Ratio(value, low, high)


def lack_of(before: ComparedSide, after: ComparedSide) -> tuple[Lack | None, Lack | None]:
    """What either side lacks for the test of the logarithms; None: nothing."""
    old, new = _scatters(before, after)
    return old if isinstance(old, Lack) else None, new if isinstance(new, Lack) else None


_Scatter = MeanTps | Percentile | Lack


def _scatters(before: ComparedSide, after: ComparedSide) -> tuple[_Scatter, _Scatter]:
    """Of both sides, neither with a correlation time that is shorter than the other's."""
    old, new = before.scatter, after.scatter
    if isinstance(old, Lack) or isinstance(new, Lack):
        return old, new
    return remembering(old, new), remembering(new, old)


def _by_scatter(before: ComparedSide, after: ComparedSide) -> Ratio | None:
    """The test of the logarithms; None where a side lacks something, or has nothing to take one of.

    Welch's degrees of freedom; the bounds of both sides are put together as Zou & Donner 2008 do (for
    symmetric bounds this is Welch's interval).
    """
    old, new = _scatters(before, after)
    if isinstance(old, Lack) or isinstance(new, Lack) or not old.value or not new.value:
        return None
    old_variance, new_variance = old.log_variance, new.log_variance
    if old_variance is None or new_variance is None:
        return None
    total, errors = old_variance + new_variance, 0.0
    if total > 0:
        freedom = total**2 / (old_variance**2 / old.freedom + new_variance**2 / new.freedom)
        first = old_variance + new_variance * new.length_s / _FIRST_LOOK_S
        last = old_variance + new_variance * new.length_s / max(new.length_s, _LAST_LOOK_S)
        errors = in_small_samples(boundary(first / last), freedom)
    old_low, old_high = old.bounds(errors)
    new_low, new_high = new.bounds(errors)
    value, low, high = new.value / old.value, None, None
    if new_low and old_high is not None:
        low = _factor(log(value) - hypot(log(new.value / new_low), log(old_high / old.value)))
    if new_high is not None and old_low:
        high = _factor(log(value) + hypot(log(new_high / new.value), log(old.value / old_low)))
    return Ratio(value, low, high)


def _by_range(before: Extremes | None, after: Extremes | None) -> Ratio | None:
    """What the extremes allow; None while a side has fewer than three batches."""
    if before is None or after is None:
        return None
    count = min(before.batches, after.batches)
    if count < LEAST_SEEN:
        return None
    margin = 1 + _MARGIN / (count - 1)
    low = after.least / before.most / margin if before.most else None
    return Ratio(None, low, after.most / before.least * margin if before.least else None)


def _factor(logarithm: float) -> float | None:
    """Of a difference of logarithms; None where it is beyond any meaning."""
    return exp(logarithm) if abs(logarithm) < FARTHEST else None


def repeated(values: Sequence[float]) -> Ratio | None:
    """The geometric mean of a figure, or of a ratio, that each repeat of a run found, with the 95 % interval
    that their logarithms scatter by (Student's t); None for fewer than two, and where one is not above 0."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logarithms = [log(value) for value in values]
    count, mean = len(logarithms), sum(logarithms) / len(logarithms)
    variance = sum((each - mean) ** 2 for each in logarithms) / (count - 1)
    half = t_quantile_975(count - 1) * sqrt(variance / count)
    if half >= FARTHEST:
        return Ratio(exp(mean), None, None)
    return Ratio(exp(mean), exp(mean - half), exp(mean + half))


OPEN_END: Final = "…"
"""A bound that is not known."""
_MOST_DECIMALS: Final = 4
_TIMES_FROM: Final = 1.5
"""Up to this factor a change is said in percent: `12 % slower`, and from it on in times."""


def ratio_text(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """`x0.12`, with the digits that its interval bears; empty for None."""
    return "" if ratio is None else f"x{_figure(ratio, _decimals(ratio, low, high))}"


def interval_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """`[0.10, 0.14]`; a side without a bound is `…`; empty where there is none on either."""
    if low is None and high is None:
        return ""
    decimals = _decimals(ratio, low, high)
    return f"[{_bound(low, decimals)}, {_bound(high, decimals)}]"


def range_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """The same where there is little room: `0.10–0.14`."""
    if low is None and high is None:
        return ""
    decimals = _decimals(ratio, low, high)
    return f"{_bound(low, decimals)}–{_bound(high, decimals)}"


def times_text(ratio: float, word: str) -> str:
    """`8.3 times slower`, `12 % faster`: how far a ratio is from 1, in either direction."""
    if ratio <= 0:
        return f"{word}: to nothing"
    if max(ratio, 1 / ratio) < _TIMES_FROM:
        percent = 100 * abs(ratio - 1)
        return f"{percent:.1f} % {word}" if percent < 9.95 else f"{percent:.0f} % {word}"
    times = max(ratio, 1 / ratio)
    return f"{times:.1f} times {word}" if times < 99.95 else f"{times:,.0f} times {word}"


def _bound(value: float | None, decimals: int) -> str:
    return OPEN_END if value is None else _figure(value, decimals)


def _decimals(ratio: float | None, low: float | None, high: float | None) -> int:
    """As many as tell the interval's ends apart by two units, and near 1 those that tell it from 1."""
    wanted = 2 if ratio is not None and 0.8 <= ratio <= 1.25 else 0
    if low is not None and high is not None and high > low:
        wanted = max(wanted, -floor(log10((high - low) / 2)))
    return min(wanted, _MOST_DECIMALS)


def _figure(value: float, decimals: int) -> str:
    """Two digits or more in at most six characters: `0.0143`, `31.3`, `9999`, `31k`."""
    if value >= 9_999.5:
        divided, suffix = (1e3, "k") if value < 9_999_500 else (1e6, "M")
        return f"{value / divided:.0f}{suffix}"
    if value <= 0:
        return "0"
    if value < 0.5 / 10**_MOST_DECIMALS:
        return "<.0001"
    size = floor(log10(value))
    shown = min(max(decimals, 1 - size), 2 - size if size < -1 else 3 - max(size, 0), _MOST_DECIMALS)
    return f"{value:.{max(shown, 0)}f}"

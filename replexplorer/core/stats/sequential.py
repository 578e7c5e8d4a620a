"""One comparison that may be looked at all the time.

Law: the epoch ledger asks its question again with every second, and a test that is asked until it says
yes does so sooner or later: at 95 % each time, one idle change in five is claimed within two
minutes. So the interval is wide enough for all looks together, from the first verdict to the end
of an epoch of a day (repeated confidence intervals: Jennison & Turnbull 1989). What the side
before knows bounds what the side after can add, so a short one costs little width.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, log, pi, sqrt
from typing import Final, Protocol

from replexplorer.core.stats.batch_means import LEAST_BATCH_S, LEAST_BATCHES

_CLAIMED_IN_VAIN: Final = 0.05
_FIRST_LOOK_S: Final = LEAST_BATCHES * LEAST_BATCH_S
_LAST_LOOK_S: Final = 86_400.0


class ComparedFigure(Protocol):
    """One side of a comparison: an estimate with its bounds."""

    @property
    def value(self) -> float:
        """The estimate."""

    @property
    def variance(self) -> float | None:
        """Of the estimate; None when it is unknown."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance."""

    @property
    def length_s(self) -> float:
        """What was measured."""

    def bounds(self, errors: float) -> tuple[float | None, float | None]:
        """The estimate, this many standard errors less and more; None: no bound."""


@dataclass(frozen=True, slots=True)
class Difference:
    """After less before, with an interval that holds at every moment of the epoch at once."""

    value: float
    low: float | None
    high: float | None
    """None: no bound on this side."""

    @property
    def sign(self) -> int:
        """1 when it is shown to be above zero, -1 below, 0 when no difference is shown."""
        if self.low is not None and self.low > 0:
            return 1
        return -1 if self.high is not None and self.high < 0 else 0


def difference(before: ComparedFigure, after: ComparedFigure) -> Difference | None:
    """Compare two sides; None while a side's variance is unknown.

    Welch's degrees of freedom; the bounds of both sides are put together as Zou & Donner 2008 do
    (for symmetric bounds this is Welch's interval).
    """
    old, new = before.variance, after.variance
    if old is None or new is None:
        return None
    value, total = after.value - before.value, old + new
    errors = 0.0
    if total > 0:
        freedom = total**2 / (old**2 / before.freedom + new**2 / after.freedom)
        first = old + new * after.length_s / _FIRST_LOOK_S
        last = old + new * after.length_s / max(after.length_s, _LAST_LOOK_S)
        errors = in_small_samples(boundary(first / last), freedom)
    old_low, old_high = before.bounds(errors)
    new_low, new_high = after.bounds(errors)
    low = high = None
    if new_low is not None and old_high is not None:
        low = value - hypot(after.value - new_low, old_high - before.value)
    if new_high is not None and old_low is not None:
        high = value + hypot(new_high - after.value, before.value - old_low)
    return Difference(value, low, high)


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

"""The comparison that may be looked at all the time, against what is known of its parts."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import pytest

from replexplorer.core.stats.measured import t_quantile_975
from replexplorer.core.stats.ratio import boundary, difference, in_small_samples
from tests.known import known


@dataclass(frozen=True)
class Known:
    value: float
    variance: float | None
    freedom: float = 20.0
    length_s: float = 60.0
    low: float | None = None
    high: float | None = None
    is_bounded: bool = True

    def bounds(self, errors: float) -> tuple[float | None, float | None]:
        half = errors * (self.variance or 0.0) ** 0.5
        return self.value - half, self.value + half if self.is_bounded else None


@pytest.mark.parametrize("freedom", [4, 9, 9.5, 18, 40, 1000])
def test_students_t_from_normal_errors(freedom: float) -> None:
    assert in_small_samples(1.959964, freedom) == pytest.approx(t_quantile_975(freedom), rel=0.005)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(5, 4.7733), (9, 3.6897), (18, 3.1966), (30, 3.0298), (1e6, 2.8070)]
)
def test_students_t_at_half_a_percent(freedom: float, quantile: float) -> None:
    """Tables at 0.25 % on each side."""
    assert in_small_samples(2.80703, freedom) == pytest.approx(quantile, rel=0.012)


@pytest.mark.parametrize("freedom", [1, 2, 3])
def test_below_four_degrees_it_errs_on_the_safe_side(freedom: int) -> None:
    assert in_small_samples(1.959964, freedom) > t_quantile_975(freedom)


def test_the_boundary_grows_with_what_can_still_be_learned() -> None:
    found = [boundary(growth) for growth in (1, 2, 7, 61, 361, 8640)]
    assert found == sorted(found)
    assert 1.96 < found[0] < 2.5
    assert found[-1] < 3.4


@pytest.mark.parametrize("growth", [2.0, 7.0, 61.0])
def test_brownian_motion_crosses_the_boundary_in_five_percent(growth: float) -> None:
    """W(t)/sqrt(t) is stationary in log time: step through it."""
    source = random.Random(11)
    bound, step, runs, crossed = boundary(growth), 0.02, 1500, 0
    decay, kick = exp(-step / 2), sqrt(1 - exp(-step))
    for _ in range(runs):
        value = source.gauss(0, 1)
        for _ in range(int(log(growth) / step)):
            if abs(value) > bound:
                break
            value = decay * value + kick * source.gauss(0, 1)
        crossed += abs(value) > bound
    assert 0.02 < crossed / runs < 0.06


def test_symmetric_bounds_give_welchs_interval() -> None:
    found = known(difference(Known(100.0, 4.0, freedom=9), Known(110.0, 9.0, freedom=29)))
    freedom = 13**2 / (16 / 9 + 81 / 29)
    growth = (4 + 9 * 6) / (4 + 9 * 60 / 86_400)
    half = in_small_samples(boundary(growth), freedom) * 13**0.5
    assert found.value == 10
    assert found.low == pytest.approx(10 - half)
    assert found.high == pytest.approx(10 + half)
    assert found.sign == 0


def test_signs_and_missing_bounds() -> None:
    before = Known(100.0, 1.0)
    better, worse, open_ended = (
        known(difference(before, after))
        for after in (Known(130.0, 1.0), Known(70.0, 1.0), Known(130.0, 1.0, is_bounded=False))
    )
    assert (better.sign, worse.sign) == (1, -1)
    assert (open_ended.high, open_ended.sign) == (None, 1)
    unknown = known(difference(replace(before, is_bounded=False), Known(130.0, 1.0)))
    assert (unknown.low, unknown.sign) == (None, 0)
    assert difference(replace(before, variance=None), Known(130.0, 1.0)) is None


def test_without_variance_any_difference_shows() -> None:
    found = known(difference(Known(100.0, 0.0), Known(100.5, 0.0)))
    assert (found.low, found.high, found.sign) == (0.5, 0.5, 1)

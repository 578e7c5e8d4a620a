"""The comparison that may be looked at all the time, against what is known of its parts."""

from __future__ import annotations

import random
from math import exp, log, sqrt

import pytest

from replexplorer.core.stats.measured import MeanTps, Spread, t_quantile_975
from replexplorer.core.stats.ratio import ComparedSide, boundary, in_small_samples, ratio_of
from tests.known import known


def side(tps: float, log_variance: float, *, batches: int = 21) -> ComparedSide:
    """A minute's TPS of so many independent batches, whose logarithm has this variance."""
    spread = Spread(log_variance * tps**2 * (batches - 1), batches, 60.0, 1.0)
    return ComparedSide(tps, MeanTps(tps, spread), None)


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


def test_symmetric_bounds_give_welchs_interval_of_the_logarithms() -> None:
    old, new = 0.0004, 0.0009
    found = known(ratio_of(side(100.0, old, batches=10), side(110.0, new, batches=30)))
    freedom = (old + new) ** 2 / (old**2 / 9 + new**2 / 29)
    growth = (old + new * 6) / (old + new * 60 / 86_400)
    half = in_small_samples(boundary(growth), freedom) * (old + new) ** 0.5
    assert (found.value, found.low, found.high) == pytest.approx((1.1, 1.1 * exp(-half), 1.1 * exp(half)))


def test_without_variance_any_difference_shows() -> None:
    found = known(ratio_of(side(100.0, 0.0), side(100.5, 0.0)))
    assert (found.low, found.high) == pytest.approx((1.005, 1.005))
    assert found.sign == 1

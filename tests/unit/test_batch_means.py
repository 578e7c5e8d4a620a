"""The scatter of a mean: its laws, and whether it is true for correlated readings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from statistics import fmean, pvariance

import pytest

from replexplorer.core.stats.measured import Spread, spread_of, spread_or_lack
from tests.known import known


def wandering(source: random.Random, phi: float) -> Iterator[float]:
    """A noise of unit variance that keeps this share of itself from step to step."""
    noise = source.gauss(0, 1)
    while True:
        noise = phi * noise + (1 - phi * phi) ** 0.5 * source.gauss(0, 1)
        yield noise


def autoregressive(source: random.Random, count: int, phi: float) -> list[float]:
    return [100 + 10 * noise for noise in islice(wandering(source, phi), count)]


def test_equal_readings_have_no_variance() -> None:
    """And no correlation: what rounding leaves of it would say that there are no independent batches."""
    for constant in (0.0, 1 / 3, 100.1, 15_000.7):
        spread = known(spread_of([constant] * 30, 1.0, 1.0))
        assert (spread.variance, spread.freedom, spread.memory_s) == pytest.approx((0, 29, 1), abs=1e-15)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8])
def test_the_variance_is_that_of_the_mean(phi: float) -> None:
    """Over many runs it is what the means really do, or a little more; never a third less."""
    source = random.Random(20260101)
    runs = [autoregressive(source, 120, phi) for _ in range(600)]
    spreads = [spread_of(run, 1.0, 1.0) for run in runs]
    middle = sorted(spread.variance for spread in spreads if spread)
    true = pvariance([fmean(run) for run in runs])
    assert 0.7 * true < middle[len(middle) // 2] < 1.7 * true
    assert len(middle) > 0.95 * len(runs)


def test_too_few_independent_batches_say_nothing_and_how_many_seconds_more_are_needed(
    snapshot: object,
) -> None:
    drift = [float(index) for index in range(12)]
    lacks = [
        spread_or_lack(drift[:7], 1.0, 1.0),
        *(spread_or_lack(drift, 1.0, least) for least in (4.0, 1.0)),
    ]
    assert lacks == snapshot


def test_a_longer_memory_widens_and_a_shorter_one_does_not(snapshot: object) -> None:
    spread = Spread(square=9.0, worth=10.0, length_s=20.0, memory_s=2.0)
    found = [spread.remembering(memory_s) for memory_s in (1.0, 5.0, 11.0)]
    assert found == snapshot
    assert [(each.variance, each.freedom) for each in found if isinstance(each, Spread)] == [(1, 9), (3, 3)]

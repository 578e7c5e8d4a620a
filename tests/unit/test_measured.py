"""Percentiles, their bounds, and ratios: true for correlated latencies, and at whatever moment one looks."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.stats.histogram import Histogram, Ranks
from replexplorer.core.stats.measured import (
    MOST_STRETCHES,
    PERCENTS,
    Estimate,
    Extremes,
    Lack,
    MeanTps,
    Percentile,
    Spread,
    Spreads,
    Stretches,
    estimate,
    spreads_of,
    t_quantile_975,
)
from replexplorer.core.stats.ratio import (
    ComparedSide,
    boundary,
    in_small_samples,
    interval_text,
    range_text,
    ratio_of,
    ratio_text,
)
from tests.known import known
from tests.typed import values_of
from tests.unit.test_batch_means import wandering

NORMAL = {50: 0.0, 95: 1.644854, 99: 2.326348}
MID_US, WITHIN, BETWEEN = 90_000, 0.2, 0.08


def measured(source: random.Random, seconds: int, a_second: int, phi: float) -> dict[int, Percentile | None]:
    """A minute of log-normal latencies whose middle wanders from second to second."""
    stretches, total = Stretches(), Histogram()
    for state in islice(wandering(source, phi), seconds):
        middle = MID_US * exp(BETWEEN * state)
        second = Histogram.of(int(middle * exp(WITHIN * source.gauss(0, 1))) for _ in range(a_second))
        stretches.add(1.0, a_second, second)
        total.add(second)
    ranks = Ranks.of(total)
    spreads = spreads_of(stretches, ranks, total.mean_ms).shares
    return {
        percent: None if isinstance(spread, Lack) else Percentile(percent / 100, ranks, spread)
        for percent, spread in zip(PERCENTS, spreads, strict=True)
    }


@pytest.mark.parametrize("phi", [0.0, 0.6])
@pytest.mark.parametrize("a_second", [11, 60])
def test_the_interval_holds_the_true_percentile(phi: float, a_second: int) -> None:
    """At 95 %: at least 86 of 100, whatever the latencies of neighbouring seconds have in common."""
    source, held = random.Random(8), Counter[int]()
    for _ in range(100):
        for percent, found in measured(source, 60, a_second, phi).items():
            if found is not None:
                true_ms = MID_US / 1000 * exp(NORMAL[percent] * (WITHIN**2 + BETWEEN**2) ** 0.5)
                bounds = estimate(found.value, found)
                held[percent] += (bounds.low or 0) <= true_ms <= (bounds.high or 1e9)
    assert min(held.values()) >= 86, held


def test_bounds_hold_what_is_shown_and_are_unknown_where_no_commit_tells() -> None:
    """200 commits have two above their p99: how far it may reach is not known."""
    found = measured(random.Random(4), 20, 10, 0.0)
    p99, p50 = known(found[99]), known(found[50])
    assert [bound is None for bound in (*p99.bounds(1.96), *p50.bounds(1.96))] == [False, True, False, False]
    assert p99.bounds(0.0) == (p99.value, p99.value)
    for shown in (p50.value * 0.9, p50.value, p50.value * 1.1):
        bounds = estimate(shown, p50)
        assert known(bounds.low) <= shown <= known(bounds.high)
    spreads = spreads_of(Stretches(), Ranks([]), None)
    assert spreads == Spreads()
    assert isinstance(spreads.tps, Lack)
    assert estimate(5.0, spreads.tps) == Estimate(5.0)
    assert Ranks.of(Histogram()).counts() == [], "a stretch without a commit ended a lab with a ValueError"


def test_a_hairs_breadth_is_no_step_of_a_slot() -> None:
    """Slots are 1.5 % wide here: two sides whose p95 lie on both sides of an edge differ by less."""
    source, edge_us = random.Random(6), 65_536 + 30 * 1024
    low, high = (
        Histogram.of(int(edge_us + shift + source.gauss(-1645, 1000)) for _ in range(40_000))
        for shift in (-60, 60)
    )
    assert known(high.percentile_ms(95)) - known(low.percentile_ms(95)) > 0.9
    fine_low, fine_high = (known(Ranks.of(each).between_ms(0.95)) for each in (low, high))
    assert 0 < fine_high - fine_low < 0.4


def test_seconds_without_commits_leave_percentiles_alone() -> None:
    """A stall is seen in TPS; the share of commits below a latency does not move by it."""
    stretches, total = Stretches(), Histogram()
    for index in range(40):
        second = Histogram.of([900, 1000, 1100] * 20 if index % 4 else [])
        stretches.add(1.0, second.count, second)
        total.add(second)
    spreads = spreads_of(stretches, Ranks.of(total), total.mean_ms)
    assert isinstance(spreads.tps, Spread)
    assert spreads.tps.variance > 0
    for spread in spreads.shares:
        assert isinstance(spread, Spread)
        assert spread.variance == pytest.approx(0)


# -- ranks and stretches


def test_memory_is_bounded_and_nothing_is_lost() -> None:
    stretches = Stretches()
    for _ in range(20_000):
        stretches.add(0.5, 5, Histogram.of([2000] * 5))
    assert MOST_STRETCHES / 2 <= len(stretches.full) < MOST_STRETCHES
    assert stretches.seconds == 10_000
    kept = sum(stretch.commits for stretch in stretches.full)
    assert kept == len(stretches.full) * stretches.seconds_each * 10
    assert 100_000 - kept < stretches.seconds_each * 10  # the open one
    assert all(stretch.latency.count == stretch.commits for stretch in stretches.full)
    assert stretches.each_s == pytest.approx(stretches.seconds_each)
    timed = Stretches()
    for _ in range(10):
        timed.add(0.497, 1, Histogram.of([1]))
    assert [stretch.commits for stretch in timed.full] == [2] * 5, "a second that ends by a timer is a second"


# -- ratios: what a comparison says at any moment of figures above zero, and how it is written


RATES = st.floats(0.1, 1e5)
SHORT = Lack(3.0, is_noise=False)


def side(tps: float, deviation: float) -> ComparedSide:
    """A minute of independent seconds with this relative deviation."""
    spread = Spread((deviation * tps) ** 2, 60, 60, 1.0)
    return ComparedSide(tps, MeanTps(tps, spread), Extremes(0.0, 1e7, 60))


@given(RATES, RATES, st.floats(0.001, 2.0), st.floats(0.001, 2.0))
def test_no_bound_is_below_zero_the_other_way_round_is_the_inverse_and_speed_does_not_count(
    one: float, other: float, first: float, second: float
) -> None:
    found, back, fast = (
        known(ratio_of(before, after))
        for before, after in (
            (side(one, first), side(other, second)),
            (side(other, second), side(one, first)),
            (side(9 * one, first), side(9 * other, second)),
        )
    )
    assert found.value == pytest.approx(other / one)
    assert found.low is None or 0 <= found.low <= other / one
    assert found.high is None or found.high >= other / one
    assert back.sign in (-found.sign, 0) or found.sign == 0
    assert (fast.value, fast.low, fast.high) == pytest.approx((found.value, found.low, found.high))


APART = """\
2 1.0  None
3 33.0 -1
3 34.0 None
9 66.0 -1
9 67.0 None
"""
"""How many seconds, the most TPS of any after the change, and the verdict."""


def test_what_was_seen_of_few_seconds_must_lie_apart_by_more_the_fewer_they_are() -> None:
    for count, most_after, sign in values_of(APART):
        before, after = Extremes(100.0, 120.0, count), Extremes(most_after / 2, most_after, 60)
        found = ratio_of(ComparedSide(110.0, SHORT, before), ComparedSide(most_after * 0.75, SHORT, after))
        assert (found.sign if found else None) == sign, (count, most_after)


def test_the_range_bounds_what_correlated_seconds_leave_open() -> None:
    """Two independent batches on each side have a Student interval of a factor of millions."""
    wild = Spread(400.0, 2.0, 12.0, 6.0)
    sides = [ComparedSide(tps, MeanTps(tps, wild), Extremes(tps / 2, tps * 2, 12)) for tps in (100.0, 90.0)]
    found = known(ratio_of(*sides))
    assert found.low == pytest.approx(45 / 200 / (1 + 4 / 11))
    assert found.high == pytest.approx(180 / 50 * (1 + 4 / 11))


@given(
    st.lists(st.floats(1.0, 2.0), min_size=3, max_size=160),
    st.lists(st.floats(1.0, 2.0), min_size=3, max_size=160),
    st.booleans(),
)
def test_sides_whose_seconds_lie_apart_have_a_verdict_whatever_they_remember_and_however_few_stall(
    one: list[float], other: list[float], slower: bool
) -> None:
    """2,680 to 168 TPS is not a tie: apart by a factor of 8 or more, with one second in twenty anywhere."""
    before, after = [16 * each for each in one], list(other)
    for seconds, wild in ((before, 0.0), (after, 20.0)):
        for at in range(len(seconds) // 20):
            seconds[20 * at + 7] = wild
    if not slower:
        before, after = after, before
    sides = [
        ComparedSide(sum(each) / len(each), Lack(99.0, is_noise=True), Extremes.of(each, len(each)))
        for each in (before, after)
    ]
    found = known(ratio_of(*sides))
    assert found.sign == (-1 if slower else 1)


def test_every_figure_fits_its_column(snapshot: object) -> None:
    ratios = [(ratio, 0.3 * ratio, 40 * ratio) for ratio in (1e-9, 0.004, 0.5, 0.9996, 1.0, 9.96, 99.6, 1e9)]
    assert [(ratio_text(*each), interval_text(*each), range_text(*each)) for each in ratios] == snapshot


# -- the comparison that may be looked at all the time, against what is known of its parts


def test_students_t_from_normal_errors_and_a_boundary_that_grows_with_what_can_still_be_learned() -> None:
    """Below four degrees of freedom it errs on the safe side."""
    for freedom in (4, 9, 9.5, 18, 40, 1000):
        assert in_small_samples(1.959964, freedom) == pytest.approx(t_quantile_975(freedom), rel=0.005)
    assert all(in_small_samples(1.959964, freedom) > t_quantile_975(freedom) for freedom in (1, 2, 3))
    found = [boundary(growth) for growth in (1, 2, 7, 61, 361, 8640)]
    assert found == sorted(found)
    assert 1.96 < found[0] < 2.5 < found[-1] < 3.4

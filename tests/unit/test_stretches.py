"""Ranks and stretches: nothing is lost when they are joined, and memory is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.stats.histogram import Histogram, Ranks, slot_middle_us
from replexplorer.core.stats.measured import MOST_STRETCHES, Stretch, Stretches
from tests.known import known

VALUES = st.lists(st.integers(0, 10_000_000), min_size=1, max_size=80)


@given(VALUES, st.integers(1, 100))
def test_ranks_answer_as_the_histogram_does(values: list[int], percent: int) -> None:
    counted = Histogram.of(values)
    slot = known(Ranks.of(counted).slot(percent / 100))
    middle_us = min(max(slot_middle_us(slot), min(values)), max(values))
    assert middle_us / 1000 == counted.percentile_ms(percent)


@given(VALUES, st.floats(0, 1), st.floats(0, 1))
def test_between_slots_values_grow_with_their_share(values: list[int], one: float, other: float) -> None:
    counted = Histogram.of(values)
    ranks = Ranks.of(counted)
    low, high = (known(ranks.between_ms(share)) for share in sorted((one, other)))
    middle = known(counted.percentile_ms(100 * max(one, other)))
    assert min(values) / 1000 <= low <= high * (1 + 1e-9) <= max(values) / 1000 * (1 + 1e-9)
    assert abs(high - middle) <= max(0.0011, 0.02 * middle)


@given(VALUES, st.integers(0, 2000))
def test_ranks_count_what_lies_at_or_below(values: list[int], slot: int) -> None:
    counted = Histogram.of(values)
    ranks = Ranks.of(counted)
    assert ranks.count == len(values)
    assert ranks.upto(slot) == sum(count for at, count in counted.counts.items() if at <= slot)


@given(VALUES, VALUES)
def test_joined_stretches_are_one_histogram(left: list[int], right: list[int]) -> None:
    parts = [Stretch(1.0, len(values), Ranks.of(Histogram.of(values))) for values in (left, right)]
    joined = Stretch.joined(parts)
    assert (joined.duration_s, joined.commits) == (2.0, len(left) + len(right))
    assert joined.latency.counts() == Ranks.of(Histogram.of(left + right)).counts()


def test_no_value_no_rank() -> None:
    empty = Ranks([])
    assert (empty.count, empty.slot(0.5), empty.upto(7)) == (0, None, 0)
    assert Ranks.of(Histogram()).counts() == [], "a stretch without a commit ended a lab with a ValueError"


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


def test_a_second_that_ends_by_a_timer_is_a_second() -> None:
    stretches = Stretches()
    for _ in range(10):
        stretches.add(0.497, 1, Histogram.of([1]))
    assert [stretch.commits for stretch in stretches.full] == [2] * 5

"""Histograms: the error's bound, merging, the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.stats.histogram import Histogram, slot_middle_us, slot_of
from tests.typed import values_of

durations = st.lists(st.integers(0, 10**8), max_size=60)


@given(st.integers(0, 10**10))
def test_a_slot_answers_within_its_error(value_us: int) -> None:
    assert abs(slot_middle_us(slot_of(value_us)) - value_us) <= value_us / 128


@given(durations, st.sampled_from([1, 25, 50, 95, 99, 99.9, 100]))
def test_a_percentile_is_the_nearest_rank_within_one_percent(values_us: list[int], percent: float) -> None:
    found = Histogram.of(values_us).percentile_ms(percent)
    if not values_us:
        assert found is None
        return
    rank = max(1, -(-len(values_us) * percent // 100))
    exact_us = sorted(values_us)[int(rank) - 1]
    assert found == pytest.approx(exact_us / 1000, rel=0.01, abs=1e-9)


@given(durations, durations, durations)
def test_merging_is_counting_all_at_once_in_any_grouping(a: list[int], b: list[int], c: list[int]) -> None:
    left = Histogram.merged([Histogram.merged([Histogram.of(a), Histogram.of(b)]), Histogram.of(c)])
    right = Histogram.merged([Histogram.of(a), Histogram.merged([Histogram.of(b), Histogram.of(c)])])
    assert left == right == Histogram.of([*a, *b, *c])


@given(durations)
def test_counting_many_is_counting_each(values_us: list[int]) -> None:
    each = Histogram()
    for value_us in values_us:
        each.record(value_us)
    assert Histogram.of(values_us) == each


def test_exact_figures() -> None:
    histogram = Histogram.of([1000, 2000, 6000])
    assert histogram.count == 3
    assert histogram.mean_ms == 3.0
    assert histogram.min_ms == 1.0
    assert histogram.max_ms == 6.0
    empty = Histogram.of([])
    assert empty.mean_ms is None
    assert empty.min_ms is None
    assert empty.max_ms is None


SHAPES = """\
"slots"  "x"
"counts" [1,2,3]
"counts" ["1"]
"slots"  [1.5]
"sum_us" "many"
"min_us" "x"
"max_us" 1.5
"""


def test_another_shape_is_refused() -> None:
    for name, value in values_of(SHAPES):
        with pytest.raises(ValueError, match="must be"):
            Histogram.from_wire({**Histogram.of([5]).to_wire(), name: value})


def test_a_missing_part_is_refused() -> None:
    with pytest.raises(KeyError):
        Histogram.from_wire({"slots": [], "counts": []})

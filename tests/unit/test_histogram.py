"""Histograms: the error's bound, merging, the wire."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.stats.histogram import Histogram

durations = st.lists(st.integers(0, 10**8), max_size=60)


@given(durations, st.sampled_from([1, 25, 50, 95, 99, 99.9, 100]))
def test_a_percentile_is_the_nearest_rank_within_one_percent(values_us: list[int], percent: float) -> None:
    found = Histogram.of(values_us).percentile_ms(percent)
    if not values_us:
        assert found is None
        return
    rank = max(1, -(-len(values_us) * percent // 100))
    exact_us = sorted(values_us)[int(rank) - 1]
    assert found == pytest.approx(exact_us / 1000, rel=0.01, abs=1e-9)


@given(st.lists(durations, max_size=4), st.integers(0, 4))
def test_merging_is_counting_all_at_once_in_any_grouping_and_so_is_counting_each(
    parts: list[list[int]], first: int
) -> None:
    whole, each = Histogram.of(chain(*parts)), Histogram()
    halves = (Histogram.merged(map(Histogram.of, half)) for half in (parts[:first], parts[first:]))
    assert Histogram.merged(halves) == whole
    for value_us in chain(*parts):
        each.record(value_us)
    assert each == whole


def test_exact_figures() -> None:
    for values_us, figures in (([1000, 2000, 6000], (3, 3.0, 1.0, 6.0)), ([], (0, None, None, None))):
        found = Histogram.of(values_us)
        assert (found.count, found.mean_ms, found.min_ms, found.max_ms) == figures


@pytest.mark.parametrize(
    "other", [{"slots": 5}, {"counts": [1, 2]}, {"slots": ["a"]}, {"sum_us": "5"}, {"min_us": 0.5}]
)
def test_what_no_process_sends_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Histogram.from_wire({**Histogram.of([5]).to_wire(), **other})

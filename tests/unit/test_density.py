"""The heat map's memory: nothing is thinned out, nothing grows without a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.stats.histogram import (
    BANDS_A_DECADE,
    DensityHistory,
    Histogram,
    Slice,
    band_ms,
    band_of,
    columns_of,
    slot_of,
)
from tests.amount import examples


def histogram(*values_us: int) -> Histogram:
    found = Histogram()
    found.record_all(values_us)
    return found


def fed(values_us: Sequence[Sequence[int]], tick_s: float = 0.5) -> DensityHistory:
    history = DensityHistory()
    for at, values in enumerate(values_us):
        history.add(at * tick_s, (at + 1) * tick_s, histogram(*values))
    return history


def total(slices: Sequence[Slice]) -> int:
    return sum(sum(one.counts) for one in slices)


@given(st.integers(1, 100_000_000))
def test_a_value_stands_in_the_band_around_it(value_us: int) -> None:
    band = band_of(slot_of(value_us))
    step = 10 ** (1 / BANDS_A_DECADE)
    assert band_ms(band) / 1.01 <= value_us / 1000 <= band_ms(band) * step * 1.01


@settings(max_examples=examples(0.5))
@given(
    st.lists(st.lists(st.integers(50, 5_000_000), max_size=20), min_size=1, max_size=100), st.integers(1, 200)
)
def test_every_commit_is_drawn_once_where_columns_are_wider_than_slices(
    values_us: list[list[int]], columns: int
) -> None:
    slices = fed(values_us).page(0.0, 1e9)
    assert total(slices) == sum(map(len, values_us))
    columns = min(columns, len(values_us))
    width_s = len(values_us) * 0.5 / columns
    drawn = columns_of(slices, 0.0, len(values_us) * 0.5, columns)
    lengths = [0] * columns
    for at in range(len(values_us)):
        lengths[min(columns - 1, math.floor((at + 0.5) * 0.5 / width_s))] += 1
    found = sum(
        sum(column.values()) * 0.5 * length
        for column, length in zip(drawn, lengths, strict=True)
        if column is not None
    )
    assert found == pytest.approx(sum(map(len, values_us)))


def test_one_slow_commit_among_a_million_is_in_its_column_at_every_width() -> None:
    rows = [[1000] * 1000 for _ in range(240)]
    rows[100] = [5_000_000]
    slices = fed(rows).page(0.0, 120.0)
    for columns in (20, 57, 97, 150, 400):
        drawn = columns_of(slices, 0.0, 120.0, columns)
        slow = [
            at for at, column in enumerate(drawn) if column and any(band_ms(band) > 4000 for band in column)
        ]
        assert slow
        assert all(math.floor(50.0 / 120 * columns) <= at <= 50.5 / 120 * columns for at in slow)


def test_columns_narrower_than_slices_have_no_gaps_and_keep_the_rate() -> None:
    slices = fed([[1000] * 50] * 60).page(0.0, 30.0)
    drawn = columns_of(slices, 0.0, 30.0, 171)
    assert all(column is not None and sum(column.values()) == pytest.approx(100) for column in drawn)


def test_what_was_not_measured_is_none_and_a_second_without_commits_is_empty() -> None:
    history = DensityHistory()
    history.add(0.0, 1.0, histogram(1000))
    history.add(1.0, 2.0, histogram())
    history.add(5.0, 6.0, histogram(1000))
    assert columns_of(history.page(0.0, 8.0), 0.0, 8.0, 8) == [
        {180: 1.0}, {}, None, None, None, {180: 1.0}, None, None,
    ]  # fmt: skip


def test_a_page_of_any_length_reaches_back_to_its_edge_after_hours() -> None:
    history = DensityHistory()
    one = histogram(*range(900, 910))
    end_s = 0.0
    for _ in range(3 * 3600):
        history.add(end_s, end_s + 0.5, one)
        end_s += 0.5
    for page_s in (30.0, 120.0, 300.0, 600.0, 1800.0, 3600.0):
        slices = history.page(end_s - page_s, end_s)
        assert slices[0].start_s <= end_s - page_s
        assert len(slices) <= 310
        assert all(one.end_s == after.start_s for one, after in pairwise(slices))
        inside = total([one for one in slices if one.start_s >= end_s - page_s])
        assert inside / 10 * 0.5 == pytest.approx(page_s, abs=15.0)


def test_spans_that_nearly_meet_leave_no_stripe() -> None:
    history = DensityHistory()
    history.add(0.0, 0.5, histogram(1000))
    history.add(0.54, 1.02, histogram(1000))
    history.add(0.98, 1.5, histogram(1000))
    history.add(3.0, 3.5, histogram(1000))
    assert [(one.start_s, one.end_s) for one in history.page(0.0, 9.0)] == [
        (0.0, 0.5), (0.5, 1.02), (1.02, 1.5), (3.0, 3.5),
    ]  # fmt: skip


def test_a_held_copy_does_not_move() -> None:
    history = fed([[1000]] * 10)
    held = history.copied()
    before = held.page(0.0, 100.0)
    history.add(5.0, 5.5, histogram(9))
    assert held.page(0.0, 100.0) == before
    assert total(history.page(0.0, 100.0)) == 11

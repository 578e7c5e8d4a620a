"""Runs of numbers obey the laws of sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.gtid import Spans, common, count, spans_of, together, without

numbers = st.sets(st.integers(0, 60))


def spans(members: set[int]) -> Spans:
    return spans_of((number, number) for number in members)


def members(found: Spans) -> set[int]:
    assert all(first <= last for first, last in found)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found)), "apart and ascending"
    return {number for first, last in found for number in range(first, last + 1)}


@given(numbers, numbers)
def test_they_are_sets(one: set[int], other: set[int]) -> None:
    left, right = spans(one), spans(other)
    assert members(left) == one
    assert members(together(left, right)) == one | other
    assert members(common(left, right)) == one & other
    assert members(without(left, right)) == one - other
    assert count(left) == len(one)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9))))
def test_overlaps_are_joined(pairs: list[tuple[int, int]]) -> None:
    runs = [(first, first + size) for first, size in pairs]
    wanted = {number for first, last in runs for number in range(first, last + 1)}
    assert members(spans_of(runs)) == wanted

"""The charts' points: packed, and the same when they come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.history.points import Point, Points

_FIGURES = st.none() | st.floats(allow_nan=False)
_POINTS = st.lists(
    st.builds(
        Point,
        st.floats(0, 1e9),
        *[_FIGURES] * (len(Point._fields) - 2),
        st.integers(0, 2**53),
    ),
    max_size=12,
)


def packed(points: list[Point]) -> Points:
    kept = Points()
    for point in points:
        kept.append(point)
    return kept


@given(_POINTS, st.integers(-13, 13), st.integers(-13, 13))
def test_points_are_a_list_of_what_was_put_in(points: list[Point], start: int, end: int) -> None:
    kept = packed(points)
    assert len(kept) == len(points)
    assert list(kept) == points
    assert kept[start:end] == points[start:end]
    assert [kept[at] for at in range(-len(points), len(points))] == points + points


@given(_POINTS, st.integers(0, 13))
def test_the_oldest_go_first(points: list[Point], count: int) -> None:
    kept = packed(points)
    kept.forget(count)
    assert list(kept) == points[count:]


def test_outside_there_is_none() -> None:
    with pytest.raises(IndexError):
        packed([Point(1.0)])[1]

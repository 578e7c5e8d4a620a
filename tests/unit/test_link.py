"""The arithmetic of a link: total asked, base and overhead subtracted, floors named."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.link import (
    TOLERATED_MS,
    TOLERATED_SHARE,
    base_rtt_ms,
    contradiction,
    installed_rtt_ms,
    split_rtt,
)


@dataclass(frozen=True)
class Side:
    delay_ms: float = 0.0
    base_ms: float | None = 0.1
    overhead_ms: float = 0.05


@pytest.mark.parametrize(
    ("asked_ms", "to_replica_ms", "to_primary_ms", "floor_ms"),
    [
        (0, 0, 0, None),
        (85, 42.45, 42.45, None),
        (1, 0.45, 0.45, None),
        (0.2, 0.05, 0.05, None),
        (0.18, 0.08, 0, None),
        (0.12, 0, 0, 0.15),
        (0.1, 0, 0, 0.15),
        (0.01, 0, 0, 0.15),
    ],
)
def test_a_round_trip_is_split(
    asked_ms: float, to_replica_ms: float, to_primary_ms: float, floor_ms: float | None
) -> None:
    delays = split_rtt(asked_ms, Side(), Side())
    assert delays.to_replica_ms == pytest.approx(to_replica_ms)
    assert delays.to_primary_ms == pytest.approx(to_primary_ms)
    assert delays.floor_ms == (None if floor_ms is None else pytest.approx(floor_ms))


@given(
    asked_ms=st.floats(0, 5000),
    base_ms=st.one_of(st.none(), st.floats(0, 3)),
    overhead_ms=st.floats(0, 1),
    back_overhead_ms=st.floats(0, 1),
)
def test_what_is_installed_is_what_was_asked_or_a_floor_is_named(
    asked_ms: float, base_ms: float | None, overhead_ms: float, back_overhead_ms: float
) -> None:
    towards, back = Side(0, base_ms, overhead_ms), Side(0, base_ms, back_overhead_ms)
    delays = split_rtt(asked_ms, towards, back)
    assert delays.to_replica_ms >= 0
    assert delays.to_primary_ms >= 0
    installed_ms = installed_rtt_ms(
        asked_ms,
        Side(delays.to_replica_ms, base_ms, overhead_ms),
        Side(delays.to_primary_ms, base_ms, back_overhead_ms),
    )
    if delays.floor_ms is None:
        assert installed_ms == asked_ms
    else:
        assert delays.floor_ms >= asked_ms
        assert delays.to_replica_ms == delays.to_primary_ms == 0


def test_the_primarys_base_counts_first_then_the_replicas() -> None:
    assert base_rtt_ms(Side(base_ms=0.2), Side(base_ms=0.3)) == 0.2
    assert base_rtt_ms(Side(base_ms=None), Side(base_ms=0.3)) == 0.3
    assert base_rtt_ms(Side(base_ms=None), Side(base_ms=None)) == 0


def test_nothing_asked_and_nothing_installed_is_zero_and_a_leftover_is_told() -> None:
    assert installed_rtt_ms(0, Side(), Side()) == 0
    assert installed_rtt_ms(None, Side(), Side()) == 0
    assert installed_rtt_ms(0, Side(42), Side()) == pytest.approx(42.1)


@pytest.mark.parametrize(
    ("asked_ms", "measured_ms", "contradicts"),
    [(85, 86.5, False), (85, 89.3, True), (85, 80.7, True), (1, 1.99, False), (1, 2.1, True), (0, 0.1, False),
     (0, 1.05, False), (0, 1.2, True), (None, 5, False), (85, None, False)],
)  # fmt: skip
def test_measured_contradicts_asked_beyond_both_tolerances(
    asked_ms: float | None, measured_ms: float | None, contradicts: bool
) -> None:
    text = contradiction(asked_ms, measured_ms, 0.1)
    assert (text is not None) == contradicts
    if text is not None:
        assert "measured" in text


@given(asked_ms=st.floats(0, 5000), error_ms=st.floats(-4000, 4000))
def test_the_tolerance_is_the_larger_of_both(asked_ms: float, error_ms: float) -> None:
    within = abs(asked_ms + error_ms - asked_ms) <= max(TOLERATED_MS, TOLERATED_SHARE * asked_ms)
    assert (contradiction(asked_ms, asked_ms + error_ms, None) is None) == within

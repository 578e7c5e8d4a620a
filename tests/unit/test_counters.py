"""Rates from cumulative counters: resets, restarts and unknowns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.counters import Sample, rates, restarted
from replexplorer.core.server import ServerStatus

STATUS = ServerStatus(
    uptime_s=100, binlog_cache_use=1000, yes_tx=10, no_tx=5, no_times=1, tx_waits=8, tx_wait_time_us=80_000
)
BEFORE = Sample(50.0, STATUS, "a")


def after(seconds: float = 2.0, uuid: str = "a", **changes: int | None) -> Sample:
    status = replace(STATUS, **{"uptime_s": 102, **changes})  # type: ignore[arg-type]
    return Sample(50.0 + seconds, status, uuid)


def test_rates_are_differences_over_time() -> None:
    found = rates(
        BEFORE,
        after(binlog_cache_use=1500, yes_tx=30, no_tx=6, no_times=2, tx_waits=18, tx_wait_time_us=930_000),
    )
    assert found is not None
    assert (found.commits, found.acks, found.unprotected, found.switched_off) == (500, 20, 1, 1)
    assert found.tps == 250.0
    assert found.ack_wait_ms == pytest.approx(85.0)


def test_a_counter_that_fell_is_unknown_and_the_others_stand() -> None:
    found = rates(BEFORE, after(binlog_cache_use=1100, yes_tx=1, no_tx=0))  # FLUSH STATUS
    assert found is not None
    assert (found.commits, found.acks, found.unprotected) == (100, None, None)


def test_unknown_counters_stay_unknown() -> None:
    found = rates(Sample(0.0, ServerStatus()), Sample(1.0, ServerStatus(binlog_cache_use=5)))
    assert found is not None
    assert (found.tps, found.acks, found.ack_wait_ms) == (None, None, None)


def test_no_wait_has_no_mean() -> None:
    found = rates(BEFORE, after())
    assert found is not None
    assert (found.tps, found.ack_wait_ms) == (0.0, None)


@pytest.mark.parametrize(
    ("later", "anew"),
    [
        (after(), False),
        (after(uptime_s=101), False),
        (after(uuid="b"), True),
        (after(uptime_s=1), True),
        (after(seconds=300.0, uptime_s=150), True),
        (after(seconds=300.0, uptime_s=398), False),
        (after(uptime_s=None), False),
    ],
)
def test_a_restart_ends_the_comparison(later: Sample, anew: bool) -> None:
    assert restarted(BEFORE, later) is anew
    assert (rates(BEFORE, later) is None) is anew


def test_no_time_has_no_rate() -> None:
    assert rates(BEFORE, after(seconds=0.0)) is None


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0.01, 1e4))
def test_a_rate_is_never_negative(first: int, second: int, seconds: float) -> None:
    found = rates(
        Sample(0.0, ServerStatus(binlog_cache_use=first)),
        Sample(seconds, ServerStatus(binlog_cache_use=second)),
    )
    assert found is not None
    assert (found.tps is None) == (second < first)
    assert found.tps is None or found.tps >= 0

"""Rates from cumulative counters: resets, restarts and unknowns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.counters import Sample, ServerStatus, rates, restarted
from tests.known import known

STATUS = ServerStatus(
    uptime_s=100, binlog_cache_use=1000, yes_tx=10, no_tx=5, no_times=1, tx_waits=8, tx_wait_time_us=80_000
)
BEFORE = Sample(50.0, STATUS, "a")


def after(seconds: float = 2.0, uuid: str = "a", **changes: int | None) -> Sample:
    status = replace(STATUS, **{"uptime_s": 102, **changes})  # type: ignore[arg-type]
    return Sample(50.0 + seconds, status, uuid)


def test_rates_are_differences_over_time() -> None:
    later = after(binlog_cache_use=1500, yes_tx=30, no_tx=6, no_times=2, tx_waits=18, tx_wait_time_us=930_000)
    found = known(rates(BEFORE, later))
    assert (found.commits, found.acks, found.unprotected, found.tps) == (500, 20, 1, 250)
    assert found.ack_wait_ms == pytest.approx(85.0)


def test_what_is_unknown_stays_so_and_a_counter_that_fell_is_unknown() -> None:
    flushed = known(rates(BEFORE, after(binlog_cache_use=1100, yes_tx=1, no_tx=0)))  # FLUSH STATUS
    assert (flushed.commits, flushed.acks, flushed.unprotected) == (100, None, None)
    bare = known(rates(Sample(0.0, ServerStatus()), Sample(1.0, ServerStatus(binlog_cache_use=5))))
    assert (bare.tps, bare.acks, bare.ack_wait_ms) == (None, None, None)
    idle = known(rates(BEFORE, after()))
    assert (idle.tps, idle.ack_wait_ms) == (0.0, None)


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
    assert rates(BEFORE, after(seconds=0.0)) is None


def test_an_answer_that_came_late_is_no_restart() -> None:
    """Asked at 50 s, read at 56 s, in at 57 s: the server had run 106 s by then."""
    slow = Sample(50.0, replace(STATUS, uptime_s=106), "a", answered_s=57.0)
    assert not restarted(slow, Sample(58.0, replace(STATUS, uptime_s=108), "a", answered_s=58.0))


@given(
    booted_s=st.floats(-1e6, 0.0),
    moments=st.lists(st.floats(0.0, 1e4), min_size=6, max_size=6).map(sorted),
)
def test_no_delay_makes_a_running_server_a_restarted_one(booted_s: float, moments: list[float]) -> None:
    samples = [
        Sample(asked_s, ServerStatus(uptime_s=int(read_s - booted_s)), "a", answered_s)
        for asked_s, read_s, answered_s in (moments[:3], moments[3:])
    ]
    assert not restarted(*samples)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0.01, 1e4))
def test_a_rate_is_never_negative(first: int, second: int, seconds: float) -> None:
    before, later = (ServerStatus(binlog_cache_use=count) for count in (first, second))
    tps = known(rates(Sample(0.0, before), Sample(seconds, later))).tps
    assert (tps is None) == (second < first)
    assert tps is None or tps >= 0

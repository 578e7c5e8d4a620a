"""The servers' truth: counters' traps (docs/explanation/semi-sync.md), checks that hold and that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from replexplorer.core.load.interval import Interval
from replexplorer.core.server.counters import (
    CommitGrowth,
    Rates,
    Sample,
    Sent,
    ServerStatus,
    Source,
    Total,
    rates,
)
from replexplorer.core.server.truth import (
    ApplierSample,
    Behind,
    Lag,
    LagSeen,
    ReplicaTruth,
    ServerTruth,
    littles_law,
    replica_truth,
    server_truth,
)
from tests.fakes.load import interval_of
from tests.known import known

FILES = {
    Source.BINLOG_WRITE: Total(250, 1),
    Source.BINLOG_FSYNC: Total(125, 1),
    Source.REDO_FSYNC: Total(260, 1),
}
RATES = Rates(5.0, commits=1000, acks=200, unprotected=3, ack_waits=150, ack_wait_ms=2.5)


def truth(
    seen: Rates = RATES, counted: CommitGrowth | None = None, point: str | None = "after_sync"
) -> ServerTruth:
    return server_truth(seen, counted or CommitGrowth(5.0, FILES), wait_point=point)


def test_sizes_and_fsyncs_are_by_commit() -> None:
    found = truth()
    assert (found.group_size, found.queue_size) == (4.0, 5.0)
    assert (found.redo_fsyncs, found.binlog_fsyncs) == (0.26, 0.125)
    assert (found.ack_waits, found.ack_wait_ms, found.unprotected) == (150, 2.5, 3)


def test_yes_tx_counts_transactions_under_after_commit_so_it_makes_no_queue() -> None:
    assert truth(point="after_commit").queue_size is None
    assert truth(point=None).queue_size is None


def test_nothing_counted_is_unknown_not_zero() -> None:
    found = server_truth(Rates(5.0), None, wait_point="after_sync")
    unknown = [each.name for each in fields(found) if getattr(found, each.name) is not None]
    assert unknown == ["duration_s", "replicas", "checks"]
    idle = truth(replace(RATES, commits=0, acks=0))
    assert (idle.commits, idle.group_size, idle.queue_size, idle.redo_fsyncs) == (0, 0.0, None, None)


# -- traps of the counters


def status(**counts: int | None) -> ServerStatus:
    return replace(
        ServerStatus(
            uptime_s=100,
            binlog_cache_use=10,
            yes_tx=10,
            no_tx=5,
            no_times=1,
            tx_waits=8,
            tx_wait_time_us=80_000,
        ),
        **counts,  # type: ignore[arg-type]
    )


def grown(after: ServerStatus) -> ServerTruth:
    return truth(known(rates(Sample(0.0, status()), Sample(5.0, replace(after, uptime_s=105)))))


def test_flush_status_resets_yes_and_no_but_not_the_waits() -> None:
    found = grown(
        status(binlog_cache_use=30, yes_tx=1, no_tx=0, no_times=0, tx_waits=18, tx_wait_time_us=180_000)
    )
    assert (found.commits, found.queue_size, found.unprotected) == (20, None, None)
    assert (found.ack_waits, found.ack_wait_ms) == (10, 10.0)


def test_the_mean_wait_is_of_the_stretch_and_timed_out_waits_are_not_in_it() -> None:
    """tx_avg_wait_time is of the server's whole life; here 10 ms before, 100 ms since."""
    found = grown(status(binlog_cache_use=30, no_tx=25, tx_waits=10, tx_wait_time_us=280_000))
    assert (found.ack_waits, found.ack_wait_ms, found.unprotected) == (2, 100.0, 20)
    assert grown(status()).ack_wait_ms is None


# -- checks


def stretch(values_us: Sequence[int] = (4000,) * 20_000, **changes: Any) -> Interval:
    return interval_of(0.0, values_us, 10.0, **{"clients": 8, "connected": 8, **changes})


def test_littles_law_says_both_figures() -> None:
    check = known(littles_law([stretch(), stretch(())]))
    assert check.evidence == "8 clients; 1,000.0 TPS x 4.00 ms mean latency keeps 4.00 of them busy"


ACROSS_AN_END = [10_000_000] + [4000] * 1000
"""Of one client, that waited 10 s for a replica, most of it before this stretch began."""
NOT_ALL_AT_WORK: list[dict[str, Any]] = [
    {"mode": "open"}, {"errors": 1}, {"unknown": 1}, {"reconnects": 1}, {"deadlocks": 1},
    {"lock_timeouts": 1}, {"connected": 7}, {"state": "waiting"},
]  # fmt: skip


LAW: list[tuple[list[dict[str, Any]], bool | None]] = [
    ([{}], True),
    ([{"clients": 9, "connected": 9}], False),
    ([{"clients": 7, "connected": 7}], False),
    ([{"values_us": ACROSS_AN_END, "clients": 1, "connected": 1}], True),
    ([{}, {"values_us": ()}], False),
    ([{"values_us": ()}], None),
    ([{}, {"clients": 9, "connected": 9}], None),
    *(([each], None) for each in NOT_ALL_AT_WORK),
    *(([{}, each], None) for each in NOT_ALL_AT_WORK),
]


def test_littles_law_holds_within_five_percent_and_is_silent_while_clients_are_not_all_at_work() -> None:
    for intervals, holds in LAW:
        check = littles_law([stretch(**each) for each in intervals])
        assert (None if check is None else check.holds) is holds, intervals


# -- replicas


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
APPLIED = ApplierSample(10.0, Behind("", "", None, 900_000), Sent("", 41, 5000))


def test_lag_is_the_age_of_what_is_not_applied() -> None:
    lags_ms = {
        Behind("", "", None, 900_000): 0.0,
        Behind("u:5-9", "", 12_500, 900_000): 12.5,
        Behind("u:5-9", "", None, 900_000): 900.0,
        Behind("", "u:9", None, 900_000): 900.0,
        Behind("", "u:9", None, None): None,
        Behind("", "u:9", None, -20): 0.0,
        Behind("", None, None, 900_000): 0.0,
        Behind(None, None, None, None): None,
    }
    assert lags_ms == {
        each: replica_truth("db2", replace(APPLIED, behind=each), APPLIED).lag_ms for each in lags_ms
    }


@pytest.mark.parametrize(
    ("lacked", "lacks", "made", "pace"),
    [
        ("", "", "1-100", (50.0, 0.0)),
        ("1-100", "51-100", "", (25.0, 2.0)),
        ("1-100", "51-200", "101-200", (25.0, None)),
        ("1-100", "1-100", "", (0.0, None)),
        ("1-100", None, "101-200", (None, None)),
    ],
)
def test_a_replica_catches_up_at_the_pace_at_which_its_backlog_shrinks(
    lacked: str, lacks: str | None, made: str, pace: tuple[float | None, float | None]
) -> None:
    def at(at_s: float, missing: str | None, executed: str) -> ApplierSample:
        behind = Behind(missing=missing and f"{UUID}:{missing}")
        return ApplierSample(at_s, behind, Sent(executed and f"{UUID}:{executed}", 41, 0))

    found = replica_truth("db2", at(12.0, lacks, made), at(10.0, lacked, ""))
    assert (found.applied_tps, found.drain_s) == pace


def test_lag_of_a_measurement_is_of_the_replica_that_fell_back_farthest() -> None:
    seen = LagSeen()
    assert seen.lag is None
    for db2_ms, db3_ms, applied_tps, drain_s in (
        (500.0, 0.0, 900.0, 1.0),
        (9000.0, 2000.0, 100.0, None),
        (4000.0, 100.0, 300.0, 8.0),
    ):
        db2 = ReplicaTruth("db2", db2_ms, applied_tps=applied_tps, drain_s=drain_s)
        seen.add((db2, ReplicaTruth("db3", db3_ms), ReplicaTruth("db4")))
    assert seen.lag == Lag(9.0, 4.0, "draining", "db2", applied_tps=200.0), (
        "of the looks at which it was late"
    )


def test_bytes_shipped_are_of_one_connection() -> None:
    for at_s, sent, shipped in (
        (12.0, Sent("", 41, 9000), 2000),
        (12.0, Sent("", 42, 9000), None),
        (12.0, Sent("", 41, 100), None),
        (12.0, Sent("", 41, None), None),
        (12.0, None, None),
        (10.0, APPLIED.sent, None),
    ):
        later = replace(APPLIED, at_s=at_s, sent=sent)
        assert replica_truth("db2", later, APPLIED).shipped_bytes_per_s == shipped

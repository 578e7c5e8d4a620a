"""The servers' truth: figures by commit, checks that hold and that do not, how far replicas are behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replexplorer.core.load.interval import Interval
from replexplorer.core.server.counters import CommitGrowth, Rates, Sent, Source, Total
from replexplorer.core.server.truth import (
    ApplierSample,
    Behind,
    Lag,
    LagSeen,
    ReplicaTruth,
    littles_law,
    replica_truth,
    server_truth,
)
from tests.fakes.load import interval_of
from tests.typed import fields, table_of, values_of

FILES = {
    Source.BINLOG_WRITE: Total(250, 1),
    Source.BINLOG_FSYNC: Total(125, 1),
    Source.REDO_FSYNC: Total(260, 1),
}
RATES = Rates(5.0, commits=1000, acks=200, unprotected=3, ack_waits=150, ack_wait_ms=2.5)


GROWN = CommitGrowth(5.0, FILES)


def test_sizes_and_fsyncs_are_by_commit_and_what_is_not_counted_is_unknown(snapshot: object) -> None:
    """Without commits a group has a size of 0, and nothing else is known. `yes_tx` counts transactions under
    after_commit, so it makes no queue."""
    no_commits = replace(RATES, commits=0, acks=0)
    points = ("after_sync", "after_commit", None)
    found = [server_truth(RATES, GROWN, wait_point=point) for point in points]
    found += [server_truth(no_commits, GROWN, wait_point="after_sync")]
    assert [*found, server_truth(Rates(5.0), None, wait_point="after_sync")] == snapshot


# -- checks


def stretch(values_us: Sequence[int] = (4000,) * 20_000, **changes: Any) -> Interval:
    return interval_of(0.0, values_us, 10.0, **{"clients": 8, "connected": 8, **changes})


ACROSS_AN_END = [10_000_000] + [4000] * 1000
"""Of one client, that waited 10 s for a replica, most of it before this stretch began."""
LAW = """\
                        | True
clients=9 connected=9   | False
clients=7 connected=7   | False
; values_us=()          | False
values_us=()            | None
; clients=9 connected=9 | None
"""
"""What is so of one stretch or of two, and whether the law holds."""
NOT_ALL_AT_WORK = (
    "mode='open' errors=1 unknown=1 reconnects=1 deadlocks=1 lock_timeouts=1 connected=7 state='waiting'"
)


def holds(text: str) -> bool | None:
    """Whether the law does for these stretches; None: it is silent."""
    check = littles_law([stretch(**fields(one)) for one in text.split(";")])
    return None if check is None else check.holds


def test_littles_law_holds_within_five_percent_and_is_silent_while_clients_are_not_all_at_work() -> None:
    for changes, held in table_of(LAW):
        assert str(holds(changes)) == held, changes
    for change in NOT_ALL_AT_WORK.split():
        assert holds(change) is holds(f"; {change}") is None, change
    check = littles_law([stretch(ACROSS_AN_END, clients=1, connected=1)])
    assert check is not None
    assert check.holds


# -- replicas


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
APPLIED = ApplierSample(10.0, Behind("", "", None, 900_000), Sent("", 41, 5000))


LAGS = """\
      |     | -     900000 | 0.0
u:5-9 |     | 12500 900000 | 12.5
u:5-9 |     | -     900000 | 900.0
      | u:9 | -     900000 | 900.0
      | u:9 | -     -      | None
      | u:9 | -     -20    | 0.0
      | -   | -     900000 | 0.0
-     | -   | -     -      | None
"""
"""What is queued and missing, the ages in us of what is applied now and what was applied last, the lag."""


def test_lag_is_the_age_of_what_is_not_applied() -> None:
    for *gtids, ages, lag_ms in table_of(LAGS):
        queued, missing = (None if each == "-" else each for each in gtids)
        applying_us, applied_us = (None if each == "-" else int(each) for each in ages.split())
        behind = Behind(queued, missing, applying_us, applied_us)
        assert str(replica_truth("db2", replace(APPLIED, behind=behind), APPLIED).lag_ms) == lag_ms, gtids


PACES = """\
      |        | 1-100   | 50.0 | 0.0
1-100 | 51-100 |         | 25.0 | 2.0
1-100 | 51-200 | 101-200 | 25.0 | None
1-100 | 1-100  |         | 0.0  | None
1-100 | ?      | 101-200 | None | None
"""
"""What it lacked two seconds ago and lacks now, what was made since, a second's commits, and for how long."""


def test_a_replica_catches_up_at_the_pace_at_which_its_backlog_shrinks() -> None:
    def at(at_s: float, missing: str, executed: str) -> ApplierSample:
        gtids = None if missing == "?" else missing and f"{UUID}:{missing}"
        return ApplierSample(at_s, Behind(missing=gtids), Sent(executed and f"{UUID}:{executed}", 41, 0))

    for lacked, lacks, made, *pace in table_of(PACES):
        found = replica_truth("db2", at(12.0, lacks, made), at(10.0, lacked, ""))
        assert [str(found.applied_tps), str(found.drain_s)] == pace, lacked


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
    assert seen.lag == Lag(9.0, 4.0, "draining", "db2", 200.0), "of the looks at which it was late"


SHIPPED = """\
12.0 41 9000 2000
12.0 42 9000 None
12.0 41 100  None
12.0 41 None None
10.0 41 5000 None
"""
"""When it is looked at again, by which connection, how many bytes were sent, and bytes a second since."""


def test_bytes_shipped_are_of_one_connection() -> None:
    for at_s, thread, sent, shipped in values_of(SHIPPED):
        later = replace(APPLIED, at_s=at_s, sent=Sent("", thread, sent))
        assert replica_truth("db2", later, APPLIED).shipped_bytes_per_s == shipped, sent

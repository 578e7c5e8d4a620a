"""What a server counts: rates, commits taken apart in time, what one costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.counters import (
    BinlogLook,
    Binlogs,
    CommitCost,
    CommitSample,
    CostSample,
    CpuUsed,
    Sample,
    Sent,
    ServerStatus,
    Source,
    Total,
    binlog_growth,
    binlogs_of,
    commit_cost,
    growth,
    rates,
    restarted,
)
from replexplorer.reports.conditions import COST_HEADINGS, cost_cells, cost_line
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


def test_a_restart_ends_the_comparison() -> None:
    for later, anew in (
        (after(), False),
        (after(uptime_s=101), False),
        (after(uuid="b"), True),
        (after(uptime_s=1), True),
        (after(seconds=300.0, uptime_s=150), True),
        (after(seconds=300.0, uptime_s=398), False),
        (after(uptime_s=None), False),
    ):
        assert restarted(BEFORE, later) is anew, later
        assert (rates(BEFORE, later) is None) is anew
    assert rates(BEFORE, after(seconds=0.0)) is None


@given(
    booted_s=st.floats(-1e6, 0.0),
    moments=st.lists(st.floats(0.0, 1e4), min_size=6, max_size=6).map(sorted),
)
def test_no_delay_makes_a_running_server_a_restarted_one(booted_s: float, moments: list[float]) -> None:
    """Of each look: when it was asked for, read, and answered."""
    samples = [
        Sample(asked_s, ServerStatus(uptime_s=int(read_s - booted_s)), "a", answered_s)
        for asked_s, read_s, answered_s in (moments[:3], moments[3:])
    ]
    assert not restarted(*samples)


# -- what a server counts of commits, taken apart in time


def test_growth_is_the_difference_and_an_account_begins_with_nothing() -> None:
    before = CommitSample(1.0, {Source.ACK: Total(5, 10)})
    after = CommitSample(3.0, {Source.ACK: Total(7, 50), Source.IDLE: Total(9, 9)})
    found = known(growth(before, after))
    assert (found.duration_s, found.totals) == (
        2.0,
        {Source.ACK: Total(2, 40), Source.IDLE: Total(9, 9)},
    )
    assert found.has(Source.ACK)
    assert not found.has(Source.STATEMENT)
    assert found.total(Source.ACK).mean_ms == 20
    assert found.total(Source.STATEMENT).mean_ms is None


def test_a_counter_that_fell_or_no_time_says_nothing() -> None:
    before = CommitSample(1.0, {Source.ACK: Total(5, 10)})
    for at_s, total in ((3.0, Total(4, 100)), (3.0, Total(6, 9)), (1.0, Total(6, 20)), (0.0, Total(6, 20))):
        assert growth(before, CommitSample(at_s, {Source.ACK: total})) is None


# -- what a commit costs: counters of two moments over the commits between them


BINLOG = (("binlog.000001", 5_000),)
Listed = tuple[tuple[str, int], ...] | None
COST = CommitCost("db1", 100, {"db1": 800.4, "db2": None}, 1_200.0, 480.0, {"db2": 505.0})


def sample(commits: int | None = 100, uptime_s: int = 60, **other: object) -> CostSample:
    """Of two nodes that have made this many commits, each 1 ms of CPU and some bytes."""
    made = commits or 0
    counters = Sample(float(uptime_s), ServerStatus(uptime_s=uptime_s, binlog_cache_use=commits), "uuid")
    found = CostSample(
        "db1",
        counters,
        redo_bytes=1_000 * made,
        binlogs=(("binlog.000001", 300 * made),),
        cpu={"db1": CpuUsed("a", 0.001 * made), "db2": CpuUsed("b", 0.0005 * made)},
        streams={"db2": Sent("", 7, 310 * made)},
    )
    return replace(found, **other)  # type: ignore[arg-type]


def cost_of(
    before: CostSample | None, after: CostSample | None, acknowledged: int = 100
) -> CommitCost | None:
    return commit_cost(before, after, acknowledged=acknowledged)


def test_each_counter_s_growth_is_divided_by_the_commits() -> None:
    cost = known(cost_of(sample(100), sample(300, 70)))
    assert (cost.source, cost.commits) == ("db1", 200)
    assert cost.cpu_us == {"db1": pytest.approx(1_000), "db2": pytest.approx(500)}
    assert (cost.redo_bytes, cost.binlog_bytes, cost.sent_bytes) == (1_000, 300, {"db2": 310})


def test_without_commits_of_one_server_or_beside_reads_nothing_is_known() -> None:
    cases = {
        "no answer": None,
        "no count": sample(None, 70),
        "no commit": sample(100, 70),
        "restarted": sample(300, 2),
        "another source": sample(300, 70, source="db2"),
    }
    assert {case: cost_of(sample(100), after) for case, after in cases.items()} == dict.fromkeys(cases)
    assert cost_of(None, sample(300)) is None
    # 200 heartbeats beside 50,000 SELECTs: the CPU is the SELECTs'.
    assert cost_of(sample(100), sample(300, 70), acknowledged=50_000) is None


UNCOUNTED: list[Mapping[str, object]] = [
    {"redo_bytes": None},
    {"redo_bytes": 5},
    {"binlogs": None},
    {"cpu": {}},
    {"cpu": {"db1": CpuUsed("a", 9.0), "db2": CpuUsed("started again", 9.0)}},
    {"streams": {"db2": None}},
    {"streams": {"db2": Sent("", 8, 99_999_999)}},
    {"streams": {"db2": Sent("", 7, 1)}},
]


def test_what_is_not_counted_is_unknown_and_never_0(snapshot: object) -> None:
    found = [(changed, cost_of(sample(100), sample(300, 70, **changed))) for changed in UNCOUNTED]
    assert found == snapshot


GROWN: dict[str, tuple[Listed, Listed, int | None]] = {
    "one file": (BINLOG, (("binlog.000001", 5_400),), 400),
    "rotated": (BINLOG, (("binlog.000001", 9_000), ("binlog.000002", 700)), 4_700),
    "an older one purged": ((("binlog.000000", 1), *BINLOG), (("binlog.000001", 5_400),), 400),
    "purged": (BINLOG, (("binlog.000002", 700),), None),
    "reset": (BINLOG, (("binlog.000001", 100),), None),
    "unknown before": (None, BINLOG, None),
    "none after": (BINLOG, (), None),
}


def test_binlogs_grow_over_rotations_and_purges() -> None:
    for case, (before, after, grown) in GROWN.items():
        assert binlog_growth(before, after) == grown, case


def test_how_fast_binlogs_grow_takes_two_looks() -> None:
    first, then = BinlogLook(1.0, BINLOG), BinlogLook(3.0, (("binlog.000001", 9_000), ("binlog.000002", 700)))
    assert binlogs_of(None, then) == Binlogs(2, 9_700, "binlog.000002:700")
    assert binlogs_of(first, then) == Binlogs(2, 9_700, "binlog.000002:700", 2_350.0)
    assert binlogs_of(then, then) == binlogs_of(None, then), "no time between"
    assert binlogs_of(first, BinlogLook(3.0, None)) is None


def test_it_is_told_with_dashes_for_what_is_unknown(snapshot: object) -> None:
    cells = dict(zip(COST_HEADINGS, cost_cells(COST), strict=True))
    assert (cost_line(COST), cells, set(cost_cells(None))) == snapshot

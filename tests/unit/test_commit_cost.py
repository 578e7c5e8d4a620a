"""What a commit costs: counters of two moments over the commits between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from replexplorer.core.server.counters import (
    CommitCost,
    CostSample,
    CpuUsed,
    Sample,
    Sent,
    ServerStatus,
    binlog_growth,
    commit_cost,
)
from replexplorer.reports.conditions import COST_HEADINGS, cost_cells, cost_line

BINLOG = (("binlog.000001", 5_000),)
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
    cost = cost_of(sample(100), sample(300, 70))
    assert cost is not None
    assert (cost.source, cost.commits) == ("db1", 200)
    assert cost.cpu_us == {"db1": pytest.approx(1_000), "db2": pytest.approx(500)}
    assert (cost.redo_bytes, cost.binlog_bytes, cost.sent_bytes) == (1_000, 300, {"db2": 310})


@pytest.mark.parametrize(
    "after",
    [
        None,
        sample(None, 70),
        sample(100, 70),
        sample(300, 2),
        sample(300, 70, source="db2"),
    ],
    ids=["no answer", "no count", "no commit", "restarted", "another source"],
)
def test_without_commits_of_one_server_nothing_is_known(after: CostSample | None) -> None:
    assert cost_of(sample(100), after) is None
    assert cost_of(None, sample(300)) is None


def test_a_load_that_reads_has_no_cost_of_a_commit() -> None:
    # 200 heartbeats beside 50,000 SELECTs: the CPU is the SELECTs'.
    assert cost_of(sample(100), sample(300, 70), acknowledged=50_000) is None


@pytest.mark.parametrize(
    ("changed", "unknown"),
    [
        ({"redo_bytes": None}, {"redo"}),
        ({"redo_bytes": 5}, {"redo"}),
        ({"binlogs": None}, {"binlog"}),
        ({"cpu": {}}, {"db1 CPU", "db2 CPU"}),
        ({"cpu": {"db1": CpuUsed("a", 9.0), "db2": CpuUsed("started again", 9.0)}}, {"db2 CPU"}),
        ({"streams": {"db2": None}}, {"db2 sent"}),
        ({"streams": {"db2": Sent("", 8, 99_999_999)}}, {"db2 sent"}),
        ({"streams": {"db2": Sent("", 7, 1)}}, {"db2 sent"}),
    ],
)
def test_what_is_not_counted_is_unknown_and_never_0(changed: Mapping[str, object], unknown: set[str]) -> None:
    cost = cost_of(sample(100), sample(300, 70, **changed))
    assert cost is not None
    figures = {
        "redo": cost.redo_bytes,
        "binlog": cost.binlog_bytes,
        **{f"{name} CPU": value for name, value in cost.cpu_us.items()},
        **{f"{name} sent": value for name, value in cost.sent_bytes.items()},
    }
    assert {name for name, value in figures.items() if value is None} == unknown
    assert 0 not in figures.values()


@pytest.mark.parametrize(
    ("before", "after", "growth"),
    [
        (BINLOG, (("binlog.000001", 5_400),), 400),
        (BINLOG, (("binlog.000001", 9_000), ("binlog.000002", 700)), 4_700),
        ((("binlog.000000", 1), *BINLOG), (("binlog.000001", 5_400),), 400),
        (BINLOG, (("binlog.000002", 700),), None),
        (BINLOG, (("binlog.000001", 100),), None),
        (None, BINLOG, None),
        (BINLOG, (), None),
    ],
    ids=["one file", "rotated", "an older one purged", "purged", "reset", "unknown before", "none after"],
)
def test_binlogs_grow_over_rotations_and_purges(
    before: tuple[tuple[str, int], ...] | None, after: tuple[tuple[str, int], ...], growth: int | None
) -> None:
    assert binlog_growth(before, after) == growth


def test_it_is_told_with_dashes_for_what_is_unknown() -> None:
    assert cost_line(COST) == (
        "CPU us: db1 800, db2 -; bytes: redo 1,200, binlog 480, to db2 505 (of 100 commits)"
    )
    assert dict(zip(COST_HEADINGS, cost_cells(COST), strict=True)) == {
        "CPU us": "800",
        "replica CPU us": "-",
        "redo B": "1,200",
        "binlog B": "480",
        "sent B": "505",
    }
    assert set(cost_cells(None)) == {"-"}

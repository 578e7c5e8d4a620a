"""What a server counts: rates, commits taken apart in time, what one costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    binlogs_of,
    commit_cost,
    growth,
    rates,
    restarted,
)
from replexplorer.reports.conditions import COST_HEADINGS, cost_cells, cost_line
from tests.known import known
from tests.typed import fields, table_of

STATUS = ServerStatus(
    uptime_s=100, binlog_cache_use=1000, yes_tx=10, no_tx=5, no_times=1, tx_waits=8, tx_wait_time_us=80_000
)
BEFORE = Sample(50.0, STATUS, "a")


def after(seconds: float = 2.0, uuid: str = "a", **changes: int | None) -> Sample:
    status = replace(STATUS, **{"uptime_s": 102, **changes})  # type: ignore[arg-type]
    return Sample(50.0 + seconds, status, uuid)


def test_rates_are_differences_over_time_and_what_is_unknown_stays_so(snapshot: object) -> None:
    """A counter that fell is unknown, as after FLUSH STATUS."""
    bare = Sample(0.0, ServerStatus()), Sample(1.0, ServerStatus(binlog_cache_use=5))
    grown = "binlog_cache_use=1500 yes_tx=30 no_tx=6 no_times=2 tx_waits=18 tx_wait_time_us=930_000"
    told = {
        "grown": rates(BEFORE, after(**fields(grown))),
        "flushed": rates(BEFORE, after(binlog_cache_use=1100, yes_tx=1, no_tx=0)),
        "bare": rates(*bare),
        "idle": rates(BEFORE, after()),
    }
    assert told == snapshot
    assert [each and each.tps for each in told.values()] == [250, 50, None, 0]


LATER = """\
                                         |
uptime_s=101                             |
uuid="b"                                 | restarted
uptime_s=1                               | restarted
seconds=300.0 uptime_s=150               | restarted
seconds=300.0 uptime_s=398               |
seconds=300.0 uptime_s=150 late_s=249.0  |
seconds=300.0 uptime_s=150 late_s=240.0  | restarted
uptime_s=None                            |
"""
"""The server's uptime, which was 100 s, this much later, where the first answer was late by so much: it may
have been read at any moment since it was asked for."""


def test_a_restart_ends_the_comparison() -> None:
    for line, said in table_of(LATER):
        changes = fields(line)
        before, later = replace(BEFORE, answered_s=50 + changes.pop("late_s", 0.0)), after(**changes)
        assert restarted(before, later) is bool(said), line
        assert (rates(before, later) is None) is bool(said)
    assert rates(BEFORE, after(seconds=0.0)) is None


# -- what a server counts of commits, taken apart in time


def test_growth_is_the_difference_and_an_account_begins_with_nothing(snapshot: object) -> None:
    """A counter that fell, and no time, say nothing."""
    before = CommitSample(1.0, {Source.ACK: Total(5, 10)})
    assert growth(before, CommitSample(3.0, {Source.ACK: Total(7, 50), Source.IDLE: Total(9, 9)})) == snapshot
    for at_s, times, ms in ((3.0, 4, 100), (3.0, 6, 9), (1.0, 6, 20), (0.0, 6, 20)):
        assert growth(before, CommitSample(at_s, {Source.ACK: Total(times, ms)})) is None


# -- what a commit costs: counters of two moments over the commits between them


Listed = tuple[tuple[str, int], ...] | None


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


def test_each_counter_s_growth_is_divided_by_the_commits(snapshot: object) -> None:
    """What is unknown is a dash."""
    found = known(cost_of(sample(100), sample(300, 70)))
    unknown = cost_of(sample(100), sample(300, 70, redo_bytes=None, cpu={}, streams={"db2": None}))
    told = [(cost_line(each), cost_cells(each)) for each in (found, unknown) if each]
    assert (found, told, COST_HEADINGS, set(cost_cells(None))) == snapshot


def test_without_commits_of_one_server_or_next_to_reads_nothing_is_known() -> None:
    """200 heartbeats next to 50,000 SELECTs: the CPU is the SELECTs'."""
    no_count, no_commit, restarted = sample(None, 70), sample(100, 70), sample(300, 2)
    for after in (None, no_count, no_commit, restarted, sample(300, 70, source="db2")):
        assert cost_of(sample(100), after) is None
    assert cost_of(None, sample(300)) is None
    assert cost_of(sample(100), sample(300, 70), acknowledged=50_000) is None


UNCOUNTED: list[Mapping[str, object]] = [
    {"redo_bytes": 5},
    {"binlogs": None},
    {"cpu": {"db1": CpuUsed("a", 9.0), "db2": CpuUsed("started again", 9.0)}},
    {"streams": {"db2": Sent("", 8, 99_999_999)}},
    {"streams": {"db2": Sent("", 7, 1)}},
]


def test_what_is_not_counted_is_unknown_and_never_0(snapshot: object) -> None:
    found = [(changed, cost_of(sample(100), sample(300, 70, **changed))) for changed in UNCOUNTED]
    assert found == snapshot


GROWN = """\
one file            | 1:5000     | 1:5400       | 200.0
rotated             | 1:5000     | 1:9000 2:700 | 2350.0
an older one purged | 0:1 1:5000 | 1:5400       | 200.0
purged              | 1:5000     | 2:700        | None
reset               | 1:5000     | 1:100        | None
unknown before      | ?          | 1:5000       | None
none after          | 1:5000     |              | None
"""
"""Numbers and bytes of binlogs before and after, and how much they grew in a second."""


def listed(text: str) -> Listed:
    """`1:5000 2:700`: binlogs and their bytes; `?`: it is not known which there are."""
    if "?" in text:
        return None
    pairs = (each.split(":") for each in text.split())
    return tuple((f"binlog.00000{number}", int(size)) for number, size in pairs)


def test_binlogs_grow_over_rotations_and_purges_between_two_looks() -> None:
    for case, before, after, grown in table_of(GROWN):
        found = binlogs_of(BinlogLook(1.0, listed(before)), BinlogLook(3.0, listed(after)))
        assert str(found and found.bytes_per_s) == grown, case
    assert known(binlogs_of(None, BinlogLook(3.0, listed("1:9000 2:700")))) == Binlogs(
        2, 9700, "binlog.000002:700"
    )

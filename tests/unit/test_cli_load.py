"""The load's interval line and report, as pure functions of intervals."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.arguments import parse
from replexplorer.cli.load import command_of
from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.drill_result import Passage
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.load.interval import Interval, Measurement, ProcessWork
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import Conditions, MachineFacts, SettingValues
from replexplorer.core.text import utc
from replexplorer.formats.documents import plain
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import again
from replexplorer.reports.load import (
    IntervalLines,
    LoadReport,
    interval_line,
    load_course,
    load_report,
    render,
)

SYSBENCH_LINE = re.compile(
    r"\[ (\d+)s \] thds: (\d+) tps: ([\d.]+) qps: ([\d.]+) \(r/w/o: ([\d.]+)/([\d.]+)/([\d.]+)\) "
    r"lat \(ms,95%\): ([\d.]+) err/s: ([\d.]+) reconn/s: ([\d.]+)"
)


def interval(start_s: float, durations_us: list[int], *, length_s: float = 1.0, **counts: int) -> Interval:
    return Interval(
        start_s=start_s,
        end_s=start_s + length_s,
        service=Histogram.of(durations_us),
        errors=counts.get("errors", 0),
        unknown=counts.get("unknown", 0),
        reconnects=counts.get("reconnects", 0),
        clients=1,
        connected=1,
        workload="update_index",
        lateness=Histogram.of([250]),
        work=(ProcessWork(1, 1, len(durations_us), 0.12 * length_s, length_s),),
        writes=len(durations_us),
    )


def test_the_line_is_sysbenchs() -> None:
    line = interval_line(interval(5.0, [88_000] * 11), 1)
    assert line == (
        "[ 1s ] thds: 1 tps: 11.00 qps: 11.00 (r/w/o: 0.00/11.00/0.00) "
        "lat (ms,95%): 88.00 err/s: 0.00 reconn/s: 0.00"
    )


def test_an_idle_interval_with_errors_is_still_a_line() -> None:
    line = interval_line(interval(5.0, [], length_s=0.5, errors=3, unknown=1, reconnects=2), 7)
    match = SYSBENCH_LINE.fullmatch(line)
    assert match is not None
    assert [match[group] for group in (1, 3, 8, 9, 10)] == ["7", "0.00", "0.00", "8.00", "4.00"]


def an_open_interval(start_s: float) -> Interval:
    response = Histogram.of([50_000] * 10)
    return replace(
        interval(start_s, [2_000] * 10),
        mode="open",
        rate_asked_tps=500.0,
        response=response,
        arrivals=20,
        backlog=7,
        backlog_max=9,
        dropped=3,
        under_way=1,
        reads=140,
        others=20,
        writes=40,
        deadlocks=2,
        lock_timeouts=1,
        errors_by_number={"1290": 4},
    )


def test_an_open_interval_tells_response_and_queue() -> None:
    lines = interval_line(an_open_interval(0.0), 1).splitlines()
    assert lines == [
        "[ 1s ] thds: 1 tps: 10.00 qps: 200.00 (r/w/o: 140.00/40.00/20.00) "
        "lat (ms,95%): 50.00 err/s: 3.00 reconn/s: 0.00",
        "[ 1s ] queue length: 7, concurrency: 1, dropped: 3",
    ]


def test_an_open_report_tells_what_was_asked_and_what_became_of_it() -> None:
    settings = LoadSettings(8, "read_write", mode="open", rate_tps=500.0)
    report = load_report(measured(an_open_interval(0.0)), settings, path="direct")
    assert (report.mode, report.rate_asked_tps) == ("open", 500.0)
    assert report.response_ms is not None
    assert (report.response_ms.p99, report.latency_ms.p99) == (50.0, 2.0)
    assert (report.generator.arrivals, report.generator.dropped, report.generator.backlog_max) == (20, 3, 9)
    assert (report.qps, report.queries) == (200.0, {"read": 140, "write": 40, "other": 20})
    assert (report.deadlocks, report.lock_timeouts, report.errors_by_number) == (2, 1, {"1290": 4})
    text = render(report)
    for words in (
        "open loop at 500.0 TPS",
        "response ms",
        "deadlocks 2",
        "1290: 4",
        "dropped 3",
        "open loop: ",
    ):
        assert words in text


def test_a_report_names_the_load_s_own_limit() -> None:
    busy = replace(interval(0.0, [500] * 10), work=(ProcessWork(1, 8, 10, 0.95, 1.0),))
    report = load_report(measured(busy), LoadSettings(8, "insert"), path="direct")
    assert report.generator.limited == "generator at 95 % of a core"
    assert "generator at 95 % of a core" in render(report)


def measured(*intervals: Interval) -> Measurement:
    total = Measurement()
    for each in intervals:
        total.add(each)
    return total


def test_lines_begin_after_preparing_and_warming_up() -> None:
    lines = IntervalLines(warmup_s=1.5)
    preparing = replace(interval(0.0, []), state="preparing")
    shown = [lines.line(each) for each in (preparing, *(interval(second, [1_000]) for second in range(1, 6)))]
    assert shown[:3] == [None, None, None]
    assert [line[:7] for line in shown[3:] if line] == ["[ 1s ] ", "[ 2s ] ", "[ 3s ] "]


def test_the_mean_commit_is_taken_apart_where_it_was_counted() -> None:
    run = measured(interval(0.0, [500, 700]))
    settings = LoadSettings(3, "foo")
    assert "commit ms" not in render(load_report(run, settings, path="direct"))
    parts = {Part.REDO: 0.31, Part.BINLOG: 0.2, Part.OTHER: 0.0}
    found = Anatomy(duration_s=0.9, commits=2, mean_ms=0.5, parts=parts, excess_ms=0.01)
    report = load_report(run, settings, path="direct", anatomy=found)
    assert report.anatomy is not None
    assert plain(report)["anatomy"]["parts_ms"] == {"redo": 0.31, "binlog": 0.2, "other": 0.0}
    told = (
        "redo 0.31  binlog 0.20  other 0.00  (mean 0.50 of 2 of 2 commits; together the parts are 0.01 more)"
    )
    assert told in render(report)


def test_the_report_has_every_field_of_the_contract() -> None:
    run = measured(interval(0.0, [500, 700, 90_000], errors=1, unknown=2, reconnects=3))
    document = plain(load_report(run, LoadSettings(3, "foo"), path="direct"))
    assert list(document) == [
        "workload",
        "mode",
        "clients",
        "rate_asked_tps",
        "duration_s",
        "commits",
        "errors",
        "unknown",
        "reconnects",
        "tps",
        "latency_ms",
        "response_ms",
        "generator",
        "intervals",
        "qps",
        "queries",
        "deadlocks",
        "lock_timeouts",
        "conflicts",
        "errors_by_number",
        "anatomy",
        "commit_cost",
        "hides",
        "started",
        "warmup_s",
        "table_size",
        "workload_text",
        "interrupted",
        "conditions",
        "course",
        "ledger",
        "limit",
        "again",
    ]
    assert list(document["latency_ms"]) == ["mean", "min", "p50", "p95", "p99", "max"]
    assert document["generator"] == {
        "processes": 1,
        "cpu_percent": 12.0,
        "lateness_p99_ms": 0.25,
        "backlog_max": 0,
        "dropped": 0,
        "arrivals": None,
        "limited": None,
        "path": "direct",
        "client_log": None,
        "shares": [{"process": 1, "clients": 1, "commits": 3, "tps": 3.0, "cpu_percent": 12.0}],
    }
    assert list(document["intervals"][0])[:6] == ["t_s", "tps", "p50_ms", "p95_ms", "p99_ms", "errors"]
    assert (document["errors"], document["unknown"], document["reconnects"]) == (1, 2, 3)
    assert document["response_ms"] is None
    assert document["rate_asked_tps"] is None


def test_a_load_without_a_commit_has_no_latency() -> None:
    report = load_report(measured(interval(0.0, [])), LoadSettings(1, "insert"), path=None)
    assert report.tps == 0.0
    assert set(asdict(report.latency_ms).values()) == {None}
    assert "mean -" in render(report)


@given(st.lists(st.lists(st.integers(50, 5_000_000), max_size=30), min_size=1, max_size=8))
def test_the_report_merges_and_never_averages(seconds: list[list[int]]) -> None:
    run = measured(*(interval(float(start_s), durations_us) for start_s, durations_us in enumerate(seconds)))
    everything = [duration for second in seconds for duration in second]
    report = load_report(run, LoadSettings(4, "insert"), path="direct")
    assert report.commits == len(everything)
    assert [row.t_s for row in report.intervals] == [float(second + 1) for second in range(len(seconds))]
    if everything:
        assert report.latency_ms.max == pytest.approx(max(everything) / 1000, abs=0.001)
        assert report.latency_ms.mean == pytest.approx(sum(everything) / len(everything) / 1000, abs=0.001)


def conditions(**settings: tuple[Value, Value | None]) -> Conditions:
    return Conditions(
        program="0.1.0",
        server="mysql 9.7.4-2",
        replicas=2,
        machine=MachineFacts(
            words="2 cores, 8 GB, Linux 6.1 x86_64",
            cores=2,
            memory_bytes=8 << 30,
            kernel="Linux 6.1.0",
            architecture="x86_64",
            cpu="Some CPU",
        ),
        settings={
            name.replace("__", "@"): SettingValues(requested=asked, effective=found)
            for name, (asked, found) in settings.items()
        },
    )


UNDER = conditions(semi_sync=("on", "on"), sync_binlog=(1, 0), rtt__db2=(85.0, 85.0), clients=(8, None))


def under(report: LoadReport, interrupted: str | None = None) -> LoadReport:
    """With what the load ran under and went through."""
    passage = Passage(
        {"protected": 6.0, "blocked": 10.0},
        1,
        18_678,
        (Event(103.0, 1_760_000_003.0, Severity.MARK, "partition none → both"),),
    )
    report.started, report.conditions = utc(1_760_000_000.0), UNDER
    report.course, report.interrupted = load_course(passage, 100.0), interrupted
    return report


def test_a_report_says_what_it_measured_and_what_happened_meanwhile() -> None:
    """10 s of stall and a fall back to asynchronous used to be 'TPS 417, errors 0' and nothing else."""
    settings = LoadSettings(8, "insert")
    report = under(load_report(measured(interval(0.0, [500] * 10)), settings, path="direct"))
    assert report.course is not None
    assert asdict(report.course) == {
        "protection_s": {"protected": 6.0, "blocked": 10.0},
        "fallbacks": 1,
        "unprotected_commits": 18_678,
        "events": [
            {"t_s": 3.0, "at": "2025-10-09T08:53:23Z", "severity": "mark", "text": "partition none → both"}
        ],
    }
    assert (report.started, report.table_size, report.interrupted) == ("2025-10-09T08:53:20Z", 10_000, None)
    text = render(report)
    for words in (
        "from 2025-10-09 08:53:20 UTC",
        "mysql 9.7.4-2, 2 replicas",
        "2 cores, 8 GB, Linux 6.1 x86_64, Some CPU",
        "semi_sync on, sync_binlog 1 (0 in effect), rtt@db2 85 ms",
        "PROTECTED 6.0 s, BLOCKED 10.0 s; fell back to asynchronous 1 time;",
        "18,678 commits that no replica had",
        "3.0 s: partition none → both",
    ):
        assert words in text


def test_a_load_that_was_ended_says_so() -> None:
    report = load_report(measured(interval(0.0, [500])), LoadSettings(8, "insert"), path="direct")
    assert "; ended early: interrupted" in render(under(report, "interrupted"))


def test_the_same_can_be_run_again_elsewhere() -> None:
    args = parse(["--stack", "mine", "load", "--duration", "30", "--warmup", "2"])
    command = command_of(args, LoadSettings(8, "insert", mode="open", rate_tps=500.0))
    assert again(UNDER, command, varied=("clients",)) == [
        "replexplorer up --replicas 2",
        "replexplorer reset",
        "replexplorer set semi_sync=on rtt@db2=85.0",
        "replexplorer load --clients 8 --workload insert --rate 500 --arrivals poisson --table-size 10000"
        " --duration 30 --warmup 2",
    ]

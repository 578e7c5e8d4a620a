"""The load's interval line and report, as pure functions of intervals."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.load_report import IntervalLines, interval_line, load_report, render
from replexplorer.config.shapes import LoadReport
from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval
from replexplorer.engine.measure import Measurement

SYSBENCH_LINE = re.compile(
    r"\[ (\d+)s \] thds: (\d+) tps: ([\d.]+) qps: ([\d.]+) \(r/w/o: ([\d.]+)/([\d.]+)/([\d.]+)\) "
    r"lat \(ms,95%\): ([\d.]+) err/s: ([\d.]+) reconn/s: ([\d.]+)"
)


def interval(start_s: float, durations_us: list[int], *, length_s: float = 1.0, **counts: int) -> Interval:
    histogram = Histogram()
    for duration_us in durations_us:
        histogram.record(duration_us)
    return Interval(
        start_s=start_s,
        end_s=start_s + length_s,
        service=histogram,
        errors=counts.get("errors", 0),
        unknown=counts.get("unknown", 0),
        reconnects=counts.get("reconnects", 0),
        clients=1,
        connected=1,
        workload="update_index",
        cpu_percent=12.0,
        lateness_p99_ms=0.25,
    )


def test_the_line_is_sysbenchs() -> None:
    line = interval_line(interval(5.0, [88_000] * 11), 1.0)
    assert line == (
        "[ 1s ] thds: 1 tps: 11.00 qps: 11.00 (r/w/o: 0.00/11.00/0.00) "
        "lat (ms,95%): 88.00 err/s: 0.00 reconn/s: 0.00"
    )


def test_an_idle_interval_with_errors_is_still_a_line() -> None:
    line = interval_line(interval(5.0, [], length_s=0.5, errors=3, unknown=1, reconnects=2), 7.4)
    match = SYSBENCH_LINE.fullmatch(line)
    assert match is not None
    assert [match[group] for group in (1, 3, 8, 9, 10)] == ["7", "0.00", "0.00", "8.00", "4.00"]


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


def test_the_report_has_every_field_of_the_contract() -> None:
    run = measured(interval(0.0, [500, 700, 90_000], errors=1, unknown=2, reconnects=3))
    document = load_report(run, workload="foo", clients=3, path="direct").model_dump(mode="json")
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
    ]
    assert list(document["latency_ms"]) == ["mean", "min", "p50", "p95", "p99", "max"]
    assert document["generator"] == {
        "processes": 1,
        "cpu_percent": 12.0,
        "lateness_p99_ms": 0.25,
        "backlog_max": None,
        "dropped": None,
        "path": "direct",
    }
    assert list(document["intervals"][0]) == ["t_s", "tps", "p50_ms", "p95_ms", "p99_ms", "errors"]
    assert (document["errors"], document["unknown"], document["reconnects"]) == (1, 2, 3)
    assert document["response_ms"] is None
    assert document["rate_asked_tps"] is None
    LoadReport.model_validate(document)


def test_a_load_without_a_commit_has_no_latency() -> None:
    report = load_report(measured(interval(0.0, [])), workload="insert", clients=1, path=None)
    assert report.tps == 0.0
    assert set(report.latency_ms.model_dump().values()) == {None}
    assert "mean -" in render(report)


@given(st.lists(st.lists(st.integers(50, 5_000_000), max_size=30), min_size=1, max_size=8))
def test_the_report_merges_and_never_averages(seconds: list[list[int]]) -> None:
    run = measured(*(interval(float(start_s), durations_us) for start_s, durations_us in enumerate(seconds)))
    everything = [duration for second in seconds for duration in second]
    report = load_report(run, workload="insert", clients=4, path="direct")
    assert report.commits == len(everything)
    assert [row.t_s for row in report.intervals] == [float(second + 1) for second in range(len(seconds))]
    if everything:
        assert report.latency_ms.max == pytest.approx(max(everything) / 1000, abs=0.001)
        assert report.latency_ms.mean == pytest.approx(sum(everything) / len(everything) / 1000, abs=0.001)

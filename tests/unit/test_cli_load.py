"""The load's interval line and report, as pure functions of intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.cli.arguments import parse
from replexplorer.cli.load import command_of, settings_of
from replexplorer.core.experiment.drill_result import CourseEvent, Passage
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.load.interval import Interval, Measurement, ProcessWork
from replexplorer.core.load.pacing import POISSON
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.truth import Lag
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import Conditions, MachineFacts, SettingValues
from replexplorer.core.text import utc
from replexplorer.formats.documents import to_json
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import again
from replexplorer.reports.load import IntervalLines, LoadReport, interval_line, load_report, render
from tests.fakes.load import interval_of
from tests.known import refused
from tests.typed import fields


def interval(start_s: float, durations_us: list[int], *, length_s: float = 1.0, **counts: int) -> Interval:
    work = (ProcessWork(1, 1, len(durations_us), 0.12 * length_s, length_s),)
    more = {"workload": "update_index", "lateness": Histogram.of([250]), "work": work, **counts}
    return interval_of(start_s, durations_us, length_s, writes=len(durations_us), **more)


def an_open_interval(start_s: float) -> Interval:
    response = Histogram.of([50_000] * 10)
    return replace(
        interval(start_s, [2_000] * 10),
        mode="open",
        rate_asked_tps=500.0,
        response=response,
        errors_by_number={"1290": 4},
        **fields(
            "arrivals=20 backlog=7 backlog_max=9 dropped=3 under_way=1 reads=140 others=20 writes=40"
            " deadlocks=2 lock_timeouts=1"
        ),
    )


def reported(*intervals: Interval, settings: LoadSettings | None = None, **more: Any) -> LoadReport:
    total = Measurement()
    for each in intervals:
        total.add(each)
    return load_report(total, settings or LoadSettings(8, "insert"), path="direct", **more)


def test_lines_begin_after_preparing_and_warming_up() -> None:
    lines = IntervalLines(1.5)
    told = [replace(interval(0.0, []), state="preparing"), *(interval(at, [1_000]) for at in range(1, 5))]
    assert [(lines.line(each) or "")[:7] for each in told] == ["", "", "", "[ 1s ] ", "[ 2s ] "]


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
WENT_THROUGH = Passage(
    {"protected": 6.0, "blocked": 10.0},
    1,
    18_678,
    [CourseEvent(3.0, utc(1_760_000_003.0), "mark", "partition none → both")],
)


def test_the_same_can_be_run_again_elsewhere(snapshot: object) -> None:
    args = parse(["--stack", "mine", "load", "--duration", "30", "--warmup", "2"])
    asked = LoadSettings(8, "insert", mode="open", rate_tps=500.0, processes=2)
    assert again(UNDER, command_of(args, asked), varied=("clients",)) == snapshot
    two = parse(["load", "--processes", "2", "--rate", "20"])
    wanted = LoadSettings(8, "insert", mode="open", rate_tps=20.0, spacing=POISSON, processes=2)
    assert settings_of(two, LoadSettings(8, "insert"), None) == wanted
    assert "needs a client" in refused(settings_of, two, replace(asked, clients=0), None)
    three = parse(["load", "--processes", "3", "--clients", "2"])
    assert "--processes 3 for 2 clients, and each needs one" in refused(settings_of, three, asked, None)


TEN = interval(0.0, [500] * 10)
SECOND = replace(TEN, work=(ProcessWork(2, 1, 10, 0.2, 1.0),))
COUNTED = Anatomy(0.9, 2, 0.5, {Part.REDO: 0.31, Part.BINLOG: 0.2, Part.OTHER: 0.0}, excess_ms=0.01)
REPORTS = {
    "closed": reported(
        interval(0.0, [500, 700, 90_000], errors=1, unknown=2, reconnects=3), interval(1.0, [600])
    ),
    "open": reported(
        an_open_interval(0.0), settings=LoadSettings(8, "read_write", mode="open", rate_tps=500.0)
    ),
    "limited by the load itself": reported(replace(TEN, work=(ProcessWork(1, 8, 10, 0.95, 1.0),))),
    "of two processes": reported(TEN.beside(SECOND)),
    "taken apart": reported(interval(0.0, [500, 700]), anatomy=COUNTED, lag=Lag(12.0, 9.0, "growing", "db2")),
    "without a commit": reported(interval(0.0, [])),
    "with a client log": reported(
        replace(TEN, log_sync=Histogram.of([2_000] * 3), log_wait=Histogram.of([1_500] * 10))
    ),
    "under conditions, and ended early": replace(
        reported(TEN),
        started=utc(1_760_000_000.0),
        conditions=UNDER,
        course=WENT_THROUGH,
        interrupted="interrupted",
    ),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_report_in_words_and_as_a_document(report: LoadReport, snapshot: SnapshotAssertion) -> None:
    assert render(report) == snapshot
    assert to_json(report) == snapshot


def test_lines_are_sysbench_s(snapshot: SnapshotAssertion) -> None:
    idle = interval(5.0, [], length_s=0.5, errors=3, unknown=1, reconnects=2)
    several = interval(5.0, [88_000] * 11), idle, an_open_interval(0.0)
    assert "\n".join(interval_line(each, 1) for each in several) == snapshot

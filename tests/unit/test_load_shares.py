"""How many processes a load has, what each of them has of it, and what they are together."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.arguments import parse
from replexplorer.cli.load import command_of, settings_of
from replexplorer.core.errors import UsageError
from replexplorer.core.load.interval import Interval, ProcessWork, processes_that_help
from replexplorer.core.load.pacing import OPEN, share_out, shares_of
from replexplorer.core.server.anatomy import Anatomy, Part, limit_of
from replexplorer.core.stats.histogram import Histogram
from replexplorer.formats.documents import plain
from replexplorer.ports import LoadSettings
from replexplorer.reports.load import load_report, render
from tests.fakes.load import interval_of
from tests.unit.test_cli_load import measured


@pytest.mark.parametrize("text", ["0", "65", "9999999999999999999", "-1", "two", "", "far=1"])
def test_what_is_no_number_of_processes_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--processes"):
        parse(["load", f"--processes={text}"])


def test_the_command_line_asks_for_processes_and_says_them_again() -> None:
    wanted = LoadSettings(8, "insert")
    args = parse(["load", "--processes", "2"])
    settings = settings_of(args, wanted, None)
    assert settings.processes == 2
    assert command_of(args, settings)[-6:-4] == ["--processes", "2"]
    assert settings_of(parse(["load"]), replace(wanted, processes=1), None).processes == 1
    with pytest.raises(UsageError, match="--processes 3 for 2 clients, and each needs one"):
        settings_of(parse(["load", "--processes", "3", "--clients", "2"]), wanted, None)


@given(st.integers(1, 1024), st.integers(1, 12))
def test_shares_are_the_whole_and_one_leads(clients: int, processes: int) -> None:
    parts = shares_of(share_out(clients, [], processes))
    assert [part.leads for part in parts] == [True, *[False] * (processes - 1)]
    assert sum(part.clients for part in parts) == clients
    assert fsum(part.share for part in parts) == pytest.approx(1.0)
    assert [part.phase for part in parts] == pytest.approx(
        [fsum(each.share for each in parts[:at]) for at in range(processes)]
    )


def an_interval(start_s: float, durations_us: list[int], number: int) -> Interval:
    work = ProcessWork(number, 2, len(durations_us), 0.1, 0.5)
    return interval_of(start_s, durations_us, clients=2, connected=2, work=(work,))


durations = st.lists(st.integers(0, 5_000_000), max_size=30)


@given(st.lists(st.lists(durations, min_size=1, max_size=4), min_size=1, max_size=4))
def test_shares_add_up_exactly_however_the_time_was_cut(found: list[list[list[int]]]) -> None:
    """Each process's intervals one after the other, then side by side; and the histogram is that of all."""
    each = [
        reduce(Interval.followed_by, [an_interval(at / 2, part, number) for at, part in enumerate(parts)])
        for number, parts in enumerate(found, 1)
    ]
    total = reduce(Interval.beside, each)
    assert [work.number for work in total.work] == list(range(1, len(found) + 1))
    assert sum(work.commits for work in total.work) == total.commits
    assert [work.commits for work in total.work] == [sum(map(len, parts)) for parts in found]
    assert [work.cpu_percent for work in total.work] == [pytest.approx(20.0)] * len(found)
    whole = Histogram.of(duration for parts in found for part in parts for duration in part)
    assert total.service == whole
    assert Interval.from_wire(json.loads(json.dumps(total.to_wire()))) == total


def test_the_report_has_the_share_of_each() -> None:
    both = an_interval(0.0, [100] * 30, 1).beside(an_interval(0.0, [100] * 10, 2))
    report = load_report(measured(both), LoadSettings(4, "insert"), path="direct")
    assert report.generator.processes == 2
    assert plain(report)["generator"]["shares"] == [
        {"process": 1, "clients": 2, "commits": 30, "tps": 60.0, "cpu_percent": 20.0},
        {"process": 2, "clients": 2, "commits": 10, "tps": 20.0, "cpu_percent": 20.0},
    ]
    assert "2 clients: 60.00 TPS, CPU 20 %" in render(report)
    alone = load_report(measured(an_interval(0.0, [100], 1)), LoadSettings(2, "insert"), path="direct")
    assert "process 1" not in render(alone)


@pytest.mark.parametrize(
    ("limited", "processes", "clients", "more"),
    [
        (None, 1, 8, None),
        ("generator at 93 % of a core", 1, 8, 2),
        ("generator at 93 % of a core", 3, 8, 6),
        ("generator at 93 % of a core", 3, 4, 4),
        ("generator at 93 % of a core", 1, 1, None),
        ("generator at 93 % of a core", 0, 8, None),
        ("all 8 clients busy, 1,200 arrivals wait", 1, 8, None),
    ],
)
def test_more_processes_are_named_where_a_core_is_full(
    limited: str | None, processes: int, clients: int, more: int | None
) -> None:
    assert processes_that_help(limited, processes, clients) == more


CALM = an_interval(0.0, [20_000] * 50, 1)
ON_THE_WAY = Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 2.0, Part.ACK: 17.5})
AT_THE_SERVER = Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 17.0, Part.ACK: 2.5})


def test_the_limit_is_the_first_that_shows_and_unknown_where_none_does(snapshot: object) -> None:
    asked = replace(CALM, mode=OPEN)
    looks: list[tuple[Interval, str | None, float | None, Anatomy | None]] = [
        (CALM, None, 97.0, ON_THE_WAY),
        (CALM, "generator at 93 % of a core", 97.0, None),
        (CALM, "generator at 93 % of a core", 60.0, None),
        (CALM, "generator 9 ms late", None, None),
        (CALM, None, 20.0, ON_THE_WAY),
        (CALM, None, 20.0, AT_THE_SERVER),
        (asked, None, 20.0, ON_THE_WAY),
        (replace(asked, dropped=3), None, 20.0, ON_THE_WAY),
        (CALM, None, None, None),
        (CALM, None, 20.0, Anatomy(5.0, 50, 20.0)),
    ]
    told = [
        limit_of(total, limited=limited, machine_percent=machine_percent, anatomy=anatomy)
        for total, limited, machine_percent, anatomy in looks
    ]
    assert told == snapshot

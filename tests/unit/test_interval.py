"""A load's intervals merge exactly and at the same cuts; its processes, and what each has of it."""

from __future__ import annotations

import json
from ast import literal_eval
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import fsum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.arguments import parse
from replexplorer.cli.load import command_of, settings_of
from replexplorer.core.load.interval import Cuts, Interval, ProcessWork, processes_that_help
from replexplorer.core.load.pacing import OPEN, share_out, shares_of
from replexplorer.core.server.anatomy import Anatomy, Part, limit_of
from replexplorer.core.stats.histogram import Histogram
from replexplorer.formats.documents import plain
from replexplorer.ports import LoadSettings
from replexplorer.reports.load import load_report, render
from tests.fakes.load import interval_of
from tests.known import refused
from tests.typed import table_of
from tests.unit.test_cli_load import measured


def worked(
    percent: float, commits: int = 0, number: int = 1, seconds: float = 0.5
) -> tuple[ProcessWork, ...]:
    """What a process did at this share of a core."""
    return (ProcessWork(number, 2, commits, percent / 100 * seconds, seconds),)


def an_interval(start_s: float, values_us: list[int], number: int = 1, **more: Any) -> Interval:
    """Of a process at ten times its number of percent of a core."""
    work = worked(10.0 * number, len(values_us), number)
    told = {"errors": 1, "unknown": 1, "reconnects": 2, "clients": 8, "connected": 7, "work": work, **more}
    return interval_of(start_s, values_us, **told)


latencies = st.lists(st.integers(0, 5_000_000), max_size=30)


@given(st.lists(st.lists(latencies, min_size=1, max_size=4), min_size=1, max_size=4))
def test_intervals_are_one_load_exactly_however_the_time_was_cut(found: list[list[list[int]]]) -> None:
    """Each process's intervals one after the other, then side by side; and they cross the pipe unchanged."""

    def cut(at: int, part: list[int], number: int) -> Interval:
        return an_interval(
            at / 2, part, number, lateness=Histogram.of(part), mode=OPEN, rate_asked_tps=10.0, backlog=3,
            errors_by_number={"1290": 1, str(number): 1}, fault="1290 read-only",
        )  # fmt: skip

    processes = [
        reduce(Interval.followed_by, [cut(at, part, number) for at, part in enumerate(parts)])
        for number, parts in enumerate(found, 1)
    ]
    whole = reduce(Interval.beside, processes)
    everything = Histogram.of(latency for parts in found for part in parts for latency in part)
    assert whole.service == whole.lateness == everything
    assert whole.lateness_p99_ms == (everything.percentile_ms(99) or 0.0)
    cuts, count = sum(map(len, found)), len(found)
    assert whole.errors == cuts
    assert whole.unknown == cuts
    assert whole.reconnects == 2 * cuts
    assert whole.clients == 8 * count
    assert whole.backlog == 3 * count
    assert whole.rate_asked_tps == 10 * count
    assert whole.errors_by_number["1290"] == cuts
    assert whole.fault == "1290 read-only"
    assert whole.start_s == 0.0
    assert whole.end_s == max(map(len, found)) / 2
    numbers = list(range(1, count + 1))
    assert [work.number for work in whole.work] == numbers
    assert [work.commits for work in whole.work] == [sum(map(len, parts)) for parts in found]
    assert [work.cpu_percent for work in whole.work] == pytest.approx([10.0 * number for number in numbers])
    assert whole.cpu_percent == pytest.approx(10.0 * sum(numbers))
    assert whole.cpu_busiest_percent == pytest.approx(10.0 * count)
    assert Interval.from_wire(json.loads(json.dumps(whole.to_wire()))) == whole


def test_gauges_are_the_later_one_s_and_cpu_is_weighted_by_time() -> None:
    early = an_interval(0.0, [1], fault="1290 read-only")
    late = an_interval(0.5, [2], clients=3, connected=1, work=worked(50.0, seconds=1.5))
    both = early.followed_by(late)
    assert both.clients == 3
    assert both.connected == 1
    assert both.cpu_percent == pytest.approx((10.0 * 0.5 + 50.0 * 1.5) / 2.0)
    assert both.fault == "1290 read-only"


def test_a_limit_of_the_load_s_own_is_named(snapshot: object) -> None:
    calm = replace(an_interval(0.0, [20_000] * 50), work=worked(30.0), lateness=Histogram.of([1900]))
    late = replace(calm, lateness=Histogram.of([9000]))
    busy = replace(calm, mode="open", backlog=1200, clients=8, under_way=8)
    limited = (
        replace(calm, log_wait=Histogram.of([29_100] * 100)), replace(calm, work=worked(93.0)), late,
        replace(late, work=worked(60.0)), busy,
    )  # fmt: skip
    assert [each.limited for each in limited] == snapshot
    assert calm.limited is None
    assert replace(busy, under_way=7).limited is None


def test_the_latency_is_the_response_in_the_open_loop() -> None:
    closed = an_interval(0.0, [5])
    response = Histogram.of([7000])
    assert closed.latency is closed.service
    assert replace(closed, mode="open", response=response).latency is response


def test_a_generator_without_clients_says_nothing_of_the_state() -> None:
    idle = replace(an_interval(0.0, []), clients=0)
    waiting = replace(an_interval(0.0, []), state="waiting")
    assert reduce(Interval.beside, [idle, waiting]).state == "waiting"
    assert reduce(Interval.beside, [waiting, an_interval(0.0, [1])]).state == "running"


# -- several generators' intervals are put together at the cuts that all of them made


LENGTH_S = 0.5


def a_part(first: int, last: int, commits: int, generator: int = 1) -> Interval:
    """What one generator reports of the intervals first..last, which its outbox merged."""
    seconds = (last + 1 - first) * LENGTH_S
    work = (ProcessWork(generator, 2, commits, 0.1, seconds),)
    return interval_of(100 + first * LENGTH_S, [100] * commits, seconds, work=work)


@st.composite
def reports(draw: st.DrawFn) -> list[tuple[int, Interval]]:
    """What two or three generators report, each in its own order, some of it merged."""
    length = draw(st.integers(1, 12))
    streams: list[list[Interval]] = []
    for _ in range(draw(st.integers(2, 3))):
        cuts = sorted({*draw(st.lists(st.integers(0, length - 1), max_size=12)), length - 1})
        edges = [-1, *cuts]
        streams.append(
            [a_part(before + 1, after, draw(st.integers(0, 5))) for before, after in pairwise(edges)]
        )
    order = draw(st.permutations([number for number, each in enumerate(streams) for _ in each]))
    return [(number, streams[number].pop(0)) for number in order]


@given(reports())
def test_nothing_is_lost_and_time_is_cut_the_same_for_all(found: list[tuple[int, Interval]]) -> None:
    cuts = Cuts(LENGTH_S)
    cuts.origin_s = 100.0
    whole: list[Interval] = []
    for number, interval in found:
        whole += cuts.add(number, interval)
    rest = cuts.rest()
    whole += [rest] if rest is not None else []
    assert sum(each.commits for each in whole) == sum(each.commits for _, each in found)
    assert whole[-1].end_s == max(each.end_s for _, each in found)
    assert all(before.end_s <= after.end_s for before, after in pairwise(whole))


def test_one_that_was_asleep_is_waited_for_and_a_newcomers_beginning_is_not_lost() -> None:
    cuts = Cuts(LENGTH_S)
    cuts.origin_s = 100.0
    [alone] = cuts.add(0, a_part(0, 0, 1))
    assert alone.processes == 1
    assert alone.commits == 1
    assert cuts.add(1, a_part(0, 0, 1, 2)) == []
    assert [cuts.add(0, a_part(number, number, 1)) for number in range(1, 5)] == [[]] * 4
    [both] = cuts.add(1, a_part(1, 4, 10, 2))
    assert both.processes == 2
    assert both.commits == 15
    assert both.end_s == 102.5
    assert cuts.rest() is None


# -- how many processes a load has, what each of them has of it, and what they are together


def test_the_command_line_asks_for_processes_and_says_them_again() -> None:
    wanted = LoadSettings(8, "insert")
    args = parse(["load", "--processes", "2"])
    settings = settings_of(args, wanted, None)
    assert settings.processes == 2
    assert command_of(args, settings)[-6:-4] == ["--processes", "2"]
    assert settings_of(parse(["load"]), replace(wanted, processes=1), None).processes == 1
    three = parse(["load", "--processes", "3", "--clients", "2"])
    assert "--processes 3 for 2 clients, and each needs one" in refused(settings_of, three, wanted, None)


@given(st.integers(1, 1024), st.integers(1, 12))
def test_shares_are_the_whole_and_one_leads(clients: int, processes: int) -> None:
    parts = shares_of(share_out(clients, [], processes))
    assert [part.leads for part in parts] == [True, *[False] * (processes - 1)]
    assert sum(part.clients for part in parts) == clients
    assert fsum(part.share for part in parts) == pytest.approx(1.0)
    assert [part.phase for part in parts] == pytest.approx(
        [fsum(each.share for each in parts[:at]) for at in range(processes)]
    )


def test_the_report_has_the_share_of_each(snapshot: object) -> None:
    both = an_interval(0.0, [100] * 30).beside(an_interval(0.0, [100] * 10, 2))
    report = load_report(measured(both), LoadSettings(4, "insert"), path="direct")
    assert plain(report)["generator"] == snapshot
    assert "2 clients: 60.00 TPS, CPU 10 %" in render(report)
    alone = load_report(measured(an_interval(0.0, [100])), LoadSettings(2, "insert"), path="direct")
    assert "process 1" not in render(alone)


MORE = """\
                                        | 1 8 | None
generator at 93 % of a core             | 1 8 | 2
generator at 93 % of a core             | 3 8 | 6
generator at 93 % of a core             | 3 4 | 4
generator at 93 % of a core             | 1 1 | None
generator at 93 % of a core             | 0 8 | None
all 8 clients busy, 1,200 arrivals wait | 1 8 | None
"""
"""The limit, processes and clients, and how many processes help."""


def test_more_processes_are_named_where_a_core_is_full() -> None:
    for limit, load, more in table_of(MORE):
        assert str(processes_that_help(limit or None, *map(int, load.split()))) == more, (limit, load)


CALM = an_interval(0.0, [20_000] * 50, 2)
TOTALS = {
    "closed": CALM,
    "asked": replace(CALM, mode=OPEN),
    "dropping": replace(CALM, mode=OPEN, dropped=3),
}
ANATOMIES = {
    "on the way": Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 2.0, Part.ACK: 17.5}),
    "at the server": Anatomy(5.0, 50, 20.0, {Part.WIRE: 0.5, Part.BINLOG: 17.0, Part.ACK: 2.5}),
    "nothing timed": Anatomy(5.0, 50, 20.0),
}
LIMITS = """\
closed   |                             | 97.0 | on the way
closed   | generator at 93 % of a core | 97.0 |
closed   | generator at 93 % of a core | 60.0 |
closed   | generator 9 ms late         | None |
closed   |                             | 20.0 | on the way
closed   |                             | 20.0 | at the server
asked    |                             | 20.0 | on the way
dropping |                             | 20.0 | on the way
closed   |                             | None |
closed   |                             | 20.0 | nothing timed
"""
"""The load, its own limit, how busy the machine is in percent, and where a commit's time goes."""


def test_the_limit_is_the_first_that_shows_and_unknown_where_none_does(snapshot: object) -> None:
    told = []
    for total, limited, percent, anatomy in table_of(LIMITS):
        more = {"machine_percent": literal_eval(percent), "anatomy": ANATOMIES.get(anatomy)}
        told.append(limit_of(TOTALS[total], limited=limited or None, **more))
    assert told == snapshot

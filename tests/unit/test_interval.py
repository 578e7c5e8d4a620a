"""Intervals merge exactly, cross the pipe unchanged, and are put together at the same cuts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.load.interval import Cuts, Interval, ProcessWork
from replexplorer.core.stats.histogram import Histogram
from tests.fakes.load import interval_of


def at_cpu(percent: float, number: int = 1, seconds: float = 0.5) -> tuple[ProcessWork, ...]:
    return (ProcessWork(number, 8, 0, percent / 100 * seconds, seconds),)


def an_interval(
    start_s: float, latencies_us: list[int], errors: int = 0, fault: str | None = None
) -> Interval:
    return interval_of(
        start_s, latencies_us, errors=errors, unknown=1, reconnects=2, clients=8, connected=7, fault=fault,
        work=at_cpu(10.0),
    )  # fmt: skip


latencies = st.lists(st.integers(0, 5_000_000), max_size=60)


@given(st.lists(latencies, min_size=1, max_size=6))
def test_merged_intervals_are_one_long_interval(parts: list[list[int]]) -> None:
    total = an_interval(0.0, parts[0], errors=1)
    for index, part in enumerate(parts[1:], start=1):
        total = total.followed_by(an_interval(index * 0.5, part, errors=1))
    assert total.service == Histogram.of(latency for part in parts for latency in part)
    assert (total.start_s, total.end_s) == (0.0, len(parts) * 0.5)
    assert (total.errors, total.unknown, total.reconnects) == (len(parts), len(parts), 2 * len(parts))


def test_gauges_are_the_later_one_s_and_cpu_is_weighted_by_time() -> None:
    early = an_interval(0.0, [1], fault="1290 read-only")
    late = replace(an_interval(0.5, [2]), end_s=2.0, clients=3, connected=1, work=at_cpu(50.0, seconds=1.5))
    both = early.followed_by(late)
    assert (both.clients, both.connected) == (3, 1)
    assert both.cpu_percent == pytest.approx((10.0 * 0.5 + 50.0 * 1.5) / 2.0)
    assert both.fault == "1290 read-only"


@given(latencies)
def test_the_wire_form_reads_back_exactly(values: list[int]) -> None:
    interval = an_interval(1.25, values, errors=3, fault="1213 Deadlock found")
    assert Interval.from_wire(json.loads(json.dumps(interval.to_wire()))) == interval


def test_a_limit_of_the_load_s_own_is_named(snapshot: object) -> None:
    calm = replace(an_interval(0.0, [20_000] * 50), work=at_cpu(30.0), lateness=Histogram.of([1900]))
    late = replace(calm, lateness=Histogram.of([9000]))
    busy = replace(calm, mode="open", backlog=1200, clients=8, under_way=8)
    limited = (
        replace(calm, log_wait=Histogram.of([29_100] * 100)), replace(calm, work=at_cpu(93.0)), late,
        replace(late, work=at_cpu(60.0)), busy,
    )  # fmt: skip
    assert [each.limited for each in limited] == snapshot
    assert (calm.limited, replace(busy, under_way=7).limited) == (None, None)


def test_the_latency_is_the_response_in_the_open_loop() -> None:
    closed = an_interval(0.0, [5])
    response = Histogram.of([7000])
    assert closed.latency is closed.service
    assert replace(closed, mode="open", response=response).latency is response


@given(st.lists(latencies, min_size=2, max_size=4))
def test_generators_side_by_side_are_one_load(parts: list[list[int]]) -> None:
    intervals = [
        replace(
            an_interval(0.0, part, errors=1),
            lateness=Histogram.of(part),
            mode="open",
            rate_asked_tps=10.0,
            backlog=3,
            work=at_cpu(10.0 * number, number),
            errors_by_number={"1290": 1, str(number): 1},
        )
        for number, part in enumerate(parts)
    ]
    whole = reduce(Interval.beside, intervals)
    everything = Histogram.of(latency for part in parts for latency in part)
    assert whole.service == whole.lateness == everything
    assert whole.lateness_p99_ms == (everything.percentile_ms(99) or 0.0)
    count = len(parts)
    sums = (whole.processes, whole.clients, whole.errors, whole.backlog, whole.rate_asked_tps)
    assert sums == (count, 8 * count, count, 3 * count, 10 * count)
    assert whole.cpu_percent == pytest.approx(10.0 * sum(range(count)))
    assert whole.cpu_busiest_percent == pytest.approx(10.0 * (count - 1))
    assert whole.errors_by_number["1290"] == count
    assert whole.duration_s == intervals[0].duration_s


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


def test_generators_in_step_are_told_interval_by_interval() -> None:
    cuts = Cuts(LENGTH_S)
    cuts.origin_s = 100.0
    assert [each.processes for each in cuts.add(0, a_part(0, 0, 3))] == [1]  # the other is not there yet
    assert cuts.add(1, a_part(0, 0, 2, 2)) == []
    assert cuts.add(0, a_part(1, 1, 4)) == []
    [both] = cuts.add(1, a_part(1, 1, 5, 2))
    assert (both.processes, both.commits) == (2, 11)  # a newcomer's beginning is not lost
    assert cuts.add(0, a_part(2, 2, 4)) == []
    [later] = cuts.add(1, a_part(2, 2, 5, 2))
    assert (later.processes, later.commits, later.duration_s) == (2, 9, LENGTH_S)


def test_one_that_was_asleep_is_waited_for() -> None:
    cuts = Cuts(LENGTH_S)
    cuts.origin_s = 100.0
    cuts.add(0, a_part(0, 0, 1))
    cuts.add(1, a_part(0, 0, 1, 2))
    whole = []
    for number in range(1, 5):
        whole += cuts.add(0, a_part(number, number, 1))
    whole += cuts.add(1, a_part(1, 4, 10, 2))
    [both] = [each for each in whole if each.processes == 2 and each.duration_s > 1]
    assert both.commits >= 14
    assert cuts.rest() is None

"""The laws of arrivals: intended times, the bounded backlog, no arrival lost silently."""

from __future__ import annotations

from itertools import pairwise
from math import exp
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.load.pacing import (
    CLOSED,
    EVEN,
    POISSON,
    Pace,
    Schedule,
    backlog_bound,
    processes_for,
    share_out,
)
from tests.typed import values_of

seeds = st.integers(0, 2**32)
spacings = st.sampled_from((POISSON, EVEN))


def test_poisson_gaps_are_exponential() -> None:
    steps = Steps(Pace.open(100, POISSON), 5)
    for second in range(400):
        steps.look(second + 1.0, 10**9)
    gaps = [after - before for before, after in pairwise(steps.taken)]
    mean = fmean(gaps)
    assert mean == pytest.approx(0.01, rel=0.03)
    assert pstdev(gaps) == pytest.approx(mean, rel=0.03)
    assert sum(gap > 0.02 for gap in gaps) / len(gaps) == pytest.approx(exp(-2), rel=0.06)


class Steps:
    """A schedule that is looked at only now and then, as a loop that stalls would."""

    def __init__(self, pace: Pace, seed: int) -> None:
        self.schedule = Schedule(Random(seed))
        self.schedule.change(pace, 0.0)
        self.lateness_s: list[float] = []
        self.taken: list[float] = []

    def look(self, now_s: float, take: int) -> None:
        self.schedule.admit(now_s, self.lateness_s.append)
        for _ in range(min(take, len(self.schedule.waiting))):
            self.taken.append(self.schedule.waiting.popleft())


looks = st.lists(st.tuples(st.floats(0.001, 20), st.integers(0, 300)), min_size=1, max_size=6)


@given(st.floats(0.5, 150), spacings, seeds, looks)
def test_every_arrival_is_taken_or_waits_or_was_dropped(
    rate: float, spacing: str, seed: int, found: list[tuple[float, int]]
) -> None:
    steps, now_s = Steps(Pace.open(rate, spacing), seed), 0.0
    for gap_s, take in found:
        now_s += gap_s
        steps.look(now_s, take)
        schedule = steps.schedule
        assert schedule.arrived == len(steps.taken) + len(schedule.waiting) + schedule.dropped
        assert len(schedule.waiting) <= schedule.pace.bound == backlog_bound(rate)
        assert schedule.next_s is not None
        assert schedule.next_s > now_s
    assert len(steps.lateness_s) == steps.schedule.arrived
    assert all(lateness_s >= 0 for lateness_s in steps.lateness_s)
    assert steps.taken == sorted(steps.taken)


@given(st.floats(0.5, 100), spacings, seeds, st.lists(st.floats(0.001, 4), min_size=1, max_size=6))
def test_looking_seldom_changes_no_intended_time(
    rate: float, spacing: str, seed: int, gaps_s: list[float]
) -> None:
    often, seldom = Steps(Pace.open(rate, spacing), seed), Steps(Pace.open(rate, spacing), seed)
    now_s = 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        often.look(now_s, 10**9)
    seldom.look(now_s, 10**9)
    kept = len(seldom.taken)
    assert seldom.taken == often.taken[:kept]
    assert kept + seldom.schedule.dropped == len(often.taken)


def test_a_stall_fills_the_backlog_and_drops_the_rest_counted() -> None:
    steps = Steps(Pace.open(1000, EVEN), 1)
    steps.look(25.0005, 0)
    schedule = steps.schedule
    assert (schedule.arrived, len(schedule.waiting), schedule.dropped) == (25_000, 10_000, 15_000)
    assert (max(steps.lateness_s), schedule.waiting[0]) == pytest.approx((24.9995, 0.001))
    schedule.drop_waiting()
    assert (len(schedule.waiting), schedule.dropped) == (0, 25_000)


def test_another_rate_holds_from_now_on_and_keeps_who_waits() -> None:
    steps = Steps(Pace.open(100, EVEN), 1)
    steps.look(1.0, 0)
    schedule, waited = steps.schedule, len(steps.schedule.waiting)
    due_s = schedule.next_s
    for pace, at_s, next_s in ((Pace.open(100, EVEN), 1.005, due_s), (Pace.open(10, EVEN), 1.0, 1.1)):
        schedule.change(pace, at_s)
        assert schedule.next_s == pytest.approx(next_s), "the same pace again changes nothing"
    steps.look(2.0005, 0)
    assert len(schedule.waiting) == waited + 10
    schedule.change(Pace(), 2.5)
    steps.look(60.0, 0)
    assert (schedule.next_s, schedule.pace.mode, len(schedule.waiting)) == (None, CLOSED, waited + 10)


def test_a_pace_is_shared_out_with_its_backlog() -> None:
    assert backlog_bound(100.1) == 1001, "ten seconds, rounded up"
    assert Pace.open(400, EVEN, 0.25) == Pace(100, EVEN, 1000)
    assert Pace.open(50, POISSON, 0.1) == Pace(5, POISSON, 100)


SHARES = """\
10  []        4 [3,3,2,2]
100 []        4 [25,25,25,25]
12  [3,3,2,2] 4 [3,3,3,3]
6   [3,3,2,2] 4 [1,1,2,2]
6   [3,3,2,2] 2 [1,1,2,2]
3   [1]       2 [2,1]
0   [2,1]     2 [0,0]
"""
"""Clients, how many each process has, how many processes there are to be, and how they are shared out: no
client moves from one to another."""


def test_clients_are_shared_out_and_no_client_moves() -> None:
    for clients, before, processes, after in values_of(SHARES):
        assert share_out(clients, before, processes) == after, (clients, before)


PROCESSES = """\
8    0     2  1
1024 0     2  1
64   0     16 1
65   0     16 2
1024 0     16 8
8    20000 16 3
2    80000 16 2
0    500   16 1
512  0     1  1
"""
"""Clients, statements a second and cores, and how many processes they take."""


def test_processes_for_a_load() -> None:
    for *load, processes in values_of(PROCESSES):
        assert processes_for(*load) == processes, load


@given(st.floats(1, 20_000), st.integers(1, 8), st.floats(0, 1e6))
def test_even_arrivals_of_several_generators_are_one_even_row(rate: float, count: int, now_s: float) -> None:
    found: list[float] = []
    for number in range(count):
        schedule = Schedule(Random(number))
        schedule.change(Pace.open(rate, EVEN, 1 / count, number / count), now_s)
        schedule.admit(now_s + 20.25 * count / rate, lambda _: None)
        found += schedule.waiting
    found.sort()
    assert found[0] > now_s - 1e-7
    assert all(after - before == pytest.approx(1 / rate, abs=2e-7) for before, after in pairwise(found))
    assert len(found) in range(20 * count, 21 * count + 2)

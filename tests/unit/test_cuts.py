"""Several generators' intervals are put together at the cuts that all of them made."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.load.interval import Cuts, Interval, ProcessWork
from tests.fakes.load import interval_of

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

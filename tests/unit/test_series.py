"""The charts' memory: which points have which percentile, and the page of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.event import Event, Severity
from replexplorer.core.history.series import History, Point, page_of
from replexplorer.core.load.interval import LoadView
from replexplorer.core.model.ceiling import Ceiling
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from tests.known import known


def tick(at_s: float, values_us: Sequence[int] | None = None, mark_s: float | None = None) -> Tick:
    """Half a second in which commits took this long."""
    view = None
    if values_us is not None:
        service = Histogram.of(values_us)
        view = LoadView(
            1, 1, "insert", tps=2 * service.count, n=service.count, duration_s=0.5, service=service
        )
    marks = () if mark_s is None else (Event(mark_s, 0.0, Severity.MARK, "rtt 20 → 85 ms", mark=1),)
    return Tick(at_s, 0.0, "default", "up", load=view, events=marks)


def fed(*ticks: Tick) -> History:
    history = History()
    for each in ticks:
        history.feed(each)
    return history


def beats(text: str) -> History:
    """`6 5x90 15|`: the commits of each half second, of 1 ms where nothing else is said; `|`: a mark is
    in it."""
    ticks = []
    for at, each in enumerate(text.split(), 1):
        count, _, ms = each.rstrip("|").partition("x")
        mark_s = at / 2 - 0.3 if each.endswith("|") else None
        ticks.append(tick(at / 2, [1000 * int(ms or 1)] * int(count), mark_s))
    return fed(*ticks)


COURSES = f"""\
{"4 " * 26}
200 200x9
15 15| 15x90 15x90
6 5 6 5 6 5
6 5 6 0 0 0
6 5 6 0 0 0 0 6 5
{"0 0 0 1x2000 " * 6}
"""
"""A percentile waits until enough commits are merged; a busy tick is alone; nothing is merged across a mark,
and the tick that holds it is on both sides. TPS is drawn over the last 2 s: few commits do not show the
ticks' own beat. A stall is a window of its own, and so is what comes after; a second without a commit over a
slow link is none."""


def test_each_point_and_figure_has_the_commits_that_it_needs(snapshot: object) -> None:
    told = {}
    for line in COURSES.splitlines():
        history = beats(line)
        points = [
            f"{each.at_s} s: {each.n} at {each.tps} TPS, p50 {each.p50_ms}, p95 {each.p95_ms},"
            f" p99 {each.p99_ms}, max {each.max_ms}, slowest {each.slowest_ms}"
            for each in history.points
        ]
        told[line] = points, history.recent
    assert told == snapshot


def test_a_tick_without_a_newer_interval_counts_nothing_twice() -> None:
    once = tick(0.5, [1000] * 4)
    history = fed(once, replace(once, at_s=1.0))
    assert [point.p50_ms for point in history.points] == [None, None]


def test_a_viewer_takes_the_figures_as_they_come_and_the_unknown_stays_a_gap() -> None:
    viewer = LoadView(0, 0, "insert", tps=70.0, p50_ms=1.0, state="viewer")
    seen = replace(tick(1.0), load=viewer, ceiling=Ceiling(90.0, 1, 1.0, 0.0))
    history = fed(tick(0.5), seen)
    assert list(history.points) == [Point(0.5), Point(1.0, tps=70.0, ceiling_tps=90.0, p50_ms=1.0)]


def test_memory_is_bounded() -> None:
    history = History(capacity=80)
    for index in range(1000):
        history.feed(tick(float(index), [1000]))
        assert len(history.points) <= 80
    assert history.points[-1].at_s == 999.0
    assert len(history.points) >= 70
    assert len(history._parts) <= 12


def test_a_page_is_a_slice_and_old_ticks_are_ignored() -> None:
    history = fed(*(tick(at_s) for at_s in (1.0, 1.0, 0.5, 2.0, 3.0, 4.0, 5.0)))
    assert [point.at_s for point in history.points] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [point.at_s for point in history.page(2.0, 4.5)] == [2.0, 3.0, 4.0]
    assert history.page(20.0, 30.0) == []


def test_the_page_fills_then_jumps_a_quarter() -> None:
    begins_s = {100.0: 100.0, 220.0: 100.0, 220.5: 130.0, 250.0: 130.0, 250.1: 160.0}
    assert {now_s: page_of(now_s, 100.0, 120.0) for now_s in begins_s} == {
        now_s: (left_s, left_s + 120.0) for now_s, left_s in begins_s.items()
    }


@given(
    st.lists(st.lists(st.integers(1, 10_000_000), max_size=150), min_size=1, max_size=40),
    st.sets(st.integers(0, 40), max_size=3),
)
def test_the_slowest_is_never_below_a_percentile_nor_one_above_a_higher_one(
    ticks: list[list[int]], marks: set[int]
) -> None:
    """Whatever the load does, and wherever marks are: the lines and the figures keep their order."""
    history = History()
    for at, values_us in enumerate(ticks):
        history.feed(tick(at / 2, values_us, at / 2 - 0.2 if at in marks else None))
        recent = history.recent
        names = ("p50", "p95", "p99", "max")
        figures = [recent.latency_ms(name) for name in names]
        assert all(value is None for value in figures) or figures == sorted(figures)  # type: ignore[type-var]
        assert recent.tps == pytest.approx(recent.n / recent.length_s)
        point = history.points[-1]
        assert (point.tps, point.n) == (recent.tps, recent.n)
        for name in names:
            assert getattr(point, f"{name}_ms") in (None, recent.latency_ms(name))


def test_counts_are_rates_over_the_same_window() -> None:
    first = tick(0.5, [1000] * 20)
    load = replace(known(first.load), errors=3, qps=160.0)
    recent = fed(replace(first, load=load), tick(1.0, [1000] * 20)).recent
    assert (recent.length_s, recent.per_second("errors"), recent.qps) == (1.0, 3.0, 80.0)

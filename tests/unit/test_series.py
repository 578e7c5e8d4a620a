"""The charts' memory: which points have which percentile, and the page of time."""

from __future__ import annotations

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


def service(*values_us: int) -> Histogram:
    return Histogram.of(values_us)


def tick(
    at_s: float,
    load: Histogram | LoadView | None = None,
    *,
    mark_s: float | None = None,
    ceiling: float | None = None,
) -> Tick:
    view = load
    if isinstance(load, Histogram):
        view = LoadView(1, 1, "insert", tps=load.count / 0.5, n=load.count, duration_s=0.5, service=load)
    assert not isinstance(view, Histogram)
    marks = () if mark_s is None else (Event(mark_s, 0.0, Severity.MARK, "rtt 20 → 85 ms", mark=1),)
    bound = None if ceiling is None else Ceiling(ceiling, 1, 1.0, 0.0)
    return Tick(at_s, 0.0, "default", "up", load=view, events=marks, ceiling=bound)


def beat(at_s: float, count: int, us: int, mark_s: float | None = None) -> Tick:
    """Of so many commits of this length."""
    return tick(at_s, service(*[us] * count), mark_s=mark_s)


def fed(*ticks: Tick) -> History:
    history = History()
    for each in ticks:
        history.feed(each)
    return history


def test_a_percentile_waits_until_enough_commits_are_merged() -> None:
    history = fed(*(tick(0.5 * index, service(*[1000 + index] * 4)) for index in range(26)))
    with_p50 = [point.n for point in history.points if point.p50_ms is not None]
    first_p50 = next(index for index, point in enumerate(history.points) if point.p50_ms is not None)
    first_p95 = next(index for index, point in enumerate(history.points) if point.p95_ms is not None)
    assert first_p50 == 1
    assert first_p95 == 4
    assert min(with_p50) >= 5
    assert all(point.p99_ms is None for point in history.points)  # 10 s hold at most 21 ticks of 4


def test_a_busy_tick_stands_alone(snapshot: object) -> None:
    assert list(fed(beat(0.5, 200, 1000), beat(1.0, 200, 9000)).points) == snapshot


def test_nothing_is_merged_across_a_mark(snapshot: object) -> None:
    """The second tick is on both sides of the mark."""
    ticks = (
        beat(0.5, 15, 1000),
        beat(1.0, 15, 1000, mark_s=0.7),
        beat(1.5, 15, 90_000),
        beat(2.0, 15, 90_000),
    )
    assert list(fed(*ticks).points) == snapshot


def test_a_tick_without_a_newer_interval_counts_nothing_twice() -> None:
    once = service(*[1000] * 4)
    history = fed(tick(0.5, once), tick(1.0, once))
    assert [point.p50_ms for point in history.points] == [None, None]


def test_a_viewer_takes_the_figures_as_they_come_and_the_unknown_stays_a_gap() -> None:
    viewer = LoadView(0, 0, "insert", tps=70.0, p50_ms=1.0, state="viewer")
    history = fed(tick(0.5), tick(1.0, viewer, ceiling=90.0))
    assert list(history.points) == [Point(0.5), Point(1.0, tps=70.0, ceiling_tps=90.0, p50_ms=1.0)]


def test_old_ticks_are_ignored() -> None:
    assert [point.at_s for point in fed(tick(1.0), tick(1.0), tick(0.5), tick(2.0)).points] == [1.0, 2.0]


def test_memory_is_bounded() -> None:
    history = History(capacity=80)
    for index in range(1000):
        history.feed(tick(float(index), service(1000)))
        assert len(history.points) <= 80
    assert history.points[-1].at_s == 999.0
    assert len(history.points) >= 70
    assert len(history._parts) <= 12


def test_a_page_is_a_slice() -> None:
    history = fed(*(tick(float(index)) for index in range(10)))
    assert [point.at_s for point in history.page(2.0, 4.5)] == [2.0, 3.0, 4.0]
    assert history.page(20.0, 30.0) == []


def test_the_page_fills_then_jumps_a_quarter() -> None:
    begins_s = {100.0: 100.0, 220.0: 100.0, 220.5: 130.0, 250.0: 130.0, 250.1: 160.0}
    assert {now_s: page_of(now_s, 100.0, 120.0) for now_s in begins_s} == {
        now_s: (left_s, left_s + 120.0) for now_s, left_s in begins_s.items()
    }


@given(st.floats(0, 1e6), st.floats(0, 1e5), st.sampled_from([30.0, 60.0, 120.0, 3600.0]))
def test_now_is_always_on_the_page_and_at_least_three_quarters_in(
    origin_s: float, elapsed_s: float, length_s: float
) -> None:
    now_s = origin_s + elapsed_s
    left_s, right_s = page_of(now_s, origin_s, length_s)
    slack_s = 1e-6
    assert origin_s <= left_s <= now_s + slack_s
    assert now_s <= right_s + slack_s
    assert right_s - left_s == pytest.approx(length_s)
    assert left_s == origin_s or now_s >= left_s + 0.75 * length_s - slack_s


def beats(*counts: int, us: int = 1000) -> History:
    """So many commits of this length in each half second."""
    return fed(*(beat(number * 0.5, count, us) for number, count in enumerate(counts, 1)))


def test_few_commits_a_tick_do_not_show_the_ticks_ownbeat() -> None:
    """One client at 90 ms makes 5 or 6 commits a tick: TPS is drawn over the last 2 s."""
    first, *_, last = beats(6, 5, 6, 5, 6, 5).points
    assert (first.tps, last.tps) == pytest.approx((12, 22 / 2))


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
        history.feed(tick(at / 2, service(*values_us), mark_s=at / 2 - 0.2 if at in marks else None))
        recent = history.recent
        names = ("p50", "p95", "p99", "max")
        figures = [recent.latency_ms(name) for name in names]
        assert all(value is None for value in figures) or figures == sorted(figures)  # type: ignore[type-var]
        assert recent.tps == pytest.approx(recent.n / recent.length_s)
        point = history.points[-1]
        drawn = {name: getattr(point, f"{name}_ms") for name in names if getattr(point, f"{name}_ms")}
        assert drawn == {name: recent.latency_ms(name) for name in drawn}
        assert point.tps == recent.tps
        assert point.n == recent.n


def test_a_stall_is_a_window_of_its_own_and_so_is_what_comes_after(snapshot: object) -> None:
    """Commits wait for 2 s, then go on: no figure from before is shown during the stall, and the first
    ones after it are not thinned out by its zeros."""
    stall, after = (beats(*counts).recent for counts in ((6, 5, 6, 0, 0, 0), (6, 5, 6, 0, 0, 0, 0, 6, 5)))
    assert [stall, after] == snapshot


def test_over_a_slow_link_a_second_without_a_commit_is_no_stall() -> None:
    """One client at 2 s a commit: 0.5 TPS, and not 0 and 2 in turn."""
    recent = beats(*(0, 0, 0, 1) * 6, us=2_000_000).recent
    assert recent.tps == pytest.approx(0.5, rel=0.1)
    assert recent.p50_ms == pytest.approx(2000, rel=0.01)


def test_counts_are_rates_over_the_same_window() -> None:
    ticks = []
    for at_s, errors in ((0.5, 3), (1.0, 0)):
        load = beat(at_s, 20, 1000).load
        assert load is not None
        ticks.append(tick(at_s, replace(load, errors=errors, qps=160.0)))
    recent = fed(*ticks).recent
    assert recent.length_s == 1.0
    assert recent.per_second("errors") == 3.0
    assert recent.qps == 160.0

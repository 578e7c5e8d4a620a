"""Epochs: what is left out, when there is a verdict, and how often it would be wrong."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.epochs import Epochs, _Chunk, _Mean, _mean_of, _Segment
from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval
from replexplorer.core.student import t_quantile_975
from replexplorer.core.tick import Epoch

TICK_S = 0.5


def interval(start_s: float, commits: int, latency_us: int = 2000, state: str = "running") -> Interval:
    service = Histogram()
    service.record_all([latency_us] * commits)
    return Interval(start_s, start_s + TICK_S, service, 0, 0, 0, 1, 1, "insert", 1.0, 0.1, state=state)


def play(epochs: Epochs, start_s: float, counts: Iterable[int], latency_us: int = 2000) -> float:
    """Feed intervals one after the other; answers when the last one ended."""
    at_s = start_s
    for commits in counts:
        epochs.add(interval(at_s, commits, latency_us))
        at_s += TICK_S
    return at_s


def two_sides(before: list[int], after: list[int], *, gap_s: float = 0.0) -> Epochs:
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, before)
    epochs.begin(1, changed_s, "rtt 20 → 85 ms")
    epochs.effective(1, changed_s + gap_s)
    play(epochs, changed_s, after)
    return epochs


def noisy(count: int, mean: float, seed: int) -> list[int]:
    source = random.Random(seed)
    return [max(0, round(source.gauss(mean, mean / 20))) for _ in range(count)]


def test_the_baseline_has_figures_and_no_comparison() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, [50] * 30, latency_us=10_000)
    (row,) = epochs.rows()
    assert (row.number, row.title, row.verdict) == (0, "baseline", "baseline")
    assert row.after_tps == pytest.approx(100)
    assert (row.before_tps, row.delta_percent, row.ci_percent) == (None, None, None)
    assert row.p50_ms == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(100, 30, "slower"), (100, 130, "faster"), (100, 100, "no difference shown")],
)
def test_verdicts(before: int, after: int, verdict: str) -> None:
    row = two_sides(noisy(60, before, 3), noisy(60, after, 4)).rows()[1]
    assert row.verdict == verdict
    assert row.before_tps == pytest.approx(2 * before, rel=0.03)
    assert row.after_tps == pytest.approx(2 * after, rel=0.03)
    assert row.delta_percent == pytest.approx(100 * (after - before) / before, abs=4)
    assert row.ci_percent is not None
    assert row.delta_percent is not None
    assert (abs(row.delta_percent) > row.ci_percent) == (verdict != "no difference shown")


def test_there_is_no_verdict_before_ten_batches() -> None:
    """The first interval of each side is its transition; 10 batches of 1 s are 20 intervals more."""
    assert two_sides([100] * 30, [30] * 20).rows()[1].verdict == "measuring"
    assert two_sides([100] * 30, [30] * 21).rows()[1].verdict == "slower"


def test_a_batch_is_two_latencies_long() -> None:
    """At 2 s a commit a batch is 4 s, and ten of them are 40 s behind the first commit."""
    before = [100] * 60

    def after(seconds: float) -> Epoch:
        epochs = Epochs(0.0)
        changed_s = play(epochs, 0.0, before)
        epochs.begin(1, changed_s, "rtt")
        epochs.effective(1, changed_s)
        play(epochs, changed_s, [16] * int(seconds / TICK_S), latency_us=2_000_000)
        return epochs.rows()[1]

    assert after(41.5).verdict == "measuring"
    assert after(42.0).verdict == "slower"


def test_an_epoch_that_ended_early_says_so() -> None:
    epochs = two_sides([100] * 60, [30] * 10)
    assert epochs.rows()[1].verdict == "measuring"
    epochs.begin(2, 35.0, "again")
    epochs.effective(2, 35.0)
    play(epochs, 35.0, [100] * 60)
    short, after_short = epochs.rows()[1:]
    assert (short.verdict, after_short.verdict) == ("too short", "too short")
    assert short.delta_percent == pytest.approx(-70, abs=0.5)
    assert after_short.ci_percent is None


def test_the_transition_is_left_out() -> None:
    """Nothing counts while the change is under way, and one latency longer."""
    epochs = Epochs(0.0)
    play(epochs, 0.0, [100] * 40)
    epochs.begin(1, 20.0, "rtt 0 → 1000 ms")
    play(epochs, 20.0, [700] * 4)  # under way: 20 to 22
    epochs.effective(1, 22.0)
    play(epochs, 22.0, [500, 500], latency_us=900_000)  # begun before, ends within 0.9 s
    play(epochs, 23.0, [4] * 10, latency_us=1_000_000)
    row = epochs.rows()[1]
    assert row.n == 40
    assert row.after_tps == pytest.approx(8)
    assert epochs.rows()[0].after_tps == pytest.approx(200)


def test_an_interval_across_a_change_belongs_to_nobody_and_a_late_one_to_the_epoch_before() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, [10] * 4)
    epochs.begin(1, 2.7, "x")
    epochs.effective(1, 2.7)
    epochs.add(interval(2.0, 10))  # ended before the change, came after it
    epochs.add(interval(2.5, 999))
    assert epochs.rows()[0].n == 40  # the first of five is the baseline's own transition
    assert epochs.rows()[1].n == 0
    assert epochs.rows()[1].after_tps is None


def test_a_load_that_does_not_run_is_no_measurement() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, [10] * 5)
    epochs.add(interval(2.5, 0, state="waiting"))
    epochs.add(interval(3.0, 0, state="preparing"))
    assert epochs.rows()[0].after_tps == pytest.approx(20)


def test_a_stall_under_load_does_count() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, [10] * 11 + [0] * 10)
    assert epochs.rows()[0].after_tps == pytest.approx(10)


def test_a_change_may_get_its_title_at_the_end() -> None:
    epochs = Epochs(0.0)
    epochs.begin(7, 1.0, "semi_sync on")
    epochs.effective(7, 2.0, "semi_sync on (rolled back)")
    assert [(row.number, row.title) for row in epochs.rows()] == [
        (0, "baseline"),
        (7, "semi_sync on (rolled back)"),
    ]


def test_from_nothing_there_is_a_verdict_and_no_percentage() -> None:
    epochs = Epochs(0.0)
    epochs.add(interval(0.0, 1))
    play(epochs, 0.5, [0] * 30)
    epochs.begin(1, 15.5, "clients 0 → 8")
    epochs.effective(1, 15.5)
    play(epochs, 15.5, [100] * 30)
    row = epochs.rows()[1]
    assert (row.verdict, row.before_tps, row.delta_percent, row.ci_percent) == ("faster", 0.0, None, None)


def test_memory_is_bounded_and_long_epochs_lose_nothing() -> None:
    segment = _Segment(0, 0.0, "baseline", effective_s=0.0)
    for index in range(20_000):
        segment.add(interval(index * TICK_S, 5))
    assert len(segment.chunks) <= 160
    assert sum(chunk.commits for chunk in segment.chunks) == segment.service.count == 19_999 * 5
    assert sum(chunk.duration_s for chunk in segment.chunks) == pytest.approx(segment.duration_s)
    mean = segment.mean()
    assert mean is not None
    assert mean.tps == pytest.approx(10)
    epochs = Epochs(0.0)
    for number in range(1, 300):
        epochs.begin(number, float(number), "x")
    assert len(epochs.rows()) == 100
    assert epochs.rows()[-1].number == 299
    assert epochs.rows()[0].verdict == "too short"  # what it was compared with is forgotten


def test_a_finished_epoch_keeps_its_row_whatever_comes_after() -> None:
    epochs = two_sides([100] * 30, [30] * 30)
    row = epochs.rows()[1]
    assert row.verdict == "slower"
    for number in range(2, 100):
        epochs.begin(number, 28.0 + number, "x")
        assert epochs.rows()[1] == row
    epochs.begin(100, 200.0, "x")
    assert epochs.rows()[0] == row  # the baseline is forgotten, what was found is not


def test_chunks_add_up() -> None:
    chunk = _Chunk(1.0, 5)
    chunk.add(0.5, 2)
    assert chunk == _Chunk(1.5, 7)


def autoregressive(source: random.Random, count: int, phi: float) -> list[int]:
    """Commits an interval around 100 with the lag-1 correlation phi from tick to tick."""
    noise = source.gauss(0, 1)
    values = []
    for _ in range(count):
        noise = phi * noise + (1 - phi * phi) ** 0.5 * source.gauss(0, 1)
        values.append(round(100 + 10 * noise))
    return values


@pytest.mark.parametrize(("phi", "ticks"), [(0.5, 60), (0.8, 22)])
def test_without_a_change_a_difference_is_claimed_in_at_most_7_percent(phi: float, ticks: int) -> None:
    """400 seeded experiments with correlated noise on both sides, long ones and the shortest allowed."""
    source = random.Random(20260101)
    runs = 400
    claims = 0
    for _ in range(runs):
        epochs = two_sides(autoregressive(source, ticks, phi), autoregressive(source, ticks, phi))
        verdict = epochs.rows()[1].verdict
        assert verdict in ("faster", "slower", "no difference shown")
        claims += verdict != "no difference shown"
    assert claims <= 0.07 * runs


def test_a_real_change_of_eight_percent_is_found() -> None:
    """The price of that care is not blindness: 8 % at 10 % noise a tick, a minute each side."""
    source = random.Random(7)
    found = 0
    for _ in range(50):
        after = [round(1.08 * value) for value in autoregressive(source, 120, 0.3)]
        found += two_sides(autoregressive(source, 120, 0.3), after).rows()[1].verdict == "faster"
    assert found >= 45


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e5), min_size=10, max_size=40))
def test_a_variance_is_never_negative_and_correlation_only_widens(batches: list[float]) -> None:
    mean = _mean_of(1.0, batches)
    assert mean.variance >= 0
    assert 1 <= mean.freedom <= len(batches) - 1
    middle = sum(batches) / len(batches)
    plain = sum((batch - middle) ** 2 for batch in batches) / (len(batches) - 1) / len(batches)
    assert mean.variance >= plain * (1 - 1e-6)


def test_equal_batches_have_no_variance() -> None:
    assert _mean_of(5.0, [5.0] * 12) == _Mean(5.0, 0.0, 11.0)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.706),
        (5, 2.571),
        (9, 2.262),
        (9.5, 2.2442),
        (18, 2.101),
        (25, 2.0595),
        (35, 2.0301),
        (50, 2.0086),
        (90, 1.9867),
        (200, 1.9719),
        (1000, 1.9623),
        (1e9, 1.95996),
    ],
)
def test_students_t(freedom: float, quantile: float) -> None:
    assert t_quantile_975(freedom) == pytest.approx(quantile, abs=0.001)


def test_students_t_falls_with_freedom() -> None:
    values = [t_quantile_975(1 + index / 7) for index in range(2000)]
    assert values == sorted(values, reverse=True)

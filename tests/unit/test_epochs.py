"""Epochs: what is left out, when there is a verdict, and what it comes from."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch, Epochs
from replexplorer.core.epochs.table import verdict_words
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import t_quantile_975

TICK_S = 0.5


def interval(start_s: float, commits: int, latency_us: int = 2000, state: str = "running") -> Interval:
    service = Histogram.of([latency_us] * commits)
    return Interval(start_s, start_s + TICK_S, service, 0, 0, 0, 1, 1, "insert", state=state)


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


def test_a_small_effect_has_no_verdict_before_ten_batches() -> None:
    """The first interval of each side is its transition; 10 batches of 1 s are 20 intervals more."""
    assert two_sides([100] * 30, [80] * 20).rows()[1].verdict == "measuring"
    assert two_sides([100] * 30, [80] * 21).rows()[1].verdict == "slower"


def test_a_huge_effect_is_said_after_three_seconds_though_both_sides_are_short() -> None:
    """1252 to 11.5 TPS: whatever the noise of so few seconds is, it is no factor of a hundred."""
    before = noisy(7, 626, 5)
    assert two_sides(before, [6, 5, 6, 6, 5, 7]).rows()[1].verdict == "too short before"
    epochs = two_sides(before, [6, 5, 6, 6, 5, 7, 6])
    row = epochs.rows()[1]
    assert row.verdict == "slower"
    assert row.ratio == pytest.approx(11.5 / 1252, rel=0.1)
    assert row.low_ratio is not None
    assert row.high_ratio is not None
    assert 0 < row.low_ratio < 11.5 / 1252 < row.high_ratio < 0.1
    epochs.begin(2, 7.0, "again")
    assert epochs.rows()[1].verdict == "slower"


def test_no_bound_of_a_figure_that_cannot_be_negative_is_below_zero() -> None:
    """Ten seconds between 10 and 2000 TPS that hang together: minus 556 TPS is no finding."""
    wild = [5, 8, 20, 30, 100, 200, 400, 700, 900, 1000, 1000, 1000, 900, 800, 600, 300, 200, 80, 30, 9, 6]
    row = two_sides(noisy(60, 100, 3), wild + wild).rows()[1]
    assert row.after is not None
    for bound in (row.after.tps.low, row.low_ratio, row.high_ratio):
        assert bound is None or bound >= 0
    assert row.low_percent is None or row.low_percent >= -100


def test_to_nothing_has_a_ratio_and_a_bound() -> None:
    row = two_sides([100] * 60, [100, *[0] * 12]).rows()[1]
    assert (row.verdict, row.ratio, row.low_ratio) == ("slower", 0.0, 0.0)
    assert row.high_ratio is not None
    assert 0 < row.high_ratio < 0.01


def test_a_batch_is_two_latencies_long() -> None:
    """At 2 s a commit a batch is 4 s, and ten of them are 40 s behind the first commit."""
    before = noisy(60, 100, 3)

    def after(seconds: float) -> Epoch:
        epochs = Epochs(0.0)
        changed_s = play(epochs, 0.0, before)
        epochs.begin(1, changed_s, "rtt")
        epochs.effective(1, changed_s)
        play(epochs, changed_s, [90] * int(seconds / TICK_S), latency_us=2_000_000)
        return epochs.rows()[1]

    assert after(41.5).verdict == "measuring"
    assert after(42.0).verdict == "slower"


def test_an_epoch_that_ended_early_says_so() -> None:
    epochs = two_sides([100] * 60, [70] * 10)
    assert epochs.rows()[1].verdict == "measuring"
    epochs.begin(2, 35.0, "again")
    epochs.effective(2, 35.0)
    play(epochs, 35.0, [100] * 60)
    short, after_short = epochs.rows()[1:]
    assert (short.verdict, after_short.verdict) == ("too short", "too short before")
    assert [verdict_words(row) for row in (short, after_short)] == [
        "too short: 6 s more",
        "too short before: 6 s more",
    ]
    assert short.delta_percent == pytest.approx(-30, abs=0.5)
    assert after_short.ci_percent is None


def test_minutes_in_noise_that_hangs_together_are_too_noisy_and_not_too_short() -> None:
    """A level that wanders slowly is not two independent readings, however many commits there are."""
    wander = [round(300 + 250 * (at % 240) / 240) for at in range(240)]
    epochs = two_sides(noisy(60, 300, 3), wander)
    row = epochs.rows()[1]
    assert row.verdict == "too noisy"
    assert row.n > 100_000 / 2
    assert row.more_s is not None
    assert row.more_s > 10
    epochs.begin(2, 150.0, "again")
    epochs.effective(2, 150.0)
    play(epochs, 150.0, [400] * 60)
    assert [each.verdict for each in epochs.rows()[1:]] == ["too noisy", "too noisy before"]


def test_a_stalled_second_does_not_hide_that_a_load_became_sixteen_times_as_slow() -> None:
    before = [1340, 1900, 700] * 20
    before[30:34] = [0] * 4
    drift = [60 + at for at in range(60)]
    row = two_sides(before, drift).rows()[1]
    assert row.verdict == "slower"


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


def test_forgotten_epochs() -> None:
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


def test_rows_count_time_from_the_beginning() -> None:
    epochs = Epochs(1000.0)
    epochs.begin(1, 1010.0, "x")
    assert [row.at_s for row in epochs.rows()] == [0.0, 10.0]
    epochs.effective(1, 1012.5)
    assert [row.at_s for row in epochs.rows()] == [0.0, 12.5]


def test_an_unchanged_row_is_the_same_object() -> None:
    """What is asked for twice a second must not be worked out or drawn twice a second."""
    epochs = two_sides([100] * 60, [30] * 60)
    rows = epochs.rows()
    assert all(again is row for again, row in zip(epochs.rows(), rows, strict=True))
    play(epochs, 60.0, [30])
    assert epochs.rows()[0] is rows[0]
    assert epochs.rows()[1] is not rows[1]


def test_a_finished_epoch_lets_its_stretches_go() -> None:
    epochs = two_sides([100] * 60, [30] * 60)
    for number in range(2, 6):
        epochs.begin(number, 60.0 + number, "x")
        epochs.rows()
    held = [len(segment.stretches.full) for segment in epochs._segments]
    assert held[:2] == [0, 0]
    assert [row.n for row in epochs.rows()][:2] == [59 * 100, 59 * 30]
    epochs.add(interval(45.0, 500))  # so late that nothing is counted twice or half
    assert epochs.rows()[1].n == 59 * 30


def test_both_sides_have_all_figures_with_intervals() -> None:
    row = two_sides(noisy(60, 100, 3), noisy(60, 30, 4)).rows()[1]
    assert row.before is not None
    assert row.after is not None
    assert row.before.n > 3 * row.after.n
    assert row.after.length_s == pytest.approx(29.5)
    for side, tps in ((row.before, 200), (row.after, 60)):
        assert side.tps.low is not None
        assert side.tps.high is not None
        assert side.tps.low < tps < side.tps.high
        assert side.tps.high - side.tps.low < 0.1 * tps
        for estimate in (side.p50_ms, side.p95_ms):
            assert estimate.value == pytest.approx(2, rel=0.01)
            assert (estimate.low, estimate.high) == (estimate.value, estimate.value)  # all alike


def test_the_interval_of_the_difference_is_wider_than_one_look_needs() -> None:
    """Many looks have to be right together; still it narrows with the epoch."""
    before = noisy(120, 100, 3)
    widths = [two_sides(before, noisy(ticks, 100, 4)).rows()[1].ci_percent or 0 for ticks in (22, 60, 240)]
    assert widths == sorted(widths, reverse=True)
    row = two_sides(before, noisy(240, 100, 4)).rows()[1]
    assert row.before is not None
    assert row.after is not None
    pointwise = 0.0
    for side in (row.before, row.after):
        assert side.tps.high is not None
        assert side.tps.value is not None
        pointwise += (side.tps.high - side.tps.value) ** 2
    assert widths[-1] / 100 * 200 > 1.2 * pointwise**0.5


def exposed(commits: int) -> Exposure:
    return Exposure(
        Loss(0, 0, 0), Loss(commits, commits // 2, 2 * commits), Unknown("no replica has answered yet")
    )


def test_each_side_has_what_a_failure_would_have_lost_but_for_the_transition() -> None:
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, [50] * 30)
    for at_s in (2.0, 3.0, 4.0):
        epochs.expose(at_s, exposed(0))
    epochs.begin(1, changed_s, "innodb_flush_log_at_trx_commit 1 → 2")
    epochs.effective(1, changed_s + 1)
    epochs.expose(changed_s + 0.5, exposed(99_999))
    play(epochs, changed_s, [90] * 30)
    for at, commits in enumerate((300, 700, 100)):
        epochs.expose(changed_s + 2 + at, exposed(commits))
    row = epochs.rows()[1]
    assert row.before is not None
    assert row.after is not None
    assert (row.before.exposure, row.after.exposure) == (
        exposed(0),
        replace(exposed(0), power_cut=Loss(300, 50, 1400)),
    )


def test_a_long_epoch_keeps_a_share_of_its_looks() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, [50] * 30)
    for number in range(10_000):
        epochs.expose(1.0 + number / 1000, exposed(number))
    (row,) = epochs.rows()
    assert row.after is not None
    assert row.after.exposure is not None
    assert isinstance(row.after.exposure.power_cut, Loss)
    assert row.after.exposure.power_cut.commits == pytest.approx(5000, rel=0.02)


def opened(epochs: Epochs, start_s: float, latencies_us: Iterable[int], count: int = 50) -> float:
    """Feed intervals of an open load: service is short, responses are what is given."""
    for latency_us in latencies_us:
        response = Histogram.of([latency_us * share // 100 for share in range(100 - count, 100)])
        epochs.add(replace(interval(start_s, count), mode="open", response=response))
        start_s += TICK_S
    return start_s


@pytest.mark.parametrize(("after_us", "verdict"), [(90_000, "slower"), (18_000, "faster")])
def test_in_the_open_loop_response_p95_decides(after_us: int, verdict: str) -> None:
    """TPS is what was asked for on both sides: it says nothing."""
    source = random.Random(4)
    epochs = Epochs(0.0)
    changed_s = opened(epochs, 0.0, (source.randint(24_000, 26_000) for _ in range(60)))
    epochs.begin(1, changed_s, "x")
    epochs.effective(1, changed_s)
    spread = after_us // 25
    opened(epochs, changed_s, (source.randint(after_us - spread, after_us + spread) for _ in range(60)))
    row = epochs.rows()[1]
    assert (row.mode, row.verdict) == ("open", verdict)
    assert row.after_tps == row.before_tps == pytest.approx(100)
    assert row.delta_percent == pytest.approx(100 * (after_us - 25_000) / 25_000, rel=0.1)
    assert row.low_percent is not None
    assert row.high_percent is not None
    assert row.delta_percent is not None
    assert row.low_percent < row.delta_percent < row.high_percent
    assert row.p95_ms == pytest.approx(0.975 * after_us / 1000, rel=0.05)


def test_a_closed_and_an_open_loop_are_not_comparable() -> None:
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, [100] * 60)
    epochs.begin(1, changed_s, "load_mode closed → open")
    epochs.effective(1, changed_s)
    opened(epochs, changed_s, [20_000] * 60)
    row = epochs.rows()[1]
    assert (row.verdict, row.delta_percent) == ("not comparable", None)


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

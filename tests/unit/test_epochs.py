"""Epochs: what is left out, when there is a verdict, and what it comes from."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch, Epochs, EpochSide
from replexplorer.core.epochs.table import effect_words, markdown, verdict_words
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate, t_quantile_975
from tests.fakes.load import interval_of
from tests.known import known
from tests.typed import fields

TICK_S = 0.5


def closed(counts: Iterable[int], latency_us: int = 2000) -> Iterator[Interval]:
    """A tick for each of these numbers of commits."""
    return (interval_of(0.0, [latency_us] * commits) for commits in counts)


def opened(latencies_us: Iterable[int], count: int = 50) -> Iterator[Interval]:
    """Ticks of an open load: service is short, responses are what is given."""
    for us in latencies_us:
        response = Histogram.of(us * share // 100 for share in range(100 - count, 100))
        yield interval_of(0.0, [2000] * count, mode="open", response=response)


def play(epochs: Epochs, start_s: float, ticks: Iterable[Interval]) -> float:
    """Feed intervals one after the other; answers when the last one ended."""
    for tick in ticks:
        epochs.add(replace(tick, start_s=start_s, end_s=start_s + TICK_S))
        start_s += TICK_S
    return start_s


def change(epochs: Epochs, number: int, at_s: float) -> None:
    """One that is in force at once."""
    epochs.begin(number, at_s, "rtt 20 → 85 ms")
    epochs.effective(number, at_s)


def two_sides(before: Iterable[Interval], after: Iterable[Interval]) -> Epochs:
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, before)
    change(epochs, 1, changed_s)
    play(epochs, changed_s, after)
    return epochs


def of_closed(before: Iterable[int], after: Iterable[int]) -> Epochs:
    """Two sides of a closed load, by their commits in each tick."""
    return two_sides(closed(before), closed(after))


def noisy(count: int, mean: float, seed: int) -> list[int]:
    source = random.Random(seed)
    return [max(0, round(source.gauss(mean, mean / 20))) for _ in range(count)]


def drawn(seed: int, low: int, high: int) -> list[int]:
    source = random.Random(seed)
    return [source.randint(low, high) for _ in range(60)]


BEFORE = noisy(60, 100, 3)
WANDER = [round(300 + 250 * (at % 240) / 240) for at in range(240)]
"""No two readings are independent, however many commits there are."""
WILD = [5, 8, 20, 30, 100, 200, 400, 700, 900, 1000, 1000, 1000, 900, 800, 600, 300, 200, 80, 30, 9, 6]
"""Ten seconds between 10 and 2000 TPS that hang together."""
STALLED = [1340, 1900, 700] * 10 + [0] * 4 + [700, *[1340, 1900, 700] * 8, 1340]


SIDES = {
    "a third": of_closed(BEFORE, noisy(60, 30, 4)),
    "a third more": of_closed(BEFORE, noisy(60, 130, 4)),
    "the same": of_closed(BEFORE, noisy(60, 100, 4)),
    "the first interval of each side is its transition, and 20 are 10 batches": of_closed(
        [100] * 30, [80] * 20
    ),
    "10 batches of 1 s": of_closed([100] * 30, [80] * 21),
    "at 2 s a commit a batch is 4 s, and ten of them are 40 s behind the first commit": two_sides(
        closed(BEFORE), closed([90] * 83, 2_000_000)
    ),
    "40 s": two_sides(closed(BEFORE), closed([90] * 84, 2_000_000)),
    "few seconds": of_closed(noisy(7, 626, 5), [6, 5, 6, 6, 5, 7]),
    "whatever the noise of so few seconds is, it is no factor of a hundred": of_closed(
        noisy(7, 626, 5), [6, 5, 6, 6, 5, 7, 6]
    ),
    "to nothing": of_closed([100] * 60, [100, *[0] * 12]),
    "from nothing there is no ratio": of_closed([1, *[0] * 30], [100] * 30),
    "stalls": of_closed(STALLED, range(60, 120)),
    "what wanders": of_closed(noisy(60, 300, 3), WANDER),
    "what hangs together": of_closed(BEFORE, WILD * 2),
    "TPS is what was asked for on both sides; response p95 decides": two_sides(
        opened(drawn(4, 24_000, 26_000)), opened(drawn(5, 86_000, 94_000))
    ),
    "a shorter response": two_sides(opened(drawn(4, 24_000, 26_000)), opened(drawn(5, 17_300, 18_700))),
    "another mode": two_sides(closed(BEFORE), opened([20_000] * 60)),
}


def test_verdicts(snapshot: object) -> None:
    """No bound of a figure that cannot be negative is below zero."""
    told = {}
    for case, sides in SIDES.items():
        row = sides.rows()[1]
        told[case] = f"{verdict_words(row)} {effect_words(row)}"
        if row.ratio and row.low_ratio is not None and row.high_ratio is not None:
            assert 0 <= row.low_ratio <= row.ratio <= row.high_ratio
            assert (row.verdict in ("slower", "faster")) == (not row.low_ratio < 1 < row.high_ratio)
        assert (known(row.after).tps.low or 0) >= 0
    assert told == snapshot


def test_a_change_of_appliers_is_judged_by_lag_and_another_one_is_not() -> None:
    for of_appliers, verdict in ((True, "lag 0.2 → 9.0 s growing"), (False, "2.0 times slower")):
        epochs = Epochs(0.0)
        epochs.fall_back(0.0, [ReplicaTruth("db2", 200.0, applied_tps=900.0, drain_s=0.1)])
        changed_s = play(epochs, 0.0, closed(noisy(60, 200, 3)))
        epochs.begin(1, changed_s, "applier workers 4 → 1", of_appliers=of_appliers)
        epochs.effective(1, changed_s)
        end_s = play(epochs, changed_s, closed(noisy(60, 100, 4)))
        epochs.fall_back(end_s, [ReplicaTruth("db2", 9000.0, applied_tps=300.0)])
        assert verdict_words(epochs.rows()[1]) == verdict


def test_an_epoch_that_ended_early_says_so(snapshot: object) -> None:
    epochs = of_closed([100] * 60, [70] * 10)
    assert epochs.rows()[1].verdict == "measuring"
    change(epochs, 2, 35.0)
    play(epochs, 35.0, closed([100] * 60))
    short, after_short = epochs.rows()[1:]
    assert [verdict_words(row) for row in (short, after_short)] == snapshot
    assert short.delta_percent == pytest.approx(-30, abs=0.5)
    assert after_short.low_percent is None


def test_minutes_in_noise_that_hangs_together_are_too_noisy_and_not_too_short() -> None:
    epochs = of_closed(noisy(60, 300, 3), WANDER)
    assert known(epochs.rows()[1].more_s) > 10
    change(epochs, 2, 150.0)
    play(epochs, 150.0, closed([400] * 60))
    assert [each.verdict for each in epochs.rows()[1:]] == ["too noisy", "too noisy before"]


def test_the_transition_is_left_out(snapshot: object) -> None:
    """Nothing counts while the change is under way, and one latency longer."""
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed([100] * 40))
    epochs.begin(1, 20.0, "rtt 0 → 1000 ms")
    play(epochs, 20.0, closed([700] * 4))  # under way: 20 to 22
    epochs.effective(1, 22.0, "rtt 0 → 1000 ms (rolled back)")
    play(epochs, 22.0, closed([500, 500], latency_us=900_000))  # begun before, ends within 0.9 s
    play(epochs, 23.0, closed([4] * 10, latency_us=1_000_000))
    assert [(row.number, row.title, row.n, row.after_tps) for row in epochs.rows()] == snapshot


def test_an_interval_across_a_change_belongs_to_nobody_and_a_late_one_to_the_epoch_before() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed([10] * 4))
    change(epochs, 1, 2.7)
    play(epochs, 2.0, closed([10]))  # ended before the change, came after it
    play(epochs, 2.5, closed([999]))
    before, after = epochs.rows()
    assert before.n == 40  # the first of five is the baseline's own transition
    assert after.n == 0
    assert after.after_tps is None


def test_a_load_that_does_not_run_is_no_measurement_and_a_stall_is_one() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed([10] * 11))
    play(epochs, 5.5, [replace(tick, state="waiting") for tick in closed([0] * 10)])
    assert epochs.rows()[0].after_tps == 20
    play(epochs, 5.5, closed([0] * 10))
    assert epochs.rows()[0].after_tps == 10


def test_only_the_newest_epochs_are_kept() -> None:
    epochs = Epochs(0.0)
    for number in range(1, 300):
        epochs.begin(number, float(number), "x")
    first, *_, last = epochs.rows()
    assert len(epochs.rows()) == 100
    assert last.number == 299
    assert first.verdict == "too short"  # what it was compared with is forgotten


def test_a_finished_epoch_keeps_its_row_whatever_comes_after() -> None:
    epochs = of_closed([100] * 30, [30] * 30)
    row = epochs.rows()[1]
    assert row.verdict == "slower"
    for number in range(2, 100):
        epochs.begin(number, 28.0 + number, "x")
        assert epochs.rows()[1] == row
    play(epochs, 20.0, closed([500]))  # so late that nothing is counted twice or half
    assert epochs.rows()[1] == row
    assert [len(segment.stretches.full) for segment in epochs._segments][:2] == [0, 0]
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
    epochs = of_closed([100] * 60, [30] * 60)
    rows = epochs.rows()
    assert all(again is row for again, row in zip(epochs.rows(), rows, strict=True))
    play(epochs, 60.0, closed([30]))
    assert [again is row for again, row in zip(epochs.rows(), rows, strict=True)] == [True, False]


def test_both_sides_have_all_figures_with_intervals(snapshot: object) -> None:
    assert markdown(of_closed(BEFORE, noisy(60, 30, 4)).rows()) == snapshot


def exposed(commits: int) -> Exposure:
    return Exposure(
        Loss(0, 0, 0), Loss(commits, commits // 2, 2 * commits), Unknown("no replica has answered yet")
    )


def test_each_side_has_what_a_failure_would_have_lost_but_for_the_transition() -> None:
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, closed([50] * 30))
    for at_s in (2.0, 3.0, 4.0):
        epochs.expose(at_s, exposed(0))
    epochs.begin(1, changed_s, "innodb_flush_log_at_trx_commit 1 → 2")
    epochs.effective(1, changed_s + 1)
    epochs.expose(changed_s + 0.5, exposed(99_999))
    play(epochs, changed_s, closed([90] * 30))
    for at, commits in enumerate((300, 700, 100)):
        epochs.expose(changed_s + 2 + at, exposed(commits))
    row: Epoch = epochs.rows()[1]
    assert known(row.before).exposure == exposed(0)
    assert known(row.after).exposure == replace(exposed(0), power_cut=Loss(300, 50, 1400))


def test_a_long_epoch_keeps_a_share_of_its_looks() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed([50] * 30))
    for number in range(10_000):
        epochs.expose(1.0 + number / 1000, exposed(number))
    cut = known(known(epochs.rows()[0].after).exposure).power_cut
    assert isinstance(cut, Loss)
    assert cut.commits == pytest.approx(5000, rel=0.02)


def test_students_t() -> None:
    quantiles = {1: 12.706, 5: 2.571, 9.5: 2.2442, 18: 2.101, 35: 2.0301, 200: 1.9719, 1e9: 1.95996}
    assert {freedom: t_quantile_975(freedom) for freedom in quantiles} == pytest.approx(quantiles, abs=0.001)


# -- the ledger as Markdown

OLD_SIDE = EpochSide(Estimate(619.2, 611.4, 627.0), Estimate(25.2, 25.1, 25.3), n=28_500, length_s=46)
NEW_SIDE = EpochSide(
    Estimate(88.4, 88.1, 88.7), Estimate(89, 88.8, 89.2), Estimate(93), Estimate(98, 97, None), 7433, 84,
    exposure=Exposure(Loss(0, 0, 0), Loss(455, 0, 912, 413.0), Unknown("no replica has answered yet")),
)  # fmt: skip
CHANGE = Epoch(
    title="rtt 20 → 85 ms | both",
    before=OLD_SIDE,
    after=NEW_SIDE,
    **fields(
        "number=1 at_s=75.0 before_tps=619.2 after_tps=88.4 delta_percent=-85.72 verdict='slower'"
        " low_percent=-86.04 high_percent=-85.41"
    ),
)


def test_the_ledger_as_markdown(snapshot: object) -> None:
    """The baseline is one row, a change is two, and of one that has just begun nothing is known."""
    baseline = Epoch(0, 15.0, "baseline", None, 619.2, verdict="baseline", after=OLD_SIDE)
    assert markdown([baseline, CHANGE, Epoch(3, 90.0, "x", 100.0, None)], origin_s=15.0) == snapshot


def test_no_ratio_is_below_zero_though_an_old_recording_says_so() -> None:
    old = Epoch(1, 0.0, "x", 1.0, 2.0, 100.0, low_percent=-8516.0, high_percent=9803.0)
    assert effect_words(old) == "x2.0 [0, 99]"

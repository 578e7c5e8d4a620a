"""Epochs: what is left out, when there is a verdict, and what it comes from."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from replexplorer.core.epochs.epochs import Epoch, Epochs
from replexplorer.core.epochs.table import effect_words, markdown, verdict_words
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.stats.histogram import Histogram
from tests.fakes.load import interval_of
from tests.known import known
from tests.typed import table_of, values_of

TICK_S = 0.5


def closed(counts: Iterable[int], latency_us: int = 2000) -> Iterator[Interval]:
    """A tick for each of these numbers of commits."""
    return (interval_of(0.0, [latency_us] * commits) for commits in counts)


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


def side(text: str, seed: int) -> Iterable[Interval]:
    """`~100x60 20 30x4@1000`: 60 ticks of about 100 commits, one of 20 and 4 of 30, each of 1000 ms; or those
    of a name. `open 24x9`: in the open loop service is short, and responses take up to this many ms."""
    source, numbers = random.Random(seed), list[int]()
    counts, _, ms = text.removeprefix("open ").partition("@")
    for word in counts.split():
        mean, _, times = word.strip("~").partition("x")
        if word in NAMED:
            numbers += NAMED[word]
            continue
        scatter = int(mean) / 20 if word.startswith("~") else 0
        numbers += [round(source.gauss(int(mean), scatter)) for _ in range(int(times or 1))]
    if not text.startswith("open "):
        return closed(numbers, 1000 * int(ms or 2))
    responses = (Histogram.of(10 * number * share for share in range(50, 100)) for number in numbers)
    return [interval_of(0.0, [2000] * 50, mode="open", response=each) for each in responses]


def played(*sides: str) -> Epochs:
    """An epoch each, one after the other."""
    epochs, at_s = Epochs(0.0), 0.0
    for number, text in enumerate(sides):
        if number:
            change(epochs, number, at_s)
        at_s = play(epochs, at_s, side(text, number))
    return epochs


def noisy(count: int, mean: float, seed: int) -> list[int]:
    source = random.Random(seed)
    return [max(0, round(source.gauss(mean, mean / 20))) for _ in range(count)]


NAMED: dict[str, Sequence[int]] = {
    # No two readings are independent, however many commits there are.
    "wander": [round(300 + 250 * (at % 240) / 240) for at in range(240)],
    # Ten seconds between 10 and 2000 TPS that hang together.
    "wild": values_of("5 8 20 30 100 200 400 700 900 1000 1000 1000 900 800 600 300 200 80 30 9 6")[0],
    "stalled": [1340, 1900, 700] * 10 + [0] * 4 + [700, *[1340, 1900, 700] * 8, 1340],
    "rising": range(60, 120),
}


SIDES = """\
a third                                                       | ~100x60      | ~30x60
a third more                                                  | ~100x60      | ~130x60
the same                                                      | ~100x60      | ~100x60
the first tick is the transition, and 20 are 10 batches       | 100x30       | 80x20
10 batches of 1 s                                             | 100x30       | 80x21
at 2 s a commit a batch is 4 s, and ten are 40 s behind it    | ~100x60      | 90x83@2000
40 s                                                          | ~100x60      | 90x84@2000
few seconds                                                   | ~626x7       | 6 5 6 6 5 7
whatever the noise of few seconds is, no factor of a hundred  | ~626x7       | 6 5 6 6 5 7 6
to nothing                                                    | 100x60       | 100 0x12
from nothing there is no ratio                                | 1 0x30       | 100x30
stalls                                                        | stalled      | rising
what hangs together                                           | ~100x60      | wild wild
TPS is what was asked for on both sides: response p95 decides | open ~25x60  | open ~90x60
a shorter response                                            | open ~25x60  | open ~18x60
the same response                                             | open ~25x60  | open ~25x60
another mode                                                  | 100x60       | open 20x60
one that ended early                                          | 100x60       | 70x10        | 100x60
minutes that hang together are too noisy and not too short    | ~300x60      | wander       | 400x60
"""


def test_verdicts(snapshot: object) -> None:
    """No bound of a figure that cannot be negative is below zero."""
    told = {}
    for case, *sides in table_of(SIDES):
        rows = played(*sides).rows()[1:]
        told[case] = [f"{verdict_words(row)} {effect_words(row)}" for row in rows]
        for row in rows:
            if row.ratio and row.low_ratio is not None and row.high_ratio is not None:
                assert 0 <= row.low_ratio <= row.ratio <= row.high_ratio
                assert (row.verdict in ("slower", "faster")) == (not row.low_ratio < 1 < row.high_ratio)
            assert (known(row.after).tps.low or 0) >= 0
    assert told == snapshot


def test_a_change_of_appliers_is_judged_by_lag_and_another_one_is_not() -> None:
    for of_appliers, verdict in ((True, "lag 0.2 → 9.0 s growing"), (False, "2.0 times slower")):
        epochs = Epochs(0.0)
        epochs.fall_back(0.0, [ReplicaTruth("db2", 200.0, applied_tps=900.0, drain_s=0.1)])
        changed_s = play(epochs, 0.0, side("~200x60", 0))
        epochs.begin(1, changed_s, "applier workers 4 → 1", of_appliers=of_appliers)
        epochs.effective(1, changed_s)
        end_s = play(epochs, changed_s, side("~100x60", 1))
        epochs.fall_back(end_s, [ReplicaTruth("db2", 9000.0, applied_tps=300.0)])
        assert verdict_words(epochs.rows()[1]) == verdict


def test_the_transition_is_left_out_and_times_count_from_the_beginning(snapshot: object) -> None:
    """Nothing counts while the change is under way, and one latency longer."""
    epochs = Epochs(1000.0)
    play(epochs, 1000.0, side("100x40", 0))
    epochs.begin(1, 1020.0, "rtt 0 → 1000 ms")
    assert epochs.rows()[1].at_s == 20
    play(epochs, 1020.0, side("700x4", 0))  # under way: 20 to 22
    epochs.effective(1, 1022.0, "rtt 0 → 1000 ms (rolled back)")
    play(epochs, 1022.0, side("500x2@900", 0))  # begun before, ends within 0.9 s
    play(epochs, 1023.0, side("4x10@1000", 0))
    assert [(row.number, row.at_s, row.title, row.n, row.after_tps) for row in epochs.rows()] == snapshot


def test_an_interval_across_a_change_is_in_no_epoch_and_a_late_one_in_the_epoch_before() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed([10] * 4))
    change(epochs, 1, 2.7)
    play(epochs, 2.0, closed([10]))  # ended before the change, came after it
    play(epochs, 2.5, closed([999]))
    # the first of five is the baseline's own transition
    assert [row.n for row in epochs.rows()] == [40, 0]


def test_a_load_that_does_not_run_is_no_measurement_and_a_stall_is_one() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, side("10x11", 0))
    for state, tps in (("waiting", 20), ("running", 10)):
        play(epochs, 5.5, [replace(tick, state=state) for tick in side("0x10", 0)])
        assert epochs.rows()[0].after_tps == tps


def test_a_finished_epoch_keeps_its_row_whatever_comes_after_and_the_newest_are_kept() -> None:
    """And what did not change is neither worked out nor drawn again twice a second."""
    epochs = played("100x30", "30x30")
    baseline, row = epochs.rows()
    assert epochs.rows()[0] is baseline
    assert row.verdict == "slower"
    for number in range(2, 100):
        epochs.begin(number, 28.0 + number, "x")
        assert epochs.rows()[1] == row
    play(epochs, 20.0, closed([500]))  # so late that nothing is counted twice or half
    epochs.begin(100, 200.0, "x")
    assert epochs.rows()[0] == row, "the baseline is forgotten, what was found is not"
    epochs.begin(101, 300.0, "x")
    numbers = [each.number for each in epochs.rows()]
    assert numbers == list(range(2, 102))


def exposed(commits: int) -> Exposure:
    return Exposure(
        Loss(0, 0, 0), Loss(commits, commits // 2, 2 * commits), Unknown("no replica has answered yet")
    )


def test_the_ledger_as_markdown(snapshot: object) -> None:
    """The baseline is one row, a change is two, and of one that has just begun nothing is known. Each side
    has what a failure would have lost meanwhile, but for the transition, and of many looks a share."""
    epochs = Epochs(0.0)
    changed_s = play(epochs, 0.0, side("~50x60", 0))
    for look in range(10_000):
        epochs.expose(1.0 + look / 1000, exposed(look))
    epochs.begin(1, changed_s, "innodb_flush_log_at_trx_commit 1 → 2 | both")
    epochs.effective(1, changed_s + 1)
    epochs.expose(changed_s + 0.5, exposed(99_999))
    end_s = play(epochs, changed_s, side("~90x60", 1))
    for at, commits in enumerate((300, 700, 100)):
        epochs.expose(changed_s + 2 + at, exposed(commits))
    epochs.begin(2, end_s, "x")
    assert markdown(epochs.rows(), origin_s=15.0) == snapshot


def test_no_ratio_is_below_zero_though_an_old_recording_says_so() -> None:
    old = Epoch(1, 0.0, "x", 1.0, 2.0, 100.0, low_percent=-8516.0, high_percent=9803.0)
    assert effect_words(old) == "x2.0 [0, 99]"

"""The epoch ledger as Markdown."""

from __future__ import annotations

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import effect_words, figure, markdown, with_interval
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.measured import Estimate

BEFORE = EpochSide(Estimate(619.2, 611.4, 627.0), Estimate(25.2, 25.1, 25.3), n=28_500, length_s=46)
AFTER = EpochSide(
    Estimate(88.4, 88.1, 88.7), Estimate(89, 88.8, 89.2), Estimate(93), Estimate(98, 97, None), 7433, 84,
    exposure=Exposure(Loss(0, 0, 0), Loss(455, 0, 912, 413.0), Unknown("no replica has answered yet")),
)  # fmt: skip
CHANGE = Epoch(
    number=1,
    at_s=75.0,
    title="rtt 20 → 85 ms | both",
    before_tps=619.2,
    after_tps=88.4,
    delta_percent=-85.72,
    verdict="slower",
    low_percent=-86.04,
    high_percent=-85.41,
    before=BEFORE,
    after=AFTER,
)


def test_the_ledger_as_markdown(snapshot: object) -> None:
    """The baseline is one row, a change is two, and of one that has just begun nothing is known."""
    baseline = Epoch(0, 15.0, "baseline", None, 619.2, verdict="baseline", after=BEFORE)
    assert markdown([baseline, CHANGE, Epoch(3, 90.0, "x", 100.0, None)], origin_s=15.0) == snapshot


def test_figures() -> None:
    assert [figure(value) for value in (None, 0.251, 9.994, 9.996, 11.41, 99.96, 15_703.4)] == [
        "-", "0.25", "9.99", "10.0", "11.4", "100", "15703",
    ]  # fmt: skip
    assert with_interval(Estimate(5.0, None, 6.0)) == "5.00 […, 6.00]"


def test_no_ratio_is_below_zero_though_an_old_recording_says_so() -> None:
    old = Epoch(1, 0.0, "x", 1.0, 2.0, 100.0, low_percent=-8516.0, high_percent=9803.0)
    assert effect_words(old) == "x2.0 [0, 99]"

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


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]


def test_a_change_is_two_rows() -> None:
    lines = markdown([CHANGE], origin_s=15.0).splitlines()
    assert cells(lines[0])[2:5] == ["change", "", "TPS"]
    assert len({len(cells(line)) for line in lines[:4]}) == 1
    assert cells(lines[2]) == [
        "1", "00:01:00", "rtt 20 → 85 ms / both", "before", "619 [611, 627]", "25.2 [25.1, 25.3]",
        "-", "-", "28500", "-", "-", "-", "", "",
    ]  # fmt: skip
    assert cells(lines[3]) == [
        "", "", "", "after", "88.4 [88.1, 88.7]", "89.0 [88.8, 89.2]", "93.0", "98.0 [97.0, …]",
        "7433", "0", "455 (0 to 912)", "?", "x0.143 [0.140, 0.146]", "7.0 times slower",
    ]  # fmt: skip
    assert "one test" in lines[-1]


def test_the_baseline_is_one_row() -> None:
    baseline = Epoch(0, 0.0, "baseline", None, 619.2, verdict="baseline", after=BEFORE)
    lines = markdown([baseline]).splitlines()
    assert cells(lines[2])[:5] == ["0", "00:00:00", "baseline", "after", "619 [611, 627]"]
    assert lines[3] == ""


def test_nothing_is_known_yet() -> None:
    row = cells(markdown([Epoch(3, 0.0, "x", 100.0, None)]).splitlines()[2])
    assert row[4:] == ["-", "-", "-", "-", "0", "-", "-", "-", "", "measuring"]


def test_figures() -> None:
    assert [figure(value) for value in (None, 0.251, 9.994, 9.996, 11.41, 99.96, 15_703.4)] == [
        "-", "0.25", "9.99", "10.0", "11.4", "100", "15703",
    ]  # fmt: skip
    assert with_interval(Estimate(5.0, None, 6.0)) == "5.00 […, 6.00]"


def test_no_ratio_is_below_zero_though_an_old_recording_says_so() -> None:
    old = Epoch(1, 0.0, "x", 1.0, 2.0, 100.0, low_percent=-8516.0, high_percent=9803.0)
    assert effect_words(old) == "x2.0 [0, 99]"

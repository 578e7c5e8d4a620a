"""What a drill's expectations come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.experiment.drill import Expectation, FigureCondition, StateCondition
from replexplorer.core.experiment.drill_result import between, first_after, rates_of
from replexplorer.core.experiment.drill_verdict import (
    SIGNS,
    FaultSpan,
    StateAt,
    judge,
    noted,
    rates,
    stretches_of,
)

FIGURES = {"lost": 5.0, "clients": 8.0, "tps_during": 12.5}
TIMELINE = (StateAt(0.0, "protected"), StateAt(2.0, "blocked"), StateAt(5.0, "degraded"))


@pytest.mark.parametrize(
    ("condition", "holds", "evidence"),
    [
        (FigureCondition("lost", "==", 0.0), False, "found 5; exactly 0 would hold"),
        (FigureCondition("lost", ">", 0.0), True, "5 > 0"),
        (FigureCondition("lost", "<=", "clients"), True, "5 <= 8"),
        (
            FigureCondition("lost", ">=", "clients", times=0.5, plus=2),
            False,
            "found 5; at least 6 would hold",
        ),
        (FigureCondition("tps_during", "<", 12.0), False, "found 12.50; less than 12 would hold"),
        (FigureCondition("phantom_reads", "==", 0.0), False, "phantom_reads was not measured"),
        (FigureCondition("lost", "<", "rpo_ms"), False, "rpo_ms was not measured"),
        (StateCondition("degraded"), True, "protected > blocked > degraded"),
        (StateCondition("down"), False, "protected > blocked > degraded"),
        (StateCondition("down", never=True), True, "protected > blocked > degraded"),
        (StateCondition("blocked", never=True), False, "protected > blocked > degraded"),
    ],
)
def test_an_expectation_holds_or_says_what_was_found(
    condition: FigureCondition | StateCondition, holds: bool, evidence: str
) -> None:
    [judged] = judge([Expectation("x", condition)], FIGURES, TIMELINE)
    assert (judged.holds, judged.evidence) == (holds, evidence)


@given(st.sampled_from(list(SIGNS)), st.integers(-9, 9), st.integers(-9, 9))
def test_a_comparison_and_its_opposite_never_agree(sign: str, left: int, right: int) -> None:
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[sign]
    both = [Expectation(each, FigureCondition("lost", each, float(right))) for each in (sign, opposite)]
    one, other = judge(both, {"lost": float(left)}, ())
    assert one.holds is not other.holds


def test_a_state_that_lasts_is_one_entry() -> None:
    timeline: tuple[StateAt, ...] = ()
    for at_s, state in enumerate(("off", "off", "down", "down", "off")):
        timeline = noted(timeline, float(at_s), state)
    assert [each.state for each in timeline] == ["off", "down", "off"]
    assert stretches_of(timeline, 5.0) == [("off", 2.0), ("down", 2.0), ("off", 1.0)]


def test_rates_are_of_before_during_and_after_the_faults() -> None:
    windows = (FaultSpan("kill", "db1", 2.0, 4.0), FaultSpan("pause", "db1", 5.0, 6.0))
    counts = [(second / 2, second / 2 + 0.5, 10 if second < 4 else 2) for second in range(20)]
    assert rates(counts, windows, 10.0) == {"tps_before": 20.0, "tps_during": 4.0, "tps_after": 4.0}
    assert rates(counts, (), 10.0) == {}
    still = (FaultSpan("kill", "db1", 2.0, None),)
    assert set(rates(counts, still, 10.0)) == {"tps_before", "tps_during"}


def test_a_stall_counts_as_time() -> None:
    """Between the last OK before a stall and the first one after it nobody had any."""
    times_s = [at / 10 for at in range(20)] + [8 + at / 10 for at in range(20)]
    found = rates_of(times_s, (FaultSpan("pause", "db1", 2.0, 8.0),), 10.0)
    assert found["tps_during"] < 0.5
    assert found["tps_before"] == pytest.approx(10, rel=0.2)
    assert found["tps_after"] == pytest.approx(10, rel=0.2)


@given(st.lists(st.floats(0, 100), max_size=50), st.floats(0, 100), st.floats(0, 100))
def test_times_are_counted_as_one_by_one(times_s: list[float], one_s: float, other_s: float) -> None:
    times_s.sort()
    low_s, high_s = sorted((one_s, other_s))
    assert between(times_s, low_s, high_s) == sum(low_s <= each <= high_s for each in times_s)
    assert first_after(times_s, low_s) == min((each for each in times_s if each >= low_s), default=None)

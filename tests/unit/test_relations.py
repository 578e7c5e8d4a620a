"""What expectations come to: a drill's, and a relation's evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.experiment.drill_result import (
    FaultSpan,
    StateAt,
    between,
    first_after,
    judge,
    rates_of,
    stretches_of,
)
from replexplorer.core.experiment.lab import Length, Phase, PhaseResult
from replexplorer.core.experiment.relations import SIGNS, Claim, Found
from replexplorer.core.server.protection import ProtectionState

FIGURES = {"lost": 5.0, "clients": 8.0, "tps_during": 12.5}
TIMELINE = (StateAt(0.0, "protected"), StateAt(2.0, "blocked"), StateAt(5.0, "degraded"))


def compared(left: str, sign: str, right: str | float, times: float = 1.0, plus: float = 0.0) -> Claim:
    return Claim("x", left, right, sign, times, plus)  # type: ignore[arg-type]


def test_an_expectation_holds_or_says_what_was_found(snapshot: object) -> None:
    expected = [
        compared("lost", "==", 0.0),
        compared("lost", ">=", "clients", 0.5, 2),
        compared("phantom_reads", "==", 0.0),
        compared("lost", "<", "rpo_ms"),
        Claim("x", passes=ProtectionState.DEGRADED),
        Claim("x", passes=ProtectionState.DOWN),
        Claim("x", never=ProtectionState.DOWN),
        Claim("x", never=ProtectionState.BLOCKED),
    ]
    judged = judge(expected, FIGURES, TIMELINE)
    assert [(each.holds, each.evidence) for each in judged] == snapshot


@given(st.sampled_from(list(SIGNS)), st.integers(-9, 9), st.integers(-9, 9))
def test_a_comparison_and_its_opposite_never_agree(sign: str, left: int, right: int) -> None:
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}[sign]
    both = [compared("lost", each, float(right)) for each in (sign, opposite)]
    one, other = judge(both, {"lost": float(left)}, ())
    assert one.holds is not other.holds


def test_each_state_lasts_until_the_next_one() -> None:
    timeline = (StateAt(0.0, "off"), StateAt(2.0, "down"), StateAt(4.0, "off"))
    assert stretches_of(timeline, 5.0) == [("off", 2.0), ("down", 2.0), ("off", 1.0)]


def test_rates_are_of_before_during_and_after_the_faults() -> None:
    windows = (FaultSpan("kill", "db1", 2.0, 4.0), FaultSpan("pause", "db1", 5.0, 6.0))
    times_s = [at / 20 + 0.01 for at in range(80)] + [4 + at / 4 + 0.01 for at in range(24)]
    found = rates_of(times_s, windows, 10.0)
    assert found == pytest.approx({"before": 20, "during": 12, "after": 4}, rel=0.02)
    assert rates_of(times_s, (), 10.0) == rates_of((), windows, 10.0) == {}
    still = (FaultSpan("kill", "db1", 2.0, None),)
    assert set(rates_of(times_s, still, 10.0)) == {"before", "during"}


def test_a_stall_counts_as_time() -> None:
    """Between the last OK before a stall and the first one after it nobody had any."""
    times_s = [at / 10 for at in range(20)] + [8 + at / 10 for at in range(20)]
    found = rates_of(times_s, (FaultSpan("pause", "db1", 2.0, 8.0),), 10.0)
    assert found["during"] < 0.5
    assert found["before"] == pytest.approx(10, rel=0.2)
    assert found["after"] == pytest.approx(10, rel=0.2)


@given(st.lists(st.floats(0, 100), max_size=50), st.floats(0, 100), st.floats(0, 100))
def test_times_are_counted_as_one_by_one(times_s: list[float], one_s: float, other_s: float) -> None:
    times_s.sort()
    low_s, high_s = sorted((one_s, other_s))
    assert between(times_s, low_s, high_s) == sum(low_s <= each <= high_s for each in times_s)
    assert first_after(times_s, low_s) == min((each for each in times_s if each >= low_s), default=None)


# -- a relation's evidence: what was found, and of one that failed what would hold


def phase(name: str, tps: float) -> PhaseResult:
    asked = Phase(name, (), Length(1), Length(1), ProtectionState.OFF, "")
    return PhaseResult(asked, rtt_measured_ms=85.0, tps=tps, clients=1)


def test_a_failed_relation_says_what_was_found_and_what_would_hold(snapshot: object) -> None:
    claims = [
        Claim("x", "a.tps", "b.tps", ">=", unit="TPS"),
        Claim("x", "b.tps", "a.tps", ">=", unit="TPS"),
        Claim("x", "a.tps", 19, "<=", explains="a reason"),
        Claim("x", "b.tps", "b.round_trip_tps", "<=", unit="TPS"),
        Claim("x", "a.tps", "a.round_trip_tps", "<=", unit="TPS"),
        Claim("x", "a.tps - b.tps", "b.tps", says="{ratio:.3f}", least=0.9, most=1.1),
        Claim("x", "a.tps - b.tps / b.tps", 2, says="{ratio:.1f}", least=0.9),
        Claim("x", "a.lag, s", 1, "=="),
        Claim("x", "a.fsync_ms", 0, ">="),
        Claim("x", "a.found - it.tps", 1, "=="),
        Claim("x", "a - b.tps", 7, "=="),
        # a figure that is only shown is not said to hold
        Claim("x", "a.tps", 10, says="{ratio:.0f} times"),
        Claim("x", "a.tps", 10, "<", shown="of this machine"),
    ]
    phases = {name: phase(name, tps) for name, tps in (("a", 20), ("b", 10), ("a - b", 7))}
    judged = [claim.judge(Found(phases)) for claim in claims]
    assert [(each.word, each.evidence) for each in judged] == snapshot

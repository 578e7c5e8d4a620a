"""A relation's evidence: what was found, and of one that failed what would hold."""

from __future__ import annotations

import pytest

from replexplorer.core.experiment.lab import Length, Phase, PhaseResult
from replexplorer.core.experiment.relations import Claim, Found
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram


def phase(name: str, tps: float) -> PhaseResult:
    length = Length(1)
    asked = Phase(name, (), length, length, ProtectionState.OFF, "")
    return PhaseResult(asked, {}, 85.0, Histogram(), tps, None, Protection(ProtectionState.OFF, False), 1, 0)


@pytest.mark.parametrize(
    ("claim", "holds", "evidence"),
    [
        (Claim("x", "a.tps", "b.tps", ">=", unit="TPS"), True, "20 >= 10 TPS"),
        (
            Claim("x", "b.tps", "a.tps", ">=", unit="TPS"),
            False,
            "found 10 TPS; at least 20 TPS would hold",
        ),
        (
            Claim("x", "a.tps", 19, "<=", explains="a reason"),
            False,
            "found 20; at most 19 would hold; a reason",
        ),
        (Claim("x", "b.tps", "b.round_trip_tps", "<=", unit="TPS"), True, "10.00 <= 11.76 TPS"),
        (
            Claim("x", "a.tps", "a.round_trip_tps", "<=", unit="TPS"),
            False,
            "found 20.00 TPS; at most 11.76 TPS would hold",
        ),
        (Claim("x", "a.tps - b.tps", "b.tps", says="{ratio:.3f}", least=0.9, most=1.1), True, "1.000"),
        (
            Claim("x", "a.tps - b.tps / b.tps", 2, says="{ratio:.1f}", least=0.9),
            False,
            "0.5; 0.9 or more would hold",
        ),
        (Claim("x", "a.lag, s", 1, "=="), False, "a.lag, s was not measured"),
        (Claim("x", "a.found - it.tps", 1, "=="), False, "a.found was not measured"),
        (Claim("x", "a - b.tps", 7, "=="), True, "7 == 7"),
    ],
)
def test_a_failed_relation_says_what_was_found_and_what_would_hold(
    claim: Claim, holds: bool, evidence: str
) -> None:
    phases = {name: phase(name, tps) for name, tps in (("a", 20), ("b", 10), ("a - b", 7))}
    relation = claim.judge(Found(phases))
    assert (relation.holds, relation.evidence) == (holds, evidence)


def test_a_figure_that_is_only_shown_is_not_said_to_hold() -> None:
    phases = {"a": phase("a", 20)}
    shown = Claim("x", "a.tps", 10, says="{ratio:.0f} times").judge(Found(phases))
    assert (shown.word, shown.holds, shown.checked, shown.evidence) == ("shown", True, False, "2 times")
    shown = Claim("x", "a.tps", 10, "<", shown="of this machine").judge(Found(phases))
    assert (shown.word, shown.evidence) == ("shown", "found 20; less than 10 would hold; of this machine")

"""A relation's evidence: what was found, and of one that failed what would hold."""

from __future__ import annotations

import pytest

from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.labs.evidence import (
    at_least,
    below_the_round_trip,
    faster,
    printed,
    within,
)
from replexplorer.engine.experiment.labs.lab import Length, Phase, PhaseResult, Relation


def phase(name: str, tps: float) -> PhaseResult:
    length = Length(1)
    asked = Phase(name, (), length, length, ProtectionState.OFF, "")
    return PhaseResult(asked, {}, 85.0, Histogram(), tps, None, Protection(ProtectionState.OFF, False), 1, 0)


@pytest.mark.parametrize(
    ("relation", "holds", "evidence"),
    [
        (at_least("x", 2719, 2032), True, "2719 >= 2032 TPS"),
        (at_least("x", 2032, 2719), False, "found 2032 TPS; at least 2719 TPS would hold"),
        (at_least("x", 99.6, 100.4), False, "found 99.60 TPS; at least 100.40 TPS would hold"),
        (below_the_round_trip(phase("a", 11.4), 1.0), True, "11.40 <= 11.76 TPS"),
        (below_the_round_trip(phase("a", 12.4), 1.0), False, "found 12.40 TPS; at most 11.76 TPS would hold"),
        (within("x", 1.02, 0.9, 1.1), True, "1.020 in [0.9, 1.1]"),
        (within("x", 1.32, 0.9, 1.1), False, "found 1.320; 0.9 to 1.1 would hold"),
        (faster(phase("a", 20), phase("b", 10)), True, "20.0 > 10.0 TPS"),
        (
            faster(phase("a", 20), phase("b", 10), 3),
            False,
            "found 20.0 TPS; more than 3 x 10.0 = 30.0 TPS would hold",
        ),
    ],
)  # fmt: skip
def test_a_failed_relation_says_what_was_found_and_what_would_hold(
    relation: Relation, holds: bool, evidence: str
) -> None:
    assert (relation.holds, relation.evidence) == (holds, evidence)


def test_a_figure_that_is_only_shown_is_not_said_to_hold() -> None:
    shown = printed("async is faster than semi-sync", "87 times as fast; published: 82 times")
    assert (shown.word, shown.holds, shown.checked) == ("shown", True, False)
    assert Relation("x", True, "1 < 2").word == "holds"
    assert Relation("x", False, "2 < 1").word == "deviates"

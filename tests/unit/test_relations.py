"""What expectations come to: a drill's, a relation's evidence, and one of several repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.experiment.drill_result import (
    FaultSpan,
    StateAt,
    judge,
    rates_of,
    stretches_of,
)
from replexplorer.core.experiment.experiment import Relation
from replexplorer.core.experiment.lab import Lab, Length, Phase, PhaseResult, Phases, Published
from replexplorer.core.experiment.relations import Claim, Found, judge_by
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.ratio import repeated
from replexplorer.engine.experiment.lab import judged, merged
from tests.known import known
from tests.typed import fields, table_of, values_of

FIGURES = {"lost": 5.0, "clients": 8.0, "tps_during": 12.5}
TIMELINE = (StateAt(0.0, "protected"), StateAt(2.0, "blocked"), StateAt(5.0, "degraded"))


def claim(text: str, **more: Any) -> Claim:
    """`lost >= clients, 0.5 2`: a sign between two figures, and what the right one is multiplied by and added
    to."""
    compared, _, changed = text.partition(", ")
    left, sign, right = re.split(" (==|!=|<=|>=|<|>) ", compared)
    number = right if right[0].isalpha() else float(right)
    return Claim("x", left, number, sign, *map(float, changed.split()), **more)  # type: ignore[arg-type]


EXPECTED = """\
lost == 0
lost >= clients, 0.5 2
phantom_reads == 0
lost < rpo_ms
lost < lost
lost <= lost
lost > lost
lost != lost
"""


def test_an_expectation_holds_or_says_what_was_found(snapshot: object) -> None:
    expected = [
        *map(claim, EXPECTED.splitlines()),
        Claim("x", passes=ProtectionState.DEGRADED),
        Claim("x", passes=ProtectionState.DOWN),
        Claim("x", never=ProtectionState.DOWN),
        Claim("x", never=ProtectionState.BLOCKED),
    ]
    told = judge(expected, FIGURES, TIMELINE)
    assert [(each.holds, each.evidence) for each in told] == snapshot


def test_each_state_lasts_until_the_next_one_and_rates_are_of_before_during_and_after_the_faults() -> None:
    timeline = (StateAt(0.0, "off"), StateAt(2.0, "down"), StateAt(4.0, "off"))
    assert stretches_of(timeline, 5.0) == [("off", 2.0), ("down", 2.0), ("off", 1.0)]
    windows = (FaultSpan("kill", "db1", 2.0, 4.0), FaultSpan("pause", "db1", 5.0, 6.0))
    times_s = [at / 20 + 0.01 for at in range(80)] + [4 + at / 4 + 0.01 for at in range(24)]
    # What clients were told while a fault came or went is of no side.
    for held_s, during in (((2.0, 6.0), 12), ((3.0, 5.0), 12), ((4.0, 5.0), 4)):
        rates = {"before": 20, "during": during, "after": 4}
        assert rates_of(times_s, windows, held_s, 10.0) == pytest.approx(rates, rel=0.02)
    still = (*windows, FaultSpan("kill", "db1", 7.0, None))
    assert set(rates_of(times_s, still, (2.0, 6.0), 10.0)) == {"before", "during"}
    assert rates_of(times_s, still, (4.0, 5.0), 10.0)["during"] == pytest.approx(4, rel=0.02)
    assert rates_of(times_s, (), (2.0, 6.0), 10.0) == {}


# -- a relation's evidence: what was found, and of one that failed what would hold


def phase(name: str, tps: float) -> PhaseResult:
    asked = Phase(name, (), Length(1), Length(1), ProtectionState.OFF, "")
    return PhaseResult(asked, rtt_measured_ms=85.0, tps=tps, clients=1)


CLAIMS = """\
a.tps >= b.tps            | unit="TPS"
b.tps >= a.tps            | unit="TPS"
a.tps <= 19               | explains="because"
b.tps <= b.round_trip_tps | unit="TPS"
a.tps <= a.round_trip_tps | unit="TPS"
a.fsync_ms >= 0           |
a.found - it.tps == 1     |
a - b.tps == 7            |
a.tps < 10                | shown="here"
"""


def test_a_failed_relation_says_what_was_found_and_what_would_hold(snapshot: object) -> None:
    """A figure that is only shown is not said to hold."""
    claims = [
        *(claim(compared, **fields(more)) for compared, more in table_of(CLAIMS)),
        Claim("x", "a.tps - b.tps", "b.tps", says="{ratio:.3f}", least=0.9, most=1.1),
        Claim("x", "a.tps - b.tps / b.tps", 2, says="{ratio:.1f}", least=0.9),
        Claim("x", "a.lag, s", 1, "=="),
        Claim("x", "a.tps", 10, says="{ratio:.0f} times"),
    ]
    phases = {name: phase(name, tps) for name, tps in (("a", 20), ("b", 10), ("a - b", 7))}
    told = [claim.judge(Found(phases)) for claim in claims]
    assert [(each.word, each.evidence) for each in told] == snapshot


# -- one result of several runs, and relations that are judged by all of them


PHASE = Phase("semi-sync", (), Length(1), Length(1), ProtectionState.PROTECTED, "")


def run_of(latencies_ms: Sequence[float], duration_s: float = 1.0, **beside: object) -> PhaseResult:
    service = Histogram.of(round(1000 * each) for each in latencies_ms)
    protection = Protection(ProtectionState.PROTECTED, requested=True, fallbacks=0, unprotected=0)
    result = PhaseResult(
        PHASE, service=service, tps=service.count / duration_s, duration_s=duration_s, protection=protection,
        protection_before=protection,
    )  # fmt: skip
    return replace(result, **beside)  # type: ignore[arg-type]


def protected(result: PhaseResult) -> Relation:
    return judge_by([], ())({"a": result})[0]


def judge_ratios(ratios: Sequence[float], least: float, most: float) -> Relation:
    """A relation whose ratio in each repeat is the next of these."""
    rounds: list[Phases] = [{str(number): run_of([1.0])} for number in range(len(ratios))]

    def judge(phases: Phases) -> Sequence[Relation]:
        [name] = phases or ["0"]
        ratio = ratios[int(name)]
        return (Relation("a", least <= ratio <= most, "as found", ratio=ratio, least=least, most=most),)

    lab = Lab("a", "", "", (), judge)
    [relation] = judged(lab, rounds, {})
    return relation


WORDS = """\
1.00 1.01 1.02 | 0.9 inf   | holds
0.80 0.81 0.82 | 0.9 inf   | deviates
0.95 1.00 1.05 | 0.9 inf   | open
0.85 0.88 0.86 | 0.9 inf   | open
0.99 1.00 1.01 | 0.85 1.15 | holds
1.29 1.30 1.31 | 0.85 1.15 | deviates
1.00 1.15 1.30 | 0.85 1.15 | open
0.90 0.90 0.90 | 0.9 inf   | holds
"""
"""A ratio in each repeat, the least and the most that it may be, and what that comes to."""


def test_a_relation_is_judged_by_the_interval_of_its_repeats() -> None:
    for *figures, word in table_of(WORDS):
        ratios, (least, most) = ([*map(float, each.split())] for each in figures)
        relation = judge_ratios(ratios, least, most)
        assert relation.word == word.strip()
        assert relation.holds == (relation.word != "deviates"), "nothing is shown against an open one"
        assert "3 repeats: x" in relation.evidence
        assert ("would show it" in relation.evidence) == (relation.word == "open"), figures


def test_what_is_no_figure_holds_only_where_it_held_every_time_and_what_is_shown_stays_so(
    snapshot: object,
) -> None:
    fine = run_of([10.0])
    fell = replace(fine, protection=replace(fine.protection, state=ProtectionState.DEGRADED))
    lab = Lab("a", "", "", (), judge_by([Claim("times", "a.tps", 1, says="3 times")], ("a",)))
    found: list[Relation] = []
    for runs in ((fine, fine, fine), (fine, fell, fine), [run_of([1.0] * count) for count in (10, 11, 12)]):
        found += judged(lab, [{"a": each} for each in runs], {"a": merged(runs)})
    assert [(each.word, each.holds, each.checked, each.evidence) for each in found] == snapshot


MEANWHILE = """\
fine      |                  |
fell back | fallbacks=2      |
slipped   | unprotected=1234 |
those of phases before are not this one's | fallbacks=5 | fallbacks=5
"""
"""Of the protection at the end of the phase, and of that before it."""


def test_a_phase_that_fell_back_meanwhile_was_not_protected_whatever_its_end_says(snapshot: object) -> None:
    """It was judged by its end: a fall back and a recovery within the phase passed as protected."""
    fine, told = run_of([10.0]), {}
    for case, *changes in table_of(MEANWHILE):
        now, before = (replace(fine.protection, **fields(each)) for each in changes)
        told[case] = protected(replace(fine, protection=now, protection_before=before))
    told["unknown before"] = protected(replace(fine, protection_before=None))
    assert {case: (relation.holds, relation.evidence) for case, relation in told.items()} == snapshot


def test_runs_are_merged_from_histograms_and_not_from_their_percentiles(snapshot: object) -> None:
    """And the rate is commits over time, not the mean of two rates."""
    runs = [run_of([1.0] * 99, 1.0), run_of([100.0], 3.0, figures={"lag, s": 4.0, "seen": "1 of 1"})]
    runs[0] = replace(runs[0], figures={"lag, s": 2.0, "seen": "1 of 1"}, limited="CPU")
    found = merged(runs)
    told = found.service.count, found.service.percentile_ms(50), found.tps, found.figures, found.limited
    assert (*told, len(found.repeats)) == snapshot
    assert merged(runs[:1]) is runs[0]


ROWS = """\
300_024 300_024 50.0     None
1_200   300_024 12_501.0 1_200
1_200   None    50.0     None
"""
"""Rows inserted here and by who published, the seconds that stand there, and of how many rows they were."""


def test_seconds_stand_beside_seconds_of_as_many_rows() -> None:
    """20,000 rows stood beside 27.997 s, which were of 300,024."""
    for rows, published_rows, value_s, scaled in values_of(ROWS):
        phase = replace(PHASE, published=Published(27.997, "s", rows=published_rows))
        once = replace(run_of([1.0], 50.0), phase=phase, rows=rows)
        for result in (once, merged([once, once, once])):
            measured = known(result.measured)
            assert measured.value == pytest.approx(value_s)
            assert measured.rows == scaled


def test_no_interval_where_there_is_none() -> None:
    for values in ((), (1.0,), (1.0, 0.0), (-1.0, 2.0)):
        assert repeated(values) is None

"""When a play's condition holds: by what is drawn, and never by what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.fault import Fault
from replexplorer.core.history.series import Recent
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.formats.play_script import PlayMoment, parse_conditions
from tests.fakes.facade import make_tick

RTT = KnobName("rtt", "db2")


def holds(text: str, at: PlayMoment) -> bool:
    return all(each.holds(at) for each in parse_conditions(text))


def seen(text: str, at: PlayMoment) -> str:
    return "; ".join(each.seen(at) for each in parse_conditions(text) if not each.holds(at))


def moment(recent: Recent | None = None, **changes: object) -> PlayMoment:
    """A protected stack at 85 ms and 528 TPS, 12 s after its first tick, one mark so far."""
    given = recent or Recent(length_s=1.0, n=528, tps=528.0, p50_ms=2.0, p95_ms=5.0, p99_ms=9.0, max_ms=20.0)
    found = PlayMoment(make_tick(12.0), given, 12.0, newest_mark=1, marks_since=0)
    return replace(found, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("protected", True), ("blocked", False), ("not blocked", True),
        ("tps > 500", True), ("tps < 500", False), ("tps >= 528 tps", True), ("p99 < 10ms", True),
        ("max >= 20", True), ("max > 1s", False), ("OFF", False), ("max > 500us", True), ("at 0.5min", False),
        ("rtt > 85", True), ("rtt = 85ms", True), ("rtt@db2 = 85", True), ("rtt@replica = 85", True),
        ("rtt != 85", False), ("rtt@db9 = 85", False),
        ("process_dies = 0", True), ("power_cut > 300", True), ("source_lost < 8", False),
        ("faults = 0", True), ("settled", True), ("mark", False), ("mark 1", True), ("mark 2", False),
        ("at 12s", True), ("at 13s", False), ("end", False),
        ("protected and tps > 500", True), ("protected and tps < 500", False),
        ("blocked and rtt@db9 = 1", False), ("not rtt@db9 = 1", False),
    ],
)  # fmt: skip
def test_a_condition_is_judged_by_the_moment(condition: str, expected: bool) -> None:
    assert holds(condition, moment()) is expected


@pytest.mark.parametrize("condition", ["tps < 20", "tps > 20", "not tps < 20", "p99 < 20", "not p99 < 20"])
@pytest.mark.parametrize(
    "recent",
    [
        Recent(),
        Recent(length_s=1.0, n=5, tps=5.0, p99_ms=5.0, is_mixed=True),
    ],
)
def test_what_is_not_known_holds_neither_a_condition_nor_its_opposite(condition: str, recent: Recent) -> None:
    assert not holds(condition, moment(recent))


def test_a_percentile_with_too_few_commits_behind_it_holds_nothing() -> None:
    few = Recent(length_s=1.0, n=30, tps=30.0, p50_ms=2.0, p95_ms=5.0, p99_ms=9.0)
    assert holds("p95 < 10", moment(few))
    assert not holds("p99 < 10", moment(few))


def test_a_knob_that_is_not_in_effect_yet_is_not_settled_and_is_named() -> None:
    tick = make_tick(12.0)
    knobs = {**tick.knobs, RTT: KnobView(RTT, 85.0, 20.0)}
    turning = moment(tick=replace(tick, knobs=knobs))
    assert not holds("settled", turning)
    assert seen("settled", turning) == "what is not in effect yet is rtt@db2"
    assert seen("rtt = 85", turning) == "rtt@db2 is 20 ms"


def test_faults_in_force_are_counted() -> None:
    fault = Fault(1, "kill", None, "db1", 0.0, None, "tui (pid 7)", {})
    struck = moment(tick=replace(make_tick(12.0), faults=(fault,)))
    assert holds("faults > 0", struck)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("blocked", "the state is protected"), ("tps < 20", "tps is 528"), ("p99 > 80ms", "p99 is 9 ms"),
        ("mark 3", "the newest mark is 1"), ("at 1min", "the time is 12 s"),
        ("end", "the recording is under way"),
        ("blocked and tps < 20", "the state is protected; tps is 528"),
        ("not protected", "the state is protected"),
        ("rtt@db9 = 1", "rtt@db9 is unknown"),
    ],
)  # fmt: skip
def test_what_is_so_instead_is_said_in_words(condition: str, told: str) -> None:
    assert seen(condition, moment()) == told


def test_every_state_can_be_waited_for() -> None:
    for state in ProtectionState:
        assert holds(str(state), moment(tick=make_tick(1.0, state=state)))


def test_an_unknown_figure_is_said_to_be_unknown() -> None:
    assert seen("tps < 20", moment(Recent())) == "tps is unknown"

"""When a play's condition holds: by what is drawn, and never by what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.fault import Fault
from replexplorer.core.history.series import Recent
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.play import PlayMoment, parse_condition
from replexplorer.core.server.protection import ProtectionState
from tests.fakes.facade import make_tick

RTT = KnobName("rtt", "db2")


def moment(recent: Recent | None = None, **changes: object) -> PlayMoment:
    """A protected stack at 85 ms and 528 TPS, 12 s after its first tick, one mark so far."""
    given = recent or Recent(length_s=1.0, n=528, tps=528.0, p50_ms=2.0, p95_ms=5.0, p99_ms=9.0, max_ms=20.0)
    found = PlayMoment(make_tick(12.0), given, 12.0, newest_mark=1, marks_since=0)
    return replace(found, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("protected", True), ("blocked", False), ("not blocked", True),
        ("tps > 500", True), ("tps < 500", False), ("tps >= 528 tps", True), ("p99 < 10ms", True),
        ("max >= 20", True), ("max > 1s", False), ("OFF", False), ("max > 500us", True), ("at 0.5min", False),
        ("rtt > 85", True), ("rtt = 85ms", True), ("rtt@db2 = 85", True), ("rtt@replica = 85", True),
        ("rtt != 85", False), ("rtt@db9 = 85", None),
        ("process_dies = 0", True), ("power_cut > 300", True), ("source_lost < 8", False),
        ("faults = 0", True), ("settled", True), ("mark", False), ("mark 1", True), ("mark 2", False),
        ("at 12s", True), ("at 13s", False), ("end", False),
        ("protected and tps > 500", True), ("protected and tps < 500", False),
        ("blocked and rtt@db9 = 1", False), ("protected and rtt@db9 = 1", None),
    ],
)  # fmt: skip
def test_a_condition_is_judged_by_the_moment(condition: str, holds: bool | None) -> None:
    assert parse_condition(condition).holds(moment()) is holds


@pytest.mark.parametrize("condition", ["tps < 20", "tps > 20", "not tps < 20", "p99 < 20", "not p99 < 20"])
@pytest.mark.parametrize(
    "recent",
    [
        Recent(),
        Recent(length_s=1.0, n=5, tps=5.0, p99_ms=5.0, is_mixed=True),
    ],
)
def test_what_is_not_known_holds_neither_a_condition_nor_its_opposite(condition: str, recent: Recent) -> None:
    assert not parse_condition(condition).holds(moment(recent))


def test_a_percentile_with_too_few_commits_behind_it_holds_nothing() -> None:
    few = Recent(length_s=1.0, n=30, tps=30.0, p50_ms=2.0, p95_ms=5.0, p99_ms=9.0)
    assert parse_condition("p95 < 10").holds(moment(few)) is True
    assert parse_condition("p99 < 10").holds(moment(few)) is None


def test_a_knob_that_is_not_in_effect_yet_is_not_settled_and_is_named() -> None:
    tick = make_tick(12.0)
    knobs = {**tick.knobs, RTT: KnobView(RTT, 85.0, 20.0)}
    turning = moment(tick=replace(tick, knobs=knobs))
    settled = parse_condition("settled")
    assert settled.holds(turning) is False
    assert settled.seen(turning) == "not in effect yet: rtt@db2"
    assert parse_condition("rtt = 85").seen(turning) == "rtt@db2 is 20 ms"


def test_faults_in_force_are_counted() -> None:
    fault = Fault(1, "kill", None, "db1", 0.0, None, "tui (pid 7)", {})
    struck = moment(tick=replace(make_tick(12.0), faults=(fault,)))
    assert parse_condition("faults > 0").holds(struck)


@pytest.mark.parametrize(
    ("condition", "seen"),
    [
        ("blocked", "the state is protected"), ("tps < 20", "tps is 528"), ("p99 > 80ms", "p99 is 9 ms"),
        ("mark 3", "the newest mark is 1"), ("at 1min", "it is at 12.0 s"), ("end", "it is at 12.0 s"),
        ("blocked and tps < 20", "the state is protected; tps is 528"),
        ("not protected", "the state is protected"),
        ("rtt@db9 = 1", "these servers have no rtt@db9"),
    ],
)  # fmt: skip
def test_what_is_so_instead_is_said_in_words(condition: str, seen: str) -> None:
    assert parse_condition(condition).seen(moment()) == seen


def test_every_state_can_be_waited_for() -> None:
    for state in ProtectionState:
        assert parse_condition(str(state)).holds(moment(tick=make_tick(1.0, state=state))) is True


def test_an_unknown_figure_is_said_to_be_unknown() -> None:
    assert parse_condition("tps < 20").seen(moment(Recent())) == "tps is unknown"

"""What a measurement went through, folded from the ticks of its session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.drill_result import Course
from replexplorer.core.server.protection import ProtectionState
from tests.fakes.facade import make_tick

PROTECTED, BLOCKED, DEGRADED = ProtectionState.PROTECTED, ProtectionState.BLOCKED, ProtectionState.DEGRADED


def course(*looks: tuple[float, ProtectionState, int | None, int | None]) -> Course:
    """Of looks: when, the state, falls back and commits that did not wait."""
    found = Course()
    for at_s, state, fallbacks, unprotected in looks:
        tick = make_tick(at_s, state=state)
        seen = replace(tick.protection, fallbacks=fallbacks, unprotected=unprotected)
        found.add(replace(tick, protection=seen))
    return found


STALL = course(
    (0.0, PROTECTED, 2, 100),
    (4.0, BLOCKED, 2, 100),
    (14.0, DEGRADED, 3, 100),
    (15.0, DEGRADED, 3, 900),
    (18.0, PROTECTED, 3, 1_000),
    (20.0, PROTECTED, 3, 1_000),
)
RESET = course((0.0, PROTECTED, 5, 70), (1.0, PROTECTED, 1, 7))
UNREAD = course((0.0, PROTECTED, None, None), (1.0, PROTECTED, None, None))


@pytest.mark.parametrize(
    ("course", "from_s", "to_s", "seconds", "fallbacks", "unprotected"),
    [
        (STALL, 1.0, 20.0, {"protected": 5.0, "blocked": 10.0, "degraded": 4.0}, 1, 900),
        (STALL, 18.5, 20.5, {"protected": 2.0}, 0, 0),  # what came before the measurement is not its
        (RESET, 0.0, 2.0, {"protected": 2.0}, 1, 7),  # a counter that fell has begun anew
        (UNREAD, 0.0, 2.0, {"protected": 2.0}, None, None),  # unknown and not 0
        (Course(), 0.0, 2.0, {}, None, None),
    ],
)
def test_states_in_seconds_and_what_was_counted_meanwhile(
    course: Course,
    from_s: float,
    to_s: float,
    seconds: dict[str, float],
    fallbacks: int | None,
    unprotected: int | None,
) -> None:
    passage = course.between(from_s, to_s)
    assert (passage.seconds, passage.fallbacks, passage.unprotected) == (seconds, fallbacks, unprotected)


def test_blocked_begins_with_the_oldest_commit_that_waits_as_its_event_does() -> None:
    found = Course()
    for at_s, state, waits_s in (
        (0.0, PROTECTED, None),
        (4.0, BLOCKED, 1.5),
        (5.0, BLOCKED, 2.5),
        (6.0, DEGRADED, None),
    ):
        tick = make_tick(at_s, state=state)
        found.add(replace(tick, protection=replace(tick.protection, oldest_wait_s=waits_s)))
    assert found.between(0.0, 8.0).seconds == {"protected": 2.5, "blocked": 3.5, "degraded": 2.0}
    assert found.between(3.0, 8.0).seconds == {"blocked": 3.0, "degraded": 2.0}


def test_events_stand_in_the_order_in_which_things_happened() -> None:
    """A look finds later what began earlier."""
    found = Course()
    events = tuple(Event(at_s, 0.0, Severity.WARN, "x") for at_s in (10.8, 10.0))
    found.add(replace(make_tick(11.0), events=events))
    assert [event.at_s for event in found.between(0.0, 20.0).events] == [10.0, 10.8]


def test_marks_and_faults_within_it_are_kept_and_plain_news_are_not() -> None:
    found = Course()
    events = tuple(
        Event(at_s, 1000.0 + at_s, severity, text)
        for at_s, severity, text in (
            (1.0, Severity.MARK, "before"),
            (3.0, Severity.MARK, "rtt 0 → 10 ms"),
            (4.0, Severity.INFO, "load started"),
            (5.0, Severity.BAD, "replica is down"),
        )
    )
    found.add(make_tick(5.5, events=events))
    assert [event.text for event in found.between(2.0, 6.0).events] == ["rtt 0 → 10 ms", "replica is down"]

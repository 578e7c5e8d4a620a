"""What a measurement went through, folded from the ticks of its session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.drill_result import Course
from replexplorer.core.server.protection import ProtectionState
from tests.fakes.facade import make_tick

PROTECTED, BLOCKED, DEGRADED = ProtectionState.PROTECTED, ProtectionState.BLOCKED, ProtectionState.DEGRADED


def course(*looks: tuple[Any, ...]) -> Course:
    """Of looks: when, the state, and as far as it was read falls back, commits that did not wait, and how
    long the oldest one waits."""
    found = Course()
    for at_s, state, *more in looks:
        tick = make_tick(at_s, state=state)
        read = dict(zip(("fallbacks", "unprotected", "oldest_wait_s"), (*more, *[None] * 3), strict=False))
        found.add(replace(tick, protection=replace(tick.protection, **read)))
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
UNREAD = course((0.0, PROTECTED), (1.0, PROTECTED))
WAITED = course(
    (0.0, PROTECTED), (4.0, BLOCKED, None, None, 1.5), (5.0, BLOCKED, None, None, 2.5), (6.0, DEGRADED)
)


@pytest.mark.parametrize(
    ("course", "from_s", "to_s", "seconds", "fallbacks", "unprotected"),
    [
        (STALL, 1.0, 20.0, {"protected": 5.0, "blocked": 10.0, "degraded": 4.0}, 1, 900),
        (STALL, 18.5, 20.5, {"protected": 2.0}, 0, 0),  # what came before the measurement is not its
        (RESET, 0.0, 2.0, {"protected": 2.0}, 1, 7),  # a counter that fell has begun anew
        (UNREAD, 0.0, 2.0, {"protected": 2.0}, None, None),  # unknown and not 0
        (Course(), 0.0, 2.0, {}, None, None),
        # blocked begins with the oldest commit that waits, as its event does
        (WAITED, 0.0, 8.0, {"protected": 2.5, "blocked": 3.5, "degraded": 2.0}, None, None),
        (WAITED, 3.0, 8.0, {"blocked": 3.0, "degraded": 2.0}, None, None),
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


def test_marks_and_faults_within_it_are_kept_in_the_order_in_which_things_happened() -> None:
    """A look finds later what began earlier; plain news are left out."""
    found = Course()
    events = (
        Event(1.0, 0.0, Severity.MARK, "before"),
        Event(5.0, 0.0, Severity.BAD, "replica is down"),
        Event(4.0, 0.0, Severity.INFO, "load started"),
        Event(3.0, 0.0, Severity.MARK, "rtt 0 → 10 ms"),
    )
    found.add(make_tick(5.5, events=events))
    assert [event.text for event in found.between(2.0, 6.0).events] == ["rtt 0 → 10 ms", "replica is down"]

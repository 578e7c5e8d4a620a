"""What a measurement went through, folded from the ticks of its session."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.drill_result import Course
from replexplorer.core.server.protection import ProtectionState
from tests.ticks import make_tick
from tests.typed import fields, table_of


def course(looks: str) -> Course:
    """`4 blocked fallbacks=2`: when, the state, and as far as it was read falls back, commits that did not
    wait, and how long the oldest one waits."""
    found = Course()
    for look in looks.split(","):
        at_s, state, *_ = look.split()
        tick = make_tick(float(at_s), state=ProtectionState(state))
        read = {"fallbacks": None, "unprotected": None, "oldest_wait_s": None} | fields(look)
        found.add(replace(tick, protection=replace(tick.protection, **read)))
    return found


COURSES = {
    "stall": course(
        "0 protected fallbacks=2 unprotected=100, 4 blocked fallbacks=2 unprotected=100,"
        "14 degraded fallbacks=3 unprotected=100, 15 degraded fallbacks=3 unprotected=900,"
        "18 protected fallbacks=3 unprotected=1000, 20 protected fallbacks=3 unprotected=1000"
    ),
    "reset": course("0 protected fallbacks=5 unprotected=70, 1 protected fallbacks=1 unprotected=7"),
    "unread": course("0 protected, 1 protected"),
    "waited": course("0 protected, 4 blocked oldest_wait_s=1.5, 5 blocked oldest_wait_s=2.5, 6 degraded"),
    "no look": Course(),
}
PASSAGES = """\
stall   | 1.0 20.0  |
stall   | 18.5 20.5 | what came before the measurement is not its
reset   | 0.0 2.0   | a counter that fell has begun anew
unread  | 0.0 2.0   | unread is unknown and not 0
no look | 0.0 2.0   |
waited  | 0.0 8.0   | blocked begins with the oldest commit that waits, as its event does
waited  | 3.0 8.0   | or with the measurement
"""
"""What was seen, from when to when, and what that is about."""


def test_states_in_seconds_and_what_was_counted_meanwhile(snapshot: object) -> None:
    told = {}
    for seen, span, about in table_of(PASSAGES):
        told[f"{seen} {span} {about}"] = COURSES[seen].between(*map(float, span.split()))
    assert told == snapshot


def test_marks_and_faults_within_it_are_kept_in_the_order_in_which_things_happened() -> None:
    """A look finds later what began earlier; plain news are left out."""
    found = Course()
    told = (
        (1.0, Severity.MARK, "before"),
        (5.0, Severity.BAD, "replica is down"),
        (4.0, Severity.INFO, "load started"),
        (3.0, Severity.MARK, "rtt 0 → 10 ms"),
    )
    found.add(make_tick(5.5, events=tuple(Event(at_s, 0.0, severity, text) for at_s, severity, text in told)))
    assert [event.text for event in found.between(2.0, 6.0).events] == ["rtt 0 → 10 ms", "replica is down"]

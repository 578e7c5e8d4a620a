"""Events, marks and epochs of a session, in its own time."""

from __future__ import annotations

import asyncio

from replexplorer.core.event import Severity
from replexplorer.core.server.counters import Sample, ServerStatus
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.engine.record import EventLog
from tests.fakes.clock import VirtualClock
from tests.fakes.facade import WALL_S


async def test_a_change_is_one_number_in_log_and_ledger() -> None:
    await asyncio.sleep(50)
    event_log = EventLog(VirtualClock())
    await asyncio.sleep(10)
    number = event_log.begin_change("rtt 85")
    await asyncio.sleep(2)
    event_log.change_effective(number, "rtt 0 → 85 ms", "rtt 0 → 85 ms, done")
    (event,) = event_log.take_events()
    assert (event.at_s, event.wall_s, event.mark, event.severity) == (12, WALL_S + 62, 1, Severity.MARK)
    assert [(row.number, row.at_s, row.title) for row in event_log.epochs.rows()] == [
        (0, 0, "baseline"),
        (1, 12, "rtt 0 → 85 ms"),
    ]
    assert event_log.take_events() == ()


async def test_what_happened_before_keeps_its_time() -> None:
    event_log = EventLog(VirtualClock())
    await asyncio.sleep(5)
    event_log.tell(Severity.INFO, "early", at_s=2)
    event_log.tell(Severity.INFO, "now")
    early, now = event_log.take_events()
    assert (early.at_s, early.wall_s) == (2, WALL_S + 2)
    assert (now.at_s, now.wall_s) == (5, WALL_S + 5)


async def test_a_request_newer_than_the_last_look_makes_no_outage_of_what_that_look_saw() -> None:
    """Semi-sync is asked for again while the last look is of when it was off on purpose."""
    event_log, clock = EventLog(VirtualClock()), VirtualClock()

    def see(*, requested: bool, at_s: float) -> bool:
        look = Protection(ProtectionState.OFF, requested=requested)
        return event_log.follow(look, Sample(at_s, ServerStatus()), enabled=False).settled

    await asyncio.sleep(1)
    looked_s = clock.monotonic()
    assert see(requested=False, at_s=looked_s)
    assert not see(requested=True, at_s=looked_s)
    for _ in range(8):
        await asyncio.sleep(0.5)
        stays = see(requested=True, at_s=clock.monotonic())
    assert stays, "it stays off though it is asked for: that is an outage"


async def test_what_was_seen_before_a_change_was_in_force_is_no_outage_of_its_own() -> None:
    """Switching semi-sync off passes through `degraded`, and that look may be folded when all is done."""
    event_log, clock = EventLog(VirtualClock()), VirtualClock()

    def see(state: ProtectionState, at_s: float) -> Protection:
        look = Protection(state, requested=True)
        return event_log.follow(look, Sample(at_s, ServerStatus()), enabled=True)

    await asyncio.sleep(1)
    see(ProtectionState.PROTECTED, clock.monotonic())
    number = event_log.begin_change("semi_sync off")
    await asyncio.sleep(0.5)
    passing_s = clock.monotonic()
    await asyncio.sleep(0.5)
    event_log.change_effective(number, "semi_sync off", "semi_sync off")
    assert not see(ProtectionState.DEGRADED, passing_s).settled
    await asyncio.sleep(0.5)
    found = see(ProtectionState.DEGRADED, clock.monotonic())
    assert (found.settled, found.since_s) == (True, 1.5), "it stays: then it was one from its beginning"
    assert [event.severity for event in event_log.take_events()] == [Severity.MARK, Severity.BAD]

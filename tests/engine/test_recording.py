"""Recording a session: every tick in order, and never in the session's way."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.event import Event, Severity
from replexplorer.core.server.counters import Sample, ServerStatus
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.engine.record import EventLog
from replexplorer.engine.session import Session
from tests.fakes.clock import VirtualClock, until
from tests.fakes.recorder import FakeRecorder
from tests.fakes.world import World, tasks_left
from tests.known import known

STOPPED = "recording stopped: the disk is full: make room"
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def recorder(world: World) -> FakeRecorder:
    """What sessions on the world are recorded by."""
    world.recorder = FakeRecorder()
    return world.recorder


async def looked(session: Session, seconds: float) -> list[Tick]:
    """The ticks of so many seconds, as a screen takes them."""
    seen: list[Tick] = []
    ends_s = VirtualClock().monotonic() + seconds
    async for tick in session.ticks():
        seen.append(tick)
        if VirtualClock().monotonic() >= ends_s:
            break
    return seen


async def told(session: Session, seconds: float) -> list[str]:
    return [event.text for tick in await looked(session, seconds) for event in tick.events]


async def test_every_tick_is_recorded_until_its_disk_is_full_which_is_told_and_ends_no_session(
    world: World, recorder: FakeRecorder
) -> None:
    async with world.started() as session:
        seen: list[Tick] = []
        for _ in range(5):
            seen += await looked(session, 1)
            assert recorder.ticks[-1].at_s >= seen[-1].at_s - 1, "at most a second waits for the recorder"
        assert session.recording.file == recorder.file
        recorder.is_full = True
        assert (await told(session, 3)).count(STOPPED) == 1
        written = len(recorder.ticks)
        recorder.is_full = False
        assert len(await looked(session, 3)) > 5
        assert len(recorder.ticks) == written
    assert recorder.ticks[: len(seen)] == seen[: len(recorder.ticks)]
    assert known(recorder.about).items() >= {("stack", "default"), ("holder", "tui")}
    assert recorder.closed == 1


async def test_a_file_that_cannot_be_made_is_told_and_nothing_is_recorded(
    world: World, recorder: FakeRecorder
) -> None:
    recorder.is_full = True
    async with world.started() as session:
        assert "not recorded: the disk is full: make room" in await told(session, 2)
        assert session.recording.file is None


@pytest.mark.parametrize("full", ["never", "meanwhile", "at the end"])
async def test_a_verb_without_a_picture_is_recorded_to_its_end_or_hears_why_not(
    world: World, recorder: FakeRecorder, full: str
) -> None:
    heard: list[Event] = []
    async with world.attached("load") as session:
        async with session.observed(heard.append):
            await session.drive(session.driving.settings())
            await until(lambda: len(recorder.ticks) > 6)
            recorder.is_full = full != "never"
            if full == "meanwhile":
                await until(lambda: any(event.severity is Severity.WARN for event in heard))
        warnings = [event.text for event in heard if event.severity is Severity.WARN]
        assert (warnings, recorder.closed) == ([] if full == "never" else [STOPPED], 1)
        assert known(recorder.ticks[-1].load).tps
        assert [name for name in tasks_left() if "watch" in name or "record" in name or "look" in name] == []


async def test_a_recorder_that_hangs_holds_nothing_up(
    world: World, recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replexplorer.engine.record._MOST_WAITING", 60)
    async with world.started() as session:
        recorder.hangs = True
        assert "recording stopped: its disk does not answer" in await told(session, 42)
        at_s = VirtualClock().monotonic()
    assert VirtualClock().monotonic() - at_s < 5


async def test_a_refused_load_leaves_no_session(world: World) -> None:
    """`export last` showed an empty one instead of the last that ran."""

    async def drive(load: Session) -> None:
        """It is refused, or its stack is removed while it runs."""
        async with load.observed():
            await load.drive(load.driving.settings())
            raise StackUnavailable("the stack was removed", "up")

    async def recorded(why: str) -> FakeRecorder:
        recorder = world.recorder = FakeRecorder()
        async with world.attached("load") as load:
            with pytest.raises(StackUnavailable, match=why):
                await drive(load)
        assert recorder.closed == 1
        return recorder

    async with world.started("tui") as tui:
        await looked(tui, 1)
        assert (await recorded("drives the load")).discarded
        await tui.console.toggle_load()
        await tui.fleet.keeper.leave("lease")
        assert not (await recorded("was removed")).discarded


# Events, marks and epochs of a session, in its own time


async def test_a_change_is_one_number_in_log_and_ledger_and_what_happened_before_keeps_its_time(
    snapshot: object,
) -> None:
    await asyncio.sleep(50)
    event_log = EventLog(VirtualClock())
    await asyncio.sleep(10)
    event_log.tell(Severity.INFO, "early", at_s=2)
    number = event_log.begin_change("rtt 85")
    await asyncio.sleep(2)
    event_log.change_effective(number, "rtt 0 → 85 ms", "done")
    rows = [(row.number, row.at_s, row.title) for row in event_log.epochs.rows()]
    assert (event_log.take_events(), rows) == snapshot
    assert event_log.take_events() == ()


async def test_a_request_newer_than_the_last_look_makes_no_outage_of_what_that_look_saw() -> None:
    """Semi-sync is asked for again while the last look is of when it was off on purpose."""
    event_log = EventLog(VirtualClock())

    def see(at_s: float, *, requested: bool = True) -> bool:
        look = Protection(ProtectionState.OFF, requested=requested)
        return event_log.follow(look, Sample(at_s, ServerStatus()), enabled=False).settled

    await asyncio.sleep(1)
    assert see(1, requested=False)
    assert not see(1)
    for _ in range(8):
        await asyncio.sleep(0.5)
        stays = see(VirtualClock().monotonic())
    assert stays, "it stays off though it is asked for: that is an outage"

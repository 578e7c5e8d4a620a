"""Recording a session: every tick in order, and never in the session's way."""

from __future__ import annotations

import contextlib

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.event import Event, Severity
from replexplorer.core.tick import Tick
from replexplorer.engine.session import Session
from tests.fakes.clock import VirtualClock, until, virtual
from tests.fakes.recorder import FakeRecorder
from tests.fakes.world import World, tasks_left

pytestmark = pytest.mark.filterwarnings("error")


async def looked(session: Session, seconds: float) -> list[Tick]:
    """The ticks of so many seconds, as a screen takes them."""
    seen: list[Tick] = []
    ends_s = VirtualClock().monotonic() + seconds
    async for tick in session.ticks():
        seen.append(tick)
        if VirtualClock().monotonic() >= ends_s:
            return seen
    return seen


@virtual
async def test_every_tick_is_recorded_with_what_the_session_is() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.started() as session:
        seen = await looked(session, 5)
        assert session.recording.file == recorder.file
    assert recorder.ticks[: len(seen)] == seen
    assert recorder.about is not None
    assert (recorder.about["stack"], recorder.about["holder"]) == ("default", "tui")
    assert (recorder.closed, tasks_left()) == (1, [])


@virtual
async def test_at_most_a_second_waits_for_the_recorder() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.started() as session:
        for _ in range(5):
            seen = await looked(session, 1)
            assert recorder.ticks[-1].at_s >= seen[-1].at_s - 1


@virtual
async def test_a_full_disk_ends_the_recording_and_not_the_session() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.started() as session:
        await looked(session, 2)
        recorder.is_full = True
        told = [event for tick in await looked(session, 3) for event in tick.events]
        assert [event.text for event in told if event.severity is Severity.WARN] == [
            "recording stopped: the disk is full: make room"
        ]
        written = len(recorder.ticks)
        recorder.is_full = False
        assert len(await looked(session, 3)) > 5
        assert len(recorder.ticks) == written


@virtual
async def test_a_file_that_cannot_be_made_is_told_and_nothing_is_recorded() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    recorder.is_full = True
    async with world.started() as session:
        told = [event.text for tick in await looked(session, 2) for event in tick.events]
        assert "not recorded: the disk is full: make room" in told
        assert session.recording.file is None


@virtual
async def test_a_verb_without_a_picture_is_recorded_to_its_end() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.attached("load") as session:
        async with session.observed():
            await session.drive(session.driving.settings())
            await until(lambda: len(recorder.ticks) > 6)
        assert recorder.closed == 1
        assert recorder.ticks[-1].load is not None
        assert recorder.ticks[-1].load.tps
        assert [name for name in tasks_left() if "watch" in name or "record" in name or "look" in name] == []


@virtual
async def test_a_verb_without_a_picture_hears_that_its_recording_stopped() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    heard: list[Event] = []
    async with world.attached("load") as session:
        async with session.observed(heard.append):
            await session.drive(session.driving.settings())
            await until(lambda: len(recorder.ticks) > 2)
            recorder.is_full = True
            await until(lambda: bool(warnings(heard)))
        assert warnings(heard) == ["recording stopped: the disk is full: make room"]


@virtual
async def test_a_verb_hears_as_well_of_what_could_not_be_written_at_its_end() -> None:
    world = World()
    recorder = world.recorder = FakeRecorder()
    heard: list[Event] = []
    async with world.attached("load") as session, session.observed(heard.append):
        await until(lambda: len(recorder.ticks) > 2)
        recorder.is_full = True
    assert warnings(heard) == ["recording stopped: the disk is full: make room"]


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if event.severity is Severity.WARN]


@virtual
async def test_a_recorder_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replexplorer.engine.record._MOST_WAITING", 60)
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.started() as session:
        recorder.hangs = True
        await looked(session, 2)
        told = [event.text for tick in await looked(session, 40) for event in tick.events]
        assert "recording stopped: its disk does not answer" in told
        at_s = VirtualClock().monotonic()
    assert VirtualClock().monotonic() - at_s < 5
    assert tasks_left() == []


@virtual
async def test_a_refused_load_leaves_no_session() -> None:
    """`export last` showed an empty one instead of the last that ran."""
    world = World()
    async with world.started("tui") as tui:
        await looked(tui, 1)
        recorder = world.recorder = FakeRecorder()
        async with world.attached("load") as load:
            with pytest.raises(StackUnavailable, match="drives the load"):
                async with load.observed():
                    await load.drive(load.driving.settings())
        assert (recorder.closed, recorder.discarded) == (1, True)
        await tui.console.toggle_load()
        await tui.fleet.keeper.leave("lease")
        recorder = world.recorder = FakeRecorder()
        async with world.attached("load") as load:
            with contextlib.suppress(StackUnavailable):
                async with load.observed():
                    await load.drive(load.driving.settings())
                    raise StackUnavailable("the stack was removed", "up")
        assert (recorder.closed, recorder.discarded) == (1, False)

"""A recording on the dashboard: the picture of each moment, the player's line and keys, and no knob."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from textual.message import Message
from textual.notifications import Notify
from textual.pilot import Pilot
from textual.widgets import Static

from replexplorer.adapters.recording import SessionReader
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.tick import Tick
from replexplorer.engine.view import Replay
from replexplorer.formats.paths import shipped_tour
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.knob_panel import KnobPanel
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import make_tick
from tests.ui.driving import until

MARKS_S = (4.0, 10.0)
LENGTH_S = 20.0


class StillClock:
    """Time stands; only jumps move a replay on this clock."""

    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps by this clock")


class FakeTape:
    """Twenty seconds with two marks, 10 TPS more each half second."""

    first_s, last_s = 1.0, 1.0 + LENGTH_S

    def ticks(self) -> Iterator[Tick]:
        for half in range(int(LENGTH_S * 2) + 1):
            at_s = 1.0 + half / 2
            told = tuple(event for event in self.events() if event.at_s == at_s)
            yield replace(make_tick(at_s, tps=10.0 * half), events=told)

    def events(self) -> Sequence[Event]:
        return [
            Event(at_s, 1_760_000_000 + at_s, Severity.MARK, f"change {number}", number)
            for number, at_s in enumerate(MARKS_S, 1)
        ]

    def close(self) -> None:
        pass


@dataclass
class Player:
    """A running replay with everything that a test looks at."""

    app: ExplorerApp
    pilot: Pilot[str]
    replay: Replay
    messages: list[Message] = field(default_factory=list)

    @property
    def screen(self) -> DashboardScreen:
        assert isinstance(self.app.screen, DashboardScreen)
        return self.app.screen

    def row(self, selector: str) -> str:
        return self.screen.query_one(selector, Lines).rows[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(self.pilot, condition)

    async def at(self, at_s: float) -> None:
        """Wait until the picture is that of this moment of the tape."""
        await self.until(
            lambda: self.screen.picture.tick is not None and self.screen.picture.tick.at_s == at_s
        )


@asynccontextmanager
async def playing(size: tuple[int, int] = (120, 36)) -> AsyncIterator[Player]:
    replay = Replay(FakeTape(), StillClock())
    replay.toggle()
    app = ExplorerApp(replay, Settings())
    messages: list[Message] = []
    async with app.run_test(size=size, message_hook=messages.append) as pilot:
        player = Player(app, pilot, replay, messages)
        await player.until(lambda: isinstance(app.screen, DashboardScreen))
        await player.at(1.0)
        yield player


async def test_a_jump_shows_the_picture_of_that_moment_with_its_marks_and_log() -> None:
    async with playing() as player:
        await player.pilot.press("shift+right")
        await player.at(21.0)
        assert [mark.number for mark in player.screen.picture.marks] == [1, 2]
        assert len(player.screen.picture.history.points) == 41
        await player.pilot.press("left", "left")
        await player.at(11.0)
        assert [point.at_s for point in player.screen.picture.history.points][-1] == 11.0
        assert [event.text for event in player.screen.picture.log] == ["change 1", "change 2"]
        await player.pilot.press("b")
        await player.at(4.0)
        assert [event.text for event in player.screen.picture.log] == ["change 1"]
        await player.pilot.press("n")
        await player.at(10.0)


async def test_the_player_s_line_tells_the_place_the_speed_and_the_marks() -> None:
    async with playing() as player:
        await player.pilot.press("right", "greater_than_sign")
        await player.at(6.0)
        await player.until(lambda: "00:00:05 / 00:00:20  ×2" in player.row("#player"))
        line = player.row("#player")
        assert line.startswith(" ‖ PAUSED")
        assert line.count("┃") == 2
        bar = line[line.index("×2") + 3 :]
        assert 0.2 < bar.count("━") / len(bar) < 0.3
        assert "pause" in player.row("#footer")
        assert "semi-sync" not in player.row("#footer")


async def test_the_end_is_no_pause() -> None:
    async with playing() as player:
        await player.pilot.press("shift+right")
        await player.until(lambda: player.row("#player").startswith(" ■ END"))
        await player.pilot.press("left")
        await player.until(lambda: player.row("#player").startswith(" ‖ PAUSED"))


async def test_space_plays_and_pauses() -> None:
    async with playing() as player:
        assert not player.replay.position.playing
        await player.pilot.press("space")
        assert player.replay.position.playing
        await player.pilot.press("space")
        assert not player.replay.position.playing


async def test_knobs_do_not_turn_in_a_recording() -> None:
    async with playing() as player:
        await player.pilot.press("s", "p", "u", "x", "R", "8", "5", "enter")
        await player.pilot.pause()
        assert player.screen.board.staged == {}
        assert isinstance(player.app.screen, DashboardScreen)
        assert [str(toast.message) for toast in player.app._notifications] == [
            "a recording: nothing can be turned"
        ]


LIVE_KEYS = ["s", "w", "p", "r", "u", "x", "m", "R", "f", "i", "S", "o", "Y", "P", "A", "8"]


@pytest.mark.parametrize("key", LIVE_KEYS)
async def test_a_key_that_turns_something_live_says_why_it_does_not(key: str) -> None:
    async with playing() as player:
        await player.pilot.press(key)
        assert [str(toast.message) for toast in player.app._notifications] == [
            "a recording: nothing can be turned"
        ]
        assert isinstance(player.app.screen, DashboardScreen)
        assert player.screen.board.staged == {}


async def test_the_mouse_turns_nothing_in_a_recording_either() -> None:
    async with playing() as player:
        player.screen.query_one("#knobs", KnobPanel).post_message(KnobPanel.Stepped(1))
        await player.until(lambda: any(isinstance(message, Notify) for message in player.messages))
        assert player.screen.board.staged == {}


async def test_the_footer_of_a_recording_offers_no_key_that_turns() -> None:
    async with playing((160, 45)) as player:
        for word in ("semi-sync", "undo", "reset", "load", "labs", "wait point"):
            assert word not in player.row("#footer")


async def test_the_help_of_a_recording_has_the_keys_of_a_player() -> None:
    async with playing((120, 300)) as player:
        await player.pilot.press("question_mark")
        await player.until(lambda: player.app.screen.name == "help")
        await player.until(lambda: bool(str(player.app.screen.query_one("#rows", Static).content)))
        told = str(player.app.screen.query_one("#rows", Static).content)
        for words in ("a recording: nothing can be turned", "Pause or play", "Go back 5 s", "Go on 30 s"):
            assert words in told
        for words in ("Undo the last change", "Stage one step", "Freeze", "types a value", "←→ stages"):
            assert words not in told


async def test_knobs_are_filtered_in_a_recording_as_well() -> None:
    async with playing() as player:
        await player.pilot.press("slash", *"expo", "escape", "slash", *"payload", "enter")
        assert player.screen.board.selected == KnobName("payload", "load")
        assert len(player.app._notifications) == 0


async def test_it_fits_on_a_small_terminal_and_leaves_with_q() -> None:
    async with playing((80, 24)) as player:
        await player.pilot.press("right")
        await player.at(6.0)
        await player.until(lambda: "00:00:05" in player.row("#player"))
        assert player.screen.query_one("#player").region.y < player.screen.query_one("#footer").region.y
        await player.pilot.press("q")
        await player.until(lambda: not player.app.is_running)


async def test_the_tour_that_ships_plays_from_mark_to_mark() -> None:
    """What `replexplorer replay tour` shows on a machine without Docker."""
    tape = SessionReader(shipped_tour())
    replay = Replay(tape, StillClock())
    replay.toggle()
    app = ExplorerApp(replay, Settings())
    async with app.run_test(size=(120, 36)) as pilot:
        player = Player(app, pilot, replay)
        await player.until(lambda: isinstance(app.screen, DashboardScreen))
        marked = [event.text for event in tape.events() if event.mark is not None]
        assert marked[:4] == ["a lab begins: tour", "async", "semi-sync, 1 client", "32 clients"]
        assert len(replay.marks_s) == len(marked) == 11
        await pilot.press("n", "n", "n", "n", "right")
        await player.until(lambda: abs(replay.position.position_s - replay.marks_s[3] - 5) < 1)
        await player.until(lambda: "PROTECTED" in player.row("#header"))
        tick = player.screen.picture.tick
        assert tick is not None
        assert tick.load is not None
        assert (tick.load.clients, tick.anatomy is not None, tick.truth is not None) == (32, True, True)
        rows = "\n".join(player.screen.query_one("#anatomy", Lines).rows)
        assert "ACK wait" in rows
        replay.seek(tape.last_s)
        await player.at(tape.last_s)
        assert "ASYNC" in player.row("#header")
        last = player.screen.picture.tick
        assert last is not None
        assert {name.key: view.requested for name, view in last.knobs.items()}["semi_sync"] == "off"


def test_the_tour_that_ships_says_one_length_of_its_outage() -> None:
    """In the ledger's verdict, in the chart's span and in the log."""
    tape = SessionReader(shipped_tour())
    picture = Picture()
    for tick in tape.ticks():
        picture.fold(tick)
    assert picture.tick is not None
    [epoch] = [each for each in picture.tick.epochs if each.title == "partition"]
    assert epoch.after is not None
    blocked_s = epoch.after.outage.blocked_s
    assert blocked_s > 5
    [span] = [each for each in picture.windows.all() if each.word.startswith("blocked")]
    assert span.word == f"blocked {blocked_s:.1f} s"
    assert f"PROTECTED again after {blocked_s:.1f} s" in [event.text for event in tape.events()]
    tape.close()

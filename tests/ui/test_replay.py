"""A recording on the dashboard: the picture of each moment, the player's line and keys, and no knob."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from unittest.mock import Mock

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.adapters.recording import SessionReader
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.engine.view import Replay, Tape
from replexplorer.formats.paths import SHIPPED_TOUR
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.widgets.knob_panel import KnobPanel
from tests.fakes.facade import FakeFacade, FakeTape
from tests.known import known
from tests.ui.driving import TWO_SIZES, Bench, Size, folded, page, running


@asynccontextmanager
async def playing(size: Size = (120, 36), tape: Tape | None = None) -> AsyncIterator[Bench]:
    """A paused replay from the tape's first tick on, whose clock is still: only jumps move it."""
    tape = tape or FakeTape()
    replay = Replay(tape, Mock(monotonic=lambda: 0.0, wall=lambda: 0.0))
    replay.toggle()
    async with running(replay, FakeFacade(), size) as player:
        await player.until(lambda: isinstance(player.app.screen, DashboardScreen))
        await at(player, tape.first_s)
        yield player


def replay_of(player: Bench) -> Replay:
    return known(player.app._view.player)


async def at(player: Bench, at_s: float) -> None:
    """Wait until the picture is that of this moment of the tape."""
    picture = player.dashboard.picture
    await player.until(lambda: picture.tick is not None and picture.tick.at_s == at_s)


async def test_a_jump_shows_the_picture_of_that_moment_with_its_marks_and_log() -> None:
    async with playing() as player:
        picture = player.dashboard.picture
        for keys, at_s, told in (("shift+right", 21, 2), ("left left", 11, 2), ("b", 4, 1), ("n", 10, 2)):
            await player.press(keys)
            await at(player, at_s)
            assert [event.text for event in picture.log] == ["change 1", "change 2"][:told]
            assert [mark.number for mark in picture.marks] == [1, 2][:told]
            assert len(picture.history.points) == 2 * at_s - 1


@TWO_SIZES
async def test_the_player_s_line_tells_the_place_the_speed_and_the_marks(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    async with playing(size) as player:
        await player.press("right >")
        await at(player, 6.0)
        pages = list[str]()
        for keys, words in (
            ("", "00:00:05 / 00:00:20  ×2"),
            ("shift+right", " ■ END"),
            ("left", " ‖ PAUSED"),
        ):
            await player.press(keys)
            await player.shows(words)
            pages += player.rows("#player")
        assert page(pages) == snapshot
        await player.press("q")
        await player.until(lambda: not player.app.is_running)


async def test_what_turns_something_live_says_why_it_does_not_and_the_help_has_the_keys_of_a_player(
    snapshot: SnapshotAssertion,
) -> None:
    async with playing((160, 45)) as player:
        footer = player.text("#footer")
        await player.press("/expo escape /payload enter escape")
        assert str(player.dashboard.board.selected) == "payload"
        assert player.notices == []
        keys = "swprxumRfiSoYPA8"
        await player.refuses(keys, "a recording: nothing can be turned")
        player.clock.now_s += 10
        player.dashboard.query_one("#knobs", KnobPanel).post_message(KnobPanel.Stepped(1))
        await player.until(lambda: len(player.notices) == len(keys) + 1)
        assert player.dashboard.board.staged == {}
        assert player.app.screen is player.dashboard
        for is_playing in (True, False):
            await player.pilot.press("space")
            assert replay_of(player).position.playing is is_playing
        await player.opened("?")
        assert page([footer], player.whole) == snapshot


@pytest.fixture
def tape() -> Iterator[SessionReader]:
    """The tour that ships."""
    with closing(SessionReader(SHIPPED_TOUR)) as reader:
        yield reader


async def test_the_tour_that_ships_plays_from_mark_to_mark(tape: SessionReader) -> None:
    """What `replexplorer replay tour` shows on a machine without Docker."""
    async with playing(tape=tape) as player:
        replay = replay_of(player)
        marked = [event.text for event in tape.events() if event.mark is not None]
        assert marked[:4] == ["a lab begins: tour", "async", "semi-sync, 1 client", "32 clients"]
        assert len(replay.marks_s) == len(marked) == 11
        await player.press("n n n n right")
        await player.until(lambda: abs(replay.position.position_s - replay.marks_s[3] - 5) < 1)
        await player.until(lambda: "PROTECTED" in player.text("#header"))
        assert known(known(player.dashboard.picture.tick).load).clients == 32
        assert "ACK wait" in player.text("#anatomy")
        replay.seek(tape.last_s)
        await at(player, tape.last_s)
        assert "ASYNC" in player.text("#header")
        knobs = known(player.dashboard.picture.tick).knobs
        assert knobs[KnobName("semi_sync", SOURCE)].requested == "off"


def test_the_tour_that_ships_says_one_length_of_its_outage(tape: SessionReader) -> None:
    """In the ledger's verdict, in the chart's span and in the log."""
    picture = folded(tape.ticks())
    [epoch] = [each for each in known(picture.tick).epochs if each.title == "partition"]
    blocked_s = known(epoch.after).outage.blocked_s
    assert blocked_s > 5
    [span] = [each for each in picture.windows.all() if each.word.startswith("blocked")]
    assert span.word == f"blocked {blocked_s:.1f} s"
    assert f"PROTECTED again after {blocked_s:.1f} s" in [event.text for event in tape.events()]

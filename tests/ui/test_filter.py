"""Finding a knob by `/`: the best match first, the headings in sight, and the way back."""

from __future__ import annotations

import pytest
from textual import events

from replexplorer.core.knobs.names import KnobName
from replexplorer.ui.board import Board
from replexplorer.ui.widgets.knob_panel import KnobPanel
from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, bench

RTT = KnobName("rtt", "db2")
SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])


@pytest.fixture
def board() -> Board:
    board = Board()
    board.fold(make_tick())
    board.search()
    return board


@pytest.mark.parametrize(
    ("typed", "best"),
    [
        ("clients", "clients"),  # and no knob whose help speaks of clients
        ("rtt", "rtt@db2"),
        ("semi-sync", "semi_sync"),
        ("timeout", "semi_sync_timeout"),  # the label of that one, a part of another's name
        ("sync", "sync_binlog"),  # a name that begins so, before those that have it within
        ("binlog sync", "sync_binlog"),
        ("RATE", "rate"),
        ("jitter db2", "jitter@db2"),
    ],
)
def test_an_exact_name_stands_first_then_labels_then_help(board: Board, typed: str, best: str) -> None:
    for end in range(1, len(typed) + 1):
        board.narrow(typed[:end])
    assert str(board.selected) == best
    assert board.names[0] == board.selected


def test_help_alone_matches_as_well_and_stands_last(board: Board) -> None:
    board.narrow("clients")
    assert len(board.names) > 1
    assert all("clients" in name.knob.help.lower() for name in board.names[1:])


def test_giving_the_filter_up_puts_the_cursor_back(board: Board) -> None:
    at_first = board.selected
    board.narrow("payload")
    assert board.selected != at_first
    board.narrow("no such knob")
    assert board.selected is None
    board.drop_search()
    assert (board.filter, board.selected) == ("", at_first)


def test_an_emptied_field_puts_it_back_too(board: Board) -> None:
    at_first = board.selected
    board.narrow("payload")
    board.narrow("")
    assert board.selected == at_first


def panel_of(app: Bench) -> KnobPanel:
    return app.dashboard.query_one("#drawer" if app.app.size.width == 80 else "#knobs", KnobPanel)


@SIZES
async def test_filtering_and_typing_sets_the_knob_that_was_named(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("slash")
        await app.until(lambda: app.dashboard.board.typed is not None)
        await app.press(*"clients", "enter", "1", "enter")
        await app.until(lambda: app.facade.called("set") == [[("clients", 1)]])


@SIZES
async def test_it_does_so_when_all_of_it_comes_in_one_burst(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        for key, character in (
            ("slash", "/"), *((one, one) for one in "clients"), ("enter", "\r"), ("1", "1"), ("enter", "\r"),
        ):  # fmt: skip
            app.app.post_message(events.Key(key, character))
        await app.until(lambda: app.facade.called("set") == [[("clients", 1)]])


@SIZES
async def test_the_field_stands_above_the_first_heading(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("slash")
        panel = panel_of(app)
        await app.until(lambda: panel.rows != [] and "words of a name" in panel.rows[0])
        await app.press(*"clients")
        await app.until(lambda: "clients" in panel.rows[0])
        row = next(at for at, text in enumerate(panel.rows) if "▸ clients" in text)
        heading = next(at for at, text in enumerate(panel.rows) if "LOAD" in text)
        assert 1 <= heading <= row
        assert "asked" in panel.rows[1]


@SIZES
async def test_a_kept_filter_stays_in_sight_until_escape(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("slash")
        await app.until(lambda: app.dashboard.board.typed is not None)
        await app.press(*"payload", "enter")
        assert panel_of(app).rows[0].split() == ["/", "payload", "esc", "all", "knobs"]
        await app.press("escape")
        assert app.dashboard.board.filter == ""
        assert app.dashboard.board.selected == KnobName("payload", "load")
        assert "/ payload" not in app.text(f"#{panel_of(app).id}")


@SIZES
async def test_typing_replaces_a_kept_filter(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("slash", *"payload", "enter", "slash")
        await app.until(lambda: app.dashboard.board.typed is not None)
        assert app.dashboard.board.filter == "payload"
        await app.press(*"rate")
        assert app.dashboard.board.filter == "rate"
        await app.press("backspace", "enter")
        assert app.dashboard.board.filter == "rat"


@SIZES
async def test_escape_in_the_field_goes_back_to_the_knob_from_before(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("down", "slash")
        before = app.dashboard.board.selected
        await app.until(lambda: app.dashboard.board.typed is not None)
        await app.press(*"payload")
        assert app.dashboard.board.selected == KnobName("payload", "load")
        await app.press("escape")
        assert app.dashboard.board.typed is None
        assert app.dashboard.board.selected == before


async def test_the_arrows_walk_through_what_the_filter_leaves() -> None:
    async with bench() as app:
        await app.press("slash", *"binlog")
        first, second = app.dashboard.board.names[:2]
        assert app.dashboard.board.selected == first
        await app.press("down")
        assert app.dashboard.board.selected == second
        assert app.dashboard.board.typed is not None
        await app.press("enter")
        assert (app.dashboard.board.filter, app.dashboard.board.selected) == ("binlog", second)


async def test_what_is_not_found_is_said_below_the_field() -> None:
    async with bench() as app:
        await app.press("slash", *"zzz")
        assert app.rows("#knobs")[1].strip() == "no knob matches `zzz`"
        await app.press("escape")
        assert app.dashboard.board.selected == RTT


async def test_ctrl_c_quits_while_the_drawer_of_the_filter_is_laid_out() -> None:
    async with bench(size=(80, 24)) as app:
        app.app.post_message(events.Key("slash", "/"))
        app.app.post_message(events.Key("ctrl+c", "\x03"))
        await app.until(lambda: app.app.return_value == app.facade.closing_line)

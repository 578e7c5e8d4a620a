"""The lists over the whole terminal lose no word, and their last row names the keys that work there."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.ui.actions import ACTIONS
from replexplorer.ui.words.states import CHIPS, STATES
from tests.fakes.facade import WALL_S, change_event, make_tick
from tests.ui.driving import bench, page


@pytest.mark.parametrize("width", [80, 120])
async def test_the_help_is_not_cut(width: int) -> None:
    async with bench(size=(width, 24)) as app:
        await app.opened("question_mark")
        assert all(len(row) <= width for row in app.whole)
        told = " ".join(" ".join(app.whole).split())
        for title in (action.title for action in ACTIONS):
            assert title in told
        for meaning in (*(state[3] for state in STATES.values()), *(chip[2] for chip in CHIPS)):
            assert meaning in told


async def test_a_long_event_is_read_whole_in_the_log() -> None:
    text = "semi-sync timed out: " + "commits are asynchronous " * 8 + "until a replica acknowledges"
    tick = make_tick(1.0, events=(Event(1.0, WALL_S, Severity.WARN, text),))
    async with bench(tick, size=(80, 24)) as app:
        await app.opened("L")
        assert text in " ".join(" ".join(app.whole).split())
        assert len(app.whole) > 2


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_an_event_has_the_time_of_the_charts_and_the_local_time(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    """The mark of an event, its epoch and its place on the axis are found by one and the same time."""
    ticks = [make_tick(100.0), make_tick(140.0, events=(change_event(140.0, 1, "rtt 20 → 85 ms"),))]
    ticks += [make_tick(3_850.0, events=(change_event(3_850.0, 21, "clients 8 → 48"),))]
    async with bench(*ticks, size=size) as app:
        pages = app.rows("#events")
        await app.opened("L")
        assert page(pages, app.shown[:1], app.whole) == snapshot


@pytest.mark.parametrize(
    ("key", "keymap", "last"),
    [
        ("L", {}, "esc q back   ↑↓ scroll"),
        ("L", {"app.quit": "ctrl+x"}, "esc ^x back   ↑↓ scroll"),
        ("o", {}, "esc q back   ↑↓ choose  tab read on"),
        ("S", {}, "esc back   ↑↓ scroll"),
    ],
)
async def test_the_last_row_names_the_keys_that_work(key: str, keymap: dict[str, str], last: str) -> None:
    tick = make_tick(1.0, events=(Event(1.0, WALL_S, Severity.INFO, "begun"),))
    async with bench(tick, size=(80, 24), keymap=keymap) as app:
        await app.opened(key)
        await app.until(lambda: app.shown[-1].strip() == last, f"{app.shown[-1]!r}")


@pytest.mark.parametrize("key", ["question_mark", "g", "L", "o"])
async def test_q_closes_the_list_that_is_open_and_not_the_program(key: str) -> None:
    events = (Event(1.0, WALL_S, Severity.INFO, "begun"),)
    tick = make_tick(1.0, events=events, epochs=(Epoch(0, 0.0, "baseline", None, 619.0),))
    async with bench(tick, size=(80, 24)) as app:
        await app.opened(key)
        await app.press("q")
        await app.until(lambda: app.app.screen is app.dashboard)
        assert app.app.is_running
        assert app.facade.called("close") == []


async def test_q_is_a_letter_while_a_sweep_is_typed_and_closes_the_screen_else() -> None:
    async with bench(size=(80, 24)) as app:
        await app.opened("S")
        await app.press("q")
        assert app.app.screen.query_one(Input).value.endswith("q")
        app.app.screen.set_focus(None)
        await app.press("q")
        await app.until(lambda: app.app.screen is app.dashboard)

"""The lists over the whole terminal lose no word, and their last row names the keys that work there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.screen import Screen

from replexplorer.core.tick import Event, Severity, Tick
from replexplorer.ui.actions import ACTIONS
from replexplorer.ui.screens.listing import Listing
from replexplorer.ui.words import CHIPS, STATES
from tests.fakes.facade import WALL_S, down, make_tick
from tests.ui.driving import Bench, bench


def listing(app: Bench) -> Listing:
    screen: Screen[object] = app.app.screen
    return screen.query_one(Listing)


async def opened(app: Bench, key: str) -> Listing:
    await app.press(key)
    await app.until(lambda: app.app.screen is not app.dashboard)
    found = listing(app)
    await app.until(lambda: bool(found._body) and bool(found.rows))
    return found


def words(found: Listing) -> str:
    """The whole body, each row's words after another."""
    return " ".join(" ".join(text for text, _ in row) for row in found._body)


@pytest.mark.parametrize("width", [80, 120])
async def test_the_help_is_not_cut(width: int) -> None:
    async with bench(size=(width, 24)) as app:
        found = await opened(app, "question_mark")
        assert all(sum(len(text) for text, _ in row) <= width for row in found._body)
        told = " ".join(words(found).split())
        for title in (action.title for action in ACTIONS):
            assert title in told
        for meaning in (*(state[3] for state in STATES.values()), *(chip[2] for chip in CHIPS)):
            assert meaning in told


async def test_a_long_event_is_read_whole_in_the_log() -> None:
    text = "semi-sync timed out: " + "commits are asynchronous " * 8 + "until a replica acknowledges"
    tick = make_tick(1.0, events=(Event(1.0, WALL_S, Severity.WARN, text),))
    async with bench(tick, size=(80, 24)) as app:
        found = await opened(app, "L")
        assert text in " ".join(words(found).split())
        assert len(found._body) > 2


@pytest.mark.parametrize(
    ("key", "keymap", "last"),
    [
        ("L", {}, "esc back   ↑↓ scroll   q quit"),
        ("L", {"app.quit": "ctrl+x"}, "esc back   ↑↓ scroll   ^x quit"),
        ("o", {}, "esc back   ↑↓ choose   q quit"),
        ("S", {}, "esc back   ↑↓ scroll"),
    ],
)
async def test_the_last_row_names_the_keys_that_work(key: str, keymap: dict[str, str], last: str) -> None:
    tick = make_tick(1.0, events=(Event(1.0, WALL_S, Severity.INFO, "begun"),))
    async with bench(tick, size=(80, 24), keymap=keymap) as app:
        found = await opened(app, key)
        await app.until(lambda: found.rows[-1].strip() == last, f"{found.rows[-1]!r}")


def failed_thread(tick: Tick) -> Tick:
    return replace(
        tick,
        nodes=tuple(replace(one, sql_thread="error") if one.name == "replica" else one for one in tick.nodes),
    )


async def test_a_replica_that_fails_stands_in_the_first_row_at_any_size() -> None:
    for size in ((80, 24), (160, 45)):
        async with bench(make_tick(1.0), size=size) as app:
            assert "✖" not in app.text("#header")
            await app.play(down(make_tick(1.5), "replica"))
            assert "✖ replica" in app.text("#header")
            await app.play(failed_thread(make_tick(2.0)))
            assert "✖ replica" in app.text("#header")
            assert "SQL thread" in app.text("#header")
            await app.play(make_tick(2.5))
            assert "✖" not in app.text("#header")

"""Every screen at every size: nothing that matters is cut, keys stand in the last row, nothing jumps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, Size, bench, page
from tests.ui.test_replay import playing
from tests.ui.test_spectator import Watched
from tests.ui.walk import REPLICAS, SIZES, STACK, THEMES, Seen, calm, seen_of, troubled, walk

CUT_BY_DESIGN = frozenset({"events", "knob-line"})
"""What has one row a thing, and a screen where it is read whole: the log; the help."""


EVERY_SIZE = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


def check(seen: Seen, size: Size) -> None:
    """The terminal is filled and no wider than it is, the first row says what is open, the last one which
    keys there are, nothing had no room, and all of it can be read."""
    width, height = size
    assert [cell_len(row) for row in seen.rows] == [width] * height, seen.name
    assert not [row for row in seen.lost if row.partition(":")[0] not in CUT_BY_DESIGN], seen.name
    assert seen.rows[0].strip(), seen.name
    assert any(key in seen.rows[-1] for key in ("q quit", "esc")), (seen.name, seen.rows[-1])
    assert seen.weak == set(), seen.name
    assert "".join(seen.rows).isprintable(), seen.name


@pytest.mark.costly("it draws every screen, once for all that is looked for")
@EVERY_SIZE
async def test_no_screen_loses_what_it_says(size: Size) -> None:
    names = []
    async for seen in walk(size, theme=THEMES[size]):
        names.append(seen.name)
        check(seen, size)
    assert len(names) == len(set(names)) >= 25


@EVERY_SIZE
async def test_nor_does_a_recording_or_who_watches(size: Size) -> None:
    async with playing(size) as player:
        check(seen_of("replay", player.app), size)
    watched = replace(troubled(), viewer=True)
    async with bench(watched, size=size, facade=Watched(replicas=REPLICAS), stack=STACK) as app:
        check(seen_of("spectator", app.app), size)


FIGURES = (None, 0.0, 7.1, 88.4, 528.0, 1_234.5, 12_345.6, 123_456.7)


def places(app: Bench) -> dict[str, object]:
    """Where each widget stands."""
    return {
        widget.id: widget.region
        for widget in app.dashboard.query("*")
        if widget.id and widget.display and widget.is_on_screen
    }


@EVERY_SIZE
async def test_no_widget_moves_whatever_the_figures_are(size: Size) -> None:
    async with bench(calm(), size=size, stack=STACK) as app:
        stood = places(app)
        for number, tps in enumerate(FIGURES):
            tick = make_tick(2.0 + number, tps=tps, rtt=(85.0, 85.4 * 4**number), replicas=REPLICAS)
            await app.play(replace(tick, stack=STACK))
            assert places(app) == stood, tps


@EVERY_SIZE
async def test_what_is_in_effect_stands_in_one_column(size: Size, snapshot: SnapshotAssertion) -> None:
    """Whatever is measured beside it, and whichever knob is selected."""
    ticks = [
        make_tick(1.0 + at, rtt=(rtt_ms, rtt_ms + 0.4), replicas=REPLICAS)
        for at, rtt_ms in enumerate((0.5, 85.0, 300.0, 1250.0))
    ]
    panel, pages = "#drawer" if size == SIZES[0] else "#knobs", list[str]()
    async with bench(ticks[0], size=size) as app:
        if size == SIZES[0]:
            await app.press("enter")
            await app.until(lambda: bool(app.rows("#drawer")), "the drawer")
        for tick in ticks:
            await app.play(tick)
            pages += [row for row in app.rows(panel) if " effect " in row or " rtt db" in row]
        assert page(pages) == snapshot

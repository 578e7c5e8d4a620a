"""Every screen at every size: nothing that matters is cut, keys stand in the last row, nothing jumps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from tests.typed import table_of
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


FIGURES = """\
None     0.5    0.9
0.0      85.0   85.4
7.1      85.0   341.6
88.4     300.0  300.4
528.0    300.0  1366.4
1234.5   1250.0 1250.4
12345.6  1250.0 5465.6
123456.7 85.0   87449.6
"""
"""Commits per second, and a round trip as it is asked for and as it is measured."""


def places(app: Bench) -> dict[str, object]:
    """Where each widget stands."""
    return {
        widget.id: widget.region
        for widget in app.dashboard.query("*")
        if widget.id and widget.display and widget.is_on_screen
    }


@EVERY_SIZE
async def test_no_widget_and_no_column_moves_whatever_the_figures_are(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    """What is in effect has one column, whatever is measured next to it."""
    keys, panel = ("enter", "#drawer") if size == SIZES[0] else ("", "#knobs")
    pages = list[str]()
    async with bench(calm(), size=size, stack=STACK) as app:
        await app.press(keys)
        await app.until(lambda: bool(app.rows(panel)), "the knobs")
        stood = places(app)
        for at_s, (tps, asked_ms, measured_ms) in enumerate(table_of(FIGURES, None), 2):
            await app.play(calm(f"{at_s} tps={tps} rtt={asked_ms},{measured_ms}"))
            assert places(app) == stood, tps
            pages += [row for row in app.rows(panel) if " effect " in row or " rtt db" in row]
        assert page(pages) == snapshot

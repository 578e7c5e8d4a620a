"""Every screen at every size: nothing that matters is cut, keys stand in the last row, nothing jumps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from replexplorer.ui.widgets.chart import Chart
from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, bench
from tests.ui.walk import REPLICAS, SIZES, STACK, Seen, calm, troubled, walk

CUT_BY_DESIGN = frozenset({"events"})
"""What has one row a thing, and a screen of its own where it is read whole."""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_no_screen_loses_what_it_says(size: tuple[int, int]) -> None:
    width, height = size
    names = []
    async for seen in walk(size):
        names.append(seen.name)
        assert [cell_len(row) for row in seen.rows] == [width] * height, seen.name
        assert not [row for row in seen.lost if row.partition(":")[0] not in CUT_BY_DESIGN], seen.name
        last = seen.rows[-1]
        assert last.strip(), seen.name
        assert any(key in last for key in ("q quit", "esc", "again ends", "q q")), (seen.name, last)
        _check_first_row(seen)
    assert len(names) == len(set(names)) >= 20


def _check_first_row(seen: Seen) -> None:
    """What is open, or the state of the stack and how fast it is, stands in the first row."""
    assert seen.rows[0].strip(), seen.name


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_titles_and_units_of_charts_are_whole(size: tuple[int, int]) -> None:
    async with bench(calm(), troubled(), size=size, stack=STACK) as app:
        charts = [chart for chart in app.dashboard.query(Chart) if chart.is_on_screen and chart.region.area]
        assert charts
        for chart in charts:
            title = "".join(segment.text for segment in chart.render_line(0))
            assert "…" not in title, title


FIGURES = (None, 0.0, 7.1, 88.4, 528.0, 1_234.5, 12_345.6, 123_456.7)


def places(app: Bench) -> dict[str, object]:
    """Where each widget stands."""
    return {
        widget.id: widget.region
        for widget in app.dashboard.query("*")
        if widget.id and widget.display and widget.is_on_screen
    }


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_no_widget_moves_whatever_the_figures_are(size: tuple[int, int]) -> None:
    async with bench(calm(), size=size, stack=STACK) as app:
        stood = places(app)
        for number, tps in enumerate(FIGURES):
            tick = make_tick(2.0 + number, tps=tps, rtt=(85.0, 85.4 * 4**number), replicas=REPLICAS)
            await app.play(replace(tick, stack=STACK))
            assert places(app) == stood, tps

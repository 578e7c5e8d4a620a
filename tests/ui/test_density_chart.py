"""Latency as shades: nothing hidden, on the page and beside the marks of the line chart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.history.series import Point
from replexplorer.core.stats.histogram import DensityHistory, Histogram
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartMark, ChartModel, FaultWindow, Page, Stroke, WindowKind
from replexplorer.ui.charts.contents import latency_chart
from replexplorer.ui.charts.paint import SHADES, CellGrid, paint_chart, plot_area, shade_of, top_of
from replexplorer.ui.style.theme import NO_COLOR_THEME
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Chart
from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, bench

PAGE = (600.0, 720.0)
WIDTH, HEIGHT = 75, 11
STALL_S = 650.25
"""The middle of a half second in which one commit ended after 5 s, and no other."""


def histogram(*values_us: int) -> Histogram:
    found = Histogram()
    found.record_all(values_us)
    return found


def model(**options: object) -> ChartModel:
    """A minute of 4000 commits/s at 1 ms but for one stall of 5 s."""
    history = DensityHistory()
    for at in range(120):
        start_s = 600 + at / 2
        stalled = start_s < STALL_S < start_s + 0.5
        history.add(start_s, start_s + 0.5, histogram(*([5_000_000] if stalled else [1000] * 2000)))
    points = [Point(660.0, p50_ms=1.0, p95_ms=1.0, p99_ms=1.0, max_ms=1.0)]
    return latency_chart(Page(*PAGE, **options), points, density=history.page(*PAGE))  # type: ignore[arg-type]


def painted(
    one: ChartModel, glyphs: Glyphs = BRAILLE, *, tones: bool = True, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> CellGrid:
    return paint_chart(one, *size, glyphs, tones=tones, shades=not tones)


def shaded(grid: CellGrid, x: int, y: int) -> bool:
    return any(token.startswith("heat") for token in (grid.inks[y][x], grid.grounds[y][x]))


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_shades_never_fall_and_anything_is_seen(rate: float, other: float) -> None:
    low, high = sorted((rate, other))
    top = top_of(high)
    assert high <= top * (1 + 1e-9) <= high * 10 * (1 + 1e-6)
    assert 1 <= shade_of(low, top) <= shade_of(high, top) <= SHADES
    assert shade_of(0.0, top) == 0
    assert shade_of(top, top) == SHADES


@pytest.mark.parametrize("size", [(40, 7), (WIDTH, HEIGHT), (80, 14), (111, 12), (250, 60)])
@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK, ASCII])
@pytest.mark.parametrize("tones", [True, False])
def test_one_stalled_commit_beside_a_quarter_of_a_million_is_seen(
    size: tuple[int, int], glyphs: Glyphs, tones: bool
) -> None:
    grid = painted(model(), glyphs, tones=tones, size=size)
    plot = plot_area(*size)
    x = plot.x + int((STALL_S - PAGE[0]) / 120 * plot.width)
    upper = range(plot.y, plot.y + plot.height // 2)
    if tones and glyphs is not ASCII:
        assert any(shaded(grid, x, y) for y in upper)
    else:
        assert any(grid.chars[y][x] == glyphs.densities[0] for y in upper)


def test_the_busy_cells_have_the_last_shade_and_a_stall_the_first() -> None:
    grid = painted(model())
    tokens = {
        token for row in (*grid.inks[1:], *grid.grounds[1:]) for token in row if token.startswith("heat")
    }
    # The column with the stall has commits in three of its four slices: one shade less.
    assert tokens - {"heat4"} == {"heat1", "heat5"}
    title = grid.row(0)
    assert title.startswith("─ Latency density, ms")
    assert "few " in title
    assert "10k/s" in title
    assert set(grid.grounds[0]) >= {f"heat{shade}" for shade in range(1, SHADES + 1)}


def test_percentiles_keep_their_labels_and_lines_are_not_drawn() -> None:
    one = model()
    assert {series.stroke for series in one.series} == {Stroke.LABEL}
    text = "\n".join(painted(one).row(y) for y in range(HEIGHT))
    assert all(f"{name} 1.0" in text for name in ("p50", "p95", "p99", "max"))
    assert not any("⠀" < char <= "⣿" for char in text)


def test_marks_faults_and_axis_are_those_of_the_line_chart() -> None:
    marks = (ChartMark(650.0, 1),)
    windows = (FaultWindow(640.0, 656.0, "partition", WindowKind.PARTITION),)
    grid = painted(model(marks=marks, windows=windows))
    x = 7 + int(50 / 120 * 56)
    assert "┊" in {grid.chars[y][x] for y in range(2, HEIGHT)}
    number = next(y for y in range(HEIGHT) if grid.chars[y][x] == "①")
    assert not shaded(grid, x, number), "a mark's number hides no commit"
    assert grid.grounds[4][7 + int(45 / 120 * 56)] == "partitionbg"
    assert " 10:30 " in grid.row(HEIGHT - 1)


def test_what_was_not_measured_is_blank() -> None:
    grid = painted(model())
    late = 7 + int(100 / 120 * 56)
    assert not any(shaded(grid, late, y) for y in range(1, HEIGHT))


def test_ascii_is_ascii_and_without_colours_no_shade_is_a_colour() -> None:
    grid = painted(model(), ASCII, tones=False)
    assert all(grid.row(y).isascii() for y in range(HEIGHT))
    assert not any(shaded(grid, x, y) for y in range(HEIGHT) for x in range(WIDTH))


def live(at_s: float, *values_us: int) -> Tick:
    tick = make_tick(at_s)
    assert tick.load is not None
    latency = histogram(*values_us)
    return replace(tick, load=replace(tick.load, n=latency.count, service=latency))


def chart(app: Bench) -> Chart:
    return app.dashboard.query_one("#latency-chart", Chart)


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_a_key_switches_between_lines_and_density(size: tuple[int, int]) -> None:
    ticks = [live(1 + at / 2, *[90_000] * 50) for at in range(20)]
    async with bench(*ticks, size=size) as app:
        await app.press("d")
        await app.until(lambda: "density" in (chart(app).rows or [""])[0])
        assert chart(app).region.area
        assert chart(app).shown is not None
        await app.press("d")
        await app.until(lambda: "density" not in chart(app).rows[0])


async def test_a_held_picture_stays_and_a_longer_page_shows_more() -> None:
    ticks = [live(1 + at / 2, *[90_000] * 50) for at in range(400)]
    async with bench(*ticks) as app:
        await app.press("d", "space")
        held = chart(app).shown
        assert held is not None
        await app.play(live(201.5, *[5_000_000] * 8))
        assert chart(app).shown == held
        await app.press("minus")
        longer = chart(app).shown
        assert longer is not None
        assert longer.density[0].start_s < held.density[0].start_s
        await app.press("plus", "space")
        await app.until(lambda: chart(app).shown != held)


async def test_only_what_changed_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = [live(1 + at / 2, *[90_000] * 50) for at in range(40)]
    async with bench(*ticks) as app:
        await app.press("d")
        await app.until(lambda: "density" in chart(app).rows[0])
        drawn: list[int] = []
        original = Chart.refresh

        def noted(self: Chart, *regions: object, **options: object) -> object:
            drawn.append(sum(region.area for region in regions) if regions else self.size.area)  # type: ignore[attr-defined]
            return original(self, *regions, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Chart, "refresh", noted)
        await app.play(live(21.5, *[90_000] * 50))
        assert sum(drawn) < 60


async def test_no_color_draws_a_density_with_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    ticks = [live(1 + at / 2, *[90_000] * 50) for at in range(40)]
    async with bench(*ticks, no_color=True) as app:
        assert app.app.theme == NO_COLOR_THEME
        await app.press("d")
        await app.until(lambda: BRAILLE.densities[-1] * 5 in "\n".join(chart(app).rows))

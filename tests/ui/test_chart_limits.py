"""What an axis holds, where levels are drawn, and the arrows of what is off scale."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.ui.charts.axes import AxisScale, linear_scale, log_scale
from replexplorer.ui.charts.cells import CellGrid
from replexplorer.ui.charts.chart_model import ChartMark, ChartModel
from replexplorer.ui.charts.contents import tps_model
from replexplorer.ui.charts.levels import levels_of
from replexplorer.ui.charts.limits import drawn_values, finite, limits_of
from replexplorer.ui.charts.paint import paint_chart, scale_of
from replexplorer.ui.charts.raster import braille_bit
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE, Glyphs
from replexplorer.ui.widgets.chart import raster

PAGE = (600.0, 720.0)
WIDTH, HEIGHT = 75, 11
PLOT = slice(7, 64)

History = list[tuple[float, float | None]]


def half_seconds(*stretches: tuple[int, float | None]) -> History:
    """(how many half seconds, value) after another, from the page's left edge on."""
    values = [value for count, value in stretches for _ in range(count)]
    return [(PAGE[0] + at / 2, value) for at, value in enumerate(values)]


def painted(
    model: ChartModel, glyphs: Glyphs = BRAILLE, width: int = WIDTH, height: int = HEIGHT
) -> tuple[CellGrid, list[str]]:
    grid = paint_chart(model, width, height, glyphs, raster)
    return grid, [grid.row(y) for y in range(height)]


def axis(model: ChartModel) -> AxisScale:
    return scale_of(model, limits_of(model), HEIGHT - 2)


def row_of(rows: list[str], text: str) -> int:
    return next(at for at, row in enumerate(rows) if text in row)


def labels_of(rows: list[str]) -> list[str]:
    return [row[64:].strip() for row in rows[1:-1] if row[64:].strip()]


# The logarithmic axis


def test_a_partition_and_a_reset_leave_an_axis_that_fits() -> None:
    """`p r R u`: 15 TPS, an outage with a ramp through fractions of one, 2,000 TPS, 15 again."""
    tps = half_seconds((60, 16.0), (20, 0.0), (1, 0.4), (40, 2_000.0), (60, 80.0))
    rows = painted(tps_model(tps, (), page=PAGE, log=True))[1]
    ticks = [row[:6].strip() for row in rows[1:-1] if row[:6].strip()]
    assert ticks[-1] == "0"
    assert all(float(tick) <= 5_000 for tick in ticks)
    low = next(y for y, row in enumerate(rows) if "⣀⣀⣀⣀" in row[7:30] or "⠒⠒⠒⠒" in row[7:30])
    high = row_of(rows, "80.0 now")
    assert low - high >= 2, "16 and 80 are told apart"
    assert any(char > "⠀" for row in rows[1:3] for char in row[35:45]), "the highest fills the top"


@given(st.floats(1e-2, 1e4), st.floats(0.4, 4.0), st.integers(7, 40), st.booleans())
def test_values_fill_the_rows_whatever_their_range(
    least: float, decades: float, rows: int, has_zero: bool
) -> None:
    greatest = least * 10**decades
    scale = log_scale(least, greatest, rows, has_zero=has_zero)
    assert scale.side(least) == scale.side(greatest) == 0
    assert scale.row(least) - scale.row(greatest) >= 0.6 * (rows - 1 - has_zero)


def figures_of(scale: AxisScale) -> list[float]:
    suffixes = str.maketrans({"k": "e3", "M": "e6", "G": "e9"})
    return [float(label.translate(suffixes)) for _, label in scale.ticks]


@given(st.floats(1e-2, 1e4), st.floats(0.0, 5.0), st.integers(6, 60), st.booleans())
def test_ticks_rise_and_do_not_collide(least: float, decades: float, rows: int, has_zero: bool) -> None:
    greatest = least * 10**decades
    for scale in (log_scale(least, greatest, rows, has_zero=has_zero), linear_scale(greatest, rows)):
        figures = figures_of(scale)
        assert len(figures) >= 2
        assert all(low < high for low, high in pairwise(figures))
        assert len({label for _, label in scale.ticks}) == len(figures)
        assert all(low[0] - high[0] >= 2 for low, high in pairwise(scale.ticks))
        for (row, _), figure in zip(scale.ticks, figures, strict=True):
            assert abs(scale.row(figure) - row) < 0.25


def test_what_passes_in_a_moment_is_between_zero_and_the_least() -> None:
    scale = log_scale(16.0, 2_000.0, 9, has_zero=True)
    assert scale.row(16.0) < scale.row(4.0) < scale.row(0.1) < scale.row(0.0) == 8


def test_one_value_stands_in_the_middle() -> None:
    rows = painted(tps_model(half_seconds((200, 500.0)), (), page=PAGE, log=True))[1]
    assert 4 <= row_of(rows, "500 now") <= 6


# Levels


def test_a_ceiling_of_a_moment_is_an_arrow_and_the_axis_stays() -> None:
    tps = half_seconds((200, 76.0))
    ceiling = half_seconds((90, 90.0), (4, 3_143.0), (106, 90.0))
    rows = painted(tps_model(tps, ceiling, page=PAGE, marks=[ChartMark(645.0, 3)]))[1]
    assert rows[1].startswith("   100┤")
    assert "③▴3143" in rows[1][PLOT]
    assert labels_of(rows) == ["90.0 ceil", "76.0 now"]


def test_a_ceiling_of_a_moment_does_not_widen_an_axis_that_has_room() -> None:
    """It is less than twice the fastest second of the page, and still a moment's."""
    tps = half_seconds((20, 1_700.0), (180, 1_600.0))
    ceiling = half_seconds((90, 1_800.0), (4, 3_143.0), (106, 1_800.0))
    model = tps_model(tps, ceiling, page=PAGE)
    limits = limits_of(model)
    assert limits is not None
    assert limits.greatest == 1_800.0


def test_a_lasting_ceiling_nearby_is_drawn() -> None:
    rows = painted(tps_model(half_seconds((200, 100.0)), half_seconds((200, 180.0)), page=PAGE))[1]
    assert "▴" not in "".join(rows)
    assert row_of(rows, "180 ceil") < row_of(rows, "100 now")


@pytest.mark.parametrize("log", [False, True])
def test_a_lasting_ceiling_far_above_is_an_arrow_and_the_data_keep_the_rows(log: bool) -> None:
    """5,225 over at most 1,700: seen on real servers, where it took a third of the rows."""
    tps = half_seconds((100, 215.0), (6, 1_700.0), (94, 160.0))
    rows = painted(tps_model(tps, half_seconds((200, 5_225.0)), page=PAGE, log=log))[1]
    assert "▴5225 ceil" in rows[1]
    assert any("⠀" < char <= "⣿" for row in rows[1:4] for char in row[PLOT])


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK])
def test_a_prediction_is_drawn_where_it_is_and_not_on_the_nearest_row(glyphs: Glyphs) -> None:
    """176 between the rows of 180 and 150 is nearer to 180, and above a curve of 163."""
    tps, predicted = half_seconds((100, 163.0)), half_seconds((100, 176.0))
    model = tps_model(tps, half_seconds((100, 220.0)), predicted, page=PAGE)
    scale = axis(model)
    (_, (step,)), _ = levels_of(model, scale, 57, glyphs)
    assert step.row == pytest.approx(scale.row(176.0))
    assert scale.row(180.0) < step.row < scale.row(163.0)
    seen = {scale.dot(value, glyphs.dots_y) for value in (176.0, 100.0, 163.0)}
    assert len(seen) >= 2
    grid, _ = painted(model, glyphs)
    tokens = {grid.inks[y][62].role for y in range(1, 10) if grid.chars[y][62] not in " ┈"}
    assert "title" in tokens, "beside the curve's end the prediction runs on"


def test_an_old_prediction_is_an_unbroken_step() -> None:
    """A trembling prediction stays one line, and the change to another is joined to it."""
    trembling: History = [(600 + at / 2, 100.0 + 0.4 * (at % 3)) for at in range(60)]
    passing: History = [(630.0, 130.0), (630.5, 150.0)]
    settled: History = [(631 + at / 2, 176.0) for at in range(100)]
    tps = half_seconds((162, 163.0))
    model = tps_model(tps, (), [*trembling, *passing, *settled], page=PAGE)
    _, steps = levels_of(model, axis(model), 57, BRAILLE)[0]
    assert len(steps) <= 4
    assert [step.is_joined for step in steps] == [False] + [True] * (len(steps) - 1)
    assert all(before.end == after.start for before, after in pairwise(steps))
    grid, _ = painted(model)
    first_cells = [
        any(grid.inks[y][x].role == "title" and grid.chars[y][x] > "⠀" for y in range(1, 10))
        for x in range(7, 20)
    ]
    assert all(first_cells), "a dot in every cell"


def test_a_prediction_of_a_moment_between_gaps_is_no_stray_dot() -> None:
    predicted = half_seconds((40, None), (3, 80.0), (57, None), (60, 90.0), (40, None))
    model = tps_model(half_seconds((200, 76.0)), (), predicted, page=PAGE)
    _, steps = levels_of(model, axis(model), 57, BRAILLE)[0]
    assert [step.value for step in steps] == [90.0]


def test_a_prediction_along_the_curve_is_seen_as_one_line() -> None:
    """Of the cells that both are in every third has its ink, and no dot of either is lost."""
    model = tps_model(half_seconds((200, 76.0)), (), half_seconds((200, 76.4)), page=PAGE)
    grid, _ = painted(model)
    row, dot = divmod(axis(model).dot(76.0, BRAILLE.dots_y), BRAILLE.dots_y)
    inks = [grid.inks[row + 1][x].role for x in range(7, 52)]
    assert inks == ["title", "tps", "tps"] * 15
    both = ord(grid.chars[row + 1][8]) & ~0x2800
    line = braille_bit(0, dot) | braille_bit(1, dot)
    assert both & line == line


def test_a_gap_in_a_level_is_a_gap() -> None:
    ceiling = half_seconds((60, 90.0), (60, None), (80, 90.0))
    model = tps_model(half_seconds((200, 76.0)), ceiling, page=PAGE)
    steps = [steps for one, steps in levels_of(model, axis(model), 57, BRAILLE) if one.ink == "ceiling"]
    assert [step.is_joined for step in steps[0]] == [False, False]
    assert steps[0][0].end < steps[0][1].start


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "figures", [(100.0, 105.0, 103.0), (88.0, 87.0, 89.0), (100.0, 9e5, 8e5), (5e4, 1.0, 2.0)]
)
def test_labels_stand_in_the_order_of_their_values(figures: tuple[float, float, float], log: bool) -> None:
    tps, ceiling, predicted = (half_seconds((200, value)) for value in figures)
    rows = painted(tps_model(tps, ceiling, predicted, page=PAGE, log=log), height=14)[1]
    words = {"now": figures[0], "ceil": figures[1], "pred": figures[2]}
    told = [words[label.split()[-1]] for label in labels_of(rows)]
    assert told == sorted(figures, reverse=True)


VALUES = st.one_of(st.none(), st.just(0.0), st.floats(0.01, 1e5))


@given(
    st.lists(VALUES, min_size=1, max_size=60),
    st.lists(VALUES, max_size=60),
    st.lists(VALUES, max_size=60),
    st.booleans(),
    st.sampled_from([BRAILLE, BLOCK, ASCII]),
)
def test_every_value_is_on_the_axis_or_has_an_arrow(
    tps: list[float | None],
    ceiling: list[float | None],
    predicted: list[float | None],
    log: bool,
    glyphs: Glyphs,
) -> None:
    lines = [[(600 + 2.0 * at, value) for at, value in enumerate(one)] for one in (tps, ceiling, predicted)]
    model = tps_model(*lines, page=PAGE, log=log)
    if limits_of(model) is None:
        return
    scale = axis(model)
    assert all(scale.side(value) == 0 for value in drawn_values(model))
    grid, _ = painted(model, glyphs)
    arrows = {(grid.chars[y][x], grid.inks[y][x].role) for y in range(1, HEIGHT - 1) for x in range(7, WIDTH)}
    for one in model.series:
        if one.stroke.is_level:
            sides = {scale.side(value) for value in finite(one.points)} - {0}
            assert all((glyphs.up if side > 0 else glyphs.down, one.ink) in arrows for side in sides)


@given(st.lists(st.floats(0.0, 1e4), min_size=30, max_size=200))
def test_an_axis_widens_within_a_page_and_does_not_swing(values: list[float]) -> None:
    """No scale comes back after another one, however the page goes on."""
    points = half_seconds(*((1, value) for value in values))
    seen: list[tuple[float, float]] = []
    for length in range(25, len(points) + 1):
        model = tps_model(points[:length], (), page=PAGE, log=False)
        scale = axis(model)
        if not seen or seen[-1] != (scale.bottom, scale.per_row):
            seen.append((scale.bottom, scale.per_row))
    assert len(seen) == len(set(seen))


def test_an_arrow_stands_in_the_row_at_the_edge_in_every_set_of_characters() -> None:
    tps, ceiling = half_seconds((200, 76.0)), half_seconds((90, 90.0), (4, 3_143.0), (106, 90.0))
    for glyphs, arrow in ((BRAILLE, "▴3143"), (BLOCK, "▴3143"), (ASCII, "^3143")):
        assert arrow in painted(tps_model(tps, ceiling, page=PAGE), glyphs)[1][1]
    below = half_seconds((90, 90.0), (8, 1.0), (102, 90.0))
    rows = painted(tps_model(tps, below, page=PAGE, log=True))[1]
    assert "▾1.0" in rows[HEIGHT - 2]

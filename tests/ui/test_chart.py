"""Charts as text, and the rasters against each other."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region

from replexplorer.core.history.points import Point
from replexplorer.ui.charts.axes import (
    linear_scale,
    log_scale,
    spread_rows,
    tick_text,
    time_ticks,
)
from replexplorer.ui.charts.cells import CellGrid
from replexplorer.ui.charts.chart_model import (
    ChartMark,
    ChartModel,
    ChartSeries,
    FaultWindow,
    Stroke,
    WindowKind,
)
from replexplorer.ui.charts.contents import chart_models, condensed, tps_model, zoomed
from replexplorer.ui.charts.paint import BAND_INKS, paint_chart, plot_area
from replexplorer.ui.charts.raster import Raster, Trace, raster_dots, straightened, thinned, trace_dots
from replexplorer.ui.style.theme import WINDOW_GROUNDS as GROUNDS
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE, Glyphs, choose_glyphs
from replexplorer.ui.widgets import chart as chart_module
from replexplorer.ui.widgets.big_digits import big_rows, solid_rows
from replexplorer.ui.widgets.chart import Chart, raster
from replexplorer.ui.words.figures import moment

PAGE = (600.0, 720.0)
WIDTH, HEIGHT = 75, 11


def history() -> list[Point]:
    """A minute at 600 commits/s and 25 ms, a gap of 10 s, then 200 commits/s and 90 ms."""
    points = []
    for at in range(200):
        at_s = 600 + at / 2
        if 660 <= at_s < 670:
            points.append(Point(at_s))
        else:
            tps, ms = (600.0, 25.0) if at_s < 660 else (200.0, 90.0)
            points.append(Point(at_s, tps, tps + 20, ms, ms * 1.1, ms * 1.3, ms * 2, n=200))
    return points


def picture(
    model: ChartModel, glyphs: Glyphs = BRAILLE, width: int = WIDTH, height: int = HEIGHT
) -> list[str]:
    grid = paint_chart(model, width, height, glyphs, raster)
    return [grid.row(y) for y in range(height)]


def both(**options: object) -> tuple[ChartModel, ChartModel]:
    return chart_models(history(), page=PAGE, **options)  # type: ignore[arg-type]


def test_title_axes_ticks_and_labels_stand_where_the_eye_looks_for_them() -> None:
    tps, latency = both(tps_notes=["ceiling 16 ÷ (24.0 + 1.0 ms) = 640/s"])
    rows = picture(tps)
    assert rows[0].startswith("─ TPS commits/s ──")
    assert rows[0].endswith("── ceiling 16 ÷ (24.0 + 1.0 ms) = 640/s ─")
    assert rows[1].startswith("   800┤┈")
    assert rows[9].startswith("     0┤┈")
    assert rows[10].startswith("      └")
    assert " 10:30 " in rows[10]
    assert sum("200 now" in row for row in rows) == 1
    assert sum("220 ceil" in row for row in rows) == 1
    assert rows[3].startswith("   600┤⠒⠒⠒")
    labels = [row[65:].strip() for row in picture(latency)[1:10] if row[65:].strip()]
    assert labels == ["max 180", "p99 117", "p95 99", "p50 90"]


def test_a_load_that_has_measured_nothing_yet_has_no_figure_of_now() -> None:
    model = tps_model([(600.0, None), (601.0, None)], (), page=PAGE)
    assert not any("now" in row for row in picture(model))


def test_an_unknown_value_is_a_gap_and_zero_is_a_line() -> None:
    def plotted(value: float | None) -> str:
        points = [(600.0 + at, 100.0 if at < 30 or at > 60 else value) for at in range(100)]
        rows = picture(tps_model(points, (), page=PAGE))
        return rows[9][7 + 17 : 7 + 27]  # the lowest row, inside the stretch

    assert set(plotted(None)) == {"┈"}
    assert set(plotted(0.0)) == {"⠒"}


def test_marks_stand_in_the_same_column_of_both_charts() -> None:
    marks = [ChartMark(612.0, 1), ChartMark(690.0, 2), ChartMark(705.0, 23), ChartMark(500.0, 9)]
    for glyphs, one in ((BRAILLE, "①"), (BLOCK, "①"), (ASCII, "1")):
        tops = [picture(model, glyphs)[1] for model in both(marks=marks)]
        assert [top.index(one, 7) for top in tops] == [7 + int(12 / 120 * 57)] * 2
        assert all("23" in top and "9" not in top[7:] for top in tops)
    column = 7 + int(90 / 120 * 57)
    assert [row[column] for row in picture(both(marks=marks)[0])[1:4]] == ["②", "┊", "┊"]


@pytest.mark.parametrize("glyphs", [BRAILLE, ASCII], ids=lambda glyphs: glyphs.name)
@pytest.mark.parametrize("apart", range(4))
def test_numbers_of_marks_never_run_into_one_another(apart: int, glyphs: Glyphs) -> None:
    """The newer one of two that are too near stays, and the line of the other."""
    second_s = 120 / 57
    for numbers in ((14, 15), (9, 10), (3, 4)):
        at_s = (650.0, 650.0 + apart * second_s)
        marks = [ChartMark(at, number) for at, number in zip(at_s, numbers, strict=True)]
        rows = picture(both(marks=marks)[0], glyphs)
        older, newer = (glyphs.number(number) for number in numbers)
        room = 1 if not (older + newer).isascii() and len(older + newer) == 2 else len(older) + 1
        shown = re.findall(r"[①-⑨]|\d+", rows[1][7:64])
        assert shown == ([older, newer] if apart >= room else [newer])
        lines = rows[2][7:64].count(glyphs.mark)
        assert lines == (2 if apart else 1)


def test_a_fault_is_tinted_with_its_word_inside_or_beside() -> None:
    wide = FaultWindow(610.0, 650.0, "partition 40 s", WindowKind.PARTITION)
    narrow = FaultWindow(672.0, 676.0, "down 4 s", WindowKind.DOWN)
    late = FaultWindow(697.0, 699.5, "partition 2.5 s", WindowKind.PARTITION)
    model = both(windows=[wide, narrow, late])[0]
    grid = paint_chart(model, WIDTH, HEIGHT, BRAILLE, raster)
    text = "\n".join(grid.row(y) for y in range(HEIGHT))
    assert " partition 40 s " in text
    assert "◂down 4 s" in text
    assert "partition 2.5 s▸" in text
    assert grid.inks[5][7 + 10].ground == "partitionbg"
    assert grid.inks[5][7 + 2].ground not in GROUNDS
    shaded = paint_chart(model, WIDTH, HEIGHT, BRAILLE, raster, shades=True)
    assert shaded.chars[5][7 + 10] == "░"
    assert all(ink.ground not in GROUNDS for row in shaded.inks for ink in row)
    assert ":::" in picture(model, ASCII)[5]


@pytest.mark.parametrize("glyphs", [BRAILLE, ASCII], ids=lambda one: one.name)
def test_windows_of_two_kinds_are_told_apart_and_write_over_nothing(glyphs: Glyphs) -> None:
    """The cable out for 40 s: what it brought lies under it, and all three say their word."""
    windows = [
        FaultWindow(610.0, 650.0, "partition both 40.0 s", WindowKind.PARTITION, "partition both"),
        FaultWindow(611.0, 621.0, "blocked 10.0 s", WindowKind.BLOCKED, "blocked"),
        FaultWindow(621.0, 655.0, "degraded 34.0 s", WindowKind.DEGRADED, "degraded"),
    ]
    model = both(windows=windows)[0]
    grid = paint_chart(model, WIDTH, HEIGHT, glyphs, raster)
    text = "\n".join(grid.row(y) for y in range(HEIGHT))
    for word in ("partition both", "blocked", "degraded"):
        assert word in text
    if glyphs is BRAILLE:
        at = {second: 7 + int((second - 600) / 120 * 57) for second in (615, 635, 653)}
        assert [grid.inks[2][at[second]].ground for second in at] == [
            "partitionbg",
            "partitionbg",
            "degradedbg",
        ]
        assert [grid.inks[7][at[second]].ground for second in at] == ["blockedbg", "degradedbg", "degradedbg"]
    drawn = paint_chart(model, WIDTH, HEIGHT, glyphs, raster, shades=True)
    signs = {char for row in drawn.chars for char in row}
    assert {
        glyphs.shades[kind] for kind in (WindowKind.PARTITION, WindowKind.BLOCKED, WindowKind.DEGRADED)
    } <= signs


def test_every_kind_of_window_has_colours_and_a_glyph_of_its_own() -> None:
    assert set(BAND_INKS) == set(WindowKind)
    assert len(set(BAND_INKS.values())) == len(WindowKind)
    for glyphs in (BRAILLE, BLOCK, ASCII):
        assert len({glyphs.shades[kind] for kind in WindowKind}) == len(WindowKind)
    assert all(sign.isascii() for sign in ASCII.shades.values())


def test_an_open_fault_reaches_to_the_newest_sample() -> None:
    model = both(windows=[FaultWindow(690.0, None, "partition", WindowKind.PARTITION)])[1]
    grid = paint_chart(model, WIDTH, HEIGHT, BRAILLE, raster)
    tinted = [x - 7 for x in range(WIDTH) if grid.inks[2][x].ground == "partitionbg"]
    assert tinted == list(range(int(90 / 120 * 57), int(99.5 / 120 * 57) + 1))


def test_the_area_under_the_line_is_tinted() -> None:
    grid = paint_chart(both()[0], WIDTH, HEIGHT, BRAILLE, raster)
    assert grid.inks[2][10].ground == "bg"
    assert [grid.inks[y][10].ground for y in range(4, 10)] == ["tpsfill"] * 6
    gap = 7 + int(65 / 120 * 57)
    assert grid.inks[9][gap].ground == "bg"


def test_the_ceiling_runs_on_to_its_label_and_leaves_when_it_is_far_above() -> None:
    points = [(600.0 + at, 100.0) for at in range(60)]
    near = picture(tps_model(points, [(at_s, 150.0) for at_s, _ in points], page=PAGE))
    row = next(at for at, row in enumerate(near) if "150 ceil" in row)
    dashes = next(line for line in near[row - 1 : row + 2] if "⣀⣀┈" in line or "⠒⠒" in line)
    assert {dashes[at : at + 3] for at in range(7, 64, 3)} == {dashes[7:10]}
    far = picture(tps_model(points, [(at_s, 15_000.0) for at_s, _ in points], page=PAGE))
    assert far[1][7:13] == "▴15.0k"
    grid = paint_chart(
        tps_model(points, [(at_s, 15_000.0) for at_s, _ in points], page=PAGE), WIDTH, HEIGHT, BRAILLE, raster
    )
    drawn = "".join(
        grid.chars[y][x] for y in range(1, 10) for x in range(7, 64) if grid.inks[y][x].role == "ceiling"
    )
    assert drawn == "▴15.0k"
    assert "▴15.0k ceil" in far[1][60:]


@pytest.mark.parametrize("tps", [8.0, 88.8, 888.0, 8888.0])
def test_a_level_s_word_keeps_off_the_right_edge(tps: float) -> None:
    points = [(600.0, tps), (700.0, tps)]
    model = tps_model(points, points, points, page=PAGE)
    text = picture(model, width=112)
    assert "pred" in "".join(text[1:])
    assert all(row.endswith(" ") for row in text[1:])


def test_the_axis_is_logarithmic_on_demand_alone() -> None:
    steps = [(600.0 + at, 10.0 if at < 50 else 9_000.0) for at in range(100)]
    level = [(600.0 + at, 500.0) for at in range(100)]
    assert not tps_model(steps, (), page=PAGE).log
    rows = picture(tps_model(level, (), page=PAGE, log=True))
    assert rows[0].startswith("─ TPS commits/s, log ")
    assert any(row.startswith("   500┤") for row in rows)


def test_waiting_for_the_first_sample() -> None:
    rows = picture(tps_model((), (), page=PAGE))
    assert any("waiting for the first sample" in row for row in rows)
    rows = picture(tps_model([(600.0, None)], (), page=PAGE))
    assert any("waiting for the first sample" in row for row in rows)


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (29, 11), (30, 4), (31, 5), (200, 60)])
def test_every_size_gives_a_picture_of_that_size(size: tuple[int, int]) -> None:
    for model in both(
        marks=[ChartMark(650.0, 1)], windows=[FaultWindow(640.0, 650.0, "partition", WindowKind.PARTITION)]
    ):
        for glyphs in (BRAILLE, BLOCK, ASCII):
            rows = picture(model, glyphs, *size)
            assert [len(row) for row in rows] == [size[0]] * size[1]


def test_ascii_is_ascii() -> None:
    marks = [ChartMark(612.0, 1)]
    for model in both(
        marks=marks,
        windows=[FaultWindow(640.0, 650.0, "partition", WindowKind.PARTITION)],
        tps_notes=["48 ÷ 2 → x"],
    ):
        assert all(row.isascii() for row in picture(model, ASCII))


# Scales and places


@given(st.floats(1e-3, 9e8), st.integers(2, 60))
def test_a_linear_scale_holds_its_values_and_its_ticks_are_on_rows(greatest: float, rows: int) -> None:
    scale = linear_scale(greatest, rows)
    assert scale.row(0.0) == rows - 1
    assert -0.01 <= scale.row(greatest) <= rows - 1
    assert all(0 <= row < rows and len(label) <= 5 for row, label in scale.ticks)


@given(st.floats(1e-2, 1e6), st.floats(1, 1e6), st.integers(3, 60))
def test_a_log_scale_holds_its_values_and_names_a_tick(least: float, ratio: float, rows: int) -> None:
    scale = log_scale(least, least * ratio, rows)
    assert -0.5 <= scale.row(least * ratio) <= scale.row(least) <= rows - 0.5
    for row, label in scale.ticks:
        value = float(label.replace("k", "e3").replace("M", "e6").replace("G", "e9"))
        assert abs(scale.row(value) - row) < 0.25
        assert len(label) <= 5


@given(st.lists(st.floats(-5, 30), max_size=8), st.integers(8, 20))
def test_labels_never_share_a_row_and_keep_their_order(wanted: list[float], rows: int) -> None:
    placed = spread_rows(wanted, rows)
    assert len(set(placed)) == len(placed)
    assert all(0 <= row < rows for row in placed)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    assert [placed[at] for at in order] == sorted(placed)


def test_labels_that_do_not_collide_stay_where_they_belong() -> None:
    assert spread_rows([1.0, 5.0, 7.0], 9) == [1, 5, 7]
    assert spread_rows([5.0, 5.0], 9) == [5, 6]
    assert spread_rows([8.0, 8.0, 8.0], 9) == [6, 7, 8]


def test_words_of_ticks() -> None:
    assert [tick_text(value) for value in (0, 0.5, 250, 1000, 10_000, 12_500, 2e6)] == [
        "0", "0.5", "250", "1000", "10k", "12.5k", "2M",
    ]  # fmt: skip
    assert [moment(seconds) for seconds in (0, 690, 3599, 3750)] == [
        "00:00",
        "11:30",
        "59:59",
        "1:02:30",
    ]
    assert [label for _, label in time_ticks(630, 750, 0, 58)] == [
        "10:30",
        "11:00",
        "11:30",
        "12:00",
        "12:30",
    ]
    assert [label for _, label in time_ticks(1630, 1750, 1000, 58)] == [
        "10:30",
        "11:00",
        "11:30",
        "12:00",
        "12:30",
    ]


def test_zoom_holds_at_both_ends() -> None:
    assert zoomed(120.0, -1) == 60.0
    assert zoomed(30.0, -1) == 30.0
    assert zoomed(3600.0, 1) == 3600.0


def test_gutters_are_one_width_for_both_charts() -> None:
    assert plot_area(75, 11).width == 57
    assert plot_area(110, 11).gutter == 14


# Rasters


def ink_of(cells: Raster) -> set[tuple[int, int]]:
    return {(x, y) for y, row in enumerate(cells) for x, cell in enumerate(row) if cell is not None}


def random_traces(rng: random.Random, width: int, height: int, glyphs: Glyphs) -> list[Trace]:
    traces = []
    for index in range(rng.randint(1, 4)):
        runs = []
        for _ in range(rng.randint(0, 3)):
            xs = sorted(rng.randrange(width * glyphs.dots_x) for _ in range(rng.randint(1, 12)))
            runs.append(tuple((x, rng.randrange(height * glyphs.dots_y)) for x in xs))
        traces.append(Trace(tuple(runs), rng.random() < 0.7, "tps", "*x+o"[index]))
    return traces


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK, ASCII], ids=lambda glyphs: glyphs.name)
def test_both_rasters_draw_the_same_series(glyphs: Glyphs) -> None:
    rng = random.Random(7)
    for _ in range(60):
        width, height = rng.randint(2, 40), rng.randint(2, 12)
        traces = random_traces(rng, width, height, glyphs)
        theirs, ours = raster(traces, width, height, glyphs), raster_dots(traces, width, height, glyphs)
        inked = ink_of(theirs)
        for trace in traces:
            assert all(
                (x // glyphs.dots_x, y // glyphs.dots_y) in inked for run in trace.runs for x, y in run
            )
        for first, second in ((inked, ink_of(ours)), (ink_of(ours), inked)):
            assert all(
                any((x + dx, y + dy) in second for dx in (-1, 0, 1) for dy in (-1, 0, 1)) for x, y in first
            )


@pytest.mark.parametrize("glyphs", [BRAILLE, BLOCK, ASCII], ids=lambda glyphs: glyphs.name)
def test_level_lines_and_single_dots_are_the_same_cells(glyphs: Glyphs) -> None:
    width, height = 20, 6
    for y in range(height * glyphs.dots_y):
        last = width * glyphs.dots_x - 1
        traces = [
            Trace((((0, y), (last, y)),), True, "tps"),
            Trace((((last // 2, 0),), ((3, height * glyphs.dots_y - 1),)), False, "max", "'"),
        ]
        assert raster(traces, width, height, glyphs) == raster_dots(traces, width, height, glyphs)


def test_the_later_series_colours_a_shared_cell() -> None:
    level = (((0, 2), (39, 2)),)
    cells = raster([Trace(level, True, "p99"), Trace(level, True, "p50")], 20, 3, BRAILLE)
    assert {cell[1] for cell in cells[0] if cell} == {1}


def test_thinning_keeps_the_picture() -> None:
    rng = random.Random(3)
    run = [(at // 20, rng.randrange(40)) for at in range(400)]
    few = thinned(run)
    assert len(few) <= 80
    assert set(trace_dots(Trace((tuple(run),), True, "p"))) == set(trace_dots(Trace((few,), True, "p")))


def test_straightening_keeps_the_picture() -> None:
    rng = random.Random(5)
    for length in (1, 2, 3, 60):
        y = 5
        run = [(at, y := max(0, min(9, y + rng.choice((0, 0, 0, 0, 1, -1))))) for at in range(length)]
        few = straightened(run)
        assert len(few) < len(run) or length <= 3
        assert set(trace_dots(Trace((tuple(run),), True, "p"))) == set(trace_dots(Trace((few,), True, "p")))


@pytest.mark.parametrize(("count", "gaps"), [(601, 0.0), (1500, 0.3), (7200, 0.01), (7200, 1.0)])
def test_an_hour_is_condensed_to_its_outline(count: int, gaps: float) -> None:
    rng = random.Random(count)
    values = [None if rng.random() < gaps else rng.uniform(0, 1e6) for _ in range(count)]
    points = [(float(at), value) for at, value in enumerate(values)]
    few = condensed(points)
    assert len(few) <= 5 * 200
    assert set(few) <= set(points)
    assert (few[0], few[-1]) == (points[0], points[-1])
    known = [value for value in values if value is not None]
    kept = [value for _, value in few if value is not None]
    assert (min(kept, default=None), max(kept, default=None)) == (
        min(known, default=None),
        max(known, default=None),
    )
    assert (None in values) == (None in [value for _, value in few])


def test_a_short_page_is_not_condensed() -> None:
    points = [(float(at), float(at % 7)) for at in range(600)]
    assert condensed(points) == tuple(points)


def test_another_thread_gets_our_own_raster(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [Trace((((0, 0), (9, 9)),), True, "tps")]
    raster(traces, 10, 4, BRAILLE)
    monkeypatch.setattr(chart_module, "_canvas", lambda *_: pytest.fail("plotext from another thread"))
    answers: list[Raster] = []
    thread = threading.Thread(target=lambda: answers.append(raster(traces, 10, 4, BRAILLE)))
    thread.start()
    thread.join()
    assert answers == [raster_dots(traces, 10, 4, BRAILLE)]


def test_our_own_raster_steps_in_for_a_canvas_of_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [Trace((((0, 0), (9, 9)),), True, "tps")]
    monkeypatch.setattr(chart_module, "_canvas", lambda *_: "too\nsmall")
    assert raster(traces, 10, 4, BRAILLE) == raster_dots(traces, 10, 4, BRAILLE)


_FUZZ = """
import math, random, sys
from replexplorer.ui.charts.chart_model import (
    ChartMark, ChartModel, ChartSeries, FaultWindow, Stroke, WindowKind
)
from replexplorer.ui.words.figures import moment
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE
from replexplorer.ui.widgets import chart
from replexplorer.ui.charts.paint import paint_chart
from replexplorer.ui.charts.raster import Trace

def no_fallback(traces, width, height, glyphs):
    if traces:
        raise SystemExit("plotext was given up")
    return [[None] * width for _ in range(height)]

chart.load_plotext()
chart.raster_dots = no_fallback
rng = random.Random(11)
odd = [None, math.nan, math.inf, -math.inf, 0.0, -5.0, 1e-300, 1e300, -1e300]

def value():
    return rng.choice(odd) if rng.random() < 0.2 else 10 ** rng.uniform(-3, 6)

for frame in range(3000):
    glyphs = rng.choice((BRAILLE, BLOCK, ASCII))
    if frame % 3 == 0:
        width, height = rng.randint(1, 40), rng.randint(1, 10)
        dots = [tuple((rng.randint(-99, 999), rng.randint(-99, 999)) for _ in range(rng.randint(1, 9)))]
        chart.raster([Trace(tuple(dots), rng.random() < 0.5, "tps")], width, height, glyphs)
        continue
    width, height = rng.randint(20, 60), rng.randint(2, 9)
    series = tuple(
        ChartSeries(
            tuple((rng.uniform(-50, 150), value()) for _ in range(rng.randint(0, 12))), "tps", ("x",), stroke
        )
        for stroke in rng.choices(tuple(Stroke), k=rng.randint(1, 3))
    )
    model = ChartModel(
        "T", 0.0, 100.0, series=series, log=rng.random() < 0.5,
        marks=(ChartMark(rng.uniform(-9, 120), 3),),
        windows=(FaultWindow(rng.uniform(-9, 120), None, "down", WindowKind.DOWN),),
    )
    grid = paint_chart(model, width, height, glyphs, chart.raster)
    assert len(grid.row(height - 1)) == width
print("drawn")
"""


def test_3000_random_frames_never_end_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FUZZ], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "drawn\n", "")


# Cells


def test_changes_are_the_cells_that_differ() -> None:
    before, after = CellGrid(20, 3), CellGrid(20, 3)
    assert list(after.changes(before)) == []
    after.text(2, 1, "ab", "tps")
    after.text(6, 1, "c", "tps")
    after.text(15, 1, "d", "tps")
    after.tint(0, 2, "faultbg")
    assert list(after.changes(before)) == [(1, 2, 7), (1, 15, 16), (2, 0, 1)]


# The widgets


class _Charts(App[None]):
    CSS = "Chart { height: 12; }"

    def __init__(self, glyphs: Glyphs = BRAILLE) -> None:
        super().__init__()
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield Chart(both()[0], glyphs=self.glyphs, id="tps")


async def test_the_widget_refreshes_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _Charts()
    async with app.run_test(size=(80, 24)) as pilot:
        chart = app.query_one(Chart)
        assert "200 now" in "\n".join(chart.rows)
        asked: list[tuple[Region, ...]] = []
        monkeypatch.setattr(chart, "refresh", lambda *regions, **_: asked.append(regions))
        chart.show(both()[0])
        assert asked == []
        points = [*history(), Point(700.0, 208.0, 220.0)]
        chart.show(chart_models(points, page=PAGE)[0])
        assert len(asked) == 1
        cells = sum(region.area for region in asked[0])
        assert 0 < cells < 30
        await pilot.pause()
        assert "208 now" in "".join(segment.text for y in range(12) for segment in chart.render_line(y))


async def test_the_widget_paints_again_at_another_size() -> None:
    app = _Charts()
    async with app.run_test(size=(80, 24)) as pilot:
        chart = app.query_one(Chart)
        assert {len(row) for row in chart.rows} == {80}
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert {len(row) for row in chart.rows} == {100}


def test_big_digits_as_in_the_design() -> None:
    assert big_rows("529") == ("┏━╸╺━┓┏━┓", "┗━┓┏━┛┗━┫", "╺━┛┗━╸╺━┛")
    for glyphs in (BRAILLE, ASCII):
        for text in ("0123456789", "-", "8.5", "k", "?"):
            rows = big_rows(text, glyphs)
            assert len({len(row) for row in rows}) == 1
            solid = solid_rows(text, glyphs)
            assert len(solid) == 5
            assert len({len(row) for row in solid}) == 1
    assert all(row.isascii() for draw in (big_rows, solid_rows) for row in draw("0123456789.-kM", ASCII))
    assert len({solid_rows(char) for char in "0123456789.-kM"}) == 14


def test_glyphs_are_chosen_by_wish_then_by_terminal() -> None:
    xterm = {"TERM": "xterm-256color"}
    assert choose_glyphs("block", xterm, "utf-8") is BLOCK
    assert choose_glyphs("auto", xterm, "UTF-8") is BRAILLE
    assert choose_glyphs("auto", xterm, "ANSI_X3.4-1968") is ASCII
    assert choose_glyphs("auto", {"TERM": "linux"}, "utf-8") is ASCII
    assert ASCII.text("① 16 → 48 ± 1 …") == "1 16 > 48 ~ 1 ~"
    numbers = [BRAILLE.number(number) for number in (0, 1, 9, 10, 11, 20, 21)]
    assert numbers == ["0", "①", "⑨", "10", "11", "20", "21"]
    assert ASCII.number(7) == "7"


def test_values_that_are_not_finite_are_gaps() -> None:
    points = tuple((600.0 + at, math.nan if at % 2 else 100.0) for at in range(60))
    model = ChartModel("T", *PAGE, series=(ChartSeries(points, "tps", stroke=Stroke.LINE),))
    plotted = "".join(row[7:64] for row in picture(model)[1:10])
    dots = [bin(ord(char) - 0x2800).count("1") for char in plotted if "⠀" < char <= "⣿"]
    assert sum(dots) == 30


def test_an_outage_is_drawn_at_zero_and_labelled_so() -> None:
    scale = log_scale(1.0, 1000.0, 8, has_zero=True)
    assert scale.row(0.0) == 7
    assert [label for row, label in scale.ticks if row == 7] == ["0"]
    others = [tick for tick in scale.ticks if tick[0] != 7]
    assert [float(label) for _, label in others] == [10, 100, 1000]
    assert [row for row, _ in others] == [round(scale.row(float(label))) for _, label in others]
    assert scale.row(1.0) < scale.row(0.5) < 7

"""Charts as text."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise, product, zip_longest
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from textual.geometry import Region

from replexplorer.core.history.series import Point
from replexplorer.core.server.anatomy import Part
from replexplorer.core.server.exposure import Exposure, Unknown
from replexplorer.ui.charts.axes import AxisScale, linear_scale, log_scale, scale_of, spread_rows, time_ticks
from replexplorer.ui.charts.chart_model import (
    ChartMark,
    ChartModel,
    ChartSeries,
    FaultWindow,
    Page,
    Stroke,
    WindowKind,
)
from replexplorer.ui.charts.contents import exposure_chart, latency_chart, tps_chart, zoomed
from replexplorer.ui.charts.paint import BANDS, paint_chart
from replexplorer.ui.style.theme import WINDOW_GROUNDS as GROUNDS
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE, Glyphs, choose_glyphs
from replexplorer.ui.widgets.anatomy import WORDS, bar
from replexplorer.ui.widgets.lines import Chart, Slice
from replexplorer.ui.widgets.strips import block_rows
from replexplorer.ui.words.runs import width_of
from tests.known import known
from tests.typed import table_of
from tests.ui.driving import bench

PAGE = Page(600.0, 720.0)
WIDTH, HEIGHT = 75, 11
MARKS = [ChartMark(612.0, 1)]
WINDOWS = [FaultWindow(640.0, 650.0, "partition", WindowKind.PARTITION)]


def page(**options: object) -> Page:
    return Page(600.0, 720.0, **{name: tuple(value) for name, value in options.items()})  # type: ignore[arg-type]


def points_of(*columns: Sequence[float | None]) -> list[Point]:
    """One each half second from the page's left edge on: TPS, its ceiling, its prediction."""
    rows = zip_longest(*columns, (), ())
    return [Point(600 + at / 2, row[0], row[1], predicted_tps=row[2]) for at, row in enumerate(rows)]


def lines(text: str) -> list[Point]:
    """`60x100 60x-; 120x180`: how many half seconds which TPS, and the same of the ceiling and the
    prediction."""
    columns = list[list[float | None]]()
    for part in text.split(";"):
        columns.append([])
        for count, value in (each.split("x") for each in part.split()):
            columns[-1] += [None if value == "-" else float(value)] * int(count)
    return points_of(*columns)


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
    model: ChartModel, glyphs: Glyphs = BRAILLE, width: int = WIDTH, height: int = HEIGHT, **how: bool
) -> list[str]:
    grid = paint_chart(model, width, height, glyphs, **how)
    return [grid.row(y) for y in range(height)]


def both(**options: object) -> tuple[ChartModel, ChartModel]:
    here = page(**options)
    return tps_chart(here, history()), latency_chart(here, history())


def axis(model: ChartModel) -> AxisScale:
    return known(scale_of(model, HEIGHT - 2))


NUMBERS = [ChartMark(612.0, 1), ChartMark(690.0, 2), ChartMark(705.0, 23), ChartMark(500.0, 9)]
"""The last one came before the page."""
ALONE = [
    FaultWindow(610.0, 650.0, "partition 40 s", WindowKind.PARTITION),
    FaultWindow(672.0, 676.0, "down 4 s", WindowKind.DOWN),
    FaultWindow(697.0, 699.5, "partition 2.5 s", WindowKind.PARTITION),
]
CAUSED = [
    FaultWindow(610.0, 650.0, "partition both 40.0 s", WindowKind.PARTITION, "partition both"),
    FaultWindow(611.0, 621.0, "blocked 10.0 s", WindowKind.BLOCKED, "blocked"),
    FaultWindow(621.0, 655.0, "degraded 34.0 s", WindowKind.DEGRADED, "degraded"),
]
OPEN = FaultWindow(690.0, None, "partition", WindowKind.PARTITION)
HALF_UNKNOWN = ChartSeries(
    tuple((600.0 + at, math.nan if at % 2 else 100.0) for at in range(60)), "tps", stroke=Stroke.LINE
)
TWO_SPIKES = [
    Point(at / 2, p50_ms=5000.0 if at == 5000 else 1.0 if at == 700 else 100.0) for at in range(7200)
]
LINES = """\
unknown is a gap                     | linear | 60x100 60x- 80x100
zero is a line                       | linear | 60x100 60x0 80x100
logarithmic on demand                | log    | 200x500
an outage, a ramp and a reset on an axis that fits | log | 60x16 20x0 1x0.4 40x2000 60x80
a ceiling far above is an arrow      | linear | 100x215 6x1700 94x160; 200x5225
and so on a logarithmic axis         | log    | 100x215 6x1700 94x160; 200x5225
a ceiling that is near has no arrow  | linear | 200x100; 200x180
a level runs on to its label, a prediction along the curve | linear | 100x76; 50x90 20x- 30x90; 100x76.2
"""
PICTURES = {
    "TPS with a gap, its area tinted": replace(both()[0], notes=("ceiling 16 ÷ (24.0 + 1.0 ms) = 640/s",)),
    "latency with a gap": both()[1],
    "no sample": tps_chart(PAGE, []),
    "a sample without a figure": tps_chart(PAGE, [Point(600.0)]),
    "a load that has measured nothing has no figure of now": tps_chart(PAGE, [Point(600.0), Point(601.0)]),
    "what is not finite is a gap": ChartModel("T", PAGE, (HALF_UNKNOWN,)),
    "marks": both(marks=NUMBERS)[0],
    "marks stand in the same columns of the other chart": both(marks=NUMBERS)[1],
    "windows with their word inside or beside": both(windows=ALONE)[0],
    "what a window brought lies under it": both(windows=CAUSED)[0],
    "an open window reaches to the newest sample": both(windows=[OPEN])[1],
    "one slow half second of an hour and one fast": latency_chart(Page(0.0, 3600.0), TWO_SPIKES),
    **{name: tps_chart(PAGE, lines(told), log=axis == "log") for name, axis, told in table_of(LINES)},
}


def layer(cells: list[list[str]]) -> list[str]:
    """What each cell has of a kind, as a letter, after what the letters say."""
    letters = dict(zip(dict.fromkeys(name for row in cells for name in row), ascii_letters, strict=False))
    rows = ["".join(letters[name] for name in row) for row in cells]
    return [", ".join(f"{letter} {name}" for name, letter in letters.items()), *rows]


@pytest.mark.parametrize("name", PICTURES)
def test_a_chart(name: str, snapshot: SnapshotAssertion) -> None:
    """In braille, with its inks and grounds; with glyphs in place of tints; in ASCII; in blocks."""
    model = PICTURES[name]
    grid = paint_chart(model, WIDTH, HEIGHT, BRAILLE)
    pages = [*picture(model), *layer(grid.inks), *layer(grid.grounds)]
    shaded = paint_chart(model, WIDTH, HEIGHT, BRAILLE, shades=True)
    assert not {*GROUNDS} & {*chain(*shaded.grounds)}
    if shaded.chars != grid.chars:
        pages += picture(model, shades=True)
    assert "\n".join([*pages, *picture(model, ASCII), *picture(model, BLOCK)]) == snapshot


def test_a_chart_of_every_size(snapshot: SnapshotAssertion) -> None:
    levels = tps_chart(page(marks=MARKS, windows=WINDOWS), lines("200x8888; 200x8888; 200x8888"))
    pages = list[str]()
    for size in ((1, 1), (10, 3), (29, 11), (30, 4), (31, 5), (112, 11), (200, 60)):
        for model, glyphs in product((*both(marks=MARKS, windows=WINDOWS), levels), (BLOCK, ASCII, BRAILLE)):
            rows = picture(model, glyphs, *size)
            assert [len(row) for row in rows] == [size[0]] * size[1]
        pages += rows
    assert "\n".join(pages) == snapshot


@pytest.mark.parametrize("width", [30, 58, 62, 75, 89, 90, 91, 112, 116, 160])
@pytest.mark.parametrize("value", [0.0, 11.6, 123.4, 91_700.0, 1e9])
def test_labels_keep_off_the_edge_the_axis_and_the_title(value: float, width: int) -> None:
    """With marks at both ends of the page and windows whose words are longer than they are."""
    figures = [value, 40 * value, *[value] * 10]
    points = [Point._make([600 + at / 2, *figures, 200, ()]) for at in range(240)]
    unknown = Unknown("", int(value))
    marks = [ChartMark(600 + at, 10 + at) for at in (*range(20), *range(100, 120))]
    here, busy = page(), page(marks=marks, windows=[*ALONE, *CAUSED, OPEN])
    exposed = exposure_chart(busy, points, Exposure(unknown, unknown, unknown))
    for model in (tps_chart(busy, points), latency_chart(busy, points), exposed):
        for height in (4, 8, 14):
            title, *_ = picture(replace(model, page=here, series=()), BRAILLE, width, height)
            same, *rows = picture(model, BRAILLE, width, height)
            assert title == same
            assert all(row.endswith(" ") for row in rows)
            assert all(row[6] in "│┤" for row in rows[:-1])


@pytest.mark.parametrize("glyphs", [BRAILLE, ASCII], ids=lambda glyphs: glyphs.name)
def test_numbers_of_marks_never_run_into_one_another(glyphs: Glyphs, snapshot: SnapshotAssertion) -> None:
    """The newer one of two that are too near stays, and the line of the other."""
    pages = []
    for older, newer in ((14, 15), (9, 10), (3, 4)):
        for columns in range(4):
            marks = [ChartMark(650.0, older), ChartMark(650.0 + columns * 120 / 56, newer)]
            pages += picture(both(marks=marks)[0], glyphs)[1:3]
    assert "\n".join(pages) == snapshot


def test_every_kind_of_window_has_colours_and_a_glyph_of_its_own() -> None:
    for signs in (
        [f"{ink} {ground}" for ink, ground, _ in BANDS.values()],
        *([glyphs.text(shade) for *_, shade in BANDS.values()] for glyphs in (BRAILLE, ASCII)),
    ):
        assert len(set(signs)) == len(WindowKind)


# Scales and places


@given(st.floats(1e-2, 1e4), st.floats(0.0, 5.0), st.integers(6, 60), st.booleans())
def test_a_scale_holds_its_values_and_its_ticks_rise_apart_on_rows(
    least: float, decades: float, rows: int, has_zero: bool
) -> None:
    greatest = least * 10**decades
    suffixes = str.maketrans({"k": "e3", "M": "e6", "G": "e9"})
    logarithmic, linear = log_scale(least, greatest, rows, has_zero=has_zero), linear_scale(greatest, rows)
    assert linear.row(0.0) == rows - 1
    for scale, lowest in ((logarithmic, least), (linear, 0.0)):
        assert -0.5 <= scale.row(greatest) <= scale.row(lowest) <= rows - 0.5
        figures = [float(label.translate(suffixes)) for _, label in scale.ticks]
        assert len(figures) >= 2
        assert figures == sorted(set(figures))
        assert all(low - high >= 2 for (low, _), (high, _) in pairwise(scale.ticks))
        for (row, label), figure in zip(scale.ticks, figures, strict=True):
            assert 0 <= row < rows
            assert len(label) <= 5
            assert abs(scale.row(figure) - row) < 0.25


@given(st.lists(st.floats(-5, 30), max_size=8), st.integers(8, 20))
def test_labels_never_share_a_row_and_keep_their_order(wanted: list[float], rows: int) -> None:
    placed = spread_rows(wanted, rows)
    assert len(set(placed)) == len(placed)
    assert all(0 <= row < rows for row in placed)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    assert [placed[at] for at in order] == sorted(placed)


def test_times_stand_at_the_same_places_wherever_a_session_began() -> None:
    for page in (Page(630, 750), Page(1630, 1750, 1000)):
        assert [label for _, label in time_ticks(page, 58)] == ["10:30", "11:00", "11:30", "12:00", "12:30"]


@pytest.mark.parametrize("most", [0, 1, 2, 7])
def test_few_commits_at_risk_have_no_fractions_on_their_axis(most: int) -> None:
    points = [Point(600 + at / 2, process_dies=0, power_cut=most) for at in range(10)]
    labels = [label for _, label in axis(exposure_chart(PAGE, points, None)).ticks]
    assert labels[0] == "0"
    assert all(label.isdigit() for label in labels)


def test_zoom_holds_at_both_ends() -> None:
    assert zoomed(120.0, -1) == 60.0
    assert zoomed(30.0, -1) == 30.0
    assert zoomed(3600.0, 1) == 3600.0


_FUZZ = """
import math, random, sys
from replexplorer.ui.charts.chart_model import (
    ChartMark, ChartModel, ChartSeries, FaultWindow, Page, Stroke, WindowKind
)
from replexplorer.ui.terminal.glyphs import ASCII, BLOCK, BRAILLE
from replexplorer.ui.charts.paint import paint_chart

rng = random.Random(11)
odd = [None, math.nan, math.inf, -math.inf, 0.0, -5.0, 1e-300, 1e300, -1e300]

def value():
    return rng.choice(odd) if rng.random() < 0.2 else 10 ** rng.uniform(-3, 6)

for frame in range(int(sys.argv[1])):
    glyphs = rng.choice((BRAILLE, BLOCK, ASCII))
    width, height = rng.randint(20, 60), rng.randint(2, 9)
    series = tuple(
        ChartSeries(
            tuple((rng.uniform(-50, 150), value()) for _ in range(rng.randint(0, 12))),
            "tps", ("x",), stroke, rng.choice(("", "tpsfill")),
        )
        for stroke in rng.choices(tuple(Stroke), k=rng.randint(1, 3))
    )
    page = Page(
        0.0, 100.0, 0.0, (ChartMark(rng.uniform(-9, 120), 3),),
        (FaultWindow(rng.uniform(-9, 120), None, "down", WindowKind.DOWN),),
    )
    grid = paint_chart(ChartModel("T", page, series, log=rng.random() < 0.5), width, height, glyphs)
    assert len(grid.row(height - 1)) == width
print("drawn")
"""


def test_random_frames_never_end_the_process(in_full: bool) -> None:
    frames = "3000" if in_full else "300"
    done = subprocess.run(
        [sys.executable, "-c", _FUZZ, frames], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "drawn\n", "")


# The widgets


async def test_the_widget_refreshes_only_what_changed_and_paints_again_at_another_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench() as app:
        chart = app.dashboard.query_one("#tps-chart", Chart)
        chart.show(both()[0])
        asked: list[tuple[Region, ...]] = []
        with monkeypatch.context() as patched:
            patched.setattr(Slice, "refresh", lambda _, *regions, **__: asked.append(regions))
            chart.show(both()[0])
            assert asked == []
            chart.show(tps_chart(PAGE, [*history(), Point(700.0, 208.0, 220.0)]))
        assert 0 < sum(region.area for regions in asked for region in regions) < 40
        rows = range(chart.size.height)
        drawn = ["".join(part.render_line(y).text for part in chart.query(Slice)) for y in rows]
        assert drawn == [chart.render_line(y).text for y in rows]
        assert "208 now" in "".join(drawn)
        await app.pilot.resize_terminal(130, 40)
        await app.press()
        assert {len(row) for row in chart.rows} == {chart.size.width}


def test_big_digits_as_in_the_design(snapshot: SnapshotAssertion) -> None:
    pages = list[str]()
    for glyphs, scale in product((BRAILLE, ASCII), (1, 2)):
        pages += block_rows("0123456789.-kM?", glyphs, scale=scale)
    assert "\n".join(pages) == snapshot


def test_glyphs_are_chosen_by_wish_then_by_terminal() -> None:
    xterm = {"TERM": "xterm-256color"}
    assert choose_glyphs("block", xterm, "utf-8") is BLOCK
    assert choose_glyphs("auto", xterm, "UTF-8") is BRAILLE
    assert choose_glyphs("auto", xterm, "ANSI_X3.4-1968") is ASCII
    assert choose_glyphs("auto", {"TERM": "linux"}, "utf-8") is ASCII
    assert ASCII.text("① 16 → 48 ± 1 …") == "1 16 > 48 ~ 1 ~"


# What an axis holds, and levels


@given(
    st.lists(st.one_of(st.none(), st.just(0.0), st.floats(0.01, 1e5)), min_size=1, max_size=60),
    st.lists(st.one_of(st.none(), st.floats(0.01, 1e5)), max_size=60),
    st.booleans(),
)
def test_every_measured_value_is_on_the_axis(
    tps: list[float | None], ceiling: list[float | None], log: bool
) -> None:
    model = tps_chart(PAGE, points_of(tps, ceiling), log=log)
    scale = scale_of(model, HEIGHT - 2)
    measured = [value for value in tps if value is not None]
    assert scale is not None or not measured
    assert all(scale is not None and scale.side(value) == 0 for value in measured)
    picture(model)


@given(st.lists(st.floats(0.0, 1e4), min_size=30, max_size=100))
def test_an_axis_widens_within_a_page_and_does_not_swing(values: list[float]) -> None:
    """No scale comes back after another one, however the page goes on."""
    points = points_of(values)
    seen: list[AxisScale] = []
    for length in range(25, len(points) + 1):
        scale = axis(tps_chart(PAGE, points[:length]))
        if not seen or seen[-1] != scale:
            seen.append(scale)
    assert len(seen) == len(set(seen))


# The mean commit's parts as a bar, and what is said beside it


@given(
    st.dictionaries(st.sampled_from(list(Part)), st.floats(0, 5000)),
    st.integers(1, 150),
    st.booleans(),
)
def test_a_bar_fills_its_width_and_names_no_part_that_is_not_there(
    parts: dict[Part, float], width: int, tones: bool
) -> None:
    runs = bar(parts, width, tones=tones)
    assert width_of(runs) == (width if sum(parts.values()) > 0 else 0)
    there = {part.value for part, ms in parts.items() if ms > 0}
    if tones:
        assert {word for _, words in runs for word in words.split()} <= there | {"oncolor", "on", "b"}
    assert all(text.isascii() for text, _ in runs)


def test_the_scale_is_true_to_half_a_cell() -> None:
    """10.25 of 20 cells, whatever else is in the bar, and nothing for what is too short."""
    runs = bar({Part.ACK: 10.25, Part.ENGINE: 9.745, Part.OTHER: 0.005}, 20, tones=True)
    assert sum(len(text) for text, words in runs if words.startswith("oncolor on ack")) == 10
    assert "other" not in "".join(words for _, words in runs)


def test_without_colours_each_part_has_its_own_character() -> None:
    assert len({words.pattern for words in WORDS.values()}) == len(Part)

"""Paints one chart into cells: title rule, axes, tints, series, marks, words and gutter labels.

Law: every painter reads the model and writes the grid; what is drawn later lies above. Columns
of marks depend on the page and the width only, so that two charts of one width agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from replexplorer.ui.charts.axes import (
    AxisScale,
    column,
    linear_scale,
    log_scale,
    spread_rows,
    time_ticks,
)
from replexplorer.ui.charts.cells import CellGrid, Plot
from replexplorer.ui.charts.chart_model import (
    ChartModel,
    ChartSeries,
    FaultWindow,
    Stroke,
    WindowKind,
)
from replexplorer.ui.charts.density import LEGEND_CELLS, paint_density
from replexplorer.ui.charts.levels import Cells, level_cells, levels_of, paint_arrows
from replexplorer.ui.charts.limits import Limits, finite, limits_of
from replexplorer.ui.charts.raster import Raster, Trace, traces_of
from replexplorer.ui.terminal.glyphs import Glyphs

Rasterizer = Callable[[Sequence[Trace], int, int, Glyphs], Raster]
"""Draws traces on a canvas of this many cells."""

LEFT_CELLS: Final = 7
"""Tick labels and the axis."""
GUTTER_CELLS: Final = 11
WIDE_GUTTER_CELLS: Final = 14
_WIDE_FROM: Final = 90
BAND_INKS: Final = {
    WindowKind.PARTITION: ("partitioned", "partitionbg"),
    WindowKind.BLOCKED: ("blocked", "blockedbg"),
    WindowKind.DEGRADED: ("degraded", "degradedbg"),
    WindowKind.DOWN: ("down", "downbg"),
    WindowKind.RESTART: ("restart", "restartbg"),
    WindowKind.DROPPED: ("warn", "faultbg"),
    WindowKind.FAULT: ("fault", "faultbg"),
}
"""Theme tokens of a window's word and ground."""
_CAUSES: Final = frozenset({WindowKind.PARTITION, WindowKind.FAULT, WindowKind.DROPPED})
"""Windows that others may lie over."""
_CAUSE_ROWS: Final = 2
"""Upper rows that a cause keeps under a state's window: one for the marks' numbers, one for its word."""
_LEAST_WIDTH: Final = 30
_LEAST_HEIGHT: Final = 4


def plot_area(width: int, height: int) -> Plot:
    """The plot's place in a widget of this size: a rule above, the time axis below, gutters beside."""
    gutter = WIDE_GUTTER_CELLS if width >= _WIDE_FROM else GUTTER_CELLS
    return Plot(LEFT_CELLS, 1, width - LEFT_CELLS - gutter, height - 2, gutter)


def paint_chart(
    model: ChartModel,
    width: int,
    height: int,
    glyphs: Glyphs,
    rasterize: Rasterizer,
    *,
    shades: bool = False,
    tones: bool = True,
) -> CellGrid:
    """The whole chart; `shades` draws tints with a glyph and `tones=False` a density with characters,
    for terminals without the colours."""
    grid = CellGrid(width, height)
    _title(grid, model, glyphs)
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return grid
    plot = plot_area(width, height)
    limits = limits_of(model)
    scale = scale_of(model, limits, plot.height)
    _axes(grid, plot, model, scale if limits else None, glyphs)
    _windows(grid, plot, model, glyphs, shades=shades or glyphs.ascii)
    raster: Raster = []
    levels = levels_of(model, scale, plot.width, glyphs) if limits else []
    if limits and model.density:
        raster = paint_density(grid, plot, model, scale, glyphs, tones=tones and not glyphs.ascii)
    elif limits:
        traces = traces_of(model, scale, plot.width, glyphs)
        raster = rasterize(traces, plot.width, plot.height, glyphs)
        _fills(grid, plot, model, traces, raster)
        _series(grid, plot, model, traces, raster, level_cells(levels, plot, glyphs), glyphs)
    taken = _marks(grid, plot, model, raster, glyphs)
    paint_arrows(grid, plot, levels, raster, glyphs, taken)
    _words(grid, plot, model, raster, glyphs)
    if limits:
        _labels(grid, plot, model, scale, glyphs)
    else:
        grid.text(
            plot.x + max(0, (plot.width - len(model.empty)) // 2),
            plot.y + plot.height // 2,
            model.empty,
            "muted",
        )
    return grid


def scale_of(model: ChartModel, limits: Limits | None, rows: int) -> AxisScale:
    """The value axis that the model's values need."""
    if limits is None:
        return linear_scale(1.0, rows)
    if not model.log:
        return linear_scale(limits.greatest, rows)
    return log_scale(limits.least, limits.greatest, rows, has_zero=limits.has_zero)


def _title(grid: CellGrid, model: ChartModel, glyphs: Glyphs) -> None:
    """`- TPS commits/s ------- note -`."""
    for x in range(grid.width):
        grid.put(x, 0, glyphs.rule, "rule")
    grid.text(1, 0, f" {model.title} ", "title", strong=True)
    at = 3 + len(model.title)
    end = grid.width - (LEGEND_CELLS if model.density else 0)
    subtitle, note = _fitting(model, end - at - 5)
    if subtitle:
        grid.text(at, 0, glyphs.text(subtitle) + " ", "muted")
        at += len(subtitle) + 1
    room = end - at - 4
    note = glyphs.text(note)
    if note and room > len(glyphs.ellipsis) + 8:
        note = note if len(note) <= room else note[: room - 1] + glyphs.ellipsis
        grid.text(end - len(note) - 3, 0, f" {note} ", model.note_ink)


def _fitting(model: ChartModel, room: int) -> tuple[str, str]:
    """The longest note that fits, beside the longest subtitle that fits with it; of several notes
    that are all too long the last one, which is then cut."""
    notes = (model.note, *model.shorter_notes)
    for note in notes:
        for subtitle in dict.fromkeys((model.subtitle, model.short_subtitle or model.subtitle)):
            if len(subtitle) + len(note) <= room:
                return subtitle, note
    return model.short_subtitle or model.subtitle, notes[-1]


def _axes(grid: CellGrid, plot: Plot, model: ChartModel, scale: AxisScale | None, glyphs: Glyphs) -> None:
    """Both axes with their labels, and the grid lines at the ticks."""
    for y in range(plot.height):
        grid.put(plot.x - 1, plot.y + y, glyphs.axis, "axis")
    for row, label in scale.ticks if scale else ():
        grid.text(plot.x - 1 - len(label), plot.y + row, label, "muted")
        grid.put(plot.x - 1, plot.y + row, glyphs.tick, "axis")
        for x in range(plot.width):
            if not glyphs.ascii or x % 3 == 0:
                grid.put(plot.x + x, plot.y + row, glyphs.grid, "grid")
    bottom = plot.y + plot.height
    grid.put(plot.x - 1, bottom, glyphs.corner, "axis")
    for x in range(plot.width):
        grid.put(plot.x + x, bottom, glyphs.rule, "axis")
    for middle, label in time_ticks(model.start_s, model.end_s, model.origin_s, plot.width):
        start = middle - len(label) // 2 - 1
        if start >= 0 and start + len(label) + 2 <= plot.width:
            grid.text(plot.x + start, bottom, f" {label} ", "muted")


def _windows(grid: CellGrid, plot: Plot, model: ChartModel, glyphs: Glyphs, *, shades: bool) -> None:
    """Tint the columns under a fault; a state's window leaves its cause the upper rows."""
    caused: set[int] = set()
    for window in sorted(model.windows, key=lambda one: one.kind not in _CAUSES):
        start, end = _columns(window, model, plot.width)
        word, ground = BAND_INKS[window.kind]
        for x in range(start, end):
            top = min(_CAUSE_ROWS, plot.height // 2) if x in caused and window.kind not in _CAUSES else 0
            for y in range(plot.y + top, plot.y + plot.height):
                if shades:
                    grid.put(plot.x + x, y, glyphs.shades[window.kind], "faint")
                else:
                    grid.put(plot.x + x, y, " ", word)
                    grid.tint(plot.x + x, y, ground)
        if window.kind in _CAUSES:
            caused.update(range(start, end))


def _columns(window: FaultWindow, model: ChartModel, width: int) -> tuple[int, int]:
    """First column of a window and the one after its last; equal when it is off the page."""
    until = model.newest_s if window.end_s is None else window.end_s
    if until < model.start_s or window.start_s > model.end_s:
        return 0, 0
    start = max(0, min(width - 1, column(window.start_s, model.start_s, model.end_s, width)))
    end = column(until, model.start_s, model.end_s, width) + (window.end_s is None)
    return start, max(start + 1, min(width, end))


def _fills(grid: CellGrid, plot: Plot, model: ChartModel, traces: Sequence[Trace], raster: Raster) -> None:
    """Tint what lies under a series."""
    fills = {one.ink: one.fill for one in model.series if one.fill}
    for index, trace in enumerate(traces):
        tint = fills.get(trace.ink)
        if not tint:
            continue
        for x in range(plot.width):
            inked = [y for y in range(plot.height) if (cell := raster[y][x]) is not None and cell[1] == index]
            for y in range(inked[-1] + 1 if inked else plot.height, plot.height):
                if grid.inks[plot.y + y][plot.x + x].ground == "bg":
                    grid.tint(plot.x + x, plot.y + y, tint)


def _series(
    grid: CellGrid,
    plot: Plot,
    model: ChartModel,
    traces: Sequence[Trace],
    raster: Raster,
    levels: Cells,
    glyphs: Glyphs,
) -> None:
    """The levels, and above them what the raster drew. In braille a cell shows the dots of both in the
    curve's ink; a dotted level has every third one, so that along the curve it is seen as one line."""
    dotted = {one.ink for one in model.series if one.stroke is Stroke.BEADS}
    for (x, y), (char, token) in levels.items():
        grid.put(plot.x + x, plot.y + y, char, token)
    for y, cells in enumerate(raster):
        for x, cell in enumerate(cells):
            if cell is None:
                continue
            char, token = cell[0], traces[cell[1]].ink
            if glyphs.dots_y == 4 and (level := levels.get((x, y))) is not None:
                char, token = (
                    chr(ord(char) | ord(level[0])),
                    level[1] if x % 3 == 0 and level[1] in dotted else token,
                )
            grid.put(plot.x + x, plot.y + y, char, token)


def _marks(
    grid: CellGrid, plot: Plot, model: ChartModel, raster: Raster, glyphs: Glyphs
) -> set[tuple[int, int]]:
    """Dashed verticals behind the series, with their numbers in the first row that hides nothing;
    answers the numbers' cells in the plot. Of numbers that would run into each other the newest stays:
    `14` and `15` side by side are no `115`."""
    numbers: dict[tuple[int, int], str] = {}
    for mark in sorted(model.marks, key=lambda mark: (mark.at_s, mark.number), reverse=True):
        x = column(mark.at_s, model.start_s, model.end_s, plot.width)
        if not 0 <= x < plot.width:
            continue
        number = glyphs.number(mark.number)
        start = min(x, plot.width - len(number))
        end = start + len(number)
        top = next((y for y in range(plot.height) if not _inked(raster, y, start, end)), 0)
        gap = 0 if len(number) == 1 else 1
        beside = [(at, top) for at in (start - 1, end) if numbers.get((at, top), "").isascii()]
        near = [(at, top) for at in range(start - gap, end + gap)] + beside
        is_shown = not any(cell in numbers for cell in near)
        for y in range(top + is_shown, plot.height):
            if not raster or raster[y][x] is None:
                grid.put(plot.x + x, plot.y + y, glyphs.mark, "mark")
        if is_shown:
            numbers |= {(at, top): char for at, char in zip(range(start, end), number, strict=True)}
    for (at, top), char in numbers.items():
        grid.put(plot.x + at, plot.y + top, char, "mark")
    return set(numbers)


def _words(grid: CellGrid, plot: Plot, model: ChartModel, raster: Raster, glyphs: Glyphs) -> None:
    """The word of each window, inside when it fits, else beside it, in the first row that is free.

    A window that lasts grows into the room after it: its word stands there from the start. A state's word
    stands below its cause's.
    """
    taken: set[tuple[int, int]] = set()
    caused: set[int] = set()
    for window in sorted(model.windows, key=lambda one: one.kind not in _CAUSES):
        start, end = _columns(window, model, plot.width)
        if window.kind in _CAUSES:
            caused.update(range(start, end))
        if not window.word or start == end or plot.height < 2:
            continue
        x, text = _placed(window, start, end, plot.width, glyphs)
        columns = range(x - 1, x + len(text) + 1)  # with a blank between two words of a row
        is_below = window.kind not in _CAUSES and not caused.isdisjoint(range(start, end))
        rows = range(min(_CAUSE_ROWS if is_below else 1, plot.height - 1), plot.height)
        apart = [y for y in rows if taken.isdisjoint((y, at) for at in columns)]
        free = [y for y in apart if not _inked(raster, y, x, x + len(text))]
        row = next(iter([*free, *apart, rows[0]]))
        taken |= {(row, at) for at in columns}
        grid.text(plot.x + x, plot.y + row, text, BAND_INKS[window.kind][0], strong=True)


def _placed(window: FaultWindow, start: int, end: int, width: int, glyphs: Glyphs) -> tuple[int, str]:
    """First column and text of a window's word."""
    word = glyphs.text(window.word)
    room = (width if window.end_s is None else end) - start
    for inside in (word, glyphs.text(window.short)):
        if inside and len(inside) + 2 <= room:
            return start + 1, inside
    beside = f"{glyphs.before}{word}"
    if end + len(beside) <= width:
        return end, beside
    text = f"{word}{glyphs.after}"
    return max(0, start - len(text)), text


def _inked(raster: Raster, y: int, start: int, end: int) -> bool:
    """Whether a series is drawn anywhere in a stretch of a row."""
    return bool(raster) and any(cell is not None for cell in raster[y][start:end])


def _labels(grid: CellGrid, plot: Plot, model: ChartModel, scale: AxisScale, glyphs: Glyphs) -> None:
    """Labels at the ends of the series in the order of their values, moved apart where they would
    collide; an arrow before those whose value is off scale. A shorter word is taken where
    the longer one touches the right edge."""
    labelled = [one for one in model.series if one.labels]
    ends = [_last_known(one) for one in labelled]
    wanted = [scale.rows - 1.0 if end is None else scale.row(end) for end in ends]
    room = plot.gutter - 1
    for one, end, row in zip(labelled, ends, spread_rows(wanted, plot.height), strict=True):
        fitting = (text for cells in (room - 1, room) for text in one.labels[:-1] if len(text) <= cells)
        label = next(fitting, one.labels[-1])
        if not 0 <= row < plot.height:
            continue
        x, y = plot.x + plot.width, plot.y + row
        grid.text(x + 1, y, glyphs.text(label)[:room], one.ink, strong=one.strong)
        if side := 0 if end is None else scale.side(end):
            grid.put(x, y, glyphs.up if side > 0 else glyphs.down, one.ink, strong=one.strong)


def _last_known(series: ChartSeries) -> float | None:
    """The last value of a series that can be drawn."""
    return next(reversed(finite(series.points)), None)

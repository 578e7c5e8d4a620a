"""Paints one chart into cells: title rule, axes, tints, series, marks, words and gutter labels.

Law: every painter reads the model and writes the grid; what is drawn later lies above. Columns
of marks depend on the page and the width only, so that two charts of one width agree. Of a density a
cell with any commit is visible, however few they are: one stalled commit stands beside a million others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from replexplorer.core.stats.histogram import band_ms, columns_of
from replexplorer.core.text import printable
from replexplorer.ui.charts.axes import AxisScale, column, scale_of, spread_rows, tick_text, time_ticks
from replexplorer.ui.charts.chart_model import ChartModel, FaultWindow, WindowKind
from replexplorer.ui.charts.raster import MOST_CELLS, rasterized, traces_of
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Run

LEFT_CELLS: Final = 7
"""Tick labels and the axis."""
GUTTER_CELLS: Final = 12
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
_CAUSE_ROWS: Final = 2
"""Upper rows that a cause keeps under a state's window: one for the marks' numbers, one for its word."""
_LEAST_WIDTH: Final = 30
_LEAST_HEIGHT: Final = 4
SHADES: Final = 5
"""Steps from few to many: `heat1` to `heat5`."""
_STEPS_A_DECADE: Final = 2
LEGEND_CELLS: Final = 19
"""Room for the legend at the right end of the title."""
_UPPER: Final = "▀"
_LOWER: Final = "▄"


class Plot(NamedTuple):
    """Where the plot lies in the widget, in cells."""

    x: int
    y: int
    width: int
    height: int
    gutter: int
    """Columns to its right, for labels."""


class CellGrid:
    """Rows of cells, each a character with the theme tokens of its ink and its ground; writes outside of the
    plot or the grid are left out."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.chars = [[" "] * width for _ in range(height)]
        self.inks = [["text"] * width for _ in range(height)]
        self.grounds = [["bg"] * width for _ in range(height)]

    def put(self, x: int, y: int, char: str, ink: str, ground: str = "") -> None:
        """Draw a character; without a ground on that which is there."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self.chars[y][x], self.inks[y][x] = char, ink
            if ground:
                self.grounds[y][x] = ground

    def text(self, x: int, y: int, text: str, ink: str) -> None:
        """Draw a text from a cell on, without what a terminal obeys."""
        for at, char in enumerate(printable(text)):
            self.put(x + at, y, char, ink)

    def row(self, y: int) -> str:
        """The characters of a row."""
        return "".join(self.chars[y])

    def runs(self, y: int) -> list[Run]:
        """A row as texts of one style each; a blank is of the ink before it on the same ground."""
        runs: list[Run] = []
        text, last, under = "", self.inks[y][0], self.grounds[y][0]
        for char, ink, ground in zip(self.chars[y], self.inks[y], self.grounds[y], strict=True):
            if ground != under or (ink != last and char != " "):
                runs.append((text, f"{last} on {under}"))
                text, last, under = "", ink, ground
            text += char
        return [*runs, (text, f"{last} on {under}")]


def plot_area(width: int, height: int) -> Plot:
    """The plot's place in a widget of this size: a rule above, the time axis below, gutters beside."""
    gutter = WIDE_GUTTER_CELLS if width >= _WIDE_FROM else GUTTER_CELLS
    return Plot(
        LEFT_CELLS, 1, min(MOST_CELLS, width - LEFT_CELLS - gutter), min(MOST_CELLS, height - 2), gutter
    )


def paint_chart(
    model: ChartModel, width: int, height: int, glyphs: Glyphs, *, shades: bool = False, tones: bool = True
) -> CellGrid:
    """The whole chart; `shades` draws tints with a glyph and `tones=False` a density with characters,
    for terminals without the colors."""
    painter = _Painter(model, width, height, glyphs)
    painter.title()
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return painter.grid
    painter.axes()
    painter.windows(shades=shades or glyphs.ascii)
    if painter.scale is not None and model.density:
        painter.drawn = paint_density(
            painter.grid, painter.plot, model, painter.scale, glyphs, tones=tones and not glyphs.ascii
        )
    elif painter.scale is not None:
        painter.series(painter.scale)
    painter.marks()
    painter.words()
    painter.labels()
    return painter.grid


class _Painter:
    """One chart under way."""

    def __init__(self, model: ChartModel, width: int, height: int, glyphs: Glyphs) -> None:
        self.model, self.page, self.glyphs = model, model.page, glyphs
        self.grid = CellGrid(width, height)
        self.plot = plot_area(width, height)
        self.scale: AxisScale | None = scale_of(model, self.plot.height) if self.plot.height > 1 else None
        self.drawn: set[tuple[int, int]] = set()
        """Cells of the plot in which commits or lines are seen."""
        self._taken: set[tuple[int, int]] = set()

    def title(self) -> None:
        """`- TPS commits/s ------- note -`: the longest note that fits, beside the longest subtitle that fits
        with it; the last note is cut."""
        model, grid, glyphs = self.model, self.grid, self.glyphs
        grid.text(0, 0, glyphs.rule * grid.width, "rule")
        grid.text(1, 0, f" {model.title} ", "title b")
        at = 3 + len(model.title)
        end = grid.width - (LEGEND_CELLS if model.density else 0)
        notes = model.notes or ("",)
        pairs = [(subtitle, note) for note in notes for subtitle in model.subtitles]
        fits = (pair for pair in pairs if sum(map(len, pair)) <= end - at - 5)
        subtitle, note = next(fits, (model.subtitles[-1], notes[-1]))
        if subtitle:
            grid.text(at, 0, glyphs.text(subtitle) + " ", "muted")
            at += len(subtitle) + 1
        room = end - at - 4
        if note and room > len(glyphs.ellipsis) + 8:
            note = glyphs.text(note)
            note = note if len(note) <= room else note[: room - 1] + glyphs.ellipsis
            grid.text(end - len(note) - 3, 0, f" {note} ", model.note_ink)

    def axes(self) -> None:
        """Both axes with their labels, and the grid lines at the ticks."""
        grid, plot, glyphs = self.grid, self.plot, self.glyphs
        for y in range(plot.height):
            grid.put(plot.x - 1, plot.y + y, glyphs.axis, "axis")
        for row, label in self.scale.ticks if self.scale else ():
            grid.text(plot.x - 1 - len(label), plot.y + row, label, "muted")
            grid.put(plot.x - 1, plot.y + row, glyphs.tick, "axis")
            for x in range(0, plot.width, 3 if glyphs.ascii else 1):
                grid.put(plot.x + x, plot.y + row, glyphs.grid, "grid")
        bottom = plot.y + plot.height
        grid.text(plot.x - 1, bottom, glyphs.corner + glyphs.rule * plot.width, "axis")
        for middle, label in time_ticks(self.page, plot.width):
            start = middle - len(label) // 2 - 1
            if start >= 0 and start + len(label) + 2 <= plot.width:
                grid.text(plot.x + start, bottom, f" {label} ", "muted")

    def windows(self, *, shades: bool) -> None:
        """Tint the columns under a fault; a state's window leaves its cause the upper rows."""
        plot = self.plot
        for window, start, end, causes in self._spans():
            ink, ground = BAND_INKS[window.kind]
            for x in range(start, end):
                top = min(_CAUSE_ROWS, plot.height // 2) if x in causes else 0
                for y in range(plot.y + top, plot.y + plot.height):
                    if shades:
                        self.grid.put(plot.x + x, y, self.glyphs.shades[window.kind], "faint")
                    else:
                        self.grid.put(plot.x + x, y, " ", ink, ground)

    def _spans(self) -> Iterator[tuple[FaultWindow, int, int, set[int]]]:
        """The windows on the page, causes first: first column, the one after the last, and in which columns a
        state lies over a cause."""
        caused: set[int] = set()
        for window in sorted(self.page.windows, key=lambda one: not one.kind.is_cause):
            until_s = self.model.newest_s if window.end_s is None else window.end_s
            if until_s < self.page.start_s or window.start_s > self.page.end_s:
                continue
            width = self.plot.width
            start = max(0, min(width - 1, column(window.start_s, self.page, width)))
            end = max(start + 1, min(width, column(until_s, self.page, width) + (window.end_s is None)))
            columns = set(range(start, end))
            yield window, start, end, set() if window.kind.is_cause else caused & columns
            if window.kind.is_cause:
                caused |= columns

    def series(self, scale: AxisScale) -> None:
        """Levels, lines and dots, and the tint under a line that has one."""
        plot = self.plot
        traces = traces_of(self.model, scale, plot.width, self.glyphs)
        under: dict[int, tuple[int, str]] = {}
        for (x, y), (char, index) in rasterized(traces, plot.width, plot.height, self.glyphs).items():
            one = traces[index].series
            self.grid.put(plot.x + x, plot.y + y, char, one.ink)
            if not one.stroke.is_level:
                self.drawn.add((x, y))
            if one.fill:
                under[x] = max(y, under.get(x, (0, ""))[0]), one.fill
        for x, (top, fill) in under.items():
            for y in range(plot.y + top + 1, plot.y + plot.height):
                if self.grid.grounds[y][plot.x + x] == "bg":
                    self.grid.grounds[y][plot.x + x] = fill

    def _place(self, text: str, x: int, rows: Iterable[int], ink: str, *, over: bool = False) -> bool:
        """Write a text in the first row in which it stands with a blank around it, `over` a series if need
        be; False where there is none, and it is better left out."""
        for y in rows if 0 <= x <= self.plot.width - len(text) else ():
            cells = {(at, y) for at in range(x, x + len(text))}
            around = {(x - 1, y), *cells, (x + len(text), y)}
            if self._taken.isdisjoint(around) and (over or self.drawn.isdisjoint(cells)):
                self._taken |= cells
                self.grid.text(self.plot.x + x, self.plot.y + y, text, ink)
                return True
        return False

    def marks(self) -> None:
        """Dashed verticals behind the series, with their numbers in the first row that hides nothing. Of
        numbers that would run into each other the newest stays."""
        plot = self.plot
        for mark in sorted(self.page.marks, key=lambda mark: (mark.at_s, mark.number), reverse=True):
            x = column(mark.at_s, self.page, plot.width)
            if not 0 <= x < plot.width:
                continue
            number = self.glyphs.number(mark.number)
            start = min(x, plot.width - len(number))
            cells = range(start, start + len(number))
            top = next((y for y in range(plot.height) if not any((at, y) in self.drawn for at in cells)), 0)
            is_shown = self._place(number, start, [top], "mark", over=True)
            for y in range(top + is_shown, plot.height):
                if (x, y) not in self.drawn and (x, y) not in self._taken:
                    self.grid.put(plot.x + x, plot.y + y, self.glyphs.mark, "mark")

    def words(self) -> None:
        """The word of each window, in the first form and row in which it stands freely.

        A window that lasts grows into the room after it: its word stands there from the start, over a series
        if it must. A state's word stands below its cause's. What has no room is left out: its tint is seen.
        """
        plot = self.plot
        for window, start, end, causes in self._spans():
            lasts = window.end_s is None
            if not window.word or plot.height < 2 or not (lasts or self.model.has_words):
                continue
            rows = range(min(_CAUSE_ROWS if causes else 1, plot.height - 1), plot.height)
            ink = f"{BAND_INKS[window.kind][0]} b"
            any(
                self._place(text, x, rows, ink, over=over)
                for over in ((False, True) if lasts else (False,))
                for text, x in self._forms(window, start, end)
            )

    def _forms(self, window: FaultWindow, start: int, end: int) -> Iterator[tuple[str, int]]:
        """A window's word and its first column: inside in full or in short, behind it, before it."""
        word, short = self.glyphs.text(window.word), self.glyphs.text(window.short)
        room = (self.plot.width if window.end_s is None else end) - start
        yield from ((each, start + 1) for each in (word, short) if each and len(each) + 2 <= room)
        yield f"{self.glyphs.before}{word}", end
        yield f"{word}{self.glyphs.after}", start - len(word) - 1

    def labels(self) -> None:
        """Labels at the ends of the series in the order of their values; an arrow before those whose value is
        off scale. Each has a blank on both sides."""
        plot, scale, glyphs = self.plot, self.scale, self.glyphs
        if scale is None:
            x = plot.x + max(0, (plot.width - len(self.model.empty)) // 2)
            self.grid.text(x, plot.y + plot.height // 2, self.model.empty, "muted")
            return
        labeled = [one for one in self.model.series if one.labels]
        ends = [one.values[-1] if one.values else None for one in labeled]
        wanted = [scale.rows - 1.0 if end is None else scale.row(end) for end in ends]
        room = plot.gutter - 2
        for one, end, row in zip(labeled, ends, spread_rows(wanted, plot.height), strict=True):
            label = next((text for text in one.labels if len(text) <= room), one.labels[-1])
            x, y, ink = plot.x + plot.width, plot.y + row, f"{one.ink} b" if one.strong else one.ink
            if row >= 0:
                self.grid.text(x + 1, y, glyphs.text(label)[:room], ink)
                if side := 0 if end is None else scale.side(end):
                    self.grid.put(x, y, glyphs.up if side > 0 else glyphs.down, ink)


def shade_of(rate: float, top: float) -> int:
    """The shade of this many commits a second, 1 to `SHADES`; 0 for none.

    The darkest one reaches down from `top` by a factor of 3.2, each further one by as much again; the
    first holds everything that is less.
    """
    if rate <= 0:
        return 0
    below = math.floor(math.log10(top / rate) * _STEPS_A_DECADE + 1e-9)
    return max(1, SHADES - max(0, below))


def top_of(greatest: float) -> float:
    """The 1, 3, 10, 30... at or above the busiest cell: it seldom changes, so shades seldom do."""
    power = float(10 ** math.floor(math.log10(greatest) + 1e-9))
    return next(power * step for step in (1, 3, 10) if greatest <= power * step * (1 + 1e-9))


def paint_density(
    grid: CellGrid, plot: Plot, model: ChartModel, scale: AxisScale, glyphs: Glyphs, *, tones: bool
) -> set[tuple[int, int]]:
    """Draw the density and its legend; the cells that hold any commit."""
    halves = 2 if tones else 1
    row_of = cache(lambda band: scale.dot(math.sqrt(band_ms(band) * band_ms(band + 1)), halves))
    rates: dict[tuple[int, int], float] = {}
    for x, slices in enumerate(columns_of(model.density, model.page.start_s, model.page.end_s, plot.width)):
        for band, rate in (slices or {}).items():
            cell = x, row_of(band)
            rates[cell] = rates.get(cell, 0.0) + rate
    greatest = max(rates.values(), default=0.0)
    if greatest <= 0:
        return set()
    top = top_of(greatest)
    shades = {cell: shade_of(rate, top) for cell, rate in rates.items()}
    drawn = {(x, y // halves) for x, y in shades}
    for x, y in drawn:
        if tones:
            upper, lower = shades.get((x, 2 * y), 0), shades.get((x, 2 * y + 1), 0)
            char = " " if upper == lower else _UPPER if upper else _LOWER
            ground = f"heat{lower}" if upper and lower else ""
            grid.put(plot.x + x, plot.y + y, char, f"heat{upper or lower}", ground)
        else:
            grid.put(plot.x + x, plot.y + y, glyphs.densities[shades[x, y] - 1], "text")
    at = grid.width - LEGEND_CELLS
    grid.text(at, 0, " few ", "muted")
    for shade in range(1, SHADES + 1):
        char = " " if tones else glyphs.densities[shade - 1]
        grid.put(
            at + 4 + shade, 0, char, f"heat{shade}" if tones else "text", f"heat{shade}" if tones else ""
        )
    grid.text(at + 5 + SHADES, 0, f" {tick_text(top)}/s ", "muted")
    return drawn

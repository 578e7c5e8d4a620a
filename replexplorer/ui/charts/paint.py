"""Paints one chart into cells: title rule, axes, tints, series, marks, words and gutter labels.

Law: every painter reads the model and writes the grid; what is drawn later lies above. Columns
of marks depend on the page and the width only, so that two charts of one width agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from replexplorer.core.text import printable
from replexplorer.ui.charts.axes import column, scale_of, spread_rows, time_ticks
from replexplorer.ui.charts.chart_model import ChartModel, FaultWindow, WindowKind
from replexplorer.ui.charts.raster import MOST_CELLS, band, rasterized
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Run, fit_text, joined

_LEFT_CELLS: Final = 7
"""Tick labels and the axis."""
_GUTTER_CELLS: Final = 12
_WIDE_GUTTER_CELLS: Final = 14
_WIDE_FROM: Final = 90
BANDS: Final = {
    WindowKind.PARTITION: ("partitioned", "partitionbg", "░"),
    WindowKind.BLOCKED: ("blocked", "blockedbg", "▒"),
    WindowKind.DEGRADED: ("degraded", "degradedbg", "╱"),
    WindowKind.DOWN: ("down", "downbg", "╳"),
    WindowKind.RESTART: ("restart", "restartbg", "┃"),
    WindowKind.DROPPED: ("warn", "faultbg", "·"),
    WindowKind.FAULT: ("fault", "faultbg", "╲"),
}
"""Theme tokens of a window's word and ground, and its character where there is no color."""
_CAUSE_ROWS: Final = 2
"""Upper rows that a cause keeps under a state's window: one for the marks' numbers, one for its word."""
_LEAST_WIDTH: Final = 30
_LEAST_HEIGHT: Final = 4


class Plot(NamedTuple):
    """Where the plot lies in the widget, in cells."""

    x: int
    y: int
    width: int
    height: int
    gutter: int
    """Columns to its right, for labels."""


def plot_area(width: int, height: int) -> Plot:
    """The plot's place in a widget of this size: a rule above, the time axis below, gutters beside."""
    gutter = _WIDE_GUTTER_CELLS if width >= _WIDE_FROM else _GUTTER_CELLS
    room = min(MOST_CELLS, width - _LEFT_CELLS - gutter)
    return Plot(_LEFT_CELLS, 1, room, min(MOST_CELLS, height - 2), gutter)


class CellGrid:
    """Rows of cells, each a character with the theme tokens of its ink and its ground; writes outside of it
    are left out."""

    def __init__(self, width: int, height: int, glyphs: Glyphs) -> None:
        self.width, self._glyphs = width, glyphs
        self.chars = [[" "] * width for _ in range(height)]
        self.inks = [["text"] * width for _ in range(height)]
        self.grounds = [["bg"] * width for _ in range(height)]

    def put(self, x: int, y: int, char: str, ink: str, ground: str = "") -> None:
        """Draw a character; without a ground on that which is there."""
        if 0 <= x < self.width and 0 <= y < len(self.chars):
            self.chars[y][x], self.inks[y][x] = self._glyphs.text(char), ink
            self.grounds[y][x] = ground or self.grounds[y][x]

    def text(self, x: int, y: int, text: str, ink: str) -> None:
        """Draw a text from a cell on, without what a terminal obeys."""
        for at, char in enumerate(printable(text), x):
            self.put(at, y, char, ink)

    def row(self, y: int) -> str:
        """The characters of a row."""
        return "".join(self.chars[y])

    def runs(self, y: int) -> list[Run]:
        """A row as texts of one style each."""
        cells = zip(self.chars[y], self.inks[y], self.grounds[y], strict=True)
        return joined(
            [(char, ink if ground == "bg" else f"{ink} on {ground}") for char, ink, ground in cells]
        )


def paint_chart(
    model: ChartModel, width: int, height: int, glyphs: Glyphs, *, shades: bool = False
) -> CellGrid:
    """The whole chart; `shades` draws tints with a glyph, for terminals without the colors."""
    painter = _Painter(model, width, height, glyphs)
    painter.title()
    if width >= _LEAST_WIDTH and height >= _LEAST_HEIGHT:
        painter.axes()
        painter.windows(shades=shades or glyphs.ascii)
        painter.series(shades=shades or glyphs.ascii)
        painter.marks()
        painter.words()
        painter.labels()
    return painter.grid


class _Painter:
    """One chart under way; columns and rows are the widget's."""

    def __init__(self, model: ChartModel, width: int, height: int, glyphs: Glyphs) -> None:
        self.model, self.glyphs = model, glyphs
        self.grid = CellGrid(width, height, glyphs)
        self.plot = plot = plot_area(width, height)
        self.right, self.bottom = plot.x + plot.width, plot.y + plot.height
        self.scale = scale_of(model, plot.height) if plot.height > 1 else None
        self.drawn: set[tuple[int, int]] = set()
        """Cells in which lines are seen."""
        self._taken: set[tuple[int, int]] = set()
        """Cells of words."""

    def _column(self, at_s: float) -> int:
        return self.plot.x + column(at_s, self.model.page, self.plot.width)

    def title(self) -> None:
        """`- TPS commits/s ------- note -`: the longest note that fits, beside the longest subtitle that fits
        with it; the last note is cut."""
        model, grid = self.model, self.grid
        grid.text(0, 0, "─" * grid.width, "rule")
        grid.text(1, 0, f" {model.title} ", "title b")
        at = 3 + len(model.title)
        room = grid.width - at - 5
        note = fit_text(model.notes, room - len(model.subtitles[-1]))
        subtitle = fit_text(model.subtitles, room - len(note))
        grid.text(at, 0, f"{subtitle} " if subtitle else "", "muted")
        room -= len(subtitle)
        if note and room > 9:
            note = note if len(note) <= room else f"{note[: room - 1]}…"
            grid.text(grid.width - len(note) - 3, 0, f" {note} ", model.note_ink)

    def axes(self) -> None:
        """Both axes with their labels, and the grid lines at the ticks."""
        grid, plot = self.grid, self.plot
        axis = plot.x - 1
        for y in range(plot.y, self.bottom):
            grid.put(axis, y, "│", "axis")
        for row, label in self.scale.ticks if self.scale else ():
            grid.text(axis - len(label), plot.y + row, label, "muted")
            grid.put(axis, plot.y + row, "┤", "axis")
            for x in range(plot.x, self.right, 3 if self.glyphs.ascii else 1):
                grid.put(x, plot.y + row, "┈", "grid")
        grid.text(axis, self.bottom, "└" + "─" * plot.width, "axis")
        for middle, label in time_ticks(self.model.page, plot.width):
            start = middle - len(label) // 2 - 1
            if 0 <= start <= plot.width - len(label) - 2:
                grid.text(plot.x + start, self.bottom, f" {label} ", "muted")

    def windows(self, *, shades: bool) -> None:
        """Tint the columns under a fault; a state's window leaves its cause the upper rows."""
        for window, columns, caused in self._spans():
            ink, ground, shade = BANDS[window.kind]
            for x in columns:
                top = min(_CAUSE_ROWS, self.plot.height // 2) if x in caused else 0
                for y in range(self.plot.y + top, self.bottom):
                    self.grid.put(x, y, *((shade, "faint") if shades else (" ", ink, ground)))

    def _spans(self) -> Iterator[tuple[FaultWindow, range, set[int]]]:
        """The windows on the page, causes first, with their columns and those in which a state lies over a
        cause."""
        page, first, last = self.model.page, self.plot.x, self.right - 1
        caused: set[int] = set()
        for window in sorted(page.windows, key=lambda one: not one.kind.is_cause):
            lasts = window.end_s is None
            until_s = self.model.newest_s if window.end_s is None else window.end_s
            if until_s < page.start_s or window.start_s > page.end_s:
                continue
            start = max(first, min(last, self._column(window.start_s)))
            columns = range(start, max(start, min(last, self._column(until_s) - (not lasts))) + 1)
            yield window, columns, set() if window.kind.is_cause else caused.intersection(columns)
            if window.kind.is_cause:
                caused.update(columns)

    def series(self, *, shades: bool) -> None:
        """Bands, then levels, lines and dots, and the tint under a line that has one."""
        plot, grid = self.plot, self.grid
        if self.scale is None:
            return
        for one in self.model.series:
            for x, rows in band(one, self.model.page, self.scale, plot.width).items() if one.base else ():
                for y in rows:
                    if shades:
                        grid.put(plot.x + x, plot.y + y, "░", one.ink)
                    else:
                        grid.grounds[plot.y + y][plot.x + x] = one.fill
        under: dict[int, tuple[int, str]] = {}
        cells = rasterized(self.model, self.scale, plot.width, plot.height, self.glyphs)
        for (column_of, row), (char, one) in cells.items():
            x, y = plot.x + column_of, plot.y + row
            grid.put(x, y, char, one.ink)
            if not one.stroke.is_level:
                self.drawn.add((x, y))
            if one.fill:
                under[x] = max((y, one.fill), under.get(x, (0, "")))
        for x, (top, fill) in under.items():
            for y in range(top + 1, self.bottom):
                if grid.grounds[y][x] == "bg":
                    grid.grounds[y][x] = fill

    def _place(
        self, text: str, x: int, rows: Iterable[int], ink: str, *, over: bool, blanks: int = 1
    ) -> bool:
        """Write a text in the first row with room for it and `blanks` cells on both sides, `over` a series if
        it must; False: no row has that."""
        for y in rows if self.plot.x <= x <= self.right - len(text) else ():
            around = [(at, y) for at in range(x - blanks, x + len(text) + blanks)]
            cells = around[blanks:-blanks]
            if self._taken.isdisjoint(around) and (over or self.drawn.isdisjoint(cells)):
                self._taken.update(cells)
                self.grid.text(x, y, text, ink)
                return True
        return False

    def marks(self) -> None:
        """Dashed verticals behind the series, with their numbers in the first row that hides nothing. Of
        numbers that would run into each other the newest stays; two of several digits are further apart, or
        `14 15` would be one figure."""
        top_row = self.plot.y
        for mark in sorted(self.model.page.marks, key=lambda mark: (mark.at_s, mark.number), reverse=True):
            x = self._column(mark.at_s)
            if not self.plot.x <= x < self.right:
                continue
            number = self.glyphs.number(mark.number)
            start = min(x, self.right - len(number))
            cells = range(start, start + len(number))
            free = (y for y in range(top_row, self.bottom) if self.drawn.isdisjoint((at, y) for at in cells))
            top = next(free, top_row)
            is_shown = self._place(number, start, [top], "mark", over=True, blanks=len(number))
            for y in range(top + is_shown, self.bottom):
                if (x, y) not in self.drawn | self._taken:
                    self.grid.put(x, y, "┊", "mark")

    def words(self) -> None:
        """The word of each window, in the first form and row in which it stands freely.

        A window that lasts grows into the room after it: its word stands there from the start, over a series
        if it must. A state's word stands below its cause's. What has no room is left out: its tint is seen.
        """
        for window, columns, caused in self._spans():
            lasts = window.end_s is None
            if not window.word or self.plot.height < 2 or not (lasts or self.model.has_words):
                continue
            rows = range(min(self.plot.y + (_CAUSE_ROWS if caused else 1), self.bottom - 1), self.bottom)
            ink = f"{BANDS[window.kind][0]} b"
            any(
                self._place(text, x, rows, ink, over=over)
                for over in ((False, True) if lasts else (False,))
                for text, x in self._forms(window, columns)
            )

    def _forms(self, window: FaultWindow, columns: range) -> Iterator[tuple[str, int]]:
        """A window's word and its first column: inside in full or in short, behind it, before it."""
        room = (self.right if window.end_s is None else columns.stop) - columns.start
        for word in (window.word, window.short):
            if word and len(word) + 2 <= room:
                yield word, columns.start + 1
        yield f"◂{window.word}", columns.stop
        yield f"{window.word}▸", columns.start - len(window.word) - 1

    def labels(self) -> None:
        """Labels at the ends of the series in the order of their values; an arrow before those whose value is
        off scale. Each has a blank on both sides."""
        plot, scale, grid = self.plot, self.scale, self.grid
        if scale is None:
            empty = self.model.empty
            grid.text(
                plot.x + max(0, (plot.width - len(empty)) // 2), plot.y + plot.height // 2, empty, "muted"
            )
            return
        labeled = [(one, one.values[-1] if one.values else 0.0) for one in self.model.series if one.labels]
        rows = spread_rows([scale.row(end) for _, end in labeled], plot.height)
        room = plot.gutter - 2
        for (one, end), row in zip(labeled, rows, strict=True):
            if row >= 0:
                label = fit_text(one.labels, room)[:room]
                ink = f"{one.ink} b" if one.strong else one.ink
                arrow = ("", "▴", "▾")[scale.side(end)] if one.values else ""
                grid.text(self.right + 1 - len(arrow), plot.y + row, arrow + label, ink)

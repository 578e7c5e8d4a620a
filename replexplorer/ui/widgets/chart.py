"""A chart of time series that costs little to redraw, and the one place that draws with plotext.

Law: plotext 6.1 ends the process from C++ on a NaN or on a shape outside the limits, keeps one
global figure and belongs to one thread. So only whole dots inside the canvas reach it, each
frame begins with a cleared figure, and any other thread, size or version gets our own raster.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Sequence
from typing import Any, Final

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from replexplorer.ui.charts.cells import CellGrid
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.charts.paint import paint_chart
from replexplorer.ui.charts.raster import Raster, Trace, raster_dots
from replexplorer.ui.style.theme import Inks, inks_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import OwnRows

_plotext: Any = None
"""The library, once it is loaded."""
_FIRST_COLOR: Final = 16
"""Palette number that stands for the first trace; plotext's colours never reach the screen."""
_MOST_TRACES: Final = 200
_MOST_CELLS: Final = 500
_MOST_DOTS: Final = 250
"""Ragged series of more dots cost plotext 20 ms a frame and our own raster one."""
_MARKERS: Final = {"braille": "braille", "block": "hd"}
_ESCAPE: Final = re.compile(r"\x1b\[([0-9;]*)m")
_owner: list[int] = []


def load_plotext() -> None:
    """Import plotext, which takes 0.4 s; until then, and where its shared library does not load, charts draw
    themselves. May run in a thread of its own."""
    global _plotext
    try:
        _plotext = importlib.import_module("plotext")
    except Exception:  # a chart is never worth the app
        _plotext = None


def raster(traces: Sequence[Trace], width: int, height: int, glyphs: Glyphs) -> Raster:
    """Draw the traces with plotext, or with our own raster where plotext cannot be trusted to."""
    if (
        not _usable()
        or not traces
        or not 0 < width <= _MOST_CELLS
        or not 0 < height <= _MOST_CELLS
        or len(traces) > _MOST_TRACES
        or sum(len(run) for trace in traces for run in trace.runs) > _MOST_DOTS
    ):
        return raster_dots(traces, width, height, glyphs)
    try:
        return _parsed(_canvas(traces, width, height, glyphs), width, height)
    except Exception:  # a chart is never worth the app; the dots are at hand
        return raster_dots(traces, width, height, glyphs)


def _usable() -> bool:
    """Whether plotext is here, of the version that is known, and this thread is the one that uses it."""
    if _plotext is None or not str(getattr(_plotext, "__version__", "")).startswith("6."):
        return False
    if not _owner:
        _owner.append(threading.get_ident())
    return _owner[0] == threading.get_ident()


def _canvas(traces: Sequence[Trace], width: int, height: int, glyphs: Glyphs) -> str:
    """Plotext's picture: a bare canvas of exactly this size, each trace in a colour number of its own."""
    figure = _prepared(width, height)
    dots_x, dots_y = glyphs.dots_x, glyphs.dots_y
    last_x, last_y = width * dots_x - 1, height * dots_y - 1
    for index, trace in enumerate(traces):
        xs: list[float] = []
        ys: list[float] = []
        breaks: list[int] = []
        for run in trace.runs:
            breaks.append(len(xs))
            for x, y in run:
                xs.append((max(0, min(last_x, x)) + 0.5) / dots_x)
                ys.append((last_y - max(0, min(last_y, y)) + 0.5) / dots_y)
        if not xs:
            continue
        pixel = _plotext.pixel(foreground=_FIRST_COLOR + index)
        marker = _plotext.marker(_MARKERS.get(glyphs.name, trace.char), pixel=pixel)
        signal = figure.signal(xs, ys, marker=marker)
        signal.lines(trace.joined)
        for at in breaks:
            signal.line(at, False)
        figure.draw(signal)
    return str(figure.build().string())


def _prepared(width: int, height: int) -> Any:
    """The global figure, emptied: no axes, no ticks, limits on the edges of the outermost cells."""
    _plotext.terminal.limit(False, False)
    figure = _plotext.figure
    figure.clear.data()
    figure.plot_size(width, height)
    figure.axes(False)
    figure.canvas("default")
    figure.legend(False)
    figure.ruler("x").frequency(0).lim(0, width).alignment(lim="edge")
    figure.ruler("y").frequency(0).lim(0, height).alignment(lim="edge")
    return figure


def _parsed(picture: str, width: int, height: int) -> Raster:
    """Cells from plotext's text; raise ValueError when it is not of the size asked for."""
    rows: Raster = []
    for line in picture.rstrip("\n").split("\n"):
        cells: list[tuple[str, int] | None] = []
        index = 0
        parts = _ESCAPE.split(line)
        for text, codes in zip(parts[0::2], [*parts[1::2], ""], strict=True):
            cells += [None if char in " ⠀" else (char, index) for char in text]
            if "38;5;" in codes:
                index = int(codes.rpartition("38;5;")[2].split(";")[0]) - _FIRST_COLOR
        rows.append(cells)
    if len(rows) != height or any(len(row) != width for row in rows):
        raise ValueError(f"not a canvas of {width} x {height}")
    return rows


class Chart(OwnRows):
    """Title rule, plot and time axis of one `ChartModel`; TPS and latency are two models of it."""

    DEFAULT_CSS = "Chart { height: 1fr; min-height: 5; }"

    def __init__(
        self,
        model: ChartModel | None = None,
        *,
        glyphs: Glyphs = BRAILLE,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._model = model
        self._glyphs = glyphs
        self._grid: CellGrid | None = None
        self._inks: Inks | None = None
        self._strips: dict[int, Strip] = {}

    @property
    def model(self) -> ChartModel | None:
        """What is shown."""
        return self._model

    @property
    def rows(self) -> list[str]:
        """The characters on the screen, row by row."""
        return [self._grid.row(y) for y in range(self._grid.height)] if self._grid else []

    def show(self, model: ChartModel) -> None:
        """Show another model; only cells that differ are drawn again."""
        if model != self._model:
            self._model = model
            self._repaint()

    def on_resize(self, event: events.Resize) -> None:
        """Paint at the new size."""
        self._repaint()

    def on_show(self, event: events.Show) -> None:
        """Paint what changed while it was hidden."""
        self._repaint()

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        if self.is_mounted and inks_of(self.app) is not self._inks:
            self._repaint()

    def render_line(self, y: int) -> Strip:
        """One row."""
        inks = inks_of(self.app)
        grid = self._grid
        if grid is None or not 0 <= y < grid.height:
            return Strip.blank(self.size.width, inks.style("text"))
        strip = self._strips.get(y)
        if strip is None:
            segments = [
                Segment(text, inks.style(ink.role, ink.ground, strong=ink.strong))
                for text, ink in grid.runs(y)
            ]
            strip = self._strips[y] = Strip(segments, grid.width)
        return strip

    def _repaint(self) -> None:
        """Paint the model and refresh the cells that differ from the last picture."""
        width, height = self.size
        if self._model is None or not self.is_mounted or not (width and height):
            return
        inks = inks_of(self.app)
        grid = paint_chart(
            self._model, width, height, self._glyphs, raster, shades=inks.shades, tones=inks.tones
        )
        before, self._grid = self._grid, grid
        if before is None or (before.width, before.height) != (width, height) or inks is not self._inks:
            self._inks = inks
            self._strips.clear()
            self.refresh()
            return
        regions = [Region(start, y, end - start, 1) for y, start, end in grid.changes(before)]
        for region in regions:
            self._strips.pop(region.y, None)
        if regions:
            self.refresh(*regions)

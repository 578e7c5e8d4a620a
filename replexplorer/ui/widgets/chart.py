"""A chart of time series that costs little to redraw."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from replexplorer.ui.charts.cells import CellGrid
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.charts.paint import paint_chart
from replexplorer.ui.style.theme import Inks, inks_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import OwnRows


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
        grid = paint_chart(self._model, width, height, self._glyphs, shades=inks.shades, tones=inks.tones)
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

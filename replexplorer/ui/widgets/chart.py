"""A chart of time series."""

from __future__ import annotations

from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.charts.paint import paint_chart
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line


class Chart(Lines[ChartModel]):
    """Title rule, plot and time axis of one `ChartModel`; TPS and latency are two models of it."""

    DEFAULT_CSS = "Chart { height: 1fr; min-height: 5; }"

    def show(self, shown: ChartModel) -> None:
        """Paint another model: equal ones are the same picture."""
        if shown != self.shown:
            super().show(shown)

    def draw(self, shown: ChartModel, width: int, height: int) -> list[Line]:
        """The model at this size."""
        inks = inks_of(self.app)
        grid = paint_chart(shown, width, height, self.glyphs, shades=inks.shades, tones=inks.tones)
        return [grid.runs(y) for y in range(height)]

"""Paints latencies over time as shades: the histograms of each column, merged.

Law: a cell with any commit is visible, however few they are, and shades are steps of a logarithm of
commits a second: one stalled commit stands beside a million others. With colours a cell shows two
halves, one above the other; without, one character.
"""

from __future__ import annotations

import math
from typing import Final

from replexplorer.core.stats.density import band_ms, columns_of
from replexplorer.ui.charts.axes import AxisScale, tick_text
from replexplorer.ui.charts.cells import CellGrid, Plot
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.charts.raster import Raster
from replexplorer.ui.terminal.glyphs import Glyphs

SHADES: Final = 5
"""Steps from few to many: `heat1` to `heat5`."""
_STEPS_A_DECADE: Final = 2
LEGEND_CELLS: Final = 19
"""Room for the legend at the right end of the title."""
_UPPER: Final = "▀"
_LOWER: Final = "▄"


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
) -> Raster:
    """Draw the density; answers which cells hold any, for what is drawn around them."""
    halves = 2 if tones else 1
    columns = _halves_of(model, plot, scale, halves)
    greatest = max((rate for column in columns for rate in column.values()), default=0.0)
    raster: Raster = [[None] * plot.width for _ in range(plot.height)]
    if greatest <= 0:
        return raster
    top = top_of(greatest)
    for x, column in enumerate(columns):
        shades = {row: shade_of(rate, top) for row, rate in column.items()}
        for y in {row // halves for row in shades}:
            raster[y][x] = (" ", 0)
            if tones:
                _halves(grid, plot.x + x, plot.y + y, shades.get(2 * y, 0), shades.get(2 * y + 1, 0))
            else:
                grid.put(plot.x + x, plot.y + y, glyphs.densities[shades[y] - 1], "text")
    _legend(grid, top, glyphs, tones=tones)
    return raster


def _halves_of(model: ChartModel, plot: Plot, scale: AxisScale, halves: int) -> list[dict[int, float]]:
    """Commits a second for each column by the half row (or row) that they stand in."""
    rows: dict[int, int] = {}
    found: list[dict[int, float]] = []
    for column in columns_of(model.density, model.start_s, model.end_s, plot.width):
        summed: dict[int, float] = {}
        for band, rate in (column or {}).items():
            row = rows.get(band)
            if row is None:
                row = rows[band] = scale.dot(math.sqrt(band_ms(band) * band_ms(band + 1)), halves)
            summed[row] = summed.get(row, 0.0) + rate
        found.append(summed)
    return found


def _halves(grid: CellGrid, x: int, y: int, upper: int, lower: int) -> None:
    """One cell as two shades, one above the other; 0 leaves the ground."""
    if upper == lower:
        grid.put(x, y, " ", f"heat{upper}")
    else:
        grid.put(x, y, _UPPER if upper else _LOWER, f"heat{upper or lower}")
    if lower and upper:
        grid.tint(x, y, f"heat{lower}")


def _legend(grid: CellGrid, top: float, glyphs: Glyphs, *, tones: bool) -> None:
    """` few ▄▄▄▄▄ 1000/s ` at the right end of the title."""
    most = f" {tick_text(top)}/s "
    at = grid.width - LEGEND_CELLS
    grid.text(at, 0, " few ", "muted")
    for shade in range(1, SHADES + 1):
        x = at + 4 + shade
        if tones:
            grid.put(x, 0, " ", f"heat{shade}")
            grid.tint(x, 0, f"heat{shade}")
        else:
            grid.put(x, 0, glyphs.densities[shade - 1], "text")
    grid.text(at + 5 + SHADES, 0, most, "muted")

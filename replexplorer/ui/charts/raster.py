"""Series as dots, and dots as characters. The line of TPS is drawn by plotext, all else here.

Law: plotext 6 ends the process from C++ on a NaN or on a shape outside the limits, and keeps one global
figure. So only whole dots inside the canvas reach it, and each picture begins with a cleared figure.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from math import isfinite
from typing import Any, Final

from replexplorer.ui.charts.axes import AxisScale, column
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Stroke
from replexplorer.ui.terminal.glyphs import Glyphs

Dot = tuple[int, int]
"""(column, row) of a dot, from the top left."""
Raster = dict[tuple[int, int], tuple[str, int]]
"""(column, row) of a cell to its character and the index of the trace that colors it."""

MOST_CELLS: Final = 500
"""Columns or rows that plotext may be asked for."""
_BITS: Final = {
    4: ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)),
    2: ((1, 2), (4, 8)),
    1: ((1,),),
}
"""By a cell's rows of dots, the bit of each dot."""
_MARKERS: Final = {"braille": "braille", "block": "hd"}
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")


@cache
def plotext() -> Any:
    """The library, loaded when it is first needed: that takes 0.4 s. May run in a thread of its own."""
    return importlib.import_module("plotext")


@dataclass(frozen=True, slots=True)
class Trace:
    """One series as dots."""

    runs: tuple[tuple[Dot, ...], ...]
    """Broken at gaps."""
    joined: bool
    """Draw lines between the dots of a run."""
    series: ChartSeries
    char: str = "*"
    """Its character where a cell is one dot."""


def traces_of(model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> list[Trace]:
    """What of the model is drawn, on a canvas `width` cells wide, in drawing order."""
    traces = []
    runs: list[list[Dot]]
    for one in model.series:
        if one.stroke.is_level:
            runs = [_level(one, model, scale, width, glyphs)]
            char = glyphs.dash if one.stroke is Stroke.DASHES else glyphs.bead
        elif one.stroke is not Stroke.LABEL:
            runs = _runs(one, model, scale, width, glyphs)
            char = glyphs.strokes.get(one.ink, "*")
        else:
            continue
        traces.append(Trace(tuple(map(tuple, runs)), one.stroke is Stroke.LINE, one, char))
    return traces


def _runs(
    one: ChartSeries, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs
) -> list[list[Dot]]:
    """The points as dots, a run for each stretch without a gap: of each column the first, the least, the
    greatest and the last."""
    dots_x = width * glyphs.dots_x
    runs: list[list[Dot]] = []
    for is_known, points in groupby(one.points, lambda point: point[1] is not None and isfinite(point[1])):
        if not is_known:
            continue
        dots = [
            (
                max(0, min(dots_x - 1, column(at_s, model.page, dots_x))),
                scale.dot(value or 0.0, glyphs.dots_y),
            )
            for at_s, value in points
        ]
        run: list[Dot] = []
        for x, group in groupby(dots, lambda dot: dot[0]):
            rows = [y for _, y in group]
            run += [(x, y) for y, _ in groupby((rows[0], min(rows), max(rows), rows[-1]))]
        runs.append(run)
    return runs


def _level(one: ChartSeries, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> list[Dot]:
    """A level's dashes or beads: each value holds until the next, the last one runs on to the label; what is
    off scale is not drawn."""
    dots_x = width * glyphs.dots_x
    ends = [column(at_s, model.page, dots_x) for at_s, _ in one.points[1:]]
    period, length = (3, 2 * glyphs.dots_x) if one.stroke is Stroke.DASHES else (2, 1)
    return [
        (x, scale.dot(value, glyphs.dots_y))
        for (at_s, value), end in zip(one.points, [*ends, dots_x], strict=False)
        if value is not None and isfinite(value) and not scale.side(value)
        for x in range(max(0, column(at_s, model.page, dots_x)), min(end, dots_x))
        if x % (period * glyphs.dots_x) < length
    ]


def rasterized(traces: Sequence[Trace], width: int, height: int, glyphs: Glyphs) -> Raster:
    """The traces as characters, drawn in order: dots of several in one cell are joined, the last one colors
    it."""
    bits: dict[tuple[int, int], int] = {}
    owners: dict[tuple[int, int], int] = {}
    for index, trace in enumerate(traces):
        draw = _by_plotext if trace.series.fill else _by_dots
        for cell, found in draw(trace, width, height, glyphs):
            bits[cell] = bits.get(cell, 0) | found
            owners[cell] = index
    one_dot = glyphs.dots_y == 1
    return {
        cell: (traces[owner].char if one_dot else glyphs.dots[bits[cell]], owner)
        for cell, owner in owners.items()
    }


def _by_dots(trace: Trace, width: int, height: int, glyphs: Glyphs) -> Iterator[tuple[tuple[int, int], int]]:
    """Cells with the bit of each dot of a trace, by ourselves: ragged lines cost plotext twenty times as
    much."""
    dots_x, dots_y = glyphs.dots_x, glyphs.dots_y
    for run in trace.runs:
        for x, y in _on_lines(run) if trace.joined else run:
            if 0 <= x < width * dots_x and 0 <= y < height * dots_y:
                yield (x // dots_x, y // dots_y), _BITS[dots_y][y % dots_y][x % dots_x]


def _on_lines(run: Sequence[Dot]) -> Iterator[Dot]:
    """Every dot of the straight lines from each dot to the next."""
    yield run[0]
    for (x, y), (next_x, next_y) in pairwise(run):
        steps = max(abs(next_x - x), abs(next_y - y))
        for at in range(1, steps + 1):
            yield x + round((next_x - x) * at / steps), y + round((next_y - y) * at / steps)


def _by_plotext(
    trace: Trace, width: int, height: int, glyphs: Glyphs
) -> Iterator[tuple[tuple[int, int], int]]:
    """Cells with the bits of a trace on a bare canvas of plotext's: no axes, no ticks, limits on the edges of
    the outermost cells."""
    library = plotext()
    library.terminal.limit(False, False)
    figure = library.figure
    figure.clear.data()
    figure.plot_size(width, height)
    figure.axes(False)
    figure.canvas("default")
    figure.legend(False)
    figure.ruler("x").frequency(0).lim(0, width).alignment(lim="edge")
    figure.ruler("y").frequency(0).lim(0, height).alignment(lim="edge")
    dots = [dot for run in trace.runs for dot in run]
    if not dots:
        return
    last_y = height * glyphs.dots_y - 1
    signal = figure.signal(
        [(x + 0.5) / glyphs.dots_x for x, _ in dots],
        [(last_y - y + 0.5) / glyphs.dots_y for _, y in dots],
        marker=library.marker(_MARKERS.get(glyphs.name, "*"), pixel=library.pixel()),
    )
    signal.lines(trace.joined)
    start = 0
    for run in trace.runs:
        signal.line(start, False)
        start += len(run)
    figure.draw(signal)
    for y, line in enumerate(_ESCAPE.sub("", str(figure.build().string())).split("\n")[:height]):
        for x, char in enumerate(line[:width]):
            if char not in " ⠀":
                yield (x, y), max(1, glyphs.dots.find(char))

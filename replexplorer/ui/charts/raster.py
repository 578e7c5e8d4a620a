"""The series of a chart as characters, drawn by plotext.

Law: plotext 6 ends the process from C++ on a NaN or on a shape outside the limits, and keeps one global
figure. So only whole dots inside the canvas reach it, and each picture begins with a cleared figure.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from itertools import groupby
from math import isfinite
from typing import Any, Final

from replexplorer.ui.charts.axes import AxisScale, column
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Page, Stroke
from replexplorer.ui.terminal.glyphs import Glyphs

Dots = list[tuple[int, int]]
"""(column, row) of dots, from the top left."""

MOST_CELLS: Final = 500
"""Columns or rows that plotext may be asked for."""
_MARKERS: Final = {"braille": "braille", "block": "hd"}
_RUN: Final = re.compile(r"\x1b\[(?:38;5;)?(\d+)m([^\x1b]*)")
"""Characters of one color: 0 for none, else the number of a series from 1."""


@cache
def plotext() -> Any:
    """The library, loaded when it is first needed: that takes 0.4 s. May run in a thread of its own."""
    return importlib.import_module("plotext")


def rasterized(
    model: ChartModel, scale: AxisScale, width: int, height: int, glyphs: Glyphs
) -> dict[tuple[int, int], tuple[str, ChartSeries]]:
    """(column, row) of each cell with its character and the series that colors it: where several meet their
    dots are joined, and the later one colors it."""
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
    for number, one in enumerate(model.series, 1):
        runs = _runs(one, model, scale, width, glyphs)
        dots = [dot for run in runs for dot in run]
        if not dots:
            continue
        signal = figure.signal(
            [(x + 0.5) / glyphs.dots_x for x, _ in dots],
            [height - (y + 0.5) / glyphs.dots_y for _, y in dots],
            marker=library.marker(
                _MARKERS.get(glyphs.name) or glyphs.strokes.get(one.ink, "*"),
                pixel=library.pixel(foreground=number),
            ),
        )
        signal.lines(one.stroke is Stroke.LINE)
        start = 0
        for run in runs:
            signal.line(start, False)
            start += len(run)
        figure.draw(signal)
    cells = {}
    for y, line in enumerate(str(figure.build().string()).split("\n")[:height]):
        numbered = ((char, int(number)) for number, text in _RUN.findall(line) for char in text)
        for x, (char, number) in enumerate(numbered):
            if number and char not in " ⠀":
                cells[x, y] = char, model.series[number - 1]
    return cells


def _runs(one: ChartSeries, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> list[Dots]:
    """A series as dots, a run for each stretch without a gap: of each column of dots the first, the least,
    the greatest and the last."""
    if one.stroke is Stroke.LABEL:
        return []
    if one.stroke.is_level:
        return [_level(one, model, scale, width, glyphs)]
    dots_x = width * glyphs.dots_x
    shown = one.points
    if one.stroke is Stroke.DOTS:
        known = [(at_s, value) for at_s, value in shown if value is not None and isfinite(value)]
        cells = groupby(known, lambda point: column(point[0], model.page, width))
        shown = [max(group, key=lambda point: point[1]) for _, group in cells]
    runs: list[Dots] = []
    for is_known, points in groupby(shown, lambda point: point[1] is not None and isfinite(point[1])):
        run: Dots = []
        for x, group in groupby(
            points if is_known else (), lambda point: column(point[0], model.page, dots_x)
        ):
            values = [value or 0.0 for _, value in group]
            rows = (
                scale.dot(value, glyphs.dots_y) for value in (values[0], min(values), max(values), values[-1])
            )
            run += [(max(0, min(dots_x - 1, x)), y) for y, _ in groupby(rows)]
        runs.append(run)
    return runs


def band(one: ChartSeries, page: Page, scale: AxisScale, width: int) -> dict[int, range]:
    """The rows from a series down to its base by column: straight between two points, the widest of several
    in one column, none in a gap."""
    found: dict[int, range] = {}
    last: tuple[int, int, int] | None = None
    for (at_s, high), (_, low) in zip(one.points, one.base, strict=True):
        if high is None or low is None or not (isfinite(high) and isfinite(low)):
            last = None
            continue
        here = column(at_s, page, width), scale.dot(high, 1), scale.dot(low, 1)
        start, *edges = last or here
        for x in range(max(0, start), min(here[0] + 1, width)):
            share = (x - start) / (here[0] - start) if x > start else 0.0
            top, bottom = (round(was + share * (now - was)) for was, now in zip(edges, here[1:], strict=True))
            rows = found.get(x, range(top, bottom + 1))
            found[x] = range(min(top, rows.start), max(bottom + 1, rows.stop))
        last = here
    return found


def _level(one: ChartSeries, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> Dots:
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

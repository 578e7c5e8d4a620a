"""Series as dots, and a raster that turns dots into characters.

Law: dots are whole numbers inside the canvas before any raster sees them; nothing that is not
finite gets this far. This raster is what the charts fall back to and what the other one is
tested against.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from replexplorer.ui.charts.axes import AxisScale, column
from replexplorer.ui.charts.chart_model import ChartModel, Points, Stroke
from replexplorer.ui.terminal.glyphs import Glyphs

Dot = tuple[int, int]
"""(column, row) of a dot, from the top left."""
Raster = list[list[tuple[str, int] | None]]
"""Rows of cells: character and index of the trace that colours it; None where nothing is drawn."""

_BRAILLE_BITS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_QUADRANTS: Final = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"


@dataclass(frozen=True, slots=True)
class Trace:
    """One series as dots."""

    runs: tuple[tuple[Dot, ...], ...]
    """Broken at gaps."""
    joined: bool
    """Draw lines between the dots of a run."""
    ink: str
    """Theme token of its colour."""
    char: str = "*"
    """Its character where a cell is one dot."""


def traces_of(model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> list[Trace]:
    """The model's lines and dots (not its dashed levels) on a canvas `width` cells wide."""
    return [
        Trace(
            tuple(
                straightened(run) if one.stroke is Stroke.LINE else run
                for run in _runs(one.points, model, scale, width, glyphs)
            ),
            one.stroke is Stroke.LINE,
            one.ink,
            glyphs.strokes.get(one.ink, "*"),
        )
        for one in model.series
        if one.stroke.is_drawn
    ]


def _runs(
    points: Points, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs
) -> Iterator[tuple[Dot, ...]]:
    """The points as dots, a run for each stretch without a gap."""
    dots_x = width * glyphs.dots_x
    run: list[Dot] = []
    for at_s, value in points:
        if value is None or not math.isfinite(value):
            if run:
                yield thinned(run)
                run = []
            continue
        x = max(0, min(dots_x - 1, column(at_s, model.start_s, model.end_s, dots_x)))
        run.append((x, scale.dot(value, glyphs.dots_y)))
    if run:
        yield thinned(run)


def thinned(run: Sequence[Dot]) -> tuple[Dot, ...]:
    """First, lowest, highest and last dot of each column: the same picture from fewer dots."""
    kept: list[Dot] = []
    start = 0
    for at in range(1, len(run) + 1):
        if at < len(run) and run[at][0] == run[start][0]:
            continue
        group = run[start:at]
        if len(group) > 4:
            least = min(range(len(group)), key=lambda i: group[i][1])
            most = max(range(len(group)), key=lambda i: group[i][1])
            group = [group[i] for i in sorted({0, least, most, len(group) - 1})]
        kept += [dot for i, dot in enumerate(group) if i == 0 or dot != group[i - 1]]
        start = at
    return tuple(kept)


def straightened(run: Sequence[Dot]) -> tuple[Dot, ...]:
    """The same line without the dots inside its level stretches: each dot costs a raster 15 us."""
    kept = list(run[:1])
    for dot, after in pairwise(run[1:]):
        if not kept[-1][1] == dot[1] == after[1]:
            kept.append(dot)
    return (*kept, *run[1:][-1:])


def line_dots(start: Dot, end: Dot) -> Iterator[Dot]:
    """Every dot of a straight line (Bresenham), both ends included."""
    (x, y), (x1, y1) = start, end
    dx, dy = abs(x1 - x), -abs(y1 - y)
    step_x, step_y = (1 if x < x1 else -1), (1 if y < y1 else -1)
    error = dx + dy
    while True:
        yield x, y
        if (x, y) == (x1, y1):
            return
        twice = 2 * error
        if twice >= dy:
            error += dy
            x += step_x
        if twice <= dx:
            error += dx
            y += step_y


def trace_dots(trace: Trace) -> Iterator[Dot]:
    """Every dot of a trace."""
    for run in trace.runs:
        yield run[0]
        for before, dot in pairwise(run):
            if trace.joined:
                yield from line_dots(before, dot)
            else:
                yield dot


def raster_dots(traces: Sequence[Trace], width: int, height: int, glyphs: Glyphs) -> Raster:
    """Draw the traces in order; dots of several series in one cell are joined, the last one colours it."""
    bits = [[0] * width for _ in range(height)]
    owner = [[0] * width for _ in range(height)]
    for index, trace in enumerate(traces):
        for x, y in trace_dots(trace):
            column_at, row_at = x // glyphs.dots_x, y // glyphs.dots_y
            if not (0 <= column_at < width and 0 <= row_at < height):
                continue
            bits[row_at][column_at] |= _bit(x % glyphs.dots_x, y % glyphs.dots_y, glyphs)
            owner[row_at][column_at] = index
    return [
        [
            (_char(bits[y][x], glyphs, traces[owner[y][x]]), owner[y][x]) if bits[y][x] else None
            for x in range(width)
        ]
        for y in range(height)
    ]


def braille_bit(x: int, y: int) -> int:
    """The bit of a dot inside its cell of 2 x 4."""
    return _BRAILLE_BITS[y][x]


def _bit(x: int, y: int, glyphs: Glyphs) -> int:
    """The bit of a dot inside its cell."""
    return braille_bit(x, y) if glyphs.dots_y == 4 else 1 << (y * glyphs.dots_x + x)


def _char(bits: int, glyphs: Glyphs, trace: Trace) -> str:
    """The character of a cell's dots."""
    if glyphs.dots_y == 4:
        return chr(0x2800 + bits)
    return _QUADRANTS[bits] if glyphs.dots_y == 2 else trace.char

"""Ceilings and predictions: steps drawn to the dot, and arrows where they are off scale.

Law: a level is one unbroken line of steps for as long as it is known; what is not on the axis is not
drawn at its edge, but said there, with its figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from replexplorer.ui.charts.axes import AxisScale, column
from replexplorer.ui.charts.cells import CellGrid, Plot
from replexplorer.ui.charts.chart_model import ChartModel, ChartSeries, Stroke
from replexplorer.ui.charts.limits import finite
from replexplorer.ui.charts.raster import Raster, braille_bit
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words import figures

Cells = dict[tuple[int, int], tuple[str, str]]
"""(column, row) in the plot to the character of a level and its ink."""

_SAME_DOTS: Final = 1.0
"""A level that moves by no more stays where it is drawn: what is measured trembles."""
_SAME_AHEAD_CELLS: Final = 0.75
"""Nor does what runs on from now to the label, which would be sent again over its whole length."""
_SHORT_CELLS: Final = 3
"""A step so short has no gaps, or it would be a stray dot."""
_LEAST_CELLS: Final = 2
"""What is known for less, with gaps on both sides, is not drawn."""
_DASH: Final = 6
_DASHED: Final = 4
"""Dots from one dash to the next, and those of the dash."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of a level on one row of dots, or off scale on one side."""

    start: int
    """First column of dots."""
    end: int
    """The column of dots after its last."""
    row: float
    """In rows of cells, from the top."""
    value: float
    """Off scale the value that is farthest from it."""
    side: int
    """1 above the scale, -1 below it, 0 on it."""
    is_joined: bool = False
    """It follows the step before without a gap."""


Level = tuple[ChartSeries, list[Step]]
"""A level and what is drawn of it."""


def steps_of(
    series: ChartSeries, model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs
) -> list[Step]:
    """A level on a canvas `width` cells wide; its last value runs on to the label."""
    dots = width * glyphs.dots_x
    steps: list[Step] = []
    known = set(finite(series.points))
    ends = [column(at_s, model.start_s, model.end_s, dots) for at_s, _ in series.points[1:]]
    is_open = False
    for (at_s, value), end in zip(series.points, [*ends, dots], strict=True):
        if value is None or value not in known:
            is_open = False
            continue
        start = max(0, column(at_s, model.start_s, model.end_s, dots))
        step = Step(start, max(start, min(end, dots)), scale.row(value), value, scale.side(value), is_open)
        before = steps.pop() if is_open else None
        steps += [step] if before is None else _followed(before, step, glyphs)
        is_open = True
    steps = _ahead(steps, series, model, scale, dots)
    return [step for step in _lasting(steps, dots, glyphs) if step.end > step.start or step.side]


def _ahead(
    steps: list[Step], series: ChartSeries, model: ChartModel, scale: AxisScale, dots: int
) -> list[Step]:
    """The steps, of which what lies ahead of now stays on its row until the level has left that for good."""
    now = column(model.newest_s, model.start_s, model.end_s, dots) + 1
    last = steps[-1] if steps else None
    if last is None or last.side or last.end < dots or not last.start < now < dots:
        return steps
    row: float | None = None
    for value in finite(series.points):
        if not scale.side(value) and (row is None or abs(scale.row(value) - row) > _SAME_AHEAD_CELLS):
            row = scale.row(value)
    if row is None or row == last.row:
        return steps
    return [*steps[:-1], replace(last, end=now), Step(now, dots, row, last.value, 0)]


def _lasting(steps: Sequence[Step], dots: int, glyphs: Glyphs) -> Iterator[Step]:
    """The steps without those that are known for a moment only, which would be stray dots; what is off
    scale is not drawn as dots and stays."""
    chains: list[list[Step]] = []
    for step in steps:
        if step.is_joined and chains:
            chains[-1].append(step)
        else:
            chains.append([step])
    for chain in chains:
        is_long = chain[-1].end - chain[0].start >= _LEAST_CELLS * glyphs.dots_x or chain[-1].end >= dots
        yield from (step for step in chain if is_long or step.side)


def _followed(before: Step, step: Step, glyphs: Glyphs) -> list[Step]:
    """Two steps as one where they are the same to the eye."""
    if before.side != step.side:
        return [before, step]
    if step.side:
        value = max(before.value, step.value) if step.side > 0 else min(before.value, step.value)
    elif abs(before.row - step.row) * glyphs.dots_y <= _SAME_DOTS:
        value = before.value
    else:
        return [before, step]
    return [Step(before.start, step.end, before.row, value, before.side, before.is_joined)]


def levels_of(model: ChartModel, scale: AxisScale, width: int, glyphs: Glyphs) -> list[Level]:
    """Every level of a model with its steps, the dashed one last."""
    levels = [one for one in model.series if one.stroke.is_level and one.points]
    levels.sort(key=lambda one: one.stroke is Stroke.DASHES)
    return [(one, steps_of(one, model, scale, width, glyphs)) for one in levels]


def level_cells(levels: Sequence[Level], plot: Plot, glyphs: Glyphs) -> Cells:
    """The cells of the levels, later ones above."""
    bits: dict[tuple[int, int], int] = {}
    cells: Cells = {}
    for one, steps in levels:
        if glyphs.dots_y == 4:
            for x, y in _dots(steps, one.stroke, plot.height, glyphs):
                cell = x // glyphs.dots_x, y // glyphs.dots_y
                bits[cell] = bits.get(cell, 0) | braille_bit(x % glyphs.dots_x, y % glyphs.dots_y)
                cells[cell] = chr(0x2800 + bits[cell]), one.ink
        else:
            cells |= {at: (char, one.ink) for at, char in _characters(steps, one.stroke, plot.height, glyphs)}
    return cells


def _dots(steps: list[Step], stroke: Stroke, height: int, glyphs: Glyphs) -> Iterator[tuple[int, int]]:
    """Every dot of a level: dashes, or every second dot; a change is a dotted vertical."""
    rows = [
        max(0, min(height * glyphs.dots_y - 1, int((step.row + 0.5) * glyphs.dots_y - 1e-9)))
        for step in steps
    ]
    for step, y in zip(steps, rows, strict=True):
        is_short = step.end - step.start < _SHORT_CELLS * glyphs.dots_x
        for x in range(step.start, step.end) if not step.side else ():
            if is_short or (x % _DASH < _DASHED if stroke is Stroke.DASHES else x % 2 == 0):
                yield x, y
    for (before, y), (step, other) in pairwise(zip(steps, rows, strict=True)):
        if step.is_joined and not before.side and not step.side:
            yield from ((step.start, at) for at in range(min(y, other), max(y, other) + 1) if at % 2 == 0)


def _characters(
    steps: list[Step], stroke: Stroke, height: int, glyphs: Glyphs
) -> Iterator[tuple[tuple[int, int], str]]:
    """Whole cells, in thirds of a row where there are characters for them."""
    is_dashed = stroke is Stroke.DASHES
    for step in steps:
        if step.side:
            continue
        row = max(0, min(height - 1, round(step.row)))
        third = min(2, max(0, int((step.row + 0.5 - row) * 3)))
        char = (glyphs.over, glyphs.dash if is_dashed else glyphs.bead, glyphs.under)[third]
        if glyphs.ascii:
            char = glyphs.dash if is_dashed else glyphs.bead
        for x in range(step.start // glyphs.dots_x, (step.end - 1) // glyphs.dots_x + 1):
            if (x % 3 < 2) if is_dashed else (x % 2 == 0 or char == glyphs.bead):
                yield (x, row), char


def paint_arrows(
    grid: CellGrid,
    plot: Plot,
    levels: Sequence[Level],
    raster: Raster,
    glyphs: Glyphs,
    taken: set[tuple[int, int]],
) -> None:
    """`▴3143` at the edge where a level is off scale: from where on, and what it is at most."""
    for one, steps in levels:
        for step in _apart(steps, glyphs):
            text = f"{glyphs.up if step.side > 0 else glyphs.down}{figures.rate(step.value)}"
            x, y = _place(text, step, plot, raster, glyphs, taken)
            taken |= {(at, y) for at in range(x - 1, x + len(text) + 1)}
            grid.text(plot.x + x, plot.y + y, text, one.ink)


def _apart(steps: list[Step], glyphs: Glyphs) -> list[Step]:
    """The steps that are off scale; those too near each other for two figures as one."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if not step.side:
            continue
        room = (len(figures.rate(last.value)) + 2) * glyphs.dots_x if last else 0
        if last is None or last.side != step.side or step.start - last.start > room:
            found.append(step)
            continue
        value = max(last.value, step.value) if step.side > 0 else min(last.value, step.value)
        found[-1] = Step(last.start, step.end, last.row, value, last.side)
    return found


def _place(
    text: str, step: Step, plot: Plot, raster: Raster, glyphs: Glyphs, taken: set[tuple[int, int]]
) -> tuple[int, int]:
    """The cell of an arrow: where its step begins, in the row nearest the edge that hides nothing."""
    wanted = max(0, min(plot.width - len(text), step.start // glyphs.dots_x))
    rows = range(plot.height) if step.side > 0 else range(plot.height - 1, -1, -1)
    for y in rows[: max(1, plot.height // 2)]:
        for x in range(wanted, min(wanted + 3, plot.width - len(text)) + 1):
            cells = range(x, x + len(text))
            if not any((at, y) in taken or (raster and raster[y][at]) for at in cells):
                return x, y
    return wanted, rows[0]

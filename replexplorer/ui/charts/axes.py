"""Where values and times stand in a chart: scales whose ticks fall on text rows, and label places.

Law: a tick's label and its value are on the same row; a row is counted from the top, its centre
is the whole number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from replexplorer.core.records import frozen
from replexplorer.ui.charts.chart_model import ChartModel, Page
from replexplorer.ui.words.figures import moment

_STEPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_HEADROOM: Final = 1.03
_LEAST_TOP: Final = 0.1
"""Below this a linear axis does not zoom in: its labels would not fit."""
_ROWS_PER_DECADE: Final = (
    100, 66, 50, 40, 33, 27, 23, 20, 17, 13, 10, 8, 7, 6, 5, 4, 3, 2, 1.5,
    1, 1 / 2, 1 / 3, 1 / 6, 1 / 20, 1 / 100, 1 / 700,
)  # fmt: skip
"""From fine to coarse: those where round values fall on rows."""
_LEAST_SPAN: Final = 2.5
"""A logarithmic axis does not zoom in on less than such a factor."""
_ROUND: Final = (1, 2, 5, 3, 7, 1.5, 4, 6, 2.5, 8, 9, 1.2)
"""What a decade's ticks may be, the roundest first."""
_LESS_ROUND: Final = tuple(at / 10 for at in range(11, 100))
"""What they may be where there would be too few else."""
_FEW_TICKS: Final = 3
_OFF_ROW: Final = 0.24
"""How far from its row a tick's value may be."""
_TICK_CELLS: Final = 5
_LAST_SUFFIX: Final = 12
"""From this power of ten on a label has one digit."""
_SLACK_ROWS: Final = 0.45
_TIME_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_TIME_LABEL_CELLS: Final = 13
_NEAR: Final = 2.0
"""A level this many times the greatest value, or the least, is still worth the rows that it takes."""
_SELDOM: Final = 40
"""Up to one value in this many may lie below the axis."""
_FAR_BELOW: Final = 3.0
"""Only what is this many times less than the others is left to the row of 0."""


@frozen
class AxisScale:
    """A value axis over a number of text rows."""

    log: bool
    rows: int
    bottom: float
    """Value (or its decimal logarithm) at the centre of the lowest row."""
    per_row: float
    ticks: tuple[tuple[int, str], ...]
    """(row, label)."""
    has_zero: bool = False
    """The lowest row of a logarithmic axis is 0; between it and the next one the axis is linear."""

    def row(self, value: float) -> float:
        """The row of a value, not held to the scale's ends; a logarithm of nothing is the lowest row."""
        lowest = self.rows - 1.0
        if not self.log:
            return lowest - (value - self.bottom) / self.per_row
        if value <= 0:
            return lowest
        above = (math.log10(value) - self.bottom) / self.per_row
        if not self.has_zero:
            return lowest - above
        return lowest - 1 - above if above >= 0 else lowest - 10.0 ** (above * self.per_row)

    def dot(self, value: float, dots_y: int) -> int:
        """The row of dots that shows a value, held to the scale's ends."""
        dot = math.floor((self.row(value) + 0.5) * dots_y - 1e-9)
        return max(0, min(self.rows * dots_y - 1, dot))

    def side(self, value: float) -> int:
        """1 for a value above the axis, -1 for one below it, 0 for one that it shows."""
        row = self.row(value)
        return 1 if row < -0.5 else -1 if row > self.rows - 0.5 else 0


def linear_scale(greatest: float, rows: int) -> AxisScale:
    """From zero on the lowest row to at least the greatest value."""
    apart = 1 if rows < 5 else 2 if rows <= 10 else 3 if rows <= 16 else 4
    wanted = max(greatest, _LEAST_TOP) * _HEADROOM * apart / max(1, rows - 1)
    power = 10.0 ** math.floor(math.log10(wanted))
    step = power * next(factor for factor in _STEPS if factor * power >= wanted * (1 - 1e-9))
    ticks = tuple((rows - 1 - at * apart, tick_text(at * step)) for at in range((rows - 1) // apart + 1))
    return AxisScale(False, rows, 0.0, step / apart, ticks)


def log_scale(least: float, greatest: float, rows: int, *, has_zero: bool) -> AxisScale:
    """A logarithmic axis on which the least to the greatest value (both above zero) fill the rows.

    `has_zero` gives the lowest row to 0 and what is less than the least.
    """
    low, high = math.log10(least), math.log10(max(least, greatest))
    used = max(1, rows - has_zero)
    finest = max(1.0, (used - 1) / math.log10(_LEAST_SPAN))
    for per_decade in _ROWS_PER_DECADE:
        base = math.floor(low * per_decade + _SLACK_ROWS)
        spare = base + used - 1 + _SLACK_ROWS - high * per_decade
        if per_decade <= finest and spare >= 0:
            break
    base -= max(0, math.floor(spare / 2))
    ticks = _log_ticks(base, per_decade, rows, used)
    return AxisScale(True, rows, base / per_decade, 1 / per_decade, ticks, has_zero)


@lru_cache(maxsize=64)
def _log_ticks(base: int, per_decade: float, rows: int, used: int) -> tuple[tuple[int, str], ...]:
    """The roundest values that fall on rows of a scale whose lowest of `used` rows is `base` above 1."""
    apart = 1 if rows < 5 else 2 if rows <= 16 else 3
    found = {rows - 1: "0"} if used < rows else {}
    first, last = math.floor(base / per_decade), math.ceil((base + used) / per_decade)
    for factor in (*_ROUND, *_LESS_ROUND) if per_decade > 1 else (1,):
        if factor == _LESS_ROUND[0] and len(found) >= _FEW_TICKS:
            break
        for decade in range(max(-300, first), min(300, last) + 1):
            exact = used - 1 - (math.log10(factor) + decade) * per_decade + base
            row = round(exact)
            label = tick_text(factor * 10.0**decade)
            is_exact = decade < _LAST_SUFFIX or factor == int(factor)
            if abs(exact - row) > _OFF_ROW or not 0 <= row < used:
                continue
            if is_exact and len(label) <= _TICK_CELLS and all(abs(row - at) >= apart for at in found):
                found[row] = label
    return tuple(sorted(found.items(), reverse=True))


def tick_text(value: float) -> str:
    """A tick's label in at most five characters: `0.5`, `250`, `1000`, `12.5k`, `100k`."""
    if abs(value) < 9_999.5:
        return f"{value:.4g}"
    for divisor, suffix in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if abs(value) < divisor * 999.95:
            return f"{value / divisor:.3g}{suffix}"
    return f"{value:.0e}"


def column(at_s: float, page: Page, width: int) -> int:
    """The column (or dot column) of a moment; may lie outside of 0..width-1."""
    return math.floor((at_s - page.start_s) / max(page.end_s - page.start_s, 1e-9) * width)


def time_ticks(page: Page, width: int) -> list[tuple[int, str]]:
    """(column of the middle, label) of each tick of elapsed time."""
    span = max(page.end_s - page.start_s, 1e-9)
    step = next((s for s in _TIME_STEPS_S if s / span * width >= _TIME_LABEL_CELLS), _TIME_STEPS_S[-1])
    first = math.ceil(max(0.0, page.start_s - page.origin_s) / step)
    last = math.floor((page.end_s - page.origin_s) / step)
    return [
        (column(page.origin_s + at * step, page, width), moment(at * step)) for at in range(first, last + 1)
    ]


def spread_rows(wanted: Sequence[float], rows: int) -> list[int]:
    """A row of its own for each label, at or below the one wanted, in the order of the wanted rows; where the
    lowest would leave the chart they move up."""
    placed = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    free = 0
    for at in order:
        placed[at] = max(free, min(rows - 1, round(wanted[at])))
        free = placed[at] + 1
    last = rows
    for at in reversed(order):
        last = placed[at] = min(placed[at], last - 1)
    return placed


def scale_of(model: ChartModel, rows: int) -> AxisScale | None:
    """The value axis that a model needs; None while it has no value.

    A measured value is always in view. Ceilings and predictions widen the axis only where they are near; else
    they are off scale, and an arrow before their label says so. On a logarithmic axis values far below
    nearly all others, and 0, share the lowest row. Values only come to those that are there, so within a page
    an axis widens and does not swing.
    """
    drawn = [value for one in model.series if not one.stroke.is_level for value in one.values]
    levels = [value for one in model.series if one.stroke.is_level for value in one.values]
    if not (drawn or levels):
        return None
    most = max(drawn, default=0.0)
    near = [value for value in levels if most <= 0 or value <= most * _NEAR]
    greatest = max(most, *near, 0.0)
    if not model.log:
        return linear_scale(greatest, rows)
    above_zero = sorted(value for value in drawn or levels if value > 0) or [1.0]
    lasting = above_zero[len(above_zero) // _SELDOM]
    least = lasting if above_zero[0] * _FAR_BELOW < lasting else above_zero[0]
    has_zero = least > above_zero[0] or any(value <= 0 for value in drawn)
    least = min([least, *(value for value in near if value >= least / _NEAR)])
    if model.reach is not None:
        least, greatest = min(least, model.reach[0]), max(greatest, model.reach[1])
    return log_scale(least, max(least, greatest), rows, has_zero=has_zero)

"""Where values and times stand in a chart: scales whose ticks fall on text rows, and label places.

Law: a tick's label and its value are on the same row; a row is counted from the top, its centre
is the whole number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from replexplorer.ui.figures import moment

_STEPS: Final = (1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0)
_HEADROOM: Final = 1.03
_LEAST_TOP: Final = 0.1
"""Below this a linear axis does not zoom in: its labels would not fit."""
_ROWS_PER_DECADE: Final = (10, 6, 4, 3, 2, 1)
_WITHIN_DECADE: Final = {10: {3: 2, 7: 5}, 6: {2: 2, 4: 5}, 3: {1: 2, 2: 5}}
"""Rows per decade to {row above the decade: its factor}, where 2 and 5 fall on rows."""
_SLACK_ROWS: Final = 0.45
_TIME_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_TIME_LABEL_CELLS: Final = 13


@dataclass(frozen=True, slots=True)
class Scale:
    """A value axis over a number of text rows."""

    log: bool
    rows: int
    bottom: float
    """Value (or its decimal logarithm) at the centre of the lowest row."""
    per_row: float
    ticks: tuple[tuple[int, str], ...]
    """(row, label)."""

    def row(self, value: float) -> float:
        """The row of a value, not held to the scale's ends; a logarithm of nothing is the lowest row."""
        if self.log:
            if value <= 0:
                return float(self.rows - 1)
            value = math.log10(value)
        return self.rows - 1 - (value - self.bottom) / self.per_row

    def dot(self, value: float, dots_y: int) -> int:
        """The row of dots that shows a value, held to the scale's ends."""
        dot = math.floor((self.row(value) + 0.5) * dots_y - 1e-9)
        return max(0, min(self.rows * dots_y - 1, dot))

    def with_zero(self) -> Scale:
        """The same with 0 on the lowest row, for which a logarithm has no place."""
        lowest = self.rows - 1
        return replace(self, ticks=((lowest, "0"), *(tick for tick in self.ticks if tick[0] != lowest)))


def linear_scale(greatest: float, rows: int) -> Scale:
    """From zero on the lowest row to at least the greatest value."""
    apart = 1 if rows < 5 else 2 if rows <= 10 else 3 if rows <= 16 else 4
    wanted = max(greatest, _LEAST_TOP) * _HEADROOM * apart / max(1, rows - 1)
    power = 10.0 ** math.floor(math.log10(wanted))
    step = power * next(factor for factor in _STEPS if factor * power >= wanted * (1 - 1e-9))
    ticks = tuple((rows - 1 - at * apart, tick_text(at * step)) for at in range((rows - 1) // apart + 1))
    return Scale(False, rows, 0.0, step / apart, ticks)


def log_scale(least: float, greatest: float, rows: int) -> Scale:
    """Decades on text rows, from at most the least to at least the greatest value (both above zero)."""
    low, high = math.log10(least), math.log10(max(least, greatest))
    for rows_per_decade in _ROWS_PER_DECADE:
        base = math.floor(low * rows_per_decade + _SLACK_ROWS)
        if base + rows - 1 + _SLACK_ROWS >= high * rows_per_decade:
            return _decades(base, rows_per_decade, rows)
    decades_per_row = math.ceil((high - low) / max(1, rows - 1))
    start = math.floor(low)
    ticks = tuple((rows - 1 - at, tick_text(10.0 ** (start + at * decades_per_row))) for at in range(rows))
    return Scale(True, rows, float(start), float(decades_per_row), ticks)


def _decades(base: int, rows_per_decade: int, rows: int) -> Scale:
    """A scale whose lowest row is `base` rows above 1."""
    ticks: list[tuple[int, str]] = []
    within: list[tuple[int, str]] = []
    for at in range(rows):
        decade, rest = divmod(base + at, rows_per_decade)
        factor = _WITHIN_DECADE.get(rows_per_decade, {}).get(rest)
        if rest == 0:
            ticks.append((rows - 1 - at, tick_text(10.0**decade)))
        elif factor is not None:
            within.append((rows - 1 - at, tick_text(factor * 10.0**decade)))
    if len(ticks) < 3:
        ticks += within
    return Scale(True, rows, base / rows_per_decade, 1 / rows_per_decade, tuple(sorted(ticks, reverse=True)))


def tick_text(value: float) -> str:
    """A tick's label in at most five characters: `0.5`, `250`, `1000`, `12.5k`, `100k`."""
    if abs(value) < 9_999.5:
        return f"{value:.4g}"
    for divisor, suffix in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if abs(value) < divisor * 999.95:
            return f"{value / divisor:.3g}{suffix}"
    return f"{value:.0e}"


def column(at_s: float, start_s: float, end_s: float, width: int) -> int:
    """The column (or dot column) of a moment; may lie outside of 0..width-1."""
    return math.floor((at_s - start_s) / max(end_s - start_s, 1e-9) * width)


def time_ticks(start_s: float, end_s: float, origin_s: float, width: int) -> list[tuple[int, str]]:
    """(column of the middle, label) of each tick of elapsed time."""
    span = max(end_s - start_s, 1e-9)
    step = next((s for s in _TIME_STEPS_S if s / span * width >= _TIME_LABEL_CELLS), _TIME_STEPS_S[-1])
    first = math.ceil(max(0.0, start_s - origin_s) / step)
    last = math.floor((end_s - origin_s) / step)
    return [
        (column(origin_s + at * step, start_s, end_s, width), moment(at * step))
        for at in range(first, last + 1)
    ]


def spread_rows(wanted: Sequence[float], rows: int) -> list[int]:
    """A row of its own for each label, near the one wanted, in the order of the wanted rows.

    Labels that collide are moved apart evenly around their common middle. With more labels
    than rows the last ones get a row outside.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    blocks: list[list[int]] = []
    for at in order:
        blocks.append([at])
        while len(blocks) > 1 and _top(blocks[-2], wanted, rows) + len(blocks[-2]) > _top(
            blocks[-1], wanted, rows
        ):
            last = blocks.pop()
            blocks[-1] += last
    placed = [0] * len(wanted)
    for block in blocks:
        top = _top(block, wanted, rows)
        for offset, at in enumerate(block):
            placed[at] = top + offset
    return placed


def _top(block: Sequence[int], wanted: Sequence[float], rows: int) -> int:
    """The first row of a block of neighbours, inside the chart."""
    middle = sum(wanted[at] - offset for offset, at in enumerate(block)) / len(block)
    return max(0, min(rows - len(block), math.floor(middle + 0.5)))

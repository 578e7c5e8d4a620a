"""What a value axis has to hold: the range of a page's values, without what passes in a moment.

Law: a measured value is always in view; where a logarithm has no place for it, it stands between 0
and the least that lasts. Ceilings and predictions widen the axis only when they are near and last;
else they are off scale, and an arrow at the edge has their figure. Within a page values only come
to those that are there, so an axis widens and does not swing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from replexplorer.core.stats.density import band_ms
from replexplorer.ui.charts.chart_model import ChartModel, Points

Held = tuple[float, float]
"""A value, and for how many seconds of the page it held."""

_NEAR: Final = 2.0
"""A level this many times the greatest value is still worth the rows that it takes."""
_BESIDE: Final = 1.1
"""One that is so near is in view at once."""
_LASTS: Final = 20
_MOMENT: Final = 40
"""Parts of a page: a level that holds for one lasts; a value that is passed in less is a moment's."""
_FAR_BELOW: Final = 3.0
"""Only what is this many times less than the least that lasts is left to the row of 0."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The range that an axis has to hold."""

    least: float
    """On a logarithmic axis the least value above zero that lasts."""
    greatest: float
    has_zero: bool = False
    """There are values between 0 and the least, 0 among them."""


def limits_of(model: ChartModel) -> Limits | None:
    """The range of a model's axis; None while it has no value at all."""
    found = _limits_of_values(model)
    if found is None or model.reach is None:
        return found
    least, greatest = model.reach
    return Limits(min(found.least, least), max(found.greatest, greatest), found.has_zero)


def _limits_of_values(model: ChartModel) -> Limits | None:
    drawn = drawn_values(model)
    levels = [held for one in model.series if one.stroke.is_level for held in held_of(one.points, model)]
    if not drawn:
        known = [value for value, _ in levels if value > 0 or not model.log]
        return Limits(min(known), max(known)) if known else None
    top = max(drawn)
    if not model.log:
        return Limits(min(drawn), max(top, _lasting_top(levels, top, model)))
    above_zero = [value for value in drawn if value > 0]
    if not above_zero:
        return Limits(1.0, 1.0, has_zero=True)
    bottom, least = min(above_zero), lasting_least(model)
    has_far = least is not None and bottom * _FAR_BELOW < least
    least = least if has_far and least is not None else bottom
    near = [(value, held_s) for value, held_s in levels if value > 0]
    return Limits(
        min(least, _lasting_bottom(near, least, model)),
        max(top, _lasting_top(near, top, model)),
        has_zero=has_far or len(above_zero) < len(drawn),
    )


def drawn_values(model: ChartModel) -> list[float]:
    """What must be in view: the finite values of lines and dots, and the ends of the density."""
    found = [value for one in model.series if not one.stroke.is_level for value in finite(one.points)]
    held = [one.bands for one in model.density if one.bands]
    if held:
        found += [band_ms(min(map(min, held))), band_ms(max(map(max, held)) + 1)]
    return found


def lasting_least(model: ChartModel) -> float | None:
    """The least value above zero of the lines that is no moment's; None without any."""
    if model.density:
        return None
    lines = [one.points for one in model.series if not one.stroke.is_level]
    found = [least for points in lines if (least := least_that_lasts(points, model.length_s)) is not None]
    return min(found, default=None)


def least_that_lasts(points: Points, page_s: float) -> float | None:
    """The least value above zero that a line, on a page so long, has or is below for more than a moment."""
    held = [(value, held_s) for value, held_s in _intervals(points) if value > 0]
    if not held:
        return None
    enough_s = min(page_s / _MOMENT, sum(held_s for _, held_s in held) / 10)
    return _after(sorted(held), enough_s)


def finite(points: Points) -> list[float]:
    """Values that can be drawn."""
    return [value for _, value in points if value is not None and math.isfinite(value)]


def held_of(points: Points, model: ChartModel) -> list[Held]:
    """The values of a level: each holds until the next point, the last one until now."""
    if not points:
        return []
    until_s = max(model.newest_s, points[-1][0])
    ends = [*(at_s for at_s, _ in points[1:]), until_s]
    return [
        (value, max(0.0, end_s - at_s))
        for (at_s, value), end_s in zip(points, ends, strict=True)
        if value is not None and math.isfinite(value)
    ]


def _intervals(points: Points) -> list[Held]:
    """The values of a line: each is of the time since the point before; the first of the time after it."""
    if not points:
        return []
    lengths = [after[0] - before[0] for before, after in pairwise(points)]
    first = lengths[0] if lengths else 0.0
    return [
        (value, max(0.0, held_s))
        for (_, value), held_s in zip(points, [first, *lengths], strict=True)
        if value is not None and math.isfinite(value)
    ]


def _lasting_top(levels: Iterable[Held], top: float, model: ChartModel) -> float:
    """How far levels above the values widen the axis."""
    inside = [held for held in levels if top <= 0 or held[0] <= top * _NEAR]
    beside = [value for value, _ in inside if value <= top * _BESIDE]
    return max([top, *beside, _that_lasts(sorted(inside, reverse=True), top, model)])


def _lasting_bottom(levels: Iterable[Held], least: float, model: ChartModel) -> float:
    """How far levels below the values widen the axis."""
    inside = [held for held in levels if held[0] >= least / _NEAR]
    beside = [value for value, _ in inside if value >= least / _BESIDE]
    return min([least, *beside, _that_lasts(sorted(inside), least, model)])


def _that_lasts(ordered: Sequence[Held], otherwise: float, model: ChartModel) -> float:
    """The first of the values, from the outermost on, that they have reached for long enough."""
    total_s = sum(held_s for _, held_s in ordered)
    found = _after(ordered, min(model.length_s / _LASTS, total_s / 2)) if ordered else None
    return otherwise if found is None else found


def _after(ordered: Sequence[Held], enough_s: float) -> float | None:
    """The value at which this many seconds have come together."""
    passed_s = 0.0
    for value, held_s in ordered:
        passed_s += held_s
        if passed_s >= enough_s:
            return value
    return ordered[-1][0] if ordered else None

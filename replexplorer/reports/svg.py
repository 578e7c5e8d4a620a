"""Charts as inline SVG: lines, bars and heat maps, drawn by `chart.svg`. Colours are classes of `page.html`,
so that one style sheet draws them in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from replexplorer.core.records import frozen
from replexplorer.reports.report import template

if TYPE_CHECKING:
    from replexplorer.core.experiment.sweep_result import HeatMap

_LEFT, _RIGHT, _TOP, _FOOT = 64, 788, 30, 220
"""Where the axes of a line chart are."""
_BAR_LEFT, _BAR_ROOM, _BAR_HEIGHT, _BAR_GAP = 220, 470, 15, 12
_LABEL_HEIGHT = 13
_LETTER_WIDTH = 6.5
"""Of a label, about: the fonts of systems differ."""

Points = Sequence[tuple[float, float | None]]
"""(seconds, value) in order; None is a gap."""


@frozen
class Series:
    """One line."""

    name: str
    style: str
    """Class of its colour."""
    points: Points


class Window(NamedTuple):
    """A span of a chart that is shaded; seconds."""

    from_s: float
    to_s: float
    """Infinite while it lasts."""
    what: str


@frozen
class _Scale:
    """Where values are on a line of the drawing: from `start`, `room` long."""

    low: float
    high: float
    start: float
    room: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where this value is, or the end that it is beyond."""
        inside = min(max(value, self.low), self.high)
        share = (inside - self.low) / (self.high - self.low)
        if self.log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + share * self.room

    @property
    def ticks(self) -> list[float]:
        """About five round values; of a logarithmic one powers of ten, or 1-2-5 where there are few."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            factors = (1,) if last - first > 3 else (1, 2, 5)
            found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            return [tick for tick in found if self.low <= tick <= self.high]
        size = 10.0 ** math.floor(math.log10((self.high - self.low) / 5))
        step = next(
            size * factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (size * factor) <= 6
        )
        return [step * at for at in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def line_chart(
    title: str,
    unit: str,
    series: Sequence[Series],
    marks: Iterable[tuple[float, str]] = (),
    *,
    log: bool = False,
    windows: Iterable[Window] = (),
) -> str:
    """Lines over seconds; an unknown value is a gap; marks are dashed with their label next to them, windows
    are shaded. Empty where nothing is known."""
    values = [value for each in series for _, value in each.points if value is not None]
    places = [at for each in series for at, _ in each.points]
    if not values:
        return ""
    positive = [value for value in values if value > 0]
    log = log and bool(positive)
    first = min(places)
    x = _Scale(first, max(max(places), first + 1), _LEFT, _RIGHT - _LEFT)
    bottom = min(positive) * 0.9 if log else 0.0
    y = _Scale(bottom, max(values) * 1.08 or 1.0, _FOOT, _TOP - _FOOT, log)
    bands, ends = [], list[float]()
    for one in windows:
        left, width = x.at(one.from_s), len(one.what) * _LETTER_WIDTH
        label = max(_LEFT, min(left + 3, _RIGHT - width))
        bands.append(
            (left, max(left + 1, x.at(one.to_s)), label, _free_row(label, label + width, ends), one.what)
        )
    marked, ends = [], list[float]()
    for at, what in marks:
        if x.low <= at <= x.high:
            left = x.at(at)
            marked.append((left, _free_row(left + 3, left + 3 + len(what) * _LETTER_WIDTH, ends), what))
    lines, taken = [], list[float]()
    for each in series:
        last = next((value for _, value in reversed(each.points) if value is not None), None)
        label_y = None if last is None else _apart(y.at(last) + 4, taken)
        lines.append((each, _path(each.points, x, y), label_y))
    return _drawn(
        kind="line", title=title, unit=unit, x=x, y=y, windows=bands, marks=marked, lines=lines,
        left=_LEFT, right=_RIGHT, top=_TOP, foot=_FOOT,
    )  # fmt: skip


def _path(points: Points, x: _Scale, y: _Scale) -> str:
    commands, pen = [], False
    for at, value in points:
        if value is not None:
            commands.append(f"{'L' if pen else 'M'}{x.at(at):.1f} {y.at(value):.1f}")
        pen = value is not None
    return "".join(commands)


def heat_chart(heat: HeatMap) -> str:
    """A figure by two knobs, a field for each pair of values: a stronger colour means more."""
    letter = _LETTER_WIDTH * 1.35
    size = max(96, round(max(len(choice.label) for choice in heat.columns.choices) * letter + 10))
    longest = len(heat.rows.key) + max(len(choice.label) for choice in heat.rows.choices)
    left = round(44 + longest * letter)
    rows = []
    for choice, fields in zip(heat.rows.choices, heat.fields, strict=True):
        warmths = [(each.text, heat.warmth(each)) for each in fields]
        rows.append(
            (choice, [(text, 0.0 if warmth is None else 0.08 + 0.92 * warmth) for text, warmth in warmths])
        )
    return _drawn(
        kind="heat",
        heat=heat,
        rows=rows,
        size=size,
        left=left,
        width=max(left + len(heat.columns.choices) * size + 24, 480),
        foot=90 + len(rows) * 44,
    )


def bar_chart(
    title: str,
    unit: str,
    rows: Sequence[tuple[str, Sequence[tuple[str, float | None]]]],
    lines: Sequence[tuple[str, float]] = (),
) -> str:
    """Groups of bars on one logarithmic scale: (group, [(style, value), ...]); an unknown value has no bar.
    `lines` (name, value) are drawn across all of them. Empty where nothing is known."""
    if not any(value is not None for _, bars in rows for _, value in bars):
        return ""
    values = [value for _, value in [*(bar for _, bars in rows for bar in bars), *lines] if value]
    most = max(values, default=1.0)
    least = 10.0 ** math.floor(math.log10(min(values, default=1.0)) - 0.01)
    scale = _Scale(least, most, _BAR_LEFT, _BAR_ROOM, log=True)
    groups, drawn, at = [], [], 34.0
    for name, bars in rows:
        groups.append((at + len(bars) * _BAR_HEIGHT / 2 + 4, name))
        for style, value in bars:
            drawn.append((at, style, value, max(1.0, scale.at(value or 0.0) - _BAR_LEFT)))
            at += _BAR_HEIGHT
        at += _BAR_GAP
    across = [(scale.at(value), name, value) for name, value in lines]
    return _drawn(
        kind="bar", title=title, unit=unit, groups=groups, bars=drawn, lines=across, left=_BAR_LEFT, foot=at
    )


def _drawn(**what: Any) -> str:
    return template("chart.svg").render(**what).strip()


def _free_row(left: float, right: float, ends: list[float]) -> int:
    """The lowest row in which a label meets no earlier one; `ends` are where the rows' labels end."""
    row = next((row for row, end in enumerate(ends) if end <= left), len(ends))
    ends[row:] = [right, *ends[row + 1 :]]
    return row


def _apart(at: float, taken: list[float]) -> float:
    """A place for a label that no other label has."""
    while any(abs(at - other) < _LABEL_HEIGHT for other in taken):
        at -= _LABEL_HEIGHT
    taken.append(at)
    return at

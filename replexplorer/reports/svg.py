"""Charts as inline SVG: lines, bars and heat maps, drawn by `chart.svg`. Colours are classes of `page.html`,
so that one style sheet draws them in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from replexplorer.core.experiment.sweep_result import HeatMap, LoadCurve

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATE: Final = Path(__file__).with_name("chart.svg")
_WIDTH = 880
_LEFT, _RIGHT, _TOP, _FOOT = 64, 788, 30, 220
"""Where the axes of a line chart are."""
_BAR_LEFT, _BAR_ROOM = 220, 470
_BAR_HEIGHT, _BAR_GAP = 15, 12
_LABEL_HEIGHT = 13
_LETTER_WIDTH = 6.5
"""Of a label, about."""
_MOST_LABEL_ROWS = 8
"""Rows of labels that stand over each other; a window beyond them has its title alone."""
_SECONDS = "seconds"
_FIELD_WIDTH, _FIELD_HEIGHT, _FIELD_TOP = 96, 44, 90
_FIELD_LETTER_WIDTH = 8.7
"""Of a value, about: the fonts of systems differ."""
_LEAST_OPACITY = 0.08

Points = Sequence[tuple[float, float | None]]
"""(seconds, or what the axis is of, and value) in order; None is a gap."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    style: str
    """Class of its colour."""
    points: Points
    has_dots: bool = False
    """Each value was measured by itself, and is a dot on the line."""

    @property
    def last(self) -> float | None:
        """The last value that is known."""
        return next((value for _, value in reversed(self.points) if value is not None), None)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values and times are on the drawing."""

    low: float
    high: float
    bottom: float
    top: float
    log: bool

    def x(self, at: float) -> float:
        inside = min(max(at, self.low), self.high)
        return _LEFT + (inside - self.low) / (self.high - self.low) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        share = value / self.top
        if self.log:
            share = math.log(max(value, self.bottom) / self.bottom) / math.log(self.top / self.bottom)
        return _FOOT - share * (_FOOT - _TOP)

    @property
    def values(self) -> list[float]:
        return _log_scale(self.bottom, self.top) if self.log else _linear_scale(self.top)

    @property
    def places(self) -> list[float]:
        return _linear_scale(self.high, self.low)

    def path(self, points: Points) -> str:
        commands, pen = [], False
        for at, value in points:
            if value is not None:
                commands.append(f"{'L' if pen else 'M'}{self.x(at):.1f} {self.y(value):.1f}")
            pen = value is not None
        return "".join(commands)


def line_chart(
    title: str,
    unit: str,
    series: Sequence[Series],
    marks: Iterable[tuple[float, str]] = (),
    *,
    log: bool = False,
    windows: Iterable[tuple[float, float, str]] = (),
    over: str = _SECONDS,
) -> str:
    """Lines over seconds, or `over` another figure from 0 on; an unknown value is a gap; marks are dashed
    with their label beside. `windows` (from, to, what) are shaded. Where the axis is on the drawing stands in
    its data attributes.

    Empty where nothing is known.
    """
    values = [value for each in series for _, value in each.points if value is not None]
    places = [at for each in series for at, _ in each.points]
    if not values:
        return ""
    positive = [value for value in values if value > 0]
    log = log and bool(positive)
    bottom, top = (min(positive) * 0.9 if log else 0.0), max(values) * 1.08 or 1.0
    first = min(places) if over == _SECONDS else 0.0
    frame = _Frame(first, max(max(places), first + 1), bottom, top, log)
    bands, ends = [], list[float]()
    for begin, end, what in windows:
        left, width = frame.x(begin), len(what) * _LETTER_WIDTH
        label = max(_LEFT, min(left + 3, _RIGHT - width))
        row = _free_row(label, label + width, ends)
        bands.append((left, max(left + 1, frame.x(end)), label, row, what))
    marked, ends = [], []
    for at, what in marks:
        if frame.low <= at <= frame.high:
            x = frame.x(at)
            marked.append((x, _free_row(x + 3, x + 3 + len(what) * _LETTER_WIDTH, ends), what))
    taken: list[float] = []
    lasts = [each.last for each in series]
    labels = [None if last is None else _apart(frame.y(last) + 4, taken) for last in lasts]
    return _drawn(
        kind="line", title=title, unit=unit, over=over, frame=frame, windows=bands, marks=marked,
        lines=[*zip(series, labels, strict=True)],
        width=_WIDTH, left=_LEFT, right=_RIGHT, top=_TOP, foot=_FOOT, most_label_rows=_MOST_LABEL_ROWS,
    )  # fmt: skip


def curve_chart(curves: Sequence[LoadCurve]) -> str:
    """p50 and p99 of the response over what was answered, all curves on one scale, a mark at each knee; of
    several curves each has its number."""
    series, marks = [], []
    for number, curve in enumerate(curves, 1):
        own = f" ({number})" if len(curves) > 1 else ""
        for name in ("p50", "p99"):
            points = [(point.tps, getattr(point, f"{name}_ms")) for point in curve.points]
            series.append(Series(f"{name}{own}", name, points, has_dots=True))
        if curve.knee is not None:
            marks.append((curve.knee.tps, f"knee{own}"))
    unit = "ms from when each transaction was due, log"
    return line_chart("Response over answered TPS", unit, series, marks, log=True, over="TPS answered")


def heat_chart(heat: HeatMap) -> str:
    """A figure by two knobs, a field for each pair of values: a stronger colour means more."""
    longest = max(len(choice.label) for choice in heat.columns.choices)
    size = max(_FIELD_WIDTH, round(longest * _LETTER_WIDTH * 1.15 + 10))
    labels = max(len(choice.label) for choice in heat.rows.choices) * _LETTER_WIDTH * 1.15
    left = round(24 + len(heat.rows.key) * _FIELD_LETTER_WIDTH + 10 + labels + 10)

    def opacity(field: Any) -> float:
        warmth = heat.warmth(field)
        return 0.0 if warmth is None else _LEAST_OPACITY + (1 - _LEAST_OPACITY) * warmth

    return _drawn(
        kind="heat",
        heat=heat,
        rows=[
            (choice, [(each.text, opacity(each)) for each in fields])
            for choice, fields in zip(heat.rows.choices, heat.fields, strict=True)
        ],
        size=size,
        left=left,
        width=max(left + len(heat.columns.choices) * size + 24, 480),
        foot=_FIELD_TOP + len(heat.rows.choices) * _FIELD_HEIGHT,
        note="a stronger colour means more (log scale)"
        + "; * without cells that do not count" * heat.is_partial,
    )


def bar_chart(
    title: str,
    unit: str,
    rows: Sequence[tuple[str, Sequence[tuple[str, float | None]]]],
    lines: Sequence[tuple[str, float]] = (),
    *,
    log: bool = False,
) -> str:
    """Groups of bars on one scale: (group, [(style, value), ...]); an unknown value has no bar. `lines`
    (name, value) are drawn across all of them."""
    values = [value for _, bars in rows for _, value in bars if value is not None]
    if not values:
        return ""
    values += [value for _, value in lines]
    positive = [value for value in values if value > 0]
    least = 10.0 ** math.floor(math.log10(min(positive)) - 0.01) if log and positive else 0.0
    most = max(values) or 1.0

    def length(value: float) -> float:
        if least:
            return math.log(value / least) / math.log(most / least) * _BAR_ROOM if value > least else 0.0
        return value / most * _BAR_ROOM

    groups, drawn, at = [], [], 34.0
    for name, bars in rows:
        groups.append((at + len(bars) * _BAR_HEIGHT / 2 + 4, name))
        for style, value in bars:
            drawn.append((at, style, value, max(1.0, length(value or 0.0))))
            at += _BAR_HEIGHT
        at += _BAR_GAP
    across = [
        (_BAR_LEFT + length(value), name, value, "middle" if value > least else "start")
        for name, value in lines
    ]
    return _drawn(
        kind="bar", title=title, unit=unit, groups=groups, bars=drawn, lines=across,
        width=_WIDTH, left=_BAR_LEFT, foot=at,
    )  # fmt: skip


def _drawn(**what: Any) -> str:
    return _template().render(**what).strip()


@cache
def _template() -> Template:
    from jinja2 import Environment

    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(_TEMPLATE.read_text(encoding="utf-8"))


def _linear_scale(top: float, bottom: float = 0.0) -> list[float]:
    """Round values from `bottom` to `top`, about five."""
    span = top - bottom
    if span <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(span / 5))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if span / (size * factor) <= 6)
    return [step * number for number in range(math.ceil(bottom / step), math.floor(top / step) + 1)]


def _log_scale(bottom: float, top: float) -> list[float]:
    """Powers of ten between, or 1-2-5 where there are few."""
    low, high = math.floor(math.log10(bottom)), math.ceil(math.log10(top))
    factors = (1,) if high - low > 3 else (1, 2, 5)
    ticks = [factor * 10.0**power for power in range(low, high + 1) for factor in factors]
    return [tick for tick in ticks if bottom <= tick <= top]


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

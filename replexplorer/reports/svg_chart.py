"""Charts as inline SVG: lines over time with marks, and bars; colours by class, so that one style sheet
draws them in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 880, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 92, 30, 40
_FOOT = _HEIGHT - _BOTTOM
_MOST_POINTS = 1200
_BAR_HEIGHT = 15
_BAR_LEFT, _BAR_RIGHT = 220, 190
_LABEL_HEIGHT = 13
_LETTER_WIDTH = 6.5
"""Of a label, about."""

STYLE = """\
.chart { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
.chart text { fill: var(--dim); } .chart .name { fill: var(--ink); font-weight: 600; font-size: 13px; }
.chart .grid { stroke: var(--rule); } .chart .mark { stroke: var(--dim); stroke-dasharray: 2 3; }
.chart .line { fill: none; stroke-width: 1.6; } .chart .tps, .chart .measured { --c: var(--tps); }
.chart .p50 { --c: var(--p50); } .chart .p95 { --c: var(--p95); } .chart .p99 { --c: var(--p99); }
.chart .ceiling, .chart .published { --c: var(--dim); } .chart .predicted { --c: var(--predicted); }
.chart path { stroke: var(--c); } .chart rect { fill: var(--c); } .chart text.label { fill: var(--c); }
.chart path.ceiling { stroke-dasharray: 5 4; } .chart .lost { --c: var(--p99); }
.chart rect.window { fill: var(--bad); opacity: .16; }"""
"""What a page adds to its own: it needs --ink, --dim, --rule, --tps, --p50, --p95, --p99, --predicted and
--bad."""

Points = Sequence[tuple[float, float | None]]
"""(seconds, value) in order; None is a gap."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    style: str
    """Class of its colour."""
    points: Points


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values and times are on the drawing."""

    low_s: float
    high_s: float
    bottom: float
    top: float
    log: bool

    def x(self, at_s: float) -> float:
        return _LEFT + (at_s - self.low_s) / (self.high_s - self.low_s) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        if self.log:
            span = math.log(self.top / self.bottom)
            share = math.log(max(value, self.bottom) / self.bottom) / span
        else:
            share = value / self.top
        return _FOOT - share * (_FOOT - _TOP)

    def axes(self) -> Iterable[str]:
        for value in _log_scale(self.bottom, self.top) if self.log else _linear_scale(self.top):
            yield _stroke("grid", _LEFT, self.y(value), _WIDTH - _RIGHT, self.y(value))
            yield _text(_LEFT - 6, self.y(value) + 4, f"{value:g}", "end")
        for passed_s in _linear_scale(self.high_s - self.low_s):
            yield _text(self.x(self.low_s + passed_s), _FOOT + 16, f"{passed_s:g}", "middle")
        yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "seconds", "middle")

    def path(self, points: Points) -> str:
        commands, pen = [], False
        for at_s, value in _thinned(points):
            if value is not None:
                commands.append(f"{'L' if pen else 'M'}{self.x(at_s):.1f} {self.y(value):.1f}")
            pen = value is not None
        return "".join(commands)


def line_chart(
    title: str,
    unit: str,
    series: Sequence[Series],
    marks: Iterable[tuple[float, str]],
    *,
    log: bool = False,
    windows: Iterable[tuple[float, float, str]] = (),
) -> str:
    """Lines over seconds; an unknown value is a gap; marks are dashed with their label beside. `windows`
    (from, to, what) are shaded. Where the axis is on the drawing stands in its data attributes.

    Empty where nothing is known.
    """
    values = [value for each in series for _, value in each.points if value is not None]
    times = [at_s for each in series for at_s, _ in each.points]
    if not values:
        return ""
    positive = [value for value in values if value > 0]
    log = log and bool(positive)
    bottom, top = (min(positive) * 0.9 if log else 0.0), max(values) * 1.08 or 1.0
    frame = _Frame(min(times), max(max(times), min(times) + 1), bottom, top, log)
    scale = f'data-from="{frame.low_s:g}" data-to="{frame.high_s:g}" data-left="{_LEFT}"'
    scale += f' data-right="{_WIDTH - _RIGHT}" data-top="{_TOP}" data-foot="{_FOOT}"'
    parts = [_head(title, _HEIGHT, scale), _text(_LEFT, 16, f"{title} ({unit})", style="name"), *frame.axes()]
    ends: list[float] = []
    for from_s, to_s, what in windows:
        left, right = (frame.x(min(max(at_s, frame.low_s), frame.high_s)) for at_s in (from_s, to_s))
        place = f'x="{left:.1f}" y="{_TOP}" width="{max(1.0, right - left):.1f}" height="{_FOOT - _TOP}"'
        parts.append(f'<rect class="window" {place}><title>{escape(what)}</title></rect>')
        width = len(what) * _LETTER_WIDTH
        begin = max(_LEFT, min(left + 3, _WIDTH - _RIGHT - width))
        row = _free_row(begin, begin + width, ends)
        parts.append(_text(begin, _FOOT - 6 - row * _LABEL_HEIGHT, what))
    for at_s, label in marks:
        if frame.low_s <= at_s <= frame.high_s:
            parts.append(_stroke("mark", frame.x(at_s), _TOP - 4, frame.x(at_s), _FOOT))
            parts.append(_text(frame.x(at_s) + 3, _TOP + 6, label))
    taken: list[float] = []
    for each in series:
        parts.append(f'<path class="line {each.style}" d="{frame.path(each.points)}"/>')
        last = next((value for _, value in reversed(each.points) if value is not None), None)
        if last is not None:
            at = _apart(frame.y(last) + 4, taken)
            parts.append(_text(_WIDTH - _RIGHT + 6, at, each.name, style=f"label {each.style}"))
    return "\n".join([*parts, "</svg>"])


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
    most, room = max(values) or 1.0, _WIDTH - _BAR_LEFT - _BAR_RIGHT

    def width_of(value: float) -> float:
        if least:
            return max(0.0, math.log(value / least) / math.log(most / least) * room) if value > 0 else 0.0
        return value / most * room

    height = 34 + sum(len(bars) * _BAR_HEIGHT + 12 for _, bars in rows) + len(lines) * _LABEL_HEIGHT
    parts = [_head(title, height), _text(8, 16, f"{title} ({unit})", style="name")]
    at = 34.0
    for name, bars in rows:
        parts.append(_text(_BAR_LEFT - 8, at + len(bars) * _BAR_HEIGHT / 2 + 4, name, "end"))
        for style, value in bars:
            if value is not None:
                width = max(1.0, width_of(value))
                place = f'x="{_BAR_LEFT}" y="{at:.1f}" width="{width:.1f}" height="{_BAR_HEIGHT - 3}"'
                parts.append(f'<rect class="{style}" {place}/>')
                parts.append(_text(_BAR_LEFT + width + 6, at + 10, f"{value:,.4g} {style}"))
            at += _BAR_HEIGHT
        at += 12
    for number, (name, value) in enumerate(lines, 1):
        x, foot = _BAR_LEFT + width_of(value), at + number * _LABEL_HEIGHT
        parts.append(_stroke("mark", x, 26, x, foot - _LABEL_HEIGHT))
        parts.append(_text(x, foot - 3, f"{name}: {value:,.4g}", "middle" if value > least else "start"))
    return "\n".join([*parts, "</svg>"])


def _head(title: str, height: float, scale: str = "") -> str:
    box = f"0 0 {_WIDTH} {height:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="{box}" role="img" {scale}>'
        f"<title>{escape(title)}</title>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    styled = f' class="{style}"' if style else ""
    return f'<text{styled} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _stroke(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _thinned(points: Points) -> Points:
    """No more points than a screen shows: of each stretch the least and the greatest."""
    step = 2 * math.ceil(len(points) / _MOST_POINTS)
    if step <= 2:
        return points
    kept: list[tuple[float, float | None]] = []
    for first in range(0, len(points), step):
        part = points[first : first + step]
        known = sorted((value, at_s) for at_s, value in part if value is not None)
        ends = {(at_s, value) for value, at_s in (known[0], known[-1])} if known else {part[0]}
        kept += sorted(ends, key=lambda point: point[0])
    return kept


def _linear_scale(top: float) -> list[float]:
    """Round values from 0 to `top`, about five."""
    if top <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(top / 5))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if top / (size * factor) <= 6)
    return [step * number for number in range(int(top / step) + 1)]


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

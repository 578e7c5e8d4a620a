"""A heat map as one SVG file that needs nothing else, in light and in dark."""

from __future__ import annotations

from xml.sax.saxutils import escape

from replexplorer.core.experiment.heat import HeatMap
from replexplorer.core.experiment.sweep_text import heat_text, partial

_FIELD_WIDTH = 96
_FIELD_HEIGHT = 44
_TOP = 92
_MARGIN = 24
_GAP = 10
_LEAST_WIDTH = 420
_CHARACTER = 0.62
"""Width of a character, of its height: the fonts of systems differ."""
_LEAST_OPACITY = 0.08
_STYLE = """\
svg { font: 14px system-ui, sans-serif; }
.paper { fill: #ffffff; } .field { fill: #0b6e99; } .frame { fill: none; stroke: #5b6875; }
text { fill: #1d2733; } .dim { fill: #5b6875; font-size: 12px; } .over { fill: #ffffff; }
.title { font-size: 13px; } .axis { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #12181f; } .field { fill: #5cc4ee; } .frame { stroke: #93a1ae; }
  text { fill: #e4eaf0; } .dim { fill: #93a1ae; } .over { fill: #0b1116; }
}"""
"""Plain properties: not every program that draws SVG knows CSS variables."""


def heat_svg(heat: HeatMap, title: str) -> str:
    """The map with axes; values carry their units."""
    columns, rows = len(heat.columns.choices), len(heat.rows.choices)
    left, field_width = _left(heat), _field_width(heat)
    width = max(left + columns * field_width + _MARGIN, _LEAST_WIDTH)
    height = _TOP + rows * _FIELD_HEIGHT + _MARGIN * 3
    middle = left + columns * field_width / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="{_MARGIN}" y="24">{heat.figure.words}</text>',
        f'<text class="dim" x="{_MARGIN}" y="42">{heat.figure.mean_words}</text>',
        f'<text class="axis" x="{middle:g}" y="{_TOP - 26}" text-anchor="middle">'
        f"{escape(heat.columns.key)}</text>",
        f'<text class="axis" x="{_MARGIN}" y="{_TOP + rows * _FIELD_HEIGHT / 2 + 5:g}">'
        f"{escape(heat.rows.key)}</text>",
    ]
    for at, choice in enumerate(heat.columns.choices):
        x = left + (at + 0.5) * field_width
        parts.append(
            f'<text class="dim" x="{x:g}" y="{_TOP - 8}" text-anchor="middle">{escape(choice.label)}</text>'
        )
    for at, choice in enumerate(heat.rows.choices):
        y = _TOP + (at + 0.5) * _FIELD_HEIGHT + 5
        parts.append(
            f'<text class="dim" x="{left - 8}" y="{y:g}" text-anchor="end">{escape(choice.label)}</text>'
        )
        parts += _row(heat, at, left, field_width)
    foot = _TOP + rows * _FIELD_HEIGHT + _MARGIN
    parts.append(
        f'<rect class="frame" x="{left}" y="{_TOP}" width="{columns * field_width}"'
        f' height="{rows * _FIELD_HEIGHT}"/>'
    )
    parts.append(
        f'<text class="dim" x="{_MARGIN}" y="{foot}">a stronger colour means more (log scale)</text>'
    )
    if partial(heat):
        parts.append(
            f'<text class="dim" x="{_MARGIN}" y="{foot + 18}">* without cells that do not count</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _left(heat: HeatMap) -> int:
    """Where the fields begin: behind the rows' knob and their values."""
    labels = max(len(choice.label) for choice in heat.rows.choices) * 12 * _CHARACTER
    return round(_MARGIN + len(heat.rows.key) * 14 * _CHARACTER + _GAP + labels + _GAP)


def _field_width(heat: HeatMap) -> int:
    """A column's: its value stands above it."""
    longest = max(len(choice.label) for choice in heat.columns.choices)
    return max(_FIELD_WIDTH, round(longest * 12 * _CHARACTER + _GAP))


def _row(heat: HeatMap, at: int, left: int, field_width: int) -> list[str]:
    parts: list[str] = []
    for column, each in enumerate(heat.fields[at]):
        x, y = left + column * field_width, _TOP + at * _FIELD_HEIGHT
        warmth = heat.warmth(each)
        opacity = 0.0 if warmth is None else _LEAST_OPACITY + (1 - _LEAST_OPACITY) * warmth
        over = ' class="over"' if opacity > 0.7 else ""
        parts.append(
            f'<rect class="field" x="{x}" y="{y}" width="{field_width}" height="{_FIELD_HEIGHT}"'
            f' fill-opacity="{opacity:.2f}"/>'
        )
        parts.append(
            f'<text{over} x="{x + field_width / 2:g}" y="{y + _FIELD_HEIGHT / 2 + 5:g}"'
            f' text-anchor="middle">{escape(heat_text(each))}</text>'
        )
    return parts

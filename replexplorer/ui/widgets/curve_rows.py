"""A sweep's response over throughput as rows of the line widgets."""

from __future__ import annotations

from itertools import groupby
from math import log
from typing import Final

from replexplorer.core.experiment.load_curve import CurvePoint, LoadCurve
from replexplorer.core.experiment.sweep_text import figure
from replexplorer.ui.charts.raster import Dot, Trace, raster_dots
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Line, Run, wrapped

_ROWS: Final = 9
_WIDEST: Final = 72
_LEFT: Final = 9
"""Columns of the labels, the axis not among them."""
_NAMES: Final = ("p50", "p99")
"""Percentiles of the response, which are theme tokens too; the last one is drawn over the others."""


def curve_rows(curve: LoadCurve, width: int, glyphs: Glyphs) -> list[Line]:
    """The curve, TPS across and ms up in powers of ten, and below it where it bends."""
    times_ms = [ms for point in curve.points for ms in _times_ms(point) if ms > 0]
    if not times_ms:
        return []
    columns = max(20, min(_WIDEST, width - _LEFT - 3))
    low_ms, high_ms = min(times_ms), max(max(times_ms), 1.01 * min(times_ms))
    most_tps = max(point.tps for point in curve.points)
    last_x, last_y = columns * glyphs.dots_x - 1, _ROWS * glyphs.dots_y - 1

    def dot(tps: float, ms: float) -> Dot:
        share = log(max(ms, low_ms) / low_ms) / log(high_ms / low_ms)
        return round(tps / most_tps * last_x), round((1 - share) * last_y)

    traces = [
        Trace(
            (tuple(dot(point.tps, _times_ms(point)[at]) for point in curve.points),),
            True,
            name,
            glyphs.strokes.get(name, "*"),
        )
        for at, name in enumerate(_NAMES)
    ]
    head = f"   {curve.label}, " if curve.label else "   "
    title: Line = [
        (" RESPONSE OVER TPS", "accent b"),
        (f"{head}ms, ", "muted"),
        ("p50", "p50 b"),
        (" and ", "muted"),
        ("p99", "p99 b"),
        (", from when each was due", "muted"),
    ]
    rows = [title]
    ends = {0: figure(high_ms), _ROWS - 1: figure(low_ms)}
    for at, cells in enumerate(raster_dots(traces, columns, _ROWS, glyphs)):
        row: list[Run] = [(f" {ends.get(at, ''):>{_LEFT - 1}} ", "muted"), (glyphs.axis, "axis")]
        for trace, run in groupby(cells, key=lambda cell: None if cell is None else cell[1]):
            text = "".join(" " if cell is None else cell[0] for cell in run)
            row.append((text, "text" if trace is None else _NAMES[trace]))
        rows.append(row)
    blank = " " * (_LEFT + 1)
    most = f"{most_tps:,.0f} TPS"
    rows.append([(blank, "muted"), (glyphs.corner + glyphs.rule * columns, "axis")])
    rows.append([(f"{blank} 0{most:>{columns - 1}}", "muted")])
    return [*rows, *([(f" {text}", "text")] for text in wrapped(curve.words, max(20, width - 2)))]


def _times_ms(point: CurvePoint) -> tuple[float, float]:
    """In the order of the names."""
    return point.p50_ms, point.p99_ms

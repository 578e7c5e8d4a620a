"""Response over throughput as one SVG file that needs nothing else, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from replexplorer.core.experiment.load_curve import LoadCurve

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 60, 56
_LINE = 16
_STYLE = """\
svg { font: 12px system-ui, sans-serif; }
.paper { fill: #ffffff; } text { fill: #1d2733; } .dim { fill: #5b6875; } .grid { stroke: #d5dce3; }
.p50 { stroke: #0b6e99; fill: none; stroke-width: 2; } .p99 { stroke: #b3400a; fill: none; stroke-width: 2; }
circle.p50 { fill: #0b6e99; } circle.p99 { fill: #b3400a; } .knee { stroke: #5b6875; stroke-dasharray: 3 4; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #12181f; } text { fill: #e4eaf0; } .dim { fill: #93a1ae; } .grid { stroke: #2b3641; }
  .p50 { stroke: #5cc4ee; } .p99 { stroke: #ff9a5c; } circle.p50 { fill: #5cc4ee; }
  circle.p99 { fill: #ff9a5c; }
}"""


def curve_svg(curves: Sequence[LoadCurve], title: str) -> str:
    """All curves on one scale: p50 and p99 of the response over what was answered, ms in powers of ten."""
    times_ms = [ms for c in curves for p in c.points for ms in (p.p50_ms, p.p99_ms) if ms > 0]
    low, high = floor(log10(min(times_ms))), ceil(log10(max(times_ms)))
    high = max(high, low + 1)
    most_tps = max(point.tps for curve in curves for point in curve.points)
    height = _HEIGHT + _LINE * len(curves)

    def x(tps: float) -> float:
        return _LEFT + tps / most_tps * (_WIDTH - _LEFT - _RIGHT)

    def y(ms: float) -> float:
        share = (log10(max(ms, 10**low)) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
        f' height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        f'<text x="{_LEFT}" y="22">response over answered TPS: p50 and, above it, p99</text>',
        f'<text class="dim" x="{_LEFT}" y="40">from when each transaction was due; ms, log scale</text>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="dim" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    for part in range(5):
        tps = most_tps * part / 4
        parts.append(
            f'<text class="dim" x="{x(tps):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
            f"{tps:,.0f}</text>"
        )
    for at_line, curve in enumerate(curves):
        for name in ("p50", "p99"):
            dots = [(x(p.tps), y(getattr(p, f"{name}_ms"))) for p in curve.points]
            line = "L".join(f"{a:.1f} {b:.1f}" for a, b in dots)
            parts.append(f'<path class="{name}" d="M{line}"/>')
            parts += [f'<circle class="{name}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in dots]
        if curve.knee is not None:
            parts.append(f'<path class="knee" d="M{x(curve.knee.tps):.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        foot = _HEIGHT - 16 + _LINE * at_line
        parts.append(f'<text x="{_LEFT}" y="{foot}">{escape(curve.words)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

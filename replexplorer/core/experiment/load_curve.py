"""Response time over throughput: what a sweep of arrival rates draws as one curve.

Law: a point is one cell in the open loop, its response times counted from when each transaction was due, so
that a queue shows. The system is saturated where it answers fewer than arrive; the knee is the last rate
before the p99 is more than `KNEE` times that of the lowest rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from replexplorer.core.experiment.sweep import Grid
from replexplorer.core.experiment.sweep_runs import CellFigures
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Place
from replexplorer.core.stats.histogram import Histogram

KNEE: Final = 2.0
"""Times the p99 of the lowest rate."""
_ANSWERED: Final = 0.95
"""Of what arrives: with less the rest queues. A run's arrivals are Poisson, so a few percent say nothing."""
_LEAST_POINTS: Final = 3


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One arrival rate."""

    asked_tps: float
    tps: float
    """Answered."""
    p50_ms: float
    p99_ms: float
    """Of the response."""

    @property
    def is_saturated(self) -> bool:
        """It answers fewer than arrive."""
        return self.tps < _ANSWERED * self.asked_tps


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """All rates under the same other settings, the lowest first."""

    label: str
    """The settings that are varied beside the rate; empty where none is."""
    points: tuple[CurvePoint, ...]

    @property
    def saturation_tps(self) -> float | None:
        """The most that was answered, where more arrived; None where every rate was answered."""
        return max(p.tps for p in self.points) if any(p.is_saturated for p in self.points) else None

    @property
    def knee(self) -> CurvePoint | None:
        """The last point before the p99 leaves that of the lowest rate; None where it never does."""
        least_ms = self.points[0].p99_ms
        for before, point in zip(self.points, self.points[1:], strict=False):
            if point.is_saturated or point.p99_ms > KNEE * least_ms:
                return before
        return None

    @property
    def words(self) -> str:
        """Knee and saturation in one line."""
        first, last, knee, most = self.points[0], self.points[-1], self.knee, self.saturation_tps
        if first.is_saturated:
            told = f"saturated from the lowest rate on: {most:,.0f} TPS of {first.asked_tps:,.0f} asked"
        elif knee is None:
            told = f"no knee up to {last.tps:,.0f} TPS: p99 stays below {KNEE:g} times {first.p99_ms:.1f} ms"
        else:
            told = f"knee at {knee.tps:,.0f} TPS (p99 {knee.p99_ms:.1f} ms)"
            told += f", saturated at {most:,.0f} TPS" if most is not None else ", not saturated yet"
        return f"{self.label}: {told}" if self.label else told


def curves_of(grid: Grid, figures: Sequence[CellFigures]) -> tuple[LoadCurve, ...]:
    """A curve for each combination of what is varied beside the rate; none where fewer than three rates
    were measured in the open loop."""
    rate = KnobName(keys.RATE, Place.LOAD)
    beside = [at for at, each in enumerate(grid.dimensions) if rate not in each.names]
    shown = [at for at in beside if len(grid.dimensions[at].choices) > 1]
    found: dict[tuple[int, ...], list[CurvePoint]] = {}
    labels: dict[tuple[int, ...], str] = {}
    for each in figures:
        response = Histogram.merged(run.response for run in each.good)
        if rate not in each.cell.values or not response.count or not each.tps.value:
            continue
        place = tuple(each.cell.choices[at] for at in beside)
        labels[place] = " ".join(f"{grid.dimensions[at].key}={each.cell.labels[at]}" for at in shown)
        found.setdefault(place, []).append(
            CurvePoint(
                float(each.cell.values[rate]),
                each.tps.value,
                response.percentile_ms(50) or 0.0,
                response.percentile_ms(99) or 0.0,
            )
        )
    return tuple(
        LoadCurve(labels[place], tuple(sorted(points, key=lambda point: point.asked_tps)))
        for place, points in found.items()
        if len(points) >= _LEAST_POINTS
    )


def curve_lines(curve: LoadCurve, width: int = 60, height: int = 12) -> list[str]:
    """The curve in plain characters: TPS across, response in ms up (log scale), `o` p50 and `#` p99, `*`
    both."""
    times_ms = [ms for point in curve.points for ms in (point.p50_ms, point.p99_ms) if ms > 0]
    most_tps = max(point.tps for point in curve.points)
    low_ms, high_ms = min(times_ms), max(max(times_ms), 1.01 * min(times_ms))
    field = [[" "] * width for _ in range(height)]
    for point in curve.points:
        column = round(point.tps / most_tps * (width - 1))
        for ms, sign in ((point.p50_ms, "o"), (point.p99_ms, "#")):
            row = round(log(max(ms, low_ms) / low_ms) / log(high_ms / low_ms) * (height - 1))
            taken = field[height - 1 - row][column]
            field[height - 1 - row][column] = sign if taken in (" ", sign) else "*"
    ends = {0: f"{high_ms:,.1f}", height - 1: f"{low_ms:,.1f}"}
    left = max(map(len, ends.values()))
    most = f"{most_tps:,.0f} TPS"
    return [
        "response ms over answered TPS: o p50, # p99, * both (log scale)",
        *(f"{ends.get(at, ''):>{left}} |{''.join(row).rstrip()}" for at, row in enumerate(field)),
        f"{'':>{left}} +{'-' * width}",
        f"{'':>{left}}  0{most:>{width - 1}}",
        curve.words,
    ]

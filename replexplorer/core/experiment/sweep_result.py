"""What a sweep shows: what each knob did by itself, response time over throughput, a heat map of two knobs.

Laws. Two neighbouring values of a knob are compared in pairs of cells that are equal in all else:
the difference of log TPS of each pair, their mean as a ratio (a geometric mean), and Student's t
interval over the pairs (a paired comparison; Box, Hunter & Hunter, Statistics for Experimenters,
3.2). One pair alone has the interval of its two cells (Welch). An interval that holds 1 shows no
difference, unless each of several pairs shows one of the same direction by itself: then the effect
depends on the other knobs, and the range over the pairs is shown instead. Effects are not corrected
for each other: of twenty idle knobs one may be claimed.

A point of the load curve is one cell in the open loop, its response times counted from when each transaction
was due, so that a queue shows. The system is saturated where it answers fewer than arrive; the knee is the
last rate before the p99 is more than `KNEE` times that of the lowest rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Dimension, Grid, Sweep
from replexplorer.core.experiment.sweep_runs import (
    CellFigures,
    Mean,
    SweptRun,
    figures_of,
    mean_of,
    passes_needed,
)
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Place, Value
from replexplorer.core.model.fit import Region
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.ratio import interval_text, ratio_text, times_text
from replexplorer.core.system import Conditions
from replexplorer.core.text import number, utc

NO_DIFFERENCE: Final = "no difference shown"


@json_keys(show="words")
@dataclass(frozen=True, slots=True)
class Effect:
    """What going from one value of a knob to its neighbour did to TPS, all else equal."""

    key: str
    before: str
    after: str
    pairs: int
    """Pairs of cells that were compared."""
    passes: int
    """Runs of each of these cells at least."""
    left_out: int = 0
    """Pairs that could not be: a cell of them failed."""
    ratio: float | None = None
    """TPS after / before, the geometric mean over the pairs; None without a pair."""
    low: float | None = None
    high: float | None = None
    """95 %; None: unknown."""
    least: float | None = None
    most: float | None = None
    """The range over the pairs."""
    verdict: str = "not measured"
    """faster, slower, no difference shown, not measured, no interval (one pair without a scatter);
    faster in every pair, slower in every pair (by how much depends on the other knobs)."""

    @property
    def words(self) -> str:
        """`clients 8 → 32: x3.1 [2.9, 3.3], 3.1 times faster, in 4 pairs`."""
        title = f"{self.key} {_change(self.before, self.after)}"
        if self.ratio is None:
            return f"{title}: not measured, {self.left_out} pairs had a run that failed"
        count = f"in {self.pairs} pair{'s' if self.pairs > 1 else ''}"
        if self.passes > 1:
            count += f" of {self.passes} passes"
        if self.left_out:
            count += f", {self.left_out} left out"
        if self.verdict.endswith("every pair"):
            return (
                f"{title}: {ratio_text(self.ratio)}, from {ratio_text(self.least)} to"
                f" {ratio_text(self.most)}: {self.verdict}, {count}; how much depends on the other knobs"
            )
        if self.low is None and self.high is None:
            return f"{title}: {ratio_text(self.ratio)} without an interval ({count})"
        bounds = (self.ratio, self.low, self.high)
        effect = f"{ratio_text(*bounds)} {interval_text(*bounds)}"
        if self.verdict == NO_DIFFERENCE:
            return f"{title}: {NO_DIFFERENCE} ({effect}, {count})"
        return f"{title}: {effect}, {times_text(self.ratio, self.verdict)}, {count}"


def effects_of(grid: Grid, figures: Sequence[CellFigures]) -> tuple[Effect, ...]:
    """The effect of each step of each knob; see the module's law for the method."""
    by_choices = {each.cell.choices: each for each in figures}
    found: list[Effect] = []
    for at, dimension in enumerate(grid.dimensions):
        for step in range(len(dimension.choices) - 1):
            pairs = [
                (each, by_choices[(*choices[:at], step + 1, *choices[at + 1 :])])
                for choices, each in by_choices.items()
                if choices[at] == step
            ]
            found.append(_effect(dimension, step, pairs))
    return tuple(found)


def _effect(dimension: Dimension, step: int, pairs: Sequence[tuple[CellFigures, CellFigures]]) -> Effect:
    before, after = dimension.choices[step].label, dimension.choices[step + 1].label
    logs = [(old.log_tps, new.log_tps) for old, new in pairs]
    known = [_difference(old, new) for old, new in logs if old is not None and new is not None]
    passes = min((len(each.good) for pair in pairs for each in pair if each.good), default=0)
    left_out = len(pairs) - len(known)
    if not known:
        return Effect(dimension.key, before, after, 0, passes, left_out)
    each = [pair.value for pair in known]
    whole = known[0] if len(known) == 1 else mean_of(each)
    interval = whole.interval
    return Effect(
        dimension.key,
        before,
        after,
        len(known),
        passes,
        left_out,
        exp(whole.value),
        None if interval is None else _ratio(interval[0]),
        None if interval is None else _ratio(interval[1]),
        exp(min(each)),
        exp(max(each)),
        _verdict(interval, known),
    )


def _difference(old: Mean, new: Mean) -> Mean:
    """Of a pair, with Welch's degrees of freedom."""
    value = new.value - old.value
    if old.variance is None or new.variance is None:
        return Mean(value, None, 0.0)
    total = old.variance + new.variance
    if not total:
        return Mean(value, 0.0, min(old.freedom, new.freedom))
    freedom = total**2 / (old.variance**2 / old.freedom + new.variance**2 / new.freedom)
    return Mean(value, total, freedom)


def _verdict(interval: tuple[float, float] | None, pairs: Sequence[Mean]) -> str:
    if interval is not None and interval[0] > 0:
        return "faster"
    if interval is not None and interval[1] < 0:
        return "slower"
    if len(pairs) > 1:
        own = [pair.interval for pair in pairs]
        if all(each is not None and each[0] > 0 for each in own):
            return "faster in every pair"
        if all(each is not None and each[1] < 0 for each in own):
            return "slower in every pair"
    return "no interval" if interval is None else NO_DIFFERENCE


def _ratio(difference: float) -> float | None:
    """Of a difference of logs; None where it is beyond any meaning."""
    return exp(difference) if abs(difference) < 50 else None


def _change(before: str, after: str) -> str:
    """`0 → 10 ms`: a unit that both have is written once."""
    number, space, unit = before.partition(" ")
    return f"{number if space and after.endswith(f' {unit}') else before} → {after}"


KNEE: Final = 2.0
"""Times the p99 of the lowest rate."""
_ANSWERED: Final = 0.95
"""Of what arrives: with less the rest queues. A run's arrivals are Poisson, so a few percent say nothing."""
_LEAST_POINTS: Final = 3
_SHADES: Final = "░▒▓█"
"""From the least warmth to the most."""


@json_keys(show="is_saturated", p50_ms="response_p50_ms", p99_ms="response_p99_ms", is_saturated="saturated")
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


@json_keys(show="knee_tps saturation_tps words")
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
    def knee_tps(self) -> float | None:
        """The TPS of the knee."""
        return None if self.knee is None else self.knee.tps

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


def _geometric(values: Sequence[float]) -> float:
    return 0.0 if 0.0 in values else exp(sum(map(log, values)) / len(values))


def _tps(each: CellFigures) -> float | None:
    return each.tps.value


def _at_risk(each: CellFigures) -> float | None:
    return each.at_risk


@dataclass(frozen=True, slots=True)
class HeatFigure:
    """What a map shows."""

    title: str
    words: str
    mean_words: str
    """How a field's cells are averaged."""
    read: Callable[[CellFigures], float | None]
    mean: Callable[[Sequence[float]], float]


TPS: Final = HeatFigure(
    "TPS", "TPS (commits per second)", "geometric mean over the other knobs", _tps, _geometric
)
AT_RISK: Final = HeatFigure(
    "commits at risk",
    "commits that the worst failure would lose",
    "mean over the other knobs",
    _at_risk,
    fmean,
)


@dataclass(frozen=True, slots=True)
class Heat:
    """One field of the map."""

    value: float | None
    """Mean over the cells that count; None while there is none."""
    cells: int
    """Cells that count."""
    of: int
    """Cells that there are."""

    @property
    def text(self) -> str:
        """The figure; a star where some of its cells do not count."""
        if self.value is None:
            return "-"
        star = "*" if self.cells < self.of else ""
        return f"{number(self.value, 1 if self.value < 1000 else 0)}{star}"


@json_keys(
    hide="figure rows columns fields",
    show="row_key column_key row_values column_values tps commits",
    row_key="rows",
    column_key="columns",
)
@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure by two knobs."""

    figure: HeatFigure
    rows: Dimension
    columns: Dimension
    fields: tuple[tuple[Heat, ...], ...]
    """By row, then by column."""

    @property
    def row_key(self) -> str:
        """The knob of the rows."""
        return self.rows.key

    @property
    def column_key(self) -> str:
        """The knob of the columns."""
        return self.columns.key

    @property
    def row_values(self) -> Sequence[str]:
        """Its values as they are shown."""
        return [choice.label for choice in self.rows.choices]

    @property
    def column_values(self) -> Sequence[str]:
        """Its values as they are shown."""
        return [choice.label for choice in self.columns.choices]

    @property
    def tps(self) -> Sequence[Sequence[float | None]] | None:
        """By row and column, the geometric mean over the other knobs; None of another figure."""
        return self._values if self.figure is TPS else None

    @property
    def commits(self) -> Sequence[Sequence[float | None]] | None:
        """Acknowledged ones that the worst failure would have lost, the mean over the other knobs; None of
        another figure."""
        return self._values if self.figure is AT_RISK else None

    @property
    def _values(self) -> Sequence[Sequence[float | None]]:
        return [[each.value for each in row] for row in self.fields]

    @property
    def is_partial(self) -> bool:
        """Whether a field has a star."""
        return any(each.value is not None and each.cells < each.of for row in self.fields for each in row)

    @property
    def lines(self) -> Sequence[str]:
        """In plain characters: shaded blocks with the figures, columns two spaces apart."""
        body = [
            [label, *(f"{self._shade(each) * 2} {each.text}" for each in row)]
            for label, row in zip(self.row_values, self.fields, strict=True)
        ]
        head = ["", *self.column_values]
        widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
        return [
            f"{self.figure.title}: {self.rows.key} down, {self.columns.key} across",
            *(
                "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                for line in (head, *body)
            ),
            *(["* without cells that do not count"] if self.is_partial else []),
        ]

    def _shade(self, field: Heat) -> str:
        warmth = self.warmth(field)
        return " " if warmth is None else _SHADES[min(3, int(warmth * 4))]

    def warmth(self, field: Heat) -> float | None:
        """0 for the least of the map to 1 for the most, on a log scale; None where nothing is known."""
        if not field.value:
            return None if field.value is None else 0.0
        known = [log(each.value) for row in self.fields for each in row if each.value]
        low, high = min(known), max(known)
        return (log(field.value) - low) / (high - low) if high > low else 1.0


def mapped(grid: Grid, keys: Sequence[str] | None) -> tuple[Dimension, Dimension] | None:
    """The two dimensions of the map; by default those with the most values, in the sweep's order.

    None where fewer than two knobs vary. Raises UsageError for a key that is not swept.
    """
    if keys is not None:
        if len(keys) != 2:
            raise UsageError(f"a heat map has two knobs, not {len(keys)}", "give --map KEY,KEY")
        rows, columns = (grid.dimension(key.strip()) for key in keys)
        if rows is columns:
            raise UsageError(f"{rows.key} is given twice for the heat map", "give two knobs of the sweep")
        return rows, columns
    most = sorted(grid.varied, key=lambda dimension: -len(dimension.choices))[:2]
    if len(most) < 2:
        return None
    rows, columns = (dimension for dimension in grid.dimensions if dimension in most)
    return rows, columns


def heat_map(
    grid: Grid, figures: Sequence[CellFigures], keys: Sequence[str] | None = None, figure: HeatFigure = TPS
) -> HeatMap | None:
    """The map of two dimensions (`mapped`)."""
    chosen = mapped(grid, keys)
    if chosen is None:
        return None
    rows, columns = chosen
    down, across = grid.dimensions.index(rows), grid.dimensions.index(columns)
    fields = [
        [
            _heat(
                [
                    each
                    for each in figures
                    if each.cell.choices[down] == row and each.cell.choices[across] == column
                ],
                figure,
            )
            for column in range(len(columns.choices))
        ]
        for row in range(len(rows.choices))
    ]
    return HeatMap(figure, rows, columns, tuple(tuple(row) for row in fields))


def risk_map(grid: Grid, figures: Sequence[CellFigures], keys: Sequence[str] | None = None) -> HeatMap | None:
    """The map of what is at risk; None where nothing at all is known of it, or nothing was."""
    heat = heat_map(grid, figures, keys, AT_RISK)
    return heat if heat is not None and any(each.value for row in heat.fields for each in row) else None


def _heat(figures: Sequence[CellFigures], figure: HeatFigure) -> Heat:
    known = [value for each in figures if each.good and (value := figure.read(each)) is not None]
    return Heat(figure.mean(known) if known else None, len(known), len(figures))


@json_keys(
    hide="sweep runs started_wall_s ended_wall_s keys",
    show="text started ended duration_s repeat knobs passes_needed cells effects heat_map risk_map curves",
    text="sweep",
    resumed="resumed_runs",
)
@dataclass(slots=True)
class Swept:
    """A finished sweep."""

    sweep: Sweep
    seed: int
    runs: tuple[SweptRun, ...]
    server: str
    started_wall_s: float
    """Its first run, maybe before a kill."""
    ended_wall_s: float
    resumed: int
    """Runs made before this command, which continued the sweep."""
    journal: str | None
    """The file that has all of it."""
    keys: Sequence[str] | None = None
    """The heat map's knobs; None: those with the most values."""
    calibration: str | None = None
    """What the model learned from it, in words."""
    prediction: Sequence[Region] = ()
    """How far off the model is, by region."""
    conditions: Conditions | None = None
    """Its settings are those not swept."""
    workload: str | None = None
    scenes: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """The knobs of each swept scene."""
    again: Sequence[str] = ()
    """The commands that run the same elsewhere."""

    @property
    def text(self) -> str:
        """The grid as it is typed."""
        return self.sweep.grid.text

    @property
    def started(self) -> str:
        """When its first run began, UTC."""
        return utc(self.started_wall_s)

    @property
    def ended(self) -> str:
        """When its last run ended, UTC."""
        return utc(self.ended_wall_s)

    @property
    def duration_s(self) -> float:
        """Measured in each run."""
        return self.sweep.duration_s

    @property
    def repeat(self) -> int:
        """Passes over all cells."""
        return self.sweep.repeats

    @property
    def knobs(self) -> Sequence[Dimension]:
        """What was swept."""
        return self.sweep.grid.dimensions

    @property
    def cells(self) -> Sequence[CellFigures]:
        """What each came to."""
        return figures_of(self.sweep.grid, self.runs)

    @property
    def passes_needed(self) -> int | None:
        """About, for TPS within 30 % at this noise; None before a second pass."""
        return passes_needed(self.cells)

    @property
    def effects(self) -> Sequence[Effect]:
        """What each knob did by itself."""
        return effects_of(self.sweep.grid, self.cells)

    @property
    def heat_map(self) -> HeatMap | None:
        """TPS by two knobs."""
        return heat_map(self.sweep.grid, self.cells, self.keys)

    @property
    def risk_map(self) -> HeatMap | None:
        """Commits at risk by two knobs."""
        return risk_map(self.sweep.grid, self.cells, self.keys)

    @property
    def curves(self) -> Sequence[LoadCurve]:
        """Of a sweep of three rates or more."""
        return curves_of(self.sweep.grid, self.cells)

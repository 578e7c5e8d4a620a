"""What a sweep found: its runs cell by cell, what each knob did by itself, a heat map of two knobs.

Laws. A cell's TPS has a 95 % interval: of one run from the batch means within it (`batch_means`), of several
from how they differ (t), on a logarithmic scale in both: a rate is never below 0. A run that failed counts
for nothing; what is not known is None. Histograms of repeats are merged.

Two neighbouring values of a knob are compared in pairs of cells that are equal in all else: the
geometric mean of the ratios of their TPS, with Student's t interval over the pairs' logarithms (a paired
comparison; Box, Hunter & Hunter, Statistics for Experimenters, 3.2). One pair alone lies between the ends
of its two cells' intervals, which is wider than 95 %. An interval that holds 1 shows no difference, unless
each of several pairs shows one of the same direction by itself: then the effect depends on the other knobs,
and the range over the pairs is shown instead. Effects are not corrected for each other: of twenty idle
knobs one may be claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt
from statistics import fmean, geometric_mean, variance
from typing import Any, Final

from replexplorer.core.experiment.experiment import ExperimentResult
from replexplorer.core.experiment.sweep import Cell, Dimension, Grid, Sweep
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import Value
from replexplorer.core.model.prediction import minute_lag_s
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.server.exposure import Exposure, over_time
from replexplorer.core.server.truth import Lag
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate, bounds_of, t_quantile_975
from replexplorer.core.stats.ratio import Ratio, interval_text, ratio_text, repeated, times_text
from replexplorer.core.text import number, table, utc

_KNOWN_WITHIN: Final = 1.3
_MOST_PASSES: Final = 1000
_WIDE_PERCENT: Final = 30
"""From here on an interval is not nearly as wide on both sides."""
ATTEMPTS: Final = 2
"""Times that a cell is tried in a pass."""


@json_keys(
    hide="cell block started_wall_s tps variance freedom service response setting applier",
    show="block=number started tps=interval n=service.count latency_ms=service.latency"
    " response_ms=response.latency",
    why="failed",
    rtt_ms="rtt_measured_ms",
    fsync_ms="fsync_measured_ms",
    cpu_percent="generator_cpu_percent",
    anatomy="anatomy_ms",
    cost="commit_cost",
    lag="lag_s",
)
@frozen
class SweptRun:
    """One run of one cell."""

    cell: int
    block: int
    """The pass, from 0."""
    attempt: int
    """1, or 2 when the first failed."""
    started_wall_s: float
    took_s: float
    """With turning the knobs and settling."""
    why: str | None = None
    """Why its figures do not count; None: they do."""
    limited: str | None = None
    """What of the load's own or of this machine may have been the limit; the figures count."""
    tps: float | None = None
    variance: float | None = None
    """Of the TPS, from batch means; None: too few batches."""
    freedom: float = 0.0
    duration_s: float = 0.0
    """What was measured."""
    service: Histogram = field(default_factory=Histogram)
    """Send to reply."""
    response: Histogram | None = None
    """Intended start to reply; None in the closed loop."""
    errors: int = 0
    unknown: int = 0
    rtt_ms: float | None = None
    """Measured: what a commit waits for."""
    fsync_ms: float | None = None
    cpu_percent: float | None = None
    """Of the generator."""
    protection: str | None = None
    """Its state; None where nothing was seen."""
    effective: Mapping[str, Value | None] = field(default_factory=dict)
    setting: Mapping[str, Any] | None = None
    """What the model looks at (`OperatingPoint`); None in the open loop."""
    applier: Mapping[str, Any] | None = None
    """The same of the replica that `lag` is of."""
    anatomy: Mapping[str, float] | None = None
    """Milliseconds a commit by part; None where it was not measured."""
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile; None where that was not looked at."""
    cost: CommitCost | None = None
    """What a commit cost the servers; None where it is not known."""
    lag: Lag | None = None
    """How far replicas were behind; None where none says."""

    @property
    def words(self) -> str:
        """What it came to: `312.4 TPS ±4 %`."""
        result = f"{number(self.tps)} TPS {scatter(self.interval)}".rstrip()
        if self.why is not None:
            result = f"failed: {self.why}"
        elif self.limited is not None:
            result += f" ({self.limited})"
        return result if self.is_final else f"{result}, to be tried again"

    @property
    def number(self) -> int:
        """The pass over all cells, from 1."""
        return self.block + 1

    @property
    def started(self) -> str:
        """When it began, UTC."""
        return utc(self.started_wall_s)

    @property
    def is_final(self) -> bool:
        """Whether its cell is not tried again in this pass.

        A run on a machine that is short of CPU counts: two servers and a load on few cores always are.
        """
        return self.attempt >= ATTEMPTS or self.why is None

    @property
    def interval(self) -> Estimate:
        """The TPS with the interval within the run."""
        if self.tps is None or self.variance is None:
            return Estimate(self.tps)
        errors = t_quantile_975(self.freedom)
        return Estimate(self.tps, *bounds_of(self.tps, self.variance, errors, self.duration_s))


def scatter(estimate: Estimate) -> str:
    """`±4 %`: half the interval's width; `[57.0, 193.0]` where it is wide, and empty when it is not known."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if not value or low is None or high is None:
        return ""
    percent = 100 * max(high - value, value - low) / value
    if percent > _WIDE_PERCENT:
        return f"[{number(low)}, {number(high)}]"
    return f"±{percent:.2g} %" if percent < 10 else f"±{percent:.0f} %"


@json_keys(
    hide="cell",
    show="settings=cell.values labels=cell.labelled tps latency_ms=service.latency n=service.count errors"
    " rtt_measured_ms=rtt_ms fsync_measured_ms=fsync_ms exposure commit_cost=cost lag_s=lag minute_lag_s"
    " failed=why limited",
)
@frozen
class CellFigures:
    """One cell with what its runs say together."""

    cell: Cell
    runs: tuple[SweptRun, ...]
    """All that were made, failed ones too."""

    @property
    def rtt_ms(self) -> float | None:
        """Measured, the mean over the runs; None when unknown."""
        return _mean(run.rtt_ms for run in self.shown)

    @property
    def fsync_ms(self) -> float | None:
        """Measured, the mean over the runs; None when unknown."""
        return _mean(run.fsync_ms for run in self.shown)

    @property
    def cpu_percent(self) -> float | None:
        """Of the generator, the mean over the runs; None when unknown."""
        return _mean(run.cpu_percent for run in self.shown)

    @property
    def good(self) -> tuple[SweptRun, ...]:
        """Those that count: of each pass the one that did not fail."""
        return tuple(run for run in self.runs if run.why is None and run.tps is not None)

    @property
    def shown(self) -> tuple[SweptRun, ...]:
        """Those whose figures are shown: those that count, else what the last failed one measured."""
        return self.good or tuple(run for run in self.runs[-1:] if run.tps is not None)

    @property
    def why(self) -> str | None:
        """Why no figure of this cell counts; None while one does, and before the first run."""
        return self.runs[-1].why if self.runs and not self.good else None

    @property
    def limited(self) -> str | None:
        """What may have limited a run that counts; None: nothing."""
        return next((run.limited for run in self.good if run.limited is not None), None)

    @property
    def tps(self) -> Estimate:
        """With its 95 % interval."""
        runs = self.shown
        if len(runs) < 2:
            return runs[0].interval if runs else Estimate()
        rates = [run.tps or 0.0 for run in runs]
        found = repeated(rates)
        return Estimate(fmean(rates)) if found is None else Estimate(found.value, found.low, found.high)

    @property
    def service(self) -> Histogram:
        """All commits."""
        return Histogram.merged(run.service for run in self.shown)

    @property
    def errors(self) -> int:
        """Transactions that came to nothing or whose outcome is unknown."""
        return sum(run.errors + run.unknown for run in self.shown)

    @property
    def exposure(self) -> Exposure | None:
        """What a failure would have lost, of all runs; None where that was not looked at."""
        return over_time([run.exposure for run in self.shown if run.exposure is not None])

    @property
    def cost(self) -> CommitCost | None:
        """What a commit of the last run that knows it cost the servers; None where none does."""
        return next((run.cost for run in reversed(self.shown) if run.cost is not None), None)

    @property
    def lag(self) -> Lag | None:
        """Of the run in which a replica was farthest behind at the end; None where none says."""
        known = [run.lag for run in self.shown if run.lag is not None]
        return max(known, key=lambda lag: lag.end, default=None)

    @property
    def applied_tps(self) -> float | None:
        """What that replica applied a second while it was late, the mean over the runs."""
        if self.lag is None:
            return None
        lags = (run.lag for run in self.shown if run.lag is not None)
        return _mean(lag.applied_tps for lag in lags if lag.replica == self.lag.replica)

    @property
    def minute_lag_s(self) -> float | None:
        """What a minute of this load leaves of that replica's work (`prediction.ReplicaLag`), whatever the
        runs before had left; None where it never was late."""
        if self.applied_tps is None or not self.tps.value:
            return None
        return minute_lag_s(self.applied_tps, self.tps.value)


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None: none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _noise(figures: Sequence[CellFigures]) -> float | None:
    """How far the runs of a cell are apart: the pooled variance of their logarithms over all cells; None
    before a second pass."""
    logs = [[log(run.tps) for run in each.good if run.tps] for each in figures]
    known = [each for each in logs if len(each) > 1]
    if not known:
        return None
    squares = sum(variance(each) * (len(each) - 1) for each in known)
    return squares / sum(len(each) - 1 for each in known)


def passes_needed(figures: Sequence[CellFigures]) -> int | None:
    """After about how many passes a cell's TPS is known within 30 %, by how far the runs of all cells were
    apart, with Student's t for as many runs of one cell. None before a second pass."""
    square = _noise(figures)
    if square is None:
        return None
    passes = 2
    while t_quantile_975(passes - 1) * sqrt(square / passes) > log(_KNOWN_WITHIN) and passes < _MOST_PASSES:
        passes += 1
    return passes


def figures_of(grid: Grid, runs: Sequence[SweptRun]) -> tuple[CellFigures, ...]:
    """The runs by cell, in the grid's order."""
    by_cell: dict[int, list[SweptRun]] = {}
    for run in runs:
        by_cell.setdefault(run.cell, []).append(run)
    return tuple(CellFigures(cell, tuple(by_cell.get(cell.index, ()))) for cell in grid.cells)


NO_DIFFERENCE: Final = "no difference shown"


@json_keys(show="words")
@frozen
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
    passes_needed: int | None = None
    """Where no difference is shown: after about how many passes that are as far apart as these this ratio
    would be told from 1; None: not known, or after no number of them."""

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
            more = ""
            if self.passes > 1:
                more = "; more passes would not show one"
                if self.passes_needed is not None:
                    more = f"; about {self.passes_needed} passes would show it, if there is one"
            return f"{title}: {NO_DIFFERENCE} ({effect}, {count}{more})"
        return f"{title}: {effect}, {times_text(self.ratio, self.verdict)}, {count}"


def effects_of(grid: Grid, figures: Sequence[CellFigures]) -> tuple[Effect, ...]:
    """The effect of each step of each knob; see the module's law for the method."""
    by_choices = {each.cell.choices: each for each in figures}
    found: list[Effect] = []
    square = _noise(figures)
    for at, dimension in enumerate(grid.dimensions):
        for step, (before, after) in enumerate(pairwise(dimension.labels)):
            pairs = [
                (each, by_choices[(*choices[:at], step + 1, *choices[at + 1 :])])
                for choices, each in by_choices.items()
                if choices[at] == step
            ]
            ratios = [ratio for pair in pairs if (ratio := _ratio(*pair)) is not None]
            passes = min((len(each.good) for pair in pairs for each in pair if each.good), default=0)
            effect = Effect(dimension.key, before, after, len(ratios), passes, len(pairs) - len(ratios))
            if ratios:
                effect = _judged(effect, ratios)
                effect = replace(effect, passes_needed=_passes_to_tell(effect, ratios, square))
            found.append(effect)
    return tuple(found)


def _judged(effect: Effect, ratios: Sequence[Ratio]) -> Effect:
    """The effect with what its pairs say together."""
    each = [ratio.value or 0.0 for ratio in ratios]
    whole = repeated(each) or ratios[0]
    signs = {ratio.sign for ratio in ratios}
    if whole.sign:
        verdict = _DIRECTIONS[whole.sign]
    elif len(ratios) > 1 and len(signs) == 1 and 0 not in signs:
        verdict = f"{_DIRECTIONS[signs.pop()]} in every pair"
    else:
        verdict = "no interval" if whole.low is None and whole.high is None else NO_DIFFERENCE
    return replace(
        effect,
        ratio=whole.value,
        low=whole.low,
        high=whole.high,
        least=min(each),
        most=max(each),
        verdict=verdict,
    )


def _passes_to_tell(effect: Effect, ratios: Sequence[Ratio], square: float | None) -> int | None:
    """See `Effect.passes_needed`; the interval as `effects_of` makes it, from the runs' noise `square`. What
    pairs differ by besides, because the effect depends on the other knobs, no further pass makes smaller."""
    if square is None or effect.verdict != NO_DIFFERENCE or not effect.ratio:
        return None
    pairs, apart = len(ratios), 0.0
    if pairs > 1:
        apart = variance(log(each.value or 1.0) for each in ratios)
        apart = max(0.0, apart - 2 * square / effect.passes)
    for passes in range(max(2, effect.passes + 1), _MOST_PASSES):
        half = 2 * t_quantile_975(passes - 1) * sqrt(square / passes)
        if pairs > 1:
            half = t_quantile_975(pairs - 1) * sqrt((apart + 2 * square / passes) / pairs)
        if half < abs(log(effect.ratio)):
            return passes
    return None


_DIRECTIONS: Final = {1: "faster", -1: "slower"}


def _ratio(old: CellFigures, new: CellFigures) -> Ratio | None:
    """TPS of a cell over that of another, between what the ends of their intervals allow; None where no run
    of one counts, or nothing was committed."""
    before, after = old.tps, new.tps
    if not (old.good and new.good and before.value and after.value):
        return None
    low = after.low / before.high if after.low is not None and before.high else None
    high = after.high / before.low if after.high is not None and before.low else None
    return Ratio(after.value / before.value, low, high)


def _change(before: str, after: str) -> str:
    """`0 → 10 ms`: a unit that both have is written once."""
    number, space, unit = before.partition(" ")
    return f"{number if space and after.endswith(f' {unit}') else before} → {after}"


_SHADES: Final = "░▒▓█"
"""From the least warmth to the most."""


@frozen
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
        return f"{number(self.value, 1 if self.value < 1000 else 0)}{'*' * (self.cells < self.of)}"


@json_keys(
    hide="rows columns fields",
    show="rows=rows.key columns=columns.key row_values=rows.labels column_values=columns.labels tps",
)
@frozen
class HeatMap:
    """TPS by two knobs."""

    rows: Dimension
    columns: Dimension
    fields: tuple[tuple[Heat, ...], ...]
    """By row, then by column."""

    @property
    def tps(self) -> Sequence[Sequence[float | None]]:
        """By row and column, the geometric mean over the other knobs."""
        return [[each.value for each in row] for row in self.fields]

    @property
    def lines(self) -> Sequence[str]:
        """In plain characters: shaded blocks with the figures."""
        rows = [
            (label, *(f"{self._shade(each) * 2} {each.text}" for each in row))
            for label, row in zip(self.rows.labels, self.fields, strict=True)
        ]
        has_star = any(each.text.endswith("*") for row in self.fields for each in row)
        heads = ("", *self.columns.labels)
        drawn = table(rows, heads, range(len(heads))).splitlines()
        return [
            f"TPS: {self.rows.key} down, {self.columns.key} across",
            *drawn,
            *(["* without cells that do not count"] * has_star),
        ]

    def _shade(self, field: Heat) -> str:
        warmth = self.warmth(field)
        return " " if warmth is None else _SHADES[min(3, int(warmth * 4))]

    def warmth(self, field: Heat) -> float | None:
        """0 for the least of the map to 1 for the most, on a log scale; None where nothing is known."""
        if not field.value:
            return field.value
        known = [log(each.value) for row in self.fields for each in row if each.value]
        low, high = min(known), max(known)
        return (log(field.value) - low) / (high - low) if high > low else 1.0


def heat_map(grid: Grid, figures: Sequence[CellFigures]) -> HeatMap | None:
    """The map of the two dimensions with the most values, in the sweep's order; None where fewer vary."""
    most = sorted(grid.varied, key=lambda dimension: -len(dimension.choices))[:2]
    if len(most) < 2:
        return None
    chosen = rows, columns = [dimension for dimension in grid.dimensions if dimension in most]
    by_field: dict[tuple[int, ...], list[CellFigures]] = {}
    at = [grid.dimensions.index(each) for each in chosen]
    for each in figures:
        by_field.setdefault(tuple(each.cell.choices[place] for place in at), []).append(each)
    down, across = (range(len(each.choices)) for each in chosen)
    return HeatMap(
        rows, columns, tuple(tuple(_heat(by_field[row, column]) for column in across) for row in down)
    )


def _heat(figures: Sequence[CellFigures]) -> Heat:
    known = [tps for each in figures if each.good and (tps := each.tps.value) is not None]
    value = (0.0 if 0.0 in known else geometric_mean(known)) if known else None
    return Heat(value, len(known), len(figures))


@json_keys(
    hide="sweep runs started_wall_s ended_wall_s quick aborted relations",
    show="sweep=sweep.name started ended duration_s=sweep.duration_s repeat=sweep.repeats"
    " knobs=sweep.grid.dimensions passes_needed cells effects heat_map",
    resumed="resumed_runs",
)
@dataclass(slots=True)
class Swept(ExperimentResult):
    """A sweep's result; it began with its first run, maybe before a kill."""

    sweep: Sweep
    seed: int
    runs: Sequence[SweptRun]
    ended_wall_s: float = 0.0
    resumed: int = 0
    """Runs made before this command, which continued the sweep."""
    journal: str | None = None
    """The file that has all of it."""
    calibration: str | None = None
    """What the model learned from it, in words."""
    workload: str | None = None
    scenes: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """The knobs of each swept scene."""

    @property
    def experiment(self) -> Sweep:
        """What was run."""
        return self.sweep

    @property
    def started(self) -> str:
        """When its first run began, UTC."""
        return utc(self.started_wall_s)

    @property
    def ended(self) -> str:
        """When its last run ended, UTC."""
        return utc(self.ended_wall_s)

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
        return heat_map(self.sweep.grid, self.cells)

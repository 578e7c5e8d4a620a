"""What a sweep's runs measured, cell by cell, and what each knob by itself did.

Laws. A cell's TPS has a 95 % interval: of one run from the batch means within it (`batch_means`),
of several from how the runs differ (t). A run that failed counts for nothing; what is not known is
None. Histograms of repeats are merged.

Effects. Two neighbouring values of a knob are compared in pairs of cells that are equal in all else:
the difference of log TPS of each pair, their mean as a ratio (a geometric mean), and Student's t
interval over the pairs (a paired comparison; Box, Hunter & Hunter, Statistics for Experimenters,
3.2). One pair alone has the interval of its two cells (Welch). An interval that holds 1 shows no
difference, unless each of several pairs shows one of the same direction by itself: then the effect
depends on the other knobs, and the range over the pairs is told instead. Effects are not corrected
for each other: of twenty idle knobs one may be claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import exp, log, sqrt
from typing import Any, Final, Self

from replexplorer.core.experiment.sweep import Cell, Dimension, Grid
from replexplorer.core.knobs.names import Value
from replexplorer.core.stats.batch_means import Spread
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.stats.student import t_quantile_975

NO_DIFFERENCE: Final = "no difference shown"
ATTEMPTS: Final = 2
"""Times that a cell is tried in a pass."""


@dataclass(frozen=True, slots=True)
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
    response: Histogram = field(default_factory=Histogram)
    """Empty in the closed loop."""
    errors: int = 0
    unknown: int = 0
    rtt_ms: float | None = None
    """Measured: what a commit waits for."""
    fsync_ms: float | None = None
    cpu_percent: float | None = None
    """Of the generator."""
    state: str = ""
    """The protection's."""
    effective: Mapping[str, Value | None] = field(default_factory=dict)
    setting: Mapping[str, Any] | None = None
    """What the model looks at (`core.model.Setting`); None in the open loop."""
    anatomy: Mapping[str, float] | None = None
    """Milliseconds a commit by part; None where it was not measured."""

    def to_wire(self) -> dict[str, Any]:
        """A JSON-ready form that `from_wire` reads back."""
        wire = {each.name: getattr(self, each.name) for each in fields(self)}
        return wire | {"service": self.service.to_wire(), "response": self.response.to_wire()}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        histograms = {name: Histogram.from_wire(wire[name]) for name in ("service", "response")}
        return cls(**{**wire, **histograms})

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
        half = t_quantile_975(self.freedom) * sqrt(self.variance)
        return Estimate(self.tps, max(0.0, self.tps - half), self.tps + half)


def scatter_of(spread: Spread | None) -> tuple[float | None, float]:
    """A run's `variance` and `freedom`."""
    return (None, 0.0) if spread is None else (spread.variance, spread.freedom)


@dataclass(frozen=True, slots=True)
class _Mean:
    """A mean with its scatter; `variance` None: unknown."""

    value: float
    variance: float | None
    freedom: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %; None when the scatter is unknown."""
        if self.variance is None:
            return None
        half = t_quantile_975(self.freedom) * sqrt(self.variance)
        return self.value - half, self.value + half


def _mean(values: Sequence[float]) -> _Mean:
    count = len(values)
    middle = sum(values) / count
    if count < 2:
        return _Mean(middle, None, 0.0)
    square = sum((value - middle) ** 2 for value in values) / (count - 1)
    return _Mean(middle, square / count, count - 1)


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One cell with what its runs say together."""

    cell: Cell
    runs: tuple[SweptRun, ...]
    """All that were made, failed ones too."""

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
        if not runs:
            return Estimate()
        if len(runs) == 1:
            return runs[0].interval
        mean = _mean([run.tps or 0.0 for run in runs])
        low, high = mean.interval or (None, None)
        return Estimate(mean.value, None if low is None else max(0.0, low), high)

    @property
    def service(self) -> Histogram:
        """All commits."""
        return Histogram.merged(run.service for run in self.shown)

    @property
    def errors(self) -> int:
        """Transactions that came to nothing or whose outcome is unknown."""
        return sum(run.errors + run.unknown for run in self.shown)

    def typical(self, figure: str) -> float | None:
        """The mean of `rtt_ms`, `fsync_ms` or `cpu_percent` over the runs; None when unknown."""
        known = [getattr(run, figure) for run in self.shown if getattr(run, figure) is not None]
        return sum(known) / len(known) if known else None

    @property
    def log_tps(self) -> _Mean | None:
        """Log of the TPS with its scatter; None when no run counts or nothing was committed."""
        rates = [run.tps for run in self.good if run.tps]
        if not rates or len(rates) < len(self.good):
            return None
        if len(rates) > 1:
            return _mean([log(rate) for rate in rates])
        run = self.good[0]
        relative = None if run.variance is None else run.variance / rates[0] ** 2
        return _Mean(log(rates[0]), relative, run.freedom)


def figures_of(grid: Grid, runs: Sequence[SweptRun]) -> tuple[CellFigures, ...]:
    """The runs by cell, in the grid's order."""
    by_cell: dict[int, list[SweptRun]] = {}
    for run in runs:
        by_cell.setdefault(run.cell, []).append(run)
    return tuple(CellFigures(cell, tuple(by_cell.get(cell.index, ()))) for cell in grid.cells)


@dataclass(frozen=True, slots=True)
class Effect:
    """What going from one value of a knob to its neighbour did to TPS, all else equal."""

    key: str
    before: str
    after: str
    pairs: int
    """Pairs of cells that were compared."""
    left_out: int = 0
    """Pairs that could not be: a cell of them failed."""
    ratio: float | None = None
    """TPS after / before, the geometric mean over the pairs; None without a pair."""
    low: float | None = None
    high: float | None = None
    """95 %; None: cannot be told."""
    least: float | None = None
    most: float | None = None
    """The range over the pairs."""
    verdict: str = "not measured"
    """faster, slower, no difference shown, not measured, no interval (one pair without a scatter);
    faster in every pair, slower in every pair (by how much depends on the other knobs)."""

    @property
    def words(self) -> str:
        """`clients 8 → 32: x3.1 (2.9 to 3.3) in 4 pairs`."""
        title = f"{self.key} {_change(self.before, self.after)}"
        if self.ratio is None:
            return f"{title}: not measured, {self.left_out} pairs had a run that failed"
        count = f"in {self.pairs} pair{'s' if self.pairs > 1 else ''}"
        if self.left_out:
            count += f", {self.left_out} left out"
        if self.verdict.endswith("every pair"):
            return (
                f"{title}: x{_short(self.ratio)}, from x{_short(self.least)} to x{_short(self.most)}:"
                f" {self.verdict}, {count}; how much depends on the other knobs"
            )
        if self.low is None:
            return f"{title}: x{_short(self.ratio)} without an interval ({count})"
        interval = f"{_short(self.low)} to {_short(self.high)}"
        if self.verdict == NO_DIFFERENCE:
            return f"{title}: {NO_DIFFERENCE} (x{_short(self.ratio)}, {interval}, {count})"
        return f"{title}: x{_short(self.ratio)} ({interval}) {count}"


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
    left_out = len(pairs) - len(known)
    if not known:
        return Effect(dimension.key, before, after, 0, left_out)
    each = [pair.value for pair in known]
    whole = known[0] if len(known) == 1 else _mean(each)
    interval = whole.interval
    return Effect(
        dimension.key,
        before,
        after,
        len(known),
        left_out,
        exp(whole.value),
        None if interval is None else _ratio(interval[0]),
        None if interval is None else _ratio(interval[1]),
        exp(min(each)),
        exp(max(each)),
        _verdict(interval, known),
    )


def _difference(old: _Mean, new: _Mean) -> _Mean:
    """Of a pair, with Welch's degrees of freedom."""
    value = new.value - old.value
    if old.variance is None or new.variance is None:
        return _Mean(value, None, 0.0)
    total = old.variance + new.variance
    if not total:
        return _Mean(value, 0.0, min(old.freedom, new.freedom))
    freedom = total**2 / (old.variance**2 / old.freedom + new.variance**2 / new.freedom)
    return _Mean(value, total, freedom)


def _verdict(interval: tuple[float, float] | None, pairs: Sequence[_Mean]) -> str:
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


def _short(ratio: float | None) -> str:
    """Two figures, and near 1 those that tell it from 1."""
    if ratio is None:
        return "?"
    if 0.8 <= ratio <= 1.25:
        return f"{ratio:.2f}"
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:,.0f}"


def _change(before: str, after: str) -> str:
    """`0 → 10 ms`: a unit that both have is told once."""
    number, space, unit = before.partition(" ")
    return f"{number if space and after.endswith(f' {unit}') else before} → {after}"

"""What a sweep's runs measured, cell by cell, while it is under way and when it is finished.

Laws. A cell's TPS has a 95 % interval: of one run from the batch means within it (`batch_means`),
of several from how they differ (t), on a logarithmic scale in both: a rate is never below 0. A run
that failed counts for nothing; what is not known is None. Histograms of repeats are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any, Final

from replexplorer.core.experiment.sweep import Cell, Grid, Sweep
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.counters import CommitCost, merged_costs
from replexplorer.core.server.exposure import Exposure, Loss, over_time
from replexplorer.core.stats.histogram import Histogram, Latency
from replexplorer.core.stats.measured import Estimate, Spread, bounds_of, t_quantile_975
from replexplorer.core.text import duration_text, number, utc

_KNOWN_WITHIN: Final = 1.3
_MOST_PASSES: Final = 1000
_WIDE_PERCENT: Final = 30
"""From here on an interval is not nearly as wide on both sides."""
ATTEMPTS: Final = 2
"""Times that a cell is tried in a pass."""


@json_keys(
    hide="cell block started_wall_s tps variance freedom service response state setting",
    show="number started interval n latency_ms response_ms protection",
    number="block",
    why="failed",
    interval="tps",
    rtt_ms="rtt_measured_ms",
    fsync_ms="fsync_measured_ms",
    cpu_percent="generator_cpu_percent",
    anatomy="anatomy_ms",
    cost="commit_cost",
)
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
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile; None where that was not looked at."""
    cost: CommitCost | None = None
    """What a commit cost the servers; None where it is not known."""

    def line(self, sweep: Sweep, done: int, left_s: float) -> str:
        """`17/48 rtt=10 ms clients=8 ... 312.4 TPS ±4 % · 3 min left`."""
        name = sweep.grid.describe(sweep.grid.cells[self.cell])
        result = f"{number(self.tps)} TPS {scatter(self.interval)}".rstrip()
        if self.why is not None:
            result = f"failed: {self.why}"
        elif self.limited is not None:
            result += f" ({self.limited})"
        if not self.is_final:
            result += ", to be tried again"
        left = f" · {duration_text(left_s)} left" if left_s > 0 else ""
        return f"{done}/{sweep.total} {name} ... {result}{left}"

    @property
    def number(self) -> int:
        """The pass over all cells, from 1."""
        return self.block + 1

    @property
    def started(self) -> str:
        """When it began, UTC."""
        return utc(self.started_wall_s)

    @property
    def n(self) -> int:
        """Commits."""
        return self.service.count

    @property
    def latency_ms(self) -> Latency:
        """Send to reply."""
        return self.service.latency

    @property
    def response_ms(self) -> Latency | None:
        """Intended start to reply; None in the closed loop."""
        return self.response.latency if self.response.count else None

    @property
    def protection(self) -> str | None:
        """Its state; None where nothing was seen."""
        return self.state or None

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


def scatter_of(spread: Spread | None) -> tuple[float | None, float]:
    """A run's `variance` and `freedom`."""
    return (None, 0.0) if spread is None else (spread.variance, spread.freedom)


@dataclass(frozen=True, slots=True)
class Mean:
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


def mean_of(values: Sequence[float]) -> Mean:
    """Of these, their own differences being the scatter."""
    count = len(values)
    middle = sum(values) / count
    if count < 2:
        return Mean(middle, None, 0.0)
    square = sum((value - middle) ** 2 for value in values) / (count - 1)
    return Mean(middle, square / count, count - 1)


@json_keys(
    hide="cell",
    show="settings labels tps latency_ms n errors rtt_ms fsync_ms exposure cost why limited",
    rtt_ms="rtt_measured_ms",
    fsync_ms="fsync_measured_ms",
    cost="commit_cost",
    why="failed",
)
@dataclass(frozen=True, slots=True)
class CellFigures:
    """One cell with what its runs say together."""

    cell: Cell
    runs: tuple[SweptRun, ...]
    """All that were made, failed ones too."""

    @property
    def settings(self) -> Mapping[KnobName, Value]:
        """What is requested in it."""
        return self.cell.values

    @property
    def labels(self) -> Mapping[str, str]:
        """The value of each dimension as it is shown."""
        return self.cell.labelled

    @property
    def n(self) -> int:
        """Commits."""
        return self.service.count

    @property
    def latency_ms(self) -> Latency:
        """Of all commits."""
        return self.service.latency

    @property
    def rtt_ms(self) -> float | None:
        """Measured, the mean over the runs."""
        return self.typical("rtt_ms")

    @property
    def fsync_ms(self) -> float | None:
        """Measured, the mean over the runs."""
        return self.typical("fsync_ms")

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
        mean = mean_of([run.tps or 0.0 for run in runs])
        errors = t_quantile_975(mean.freedom)
        length_s = sum(run.duration_s for run in runs)
        return Estimate(mean.value, *bounds_of(mean.value, mean.variance or 0.0, errors, length_s))

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
    def exposure(self) -> Exposure | None:
        """What a failure would have lost, of all runs; None where that was not looked at."""
        return over_time([run.exposure for run in self.shown if run.exposure is not None])

    @property
    def cost(self) -> CommitCost | None:
        """What a commit of all runs cost the servers; None where it is not known."""
        return merged_costs([run.cost for run in self.shown])

    @property
    def at_risk(self) -> int | None:
        """Commits that the worst of the failures would have lost; None where one of them is not known."""
        seen = self.exposure
        losses = () if seen is None else (seen.process_dies, seen.power_cut, seen.source_lost)
        known = [loss.commits for loss in losses if isinstance(loss, Loss)]
        return max(known) if known and len(known) == len(losses) else None

    @property
    def log_tps(self) -> Mean | None:
        """Log of the TPS with its scatter; None when no run counts or nothing was committed."""
        rates = [run.tps for run in self.good if run.tps]
        if not rates or len(rates) < len(self.good):
            return None
        if len(rates) > 1:
            return mean_of([log(rate) for rate in rates])
        run = self.good[0]
        relative = None if run.variance is None else run.variance / rates[0] ** 2
        return Mean(log(rates[0]), relative, run.freedom)


def passes_needed(figures: Sequence[CellFigures]) -> int | None:
    """After about how many passes a cell's TPS is known within 30 %, by how far the runs of all cells were
    apart: their logarithms' pooled variance, with Student's t for as many runs of one cell. None before a
    second pass."""
    logs = [[log(run.tps) for run in each.good if run.tps] for each in figures]
    scatters = [(mean_of(each), len(each)) for each in logs if len(each) > 1]
    if not scatters:
        return None
    square = sum((mean.variance or 0.0) * count * mean.freedom for mean, count in scatters)
    square /= sum(mean.freedom for mean, _ in scatters)
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


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """A sweep under way."""

    sweep: Sweep
    runs: tuple[SweptRun, ...]
    """All that were made so far, failed ones too."""
    done: int
    """Of `sweep.total`."""
    cell: Cell | None
    """The one that begins or has just ended."""
    run: SweptRun | None
    """What it measured; None while it runs."""
    left_s: float
    """About how long the rest takes."""
    note: str | None = None
    """Something that happened beside the runs."""


SweepReport = Callable[[SweepProgress], None]

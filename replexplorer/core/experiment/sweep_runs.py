"""What a sweep's runs measured, cell by cell.

Laws. A cell's TPS has a 95 % interval: of one run from the batch means within it (`batch_means`),
of several from how they differ (t), on a logarithmic scale in both: a rate is never below 0. A run
that failed counts for nothing; what is not known is None. Histograms of repeats are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import log, sqrt
from typing import Any, Final, Self

from replexplorer.core.experiment.sweep import Cell, Grid
from replexplorer.core.knobs.names import Value
from replexplorer.core.server.commit_cost import CommitCost, merged_costs
from replexplorer.core.server.exposure import FAILURES, Exposure, Loss, Unknown
from replexplorer.core.server.exposure_meter import over_time
from replexplorer.core.stats.batch_means import Spread
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate, bounds_of
from replexplorer.core.stats.student import t_quantile_975

_KNOWN_WITHIN: Final = 1.3
_MOST_PASSES: Final = 1000
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
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile; None where that was not looked at."""
    cost: CommitCost | None = None
    """What a commit cost the servers; None where it is not known."""

    def to_wire(self) -> dict[str, Any]:
        """A JSON-ready form that `from_wire` reads back."""
        wire = {each.name: getattr(self, each.name) for each in fields(self)}
        histograms = {"service": self.service.to_wire(), "response": self.response.to_wire()}
        return (
            wire
            | histograms
            | {
                "exposure": None if self.exposure is None else asdict(self.exposure),
                "cost": None if self.cost is None else self.cost.to_wire(),
            }
        )

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        histograms = {name: Histogram.from_wire(wire[name]) for name in ("service", "response")}
        cost = wire.get("cost")
        others = {
            "exposure": _exposure_of(wire.get("exposure")),
            "cost": None if cost is None else CommitCost.from_wire(cost),
        }
        return cls(**{**wire, **histograms, **others})

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


def _exposure_of(wire: Mapping[str, Any] | None) -> Exposure | None:
    if wire is None:
        return None
    dies, cut, lost = (
        Loss(**each) if "commits" in each else Unknown(**each) for each in (wire[name] for name in FAILURES)
    )
    return Exposure(dies, cut, lost)


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

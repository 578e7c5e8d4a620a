"""How far off the model is, each cell of a sweep predicted from the others.

Law: no cell is predicted from its own runs. The cells are dealt into ten parts, always the same way; a
part's cells are predicted by the model fitted to the other nine (k-fold cross-validation, Stone,
Cross-Validatory Choice and Assessment of Statistical Predictions, J. R. Stat. Soc. B 36(2), 1974), from
their settings alone. A cell's measured TPS is the median of its runs, and how these differ is told beside the
error: no prediction is better than what it is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log
from random import Random
from statistics import fmean, median, stdev
from typing import Final

from replexplorer.core.model.fitted import Calibration, CalibrationRun, OperatingPoint, Validation, solve

PARTS: Final = 10
"""Into which the cells are dealt."""
_P90: Final = 0.9
_FEW: Final = 8
ALL: Final = "all"
"""In a region's name: whatever it is."""
_DIMENSIONS: Final = ((), (0,), (1,), (2,), (0, 1, 2))
"""By which of a region's three names the cells are taken together."""


@dataclass(frozen=True, slots=True)
class CellCheck:
    """One cell beside what the others say of it."""

    setting: OperatingPoint
    runs_tps: tuple[float, ...]
    """What each of its runs measured."""
    predicted_tps: float

    @property
    def tps(self) -> float:
        """The median of its runs: one that something else disturbed says nothing of the settings."""
        return median(self.runs_tps)

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_tps / self.tps - 1

    @property
    def noise(self) -> float | None:
        """The standard deviation of its runs as a part of their mean; None of a single run."""
        return stdev(self.runs_tps) / fmean(self.runs_tps) if len(self.runs_tps) > 1 else None


@dataclass(frozen=True, slots=True)
class Region:
    """What the cells of a region say together; `all` in a dimension: whatever it is."""

    durable_by: str
    rtt: str
    """The round trip that was asked, in ms; `any` where no commit waits for it."""
    clients: str
    cells: int
    bias: float
    """Predicted over measured, less one: the geometric mean over the cells."""
    error: float
    """Median of the absolute errors."""
    noise: float | None
    """Median of the cells' run-to-run noise; None where none was run twice."""


def alone(setting: OperatingPoint) -> OperatingPoint:
    """The setting without what was measured of it, and without the link where no commit waits for it: what
    `predict` knows beforehand, and what tells one cell from another."""
    asked_ms = setting.rtt_asked_ms if setting.semi_sync else 0.0
    return replace(setting, rtt_ms=asked_ms, rtt_asked_ms=asked_ms, fsync_ms=None)


def cells_of(runs: Sequence[CalibrationRun]) -> Mapping[OperatingPoint, Sequence[CalibrationRun]]:
    """The runs that committed, by cell."""
    cells: dict[OperatingPoint, list[CalibrationRun]] = {}
    for run in runs:
        if run.tps > 0 and run.setting.clients > 0:
            cells.setdefault(alone(run.setting), []).append(run)
    return cells


def cross_validated(
    runs: Sequence[CalibrationRun], refitted: Callable[[Sequence[CalibrationRun]], Calibration]
) -> tuple[CalibrationRun, ...]:
    """The runs, each with what the others say of its cell; `refitted` fits the model to some runs."""
    cells = cells_of(runs)
    order = sorted(cells, key=repr)
    Random(0).shuffle(order)
    predicted: dict[OperatingPoint, float] = {}
    for part in range(min(PARTS, len(order))):
        left_out = set(order[part::PARTS])
        others = [run for cell, its in cells.items() if cell not in left_out for run in its]
        if not others:
            continue
        calibration = refitted(others)
        for cell in left_out:
            if (local := calibration.local.get(cell.workload)) is not None:
                predicted[cell] = round(solve(cell, calibration, local).tps, 3)
    return tuple(replace(run, predicted_tps=predicted.get(alone(run.setting))) for run in runs)


def checks(runs: Sequence[CalibrationRun]) -> tuple[CellCheck, ...]:
    """The cells of runs that were cross-validated."""
    return tuple(
        CellCheck(cell, tuple(run.tps for run in its), its[0].predicted_tps)
        for cell, its in cells_of(runs).items()
        if its[0].predicted_tps is not None
    )


def summary(checked: Sequence[CellCheck]) -> Validation:
    """All cells together; raises ValueError without any."""
    errors = sorted(abs(check.error) for check in checked)
    if not errors:
        raise ValueError("there is no cell to validate")
    return Validation(
        cells=len(errors),
        median_error=round(median(errors), 4),
        p90_error=round(errors[ceil(_P90 * len(errors)) - 1], 4),
        noise=_noise(checked),
    )


def regions(checked: Sequence[CellCheck]) -> tuple[Region, ...]:
    """All cells together, by what makes commits durable, by round trip, by number of clients, and by all
    three, each in the order in which they come."""
    return tuple(region for kept in _DIMENSIONS for region in _regions(checked, kept))


def _regions(checked: Sequence[CellCheck], kept: Container[int]) -> Iterator[Region]:
    found: dict[tuple[str, ...], list[CellCheck]] = {}
    for check in checked:
        name = tuple(each if at in kept else ALL for at, each in enumerate(_region(check.setting)))
        found.setdefault(name, []).append(check)
    for (durable, rtt, clients), its in found.items():
        yield Region(
            durable,
            rtt,
            clients,
            cells=len(its),
            bias=exp(fmean(log(check.predicted_tps / check.tps) for check in its)) - 1,
            error=median(abs(check.error) for check in its),
            noise=_noise(its),
        )


def _region(setting: OperatingPoint) -> tuple[str, str, str]:
    rtt = f"{setting.rtt_asked_ms:g}" if setting.semi_sync else "any"
    return durable_by(setting), rtt, client_range(setting.clients)


def durable_by(setting: OperatingPoint) -> str:
    """What makes a commit durable: `none`, `local`, `network` or `both`, as the scenes are named."""
    fsyncs = setting.redo_fsyncs + setting.binlog_fsyncs > 0
    names = {(False, False): "none", (False, True): "local", (True, False): "network", (True, True): "both"}
    return names[setting.semi_sync, fsyncs]


def client_range(clients: int) -> str:
    """`1`, `2 to 8` or `9 and more`: one alone, a few, and many."""
    return "1" if clients == 1 else "2 to 8" if clients <= _FEW else "9 and more"


def _noise(checked: Sequence[CellCheck]) -> float | None:
    known = [check.noise for check in checked if check.noise is not None]
    return round(median(known), 4) if known else None

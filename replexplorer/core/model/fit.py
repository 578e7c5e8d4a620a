"""Fitting the model to measured runs (core/model/fitted.py).

Law: what is made small is the mean |log(predicted / measured)|: every run counts by its ratio, and a
disturbed one pulls no more than its share. The search is a pattern search on factors, each parameter in
turn (Hooke and Jeeves, Direct Search, J. ACM 8(2), 1961): no derivative, and no library for nine numbers.

How far off the model is: no cell is predicted from its own runs. The cells are dealt into ten parts, always
the same way; a part's cells are predicted by the model fitted to the other nine (k-fold cross-validation,
Stone, J. R. Stat. Soc. B 36(2), 1974), from their settings alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import ceil, exp, log
from random import Random
from statistics import fmean, median, stdev
from typing import Any, Final, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.model.fitted import (
    FITTED,
    Calibration,
    CalibrationRun,
    LocalCost,
    OperatingPoint,
    Validation,
    solve,
)
from replexplorer.core.records import frozen, replace

PARTS: Final = 10
"""Into which the cells are dealt."""
_P90: Final = 0.9


@frozen
class CellCheck:
    """One cell next to what the others predict for it."""

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
        noise=noise_of(checked),
    )


def ratio_error(checked: Sequence[CellCheck]) -> float | None:
    """By how many times nine of ten ratios of two cells' TPS are off at most, both of one workload and each
    predicted from the others: an error that both have alike is in none. None without two cells."""
    logs: dict[str, list[float]] = {}
    for check in checked:
        logs.setdefault(check.setting.workload, []).append(log(1 + check.error))
    apart = sorted(abs(one - other) for each in logs.values() for one, other in combinations(each, 2))
    return exp(apart[ceil(_P90 * len(apart)) - 1]) if apart else None


def noise_of(checked: Sequence[CellCheck]) -> float | None:
    """The typical run-to-run noise of cells; None where none was run twice."""
    known = [check.noise for check in checked if check.noise is not None]
    return round(median(known), 4) if known else None


LEAST_RUNS: Final = 16
"""Fewer say too little for nine parameters."""
_LEAST_CLIENTS: Final = 3
"""Numbers of clients that tell a workload's two costs apart."""
_LEAST_APPLIERS: Final = 3
"""Settings of a replica that tell its workers' two costs apart, each predicted from the others."""
_START: Final[dict[str, Any]] = {
    "fsync_ms": 0.3,
    "receive_ms": 0.1,
    "fsync_cpu_ms": 0.1,
    "asleep_ms": 0.5,
    "asleep_after_ms": 20.0,
    "grouped": 0.5,
    "beside": 0.5,
}
_START_LOCAL: Final = LocalCost(delay_ms=0.05, cpu_ms=0.3)
_FIRST_STEP: Final = 2.0
_NEXT_STEP: Final = 1.2
"""From a fit to most of the same runs."""
_LAST_STEP: Final = 1.005


@frozen
class Origin:
    """Where the runs came from."""

    day: str
    machine: str
    server: str


class Fit(NamedTuple):
    """What runs give."""

    calibration: Calibration
    runs: tuple[CalibrationRun, ...]
    """Those that it was fitted to, each with what the others say of it."""


def fit(runs: Sequence[CalibrationRun], origin: Origin) -> Fit:
    """The calibration that these runs give, cross-validated; raises UsageError when they cannot tell
    (`lacking`).

    What all workloads share comes from the workload with most runs, the others add their local cost
    where they ran with clients enough.
    """
    usable = [run for run in runs if run.tps > 0 and run.setting.clients > 0]
    if missing := lacking(usable):
        raise UsageError("these runs cannot calibrate the model", f"it takes {missing}")
    main = Counter(run.setting.workload for run in usable).most_common(1)[0][0]
    waiting = [run.setting for run in usable if run.setting.semi_sync]
    bare = [setting.rtt_ms for setting in waiting if not setting.rtt_asked_ms and setting.rtt_ms > 0]
    calibration = Calibration(
        day=origin.day,
        machine=origin.machine,
        server=origin.server,
        runs=len(usable),
        validation=Validation(0, 0.0, 0.0),
        most_clients=max(run.setting.clients for run in usable),
        most_rtt_ms=max((setting.rtt_asked_ms for setting in waiting), default=0.0),
        least_rtt_ms=min(bare, default=0.0),
        local={main: _START_LOCAL},
        **_START,
    )
    if any(setting.after_commit for setting in waiting):
        calibration = replace(calibration, after_commit_beside=0.5)
    calibration = _all_fitted(calibration, usable, _FIRST_STEP)
    start = calibration
    validated = cross_validated(usable, lambda others: _all_fitted(start, others, _NEXT_STEP))
    calibration = replace(calibration, validation=summary(checks(validated)))
    return Fit(with_applier(calibration, usable), validated)


def with_applier(calibration: Calibration, runs: Sequence[CalibrationRun]) -> Calibration:
    """The calibration with the cost of a replica's workers, by what replicas that were late applied;
    unchanged where that was in fewer than three settings, or with one number of workers."""
    main, cells = next(iter(calibration.local)), dict[OperatingPoint, list[float]]()
    for run in runs:
        if run.applied is not None and run.applied.tps > 0 and run.applied.setting.workload == main:
            cells.setdefault(alone(run.applied.setting), []).append(run.applied.tps)
    rates = {cell: median(tps) for cell, tps in cells.items()}
    if len(rates) < _LEAST_APPLIERS or len({cell.clients for cell in rates}) < 2:
        return calibration

    def cost(known: Mapping[OperatingPoint, float]) -> LocalCost:
        def misfit(values: Sequence[float]) -> float:
            tried = LocalCost(*values)
            return fmean(abs(log(solve(cell, calibration, tried).tps / tps)) for cell, tps in known.items())

        return LocalCost(*(round(each, 4) for each in search(misfit, [0.3, 0.1])))

    errors = []
    for cell, tps in rates.items():
        others = {other: known for other, known in rates.items() if other != cell}
        errors.append(abs(solve(cell, calibration, cost(others)).tps / tps - 1))
    return replace(calibration, applier=cost(rates), applier_error=round(max(errors), 4))


def lacking(runs: Sequence[CalibrationRun]) -> str | None:
    """What the runs need more, so that each parameter shows in some of them; None: nothing."""
    settings = [run.setting for run in runs]
    waiting = [setting for setting in settings if setting.semi_sync]
    needs = (
        (f"at least {LEAST_RUNS} runs that commit", len(runs) >= LEAST_RUNS),
        ("runs with 1 client and with 32 or more", {1, 32} <= {min(each.clients, 32) for each in settings}),
        ("runs with semi_sync on and off", 0 < len(waiting) < len(settings)),
        (
            "semi-sync runs with rtt 0 and with a larger rtt",
            {each.rtt_asked_ms > 0 for each in waiting} == {False, True},
        ),
        (
            "runs with fsyncs and without",
            {each.redo_fsyncs + each.binlog_fsyncs > 0 for each in settings} == {False, True},
        ),
    )
    return next((need for need, is_met in needs if not is_met), None)


def _all_fitted(calibration: Calibration, runs: Sequence[CalibrationRun], step: float) -> Calibration:
    """The calibration fitted to these runs, from where it stands: what all workloads share and its main one
    first, then what each other one costs."""
    counts = Counter(run.setting.workload for run in runs)
    main = counts.most_common(1)[0][0]
    start = calibration.local.get(main) or _START_LOCAL
    shared = FITTED if calibration.after_commit_beside is None else (*FITTED, "after_commit_beside")
    found = _fitted(replace(calibration, local={main: start}), runs, main, shared, step)
    for workload in sorted(counts.keys() - {main}):
        if len({run.setting.clients for run in runs if run.setting.workload == workload}) < _LEAST_CLIENTS:
            continue
        start = calibration.local.get(workload) or found.local[main]
        found = replace(found, local={**found.local, workload: start})
        found = _fitted(found, runs, workload, (), step)
    return found


def _fitted(
    calibration: Calibration,
    runs: Sequence[CalibrationRun],
    workload: str,
    names: Sequence[str],
    step: float,
) -> Calibration:
    """The calibration with this workload's cost fitted, and these of what all share as well."""
    own: dict[OperatingPoint, list[float]] = {}
    for run in runs:
        if run.setting.workload == workload:
            own.setdefault(alone(run.setting), []).append(log(run.tps))
    local = calibration.local[workload]

    def made(values: Sequence[float]) -> Calibration:
        cost = LocalCost(delay_ms=values[0], cpu_ms=values[1])
        common: dict[str, Any] = dict(zip(names, values[2:], strict=True))
        return replace(calibration, local={**calibration.local, workload: cost}, **common)

    def misfit(values: Sequence[float]) -> float:
        tried = made(values)
        cost = tried.local[workload]
        misses = []
        for setting, seen in own.items():
            said = log(solve(setting, tried, cost).tps)
            misses += [abs(said - each) for each in seen]
        return fmean(misses)

    start = [local.delay_ms, local.cpu_ms, *(getattr(calibration, name) for name in names)]
    return made([round(value, 4) for value in search(misfit, start, step)])


def search(
    misfit: Callable[[Sequence[float]], float], start: Sequence[float], step: float = _FIRST_STEP
) -> list[float]:
    """Positive numbers near a least misfit, from these: each in turn times or over a shrinking factor, which
    is `step` at first."""
    best, least, factor = list(start), misfit(start), step
    while factor > _LAST_STEP:
        improved = False
        for index in range(len(best)):
            for change in (factor, 1 / factor):
                tried = [*best]
                tried[index] *= change
                found = misfit(tried)
                if found < least - 1e-9:
                    best, least, improved = tried, found, True
                    break
        if not improved:
            factor **= 0.5
    return best

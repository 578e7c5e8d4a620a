"""Fitting the model to measured runs (core/model/fitted.py).

Law: what is made small is the mean |log(predicted / measured)|: every run counts by its ratio, and a
disturbed one pulls no more than its share. The search is a pattern search on factors, each parameter in
turn (Hooke and Jeeves, Direct Search, J. ACM 8(2), 1961): no derivative, and no library for nine numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, median
from typing import Any, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.model.fitted import FITTED, Calibration, CalibrationRun, LocalCost, solve

LEAST_RUNS: Final = 16
"""Fewer say too little for nine parameters."""
_LEAST_CLIENTS: Final = 3
"""Numbers of clients that tell a workload's two costs apart."""
_START: Final[dict[str, Any]] = {
    "fsync_ms": 0.3,
    "receive_ms": 0.1,
    "receive_cpu_ms": 0.1,
    "held_cpu_ms": 0.1,
    "fsync_cpu_ms": 0.05,
    "network_half": 30.0,
    "fsync_half": 2.0,
}
_START_LOCAL: Final = LocalCost(delay_ms=0.15, cpu_ms=0.25)
_FIRST_STEP: Final = 2.0
_LAST_STEP: Final = 1.005


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the runs came from."""

    day: str
    machine: str
    server: str


@dataclass(frozen=True, slots=True)
class Residual:
    """One run beside what the model says of it."""

    run: CalibrationRun
    predicted_tps: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_tps / self.run.tps - 1


def fit(runs: Sequence[CalibrationRun], origin: Origin) -> Calibration:
    """The calibration that these runs give; raises UsageError when they cannot tell (`lacking`).

    What all workloads share comes from the workload with most runs, the others add their local cost
    where they ran with clients enough.
    """
    usable = [run for run in runs if run.tps > 0 and run.setting.clients > 0]
    if missing := lacking(usable):
        raise UsageError("these runs cannot calibrate the model", f"it takes {missing}")
    counts = Counter(run.setting.workload for run in usable)
    main = counts.most_common(1)[0][0]
    trips = [run.setting.rtt_ms for run in usable if run.setting.semi_sync and run.setting.rtt_ms > 0]
    calibration = Calibration(
        day=origin.day,
        machine=origin.machine,
        server=origin.server,
        runs=len(usable),
        median_error=0.0,
        most_clients=max(run.setting.clients for run in usable),
        most_rtt_ms=max(trips, default=0.0),
        least_rtt_ms=min(trips, default=0.0),
        local={main: _START_LOCAL},
        **_START,
    )
    names: tuple[str, ...] = FITTED
    if any(run.setting.after_commit and run.setting.semi_sync for run in usable):
        calibration = replace(calibration, after_commit_half=calibration.network_half)
        names = (*FITTED, "after_commit_half")
    calibration = _fitted(calibration, usable, main, names)
    for workload in sorted(counts.keys() - {main}):
        if len({run.setting.clients for run in usable if run.setting.workload == workload}) < _LEAST_CLIENTS:
            continue
        calibration = replace(calibration, local={**calibration.local, workload: calibration.local[main]})
        calibration = _fitted(calibration, usable, workload, ())
    errors = [abs(residual.error) for residual in residuals(usable, calibration)]
    return replace(calibration, median_error=round(median(errors), 4))


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
            {each.held for each in waiting} == {False, True},
        ),
        (
            "runs with fsyncs and without",
            {each.redo_fsyncs + each.binlog_fsyncs > 0 for each in settings} == {False, True},
        ),
    )
    return next((need for need, is_met in needs if not is_met), None)


def residuals(runs: Sequence[CalibrationRun], calibration: Calibration) -> list[Residual]:
    """Each run of a calibrated workload beside the model's answer from its settings alone."""
    return [
        Residual(run, solve(replace(run.setting, fsync_ms=None), calibration, local).tps)
        for run in runs
        if run.tps > 0 and (local := calibration.local.get(run.setting.workload)) is not None
    ]


def _fitted(
    calibration: Calibration, runs: Sequence[CalibrationRun], workload: str, names: Sequence[str]
) -> Calibration:
    """The calibration with this workload's cost fitted, and these of what all share as well."""
    own = [
        (replace(run.setting, fsync_ms=None), log(run.tps))
        for run in runs
        if run.setting.workload == workload
    ]
    local = calibration.local[workload]

    def made(values: Sequence[float]) -> Calibration:
        cost = LocalCost(delay_ms=values[0], cpu_ms=values[1])
        common: dict[str, Any] = dict(zip(names, values[2:], strict=True))
        return replace(calibration, local={**calibration.local, workload: cost}, **common)

    def misfit(values: Sequence[float]) -> float:
        tried = made(values)
        cost = tried.local[workload]
        return fmean(abs(log(solve(setting, tried, cost).tps) - seen) for setting, seen in own)

    found = search(misfit, [local.delay_ms, local.cpu_ms, *(getattr(calibration, name) for name in names)])
    return made([round(value, 4) for value in found])


def search(misfit: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Positive numbers near a least misfit, from these: each in turn times or over a shrinking factor."""
    best, least, factor = list(start), misfit(start), _FIRST_STEP
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

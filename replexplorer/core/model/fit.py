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
from statistics import fmean
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
from replexplorer.core.model.validation import alone, checks, cross_validated, summary

LEAST_RUNS: Final = 16
"""Fewer say too little for nine parameters."""
_LEAST_CLIENTS: Final = 3
"""Numbers of clients that tell a workload's two costs apart."""
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


@dataclass(frozen=True, slots=True)
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
    return Fit(replace(calibration, validation=summary(checks(validated))), validated)


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

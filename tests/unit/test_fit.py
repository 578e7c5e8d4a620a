"""The fit finds parameters again, says what it lacks, and made the calibration that ships."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from replexplorer.core.model.fit import Origin, checks, fit, summary, with_applier
from replexplorer.core.model.fitted import (
    AppliedRate,
    CalibrationRun,
    LocalCost,
    OperatingPoint,
    Validation,
    solve,
)
from replexplorer.formats.calibration import shipped_calibration
from tests.known import known, refused
from tests.typed import fields
from tests.unit.test_model import CALIBRATION

ORIGIN = Origin("2026-01-31", "2 cores", "mysql 9.7.4")
TRUE = replace(
    CALIBRATION,
    runs=0,
    validation=Validation(0, 0.0, 0.0),
    local={"update_index": LocalCost(0.12, 0.28), "insert": LocalCost(0.2, 0.5)},
    after_commit_beside=0.8,
    **fields("fsync_ms=0.4 asleep_ms=0.6 asleep_after_ms=15.0 grouped=0.4 beside=0.6"),
)
GRID = tuple(product((1, 4, 16, 32, 64), (0.0, 10.0, 85.0), (False, True), (0.0, 1.0)))


def runs(scatter: float = 0.0, workload: str = "update_index", **more: bool) -> list[CalibrationRun]:
    random = Random(1)
    made = []
    for clients, rtt_ms, semi_sync, fsyncs in GRID:
        setting = OperatingPoint(
            clients, workload, rtt_ms=rtt_ms + 0.25, rtt_asked_ms=rtt_ms, semi_sync=semi_sync,
            redo_fsyncs=fsyncs, binlog_fsyncs=fsyncs, **more,
        )  # fmt: skip
        tps = solve(setting, TRUE, TRUE.local[workload]).tps
        made.append(CalibrationRun(setting, tps * random.lognormvariate(0, scatter)))
    return made


@pytest.mark.costly("it fits the model twice")
def test_runs_of_the_model_itself_are_found_again() -> None:
    """Another workload adds its local cost, the wait point a part of its own once it was run, and a run
    without commits is none."""
    more = [*runs(workload="insert")[::3], *runs(after_commit=True), replace(runs()[0], tps=0.0)]
    found, validated = fit([*runs(), *more], ORIGIN)
    assert found.validation.median_error < 0.02
    assert found.validation == summary(checks(validated))
    assert [found.local[each].cpu_ms for each in TRUE.local] == pytest.approx([0.28, 0.5], rel=0.15)
    # What a group pays once, and what part of it is left, are told from each other only roughly.
    assert found.asleep_ms == pytest.approx(0.6, rel=0.3)
    assert found.grouped == pytest.approx(0.4, abs=0.2)
    assert found.after_commit_beside == pytest.approx(0.8, rel=0.1)
    assert (found.runs, found.most_clients, found.most_rtt_ms, found.least_rtt_ms) == (140, 64, 85.0, 0.25)
    assert Origin(found.day, found.machine, found.server) == ORIGIN


def test_disturbed_runs_pull_no_more_than_their_share_and_few_of_a_workload_say_nothing() -> None:
    disturbed = runs(scatter=0.05)
    disturbed[::10] = [replace(run, tps=run.tps / 10) for run in disturbed[::10]]
    few = [run for run in runs(workload="insert") if run.setting.clients <= 4]
    found = fit([*disturbed, *few], ORIGIN).calibration
    assert found.local["update_index"].cpu_ms == pytest.approx(0.28, rel=0.1)
    assert found.validation.median_error < 0.08
    assert found.after_commit_beside is None
    assert [*found.local] == ["update_index"]


def applied(*workers: int, delay_ms: float = 5.0) -> list[CalibrationRun]:
    """A run a number of workers, in which a replica with this disk was late."""
    appliers = [OperatingPoint(each, "update_index", fsync_delay_ms=delay_ms) for each in workers]
    late = [AppliedRate(each, solve(each, TRUE, LocalCost(0.2, 0.1)).tps) for each in appliers]
    return [replace(runs()[0], applied=each) for each in late]


def test_replicas_that_were_late_tell_what_their_workers_cost() -> None:
    late = [*applied(1, 4, 16), *applied(1, 4, delay_ms=0.0)]
    found = with_applier(TRUE, [*runs()[:1], *late])
    applier = known(found.applier)
    assert (applier.delay_ms, applier.cpu_ms) == pytest.approx((0.2, 0.1), rel=0.1)
    assert found.applier_error < 0.05
    for too_few in (runs(), applied(1, 4), applied(4, 4, 4)):
        assert with_applier(TRUE, too_few) == TRUE


KEPT: dict[str, Callable[[OperatingPoint], bool]] = {
    "one client far away": lambda setting: setting.clients == 1 and setting.rtt_asked_ms > 1,
    "few clients": lambda setting: setting.clients < 32,
    "without semi-sync": lambda setting: not setting.semi_sync,
    "only far away": lambda setting: setting.rtt_asked_ms > 0,
    "without fsyncs": lambda setting: setting.redo_fsyncs == 0,
}


def test_runs_that_cannot_tell_are_refused(snapshot: object) -> None:
    told = {}
    for case, kept in KEPT.items():
        told[case] = refused(fit, [run for run in runs() if kept(run.setting)], ORIGIN)
    assert told == snapshot


def test_what_ships_is_what_the_fit_makes_of_its_runs_and_is_good_enough() -> None:
    shipped = shipped_calibration()
    calibration = shipped.calibration
    assert summary(checks(shipped.runs)) == calibration.validation
    assert calibration.validation.median_error <= 0.08
    assert calibration.validation.p90_error <= 0.21
    # Another processor's last digits may lead the search elsewhere, but not to a worse place.
    found = fit(shipped.runs, Origin(calibration.day, calibration.machine, calibration.server)).calibration
    assert found.validation.median_error == pytest.approx(calibration.validation.median_error, abs=0.02)
    assert found.local.keys() == calibration.local.keys()

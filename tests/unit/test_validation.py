"""How far off the model is: no cell is predicted from its own runs, and a summary says what the cells do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from replexplorer.core.model.fit import (
    PARTS,
    CellCheck,
    checks,
    cross_validated,
    summary,
)
from replexplorer.core.model.fitted import Calibration, CalibrationRun, LocalCost, OperatingPoint, Validation
from tests.unit.test_model import CALIBRATION

BASE = replace(CALIBRATION, local={"update_index": LocalCost(0.0, 1.0)}, asleep_ms=0.0)
HERE = OperatingPoint(1, "update_index", redo_fsyncs=0.0, binlog_fsyncs=0.0)


def run(clients: int, tps: float, **changed: object) -> CalibrationRun:
    return CalibrationRun(replace(HERE, clients=clients, **changed), tps)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [1, 2, 9, 10, 11, 64])
def test_no_cell_is_predicted_from_its_own_runs(cells: int) -> None:
    runs = [run(1 + index % cells, 100.0) for index in range(3 * cells)]
    seen: list[set[int]] = []

    def refitted(others: Sequence[CalibrationRun]) -> Calibration:
        seen.append({each.setting.clients for each in others})
        return BASE

    validated = cross_validated(runs, refitted)
    assert [each.tps for each in validated] == [each.tps for each in runs]
    if cells == 1:
        assert (seen, checks(validated)) == ([], ())
        return
    assert len(seen) == min(PARTS, cells)
    left_out = [clients for others in seen for clients in set(range(1, cells + 1)) - others]
    assert sorted(left_out) == list(range(1, cells + 1))
    assert len(checks(validated)) == cells


def test_a_cell_is_known_by_what_predict_knows_beforehand() -> None:
    measured = [run(4, 100.0, rtt_ms=rtt_ms, fsync_ms=rtt_ms) for rtt_ms in (0.2, 0.7)]
    beside_a_link = run(4, 100.0, rtt_ms=10.3, rtt_asked_ms=10.0)
    waiting = run(4, 100.0, rtt_ms=10.3, rtt_asked_ms=10.0, semi_sync=True)
    found = checks(cross_validated([*measured, beside_a_link, waiting], lambda _: BASE))
    assert [len(check.runs_tps) for check in found] == [3, 1]


def test_a_workload_that_the_others_do_not_know_is_not_predicted() -> None:
    other = replace(run(2, 100.0), setting=replace(HERE, clients=2, workload="insert"))
    validated = cross_validated([run(1, 1000.0), other], lambda _: BASE)
    assert [each.predicted_tps for each in validated] == [1000.0, None]
    assert summary(checks(validated)) == Validation(1, 0.0, 0.0, None)


def test_errors_are_of_the_median_of_a_cells_runs_and_noise_of_how_they_differ() -> None:
    check = CellCheck(HERE, (110.0, 90.0, 100.0), 120.0)
    assert CellCheck(HERE, (10.0, 100.0, 110.0), 120.0).error == check.error, "one was disturbed"
    assert check.error == pytest.approx(0.2)
    assert check.noise == pytest.approx(0.1)
    assert CellCheck(HERE, (90.0,), 120.0).noise is None


def test_a_summary_has_median_and_the_90th_percentile() -> None:
    checked = [CellCheck(replace(HERE, clients=n), (100.0,), 100.0 + n) for n in range(1, 11)]
    assert summary(checked) == Validation(10, 0.055, 0.09, None)
    with pytest.raises(ValueError, match="no cell"):
        summary([])

"""The model: its laws, its limits in words, the way from knobs to it, and how far off it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.knobs.names import defaults
from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.fit import PARTS, CellCheck, checks, cross_validated, summary
from replexplorer.core.model.fitted import (
    Calibration,
    CalibrationRun,
    LocalCost,
    OperatingPoint,
    Validation,
)
from replexplorer.core.model.operating_point import beyond, check_known, operating_point_of
from replexplorer.core.model.prediction import measured, predict
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.formats.calibration import shipped_calibration
from tests.known import known, refused
from tests.typed import fields, typed

CALIBRATION = Calibration(
    day="2026-01-31",
    machine="2 cores",
    server="mysql 9.7.4",
    validation=Validation(64, 0.09, 0.2, 0.05),
    local={"update_index": LocalCost(0.1, 0.3), "insert": LocalCost(0.1, 0.4)},
    **fields(
        "runs=112 most_clients=64 most_rtt_ms=85.0 least_rtt_ms=0.25 fsync_ms=0.2 receive_ms=0.1"
        " fsync_cpu_ms=0.15 asleep_ms=0.5 asleep_after_ms=10.0"
    ),
)
FAR = OperatingPoint(1, "update_index", rtt_ms=85.0, semi_sync=True, redo_fsyncs=0, binlog_fsyncs=0)

costs = st.floats(0.001, 5.0)
calibrations = st.builds(
    replace,
    st.just(CALIBRATION),
    local=st.builds(lambda delay, cpu: {"update_index": LocalCost(delay, cpu)}, costs, costs),
    fsync_ms=st.floats(0.01, 20.0),
    receive_ms=st.floats(0.0, 5.0),
    fsync_cpu_ms=costs,
    asleep_ms=st.floats(0.0, 5.0),
    asleep_after_ms=st.floats(0.0, 200.0),
    grouped=st.floats(0.0, 1.5),
    beside=st.floats(0.0, 1.5),
    after_commit_beside=st.none() | st.floats(0.0, 1.0),
)
settings = st.builds(
    OperatingPoint,
    clients=st.integers(1, 200),
    workload=st.just("update_index"),
    rtt_ms=st.floats(0.0, 1000.0),
    rtt_asked_ms=st.floats(0.0, 1000.0),
    semi_sync=st.booleans(),
    after_commit=st.booleans(),
    redo_fsyncs=st.sampled_from((0.0, 1.0)),
    binlog_fsyncs=st.sampled_from((0.0, 0.1, 1.0)),
    fsync_ms=st.none() | st.floats(0.01, 50.0),
    fsync_delay_ms=st.floats(0.0, 20.0),
    group_delay_ms=st.floats(0.0, 5.0),
    key_spread=st.sampled_from((0, 1, 30)),
)


def tps(setting: OperatingPoint, calibration: Calibration = CALIBRATION) -> float:
    return known(predict(setting, calibration)).tps


FSYNC = OperatingPoint(1, "update_index", fsync_delay_ms=2.0)
HOT = "clients=32 key_spread=1"
SETTINGS = f"""\
far
far rtt_ms=10.0 rtt_asked_ms=10.0
far rtt_ms=12.0 rtt_asked_ms=10.0
far rtt_ms=2.0 clients=4
far clients=8 | at_most_tps=50.0
far clients=64 workload="insert" | rate_tps=100.0
far clients=64 workload="insert" | rate_tps=10000.0
far clients=64 rtt_ms=0.0
fsync
fsync group_delay_ms=1.0
fsync redo_fsyncs=0.0
fsync redo_fsyncs=0.0 fsync_delay_ms=20.0
fsync fsync_delay_ms=20.0 clients=2
fsync fsync_delay_ms=20.0 clients=3
fsync fsync_delay_ms=20.0 group_delay_ms=5.0 clients=16
fsync clients=8 fsync_delay_ms=10.0
fsync workload="insert" redo_fsyncs=0 binlog_fsyncs=0 fsync_delay_ms=0.0
fsync {HOT}
fsync {HOT} semi_sync=True after_commit=True rtt_ms=85.0
fsync {HOT} semi_sync=True after_commit=False rtt_ms=85.0
fsync clients=64 key_spread=0 workload="update_non_index"
fsync clients=64 key_spread=20000
fsync clients=8 key_spread=200
fsync clients=64 key_spread=1 workload="insert"
"""
"""Far away or with slow fsyncs, and what is asked of the prediction."""


def test_a_commit_pays_each_term_once_and_what_limits_is_said(snapshot: object) -> None:
    """Far: 85 ms on the network, 0.1 + 0.3 here, 0.1 to receive it, all of 0.5 for cores that slept 85 ms.
    A round trip is no less than what was asked and the bare path, 0.25 ms. A group waits for the one before
    it. Clients that want a locked row do not commit meanwhile: it is locked over the fsyncs but not over the
    wait after the commit."""
    told = {}
    for line in SETTINGS.splitlines():
        setting, _, asked = line.partition("|")
        point = replace(FAR if line.startswith("far") else FSYNC, **fields(setting))
        found = known(predict(point, CALIBRATION, **fields(asked)))
        terms = {str(term): round(ms, 2) for term, ms in found.terms.items()}
        told[line] = round(found.tps, 2), round(found.latency_ms, 2), terms, found.limit
    assert told == snapshot


FAR_ROWS = "semi_sync=True redo_fsyncs=0 binlog_fsyncs=0 clients=8 rtt_ms=60.0 rtt_asked_ms=60.0"
MEASURED = f"""\
{FAR_ROWS} key_spread=1                     | 16.0   0.014
{FAR_ROWS} key_spread=200                   | 113.5  0.059
{FAR_ROWS} key_spread=1 after_commit=True   | 120.1  0.055
{FAR_ROWS} key_spread=200 after_commit=True | 124.3 -0.017
clients=1 fsync_delay_ms=5.0                | 85.0   0.046
clients=16 fsync_delay_ms=5.0               | 884.0 -0.063
clients=1 fsync_delay_ms=20.0               | 23.0   0.041
clients=16 fsync_delay_ms=20.0              | 249.0  0.002
"""
"""TPS, and by what share the model is off."""


def test_what_no_run_was_fitted_to_is_predicted_as_measured() -> None:
    """Rows that others lock, 8 clients at 60 ms; and slow disks (docs/explanation/model.md)."""
    calibration = shipped_calibration().calibration
    for line in MEASURED.splitlines():
        setting, figures = line.split("|")
        measured_tps, off = map(float, figures.split())
        predicted = tps(OperatingPoint(workload="update_index", **fields(setting)), calibration)
        assert predicted / measured_tps - 1 == pytest.approx(off, abs=0.002), line


@given(settings, calibrations, st.floats(0.0, 500.0), st.integers(1, 50))
def test_what_makes_a_commit_wait_never_predicts_more(
    setting: OperatingPoint, calibration: Calibration, more_ms: float, more: int
) -> None:
    """A longer round trip, semi-sync and fsyncs; and more clients never fewer."""
    here, slower = tps(setting, calibration), replace(setting, rtt_ms=setting.rtt_ms + more_ms)
    assert tps(slower, calibration) <= here * (1 + 1e-9)
    for better in (
        replace(setting, clients=setting.clients + more),
        replace(setting, semi_sync=False, redo_fsyncs=0.0, binlog_fsyncs=0.0),
    ):
        assert tps(better, calibration) >= here * (1 - 1e-9)


@given(settings, calibrations)
def test_the_terms_are_the_latency_and_littles_law_and_the_ceiling_hold(
    setting: OperatingPoint, calibration: Calibration
) -> None:
    predicted = known(predict(setting, calibration))
    assert sum(predicted.terms.values()) == pytest.approx(predicted.latency_ms)
    assert predicted.tps * predicted.latency_ms == pytest.approx(1000 * setting.clients)
    assert all(ms > 0 for ms in predicted.terms.values())
    local = calibration.local["update_index"]
    ceiling = known(bound(setting.clients, setting.rtt_ms, local.delay_ms + local.cpu_ms))
    assert not setting.semi_sync or predicted.tps <= ceiling.tps * (1 + 1e-9)


def test_the_limit_of_a_measured_commit_has_the_share_that_its_bar_shows(snapshot: object) -> None:
    """36 + 18 + 25 of 102 ms: the queue for the fsyncs is a part of the wait for them."""
    near = OperatingPoint(32, "update_index", fsync_delay_ms=10.0)
    seen = anatomy("wire=6.0 execute=16.0 fsync_queue=36.0 redo=18.0 binlog=25.0 engine=1.0")
    far = replace(near, rtt_ms=25.0, semi_sync=True, fsync_delay_ms=0.0)
    acked = anatomy(
        "wire=6.0 execute=16.0 fsync_queue=2.0 redo=18.0 binlog=25.0 engine=1.0 ack_queue=40.0 ack=20.0"
    )
    told = [known(predict(at, CALIBRATION, anatomy=each)).limit for at, each in ((near, seen), (far, acked))]
    assert told == snapshot


def anatomy(parts: str) -> Anatomy:
    """`wire=6.0 ack=20.0`: parts in ms."""
    found = fields(parts)
    return Anatomy(5.0, 1000, sum(found.values()), {Part(name): ms for name, ms in found.items()})


def test_the_fsync_is_the_measured_one_and_unknown_parts_leave_the_calibration() -> None:
    setting, local = measured(FSYNC, CALIBRATION, anatomy("redo=2.0 binlog=3.0"))
    assert setting.fsync_ms == 2.5
    assert local is None


KNOBS = """\

sync_binlog=0 innodb_flush_log_at_trx_commit=2
sync_binlog=10
semi_sync=on rtt@db2=85
semi_sync=on workload=point_select
fsync_delay=2 clients=32
binlog_group_commit_sync_delay=500
binlog_group_commit_sync_delay=500 binlog_group_commit_sync_no_delay_count=8
innodb_flush_log_at_trx_commit=3
binlog_commit_wait_count=20
binlog_commit_wait_count=8 binlog_commit_wait_usec=500
binlog_commit_wait_usec=500
clients=128 workload=ledger rtt@db2=200 semi_sync=on jitter@db2=5
clients=64 rtt@db2=85 key_spread=8 sync_relay_log@db2=1
"""


def test_from_knobs_and_what_was_never_calibrated_is_said(snapshot: object) -> None:
    told = {}
    for line in KNOBS.splitlines():
        point = operating_point_of(typed(line), ("db2",))
        told[line] = point, beyond(point, typed(line), ("db2",), CALIBRATION)
    assert told == snapshot


def test_a_commit_waits_for_the_fastest_that_suffice() -> None:
    for required, rtt_ms in ((1, 5.0), (2, 85.0), (3, 85.0)):
        values = typed(f"semi_sync_replicas={required}")
        assert operating_point_of(values, ("a", "b"), rtts_ms=(85.0, 5.0)).rtt_ms == rtt_ms


IN_THE_MODEL = (
    "replica_parallel_workers@db2=16 fsync_delay@db2=5 fsync_delay=5 rtt@db2=5 workload=update_index"
    " key_spread=1"
)
LEFT_OUT = """\
replica_preserve_commit_order@db2=off
binlog_row_image=minimal
rtt@db2:db3=5
innodb_doublewrite=detect_only
key_spread=1 workload=insert
"""


def test_a_knob_that_the_model_leaves_out_is_refused_where_it_is_turned() -> None:
    def turn(text: str) -> None:
        values = typed(text)
        check_known({**defaults(("db2",)), **values}, values)

    turn(IN_THE_MODEL)
    for line in LEFT_OUT.splitlines():
        told = refused(turn, line)
        assert told.startswith(f"the model does not know {line.partition('=')[0]}")
        assert "the model knows binlog_commit_wait_count, " in told


# -- how far off it is: no cell is predicted from its own runs, and a summary says what the cells do


BASE = replace(CALIBRATION, local={"update_index": LocalCost(0.0, 1.0)}, asleep_ms=0.0)
HERE = OperatingPoint(1, "update_index", redo_fsyncs=0.0, binlog_fsyncs=0.0)


def run(clients: int, tps: float = 100.0, **changed: Any) -> CalibrationRun:
    return CalibrationRun(replace(HERE, clients=clients, **changed), tps)


def test_no_cell_is_predicted_from_its_own_runs() -> None:
    seen: list[set[int]] = []

    def refitted(others: Sequence[CalibrationRun]) -> Calibration:
        seen.append({each.setting.clients for each in others})
        return BASE

    assert checks(cross_validated([run(1, 100.0)] * 3, refitted)) == ()
    assert seen == []
    for cells in (2, 9, 64):
        seen.clear()
        validated = cross_validated([run(1 + index % cells, 100.0) for index in range(3 * cells)], refitted)
        assert len(seen) == min(PARTS, cells)
        every = {*range(1, cells + 1)}
        assert sorted(clients for others in seen for clients in every - others) == [*every]
        assert len(checks(validated)) == cells


CELLS = """\
clients=4 rtt_ms=0.2 fsync_ms=0.2
clients=4 rtt_ms=0.7 fsync_ms=0.7
clients=4 rtt_ms=10.3 rtt_asked_ms=10.0
clients=4 rtt_ms=10.3 rtt_asked_ms=10.0 semi_sync=True
clients=1 tps=1000.0
clients=2 workload='insert'
"""
"""The first three are of one cell; of the last one's workload the others know nothing."""


def test_a_cell_is_known_by_what_predict_knows_beforehand() -> None:
    runs = [run(**fields(line)) for line in CELLS.splitlines()]
    validated = cross_validated(runs, lambda _: BASE)
    assert [each.predicted_tps is None for each in validated] == [False] * 5 + [True]
    assert [len(check.runs_tps) for check in checks(validated)] == [3, 1, 1]
    assert summary(checks(validated[4:])) == Validation(1, 0.0, 0.0, None)


def test_a_summary_has_median_and_the_90th_percentile_of_what_the_median_run_is_off() -> None:
    """One of each cell's runs was disturbed."""
    checked = [CellCheck(replace(HERE, clients=n), (10.0, 100.0, 110.0), 100.0 + n) for n in range(1, 11)]
    assert summary(checked) == Validation(10, 0.055, 0.09, 0.751)
    with pytest.raises(ValueError, match="no cell"):
        summary([])

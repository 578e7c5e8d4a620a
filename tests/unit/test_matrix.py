"""The matrix of failures: theory cell by cell, its drills, and what is said of what was found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from pydantic import TypeAdapter

from replexplorer import __version__
from replexplorer.core.experiment.drill import Doing, checked_steps
from replexplorer.core.experiment.drill_result import DrillResult, MeterReading
from replexplorer.core.experiment.matrix import (
    DURABILITIES,
    FAILURES,
    MODES,
    Amount,
    CellResult,
    FailureKind,
    MatrixCell,
    MatrixResult,
    Mode,
    cell_drill,
    chosen_cells,
    matrix_cells,
)
from replexplorer.core.loss.client_log import Attempts, RunLog
from replexplorer.core.loss.ledger import LossLedger, count_losses
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.system import SYSTEMS
from replexplorer.formats.documents import plain
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import markdown
from tests.known import refused
from tests.typed import table_of

DIES, CUT, LOST = FailureKind.PROCESS_DIES, FailureKind.POWER_CUT, FailureKind.SOURCE_LOST


def test_theory(snapshot: object) -> None:
    told = [
        f"{cell.name}: {cell.theory.lost} lost, {cell.theory.phantom} read and gone: {cell.theory.why}"
        for system in SYSTEMS
        for cell in matrix_cells(quick=False, system=system)
    ]
    assert told == snapshot


def test_there_are_48_cells_and_a_quick_run_meets_each_mode_and_each_durability_in_each_failure() -> None:
    whole, quick = matrix_cells(quick=False), matrix_cells(quick=True)
    assert len(set(whole)) == 48
    assert set(quick) < set(whole)
    assert {(cell.mode, cell.failure) for cell in quick} == set(product(MODES, FAILURES))
    durabilities = {((cell.sync_binlog, cell.flush), cell.failure) for cell in quick}
    assert durabilities == set(product(DURABILITIES, FAILURES))
    assert sum(cell_drill(cell, clients=8).seconds(quick=True) for cell in quick) < 360


CHOSEN = """\
                         | 48
power_cut                | 16
power-cut source_lost    | 32
async 1/1                | 3
async 1/1 0/0 power_cut  | 2
"""


def test_cells_are_chosen_by_words_one_of_each_kind_that_is_given() -> None:
    for words, count in table_of(CHOSEN):
        chosen = chosen_cells(matrix_cells(quick=False), words.split())
        assert len(chosen) == int(count), words
        spelled = {word.replace("-", "_") for word in words.split()}
        assert all(spelled.intersection(cell.words) or not words for cell in chosen)


def test_words_that_choose_nothing_are_refused(snapshot: object) -> None:
    mistakes = [["power"], ["after_sync", "1/2", "power_cut"]]
    assert [refused(chosen_cells, matrix_cells(quick=True), each) for each in mistakes] == snapshot


def test_each_cell_is_a_drill_that_ends_the_source_and_brings_it_back_unless_it_is_lost() -> None:
    for cell in matrix_cells(quick=False):
        drill = cell_drill(cell, clients=8)
        injected = [step.what for step in drill.steps if step.doing is Doing.INJECT]
        mended = [step.what for step in drill.steps if step.doing is Doing.CLEAR]
        assert injected[-1] == ("power_cut=strict" if cell.failure is CUT else "kill")
        assert bool(mended) is (cell.failure is not LOST)
        assert bool(drill.survivor) is (cell.failure is LOST)
        assert ("partition=both" in injected) is (cell.mode is Mode.FALLEN_BACK)
        assert bool(drill.prechecks) is (cell.mode is not Mode.ASYNC)


def test_a_group_meets_each_failure() -> None:
    for system in ("group", "galera"):
        whole, quick = (matrix_cells(quick=each, system=system) for each in (False, True))
        assert len(set(whole)) == 10
        assert len(quick) == 5
        assert set(quick) < set(whole)
        assert [cell.failure for cell in quick] == list(FailureKind)
        assert sum(cell_drill(cell, clients=8).seconds(quick=True) for cell in quick) < 150
        isolated = MatrixCell(Mode(system), 1, 1, FailureKind.ISOLATED)
        assert chosen_cells(whole, ["isolated", "1/1"]) == [isolated]
        no_cell = f"'after_sync' is not in the matrix of {system}"
        assert no_cell in refused(chosen_cells, whole, ["after_sync"])


def test_each_cell_of_a_group_lets_it_write_again_and_only_a_lost_member_stays_away() -> None:
    for cell in matrix_cells(quick=False, system="group"):
        drill = cell_drill(cell, clients=8)
        doings = [step.doing for step in drill.steps]
        waited = [step.what for step in drill.steps if step.doing is Doing.UNTIL]
        assert drill.systems == ("group",)
        assert drill.replicas == 2
        assert drill.survivor == ""
        assert "writing" in waited
        assert (Doing.CLEAR in doings) is (cell.failure is not LOST)
        assert ("blocked" in waited) is (cell.failure is FailureKind.MAJORITY_LOST)
        assert checked_steps(drill.steps) is None


AMOUNTS = """\
none        | 0      | yes
none        | 1      | no
few         | 0      | yes
few         | 9      | yes
some        | 0      | no
some        | 1      | yes
last second | 0      | yes
last second | 5 900  | yes
last second | 5      | yes
last second | 5 4000 | no
"""
"""How many are gone, and the age of the oldest in ms."""


def test_what_an_amount_allows() -> None:
    for amount, gone, allowed in table_of(AMOUNTS):
        assert Amount(amount).allows(*map(int, gone.split())) is (allowed == "yes"), amount


def ledger_of(lost: int) -> LossLedger:
    log = RunLog(1, {1: Attempts(((1, 100),), ((1, 100),), (), ())}, {})
    return count_losses(log, {"db1": {1: ((1, 100 - lost),)}}, "db1", executed={})


NO_ONE_LOOKED = Unknown("no one looked")


def found(cell: MatrixCell, lost: int, power_cut: Loss | Unknown = NO_ONE_LOOKED) -> CellResult:
    nothing = Loss(0, 0, 0)
    reading = MeterReading(Exposure(nothing, power_cut, nothing), 2.0, 2.2, meanwhile=3)
    drill = cell_drill(cell, clients=8)
    result = DrillResult(drill, server="mysql", ledger=ledger_of(lost), reading=reading, recovery_ms=812.0)
    return CellResult.of(cell, result, 20.0)


def matrix_of(*cells: CellResult) -> MatrixResult:
    return MatrixResult(server="mysql 9.7.4", quick=True, clients=8, cells=list(cells))


CELL = MatrixCell(Mode.ASYNC, 1, 2, CUT)
METER = Loss(5, 4, 9)


def test_a_cell_is_read_from_the_journal_as_it_was_written() -> None:
    journal = TypeAdapter(CellResult)
    for one in (found(CELL, 7, METER), replace(found(CELL, 7), repaired=("a copy brought it back",))):
        assert journal.validate_json(journal.dump_json(one)) == one


def test_what_was_acknowledged_after_the_reading_was_at_risk_too() -> None:
    within = {4: True, 12: True, 13: False, 3: False}
    assert {lost: found(CELL, lost, METER).in_meter for lost in within} == within
    assert found(CELL, 3).in_meter is None


def test_one_cell_against_theory_makes_the_matrix_deviate() -> None:
    good, bad = found(CELL, 7, METER), found(replace(CELL, flush=1), 7)
    aborted = replace(good, aborted="db1 is gone")
    assert matrix_of(good).verdict == "holds"
    assert matrix_of(good, bad, aborted).verdict == "deviates"
    assert matrix_of(good, aborted).verdict == "aborted"


def test_a_report_says_what_was_lost_beside_theory_and_meter(snapshot: object) -> None:
    result = matrix_of(found(CELL, 7, METER))
    assert markdown(experiment_report(result)).replace(__version__, "VERSION") == snapshot
    assert result.cells[0].line == "power cut, async 1/2: 7 lost of 100 (theory: last second; meter: 4 to 12)"
    assert plain(result)["cells"][0]["in_meter"] is True


def test_of_a_group_a_report_says_what_a_member_needed_and_nothing_of_the_meter() -> None:
    """The meter counts with one server."""
    why = "db1 is not a member of the group (ERROR): a copy of the group's data brought it back"
    cell = found(MatrixCell(Mode.GROUP, 0, 0, CUT), 0, METER)
    result = matrix_of(replace(cell, repaired=(why,)))
    assert result.system == "group"
    assert cell.meter is None
    assert result.verdict == "holds"
    assert result.cells[0].line.endswith(f"; {why}")
    told = markdown(experiment_report(result))
    assert f"power cut, Group Replication 0/0: {why}" in told
    assert "meter" not in told.rpartition("1 of 1 cells as theory says")[2]

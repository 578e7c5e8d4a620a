"""The matrix of failures: theory cell by cell, its drills, and what is said of what was found."""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter

from replexplorer import __version__
from replexplorer.core.experiment.drill import checked_steps
from replexplorer.core.experiment.drill_result import DrillResult, MeterReading
from replexplorer.core.experiment.matrix import (
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


def test_each_cell_has_a_theory_and_a_drill(snapshot: object) -> None:
    """48 cells of a source and its replicas, ten of a group. A quick run meets each mode and each durability
    in each failure. A drill ends the source and brings it back unless it is lost."""
    told = {}
    for system in SYSTEMS:
        whole, quick = (matrix_cells(quick=each, system=system) for each in (False, True))
        quick_s = sum(cell_drill(cell, clients=8).seconds(quick=True) for cell in quick)
        told[system] = [f"{len({*whole})} cells, {len(quick)} of them in {quick_s:.0f} s"]
        for cell in whole:
            drill, theory = cell_drill(cell, clients=8), cell.theory
            assert checked_steps(drill.steps) is None
            told[system] += [
                f"{cell.name}{' (quick)' * (cell in quick)}",
                f"  {theory.lost} lost, {theory.phantom} read and gone: {theory.why}",
                f"  {'; '.join(step.text for step in drill.steps)}",
                f"  {drill.replicas} replicas, survivor {drill.survivor!r}, {len(drill.prechecks)} prechecks",
            ]
    assert told == snapshot


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
    mistakes = [("async", "power"), ("async", "after_sync", "1/2", "power_cut"), ("galera", "after_sync")]
    told = [
        refused(chosen_cells, matrix_cells(quick=True, system=system), words) for system, *words in mistakes
    ]
    assert told == snapshot


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


CUT = FailureKind.POWER_CUT
CELL = MatrixCell(Mode.ASYNC, 1, 2, CUT)
METER = Loss(5, 4, 9)


def test_a_cell_is_read_from_the_journal_as_it_was_written() -> None:
    journal = TypeAdapter(CellResult)
    one = replace(found(CELL, 7, METER), repaired=("a copy brought it back",))
    assert journal.validate_json(journal.dump_json(one)) == one


def test_what_was_acknowledged_after_the_reading_was_at_risk_too() -> None:
    assert [found(CELL, lost, METER).in_meter for lost in (3, 4, 12, 13)] == [False, True, True, False]
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

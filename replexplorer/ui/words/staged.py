"""Labs, drills and the matrix alike: an experiment in stages, each with its name and what to watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import Matrix, matrix_cells
from replexplorer.core.experiment.matrix_result import MatrixResult
from replexplorer.engine.experiment.drills.matrix import MatrixProgress
from replexplorer.engine.experiment.drills.progress import DrillProgress
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.step import LabStep
from replexplorer.reports.matrix_pages import cell_title

Staged = Lab | Drill | Matrix
StagedStep = LabStep | DrillProgress | MatrixProgress
StagedResult = LabResult | DrillResult | MatrixResult


class Stage(NamedTuple):
    """A phase of a lab, a step of a drill, or a cell of the matrix."""

    name: str
    shows: str


def stages(experiment: Staged, step: StagedStep | None = None) -> Sequence[Stage]:
    """All of them, in order; of the matrix those of the run that a `step` is of, the whole one's for None."""
    if isinstance(experiment, Matrix):
        cells = step.cells if isinstance(step, MatrixProgress) else matrix_cells(quick=False)
        return [Stage(cell_title(cell), cell.theory.why) for cell in cells]
    if isinstance(experiment, Drill):
        return [Stage(each.text, each.shows) for each in experiment.narrated.steps]
    return [Stage(phase.name, phase.shows) for phase in experiment.phases]


def stage_of(experiment: Staged, step: StagedStep | None) -> Stage | None:
    """The one under way; None before the first and after the last."""
    return stages(experiment, step)[step.number - 1] if step is not None and step.number else None


def turned_by(experiment: Staged) -> frozenset[str]:
    """Keys of the knobs that it turns."""
    if isinstance(experiment, Matrix):
        return frozenset()
    if isinstance(experiment, Drill):
        texts: Sequence[str] = experiment.turns
    else:
        texts = [text for phase in experiment.phases for text in phase.settings]
    return frozenset(text.partition("=")[0].partition("@")[0] for text in texts)


def kind_of(experiment: Staged) -> str:
    """`lab` or `drill`."""
    return "lab" if isinstance(experiment, Lab) else "drill"


def experiment_of(result: StagedResult) -> Staged:
    """What was run."""
    if isinstance(result, MatrixResult):
        return Matrix()
    return result.drill if isinstance(result, DrillResult) else result.lab

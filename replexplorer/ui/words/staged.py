"""Labs and drills alike: an experiment in stages, each with its name and what to watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.engine.experiment.drills.progress import DrillProgress
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.step import LabStep

Staged = Lab | Drill
StagedStep = LabStep | DrillProgress
StagedResult = LabResult | DrillResult


class Stage(NamedTuple):
    """A phase of a lab, or a step of a drill."""

    name: str
    shows: str


def stages(experiment: Staged) -> Sequence[Stage]:
    """All of them, in order."""
    if isinstance(experiment, Drill):
        return [Stage(step.text, step.shows) for step in experiment.steps]
    return [Stage(phase.name, phase.shows) for phase in experiment.phases]


def stage_of(step: StagedStep) -> Stage | None:
    """The one under way; None before the first and after the last."""
    experiment = step.drill if isinstance(step, DrillProgress) else step.lab
    return stages(experiment)[step.number - 1] if step.number else None


def kind_of(experiment: Staged) -> str:
    """`lab` or `drill`."""
    return "drill" if isinstance(experiment, Drill) else "lab"


def experiment_of(result: StagedResult) -> Staged:
    """What was run."""
    return result.drill if isinstance(result, DrillResult) else result.lab

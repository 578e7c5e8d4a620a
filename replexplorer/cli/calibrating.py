"""What a sweep teaches the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Final, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep_runs import SweptRun, figures_of
from replexplorer.core.experiment.swept import Swept
from replexplorer.core.model.fit import Origin, fit, lacking
from replexplorer.core.model.fitted import Calibration, CalibrationRun, OperatingPoint
from replexplorer.core.model.validation import Region, checks, regions
from replexplorer.formats import paths
from replexplorer.formats.calibration import save_calibration, this_machine

MOST_ERROR: Final = 0.25
"""A model that misses half of the cells by more than this was fitted on a busy machine."""
_KNOWN: Final = frozenset(each.name for each in fields(OperatingPoint))


class Lesson(NamedTuple):
    """What a sweep taught the model."""

    told: str
    """In words."""
    calibration: Calibration | None = None
    """What predictions rest on from now on; None: what they rested on before."""
    regions: tuple[Region, ...] = ()
    """How far off it is, by region; none where nothing was fitted."""


def learned(swept: Swept) -> Lesson:
    """What a finished sweep teaches the model (`taught` by those of its runs that count)."""
    counted = [run for cell in figures_of(swept.sweep.grid, swept.runs) for run in cell.good]
    return taught(counted, swept.server, swept.ended_wall_s)


def taught(counted: Iterable[SweptRun], server: str, at_wall_s: float) -> Lesson:
    """Fit the model to runs and keep that as this machine's calibration. A sweep that cannot tell all
    parameters, or that the model does not fit, changes nothing; nor does one
    whose calibration cannot be written."""
    runs = tuple(run for swept in counted if (run := calibration_run(swept)) is not None)
    if missing := lacking(runs):
        return Lesson(f"the model's calibration is unchanged: fitting it takes {missing}")
    day = datetime.fromtimestamp(at_wall_s, UTC).date().isoformat()
    calibration, runs = fit(runs, Origin(day, this_machine(), server))
    checked, found = regions(checks(runs)), calibration.validation
    if found.median_error > MOST_ERROR:
        told = f"the model's calibration is unchanged: {found}: was the machine busy?"
        return Lesson(told, regions=checked)
    file = paths.calibration_file()
    try:
        save_calibration(calibration, runs, file)
    except UsageError as error:
        return Lesson(f"the model's calibration is unchanged: {error}")
    return Lesson(f"this machine's model: {found}; {file}", calibration, checked)


def calibration_run(swept: SweptRun) -> CalibrationRun | None:
    """What the model is fitted to; None where the run says nothing of its settings."""
    if swept.why is not None or not swept.tps or swept.setting is None:
        return None
    setting = {name: value for name, value in swept.setting.items() if name in _KNOWN}
    return CalibrationRun(OperatingPoint(**setting), round(swept.tps, 3))

"""The verb sweep: every combination of some knobs measured, and what the model learns of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from replexplorer.cli.entry import Call
from replexplorer.cli.experiment_run import Narration
from replexplorer.cli.wiring import attached
from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.experiment.sweep_result import Swept, SweptRun
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.model.fit import Origin, fit, lacking, with_applier
from replexplorer.core.model.fitted import AppliedRate, Calibration, CalibrationRun, OperatingPoint
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.formats import paths
from replexplorer.formats.calibration import load_calibration, save_calibration, this_machine
from replexplorer.formats.scenes import scene_texts
from replexplorer.reports.conditions import conditions_of, settings_words
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import plain_text, report_directory, write_report
from replexplorer.reports.sweep_report import under

_MOST_TICK_S = 0.5
_LEAST_TICK_S = 0.1
_READINGS = 20
"""Intervals in a run, so that there are batches enough for its scatter."""


async def run(call: Call) -> int:
    """Run the sweep, or continue it."""
    args, console = call.args, call.console
    read_grid(args.knobs, partial(parse_assignment, roster=new_roster()), scene_texts)  # without a stack
    directory = report_directory(args.report)
    tick_s = min(_MOST_TICK_S, max(_LEAST_TICK_S, args.duration / _READINGS))
    async with attached(call, "sweep", beside=args.share_load, tick_s=tick_s) as session:
        grid = read_grid(args.knobs, session.console.parse, scene_texts)
        wanted = Sweep(grid, args.duration, args.repeat, args.seed)
        conditions = conditions_of(session, (value for cell in grid.cells for value in cell.values.values()))
        console.narrate(f"starts from: {settings_words(conditions)}")
        console.narrate(f"{wanted.words}: {grid.text}")
        with Narration(console) as narration:
            swept = await session.console.run(
                SweepRun(wanted, narration, args.restart, needs_cpu=not (args.force or args.share_load))
            )
    under(swept, conditions)
    swept.calibration = learned(swept).told
    report = experiment_report(swept)
    write = None if directory is None else partial(write_report, directory, report, swept, session.file)
    return console.deliver(swept, lambda: plain_text(report, console.columns), write)


MOST_ERROR: Final = 0.25
"""A model that misses half of the cells by more than this was fitted on a busy machine."""
_KNOWN: Final = frozenset(each.name for each in fields(OperatingPoint))


class Learned(NamedTuple):
    """What a sweep taught the model."""

    told: str
    """In words."""
    calibration: Calibration | None = None
    """What predictions rest on from now on; None: what they rested on before."""


def learned(swept: Swept) -> Learned:
    """What a finished sweep teaches the model (`taught` by those of its runs that count)."""
    counted = [run for cell in swept.cells for run in cell.good]
    return taught(counted, swept.server, swept.ended_wall_s)


def taught(counted: Iterable[SweptRun], server: str, at_wall_s: float) -> Learned:
    """Fit the model to runs and keep that as this machine's calibration. A sweep that cannot tell all
    parameters, or that the model does not fit, changes nothing, but for what late replicas tell of their
    workers; nor does one whose calibration cannot be written."""
    runs = tuple(run for swept in counted if (run := calibration_run(swept)) is not None)
    file = paths.calibration_file()
    if missing := lacking(runs):
        known = load_calibration(file)
        calibration, told = with_applier(known.calibration, runs), "replicas as these runs have them"
        if known.origin == "shipped" or calibration == known.calibration:
            return Learned(f"the model's calibration is unchanged: fitting it takes {missing}")
        runs = (*known.runs, *runs)
    else:
        day = datetime.fromtimestamp(at_wall_s, UTC).date().isoformat()
        calibration, runs = fit(runs, Origin(day, this_machine(), server))
        told = str(calibration.validation)
        if calibration.validation.median_error > MOST_ERROR:
            return Learned(f"the model's calibration is unchanged: {told}: was the machine busy?")
    try:
        save_calibration(calibration, runs, file)
    except UsageError as error:
        return Learned(f"the model's calibration is unchanged: {error}")
    return Learned(f"this machine's model: {told}; {file}", calibration)


def calibration_run(swept: SweptRun) -> CalibrationRun | None:
    """What the model is fitted to; None where the run says nothing of its settings."""
    if swept.why is not None or not swept.tps or swept.setting is None:
        return None
    applied = None
    if swept.applier is not None and swept.lag is not None and swept.lag.applied_tps is not None:
        applied = AppliedRate(_point(swept.applier), round(swept.lag.applied_tps, 3))
    return CalibrationRun(_point(swept.setting), round(swept.tps, 3), applied)


def _point(setting: Mapping[str, Any]) -> OperatingPoint:
    return OperatingPoint(**{name: value for name, value in setting.items() if name in _KNOWN})

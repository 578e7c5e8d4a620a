"""What a sweep teaches the model, and how well the model fits what it was taught."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Final, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep_runs import SweptRun, figures_of
from replexplorer.core.experiment.swept import Swept
from replexplorer.core.model.fit import Origin, Residual, fit, lacking, residuals
from replexplorer.core.model.fitted import Calibration, CalibrationRun, OperatingPoint
from replexplorer.formats import paths
from replexplorer.formats.calibration import Calibrated, save_calibration, this_machine

MOST_ERROR: Final = 0.25
"""A model that misses half of its own runs by more than this was fitted on a busy machine."""


class Lesson(NamedTuple):
    """What a sweep taught the model."""

    told: str
    """In words."""
    calibration: Calibration | None = None
    """What predictions rest on from now on; None: what they rested on before."""


def learned(swept: Swept) -> Lesson:
    """What a finished sweep teaches the model (`taught` by those of its runs that count)."""
    counted = [run for cell in figures_of(swept.sweep.grid, swept.runs) for run in cell.good]
    return taught(counted, swept.server, swept.ended_wall_s)


def taught(counted: Iterable[SweptRun], server: str, at_wall_s: float) -> Lesson:
    """Fit the model to runs and keep that as this machine's calibration. A sweep that cannot tell all
    parameters, or that the model does not fit, changes nothing; nor does one
    whose calibration cannot be written."""
    runs = [run for swept in counted if (run := _run(swept)) is not None]
    if missing := lacking(runs):
        return Lesson(f"the model's calibration is unchanged: fitting it takes {missing}")
    day = datetime.fromtimestamp(at_wall_s, UTC).date().isoformat()
    calibration = fit(runs, Origin(day, this_machine(), server))
    fitted = _percent(calibration.median_error, calibration.runs)
    if calibration.median_error > MOST_ERROR:
        return Lesson(
            f"the model's calibration is unchanged: it does not fit these {fitted}: was the machine busy?"
        )
    file = paths.calibration_file()
    try:
        save_calibration(calibration, runs, file)
    except UsageError as error:
        return Lesson(f"the model's calibration is unchanged: {error}")
    return Lesson(f"the model is fitted to {fitted}: {file}", calibration)


def _run(swept: SweptRun) -> CalibrationRun | None:
    """What the model is fitted to; None where the run says nothing of its settings."""
    if swept.why is not None or not swept.tps or swept.setting is None:
        return None
    setting = OperatingPoint(**swept.setting)
    fastest_ms = swept.service.min_ms
    if setting.semi_sync and fastest_ms is not None:
        # A probe waits for a core on a busy machine, and no commit was faster than its round trip.
        setting = replace(setting, rtt_ms=min(setting.rtt_ms, fastest_ms))
    return CalibrationRun(setting, round(swept.tps, 3))


def errors_markdown(calibrated: Calibrated) -> str:
    """Each cell of the runs that a calibration was fitted to: measured TPS and the model's error."""
    cells: dict[tuple[tuple[str, str, str], int], list[Residual]] = {}
    for residual in residuals(calibrated.runs, calibrated.calibration):
        setting = residual.run.setting
        cells.setdefault((_row(setting), setting.clients), []).append(residual)
    columns = sorted({clients for _, clients in cells})
    rows = sorted({row for row, _ in cells}, key=lambda row: (row[0], row[1], float(row[2])))
    calibration = calibrated.calibration
    lines = [
        f"{calibration.day}, {calibration.server}, {calibration.machine}:"
        f" {_percent(calibration.median_error, calibration.runs)}."
        " A cell is the measured TPS and what the model says beside it.",
        "",
        "| workload | durable by | RTT ms | "
        + " | ".join(f"{n} client{'s' * (n > 1)}" for n in columns)
        + " |",
        "|---|---|--:|" + "--:|" * len(columns),
    ]
    lines += [
        "| " + " | ".join((*row, *(_cell(cells.get((row, clients), ())) for clients in columns))) + " |"
        for row in rows
    ]
    return "\n".join(lines)


def _row(setting: OperatingPoint) -> tuple[str, str, str]:
    """Workload, durability in words and the round trip that was asked."""
    fsyncs = setting.redo_fsyncs + setting.binlog_fsyncs > 0
    mode = {(False, False): "none", (False, True): "local", (True, False): "network", (True, True): "both"}
    words = mode[setting.semi_sync, fsyncs]
    if setting.semi_sync and setting.after_commit:
        words += ", after_commit"
    if fsyncs and setting.fsync_delay_ms:
        words += f", fsync +{setting.fsync_delay_ms:g} ms"
    return setting.workload, words, f"{setting.rtt_asked_ms:g}"


def _cell(residuals_: Sequence[Residual]) -> str:
    if not residuals_:
        return ""
    tps = fmean(each.run.tps for each in residuals_)
    error = fmean(each.predicted_tps for each in residuals_) / tps - 1
    return f"{tps:,.{0 if tps >= 100 else 1}f} ({error:+.0%})".replace("%", " %")


def _percent(error: float, runs: int) -> str:
    return f"{runs} runs, median error {error:.0%}".replace("%", " %")

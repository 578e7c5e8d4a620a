"""The tables of docs/model.md: how good a calibration's predictions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.fit import CellCheck, cells_of, checks, durable_by, regions
from replexplorer.core.model.fitted import CalibrationRun, OperatingPoint
from replexplorer.formats.calibration import Calibrated
from replexplorer.reports.report import ReportTable, block_markdown, numbers, words
from replexplorer.reports.sweep_report import REGION_COLUMNS, percent, region_row, signed

_WHOLE_TPS: Final = 100
"""From here on a rate is told without its tenths."""


def validation_markdown(calibrated: Calibrated) -> str:
    """How good a calibration's predictions are: in one line, by region, and cell by cell."""
    calibration, checked = calibrated.calibration, checks(calibrated.runs)
    found = calibration.validation
    noise = "" if found.noise is None else f"; {percent(found.noise)} from run to run"
    first = (
        f"{calibration.day}, {calibration.server}, {calibration.machine}: {calibration.runs} runs,"
        f" {found}; 90 % of the cells within {percent(found.p90_error)}{noise}."
    )
    tables = [ReportTable(REGION_COLUMNS, [region_row(each) for each in regions(checked)]), _cells(checked)]
    parts = [first, *map(block_markdown, tables)]
    if (ceilings := _ceilings(calibrated.runs)).rows:
        parts += ["What commits reached of the ceiling, in TPS:", block_markdown(ceilings)]
    return "\n\n".join(parts)


def _cells(checked: Sequence[CellCheck]) -> ReportTable:
    """Each cell: its measured TPS, the error of what the others say of it, and its run-to-run noise."""
    return _by_clients({(_row(check.setting), check.setting.clients): _cell(check) for check in checked})


def _by_clients(cells: Mapping[tuple[tuple[str, str, str], int], str]) -> ReportTable:
    """A row for each setting, a column for each number of clients."""
    columns = sorted({clients for _, clients in cells})
    rows = sorted({row for row, _ in cells}, key=lambda row: (row[0], row[1], _rtt_ms(row)))
    heads = (
        *words("workload", "durable by"),
        *numbers("RTT ms", *(f"{n} client{'s' * (n > 1)}" for n in columns)),
    )
    lines = [(*row, *(cells.get((row, clients), "") for clients in columns)) for row in rows]
    return ReportTable(heads, lines)


def _ceilings(runs: Sequence[CalibrationRun]) -> ReportTable:
    """How much of the ceiling each cell reached; without a row where no client committed without the link.

    The ceiling is of the probe's round trip in the cell's runs, and of what one such client's commits took.
    """
    cells = cells_of(runs)
    alone_ms = {
        (setting.workload, setting.redo_fsyncs, setting.binlog_fsyncs, setting.fsync_delay_ms): 1000
        / _tps(its)
        for setting, its in cells.items()
        if setting.clients == 1 and not setting.semi_sync
    }
    reached: dict[tuple[tuple[str, str, str], int], str] = {}
    for setting, its in cells.items():
        local_ms = alone_ms.get(
            (setting.workload, setting.redo_fsyncs, setting.binlog_fsyncs, setting.fsync_delay_ms)
        )
        if not setting.semi_sync or local_ms is None:
            continue
        ceiling = bound(setting.clients, fmean(run.setting.rtt_ms for run in its), local_ms)
        if ceiling is not None:
            share = percent(_tps(its) / ceiling.tps)
            reached[_row(setting), setting.clients] = f"{share} of {_figure(ceiling.tps)}"
    return _by_clients(reached)


def _tps(runs: Sequence[CalibrationRun]) -> float:
    return fmean(run.tps for run in runs)


def _row(setting: OperatingPoint) -> tuple[str, str, str]:
    """Workload, durability in words and the round trip that was asked, where commits wait for it."""
    words = durable_by(setting)
    if setting.semi_sync and setting.after_commit:
        words += ", after_commit"
    if setting.redo_fsyncs + setting.binlog_fsyncs > 0 and setting.fsync_delay_ms:
        words += f", fsync +{setting.fsync_delay_ms:g} ms"
    return setting.workload, words, f"{setting.rtt_asked_ms:g}" if setting.semi_sync else "any"


def _rtt_ms(row: tuple[str, str, str]) -> float:
    return -1.0 if row[2] == "any" else float(row[2])


def _cell(check: CellCheck) -> str:
    noise = "" if check.noise is None else f", ±{percent(check.noise)}"
    return f"{_figure(check.tps)} ({signed(check.error)}{noise})"


def _figure(tps: float) -> str:
    return f"{tps:,.{0 if tps >= _WHOLE_TPS else 1}f}"

"""How good the prediction is, as text for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.fitted import CalibrationRun, OperatingPoint
from replexplorer.core.model.validation import ALL, CellCheck, Region, cells_of, checks, durable_by, regions
from replexplorer.core.text import table
from replexplorer.formats.calibration import Calibrated
from replexplorer.formats.json.sweep import SweepRegion

_WHOLE_TPS: Final = 100
"""From here on a rate is told without its tenths."""
_HEADS: Final = ("durable by", "RTT ms", "clients", "cells", "bias", "median error", "run to run")


def regions_text(found: Sequence[Region | SweepRegion]) -> str:
    """Bias, error and noise for the terminal: of all cells, and by each dimension by itself."""
    heads = tuple(head if head == "RTT ms" else head.upper() for head in _HEADS)
    margins = [region for region in found if (region.durable_by, region.rtt, region.clients).count(ALL) > 1]
    return table([_figures(region) for region in margins], heads, right=range(3, len(_HEADS)))


def regions_markdown(found: Sequence[Region | SweepRegion]) -> str:
    """Bias, error and noise by region as a table of Markdown."""
    return _markdown(_HEADS, [_figures(region) for region in found], words=3)


def validation_markdown(calibrated: Calibrated) -> str:
    """How good a calibration's predictions are: in one line, by region, and cell by cell."""
    calibration, checked = calibrated.calibration, checks(calibrated.runs)
    found = calibration.validation
    noise = "" if found.noise is None else f"; {_percent(found.noise)} from run to run"
    first = (
        f"{calibration.day}, {calibration.server}, {calibration.machine}: {calibration.runs} runs,"
        f" {found}; 90 % of the cells within {_percent(found.p90_error)}{noise}."
    )
    tables = (
        regions_markdown(regions(checked)),
        _cells_markdown(checked),
        _ceilings_markdown(calibrated.runs),
    )
    return "\n\n".join((first, *filter(None, tables)))


def _figures(region: Region | SweepRegion) -> tuple[str, ...]:
    noise = "-" if region.noise is None else _percent(region.noise)
    names = (region.durable_by, region.rtt, region.clients, str(region.cells))
    return *names, _signed(region.bias), _percent(region.error), noise


def _cells_markdown(checked: Sequence[CellCheck]) -> str:
    """Each cell: its measured TPS, the error of what the others say of it, and its run-to-run noise."""
    cells = {(_row(check.setting), check.setting.clients): _cell(check) for check in checked}
    return _by_clients(cells)


def _by_clients(cells: Mapping[tuple[tuple[str, str, str], int], str]) -> str:
    """A row for each setting, a column for each number of clients."""
    columns = sorted({clients for _, clients in cells})
    rows = sorted({row for row, _ in cells}, key=lambda row: (row[0], row[1], _rtt_ms(row)))
    heads = ("workload", "durable by", "RTT ms", *(f"{n} client{'s' * (n > 1)}" for n in columns))
    lines = [(*row, *(cells.get((row, clients), "") for clients in columns)) for row in rows]
    return _markdown(heads, lines, words=2)


def _ceilings_markdown(runs: Sequence[CalibrationRun]) -> str:
    """How much of the ceiling each cell reached; empty where no client committed without the link.

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
            share = _percent(_tps(its) / ceiling.tps)
            reached[_row(setting), setting.clients] = f"{share} of {_figure(ceiling.tps)}"
    if not reached:
        return ""
    return "What commits reached of the ceiling, in TPS:\n\n" + _by_clients(reached)


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
    noise = "" if check.noise is None else f", ±{_percent(check.noise)}"
    return f"{_figure(check.tps)} ({_signed(check.error)}{noise})"


def _figure(tps: float) -> str:
    return f"{tps:,.{0 if tps >= _WHOLE_TPS else 1}f}"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table of which the first `words` columns are no numbers."""
    rule = "---|" * words + "--:|" * (len(heads) - words)
    return "\n".join([_line(heads), f"|{rule}", *map(_line, rows)])


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _signed(share: float) -> str:
    return f"{share:+.0%}".replace("%", " %")


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")

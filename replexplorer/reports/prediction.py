"""How good the prediction is, as text for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.model.validation import ALL, CellCheck, Region, checks, durable_by, regions
from replexplorer.core.text import table
from replexplorer.formats.calibration import Calibrated
from replexplorer.formats.json.sweep import SweepRegion

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
    return "\n\n".join((first, regions_markdown(regions(checked)), _cells_markdown(checked)))


def _figures(region: Region | SweepRegion) -> tuple[str, ...]:
    noise = "-" if region.noise is None else _percent(region.noise)
    names = (region.durable_by, region.rtt, region.clients, str(region.cells))
    return *names, _signed(region.bias), _percent(region.error), noise


def _cells_markdown(checked: Sequence[CellCheck]) -> str:
    """Each cell: its measured TPS, the error of what the others say of it, and its run-to-run noise."""
    cells = {(_row(check.setting), check.setting.clients): check for check in checked}
    columns = sorted({clients for _, clients in cells})
    rows = sorted({row for row, _ in cells}, key=lambda row: (row[0], row[1], _rtt_ms(row)))
    heads = ("workload", "durable by", "RTT ms", *(f"{n} client{'s' * (n > 1)}" for n in columns))
    lines = [(*row, *(_cell(cells.get((row, clients))) for clients in columns)) for row in rows]
    return _markdown(heads, lines, words=2)


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


def _cell(check: CellCheck | None) -> str:
    if check is None:
        return ""
    noise = "" if check.noise is None else f", ±{_percent(check.noise)}"
    return f"{check.tps:,.{0 if check.tps >= 100 else 1}f} ({_signed(check.error)}{noise})"


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

"""The tables of docs/measurements/calibration.md: how good a calibration's predictions are."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import Final

from replexplorer.core.model.fit import CellCheck, checks, noise_of
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.formats.calibration import Calibrated
from replexplorer.reports.report import ReportTable, block_markdown, numbers, words

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


# -- by region

_FEW: Final = 8
ALL: Final = "all"
"""In a region's name: whatever it is."""
_DIMENSIONS: Final = ((), (0,), (1,), (2,))
"""By which of a region's three names the cells are taken together."""


@dataclass(frozen=True, slots=True)
class Region:
    """What the cells of a region say together; `all` in a dimension: whatever it is."""

    durable_by: str
    rtt: str
    """The round trip that was asked, in ms; `any` where no commit waits for it."""
    clients: str
    cells: int
    bias: float
    """Predicted over measured, less one: the geometric mean over the cells."""
    error: float
    """Median of the absolute errors."""
    noise: float | None
    """Median of the cells' run-to-run noise; None where none was run twice."""


def regions(checked: Sequence[CellCheck]) -> tuple[Region, ...]:
    """All cells together, by what makes commits durable, by round trip and by number of clients, each in the
    order in which they come."""
    return tuple(region for kept in _DIMENSIONS for region in _regions(checked, kept))


def _regions(checked: Sequence[CellCheck], kept: Container[int]) -> Iterator[Region]:
    found: dict[tuple[str, ...], list[CellCheck]] = {}
    for check in checked:
        name = tuple(each if at in kept else ALL for at, each in enumerate(_region(check.setting)))
        found.setdefault(name, []).append(check)
    for (durable, rtt, clients), its in found.items():
        yield Region(
            durable,
            rtt,
            clients,
            cells=len(its),
            bias=exp(fmean(log(check.predicted_tps / check.tps) for check in its)) - 1,
            error=median(abs(check.error) for check in its),
            noise=noise_of(its),
        )


def _region(setting: OperatingPoint) -> tuple[str, str, str]:
    rtt = f"{setting.rtt_asked_ms:g}" if setting.semi_sync else "any"
    return durable_by(setting), rtt, client_range(setting.clients)


def durable_by(setting: OperatingPoint) -> str:
    """What makes a commit durable: `none`, `local`, `network` or `both`, as the scenes are named."""
    fsyncs = setting.redo_fsyncs + setting.binlog_fsyncs > 0
    names = {(False, False): "none", (False, True): "local", (True, False): "network", (True, True): "both"}
    return names[setting.semi_sync, fsyncs]


def client_range(clients: int) -> str:
    """`1`, `2 to 8` or `9 and more`: one alone, a few, and many."""
    return "1" if clients == 1 else "2 to 8" if clients <= _FEW else "9 and more"


REGION_COLUMNS: Final = (
    *words("durable by", "RTT ms", "clients"),
    *numbers("cells", "bias", "median error", "run to run"),
)


def region_row(region: Region) -> tuple[str, ...]:
    """One region under `REGION_COLUMNS`."""
    noise = "-" if region.noise is None else percent(region.noise)
    names = (region.durable_by, region.rtt, region.clients, str(region.cells))
    return *names, signed(region.bias), percent(region.error), noise


def signed(share: float) -> str:
    """`+12 %`."""
    return f"{share:+.0%}".replace("%", " %")


def percent(share: float) -> str:
    """`12 %`."""
    return f"{share:.0%}".replace("%", " %")

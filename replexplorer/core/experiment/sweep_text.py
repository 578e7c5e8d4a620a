"""A sweep in words and rows, the same for the terminal, the report and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.experiment.heat import Heat, HeatMap
from replexplorer.core.experiment.sweep import Grid, Sweep
from replexplorer.core.experiment.sweep_runs import CellFigures, SweptRun, passes_needed
from replexplorer.core.server.exposure import Exposure, Loss
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.text import duration_text

HEADINGS = (
    "RTT ms", "TPS", "±", "mean ms", "p50 ms", "p95 ms", "p99 ms", "n", "errors", "CPU %", "at risk", "",
)  # fmt: skip
"""The table's columns after those of the knobs."""
AT_RISK_NOTE = (
    "at risk: acknowledged commits that a failure would have lost, the median of the looks: mysqld dies /"
    " power cut / source lost"
)
_WIDE_PERCENT: Final = 30
"""From here on an interval is not nearly as wide on both sides."""
_FARTHEST: Final = 10.0
"""The upper bound over the lower one, from which on an interval is not shown."""
TOO_FEW: Final = "too few"
"""In its place."""
SHADES = " ░▒▓█"
"""From the least warmth to the most."""


def run_line(sweep: Sweep, done: int, run: SweptRun, left_s: float) -> str:
    """`17/48 rtt=10 ms clients=8 ... 312.4 TPS ±4 % · 3 min left`."""
    name = sweep.grid.describe(sweep.grid.cells[run.cell])
    result = f"{figure(run.tps)} TPS {scatter(run.interval)}".rstrip()
    if run.why is not None:
        result = f"failed: {run.why}"
    elif run.limited is not None:
        result += f" ({run.limited})"
    if not run.is_final:
        result += ", to be tried again"
    left = f" · {duration_text(left_s)} left" if left_s > 0 else ""
    return f"{done}/{sweep.total} {name} ... {result}{left}"


def plan_text(sweep: Sweep) -> str:
    """What a sweep would be: `48 runs of 5 s, about 8 min`."""
    return f"{runs_text(sweep.total)} of {sweep.duration_s:g} s, about {duration_text(sweep.estimated_s)}"


def runs_text(count: int) -> str:
    """`1 run`, `48 runs`."""
    return f"{count} run{'' if count == 1 else 's'}"


def figure(value: float | None, digits: int = 1) -> str:
    """A figure; an unknown one is a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def scatter(estimate: Estimate) -> str:
    """`±4 %`: half the interval's width; `[57.0, 193.0]` where it is wide, and empty when it is not known."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if not value or low is None or high is None:
        return ""
    percent = 100 * max(high - value, value - low) / value
    if percent > _WIDE_PERCENT:
        return f"[{figure(low)}, {figure(high)}]"
    return f"±{percent:.2g} %" if percent < 10 else f"±{percent:.0f} %"


def rows_of(figures: Sequence[CellFigures]) -> list[tuple[str, ...]]:
    """A row a cell: its values, then `HEADINGS`."""
    return [_row(each) for each in figures]


def _row(each: CellFigures) -> tuple[str, ...]:
    service = each.service
    latencies = (service.mean_ms, *(service.percentile_ms(percent) for percent in (50, 95, 99)))
    return (
        *each.cell.labels,
        figure(each.typical("rtt_ms"), 2),
        figure(each.tps.value),
        TOO_FEW if _says_nothing(each) else scatter(each.tps) or "-",
        *(figure(value, 2) for value in latencies),
        f"{service.count:,}" if each.shown else "-",
        f"{each.errors:,}" if each.shown else "-",
        figure(each.typical("cpu_percent"), 0),
        losses_text(each.exposure),
        f"does not count: {each.why}" if each.why else each.limited or "",
    )


def _says_nothing(each: CellFigures) -> bool:
    """Whether the interval of several runs is one that nobody can use: `[1.8, 21,799.2]`."""
    low, high = each.tps.low, each.tps.high
    return len(each.shown) > 1 and (low is None or high is None or high > _FARTHEST * low)


def passes_text(sweep: Sweep, figures: Sequence[CellFigures]) -> str:
    """`2 passes are too few at this noise: about 5 give TPS within 30 % (38 s more)`; empty where they do,
    and after one."""
    needed = passes_needed(figures)
    made = max((len(each.good) for each in figures), default=0)
    if needed is None or needed <= made:
        return ""
    more = duration_text((needed - made) * sweep.estimated_s / sweep.repeats)
    return f"{made} passes are too few at this noise: about {needed} give TPS within 30 % ({more} more)"


def losses_text(exposure: Exposure | None) -> str:
    """`0 / 455 / 12`: mysqld dies, power cut, source lost; `?` where it is not known, a dash for no look."""
    if exposure is None:
        return "-"
    losses = (exposure.process_dies, exposure.power_cut, exposure.source_lost)
    return " / ".join(f"{loss.commits:,}" if isinstance(loss, Loss) else "?" for loss in losses)


def headings_of(grid: Grid) -> tuple[str, ...]:
    """The table's headings."""
    return (*(dimension.key for dimension in grid.dimensions), *HEADINGS)


def shade(warmth: float | None) -> str:
    """A block for a warmth; a blank for an unknown one."""
    return " " if warmth is None else SHADES[1 + min(3, int(warmth * 4))]


def heat_text(heat: Heat) -> str:
    """The field's figure; a star where some of its cells do not count."""
    if heat.value is None:
        return "-"
    star = "*" if heat.cells < heat.of else ""
    return f"{figure(heat.value, 1 if heat.value < 1000 else 0)}{star}"


def heat_lines(heat: HeatMap) -> list[str]:
    """The map in plain characters: shaded blocks with the figures, columns two spaces apart."""
    head = ["", *(choice.label for choice in heat.columns.choices)]
    body = [
        [
            choice.label,
            *(f"{shade(heat.warmth(each)) * 2} {heat_text(each)}" for each in row),
        ]
        for choice, row in zip(heat.rows.choices, heat.fields, strict=True)
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    title = f"{heat.figure.title}: {heat.rows.key} down, {heat.columns.key} across"
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    ]
    return [title, *lines]


def partial(heat: HeatMap) -> bool:
    """Whether a field has a star."""
    return any(each.value is not None and each.cells < each.of for row in heat.fields for each in row)

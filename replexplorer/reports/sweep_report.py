"""A finished sweep as a report: its table, a heat map, and what each knob did by itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from replexplorer.core.experiment.sweep import PRESET, Grid, Sweep
from replexplorer.core.experiment.sweep_result import CellFigures, Swept, passes_needed, scatter
from replexplorer.core.knobs.keys import WORKLOAD
from replexplorer.core.system import Conditions
from replexplorer.core.text import duration_text, number
from replexplorer.formats.scenes import SHIPPED, scene_keys
from replexplorer.reports.conditions import again as commands_of
from replexplorer.reports.conditions import cost_table, others
from replexplorer.reports.report import (
    Block,
    ReportChart,
    ReportColumn,
    ReportNotes,
    ReportTable,
    numbers,
)
from replexplorer.reports.svg import heat_chart

METHOD: Final = (
    "TPS with a 95 % interval: within one run from batch means, of several runs from how they differ. "
    "Effects: pairs of cells equal in all else, the mean difference of log TPS with Student's t interval: "
    "ratios, whose bounds are never below zero."
)

_COLUMNS: Final = tuple(
    ReportColumn(head, is_number=True, rank=rank)
    for head, rank in (
        ("RTT ms", 6), ("TPS", 0), ("±", 0), ("mean ms", 4), ("p50 ms", 2), ("p95 ms", 3), ("p99 ms", 0),
        ("n", 5), ("errors", 8), ("CPU %", 7), ("at risk", 0),
    )
)  # fmt: skip
"""Of the table, behind those of the knobs."""
_AT_RISK: Final = (
    "at risk: acknowledged commits that a failure would have lost, the median of the looks: mysqld dies /"
    " power cut / source lost"
)
_FARTHEST: Final = 10.0
"""The upper bound over the lower one, from which on an interval is not shown."""


def under(swept: Swept, conditions: Conditions) -> None:
    """Put what the sweep was measured under into it, with the commands that run the same elsewhere; a scene
    that does not ship is made first."""
    sweep = swept.sweep
    varied = {str(name) for name in sweep.grid.names}
    swept.conditions = others(conditions, varied)
    swept.scenes = {
        choice.label: scene_keys(choice.values)
        for dimension in sweep.grid.dimensions
        if dimension.key == PRESET
        for choice in dimension.choices
    }
    workload = swept.conditions.settings.get(WORKLOAD)
    swept.workload = None if workload is None else str(workload.requested)
    command = ["replexplorer", "sweep", *sweep.grid.text.split(" "), "--duration", f"{sweep.duration_s:g}"]
    command += ["--repeat", str(sweep.repeats), "--seed", str(swept.seed)]
    up, *rest = commands_of(conditions, command, varied)
    made = [
        shlex.join(line)
        for name, knobs in swept.scenes.items()
        if name not in SHIPPED
        for line in (
            ["replexplorer", "reset"],
            ["replexplorer", "set", *(f"{key}={value}" for key, value in knobs.items())],
            ["replexplorer", "preset", "save", name],
        )
    ]
    swept.again = [up, *made, *rest]


def sweep_facts(swept: Swept) -> Iterator[tuple[str, str]]:
    """What was swept besides the knobs."""
    if swept.workload is not None:
        yield "workload", swept.workload
    for name, knobs in swept.scenes.items():
        yield f"preset {name}", ", ".join(f"{key}={value}" for key, value in knobs.items())


def sweep_blocks(swept: Swept) -> Iterator[Block]:
    """What the sweep found."""
    grid, figures = swept.sweep.grid, swept.cells
    yield ReportNotes([METHOD], kind="lines", in_text=False)
    yield sweep_table(grid, figures, passes_text(swept.sweep, figures))
    if (heat := swept.heat_map) is not None:
        yield ReportChart(partial(heat_chart, heat), heat.lines)
    effects = [effect.words for effect in swept.effects]
    yield ReportNotes(effects, "what each knob by itself did to TPS (95 %)")
    yield cost_table(_knobs(grid), [(each.cell.labels, each.cost) for each in figures])
    if swept.calibration is not None:
        yield ReportNotes([swept.calibration], "the model", "lines")
    yield ReportNotes(swept.unrestored, "not restored")


def _knobs(grid: Grid) -> tuple[ReportColumn, ...]:
    return numbers(*(dimension.key for dimension in grid.dimensions))


def sweep_table(grid: Grid, figures: Sequence[CellFigures], note: str = "") -> ReportTable:
    """A row for each cell that was run."""
    risk = _AT_RISK if any(each.exposure for each in figures) else ""
    shown = [_row(each) for each in figures if each.runs]
    return ReportTable(
        (*_knobs(grid), *_COLUMNS, ReportColumn("note")), shown, note=". ".join(filter(None, (note, risk)))
    )


def _row(each: CellFigures) -> tuple[str, ...]:
    service, exposure = each.service, each.exposure
    latencies = (service.mean_ms, *(service.percentile_ms(percent) for percent in (50, 95, 99)))
    return (
        *each.cell.labels,
        number(each.rtt_ms, 2),
        number(each.tps.value),
        "too few" if _says_nothing(each) else scatter(each.tps) or "-",
        *(number(value, 2) for value in latencies),
        f"{service.count:,}" if each.shown else "-",
        f"{each.errors:,}" if each.shown else "-",
        number(each.cpu_percent, 0),
        "-" if exposure is None else " / ".join(loss.short for loss in exposure.losses),
        "; ".join(filter(None, (_behind(each), f"does not count: {each.why}" if each.why else each.limited))),
    )


def _behind(each: CellFigures) -> str:
    """`db2 applies 90/s: a minute leaves it 57 s behind`, from a second on; `db2 applies 2,104/s: it keeps
    up` of one that an earlier run had left behind."""
    lag, applied_tps, left_s = each.lag, each.applied_tps, each.minute_lag_s
    if lag is None or lag.end < 1:
        return ""
    if applied_tps is None or left_s is None:
        return f"{lag.replica} {lag.end:.1f} s behind{lag.trending}"
    leaves = f"a minute leaves it {left_s:.0f} s behind" if left_s >= 1 else "it keeps up"
    return f"{lag.replica} applies {applied_tps:,.0f}/s: {leaves}"


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
    more = duration_text((needed - made) * sweep.seconds() / sweep.repeats)
    return f"{made} passes are too few at this noise: about {needed} give TPS within 30 % ({more} more)"

"""A sweep's grid and order, its figures, effects, heat map, texts, report and journal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replexplorer import __version__
from replexplorer.adapters.journal import FileJournal
from replexplorer.core.epochs.table import with_interval
from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Grid, Sweep, read_grid
from replexplorer.core.experiment.sweep_result import (
    NO_DIFFERENCE,
    CellFigures,
    Effect,
    Swept,
    SweptRun,
    effects_of,
    figures_of,
    heat_map,
    passes_needed,
)
from replexplorer.core.knobs.names import Assignment, parse_assignment
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.truth import Lag
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.run import RunJournal
from replexplorer.formats.documents import plain
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import html, markdown
from replexplorer.reports.svg import heat_chart
from replexplorer.reports.sweep_report import passes_text, sweep_table, under
from tests.known import known, refused
from tests.typed import fields, table_of, typed
from tests.unit.test_cli_load import conditions
from tests.unit.test_reports import charts

SCENES = {
    "none": ("semi_sync=off", "sync_binlog=0"),
    "both": ("semi_sync=on", "sync_binlog=1"),
    "odd": ("semi_sync=on",),
    "mine": ("sync_binlog=1",),
}


def parse(text: str) -> Assignment:
    return parse_assignment(text, new_roster(2))


def scene(name: str) -> Sequence[str]:
    if name not in SCENES:
        raise UsageError(f"unknown scene {name!r}", "known: none")
    return SCENES[name]


def grid_of(*texts: str) -> Grid:
    return read_grid(texts, parse, scene)


def run_of(cell: int, tps: float | None, *, relative: float | None = 0.01, **options: Any) -> SweptRun:
    """A run of a second, 9 degrees of freedom and this relative deviation of its TPS."""
    run = SweptRun(
        cell, 0, 1, 1_760_000_000.0, 8.0, tps=tps, freedom=9.0, duration_s=1.0, rtt_ms=10.0,
        variance=None if tps is None or relative is None else (relative * tps) ** 2,
        service=Histogram.of([1000] * min(1000, round(tps or 0))),
    )  # fmt: skip
    return replace(run, **options)


def runs_of(text: str) -> list[SweptRun]:
    """`0 50, 0 100 attempt=2`: cells, TPS and options."""
    words = [(each.split()[:2], fields(each)) for each in text.split(", ")]
    return [run_of(int(cell), int(tps), **options) for (cell, tps), options in words]


# -- the grid


def test_every_combination_is_a_cell_the_last_knob_changing_fastest(snapshot: object) -> None:
    grid = grid_of("rtt=0,2.5ms", "clients=1,8", "sync_binlog=1")
    assert [grid.text, [cell.labels for cell in grid.cells], grid.describe(grid.cells[3])] == snapshot
    assert grid.cells[3].values == typed("rtt@db2=2.5 rtt@db3=2.5 clients=8 sync_binlog=1")
    assert [dimension.key for dimension in grid.varied] == ["rtt", "clients"]


def test_units_aliases_nodes_and_scenes_are_read() -> None:
    grid = grid_of("rtt@db3=1s,85ms", "rpl_semi_sync_master_wait_point=after_sync,after_commit")
    assert [dimension.key for dimension in grid.dimensions] == ["rtt@db3", "wait_point"]
    scenes = grid_of("scene=none,both", "clients=1,8")
    assert scenes.text == grid_of("preset=none,both", "clients=1,8").text == "preset=none,both clients=1,8"
    assert scenes.cells[2].values == typed("semi_sync=on sync_binlog=1 clients=1")


MISTAKES = """\

rtt
=1
rtt=1,,2
rtt=0,9999
rtt=1,1ms
clints=1
clients=0,1
rtt=1 rtt=2
rtt=1 rtt@db3=2
scene=none,both sync_binlog=1
scene=none,none
scene=nine
rtt@primary=1
"""


def test_a_wrong_spec_is_one_line(snapshot: object) -> None:
    assert {each: refused(grid_of, *each.split()) for each in MISTAKES.splitlines()} == snapshot


@given(seed=st.integers(0, 2**32), number=st.integers(0, 5))
def test_a_pass_runs_every_cell_once_in_an_order_that_the_seed_tells(seed: int, number: int) -> None:
    sweep = Sweep(grid_of("rtt=0,2,10,85", "clients=1,8,32"))
    order = sweep.order(seed, number)
    assert sorted(cell.index for cell in order) == list(range(12))
    assert order == sweep.order(seed, number)


SWEEPS = """\
rtt=0,2 clients=1,8     |
rtt=0ms,2ms clients=1,8 |
rtt=0,2 clients=1,8     | duration_s=6
rtt=0,2 clients=1,8     | repeats=2
rtt=0,2 clients=1,8     | seed=1
clients=1,8 rtt=0,2     |
rtt=0,3 clients=1,8     |
"""
"""What is swept, and how; the first two are the same."""


def test_only_the_same_sweep_has_the_same_identity() -> None:
    same, alike, *others = (
        Sweep(grid_of(*knobs.split()), **fields(how)).identity for knobs, how in table_of(SWEEPS)
    )
    assert same == alike
    assert len({same, *others}) == 6


# -- figures


def test_one_run_has_its_own_interval_and_several_how_they_differ(snapshot: object) -> None:
    """What was not run, or not measured, is unknown and never zero."""
    grid = grid_of("rtt=0,2,4,6")
    runs = "0 100, 1 100, 1 110 block=1, 1 120 block=2, 2 100 relative=None rtt_ms=None"
    found = figures_of(grid, runs_of(runs))
    assert [with_interval(each.tps) for each in found] == snapshot
    assert [each.service.count for each in found] == [100, 330, 100, 0]
    assert [each.rtt_ms for each in found] == [10.0, 10.0, None, None]


def test_failed_runs_do_not_count_and_limited_ones_are_marked(snapshot: object) -> None:
    grid = grid_of("rtt=0,2,4,6")
    failed = "0 50 why='restarted', 0 100 attempt=2, 1 50 why='no', 1 60 why='never' attempt=2"
    figures = figures_of(grid, runs_of(f"{failed}, 2 100, 3 60 limited='late'"))
    assert [(each.tps.value, each.why, each.limited, bool(each.good)) for each in figures] == snapshot


# -- effects


def effects(knobs: str, *tps: float | None, relative: float | None) -> Sequence[Effect]:
    """Of cells that had these TPS; None: the run failed."""
    grid = grid_of(*knobs.split())
    runs = [run_of(at, each, relative=relative, why=None if each else "no") for at, each in enumerate(tps)]
    return effects_of(grid, figures_of(grid, runs))


PAIRED = """\
clients=8,32 rtt=0,2,10           | 100 100 100 300 310 320                              | 0.001
sync_binlog=1,0,100 rtt=0,1,2,3   | 100 100 100 100 103 98 101 99 100 100 100 100        | 0.001
rtt=0,10                          | 100 50                                               | 0.01
rtt=0,10                          | 100 50                                               |
rtt=0,85 clients=1,32             | 900 1600 11.5 205                                    | 0.001
rtt=0,85 clients=1,32             | 100 100 50 -                                         | 0.001
rtt=0,85 clients=1,32             | 100 - - 9                                            | 0.001
"""
"""Knobs, the TPS of each cell, `-`: its run failed, and how far they scatter within a run."""


def test_neighbouring_values_are_compared_in_pairs_equal_in_all_else(snapshot: object) -> None:
    """The geometric mean of the ratios with Student's t; of one pair what its two intervals allow."""
    told = {}
    for line in PAIRED.splitlines():
        knobs, tps, relative = table_of(line)[0]
        cells = [None if each == "-" else float(each) for each in tps.split()]
        found = effects(knobs, *cells, relative=float(relative) if relative else None)
        told[line] = [each.words for each in found if knobs.startswith(each.key)]
    assert told == snapshot


def in_passes(grid: Grid, tps: Sequence[float], noise: float, passes: int) -> Sequence[CellFigures]:
    """Of cells with these TPS, and as far apart from pass to pass."""
    runs = [
        run_of(cell, each * exp(noise * (-1) ** block), block=block)
        for cell, each in enumerate(tps)
        for block in range(passes)
    ]
    return figures_of(grid, runs)


PASSES = """\
rtt=0,10             | 141 118        | 0.25 | 2
rtt=0,10             | 141 118        | 0.25 | 1
rtt=0,10             | 100 112        | 0.06 | 2
rtt=0,10             | 100 112        | 0.06 | 12
rtt=0,10 clients=1,8 | 100 100 150 80 | 0.01 | 2
rtt=0,10 clients=1,8 | 100 100 150 80 | 0.01 | 1
"""
"""Knobs, the TPS of each cell, how far passes are apart, and how many there are. An interval from 6 to 3,000
is not a result; where pairs differ by more than noise no passes would tell; one says nothing of the next."""


def test_passes_that_are_too_few_say_how_many_this_noise_needs(snapshot: object) -> None:
    told = {}
    for line in PASSES.splitlines():
        knobs, tps, noise, passes = table_of(line)[0]
        sweep = Sweep(grid_of(*knobs.split()), duration_s=5.0, repeats=int(passes))
        figures = in_passes(sweep.grid, [*map(float, tps.split())], float(noise), int(passes))
        column = [row[3] for row in sweep_table(sweep.grid, figures).rows]
        told[line] = passes_text(sweep, figures), column, effects_of(sweep.grid, figures)[0].words
    assert told == snapshot


@given(st.floats(0.01, 0.5), st.integers(2, 6))
def test_as_many_passes_as_are_said_to_be_needed_are_enough(noise: float, cells: int) -> None:
    """With runs that are as far apart, in as many passes."""
    grid = grid_of(f"clients={','.join(str(each + 1) for each in range(cells))}")
    needed = known(passes_needed(in_passes(grid, [100] * cells, noise, 2)))
    assert (passes_needed(in_passes(grid, [100] * cells, noise, needed)) or 0) <= needed


def test_an_idle_knob_is_seldom_claimed() -> None:
    """Runs differ by 5 % from each other and by less within: what a real machine does."""
    rng = random.Random(5)
    claimed = 0
    for _ in range(1000):
        tps = [100 * exp(rng.gauss(0, 0.05)) for _ in range(8)]
        claimed += effects("sync_binlog=1,0 rtt=0,1,2,3", *tps, relative=0.02)[0].verdict != NO_DIFFERENCE
    assert claimed <= 70


# -- the heat map


def test_the_map_takes_the_two_knobs_with_the_most_values_and_averages_the_others(
    snapshot: object,
) -> None:
    grid = grid_of("sync_binlog=0,1", "rtt=0,10", "clients=1,8,32")
    runs = [run_of(at, float(10 * 2**at)) for at in range(12)]
    runs[-1] = run_of(11, 5.0, why="no")
    assert known(heat_map(grid, figures_of(grid, runs))).lines == snapshot
    empty = known(heat_map(grid, figures_of(grid, [])))
    assert empty.warmth(empty.fields[0][0]) is None
    assert empty.lines[2].endswith("-")


def exposed(power_cut: int, source_lost: Loss | Unknown) -> Exposure:
    return Exposure(Loss(0, 0, 0), Loss(power_cut, 0, 2 * power_cut, 500.0), source_lost)


NO_ANSWER = Unknown("no replica has answered yet")


# -- texts and documents


LATE = Lag(67.6, 67.6, "growing", "db2", applied_tps=100.0)
LAGS = (LATE, replace(LATE, trend="draining", applied_tps=2500.0), replace(LATE, applied_tps=None))
"""Late; it keeps up; by what it applies is unknown."""


def swept_of(grid: Grid, runs: Sequence[SweptRun]) -> Swept:
    began_s = 1_760_000_000.0
    return Swept(
        Sweep(grid), 7, runs, began_s + 99, 1, "journal", server="mysql 9.7.4", started_wall_s=began_s
    )


def test_the_document_has_its_shape_and_every_figure(snapshot: object) -> None:
    grid = grid_of("rtt=0,10", "clients=1,8")
    runs = [*(run_of(at, 100.0 + at) for at in range(3)), run_of(3, None, why="no")]
    assert plain(swept_of(grid, runs)) == snapshot


def test_a_report_names_everything_needed_to_judge_it_and_to_run_it_again(snapshot: object) -> None:
    """And what a minute of a cell's load leaves of a replica, whatever earlier runs left."""
    grid = grid_of("scene=none,mine", "clients=1,8,32")
    lost: list[Loss | Unknown] = [*[Loss(7, 5, 9, 40.0)] * 5, NO_ANSWER]
    lags = (*LAGS, replace(LATE, end=0.9), None, LATE)
    runs = [
        run_of(at, 1000.0 * (at + 1), exposure=exposed(100 * at, each), lag=lag)
        for at, (each, lag) in enumerate(zip(lost, lags, strict=True))
    ]
    runs[-1] = replace(runs[-1], why="<&no|")
    swept = swept_of(grid, runs)
    measured_under = conditions(
        clients=(8, None), sync_binlog=(1, 1), rtt__db2=(5.0, 5.0), workload=("insert", "insert")
    )
    under(swept, measured_under)
    swept.calibration = "this machine's model: median error 5 % over 2 cells, cross-validated; FILE"
    assert markdown(experiment_report(swept)).replace(__version__, "VERSION") == snapshot
    [drawing] = charts(html(experiment_report(swept)))
    assert {"clients", "preset", "none", "2,000"} <= {each.text for each in drawing.findall("{*}text")}


def test_no_text_of_the_drawing_is_clipped_or_overwritten(snapshot: object) -> None:
    """Looked at in a browser: the longest names and values, where each begins or ends, and what is there."""
    grid = grid_of("innodb_flush_log_at_trx_commit=0,1", "workload=update_non_index,point_select")
    figures = figures_of(grid, runs_of("0 100, 1 200, 2 300, 3 400"))
    assert heat_chart(known(heat_map(grid, figures))).split("\n") == snapshot


# -- the journal


async def test_a_journal_keeps_entries_and_forgets_what_a_kill_cut_off(tmp_path: Path) -> None:
    journal = FileJournal("sweep", tmp_path / "sweeps" / "default-abc.jsonl")
    assert await journal.set_aside() is None
    head = {"seed": 1, "on": "mysql 9.7.4"}
    await journal.begin(head)
    runs = RunJournal(journal, SweptRun)
    run = run_of(0, 12.5, effective={"rtt@db2": 1.0}, why="no", exposure=exposed(5, NO_ANSWER))
    await runs.add(run)
    with journal.file.open("a") as stream:
        stream.write('{"run": {"ce')
    assert await runs.open(head, fresh=False) == (head, [run])
    await journal.append({"restored": True})
    finished = FileJournal("sweep", Path(str(await journal.set_aside())))
    assert await journal.read() == ()
    assert len(await finished.read()) == 3

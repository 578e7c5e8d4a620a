"""The verb `sweep`: every combination of some knobs measured; a table, a heat map and effects."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from replexplorer.cli.arguments import add_json
from replexplorer.cli.calibrating import learned
from replexplorer.cli.output import Output, delivered
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import seconds, whole_number
from replexplorer.cli.wiring import attached
from replexplorer.core.experiment.heat import mapped
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.experiment.sweep_text import plan_text, run_line, runs_text
from replexplorer.core.experiment.swept import SweepProgress
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.topology import new_roster
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.formats import paths
from replexplorer.formats.json.sweep import SweepRegion
from replexplorer.formats.scenes import find_scene
from replexplorer.reports.conditions import conditions_of, settings_words
from replexplorer.reports.directory import report_directory
from replexplorer.reports.sweep import render, sweep_document, write_report

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_MOST_TICK_S = 0.5
_LEAST_TICK_S = 0.1
_READINGS = 20
"""Intervals in a run, so that there are batches enough for its scatter."""


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    parser.add_argument(
        "knobs",
        nargs="+",
        metavar="KEY=V1,V2,...",
        help="a knob with its values, as rtt=0,2,10,85 or clients=1,8,32; scene=none,local,network,both",
    )
    parser.add_argument(
        "--duration",
        type=seconds(positive=True),
        default=5.0,
        metavar="S",
        help="seconds of each run (default 5)",
    )
    parser.add_argument(
        "--repeat",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="passes over all combinations; with 3 or more, intervals show how runs differ (default 1)",
    )
    parser.add_argument("--seed", type=whole_number(0), metavar="N", help="of the random order")
    parser.add_argument(
        "--map", metavar="KEY,KEY", help="the heat map's knobs; default: the two with the most values"
    )
    parser.add_argument("--fresh", action="store_true", help="start over instead of continuing")
    parser.add_argument("--report", metavar="DIR", help="write report.md, sweep.svg and result.json there")
    parser.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    add_json(parser)


def run(call: Call) -> int:
    """Run the sweep, or continue it."""
    return run_async(_run(call))


def scene_texts(name: str) -> tuple[str, ...]:
    """A scene's `KEY=VALUE` texts; raises UsageError."""
    return find_scene(name, paths.scenes_directory()).assignments()


async def _run(call: Call) -> int:
    args, console = call.args, call.console
    keys = None if args.map is None else args.map.split(",")
    mapped(read_grid(args.knobs, partial(parse_assignment, roster=new_roster()), scene_texts), keys)
    report = report_directory(args.report)
    tick_s = min(_MOST_TICK_S, max(_LEAST_TICK_S, args.duration / _READINGS))
    async with attached(call, "sweep", beside=args.beside, tick_s=tick_s) as session:
        grid = read_grid(args.knobs, session.console.parse, scene_texts)
        wanted = Sweep(grid, args.duration, args.repeat, args.seed)
        conditions = conditions_of(session, (value for cell in grid.cells for value in cell.values.values()))
        console.narrate(f"starts from: {settings_words(conditions)}")
        console.narrate(f"{plan_text(wanted)}: {grid.text}")
        progress = _Narrator(console)
        try:
            swept = await session.console.do(Run(SweepRun(wanted, progress.show, args.fresh)))
        except BaseException:
            progress.tell_the_rest()
            raise
    document = sweep_document(swept, keys, conditions)
    lesson = learned(swept)
    document.calibration = lesson.told
    document.prediction = [SweepRegion(**asdict(region)) for region in lesson.regions]
    write = None if report is None else partial(write_report, report, swept, document, keys)
    return delivered(console, document, partial(render, swept, document, keys), write)


class _Narrator:
    """A line a run on stderr, and what is left when it ends early."""

    def __init__(self, console: Output) -> None:
        self._console = console
        self._last: SweepProgress | None = None

    def show(self, progress: SweepProgress) -> None:
        """Report what has just happened."""
        if progress.note is not None:
            self._console.narrate(progress.note)
        elif progress.run is not None:
            self._console.narrate(run_line(progress.sweep, progress.done, progress.run, progress.left_s))
            self._last = progress

    def tell_the_rest(self) -> None:
        """How the sweep can be continued."""
        if self._last is not None:
            kept = len(self._last.runs)
            self._console.narrate(f"{runs_text(kept)} kept: the same command continues")

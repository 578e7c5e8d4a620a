"""The verb `drill`: list the failures that can be rehearsed, run one and say whether it came as expected."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from replexplorer.cli.arguments import Parser, add_global_flags, add_json
from replexplorer.cli.experiment import concluded, listing, stack_for
from replexplorer.cli.output import Output
from replexplorer.cli.own_drills import drill_named, own_drill_file, own_drills, shipped_drills
from replexplorer.cli.running import run_async
from replexplorer.cli.wiring import for_new_stack, recorded_ticks
from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.matrix import MATRIX, Matrix, chosen_cells, matrix_cells
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.system import DEFAULT, SYSTEMS
from replexplorer.core.text import duration_text
from replexplorer.core.topology import new_roster
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.drills.matrix import MatrixProgress, MatrixRun
from replexplorer.engine.experiment.drills.progress import DrillProgress
from replexplorer.engine.experiment.drills.run import DrillRun
from replexplorer.formats.json.drill import DrillEntry
from replexplorer.ports import UpOptions
from replexplorer.reports.conditions import again, conditions_of, settings_words
from replexplorer.reports.directory import report_directory
from replexplorer.reports.drill_pages import write_drill_report
from replexplorer.reports.drill_result import drill_document, render_drill
from replexplorer.reports.matrix_pages import (
    cell_line,
    matrix_document,
    render_matrix,
    write_matrix_report,
)

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    listing = actions.add_parser(
        "list", help="the drills that there are", description="The drills that there are."
    )
    run = actions.add_parser(
        "run",
        help="run one",
        description="Break something on purpose, count what was lost, mend it, and say whether it came as"
        " expected.",
    )
    run.add_argument(
        "name", metavar="NAME", help="as `drill list` has it; or your own drill's file, as ./mine.toml"
    )
    run.add_argument("--quick", action="store_true", help="shorter waits, the same method")
    run.add_argument(
        "--set",
        dest="settings",
        action="append",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="in place of the drill's own settings, which it tells first",
    )
    run.add_argument(
        "--report", metavar="DIR", help="write report.md, report.html, result.json and the session"
    )
    run.add_argument(
        "--only",
        nargs="+",
        metavar="WORD",
        help="of the matrix: cells of these modes, durabilities and failures, as --only power_cut 1/1 1/2"
        " (of a group, as --only isolated)",
    )
    run.add_argument("--fresh", action="store_true", help="of the matrix: start over instead of continuing")
    run.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    for child in (listing, run):
        add_global_flags(child)
        add_json(child)


def run(call: Call) -> int:
    """List the drills, or run one."""
    if call.args.action == "list":
        return _list(call)
    if call.args.name == MATRIX:
        return run_async(_run_matrix(call, *matrix_asked(call.args)))
    return run_async(_run(call, asked(call.args)))


def asked(args: Namespace) -> Drill:
    """The drill with the settings that were typed; raises UsageError for what cannot be one."""
    drill = drill_named(args.name).with_settings(_texts(args))
    for flag, given in (("--only", args.only), ("--fresh", args.fresh)):
        if given:
            raise UsageError(f"{flag}: {drill.name} is one drill", f"it goes with `drill run {MATRIX}`")
    return drill


def _texts(args: Namespace) -> list[str]:
    """All `KEY=VALUE` that were typed; raises UsageError for one that is none."""
    texts = [text for group in args.settings for text in group]
    for text in texts:
        if "=" not in text:
            raise UsageError(f"--set {text}: no value", "KEY=VALUE")
        parse_assignment(text, new_roster())
    return texts


def matrix_asked(args: Namespace) -> tuple[MatrixRun, str]:
    """The matrix of whatever stack there is, or the cells of it and with the settings that were typed, and
    the system of a stack that is made for it: the first whose matrix has them. Raises UsageError."""
    only, failures = tuple(args.only or ()), list[UsageError]()
    run = MatrixRun((), args.quick, settings=tuple(_texts(args)), only=only, fresh=args.fresh)
    for system in SYSTEMS:
        try:
            cells = chosen_cells(matrix_cells(quick=args.quick, system=system), only)
        except UsageError as error:
            failures.append(error)
            continue
        for cell in cells:
            run.drill(cell)
        return run, system
    raise failures[0]


def command_of(args: Namespace) -> list[str]:
    """The command that runs the same for somebody else, beside whose files stand in the report."""
    own = own_drill_file(args.name)
    texts = _texts(args)
    return [
        "replexplorer", "drill", "run", args.name if own is None else f"./{own.name}",
        *(["--quick"] if args.quick else ()), *(["--only", *args.only] if args.only else ()),
        *(word for text in texts for word in ("--set", text)),
    ]  # fmt: skip


def _list(call: Call) -> int:
    own, failed = own_drills()
    for _, error in failed:
        call.console.warn(str(error))
    if call.console.json:
        entries = [
            *(_entry(drill) for drill in shipped_drills().values()),
            _entry(Matrix()),
            *(_entry(drill, file) for drill, file in own),
        ]
        broken = [
            DrillEntry(name=file.stem, title="", file=str(file), error=str(error)) for file, error in failed
        ]
        call.console.document([*entries, *broken])
    else:
        drills = [*shipped_drills().values(), *(drill for drill, _ in own)]
        call.console.print(_table(drills, call.console.columns))
    return 0


def _table(drills: Sequence[Drill], columns: int | None) -> str:
    """A drill a row, its title in as many as it needs."""
    rows = [
        (drill.name, _titled(drill), *(f"{drill.seconds(quick=quick):.0f} s" for quick in (False, True)))
        for drill in drills
    ]
    matrix = Matrix()
    minutes = [f"{matrix.seconds(quick=quick) / 60:.0f} min" for quick in (False, True)]
    return listing([*rows, (matrix.name, matrix.title, *minutes)], columns)


def _titled(drill: Drill) -> str:
    """Its title, with its systems where it is not for a source and its replicas."""
    return drill.title if DEFAULT in drill.systems else f"{drill.title} ({', '.join(drill.systems)})"


def _entry(drill: Drill | Matrix, file: Path | None = None) -> DrillEntry:
    return DrillEntry(
        name=drill.name,
        title=drill.title,
        teaches=drill.teaches,
        seconds=drill.seconds(quick=False),
        quick_seconds=drill.seconds(quick=True),
        turns=list(drill.turns),
        faults=list(drill.faults),
        replicas=drill.replicas,
        file=None if file is None else str(file),
    )


async def _run_matrix(call: Call, run: MatrixRun, system: str) -> int:
    """As `_run`, one drill a cell; `system` is that of a stack which is made for it."""
    console, args = call.console, call.args
    report = report_directory(args.report)

    narration = run.watch = MatrixNarration(console)
    up = await for_new_stack(call, UpOptions(system=system))
    async with stack_for(call, f"drill {MATRIX}", up) as session:
        conditions = conditions_of(session)
        console.narrate(f"starts from: {settings_words(conditions)}")
        async with session.observed():
            try:
                result = await session.console.do(Run(run))
            except BaseException:
                narration.tell_the_rest()
                raise
    document = matrix_document(result)
    document.conditions, document.again = conditions, again(conditions, command_of(args))
    write = None if report is None else partial(write_matrix_report, report, document, session.file)
    return concluded(console, document, lambda: render_matrix(document), write)


async def _run(call: Call, drill: Drill) -> int:
    console, args = call.console, call.args
    report = report_directory(args.report)
    up = await for_new_stack(call, UpOptions(system=drill.systems[0]))
    async with stack_for(call, f"drill {drill.name}", up) as session:
        conditions = conditions_of(session)
        console.narrate(f"starts from: {settings_words(conditions)}")
        async with session.observed(console.hear):
            result = await session.console.do(Run(DrillRun(drill, args.quick, DrillNarration(console))))
    document = drill_document(result)
    document.conditions, document.again = conditions, again(conditions, command_of(args))
    write = None
    if report is not None:
        own, ticks = own_drill_file(args.name), recorded_ticks(session.file)
        write = partial(write_drill_report, report, document, session.file, own, ticks)
    return concluded(console, document, lambda: render_drill(document), write)


class DrillNarration:
    """Reports a drill on stderr: what it sets, a line a step, and the time left."""

    def __init__(self, console: Output) -> None:
        self._console = console
        self._number: int | None = None

    def __call__(self, now: DrillProgress) -> None:
        """Report what is done now; first of all what the drill sets by itself."""
        step = now.step
        if self._number is None and now.drill.sets:
            self._console.recount(now.drill.sets)
        self._number = self._number or 0
        if step is not None and now.number != self._number:
            self._number = now.number
            shows = f": {step.shows}" if step.shows else ""
            self._console.recount(f"{now.number}/{len(now.drill.steps)} {step.text}{shows}")
        left = f", {now.left_s:.0f} s left" if now.left_s else ""
        self._console.progress(now.doing, now.done, left)


class MatrixNarration:
    """Reports the matrix on stderr: a line as a cell begins and one of what it found, and the time left."""

    def __init__(self, console: Output) -> None:
        self._console = console
        self._last: MatrixProgress | None = None
        self._kept = 0

    def __call__(self, now: MatrixProgress) -> None:
        """Report what is done now."""
        cell, last = now.cell, self._last
        self._last = now
        if now.ended is not None:
            self._kept += now.ended.aborted is None
            self._console.recount(f"  {cell_line(now.ended)}")
        elif cell is not None and (last is None or last.number != now.number):
            self._console.recount(f"{now.number}/{len(now.cells)} {cell.name}: {cell.theory.why}")
        if now.ended is None:
            left = f", {duration_text(now.left_s)} left" if now.left_s else ""
            self._console.progress(now.doing, now.done, left)

    def tell_the_rest(self) -> None:
        """How it can be continued."""
        if self._last is not None:
            kept = f"{self._kept} cell{'' if self._kept == 1 else 's'} of this run"
            self._console.narrate(f"{kept} kept: the same command continues")

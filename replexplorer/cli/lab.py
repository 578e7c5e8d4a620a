"""The verb `lab`: list the scripted experiments, run one and say whether its relations hold."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import Parser, add_global_flags, add_json
from replexplorer.cli.experiment import (
    concluded,
    listing,
    names_beside,
    new_stack,
    refuse_found,
    stack_for,
)
from replexplorer.cli.output import Output
from replexplorer.cli.own_labs import lab_named, own_file, own_labs
from replexplorer.cli.running import run_async
from replexplorer.cli.typed import whole_number
from replexplorer.cli.wiring import load_configuration_of, recorded_ticks
from replexplorer.core.errors import UsageError
from replexplorer.core.system import DEFAULT, System
from replexplorer.engine.console import Run
from replexplorer.engine.experiment.labs import LABS
from replexplorer.engine.experiment.labs.archive import ARCHIVE, archive_of
from replexplorer.engine.experiment.labs.bulk_load import BULK_LOAD, bulk_load_of
from replexplorer.engine.experiment.labs.by_system import SystemsRun
from replexplorer.engine.experiment.labs.fitting import fitting
from replexplorer.engine.experiment.labs.lab import REPEATS, Lab, LabResult
from replexplorer.engine.experiment.labs.run import LabRun, assignments
from replexplorer.engine.experiment.labs.step import LabStep
from replexplorer.formats.employees_dump import checked, rows_of
from replexplorer.formats.json.lab import LabEntry
from replexplorer.formats.json.measured import Conditions
from replexplorer.formats.paths import expanded
from replexplorer.ports import UpOptions
from replexplorer.reports.conditions import again, conditions_of, settings_words
from replexplorer.reports.directory import report_directory
from replexplorer.reports.lab_pages import rerun, write_report
from replexplorer.reports.lab_result import lab_document, render_lab

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

_OWNERS: Final = {"rows": ARCHIVE, "dump": BULK_LOAD}
"""Flags that are one lab's own."""


def run_arguments(parser: ArgumentParser) -> None:
    """What is typed after the verb."""
    actions = parser.add_subparsers(
        title="actions", dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    listing = actions.add_parser(
        "list", help="the labs that there are", description="The labs that there are."
    )
    run = actions.add_parser(
        "run", help="run one", description="Run a lab and say whether its relations hold."
    )
    run.add_argument(
        "name", metavar="NAME", help="as `lab list` has it, as `tour`; or your own lab's file, as ./mine.toml"
    )
    run.add_argument("--quick", action="store_true", help="shorter counts, the same method")
    run.add_argument(
        "--repeats",
        type=whole_number(1, 20),
        metavar="N",
        help=f"runs of each phase, in turn (default {REPEATS}, with --quick 1)",
    )
    run.add_argument("--dump", metavar="FILE", help="an employees.sql whose rows the bulk-load lab inserts")
    run.add_argument(
        "--rows", type=whole_number(1000, 10_000_000), metavar="N", help="of the archive lab's table"
    )
    run.add_argument(
        "--report", metavar="DIR", help="write report.md, report.html, result.json and the session"
    )
    run.add_argument("--beside", action="store_true", help="run beside another driver of the stack's load")
    for child in (listing, run):
        add_global_flags(child)
        add_json(child)


def run(call: Call) -> int:
    """List the labs, or run one."""
    if call.args.action == "list":
        return _list(call)
    lab = _asked(call)
    return run_async(_run_on_systems(call, lab) if lab.systems else _run(call, lab))


def _asked(call: Call) -> Lab:
    """The lab with what its own flags say of it."""
    args = call.args
    lab = lab_named(args.name)
    for flag, owner in _OWNERS.items():
        if getattr(args, flag) is not None and lab.name != owner.name:
            raise UsageError(f"--{flag} is for the lab {owner.name}", f"{lab.name} has none")
    if lab.systems and args.beside:
        raise UsageError(
            f"--beside: {lab.name} makes stacks of its own, whose load nobody else drives", "leave it out"
        )
    if args.rows is not None:
        return archive_of(args.rows)
    if args.dump is not None:
        return bulk_load_of(partial(rows_of, checked(expanded(args.dump))))
    return lab


def command_of(args: Namespace) -> list[str]:
    """The command that runs the same for somebody else, beside whose files stand in the report."""
    given = {flag: getattr(args, flag, None) for flag in _OWNERS}
    if given["dump"] is not None:
        given["dump"] = Path(given["dump"]).name
    flags = [word for flag, value in given.items() if value is not None for word in (f"--{flag}", str(value))]
    if args.repeats is not None:
        flags += ["--repeats", str(args.repeats)]
    own = own_file(args.name)
    return rerun(args.name if own is None else f"./{own.name}", *flags, quick=args.quick)


def _list(call: Call) -> int:
    own, failed = own_labs()
    for _, error in failed:
        call.console.warn(str(error))
    if call.console.json:
        entries = [*(_entry(lab) for lab in LABS.values()), *(_entry(lab, file) for lab, file in own)]
        broken = [
            LabEntry(name=file.stem, title="", file=str(file), error=str(error)) for file, error in failed
        ]
        call.console.document([*entries, *broken])
    else:
        call.console.print(_table([*LABS.values(), *(lab for lab, _ in own)], call.console.columns))
    return 0


def _table(labs: Sequence[Lab], columns: int | None) -> str:
    """A lab a row, its title in as many as it needs."""
    rows = [
        (lab.name, lab.title, _minutes(lab.seconds(quick=False)), _minutes(lab.seconds(quick=True)))
        for lab in labs
    ]
    return listing(rows, columns)


def _entry(lab: Lab, file: Path | None = None) -> LabEntry:
    return LabEntry(
        name=lab.name,
        title=lab.title,
        teaches=lab.teaches,
        seconds=lab.seconds(quick=False),
        quick_seconds=lab.seconds(quick=True),
        turns=list(lab.turns),
        replicas=lab.replicas,
        systems=list(lab.systems),
        file=None if file is None else str(file),
    )


async def _run(call: Call, lab: Lab) -> int:
    console, args = call.console, call.args
    report = report_directory(args.report)
    async with stack_for(call, f"lab {lab.name}") as session:
        replicas = len(session.sight.node_views()) - 1
        lab = lab if session.server is None else fitting(lab, session.server)
        turned = assignments(lab, session.console.parse, replicas)
        conditions = conditions_of(session, (each.value for each in turned))
        console.narrate(f"starts from: {settings_words(conditions)}")
        async with session.observed(console.hear):
            run = LabRun(lab, args.quick, Narration(console), repeats=args.repeats)
            result = await session.console.do(Run(run))
    document = lab_document(result)
    document.conditions, document.again = conditions, again(conditions, command_of(args))
    write = None
    if report is not None:
        own, ticks = own_file(args.name), recorded_ticks(session.file)
        write = partial(write_report, report, document, session.file, own, ticks)
    return concluded(console, document, lambda: render_lab(document), write)


async def _run_on_systems(call: Call, lab: Lab) -> int:
    """As `_run`, on a stack of its own for each system."""
    console, args = call.console, call.args
    report = report_directory(args.report)
    names = names_beside(load_configuration_of(call).values.stack, lab.systems)
    await refuse_found(names.values())
    sessions: dict[str, str] = {}
    found: list[Conditions] = []

    async def on_stack(system: System, part: LabRun) -> LabResult:
        console.recount(f"{system.title}: a stack of its own, '{names[system.name]}'")
        replicas = lab.replicas if system.name == DEFAULT else None
        up = UpOptions(replicas=replicas, flavor=system.flavors[0], system=system.name)
        async with new_stack(call, f"lab {lab.name}", names[system.name], up) as session:
            found.append(conditions_of(session))
            try:
                async with session.observed(console.hear):
                    return await session.console.do(Run(part))
            finally:
                if session.file is not None:
                    sessions[system.name] = session.file

    result = await SystemsRun(lab, args.quick, Narration(console), repeats=args.repeats).run(on_stack)
    document = lab_document(result)
    document.conditions = found[0].model_copy(
        update={"server": result.server, "settings": {}, "systems": list(lab.systems)}
    )
    document.again = [shlex.join(command_of(args))]
    write = None
    if report is not None:
        ticks = [tick for file in sessions.values() for tick in recorded_ticks(file)]
        write = partial(write_report, report, document, None, ticks=ticks, parts=sessions)
    return concluded(console, document, lambda: render_lab(document), write)


class Narration:
    """Reports a lab's steps on stderr: a line a phase, and the time left while it measures."""

    def __init__(self, console: Output) -> None:
        self._console = console
        self._at = (0, 0)

    def __call__(self, step: LabStep) -> None:
        """Report one step."""
        phase = step.phase
        if phase is not None and (step.repeat, step.number) != self._at:
            self._at = (step.repeat, step.number)
            again = f"repeat {step.repeat}/{step.repeats}, " if step.repeats > 1 else ""
            self._console.recount(f"{again}{step.number}/{len(step.lab.phases)} {phase.name}: {phase.shows}")
        self._console.progress(
            step.doing, step.done, f", {_minutes(step.left_s)} left" if step.left_s else ""
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"

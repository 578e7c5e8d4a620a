"""The verbs lab run and drill run: experiments, run, and judged by what they expect.

One runs on the stack that is there, on one that is made for it and removed again, or on stacks of its own.
"""

from __future__ import annotations

import asyncio
import shlex
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.adapters.recording import SessionReader
from replexplorer.cli.experiment import DRILLS, LABS, Files
from replexplorer.cli.output import Output
from replexplorer.cli.wiring import composed, runs, stack_names
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult, Watch
from replexplorer.core.experiment.lab import Lab, LabResult
from replexplorer.core.experiment.matrix import MATRIX, chosen_cells, matrix_cells
from replexplorer.core.knobs.names import Value, parse_assignment
from replexplorer.core.system import DEFAULT, SYSTEMS, Conditions, System
from replexplorer.core.text import duration_text
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun, SystemsRun, assignments, fitting
from replexplorer.engine.experiment.lab_tables import archive_of, bulk_load_of
from replexplorer.engine.experiment.matrix import MatrixRun
from replexplorer.formats.experiment_file import checked, rows_of
from replexplorer.formats.paths import expanded
from replexplorer.ports import UpOptions
from replexplorer.reports.conditions import again, conditions_of, settings_words
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import Report, plain_text, report_directory, write_report

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.tick import Tick
    from replexplorer.engine.session import Session

_LONGEST: Final = 40
"""Characters of a stack's name (`formats.configuration.STACK_NAME_PATTERN`)."""
_EXIT_CODES: Final = {"holds": 0, "deviates": 1, "aborted": StackUnavailable.exit_code}


@asynccontextmanager
async def stack_for(
    call: Call, holder: str, up: UpOptions | None, name: str | None = None
) -> AsyncIterator[Session]:
    """Bring a stack up where none is, and remove it again if this call made it; `--share-load` is read from
    the call. One of this `name` is made new: raises StackUnavailable, and touches nothing, where it is
    there."""
    console, before = call.console, call.console.stack
    if name is not None:
        await refuse_found((name,))
    async with composed(
        call,
        holder,
        name=name,
        up=up or UpOptions(),
        recorded=True,
        calibrated=True,
        on_quit="remove",
        beside=call.args.share_load,
    ) as session:
        console.stack = name or before
        try:
            created = await session.up(console.progress)
            if name is not None and not created:
                await refuse_found((name,))  # somebody has made it meanwhile
            yield session
        finally:
            console.narrate(await asyncio.shield(session.close()))
            console.stack = before


def names_beside(stack: str, systems: Iterable[str]) -> Mapping[str, str]:
    """What stacks of an experiment's own are called, by system, beside the stack of this name."""
    ends = {system: f"-lab-{system}" for system in systems}
    return {system: f"{stack[: _LONGEST - len(end)]}{end}" for system, end in ends.items()}


async def refuse_found(names: Iterable[str]) -> None:
    """Raise StackUnavailable where there is anything of one of these stacks: it may be somebody's."""
    there = await stack_names()
    for name in names:
        if name in there:
            raise StackUnavailable(
                f"stack '{name}' already exists, and this makes one with that name",
                f"`replexplorer down --stack {name}`, or another --stack",
            )


class Narration:
    """Reports an experiment on stderr: a line as a stage begins and one of what it came to, and the time
    left."""

    def __init__(self, console: Output) -> None:
        self._console = console
        self._last: ExperimentProgress | None = None

    def __call__(self, now: ExperimentProgress) -> None:
        """Report what is done now."""
        last, self._last = self._last, now
        if now.ended:
            self._console.recount(f"  {now.ended}")
            return
        begins = last is None or (last.repeat, last.number) != (now.repeat, now.number)
        if now.stage is not None and begins:
            turn = f"repeat {now.repeat}/{now.repeats}, " if now.repeats > 1 else ""
            shows = f": {now.stage.shows}" if now.stage.shows else ""
            self._console.recount(f"{turn}{now.number}/{len(now.stages)} {now.stage.name}{shows}")
        left = f", {duration_text(now.left_s)} left" if now.left_s else ""
        self._console.progress(now.doing, now.done, left)

    def __enter__(self) -> Narration:
        """Narrate a run."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Say of one that ended early how it can be continued."""
        if kind is not None and self._last is not None and self._last.kept:
            self._console.narrate(f"{self._last.kept} of this run kept: the same command continues")


# -- what is asked for

_OWNERS: Final = {"rows": "archive", "dump": "bulk-load"}
"""Flags that are one lab's own."""


async def run_lab(call: Call) -> int:
    """Run a lab and say whether its relations hold."""
    args = call.args
    wanted = _lab_asked(args)
    if wanted.systems:
        return await _run_on_systems(call, wanted)
    return await carried_out(call, LABS, LabRun(wanted, args.quick, repeats=args.repeat))


async def run_drill(call: Call) -> int:
    """Run a drill, or the matrix of them, and say whether it came as expected."""
    if call.args.name == MATRIX:
        return await carried_out(call, DRILLS, *_matrix_asked(call.args))
    wanted = drill_asked(call.args)
    return await carried_out(call, DRILLS, DrillRun(wanted, call.args.quick), wanted.systems[0])


def _lab_asked(args: Namespace) -> Lab:
    """The lab with what its own flags say of it; raises UsageError."""
    wanted = LABS.named(args.name)
    for flag, owner in _OWNERS.items():
        if getattr(args, flag) is not None and wanted.name != owner:
            raise UsageError(f"--{flag} is for the lab {owner}", f"{wanted.name} has none")
    if wanted.systems and args.share_load:
        raise UsageError(
            f"--share-load: {wanted.name} makes stacks of its own, whose load no one else drives",
            "leave it out",
        )
    if args.rows is not None:
        return archive_of(wanted, args.rows)
    if args.dump is not None:
        return bulk_load_of(wanted, partial(rows_of, checked(expanded(args.dump))))
    return wanted


def drill_asked(args: Namespace) -> Drill:
    """The drill with the settings that were typed; raises UsageError for what cannot be one."""
    wanted = DRILLS.named(args.name).with_settings(_settings(args))
    for flag, given in (("--only", args.only), ("--restart", args.restart)):
        if given:
            raise UsageError(f"{flag}: {wanted.name} is one drill", f"it goes with `drill run {MATRIX}`")
    return wanted


def _settings(args: Namespace) -> list[str]:
    """All `KEY=VALUE` that were typed; raises UsageError for one that is none."""
    texts = [text for group in getattr(args, "settings", ()) for text in group]
    for text in texts:
        if "=" not in text:
            raise UsageError(f"--set {text}: no value", "KEY=VALUE")
        parse_assignment(text, new_roster())
    return texts


def _matrix_asked(args: Namespace) -> tuple[MatrixRun, str]:
    """The matrix of whatever stack there is, or the cells of it and with the settings that were typed, and
    the system of a stack that is made for it: the first whose matrix has them. Raises UsageError."""
    only, failures = tuple(args.only or ()), list[UsageError]()
    run = MatrixRun((), args.quick, settings=tuple(_settings(args)), only=only, fresh=args.restart)
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


def command_of(files: Files, args: Namespace) -> list[str]:
    """The command that runs the same for somebody else, beside whose files stand in the report."""
    own = files.own_file(args.name)
    words = ["replexplorer", files.kind, "run", args.name if own is None else f"./{own.name}"]
    words += ["--quick"] if getattr(args, "quick", False) else []
    for flag in ("rows", "dump", "repeat", "only"):
        given = getattr(args, flag, None)
        if given is not None:
            each = given if isinstance(given, list) else [Path(given).name if flag == "dump" else given]
            words += [f"--{flag}", *map(str, each)]
    return [*words, *(word for text in _settings(args) for word in ("--set", text))]


# -- running


Perform = Callable[["Session", Watch], Awaitable[ExperimentResult]]
"""Carries an experiment out on a session."""


async def carried_out(
    call: Call, files: Files, run: LabRun | DrillRun | MatrixRun | Perform, system: str | None = None
) -> int:
    """Run it and deliver its result; `system` is that of a stack that is made for it."""
    console, args = call.console, call.args
    directory, own = report_directory(args.report), files.own_file(args.name)
    up = UpOptions() if system is None or await runs(call.values) else UpOptions(system=system)
    is_matrix = isinstance(run, MatrixRun)  # its cells fail on purpose, and each says what it came to
    async with stack_for(call, f"{files.kind} {args.name if own is None else own.stem}", up) as session:
        conditions = conditions_of(session, _turned(session, run.lab) if isinstance(run, LabRun) else ())
        if isinstance(run, DrillRun) and run.drill.sets:
            console.recount(run.drill.sets)
        console.narrate(f"starts from: {settings_words(conditions)}")
        async with session.observed(*(() if is_matrix else (console.hear,))):
            with Narration(console) as narration:
                result: ExperimentResult
                if isinstance(run, LabRun | DrillRun | MatrixRun):
                    run.watch = narration
                    result = await session.console.run(run)
                else:
                    result = await run(session, narration)
    result.conditions, result.again = conditions, again(conditions, command_of(files, args))
    drawn = [] if is_matrix or session.file is None else [session.file]
    write = partial(write_report, session=session.file, own=own)
    return _delivered(console, result, directory, drawn, write)


def _turned(session: Session, lab: Lab) -> list[Value]:
    """The values that a lab turns knobs to on this stack."""
    fitted = lab if session.server is None else fitting(lab, session.server)
    replicas = len(session.state.node_views()) - 1
    return [each.value for each in assignments(fitted, session.console.parse, replicas)]


def _delivered(
    console: Output,
    result: ExperimentResult,
    directory: Path | None,
    sessions: Iterable[str],
    write: Callable[[Path, Report, ExperimentResult], str],
) -> int:
    """Print a result, its report written first, with charts of what was recorded in these session files;
    answers the exit code of what is wrong with the report, else that of the verdict."""

    ticks: list[Tick] = []
    for file in () if directory is None else sessions:
        with suppress(UsageError), closing(SessionReader(Path(file))) as reader:
            ticks += reader.ticks()
    report = experiment_report(result, ticks)
    code = console.deliver(
        result,
        lambda: plain_text(report, console.columns),
        None if directory is None else partial(write, directory, report, result),
    )
    return code or _EXIT_CODES[result.verdict]


async def _run_on_systems(call: Call, lab: Lab) -> int:
    """Run a lab on a stack of its own for each system."""
    console, args = call.console, call.args
    directory = report_directory(args.report)
    names = names_beside(call.values.stack, lab.systems)
    await refuse_found(names.values())
    sessions: dict[str, str] = {}
    found: list[Conditions] = []

    async def on_stack(system: System, part: LabRun) -> LabResult:
        console.recount(f"{system.title}: a stack of its own, '{names[system.name]}'")
        replicas = lab.replicas if system.name == DEFAULT else None
        up = UpOptions(replicas=replicas, flavor=system.flavors[0], system=system.name)
        async with stack_for(call, f"lab {lab.name}", up, names[system.name]) as session:
            found.append(conditions_of(session))
            try:
                async with session.observed(console.hear):
                    return await session.console.run(part)
            finally:
                if session.file is not None:
                    sessions[system.name] = session.file

    result = await SystemsRun(lab, args.quick, Narration(console), repeats=args.repeat).run(on_stack)
    result.conditions = replace(found[0], server=result.server, settings={}, systems=list(lab.systems))
    result.again = [shlex.join(command_of(LABS, args))]
    return _delivered(console, result, directory, sessions.values(), partial(write_report, parts=sessions))

"""The verbs lab and drill: experiments by name, listed, run, and judged by what they expect.

One runs on the stack that is there, on one that is made for it and removed again, or on stacks of its own.
"""

from __future__ import annotations

import asyncio
import shlex
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from replexplorer.cli.output import Output
from replexplorer.cli.wiring import composed, runs, stack_names
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult
from replexplorer.core.experiment.lab import Lab, LabResult
from replexplorer.core.experiment.matrix import MATRIX, Matrix, chosen_cells, matrix_cells
from replexplorer.core.knobs.names import Value, parse_assignment
from replexplorer.core.system import DEFAULT, SYSTEMS, Conditions, System
from replexplorer.core.text import closest, duration_text, table
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun, SystemsRun, assignments, fitting
from replexplorer.engine.experiment.lab_scripts import SCRIPTS
from replexplorer.engine.experiment.lab_tables import archive_of, bulk_load_of
from replexplorer.engine.experiment.matrix import MatrixRun
from replexplorer.formats import paths
from replexplorer.formats.experiment_file import checked, read_drill, read_lab, rows_of
from replexplorer.formats.paths import expanded
from replexplorer.ports import UpOptions
from replexplorer.reports.conditions import again, conditions_of, settings_words
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import Report, plain_text, report_directory, write_report

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.tick import Tick
    from replexplorer.engine.session import Session

_SUFFIX: Final = ".toml"
_LABS_IN_ORDER: Final = (
    "tour", "wan-insert", "durability-modes", "bulk-load", "wan-threads", "systems-78ms", "phantom-read",
    "hot-row", "archive", "quorum-of-n", "applier-lag", "group-delay", "missing-key",
)  # fmt: skip
"""Labs that are listed in this order, before others that ship."""
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class ExperimentFiles(Generic[E]):
    """The experiments of one kind."""

    kind: str
    """`lab` or `drill`."""
    shipped: Callable[[], Mapping[str, E]]
    """Those that ship, by name, in the order in which they are listed."""
    directory: Callable[[], Path]
    """Where the user's own are."""
    read: Callable[[Path], E]
    """Reads a file; raises UsageError naming file, line and key."""

    def named(self, name: str) -> E:
        """One that ships, one of the user's directory, or a file; raises UsageError."""
        file, shipped = self.own_file(name), self.shipped()
        if file is not None:
            return self.read(file)
        if name not in shipped:
            known = [*shipped, *(each.stem for each in paths.toml_files(self.directory()))]
            raise UsageError(
                f"unknown {self.kind} '{name}'", closest(name, known) or f"there is {', '.join(known)}"
            )
        return shipped[name]

    def own_file(self, name: str) -> Path | None:
        """The file of one of the user's own; None for one that ships, or that is nowhere."""
        if "/" in name or name.endswith(_SUFFIX):
            return expanded(name)
        if name in self.shipped():
            return None
        return {file.stem: file for file in paths.toml_files(self.directory())}.get(name)

    def own(self) -> tuple[list[tuple[E, Path]], list[tuple[Path, UsageError]]]:
        """The user's own with their files, and those that cannot be used with what is wrong."""
        found, failed = [], []
        for file in paths.toml_files(self.directory()):
            try:
                if file.stem in self.shipped():
                    raise UsageError(
                        f"{file}: the {self.kind} {file.stem} ships", "give the file another name"
                    )
                found.append((self.read(file), file))
            except UsageError as error:
                failed.append((file, error))
        return found, failed


@cache
def _shipped_labs() -> Mapping[str, Lab]:
    files = {file.stem: file for file in paths.toml_files(paths.shipped_labs())}
    return {name: read_lab(files[name], SCRIPTS) for name in dict.fromkeys([*_LABS_IN_ORDER, *files])}


@cache
def _shipped_drills() -> Mapping[str, Drill]:
    return {file.stem: read_drill(file) for file in paths.toml_files(paths.shipped_drills())}


LABS: Final = ExperimentFiles("lab", _shipped_labs, lambda: paths.labs_directory(), read_lab)
DRILLS: Final = ExperimentFiles("drill", _shipped_drills, lambda: paths.drills_directory(), read_drill)
_Files = ExperimentFiles[Lab] | ExperimentFiles[Drill]


_LONGEST: Final = 40
"""Characters of a stack's name (`formats.configuration.STACK_NAME_PATTERN`)."""
_EXIT_CODES: Final = {"holds": 0, "deviates": 1, "aborted": StackUnavailable.exit_code}


@asynccontextmanager
async def stack_for(
    call: Call, holder: str, up: UpOptions | None = None, name: str | None = None
) -> AsyncIterator[Session]:
    """Bring a stack up where none is, and remove it again if this call made it; `--beside` is read from the
    call. One of this `name` is made new: raises StackUnavailable, and touches nothing, where it is there."""
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
        beside=call.args.beside,
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
                f"stack '{name}' is there already, and this makes one of that name",
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


# -- listing

_PIPED_COLUMNS: Final = 80
"""Where there is no terminal: `--json` is for programs."""


@dataclass(kw_only=True, slots=True)
class ExperimentEntry:
    """A lab or drill in `lab list` and `drill list`; one whose file cannot be used has a name, a file and an
    error."""

    name: str
    title: str
    teaches: str = ""
    seconds: float | None = None
    """With its repeats."""
    quick_seconds: float | None = None
    turns: list[str] = field(default_factory=list)
    """Keys of the knobs that it turns."""
    replicas: int = 1
    faults: list[str] = field(default_factory=list)
    """What a drill breaks, as typed for `fault inject`."""
    systems: list[str] = field(default_factory=list)
    """Of which a lab makes stacks of its own; empty: it runs on the stack that is there."""
    file: str | None = None
    """Of one's own."""
    error: str | None = None
    """Why the file cannot be used."""


def list_labs(call: Call) -> int:
    """The labs that there are."""
    return _list(call, LABS)


def list_drills(call: Call) -> int:
    """The drills that there are."""
    return _list(call, DRILLS, Matrix())


def _list(call: Call, files: _Files, *more: Matrix) -> int:
    """Those that ship and the user's own; a file that cannot be used is a warning, and in JSON an entry."""
    own, failed = files.own()
    for _, error in failed:
        call.console.warn(str(error))
    shipped = [*files.shipped().values(), *more]
    entries = [*map(_entry, shipped), *(_entry(each, file) for each, file in own)]
    for file, error in failed:
        entries.append(ExperimentEntry(name=file.stem, title="", file=str(file), error=str(error)))
    usable = [*shipped, *(each for each, _ in own)]
    return call.console.deliver(entries, lambda: listing(usable, call.console.columns))


def listing(experiments: Sequence[Lab | Drill | Matrix], columns: int | None) -> str:
    """Experiments by name, title, and how long each takes, in full and quick; titles are folded, and have the
    systems of a drill that is not for a source and its replicas."""
    rows = []
    for each in experiments:
        only = each.systems if isinstance(each, Drill) and DEFAULT not in each.systems else ()
        title = f"{each.title} ({', '.join(only)})" if only else each.title
        takes = (duration_text(each.seconds(quick=quick)) for quick in (False, True))
        rows.append((each.name, title, *takes))
    heads = ("NAME", "TITLE", "TAKES", "QUICK")
    return table(rows, heads, right=(2, 3), fold=1, columns=columns or _PIPED_COLUMNS)


def _entry(experiment: Lab | Drill | Matrix, file: Path | None = None) -> ExperimentEntry:
    return ExperimentEntry(
        name=experiment.name,
        title=experiment.title,
        teaches=experiment.teaches,
        seconds=experiment.seconds(quick=False),
        quick_seconds=experiment.seconds(quick=True),
        turns=list(experiment.turns),
        replicas=experiment.replicas,
        faults=[] if isinstance(experiment, Lab) else list(experiment.faults),
        systems=list(experiment.systems) if isinstance(experiment, Lab) else [],
        file=None if file is None else str(file),
    )


# -- what is asked for

_OWNERS: Final = {"rows": "archive", "dump": "bulk-load"}
"""Flags that are one lab's own."""


async def run_lab(call: Call) -> int:
    """Run a lab and say whether its relations hold."""
    args = call.args
    wanted = _lab_asked(args)
    if wanted.systems:
        return await _run_on_systems(call, wanted)
    return await _carried_out(call, LABS, LabRun(wanted, args.quick, repeats=args.repeats))


async def run_drill(call: Call) -> int:
    """Run a drill, or the matrix of them, and say whether it came as expected."""
    if call.args.name == MATRIX:
        return await _carried_out(call, DRILLS, *_matrix_asked(call.args))
    wanted = drill_asked(call.args)
    return await _carried_out(call, DRILLS, DrillRun(wanted, call.args.quick), wanted.systems[0])


def _lab_asked(args: Namespace) -> Lab:
    """The lab with what its own flags say of it; raises UsageError."""
    wanted = LABS.named(args.name)
    for flag, owner in _OWNERS.items():
        if getattr(args, flag) is not None and wanted.name != owner:
            raise UsageError(f"--{flag} is for the lab {owner}", f"{wanted.name} has none")
    if wanted.systems and args.beside:
        raise UsageError(
            f"--beside: {wanted.name} makes stacks of its own, whose load nobody else drives", "leave it out"
        )
    if args.rows is not None:
        return archive_of(wanted, args.rows)
    if args.dump is not None:
        return bulk_load_of(wanted, partial(rows_of, checked(expanded(args.dump))))
    return wanted


def drill_asked(args: Namespace) -> Drill:
    """The drill with the settings that were typed; raises UsageError for what cannot be one."""
    wanted = DRILLS.named(args.name).with_settings(_settings(args))
    for flag, given in (("--only", args.only), ("--fresh", args.fresh)):
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
    run = MatrixRun((), args.quick, settings=tuple(_settings(args)), only=only, fresh=args.fresh)
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


def command_of(files: _Files, args: Namespace) -> list[str]:
    """The command that runs the same for somebody else, beside whose files stand in the report."""
    own = files.own_file(args.name)
    words = ["replexplorer", files.kind, "run", args.name if own is None else f"./{own.name}"]
    words += ["--quick"] if args.quick else []
    for flag in ("rows", "dump", "repeats", "only"):
        given = getattr(args, flag, None)
        if given is not None:
            each = given if isinstance(given, list) else [Path(given).name if flag == "dump" else given]
            words += [f"--{flag}", *map(str, each)]
    return [*words, *(word for text in _settings(args) for word in ("--set", text))]


# -- running


async def _carried_out(
    call: Call, files: _Files, run: LabRun | DrillRun | MatrixRun, system: str | None = None
) -> int:
    """Run it and deliver its result; `system` is that of a stack that is made for it."""
    console, args = call.console, call.args
    directory, own = report_directory(args.report), files.own_file(args.name)
    up = UpOptions() if system is None or await runs(call.values) else UpOptions(system=system)
    is_matrix = isinstance(run, MatrixRun)  # its cells fail on purpose, and each says what it came to
    async with stack_for(call, f"{files.kind} {args.name if own is None else own.stem}", up) as session:
        run.watch = narration = Narration(console)
        conditions = conditions_of(session, _turned(session, run.lab) if isinstance(run, LabRun) else ())
        if isinstance(run, DrillRun) and run.drill.sets:
            console.recount(run.drill.sets)
        console.narrate(f"starts from: {settings_words(conditions)}")
        async with session.observed(*(() if is_matrix else (console.hear,))):
            with narration:
                result: ExperimentResult = await session.console.run(run)
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
    from replexplorer.adapters.recording import SessionReader

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

    result = await SystemsRun(lab, args.quick, Narration(console), repeats=args.repeats).run(on_stack)
    result.conditions = replace(found[0], server=result.server, settings={}, systems=list(lab.systems))
    result.again = [shlex.join(command_of(LABS, args))]
    return _delivered(console, result, directory, sessions.values(), partial(write_report, parts=sessions))

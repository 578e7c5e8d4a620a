"""The verbs lab list, drill list and lesson list: experiments by name, those that ship and one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.lab import Lab, Play
from replexplorer.core.experiment.lesson import Lesson
from replexplorer.core.records import field, frozen, printed
from replexplorer.core.system import DEFAULT
from replexplorer.core.text import closest, duration_text, table
from replexplorer.formats import paths
from replexplorer.formats.experiment_file import read_drill, read_lab, read_lesson
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.experiment.matrix import Matrix

_SUFFIX: Final = ".toml"
_LABS_IN_ORDER: Final = (
    "tour", "wan-insert", "durability-modes", "bulk-load", "wan-threads", "systems-78ms", "phantom-read",
    "hot-row", "archive", "quorum-of-n", "applier-lag", "group-delay", "missing-key",
)  # fmt: skip
"""Labs that are listed in this order, before others that ship."""
E = TypeVar("E")


@frozen
class ExperimentFiles(Generic[E]):
    """The experiments of one kind."""

    kind: str
    """`lab`, `drill` or `lesson`."""
    shipped: Callable[[], Mapping[str, E]]
    """Those that ship, by name, in the order in which they are listed."""
    read: Callable[[Path], E]
    """Reads a file; raises UsageError naming file, line and key."""

    @property
    def own_files(self) -> Sequence[Path]:
        """The user's own."""
        return paths.toml_files(paths.experiments_directory(self.kind))

    def named(self, name: str) -> E:
        """One that ships, one of the user's directory, or a file; raises UsageError."""
        file, shipped = self.own_file(name), self.shipped()
        name = name if name in shipped else name.replace("_", "-")
        if file is not None:
            return self.read(file)
        if name not in shipped:
            known = [*shipped, *(each.stem for each in self.own_files)]
            raise UsageError(
                f"unknown {self.kind} '{name}'", closest(name, known) or f"use one of {', '.join(known)}"
            )
        return shipped[name]

    def own_file(self, name: str) -> Path | None:
        """The file of one of the user's own; None for one that ships, or that is nowhere."""
        if "/" in name or name.endswith(_SUFFIX):
            return expanded(name)
        if name in self.shipped():
            return None
        return {file.stem: file for file in self.own_files}.get(name)

    def own(self) -> tuple[list[tuple[E, Path]], list[tuple[Path, UsageError]]]:
        """The user's own with their files, and those that cannot be used with what is wrong."""
        found, failed = [], []
        for file in self.own_files:
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
    files = {file.stem: file for file in paths.toml_files(paths.shipped_experiments("lab"))}
    return {name: read_lab(files[name], _script) for name in dict.fromkeys([*_LABS_IN_ORDER, *files])}


def _script(name: str) -> Play:
    """A script of a phase, looked up when it is played: a list of labs needs no engine."""

    async def play(act: Any) -> Any:
        from replexplorer.engine.experiment.lab_scripts import SCRIPTS

        return await SCRIPTS[name](act)

    return play


def _shipped(kind: str, read: Callable[[Path], E]) -> Callable[[], Mapping[str, E]]:
    return cache(
        lambda: {file.stem: read(file) for file in paths.toml_files(paths.shipped_experiments(kind))}
    )


def named(kind: str, name: str) -> Any:
    """The lesson, the lab, the drill or the preset of this name; raises UsageError."""
    from replexplorer.formats.scenes import find_scene

    known = {files.kind: files.named for files in (LESSONS, LABS, DRILLS)}
    return known.get(kind, find_scene)(name)


def _lesson(file: Path) -> Lesson:
    return read_lesson(file, named)


LABS: Final = ExperimentFiles("lab", _shipped_labs, read_lab)
DRILLS: Final = ExperimentFiles("drill", _shipped("drill", read_drill), read_drill)
LESSONS: Final = ExperimentFiles("lesson", _shipped("lesson", _lesson), _lesson)
Files = ExperimentFiles[Lab] | ExperimentFiles[Drill] | ExperimentFiles[Lesson]


# -- listing

_PIPED_COLUMNS: Final = 80
"""Where there is no terminal: `--json` is for programs."""


@printed
class ExperimentEntry:
    """A lab, drill or lesson in its list; one whose file cannot be used has a name, a file and an
    error."""

    name: str
    title: str
    group: str = ""
    """What it is about: `cost`, `protection`, `failures` or `systems`."""
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
    from replexplorer.core.experiment.matrix import Matrix

    return _list(call, DRILLS, Matrix())


def list_lessons(call: Call) -> int:
    """The lessons that there are."""
    return _list(call, LESSONS)


def _list(call: Call, files: Files, *more: Matrix) -> int:
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


def listing(experiments: Sequence[Lab | Drill | Matrix | Lesson], columns: int | None) -> str:
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


def _entry(experiment: Lab | Drill | Matrix | Lesson, file: Path | None = None) -> ExperimentEntry:
    return ExperimentEntry(
        name=experiment.name,
        title=experiment.title,
        group=experiment.group,
        teaches=experiment.teaches,
        seconds=experiment.seconds(quick=False),
        quick_seconds=experiment.seconds(quick=True),
        turns=list(experiment.turns),
        replicas=getattr(experiment, "replicas", 1),
        faults=[*getattr(experiment, "faults", ())],
        systems=list(experiment.systems) if isinstance(experiment, Lab) else [],
        file=None if file is None else str(file),
    )

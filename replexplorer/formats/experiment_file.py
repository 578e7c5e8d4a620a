"""Labs, drills and lessons as TOML, those that ship and those of one's own: read whole, and wrong with their
line; and the rows that a lab may take from a dump.

Law: an error names the file, the line and the key, and nothing has been done by then.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import (
    CAUGHT_UP,
    DEFAULT_CLIENTS,
    FIGURES,
    WRITING,
    Doing,
    Drill,
    DrillStep,
    Precheck,
    Span,
    checked_steps,
    span,
)
from replexplorer.core.experiment.experiment import ExperimentGroup
from replexplorer.core.experiment.lab import Lab, Length, Phase, Play, Publication, Published
from replexplorer.core.experiment.lesson import FIGURES as LESSON_FIGURES
from replexplorer.core.experiment.lesson import Lesson, LessonQuestion, LessonStep
from replexplorer.core.experiment.relations import FIGURES as PHASE_FIGURES
from replexplorer.core.experiment.relations import (
    KINDS,
    Claim,
    SummaryPlan,
    check_terms,
    judge_by,
    terms_of,
)
from replexplorer.core.fault import kind_of, parse_fault
from replexplorer.core.knobs.names import SEMI_SYNC, Place, desired_of, find, parse_assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import SystemName, system_of
from replexplorer.core.text import closest
from replexplorer.core.topology import MOST_REPLICAS, SOURCE, Roster, new_roster
from replexplorer.formats.files import TomlFile, opened

Where = tuple[str | int, ...]
"""The way to a key, as `("phase", 0, "set")`."""
Knobs = dict[str, Any]
"""Values by the knobs' keys; what is none is refused with what the knob takes."""
Seconds = Annotated[float, Field(gt=0, le=3600)]
Count = Annotated[int, Field(ge=1)]
_Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
_Clients = Annotated[int, Field(ge=0, le=1024)]
_QUICK_SHARE: Final = 4
_QUICK_COMMITS_SHARE: Final = 10
_LEAST_S: Final = 2.0
_WITHIN_S: Final = 60.0
"""How long UNTIL waits where the file does not say."""


class _Table(BaseModel):
    """A table of the file; other keys than its own are wrong."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class PhaseTable(_Table):
    """One `[[phase]]`."""

    name: Annotated[str, Field(min_length=1, max_length=40)]
    shows: str = ""
    """What to watch."""
    set: Knobs = {}
    """Knobs, by their keys; those of the lab's own `set` are set before."""
    seconds: Seconds = 10.0
    """How long it is measured."""
    quick_seconds: Seconds | None = None
    """Under --quick; a quarter of `seconds`, at least 2, when it is not given."""
    commits: Count | None = None
    """Measured until this many commits instead."""
    quick_commits: Count | None = None
    """Under --quick; a tenth of `commits` when it is not given."""
    state: Literal["protected", "off", "blocked"] | None = None
    """The protection state that is asked for; by `semi_sync` when it is not given."""
    replicas: Annotated[int | None, Field(ge=0, le=MOST_REPLICAS)] = None
    """This many replicas are attached."""
    faults: tuple[str, ...] = ()
    """In force while it is measured."""
    table_size: Count | None = None
    """Rows of the load's table."""
    published: Published | None = None
    published_figures: dict[str, Published] = {}
    """What was published of what its script finds."""
    optional: bool = False
    """Left out on a server that lacks what it sets."""
    otherwise: Knobs = {}
    """In place of `set` on a server that lacks one of those."""
    script: str | None = None
    """What it does instead of letting the load run, of a lab that ships."""
    system: SystemName | None = None
    """The system of which the lab makes a stack of its own for it."""


class ReferenceTable(_Table):
    """One `[[reference]]`: a line across all phases at one commit a round trip of one of them."""

    name: str
    one_a_round_trip: str


class LabTables(_Table):
    """The file of a lab."""

    title: str = ""
    teaches: str = ""
    replicas: _Replicas = 1
    group: Literal["cost", "protection"] = "cost"
    """What it is about."""
    failure: str = ""
    """What a failure loses in the modes that it compares."""
    source: Publication | None = None
    set: Knobs = {}
    """Knobs that every phase sets."""
    phase: Annotated[list[PhaseTable], Field(min_length=1)]
    relation: list[Claim] = []
    reference: list[ReferenceTable] = []
    summary: SummaryPlan | None = None


class StepTable(_Table):
    """One `[[step]]` or `[[rollback]]`: exactly one of the keys that say what is done."""

    set: Knobs | None = None
    load: _Clients | None = None
    wait: Seconds | None = None
    inject: str | None = None
    clear: str | Literal[True] | None = None
    until: str | None = None
    failover: str | Literal[True] | None = None
    switchover: str | Literal[True] | None = None
    rejoin: str | None = None
    lasts: Seconds | None = Field(default=None, alias="for")
    """Of `inject`: it is cleared after this many seconds."""
    within: Seconds | None = None
    """Of `until`: at most this many seconds."""
    quick: Seconds | None = None
    """Of `wait` and `inject`, under --quick; a third of the time where it is not given."""
    shows: str = ""


class LessonDoTable(StepTable):
    """One table of a lesson's `do`: a step of a drill, or what only a lesson does."""

    preset: str | None = None
    reset: Literal[True] | None = None
    lab: str | None = None
    drill: str | None = None
    settings: Knobs = Field(default={}, alias="with")
    """Of `drill`: in place of its own."""


class LessonStepTable(_Table):
    """One `[[step]]` of a lesson."""

    name: Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^.]+$")]
    say: Annotated[str, Field(min_length=1)]
    note: str = ""
    do: list[LessonDoTable] = []
    ask: LessonQuestion | None = None


class LessonTables(_Table):
    """The file of a lesson."""

    title: Annotated[str, Field(min_length=1)]
    teaches: str = ""
    minutes: Annotated[int, Field(ge=1, le=600)] = 30
    step: Annotated[list[LessonStepTable], Field(min_length=1)]


class DrillTables(_Table):
    """The file of a drill."""

    title: Annotated[str, Field(min_length=1)]
    teaches: str = ""
    system: SystemName | Annotated[list[SystemName], Field(min_length=1)] = "async"
    clients: Annotated[int, Field(ge=1, le=1024)] = DEFAULT_CLIENTS
    replicas: _Replicas = 1
    survivor: str = ""
    set: Knobs = {}
    precheck: list[Precheck] = []
    step: Annotated[list[StepTable], Field(min_length=1)]
    expect: list[Claim] = []
    rollback: list[StepTable] = []


R = TypeVar("R")


class _Reader:
    """Reads a file, and says where a part of it cannot be."""

    def __init__(self, file: Path, what: str) -> None:
        self.file = TomlFile(file, what)
        self.roster: Roster = new_roster()
        """The nodes that it may name."""

    def wrong(self, where: Where, words: str, hint: str = "") -> UsageError:
        """The error with its place: `mine.toml:12: relation 1.left: ...`."""
        return self.file.wrong(where, words, hint)

    def at(self, where: Where, read: Callable[..., R], *arguments: object) -> R:
        """What `read` reads; what is wrong with it with its place."""
        try:
            return read(*arguments)
        except UsageError as error:
            raise self.wrong(where, error.message, error.hint) from None

    def settings(self, knobs: Knobs, where: Where) -> tuple[str, ...]:
        """Knobs as they are typed, by their own keys; raises UsageError for one that cannot be set."""
        typed = {
            key: value if not isinstance(value, bool) else ["off", "on"][value]
            for key, value in knobs.items()
        }
        for key, value in typed.items():
            self.at((*where, key), parse_assignment, f"{key}={value}", self.roster)
        return tuple(f"{_canonical(key)}={value}" for key, value in typed.items())

    def one_of(self, word: str, known: Collection[str], where: Where, what: str) -> None:
        """Raise UsageError for a word that is not known, `what` it is not."""
        if word not in known:
            near = closest(word, [*known])
            raise self.wrong(
                where, f"{word!r} {what}{f', {near}' if near else ''}", f"use one of {', '.join(known)}"
            )

    def node(self, text: str, where: Where) -> None:
        """Raise UsageError where there is no such node."""
        if self.roster.find(text) is None:
            raise self.wrong(
                where, f"there is no node '{text}'", f"use one of {', '.join(self.roster.names)}"
            )

    def check_claims(
        self, claims: Sequence[Claim], table: str, kinds: Sequence[str], term: Callable[[str], None]
    ) -> None:
        """Each has one of these keys, which says what must hold, and names states that there are and figures
        that `term` takes; raises UsageError."""
        for at, claim in enumerate(claims):
            where, asked = (table, at), claim.asked
            if len(asked) != 1 or asked[0] not in kinds:
                found = f"says {' and '.join(asked) or 'nothing that must hold'}"
                raise self.wrong(
                    (*where, asked[-1] if asked else "name"), found, f"use one of {', '.join(kinds)}"
                )
            if claim.times <= 0:
                raise self.wrong((*where, "times"), "must be more than 0")
            if not claim.name:
                raise self.wrong((*where, "name"), "is missing", "say what must hold")
            if claim.left is not None:
                self._check_sides(claim, where, term)

    def _check_sides(self, claim: Claim, where: Where, term: Callable[[str], None]) -> None:
        """Two sides, and how they are compared."""
        for key, side in (("left", claim.left), ("right", claim.right)):
            if side is None:
                raise self.wrong((*where, key), "is missing", "a figure, or a number")
            if isinstance(side, str):
                self.at((*where, key), term, side)
        if claim.says is None and claim.sign is None:
            raise self.wrong((*where, "is"), "is missing", "one of < <= > >= == !=")
        try:
            (claim.says or "").format(left=1.0, right=1.0, ratio=1.0, change=0.0)
        except (LookupError, ValueError, AttributeError):
            known = "{left}, {right}, {ratio} and {change:+.0%} are known"
            raise self.wrong((*where, "says"), "has another field", known) from None


def _canonical(key: str) -> str:
    """`KEY@NODE` of any of the knob's names; the node is left out where the knob has but one."""
    name, _, node = key.partition("@")
    node = node.strip()
    return find(name).key if node in ("", SOURCE, Place.LOAD) else f"{find(name).key}@{node}"


# -- labs


def read_lab(file: Path, script: Callable[[str], Play] | None = None) -> Lab:
    """Read and check a lab whose phases may do what a `script` of a name does; raises UsageError naming file,
    line and key."""
    reader = _Reader(file, "lab file")
    tables = reader.file.read(LabTables)
    reader.roster = new_roster(tables.replicas)
    names = [phase.name for phase in tables.phase]
    common = reader.settings(tables.set, ("set",))
    phases, waits = list[Phase](), False
    for at, table in enumerate(tables.phase):
        where = ("phase", at)
        if names.index(table.name) != at:
            raise reader.wrong((*where, "name"), f"{table.name!r} is another phase's name")
        phase = _phase(reader, table, where, common, script)
        turned = desired_of(parse_assignment(text, reader.roster) for text in phase.settings)
        waits = turned.get(SEMI_SYNC, "on" if waits else "off") == "on"
        state = table.state or ("protected" if waits else "off")
        phases.append(replace(phase, state=ProtectionState(state)))
    scripted = [phase.name for phase in phases if phase.play]
    term = partial(check_terms, phases=names, scripted=scripted)
    reader.check_claims(tables.relation, "relation", KINDS[:1], term)
    for at, each in enumerate(tables.reference):
        reader.one_of(each.one_a_round_trip, names, ("reference", at, "one_a_round_trip"), "names no phase")
    return Lab(
        name=file.stem,
        title=tables.title or file.stem,
        teaches=tables.teaches,
        phases=tuple(phases),
        judge=judge_by(tables.relation, names),
        source=tables.source,
        replicas=tables.replicas,
        references={each.name: each.one_a_round_trip for each in tables.reference},
        summary=tables.summary.made if tables.summary else lambda _: None,
        group=ExperimentGroup("systems" if any(phase.system for phase in phases) else tables.group),
        failure=tables.failure,
    )


def _phase(
    reader: _Reader,
    table: PhaseTable,
    where: Where,
    common: Sequence[str],
    script: Callable[[str], Play] | None,
) -> Phase:
    """One phase; its protection state is not known yet."""
    quick_s = table.quick_seconds or max(_LEAST_S, table.seconds / _QUICK_SHARE)
    quick_commits = table.quick_commits
    if table.commits is not None and quick_commits is None:
        quick_commits = max(1, table.commits // _QUICK_COMMITS_SHARE)
    for at, fault in enumerate(table.faults):
        reader.at((*where, "faults", at), parse_fault, fault, reader.roster)
    otherwise = reader.settings(table.otherwise, (*where, "otherwise"))
    if table.script is not None and script is None:
        raise reader.wrong(
            (*where, "script"),
            f"{table.script!r} is not a script",
            "leave it out; only shipped labs have one",
        )
    return Phase(
        table.name,
        (*common, *reader.settings(table.set, (*where, "set"))),
        full=Length(table.seconds, table.commits),
        quick=Length(quick_s, quick_commits),
        state=ProtectionState.OFF,
        shows=table.shows,
        published=table.published,
        replicas=table.replicas,
        faults=table.faults,
        published_figures=table.published_figures,
        table_size=table.table_size,
        play=script(table.script) if script and table.script else None,
        is_optional=table.optional,
        otherwise=(*common, *otherwise) if otherwise else (),
        system=table.system,
    )


# -- drills


def read_drill(file: Path) -> Drill:
    """Read and check a drill; raises UsageError naming file, line and key."""
    reader = _Reader(file, "drill file")
    tables = reader.file.read(DrillTables)
    systems = (tables.system,) if isinstance(tables.system, str) else tuple(tables.system)
    reader.roster = new_roster(tables.replicas, mesh=system_of(systems[0]).mesh)
    if tables.survivor:
        reader.node(tables.survivor, ("survivor",))
    steps, rollback = (
        tuple(_step(reader, each, (name, at)) for at, each in enumerate(found))
        for name, found in (("step", tables.step), ("rollback", tables.rollback))
    )
    if (misplaced := checked_steps(steps)) is not None:
        raise reader.wrong(("step", misplaced[0], "clear"), misplaced[1].message, misplaced[1].hint)
    reader.check_claims(tables.expect, "expect", KINDS, _check_figure)
    return Drill(
        name=file.stem,
        title=tables.title,
        teaches=tables.teaches,
        settings=reader.settings(tables.set, ("set",)),
        systems=systems,
        clients=tables.clients,
        replicas=tables.replicas,
        survivor=tables.survivor,
        prechecks=tuple(tables.precheck),
        steps=steps,
        expects=tuple(tables.expect),
        rollback=rollback,
    )


_TIMES: Final = {Doing.INJECT: {"for", "quick"}, Doing.UNTIL: {"within"}, Doing.WAIT: {"quick"}}
"""The times that a step may say."""


def _step(reader: _Reader, table: StepTable, where: Where) -> DrillStep:
    known = [doing for doing in Doing if doing in type(table).model_fields]
    asked = [doing for doing in known if getattr(table, doing) is not None]
    if len(asked) != 1:
        found = f"has {' and '.join(asked)}" if asked else "says nothing to do"
        raise reader.wrong((*where, *asked[1:2]), found, f"use one of {', '.join(known)} in each table")
    doing = asked[0]
    value: Any = getattr(table, doing)
    here, what = (*where, doing.value), "" if value is True else str(value)
    settings: tuple[str, ...] = ()
    lasts = None if table.lasts is None else span(table.lasts, table.quick)
    match doing:
        case Doing.SET:
            what, settings = "", reader.settings(value, here)
        case Doing.WAIT:
            what, lasts = "", span(value, table.quick)
        case Doing.INJECT:
            reader.at(here, parse_fault, what, reader.roster)
        case Doing.CLEAR if what:
            kind, _, node = what.partition("@")
            reader.at(here, kind_of, kind)
            if node:
                reader.node(node, here)
        case Doing.UNTIL:
            reader.one_of(what, (*ProtectionState, WRITING, CAUGHT_UP), here, "is not a state")
            lasts = Span(table.within or _WITHIN_S, table.within or _WITHIN_S)
        case Doing.FAILOVER | Doing.SWITCHOVER | Doing.REJOIN if what:
            reader.node(what, here)
    for key, given in (("for", table.lasts), ("within", table.within), ("quick", table.quick)):
        if given is not None and key not in _TIMES.get(doing, ()):
            raise reader.wrong((*where, key), f"{doing} has no '{key}'", "leave it out")
    return DrillStep(doing, what, settings, lasts, table.shows)


def _check_figure(name: str) -> None:
    """Raise UsageError for what is not a figure of a drill."""
    if name not in FIGURES:
        near = closest(name, [*FIGURES])
        raise UsageError(
            f"'{name}' is not a figure{f', {near}' if near else ''}", "see docs/reference/drills.md"
        )


# -- lessons


def read_lesson(file: Path, named: Callable[[Doing, str], object]) -> Lesson:
    """Read and check a lesson; `named` gives the preset, lab or drill of a name, or raises. Raises UsageError
    naming file, line and key."""
    reader = _Reader(file, "lesson file")
    tables = reader.file.read(LessonTables)
    steps, known = list[LessonStep](), list[str]()
    for at, table in enumerate(tables.step):
        where: Where = ("step", at)
        if any(step.name == table.name for step in steps):
            raise reader.wrong((*where, "name"), f"{table.name!r} is another step's name")
        do, own = list[DrillStep](), [*PHASE_FIGURES, *LESSON_FIGURES]
        for number, each in enumerate(table.do):
            here = (*where, "do", number)
            step = _step(reader, each, here)
            if step.doing in (Doing.PRESET, Doing.LAB, Doing.DRILL):
                found = reader.at((*here, step.doing.value), named, step.doing, step.what)
                own = [*FIGURES] if isinstance(found, Drill) else _figures_of(found, own)
            if each.settings:
                if step.doing is not Doing.DRILL:
                    raise reader.wrong((*here, "with"), f"{step.doing} has no 'with'", "leave it out")
                step = replace(step, settings=reader.settings(each.settings, (*here, "with")))
            do.append(step)
        if table.ask is not None:
            _check_question(reader, table.ask, (*where, "ask"), [*own, *known])
            known += [f"{table.name}.{name}" for name in own]
        steps.append(LessonStep(table.name, table.say, table.note, tuple(do), table.ask))
    return Lesson(file.stem, tables.title, tables.teaches, tables.minutes, tuple(steps))


def _figures_of(found: object, otherwise: list[str]) -> list[str]:
    """`PHASE.FIGURE` of a lab, and of a phase with a script `PHASE.*`: it has more."""
    if not isinstance(found, Lab):
        return otherwise
    each = [f"{phase.name}.{name}" for phase in found.phases for name in PHASE_FIGURES]
    return [*each, *(f"{phase.name}.*" for phase in found.phases if phase.play)]


def _check_question(reader: _Reader, ask: LessonQuestion, where: Where, known: Sequence[str]) -> None:
    """Its figures are known, and its answer is a number, figures, or one of its choices; raises
    UsageError."""
    texts = {"figure": ask.figure}
    if ask.choices:
        reader.one_of(
            str(ask.answer), [each.text for each in ask.choices], (*where, "answer"), "is not a choice"
        )
    elif isinstance(ask.answer, str):
        texts["answer"] = ask.answer
    for key, text in texts.items():
        for _, term in terms_of(text, ()):
            if term not in known and f"{term.rpartition('.')[0]}.*" not in known:
                near = closest(term, [*known])
                raise reader.wrong(
                    (*where, key),
                    f"'{term}' is not a figure{f', {near}' if near else ''}",
                    "see docs/reference/labs.md",
                )


# -- the dump that the bulk-load lab inserts instead of rows of its own

_MOST_LINE_CHARACTERS: Final = 1 << 24
"""mysqldump ends a line at 16 MB at the latest."""
_CELL: Final = r"\s{0,9},\s{0,9}'(?:[^'\\]|\\.|''){0,100}'"
_ROW: Final = re.compile(rf"\(\s{{0,9}}\d{{1,20}}{_CELL * 5}\s{{0,9}}\)")
"""emp_no, birth_date, first_name, last_name, gender, hire_date; bounded, so that no line takes for ever."""
_INSERT: Final = re.compile(r"INSERT\s+INTO\s+`?employees`?", re.IGNORECASE)


def rows_of(file: Path) -> Iterator[str]:
    """`(10001,'1953-09-02','Georgi','Facello','M','1986-06-26')`, in the file's order.

    The statements' lines are read one by one, so that a file of any size costs no memory. Raises
    UsageError for a file that cannot be read.
    """
    try:
        with io.TextIOWrapper(opened(file), encoding="utf-8") as lines:
            inside = False
            while line := lines.readline(_MOST_LINE_CHARACTERS):
                inside = inside or _INSERT.search(line) is not None
                if inside:
                    yield from _ROW.findall(line)
                    inside = not line.rstrip().endswith(";")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"no dump {file}: {reason}", "give the employees.sql of test_db") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a text file in UTF-8", "give the employees.sql of test_db") from None


def checked(file: Path) -> Path:
    """The file, once it has shown a row; raises UsageError."""
    if next(rows_of(file), None) is None:
        raise UsageError(
            f"{file} has no row of employees", "its lines must be INSERT INTO `employees` VALUES (...)"
        )
    return file

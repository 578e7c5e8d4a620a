"""Labs and drills as TOML, those that ship and those of one's own: read whole, and wrong with their line.

Law: an error names the file, the line and the key, and nothing has been done by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, TypeVar

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
from replexplorer.core.experiment.lab import Lab, Length, Phase, Play, Publication, Published
from replexplorer.core.experiment.relations import (
    KINDS,
    Claim,
    SummaryPlan,
    check_terms,
    judge_by,
    round_trips,
)
from replexplorer.core.fault import kind_of, parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Place, desired_of, find, parse_assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import SYSTEMS, system_of
from replexplorer.core.topology import MOST_REPLICAS, SOURCE, Roster, new_roster
from replexplorer.formats.files import TomlFile, closest

Where = tuple[str | int, ...]
"""The way to a key, as `("phase", 0, "set")`."""
Knobs = dict[str, bool | int | float | str]
"""Values by the knobs' keys."""
STATES: Final = tuple(state.value for state in ProtectionState)
"""Protection states by their names."""
_SAYS: Final = re.compile(r"[^{}]*(\{(left|right|ratio|change)(:[+,]?\d?(\.\d)?[fg%])?\}[^{}]*)*")


class StrictTable(BaseModel):
    """A table of the file; other keys than its own are wrong."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


T = TypeVar("T", bound=StrictTable)
R = TypeVar("R")


class ExperimentReader(Generic[T]):
    """Reads a file, and says where a part of it cannot be."""

    def __init__(self, file: Path, what: str, model: type[T]) -> None:
        """Read it and check its shape; `what` it is called where there is none. Raises UsageError."""
        self._file = TomlFile(file, what)
        self.tables = self._file.read(model)
        self.name = file.stem

    def wrong(self, where: Where, error: UsageError) -> UsageError:
        """The error with its place: `mine.toml:12: relation 1.left: ...`."""
        return self._file.wrong(where, error.message, error.hint)

    def at(self, where: Where, read: Callable[..., R], *arguments: object) -> R:
        """What `read` reads; what is wrong with it with its place."""
        try:
            return read(*arguments)
        except UsageError as error:
            raise self.wrong(where, error) from None

    def settings(self, knobs: Knobs, where: Where, roster: Roster) -> tuple[str, ...]:
        """Knobs as they are typed, by their own keys; raises UsageError for one that cannot be set."""
        typed = {
            key: ("on" if value else "off") if isinstance(value, bool) else value
            for key, value in knobs.items()
        }
        for key, value in typed.items():
            self.at((*where, key), parse_assignment, f"{key}={value}", roster)
        return tuple(f"{_canonical(key)}={value}" for key, value in typed.items())

    def one_of(self, word: str, known: Collection[str], where: Where, what: str) -> str:
        """The word where it is known; raises UsageError naming `what` it is not."""
        if word not in known:
            near = closest(word, list(known))
            error = UsageError(f"{word!r} {what}{f', {near}' if near else ''}", f"one of {', '.join(known)}")
            raise self.wrong(where, error)
        return word

    def state(self, text: str, where: Where, beside: Sequence[str] = ()) -> str:
        """A protection state, or one of those `beside`, checked."""
        return self.one_of(text, (*STATES, *beside), where, "is no state")

    def relation(self, claim: Claim, where: Where, phases: Sequence[str], scripted: Collection[str]) -> Claim:
        """What must hold of a lab's phases, checked, some of which are `scripted`; raises UsageError."""
        self._kind(claim, where, KINDS[:1])
        self._sides(claim, where, f"{phases[0]}.tps", lambda term: check_terms(term, phases, scripted))
        return claim

    def expectation(self, claim: Claim, where: Where, figures: Mapping[str, str]) -> Claim:
        """What must come of a drill, which has these figures, checked; raises UsageError."""

        def check(term: str) -> None:
            if term not in figures:
                near = closest(term, list(figures))
                raise UsageError(
                    f"'{term}' is no figure{f', {near}' if near else ''}", "docs/drills.md lists them"
                )

        self._kind(claim, where, KINDS)
        if claim.left is not None:
            self._sides(claim, where, next(iter(figures)), check)
        elif not claim.name:
            raise self.wrong((*where, "name"), UsageError("is missing", "say what must hold"))
        else:
            self.state(claim.passes or claim.never or "", (*where, claim.kind))
        return claim

    def phase(self, name: str, phases: Sequence[str], where: Where) -> str:
        """A phase's name, checked."""
        if not name:
            raise self.wrong(where, UsageError("is missing", f"one of {', '.join(phases)}"))
        return self.one_of(name, phases, where, "names no phase")

    def _kind(self, claim: Claim, where: Where, kinds: Sequence[str]) -> None:
        """It has the one key that says what must hold."""
        asked = claim.asked
        if len(asked) != 1 or asked[0] not in kinds:
            error = UsageError(
                f"says {' and '.join(asked) or 'nothing that must hold'}", f"one of {', '.join(kinds)}"
            )
            raise self.wrong((*where, asked[-1] if asked else "name"), error)
        if claim.times <= 0:
            raise self.wrong((*where, "times"), UsageError("must be more than 0"))

    def _sides(self, claim: Claim, where: Where, example: str, check: Callable[[str], None]) -> None:
        """Two sides of which one at least is a figure, and how they are compared."""
        if not claim.name:
            raise self.wrong((*where, "name"), UsageError("is missing", "say what must hold"))
        for key, side in (("left", claim.left), ("right", claim.right)):
            if side is None:
                raise self.wrong((*where, key), UsageError("is missing", "a figure, or a number"))
            if isinstance(side, str):
                self.at((*where, key), check, side)
        if not isinstance(claim.left, str) and not isinstance(claim.right, str):
            constants = UsageError("compares two numbers", f"one side is a figure, as {example}")
            raise self.wrong((*where, "left"), constants)
        if claim.left == claim.right:
            raise self.wrong(
                (*where, "right"), UsageError("compares a figure with itself", "name another one")
            )
        if claim.says is not None:
            if not _SAYS.fullmatch(claim.says):
                known = "{left}, {right}, {ratio} and {change:+.0%} are known"
                raise self.wrong((*where, "says"), UsageError("has another field", known))
        elif claim.sign is None:
            raise self.wrong((*where, "is"), UsageError("is missing", "one of < <= > >= == !="))


def _canonical(key: str) -> str:
    """`KEY@NODE` of any of the knob's names; the node is left out where the knob has but one."""
    name, _, node = key.partition("@")
    node = node.strip()
    return find(name).key if node in ("", SOURCE, Place.LOAD) else f"{find(name).key}@{node}"


_SEMI_SYNC: Final = KnobName(keys.SEMI_SYNC, SOURCE)
_QUICK_SHARE: Final = 4
_QUICK_COMMITS_SHARE: Final = 10
_LEAST_S: Final = 2.0
Seconds = Annotated[float, Field(gt=0, le=3600)]
Count = Annotated[int, Field(ge=1)]


class PhaseTable(StrictTable):
    """One `[[phase]]`."""

    name: Annotated[str, Field(min_length=1, max_length=40)]
    shows: str = ""
    """What to watch."""
    set: Knobs = Field(default={})
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
    faults: list[str] = Field(default=[])
    """In force while it is measured."""
    table_size: Count | None = None
    """Rows of the load's table."""
    published: Published | None = None
    published_figures: dict[str, Published] = Field(default={})
    """What was published of what its script finds."""
    optional: bool = False
    """Left out on a server that lacks what it sets."""
    otherwise: Knobs = Field(default={})
    """In place of `set` on a server that lacks one of those."""
    script: str | None = None
    """What it does instead of letting the load run, of a lab that ships."""
    system: str | None = None
    """The system of which the lab makes a stack of its own for it."""


class ReferenceTable(StrictTable):
    """One `[[reference]]`: a line across all phases at one commit a round trip of one of them."""

    name: str
    one_a_round_trip: str


class LabTables(StrictTable):
    """The file."""

    title: str = ""
    teaches: str = ""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    failure: str = ""
    """What a failure loses in the modes that it compares."""
    source: Publication | None = None
    set: Knobs = Field(default={})
    """Knobs that every phase sets."""
    phase: Annotated[list[PhaseTable], Field(min_length=1)]
    relation: list[Claim] = Field(default=[])
    reference: list[ReferenceTable] = Field(default=[])
    summary: SummaryPlan | None = None


def read_lab(file: Path, scripts: Mapping[str, Play] | None = None) -> Lab:
    """Read and check a lab whose phases may do what these scripts do; raises UsageError naming file, line and
    key."""
    return _LabReader(file, scripts or {}).lab()


class _LabReader(ExperimentReader[LabTables]):
    """Turns a file's tables into a lab."""

    def __init__(self, file: Path, scripts: Mapping[str, Play]) -> None:
        super().__init__(file, "lab file", LabTables)
        self._scripts = scripts
        self._roster = new_roster(self.tables.replicas)

    def lab(self) -> Lab:
        """The lab; raises UsageError."""
        tables = self.tables
        names = [phase.name for phase in tables.phase]
        common = self.settings(tables.set, ("set",), self._roster)
        phases, waits = list[Phase](), False
        for at, phase in enumerate(tables.phase):
            where = ("phase", at)
            if names.index(phase.name) != at:
                raise self.wrong((*where, "name"), UsageError(f"{phase.name!r} is another phase's name"))
            settings = (*common, *self.settings(phase.set, (*where, "set"), self._roster))
            turned = desired_of(parse_assignment(text, self._roster) for text in settings)
            waits = turned.get(_SEMI_SYNC, "on" if waits else "off") == "on"
            phases.append(self._phase(phase, where, common, settings, waits=waits))
        scripted = [phase.name for phase in phases if phase.play]
        claims = [
            self.relation(each, ("relation", at), names, scripted) for at, each in enumerate(tables.relation)
        ]
        for at, each in enumerate(tables.reference):
            self.phase(each.one_a_round_trip, names, ("reference", at, "one_a_round_trip"))
        return Lab(
            name=self.name,
            title=tables.title or self.name,
            teaches=tables.teaches,
            phases=tuple(phases),
            judge=judge_by(claims, names),
            source=tables.source,
            replicas=tables.replicas,
            references=round_trips({each.name: each.one_a_round_trip for each in tables.reference}),
            summary=tables.summary.made if tables.summary else lambda _: None,
            failure=tables.failure,
        )

    def _phase(
        self,
        table: PhaseTable,
        where: Where,
        common: tuple[str, ...],
        settings: tuple[str, ...],
        *,
        waits: bool,
    ) -> Phase:
        quick_s = table.quick_seconds or max(_LEAST_S, table.seconds / _QUICK_SHARE)
        quick_commits = table.quick_commits
        if table.commits is not None and quick_commits is None:
            quick_commits = max(1, table.commits // _QUICK_COMMITS_SHARE)
        for at, fault in enumerate(table.faults):
            self.at((*where, "faults", at), parse_fault, fault, self._roster)
        otherwise = self.settings(table.otherwise, (*where, "otherwise"), self._roster)
        for key, known in (("script", self._scripts), ("system", SYSTEMS)):
            if (word := getattr(table, key)) is not None:
                self.one_of(word, known, (*where, key), f"is no {key}")
        return Phase(
            table.name,
            settings,
            full=Length(table.seconds, table.commits),
            quick=Length(quick_s, quick_commits),
            state=ProtectionState(table.state or ("protected" if waits else "off")),
            shows=table.shows,
            published=table.published,
            replicas=table.replicas,
            faults=tuple(table.faults),
            published_figures=table.published_figures,
            table_size=table.table_size,
            play=self._scripts[table.script] if table.script else None,
            is_optional=table.optional,
            otherwise=(*common, *otherwise) if otherwise else (),
            system=table.system,
        )


_WITHIN_S: Final = 60.0
"""How long UNTIL waits where the file does not say."""


class StepTable(StrictTable):
    """One `[[step]]` or `[[rollback]]`: exactly one of the keys that say what is done."""

    set: Knobs | None = None
    load: Annotated[int | None, Field(ge=0, le=1024)] = None
    wait: Seconds | None = None
    inject: str | None = None
    clear: str | bool | None = None
    until: str | None = None
    failover: str | bool | None = None
    switchover: str | bool | None = None
    rejoin: str | None = None
    lasts: Seconds | None = Field(default=None, alias="for")
    """Of `inject`: it is cleared after this many seconds."""
    within: Seconds | None = None
    """Of `until`: at most this many seconds."""
    quick: Seconds | None = None
    """Of `wait` and `inject`, under --quick; a third of the time where it is not given."""
    shows: str = ""


class PrecheckTable(StrictTable):
    """One `[[precheck]]`."""

    state: str
    within: Seconds = 15.0


SystemName = Literal["async", "group", "galera"]


class DrillTables(StrictTable):
    """The file."""

    title: Annotated[str, Field(min_length=1)]
    teaches: str = ""
    system: SystemName | Annotated[list[SystemName], Field(min_length=1)] = "async"
    clients: Annotated[int, Field(ge=1, le=1024)] = DEFAULT_CLIENTS
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    survivor: str = ""
    set: Knobs = Field(default={})
    precheck: list[PrecheckTable] = Field(default=[])
    step: Annotated[list[StepTable], Field(min_length=1)]
    expect: list[Claim] = Field(default=[])
    rollback: list[StepTable] = Field(default=[])


def read_drill(file: Path) -> Drill:
    """Read and check a drill; raises UsageError naming file, line and key."""
    return _DrillReader(file).drill()


class _DrillReader(ExperimentReader[DrillTables]):
    """Turns a file's tables into a drill."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, "drill file", DrillTables)
        tables = self.tables
        self._systems = (tables.system,) if isinstance(tables.system, str) else tuple(tables.system)
        self._roster = new_roster(tables.replicas, mesh=system_of(self._systems[0]).mesh)

    def drill(self) -> Drill:
        """The drill; raises UsageError."""
        tables = self.tables
        if tables.survivor:
            self._node(tables.survivor, ("survivor",))
        steps = tuple(self._step(each, ("step", at)) for at, each in enumerate(tables.step))
        wrong = checked_steps(steps)
        if wrong is not None:
            raise self.wrong(("step", wrong[0], "clear"), wrong[1])
        return Drill(
            name=self.name,
            title=tables.title,
            teaches=tables.teaches,
            settings=self.settings(tables.set, ("set",), self._roster),
            systems=self._systems,
            clients=tables.clients,
            replicas=tables.replicas,
            survivor=tables.survivor,
            prechecks=tuple(
                Precheck(self.state(each.state, ("precheck", at, "state")), each.within)
                for at, each in enumerate(tables.precheck)
            ),
            steps=steps,
            expects=tuple(
                self.expectation(each, ("expect", at), FIGURES) for at, each in enumerate(tables.expect)
            ),
            rollback=tuple(self._step(each, ("rollback", at)) for at, each in enumerate(tables.rollback)),
        )

    # -- steps

    def _step(self, table: StepTable, where: Where) -> DrillStep:
        asked = [doing for doing in Doing if getattr(table, doing) is not None]
        if len(asked) != 1:
            found = f"has {' and '.join(asked)}" if asked else "says nothing to do"
            error = UsageError(found, f"one of {', '.join(Doing)} in each table")
            raise self.wrong((*where, asked[1]) if asked else where, error)
        doing = asked[0]
        self._fits(table, doing, where)
        value, here = getattr(table, doing), (*where, doing.value)
        settings: tuple[str, ...] = ()
        what = "" if isinstance(value, bool) else str(value)
        match doing:
            case Doing.SET:
                what, settings = "", self.settings(value, here, self._roster)
            case Doing.WAIT:
                what = ""
            case Doing.INJECT:
                self.at(here, parse_fault, what, self._roster)
            case Doing.CLEAR if what:
                kind, at, node = what.partition("@")
                self.at(here, kind_of, kind)
                if at:
                    self._node(node, here)
            case Doing.UNTIL if what not in (WRITING, CAUGHT_UP):
                self.state(what, here, (WRITING, CAUGHT_UP))
            case Doing.FAILOVER | Doing.SWITCHOVER | Doing.REJOIN if what:
                self._node(what, here)
        if value is False:
            raise self.wrong(here, UsageError("is false, which does nothing", "leave it out, or true"))
        return DrillStep(doing, what, settings, _lasts(table, doing), table.shows)

    def _fits(self, table: StepTable, doing: Doing, where: Where) -> None:
        """Raise for a time that the step does not use."""
        uses = {
            "lasts": doing is Doing.INJECT,
            "within": doing is Doing.UNTIL,
            "quick": doing is Doing.WAIT or (doing is Doing.INJECT and table.lasts is not None),
        }
        for name, is_used in uses.items():
            if getattr(table, name) is not None and not is_used:
                key = "for" if name == "lasts" else name
                raise self.wrong((*where, key), UsageError(f"{doing} has no '{key}'", "leave it out"))

    def _node(self, text: str, where: Where) -> None:
        if self._roster.find(text) is None:
            error = UsageError(f"there is no node '{text}'", f"one of {', '.join(self._roster.names)}")
            raise self.wrong(where, error)


def _lasts(table: StepTable, doing: Doing) -> Span | None:
    """How long a step lasts, or waits at most."""
    if doing is Doing.UNTIL:
        within_s = table.within or _WITHIN_S
        return Span(within_s, within_s)
    full_s = table.wait if doing is Doing.WAIT else table.lasts
    return None if full_s is None else span(full_s, table.quick)

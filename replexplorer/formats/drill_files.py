"""Drills as TOML: those that ship and those of one's own, read by the same rules.

Law: an error names the file, the line and the key, and nothing has been done by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import (
    CAUGHT_UP,
    DEFAULT_CLIENTS,
    FIGURES,
    WRITING,
    Doing,
    Drill,
    DrillStep,
    Expectation,
    FigureCondition,
    Precheck,
    Span,
    StateCondition,
    checked_steps,
    span,
)
from replexplorer.core.experiment.drill_verdict import SIGNS
from replexplorer.core.fault import kind_of, parse_fault
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import system_of
from replexplorer.core.topology import MOST_REPLICAS, new_roster
from replexplorer.formats.configuration import closest, first_error
from replexplorer.formats.lab_files import canonical_key, typed_value
from replexplorer.formats.small_file import MOST_TOML_BYTES, WrongToml, parse_toml, read_text
from replexplorer.formats.toml_place import placed

Seconds = Annotated[float, Field(gt=0, le=3600)]
Where = tuple[str | int, ...]
Knobs = dict[str, bool | int | float | str]

_STATES: Final = tuple(state.value for state in ProtectionState)
_KINDS_OF_VALUE: Final = ("str", "bool", "float", "int")
"""What pydantic adds to the way to a value of more than one kind."""
_WITHIN_S: Final = 60.0
"""How long UNTIL waits where the file does not say."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class StepTable(_Part):
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


class ExpectTable(_Part):
    """One `[[expect]]`: a comparison of figures, or a protection state."""

    name: Annotated[str, Field(min_length=1)]
    left: float | str | None = None
    sign: str | None = Field(default=None, alias="is")
    right: float | str | None = None
    times: float = 1.0
    plus: float = 0.0
    passes: str | None = None
    never: str | None = None


class PrecheckTable(_Part):
    """One `[[precheck]]`."""

    state: str
    within: Seconds = 15.0


SystemName = Literal["async", "group", "galera"]


class DrillTables(_Part):
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
    expect: list[ExpectTable] = Field(default=[])
    rollback: list[StepTable] = Field(default=[])


def read_drill(file: Path) -> Drill:
    """Read and check a drill; raises UsageError naming file, line and key."""
    text = read_text(file, "drill file", MOST_TOML_BYTES)
    lines = text.splitlines()
    try:
        tables = DrillTables.model_validate(parse_toml(text))
    except WrongToml as error:
        if not error.where:
            raise UsageError(f"{file}", error.words) from None
        raise placed(file, lines, error.where, UsageError(error.words, "")) from None
    except ValidationError as error:
        where = tuple(
            part for part in error.errors()[0]["loc"] if part not in ("str", "bool", "float", "int")
        )
        raise placed(file, lines, where, UsageError(first_error(error)[1], "")) from None
    return _Reader(file, lines, tables).drill()


class _Reader:
    """Turns a file's tables into a drill, and says where one cannot be."""

    def __init__(self, file: Path, lines: Sequence[str], tables: DrillTables) -> None:
        self._file = file
        self._lines = lines
        self._tables = tables
        first = tables.system if isinstance(tables.system, str) else tables.system[0]
        self._roster = new_roster(tables.replicas, mesh=system_of(first).mesh)

    def drill(self) -> Drill:
        """The drill; raises UsageError."""
        tables = self._tables
        if tables.survivor:
            self._node(tables.survivor, ("survivor",))
        steps = tuple(self._step(each, ("step", at)) for at, each in enumerate(tables.step))
        wrong = checked_steps(steps)
        if wrong is not None:
            raise self._wrong(("step", wrong[0], "clear"), wrong[1])
        return Drill(
            name=self._file.stem,
            title=tables.title,
            teaches=tables.teaches,
            settings=self._settings(tables.set, ("set",)),
            systems=(tables.system,) if isinstance(tables.system, str) else tuple(tables.system),
            clients=tables.clients,
            replicas=tables.replicas,
            survivor=tables.survivor,
            prechecks=tuple(
                Precheck(self._state(each.state, ("precheck", at, "state")), each.within)
                for at, each in enumerate(tables.precheck)
            ),
            steps=steps,
            expects=tuple(self._expects(each, ("expect", at)) for at, each in enumerate(tables.expect)),
            rollback=tuple(self._step(each, ("rollback", at)) for at, each in enumerate(tables.rollback)),
        )

    def _wrong(self, where: Where, error: UsageError) -> UsageError:
        return placed(self._file, self._lines, where, error)

    # -- steps

    def _step(self, table: StepTable, where: Where) -> DrillStep:
        asked = [doing for doing in Doing if getattr(table, doing) is not None]
        if len(asked) != 1:
            found = f"has {' and '.join(asked)}" if asked else "says nothing to do"
            error = UsageError(found, f"one of {', '.join(Doing)} in each table")
            raise self._wrong((*where, asked[1]) if asked else where, error)
        doing = asked[0]
        self._fits(table, doing, where)
        value, here = getattr(table, doing), (*where, doing.value)
        settings: tuple[str, ...] = ()
        what = "" if isinstance(value, bool) else str(value)
        match doing:
            case Doing.SET:
                what, settings = "", self._settings(value, here)
            case Doing.WAIT:
                what = ""
            case Doing.INJECT:
                self._fault(what, here)
            case Doing.CLEAR if what:
                self._kind(what, here)
            case Doing.UNTIL if what not in (WRITING, CAUGHT_UP):
                self._state(what, here, (WRITING, CAUGHT_UP))
            case Doing.FAILOVER | Doing.SWITCHOVER | Doing.REJOIN if what:
                self._node(what, here)
        if value is False:
            raise self._wrong(here, UsageError("is false, which does nothing", "leave it out, or true"))
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
                raise self._wrong((*where, key), UsageError(f"{doing} has no '{key}'", "leave it out"))

    def _fault(self, text: str, where: Where) -> None:
        try:
            parse_fault(text, self._roster)
        except UsageError as error:
            raise self._wrong(where, error) from None

    def _kind(self, text: str, where: Where) -> None:
        kind, at, node = text.partition("@")
        try:
            kind_of(kind)
        except UsageError as error:
            raise self._wrong(where, error) from None
        if at:
            self._node(node, where)

    def _node(self, text: str, where: Where) -> None:
        if self._roster.find(text) is None:
            error = UsageError(f"there is no node '{text}'", f"one of {', '.join(self._roster.names)}")
            raise self._wrong(where, error)

    def _settings(self, table: Knobs, where: Where) -> tuple[str, ...]:
        found = []
        for key, value in table.items():
            try:
                parse_assignment(f"{key}={typed_value(value)}", self._roster)
            except UsageError as error:
                raise self._wrong((*where, key), error) from None
            found.append(f"{canonical_key(key)}={typed_value(value)}")
        return tuple(found)

    def _state(self, text: str, where: Where, beside: Sequence[str] = ()) -> str:
        known = (*_STATES, *beside)
        if text not in known:
            error = UsageError(f"'{text}' is no state{_near(text, known)}", f"one of {', '.join(known)}")
            raise self._wrong(where, error)
        return text

    # -- expectations

    def _expects(self, table: ExpectTable, where: Where) -> Expectation:
        states = [name for name in ("passes", "never") if getattr(table, name) is not None]
        sides = [name for name in ("left", "sign", "right") if getattr(table, name) is not None]
        if len(states) == 1 and not sides:
            state = self._state(getattr(table, states[0]), (*where, states[0]))
            return Expectation(table.name, StateCondition(state, never=states[0] == "never"))
        if states or table.left is None or table.right is None or table.sign is None:
            error = UsageError("is no expectation", "left, is and right; or passes; or never")
            raise self._wrong((*where, "name"), error)
        if table.sign not in SIGNS:
            error = UsageError(f"'{table.sign}' compares nothing", f"one of {' '.join(SIGNS)}")
            raise self._wrong((*where, "is"), error)
        sides_read = [self._figure(getattr(table, key), (*where, key)) for key in ("left", "right")]
        if all(isinstance(side, float) for side in sides_read):
            error = UsageError("compares two numbers", f"one side is a figure, as {next(iter(FIGURES))}")
            raise self._wrong((*where, "left"), error)
        return Expectation(
            table.name,
            FigureCondition(sides_read[0], table.sign, sides_read[1], times=table.times, plus=table.plus),
        )

    def _figure(self, side: float | str, where: Where) -> float | str:
        if not isinstance(side, str):
            return float(side)
        if side not in FIGURES:
            error = UsageError(
                f"'{side}' is no figure{_near(side, list(FIGURES))}", "docs/drills.md lists them"
            )
            raise self._wrong(where, error)
        return side


def _near(word: str, known: Sequence[str]) -> str:
    """`, did you mean X?` where one of the known words is near."""
    near = closest(word, known)
    return f", {near}" if near else ""


def _lasts(table: StepTable, doing: Doing) -> Span | None:
    """How long a step lasts, or waits at most."""
    if doing is Doing.UNTIL:
        within_s = table.within or _WITHIN_S
        return Span(within_s, within_s)
    full_s = table.wait if doing is Doing.WAIT else table.lasts
    return None if full_s is None else span(full_s, table.quick)

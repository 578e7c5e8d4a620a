"""The matrix of failures: what each durability mode loses in each kind of failure, by theory and as drills.

A stack of a source and replicas has cells of its own, and so has a group: members of which one fails, is cut
off, or two of three are killed. Law: theory is a function of the settings and of the failure alone. It says
none where not a single row may be lost, some where a loaded server loses rows, and else by how much at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, Self

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import (
    CAUGHT_UP,
    WRITING,
    Doing,
    Drill,
    DrillStep,
    Precheck,
    Span,
    span,
)
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.experiment import ExperimentGroup, ExperimentResult, Stage
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import field, frozen, printed
from replexplorer.core.server.exposure import FAILURES as FAILURES_IN_WORDS
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import DEFAULT, System
from replexplorer.core.text import number
from replexplorer.core.topology import new_roster

MATRIX: Final = "matrix"
TITLE: Final = "What each durability mode loses in each kind of failure"
TEACHES: Final = (
    "mysqld's death, a power cut and a lost source are three failures; each needs a different setting."
)
_REPLICA: Final = new_roster(1).others[0]
_RTT: Final = "20ms"
_SECOND_OR_SO_MS: Final = 2500.0
"""InnoDB flushes once a second, and not on time on a busy machine (refman: innodb_flush_log_at_timeout)."""
_TIMEOUT: Final = "10s"
_GIVES_UP: Final = "1s"
_BACK_WITHIN: Final = Span(120, 120)
_OTHER_MEMBERS: Final = 2
"""A group of three: the fewest of which one may fail."""


class Mode(StrEnum):
    """For whom commits wait: for the replica of a source, or for the other members of a group."""

    ASYNC = "async"
    AFTER_SYNC = "after_sync"
    AFTER_COMMIT = "after_commit"
    FALLEN_BACK = "fallen_back"
    """Semi-sync was asked for and has fallen back to asynchronous."""
    GROUP = "group"
    """Group Replication: most members have received it."""
    GALERA = "galera"
    """All members have received it."""

    @property
    def system(self) -> str:
        """The name of the system that commits so."""
        return self.value if self in (Mode.GROUP, Mode.GALERA) else DEFAULT


class FailureKind(StrEnum):
    """What happens to the source, or to the member of a group that the load writes at."""

    PROCESS_DIES = "process_dies"
    POWER_CUT = "power_cut"
    SOURCE_LOST = "source_lost"
    """It is cut off and killed, and never comes back."""
    ISOLATED = "isolated"
    """A member is cut off from the others, and its links heal."""
    MAJORITY_LOST = "majority_lost"
    """The other two of three members are killed, and come back."""


IN_WORDS: Final[Mapping[str, str]] = {
    **FAILURES_IN_WORDS,
    FailureKind.ISOLATED: "cut off, then healed",
    FailureKind.MAJORITY_LOST: "majority lost",
    Mode.ASYNC: "async",
    Mode.AFTER_SYNC: "AFTER_SYNC",
    Mode.AFTER_COMMIT: "AFTER_COMMIT",
    Mode.FALLEN_BACK: "fallen back",
    Mode.GROUP: "Group Replication",
    Mode.GALERA: "Galera",
}
"""Failures and modes as people say them."""


class Amount(StrEnum):
    """How many rows theory lets be gone."""

    NONE = "none"
    FEW = "few"
    """None, or some: by the moment."""
    LAST_SECOND = "last second"
    """None, or some of the last second or so: as long as one flush of the redo log is from the next."""
    SOME = "some"

    def allows(self, rows: int, oldest_age_ms: float | None = None) -> bool:
        """Whether theory lets this many be gone, the oldest acknowledged so long before the failure."""
        match self:
            case Amount.NONE:
                return rows == 0
            case Amount.SOME:
                return rows > 0
            case Amount.LAST_SECOND:
                return rows == 0 or oldest_age_ms is None or oldest_age_ms <= _SECOND_OR_SO_MS
            case _:
                return True


@frozen
class Theory:
    """What must come of a cell."""

    lost: Amount
    """Rows that a client was told are committed."""
    phantom: Amount
    """Rows that another session has read, and that are gone."""
    why: str


@frozen
class MatrixCell:
    """One combination."""

    mode: Mode
    sync_binlog: int
    flush: int
    """innodb_flush_log_at_trx_commit."""
    failure: FailureKind

    @property
    def durability(self) -> str:
        """`1/2`: sync_binlog and innodb_flush_log_at_trx_commit."""
        return f"{self.sync_binlog}/{self.flush}"

    @property
    def name(self) -> str:
        """`after_sync 1/1 power_cut`."""
        return " ".join(self.words)

    @property
    def title(self) -> str:
        """`power cut, AFTER_SYNC 1/2`."""
        return f"{IN_WORDS[self.failure]}, {IN_WORDS[self.mode]} {self.durability}"

    @property
    def words(self) -> tuple[str, str, str]:
        """Mode, durability and failure, as they are typed to choose cells."""
        return self.mode.value, self.durability, self.failure.value

    @property
    def theory(self) -> Theory:
        """What must come of it (docs/explanation/failure-loss.md, "The matrix", has the sources)."""
        none, few, last = Amount.NONE, Amount.FEW, Amount.LAST_SECOND
        if self.mode.system != DEFAULT:
            return Theory(none, none, _WHY_IN_A_GROUP[self.failure])
        if self.failure is FailureKind.SOURCE_LOST:
            return _OF_A_LOST_SOURCE[self.mode]
        if self.flush == 0:
            return Theory(last, few, "the redo log is written once a second, not at the commit")
        if self.failure is FailureKind.PROCESS_DIES:
            return Theory(none, none, "the redo log is written at each commit: the page cache survives")
        if self.flush == 2:
            return Theory(last, few, "the redo log is fsynced once a second")
        if self.sync_binlog == 0:
            why = "recovery rolls back what the redo log has prepared and the binlog lacks"
            return Theory(few, few, why)
        return Theory(none, none, "redo log and binlog are fsynced at each commit")


_OF_A_LOST_SOURCE: Final = {
    Mode.ASYNC: Theory(Amount.SOME, Amount.FEW, "what had not arrived is gone"),
    Mode.AFTER_SYNC: Theory(Amount.NONE, Amount.NONE, "others read a row once a replica has it"),
    Mode.AFTER_COMMIT: Theory(Amount.NONE, Amount.FEW, "others may read a row that no replica has yet"),
    Mode.FALLEN_BACK: Theory(Amount.SOME, Amount.FEW, "nothing since the fall back is on the replica"),
}
_WHY_IN_A_GROUP: Final = {
    FailureKind.PROCESS_DIES: "the other members have each commit, whatever the one that died has written",
    FailureKind.POWER_CUT: "the other members have each commit, whatever the disk of the one that failed has",
    FailureKind.SOURCE_LOST: "the other members have each commit, and are a majority",
    FailureKind.ISOLATED: "a member without a majority confirms nothing, so it has nothing to lose",
    FailureKind.MAJORITY_LOST: "the member that is left has each commit, and confirms none alone",
}
DURABILITIES: Final = ((1, 1), (1, 2), (0, 1), (0, 0))
MODES: Final = tuple(mode for mode in Mode if mode.system == DEFAULT)
"""Of a source and its replicas."""
FAILURES: Final = (FailureKind.PROCESS_DIES, FailureKind.POWER_CUT, FailureKind.SOURCE_LOST)
"""Of a source; a group has all of them."""
_GROUP_DURABILITIES: Final = ((1, 1), (0, 0))
"""Under --quick the last one alone: with it a source by itself would lose most."""


def matrix_cells(*, quick: bool, system: str = DEFAULT) -> Sequence[MatrixCell]:
    """All cells of a system's matrix, in order: 48 of a source and its replicas, under --quick twelve of
    them, in which each mode meets each failure once and each durability once in each failure; ten of a
    group, under --quick five."""
    if system != DEFAULT:
        durabilities = _GROUP_DURABILITIES[-1:] if quick else _GROUP_DURABILITIES
        return [MatrixCell(Mode(system), *each, failure) for failure in FailureKind for each in durabilities]
    return [
        MatrixCell(mode, *each, failure)
        for row, failure in enumerate(FAILURES)
        for column, mode in enumerate(MODES)
        for at, each in enumerate(DURABILITIES)
        if not quick or at == (column - row - 1) % len(DURABILITIES)
    ]


def chosen_cells(cells: Sequence[MatrixCell], words: Sequence[str]) -> Sequence[MatrixCell]:
    """Those of some cells that are meant: `power_cut 1/1 1/2` has two words of a durability, of which a cell
    has one. All where there are no words; raises UsageError for a word that is in no cell, and where none
    is left."""
    system = next((cell.mode.system for cell in cells), DEFAULT)
    known = [
        tuple(dict.fromkeys(each))
        for each in zip(*(cell.words for cell in matrix_cells(quick=False, system=system)), strict=True)
    ]
    words = [word.replace("-", "_") for word in words]
    for word in words:
        if not any(word in each for each in known):
            raise UsageError(
                f"{word!r} is not in the matrix{'' if system == DEFAULT else f' of {system}'}",
                f"use any of {', '.join(word for each in known for word in each)}",
            )
    asked = [set(words).intersection(each) or set(each) for each in known]
    found = [
        cell for cell in cells if all(word in each for word, each in zip(cell.words, asked, strict=True))
    ]
    if not found:
        raise UsageError(f"no cell of the quick matrix is {' '.join(words)}", "leave --quick out")
    return found


_BREAKS: Final = {
    FailureKind.PROCESS_DIES: "kill",
    FailureKind.POWER_CUT: "power_cut=strict",
    FailureKind.ISOLATED: "isolate",
}
"""The fault of a failure that is cleared in the end."""
_WRITING: Final = DrillStep(Doing.UNTIL, WRITING, lasts=Span(90, 90))
_FALLS_BACK: Final = (
    DrillStep(Doing.INJECT, "partition=both", shows="acknowledgements have stopped"),
    DrillStep(Doing.UNTIL, "degraded", lasts=Span(30, 30), shows="commits are asynchronous now"),
    DrillStep(Doing.WAIT, lasts=span(2, 1)),
)
_LOSES_MAJORITY: Final = (
    DrillStep(Doing.INJECT, "kill@replica"),
    DrillStep(Doing.INJECT, "kill@replica2"),
    DrillStep(Doing.UNTIL, "blocked", lasts=Span(90, 90)),
    DrillStep(Doing.CLEAR),
    DrillStep(Doing.UNTIL, WRITING, lasts=_BACK_WITHIN),
)


def cell_drill(cell: MatrixCell, *, clients: int) -> Drill:
    """The cell as a drill; what must come of it is judged by theory. Of a group the load goes on at the
    others, and who failed is a member again in the end."""
    is_group, is_lost = cell.mode.system != DEFAULT, cell.failure is FailureKind.SOURCE_LOST
    return Drill(
        name=cell.name,
        title=TITLE,
        teaches=cell.theory.why,
        settings=tuple(_settings(cell)),
        systems=(cell.mode.system,),
        clients=clients,
        replicas=_OTHER_MEMBERS if is_group else 1,
        survivor=_REPLICA if is_lost and not is_group else "",
        prechecks=() if cell.mode is Mode.ASYNC else (Precheck(ProtectionState.PROTECTED, 30.0),),
        steps=(
            DrillStep(Doing.WAIT, lasts=span(3, 2), shows=cell.theory.why),
            *_steps(cell, is_group=is_group),
        ),
    )


def _steps(cell: MatrixCell, *, is_group: bool) -> Iterator[DrillStep]:
    goes_on = (_WRITING,) if is_group else ()  # at another member
    if cell.mode is Mode.FALLEN_BACK:
        yield from _FALLS_BACK
    if cell.failure is FailureKind.MAJORITY_LOST:
        yield from _LOSES_MAJORITY
    elif cell.failure is FailureKind.SOURCE_LOST:
        if cell.mode is not Mode.FALLEN_BACK:  # a partition has isolated that source
            yield DrillStep(Doing.INJECT, "isolate")
        yield from (DrillStep(Doing.INJECT, "kill"), *goes_on)
    else:
        fault = _BREAKS[cell.failure]
        yield from (DrillStep(Doing.INJECT, fault), *goes_on)
        yield DrillStep(Doing.CLEAR, fault.partition("=")[0])
        yield DrillStep(Doing.UNTIL, CAUGHT_UP, lasts=_BACK_WITHIN) if is_group else _WRITING


def _settings(cell: MatrixCell) -> Iterator[str]:
    yield f"sync_binlog={cell.sync_binlog}"
    yield f"innodb_flush_log_at_trx_commit={cell.flush}"
    yield f"rtt={_RTT}"
    if cell.failure is FailureKind.POWER_CUT:
        yield "undo_journal=on"
    if cell.mode is Mode.GROUP:  # Galera goes on without a member as soon as it suspects it
        yield "group_replication_member_expel_timeout=0"
    if cell.mode.system == DEFAULT:
        yield f"semi_sync={'off' if cell.mode is Mode.ASYNC else 'on'}"
        yield f"wait_point={Mode.AFTER_COMMIT if cell.mode is Mode.AFTER_COMMIT else Mode.AFTER_SYNC}"
        yield f"semi_sync_timeout={_GIVES_UP if cell.mode is Mode.FALLEN_BACK else _TIMEOUT}"


def stages_of(cells: Sequence[MatrixCell]) -> Sequence[Stage]:
    """Cells by their titles, each with what theory says of it."""
    return [Stage(cell.title, cell.theory.why) for cell in cells]


@frozen
class Matrix:
    """The matrix as a list of drills has it."""

    kind: ClassVar = "drill"
    """The verb that runs it."""
    name: str = MATRIX
    title: str = TITLE
    teaches: str = TEACHES
    replicas: int = 1
    """That it needs."""
    group: ClassVar = ExperimentGroup.FAILURES
    """What it is about."""

    def unfit(self, _: System) -> str:
        """Nothing: each system has cells of its own."""
        return ""

    @property
    def stages(self) -> Sequence[Stage]:
        """The cells of a stack of a source and replicas."""
        return stages_of(matrix_cells(quick=False))

    def seconds(self, *, quick: bool) -> float:
        """About how long it takes."""
        return sum(drill.seconds(quick=quick) for drill in self._drills(quick=quick))

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that its cells turn."""
        return tuple(dict.fromkeys(key for drill in self._drills() for key in drill.turns))

    @property
    def faults(self) -> tuple[str, ...]:
        """What they break, each as typed."""
        return tuple(dict.fromkeys(fault for drill in self._drills() for fault in drill.faults))

    def _drills(self, *, quick: bool = False) -> Sequence[Drill]:
        return [cell_drill(cell, clients=1) for cell in matrix_cells(quick=quick)]


@json_keys(
    hide="cell started_wall_s took_s oldest_lost_age_ms",
    show="mode=cell.mode sync_binlog=cell.sync_binlog innodb_flush_log_at_trx_commit=cell.flush"
    " failure=cell.failure theory=cell.theory in_meter as_theory",
)
@frozen
class CellResult:
    """What came of one cell of the matrix."""

    cell: MatrixCell
    started_wall_s: float
    took_s: float
    """With setting up and giving everything back."""
    acknowledged: int | None = None
    """Rows whose client was told they are committed; this and what follows is None where the cell ended
    before rows were compared."""
    lost: int | None = None
    """Of those, missing on the survivor."""
    phantom_reads: int | None = None
    """Rows that another session has read and the survivor lacks."""
    oldest_lost_age_ms: float | None = None
    """How long before the failure the client of the oldest lost row was told OK; None where nothing was
    lost."""
    recovery_ms: float | None = None
    """From the clearing to the first OK; None where the source never comes back."""
    meter: Loss | None = None
    """What the exposure meter said of this failure just before it, its `high` with the commits between its
    reading and the failure; None where it could not say, and of a group: the meter counts what one server
    has, and others have it too."""
    repaired: tuple[str, ...] = ()
    """What a member of a group needed to rejoin, besides the clearing of its fault, and why."""
    aborted: str | None = None
    """Why it was not run to its end; None: it was."""
    unrestored: tuple[str, ...] = ()
    """What could not be returned yet, and what becomes of it."""

    @classmethod
    def of(cls, cell: MatrixCell, found: DrillResult, took_s: float) -> Self:
        """Of the cell's drill."""
        ledger, reading = found.ledger, found.reading
        return cls(
            cell,
            found.started_wall_s,
            took_s,
            acknowledged=None if ledger is None else ledger.acknowledged,
            lost=None if ledger is None else ledger.lost,
            phantom_reads=None if ledger is None else ledger.phantom_reads,
            oldest_lost_age_ms=None if ledger is None else ledger.oldest_lost_age_ms,
            recovery_ms=found.recovery_ms,
            meter=None if reading is None or cell.mode.system != DEFAULT else reading.of(cell.failure),
            repaired=tuple(found.repaired),
            aborted=found.aborted,
            unrestored=found.unrestored,
        )

    @property
    def in_meter(self) -> bool | None:
        """Whether what was lost lies between the meter's low and high; None where either is unknown."""
        meter, lost = self.meter, self.lost
        return None if meter is None or lost is None else meter.low <= lost <= meter.high

    @property
    def as_theory(self) -> bool | None:
        """Whether theory allows what was found; None where the cell was aborted."""
        if self.lost is None or self.phantom_reads is None or self.aborted is not None:
            return None
        theory = self.cell.theory
        return theory.lost.allows(self.lost, self.oldest_lost_age_ms) and theory.phantom.allows(
            self.phantom_reads
        )

    @property
    def meter_text(self) -> str:
        """What the meter said, with a cross where what was lost lies outside; `-` where it could not say."""
        if self.meter is None:
            return "-"
        return f"{self.meter.low:,} to {self.meter.high:,}{' ✖' * (self.in_meter is False)}"

    @property
    def line(self) -> str:
        """The cell in a line: what was lost, by theory and by the meter."""
        title, theory = self.cell.title, self.cell.theory.lost.value
        if self.aborted is not None:
            return f"{title}: aborted, {self.aborted}"
        found = f"{number(self.lost, 0)} lost of {number(self.acknowledged, 0)}"
        repaired = "".join(f"; {line}" for line in self.repaired)
        return f"{title}: {found} (theory: {theory}; meter: {self.meter_text}){repaired}"


@json_keys(hide="started_wall_s relations", show="drill system started duration_s verdict")
@printed
class MatrixResult(ExperimentResult):
    """A run of the matrix."""

    clients: int
    cells: list[CellResult] = field(default_factory=list)
    resumed: int = 0
    """Cells that an earlier run, which was interrupted, had found."""
    judged = "cells"

    def add(self, found: CellResult) -> None:
        """The next cell."""
        self.started_wall_s = min(self.started_wall_s or found.started_wall_s, found.started_wall_s)
        self.unrestored = found.unrestored
        self.cells.append(found)

    @property
    def drill(self) -> str:
        """What it is called."""
        return MATRIX

    @property
    def duration_s(self) -> float:
        """How long its cells took, together."""
        return sum(each.took_s for each in self.cells)

    @property
    def system(self) -> str:
        """The name of the one that its cells are of."""
        return next((each.cell.mode.system for each in self.cells), DEFAULT)

    @property
    def experiment(self) -> Matrix:
        """What was run."""
        return Matrix()

    @property
    def held(self) -> Sequence[bool | None]:
        """Whether each cell came as theory says."""
        return [each.as_theory for each in self.cells]

    @property
    def told(self) -> str:
        """What is kept for the next run."""
        kept = len(self.cells)
        if self.aborted is None:
            return ""
        return f", {kept} cell{' is' if kept == 1 else 's are'} kept and the next run continues"

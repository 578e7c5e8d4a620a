"""What verbs print with --json: the documents that they put together, and which type each verb prints.

A verb whose result is a value of the core or the engine prints that; what `core.json_keys` says of its class
is how it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from replexplorer.core.change.journalled import TakenBack
from replexplorer.core.dialect.schema import SchemaFinding
from replexplorer.core.fault import Fault
from replexplorer.core.server.comeback import Comeback
from replexplorer.engine.outcome import Changed, Cleared, SetResult


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """What went wrong, for scripts."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """What stdout carries instead of a result when a verb with --json fails."""

    error: ErrorDetail


@dataclass(frozen=True, slots=True)
class FailedSet(ErrorDocument):
    """A `set` that failed on the way, and whether what it had done was rolled back."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...]
    rolled_back: bool
    """True: nothing is changed; false: something could not be rolled back, the hint names it."""


@dataclass(kw_only=True, slots=True)
class FaultsCleared:
    """`fault clear`."""

    cleared: list[Fault] = field(default_factory=list)
    came_back: list[Comeback] = field(default_factory=list)
    """Servers that run again."""
    ahead: dict[str, str] = field(default_factory=dict)
    """By replica: GTIDs that it has executed and its source, which is back, has lost."""

    def add(self, cleared: Iterable[Cleared]) -> None:
        """With faults that ended, and what their servers came back without."""
        for each in cleared:
            self.cleared.append(each.fault)
            if each.comeback is not None:
                self.came_back.append(each.comeback)
                self.ahead |= each.comeback.ahead


@dataclass(kw_only=True, slots=True)
class FaultsInjected(FaultsCleared):
    """`fault inject`; what is cleared and comes back, with `--for`."""

    injected: list[Fault]
    lost_files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a power cut, by node: the files that lost anything."""


@dataclass(kw_only=True, slots=True)
class Dsn:
    """`dsn --json`."""

    node: str
    dsn: str
    path: Literal["direct", "published"]
    account: Literal["sandbox", "admin"] = "sandbox"
    """Whose: the load's account, or with --admin the app's own."""
    defaults_file: str | None = None
    """The option file, where one was asked for."""


@dataclass(kw_only=True, slots=True)
class ConfigValue:
    """One configuration key with its origin."""

    value: Any
    origin: str


@dataclass(kw_only=True, slots=True)
class ConfigDocument:
    """`config --json`."""

    file: str
    file_found: bool
    values: dict[str, ConfigValue]
    paths: dict[str, str]
    unknown_variables: list[str]


@dataclass(kw_only=True, slots=True)
class KeyBinding:
    """A binding in `keys --json`."""

    id: str
    keys: list[str]
    default_keys: list[str]
    help: str


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


@dataclass(kw_only=True, slots=True)
class Reverted:
    """What was undone at one source and its replicas."""

    source: str
    variables: list[TakenBack]


@dataclass(kw_only=True, slots=True)
class AttachChanges:
    """`attach --allow-changes --json`: what was set, and what became of it at the end."""

    source: str
    set: SetResult | None
    """Null: no setting was to be changed."""
    undone: list[TakenBack]


@dataclass(kw_only=True, slots=True)
class RevertReport:
    """`revert --json`."""

    reverted: list[Reverted]


@dataclass(kw_only=True, slots=True)
class StudentJson:
    """One student's stack."""

    student: str
    stack: str
    state: str | None = None
    """Up, partial, down, starting; null: it does not answer."""
    protection: str | None = None
    tps: float | None = None
    """Transactions that the source logged a second, between two looks."""
    load: str | None = None
    """Who drives one."""
    problem: str | None = None
    """Why it does not answer."""


@dataclass(kw_only=True, slots=True)
class ClassStatus:
    """`classroom status`."""

    name: str
    students: list[StudentJson]


@dataclass(kw_only=True, slots=True)
class OutcomeJson:
    """What came of a verb for one student."""

    student: str
    stack: str
    exit_code: int
    took_ms: float
    answer: Any
    """The verb's own document; null where it prints none."""
    said: list[str]
    """Its lines on stderr, progress included."""


@dataclass(kw_only=True, slots=True)
class ClassOutcome:
    """`classroom each`, `up` and `down`."""

    name: str
    verb: list[str]
    exit_code: int
    """The greatest among the students'."""
    students: list[OutcomeJson]


@dataclass(kw_only=True, slots=True)
class SchemaChecked:
    """`check-schema`."""

    node: str
    problems: int
    notes: int
    findings: list[SchemaFinding]
    """Problems first."""


@dataclass(kw_only=True, slots=True)
class PlayedLineJson:
    """A line that was performed."""

    line: int
    """In the file; 0: the start that the play does not write."""
    text: str
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then."""
    changed: list[str]
    """What was changed so that the play starts from what it says; empty for other lines."""


@dataclass(kw_only=True, slots=True)
class PlayJson:
    """A play that was performed to its end."""

    script: str
    title: str
    over: str | None
    """The recording; null on live servers."""
    lines: list[PlayedLineJson]
    cast: str | None
    """The cast that was written."""


def documents() -> dict[str, Any]:
    """What is typed to the type of what its --json prints."""
    from replexplorer.adapters.doctor import Doctor
    from replexplorer.core.experiment.drill_result import DrillResult
    from replexplorer.core.experiment.lab import LabResult
    from replexplorer.core.experiment.matrix import MatrixResult
    from replexplorer.core.experiment.sweep_result import Swept
    from replexplorer.core.fault import FaultKind
    from replexplorer.core.knobs.names import KnobView
    from replexplorer.core.load.captured import CapturedWorkload
    from replexplorer.core.loss.ledger import LossLedger
    from replexplorer.core.role_change import RoleChange
    from replexplorer.engine.outcome import Status
    from replexplorer.formats.scenes import Scene
    from replexplorer.formats.themes import Theme
    from replexplorer.reports.compare import CompareDocument
    from replexplorer.reports.load import LoadReport
    from replexplorer.reports.prediction import AdviseDocument, PredictDocument

    found: dict[str, Any] = {
        "advise": AdviseDocument,
        "attach": Status | AttachChanges | ErrorDocument,
        "check-schema": SchemaChecked,
        "classroom status": ClassStatus,
        "compare": CompareDocument,
        "config": ConfigDocument,
        "doctor": Doctor,
        "drill list": list[ExperimentEntry],
        "drill run": DrillResult,
        "drill run matrix": MatrixResult,
        "dsn": Dsn,
        "error": ErrorDocument,
        "fault clear": FaultsCleared,
        "fault inject": FaultsInjected,
        "fault list": list[FaultKind],
        "get": dict[str, KnobView],
        "keys": list[KeyBinding],
        "lab list": list[ExperimentEntry],
        "lab run": LabResult,
        "ledger": LossLedger,
        "load": LoadReport,
        "play": PlayJson,
        "predict": PredictDocument,
        "revert": RevertReport | ErrorDocument,
        "scene list": list[Scene],
        "scene save": Scene,
        "sweep": Swept,
        "themes": list[Theme],
        "workload capture": CapturedWorkload,
    }
    found |= dict.fromkeys(("classroom each", "classroom up", "classroom down"), ClassOutcome)
    found |= dict.fromkeys(("failover", "switchover", "rejoin"), RoleChange)
    found |= dict.fromkeys(("set", "reset", "scene apply"), SetResult | FailedSet)
    found |= dict.fromkeys(("up", "status"), Status)
    return dict(sorted(found.items()))

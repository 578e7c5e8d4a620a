"""`drill`: what a failure on purpose came to, and the drills that there are."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.experiment import ExperimentEntry
from replexplorer.formats.json.fault import BinlogLostJson
from replexplorer.formats.json.ledger import LossLedgerJson
from replexplorer.formats.json.measured import CommitCostJson, Conditions
from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.status import ExposureJson, LossJson


class FaultWindowJson(JsonObject):
    """A fault in force; seconds since the drill began."""

    fault: str
    node: str
    from_s: float
    to_s: float | None = Field(description="null: until the drill's end")


class StateJson(JsonObject):
    """The protection state from a moment on."""

    at_s: float
    state: str


class ExpectationJson(JsonObject):
    """What had to come of it, and what did."""

    name: str
    holds: bool
    evidence: str


class RpoJson(JsonObject):
    """What was lost."""

    commits: int
    ms: float | None = Field(description="how long before the failure the oldest lost row was acknowledged")


class RtoJson(JsonObject):
    """How long it took until a client wrote again; null parts where no role changed."""

    detect_ms: float | None
    promote_ms: float | None
    first_write_ms: float | None
    total_ms: float | None


class MomentJson(JsonObject):
    """Something that was done or seen."""

    at_s: float
    text: str


class DrillRunJson(JsonObject):
    """`drill run`."""

    drill: str
    title: str = ""
    system: str
    server: str | None
    settings: dict[str, Scalar]
    sets: list[str] = Field(default=[], description="KEY=VALUE that the drill sets by itself")
    asked: list[str] = Field(default=[], description="KEY=VALUE that were asked for in place of its own")
    started: str = Field(description="when its first step began, UTC")
    duration_s: float
    quick: bool = False
    clients: int | None = None
    windows: list[FaultWindowJson]
    exposure_before: ExposureJson | None = Field(description="what the meter said just before the failure")
    exposure_read_ms: float | None = Field(
        default=None, description="how long before the failure was complete the meter was read"
    )
    acknowledged_since: int | None = Field(
        default=None, description="commits acknowledged between that reading and the failure"
    )
    ledger: LossLedgerJson | None
    binlog_lost: BinlogLostJson | None = Field(
        default=None, description="of servers that came back after a power cut; null: none did"
    )
    replication_after: dict[str, Literal["whole", "broken 1236", "diverged"]] = Field(
        default={}, description="by replica, when its source was back; empty where that did not end"
    )
    rpo: RpoJson | None
    rto: RtoJson | None
    recovery_ms: float | None = Field(description="from the mending of the last fault to the first OK")
    tps: dict[str, float] = Field(default={}, description="before, during and after the faults")
    commit_cost: CommitCostJson | None = Field(
        default=None, description="until the first fault; null: not known"
    )
    fallbacks: int | None = None
    protection: list[StateJson]
    told: list[MomentJson] = Field(default=[], description="what was done and seen, in order")
    expectations: list[ExpectationJson]
    verdict: Literal["holds", "deviates", "aborted"]
    repaired: list[str] = Field(default=[], description="members that were let in only with a copy, and why")
    aborted: str | None = None
    unrestored: list[str] = Field(default=[], description="what could not be returned yet")
    conditions: Conditions | None = Field(default=None, description="before it began")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


class DrillEntry(ExperimentEntry):
    """A drill in `drill list --json`."""

    faults: list[str] = Field(default=[], description="what it breaks, as typed for `fault inject`")


class TheoryJson(JsonObject):
    """What must come of a cell."""

    lost: Literal["none", "few", "last second", "some"]
    phantom: Literal["none", "few", "last second", "some"]
    why: str


class CellJson(JsonObject):
    """One cell of the matrix."""

    mode: Literal["async", "after_sync", "after_commit", "fallen_back", "group", "galera"]
    sync_binlog: int
    innodb_flush_log_at_trx_commit: int
    failure: Literal["process_dies", "power_cut", "source_lost", "isolated", "majority_lost"]
    theory: TheoryJson
    acknowledged: int | None
    lost: int | None = Field(description="null: the cell was aborted")
    phantom_reads: int | None
    recovery_ms: float | None = Field(description="null where the source did not come back")
    meter: LossJson | None = Field(
        description="what the meter said just before, its high with the commits between reading and failure"
    )
    in_meter: bool | None = Field(description="whether what was lost lies in it; null: not known")
    as_theory: bool | None
    repaired: list[str] = Field(default=[], description="members that were let in only with a copy, and why")
    aborted: str | None = None
    unrestored: list[str] = Field(default=[], description="what could not be returned yet")


class MatrixJson(JsonObject):
    """`drill run matrix`."""

    drill: Literal["matrix"] = "matrix"
    system: str
    server: str | None
    started: str
    duration_s: float
    quick: bool
    clients: int
    resumed: int = Field(default=0, description="cells that an interrupted run had found")
    cells: list[CellJson]
    verdict: Literal["holds", "deviates", "aborted"]
    aborted: str | None = None
    conditions: Conditions | None = None
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


DOCUMENTS: Final[dict[str, Any]] = {
    "drill run": DrillRunJson,
    "drill run matrix": MatrixJson,
    "drill list": list[DrillEntry],
}

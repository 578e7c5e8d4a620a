"""`load`: the report of a load in the foreground."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.ledger import LossLedgerJson
from replexplorer.formats.json.measured import CommitCostJson, Conditions, Latency
from replexplorer.formats.json.model import JsonObject


class ClientLogHealth(JsonObject):
    """What the client log of the workload `ledger` costs."""

    fsyncs: int
    fsync_ms: float | None = Field(description="mean")
    fsync_p99_ms: float | None
    wait_ms: float | None = Field(description="mean, of each transaction, before it was sent: in no latency")
    wait_p99_ms: float | None
    wait_percent: float | None = Field(description="of a client's time: wait / (wait + latency)")


class ProcessShare(JsonObject):
    """What one process of the generator did of the load."""

    process: int = Field(description="from 1; the first one prepares the tables")
    host: str | None = Field(description="null where all run on one host")
    clients: int
    commits: int
    tps: float
    share_percent: float | None = Field(description="of the load's commits; null where there are none")
    cpu_percent: float = Field(description="of one core")


class LimitJson(JsonObject):
    """What kept the load from more transactions."""

    by: Literal["generator", "host", "link", "server", "rate"]
    words: str


class GeneratorHealth(JsonObject):
    """The load generator's own health."""

    processes: int
    cpu_percent: float | None
    lateness_p99_ms: float | None
    backlog_max: int | None = None
    dropped: int | None = None
    arrivals: int | None = None
    limited: str | None = None
    path: Literal["direct", "published"] | None
    client_log: ClientLogHealth | None = None
    shares: list[ProcessShare] = Field(default=[], description="of each process; they add up to the load")


class LoadInterval(JsonObject):
    """One second of a load."""

    t_s: float
    tps: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    errors: int
    qps: float
    response_p50_ms: float | None
    response_p95_ms: float | None
    response_p99_ms: float | None
    backlog: int | None
    dropped: int | None
    unknown: int
    reconnects: int


class StatementLatency(JsonObject):
    """One class of statements of the workload."""

    name: str
    n: int
    latency_ms: Latency


class LoadAnatomy(JsonObject):
    """Where the time of the mean commit went, by the server's counters."""

    duration_s: float
    commits: int
    mean_ms: float
    parts_ms: dict[str, float]
    excess_ms: float
    untimed: list[str] = Field(
        default_factory=list, description="parts that this server times nothing of: they are in `other`"
    )
    from_s: float | None = Field(default=None, description="the part of the run that it covers")
    to_s: float | None = None


class CourseEvent(JsonObject):
    """Something that happened in a measurement: a knob turned, a fault, a change of state."""

    t_s: float = Field(description="since the measurement began")
    at: str
    severity: str
    text: str


class Course(JsonObject):
    """What a measurement went through."""

    protection_s: dict[str, float] = Field(description="seconds in each protection state")
    fallbacks: int | None = Field(description="falls back to asynchronous by a timeout")
    unprotected_commits: int | None = Field(
        description="acknowledged while semi-sync was on and no replica had them, by the server's count"
    )
    events: list[CourseEvent]


class LoadReport(JsonObject):
    """`load --json`."""

    workload: str
    mode: Literal["closed", "open"]
    clients: int
    rate_asked_tps: float | None
    duration_s: float
    commits: int
    errors: int
    unknown: int
    reconnects: int
    tps: float
    latency_ms: Latency
    response_ms: Latency | None
    generator: GeneratorHealth
    intervals: list[LoadInterval]
    qps: float
    queries: dict[Literal["read", "write", "other"], int]
    deadlocks: int
    lock_timeouts: int
    conflicts: int = Field(
        default=0,
        description="transactions that were retried because another changed a row first: a group's"
        " certification refused them, or MariaDB's snapshot isolation did",
    )
    errors_by_number: dict[str, int]
    statements: list[StatementLatency] | None
    anatomy: LoadAnatomy | None
    commit_cost: CommitCostJson | None = Field(
        default=None, description="null where it is not known: a workload that reads, an early end"
    )
    hides: str
    started: str | None = None
    warmup_s: float = 0.0
    table_size: int | None = Field(default=None, description="rows; null with a file of one's own")
    workload_text: str | None = Field(default=None, description="of a file of one's own")
    interrupted: str | None = Field(default=None, description="why it ended before its time")
    conditions: Conditions | None = None
    course: Course | None = None
    ledger: LossLedgerJson | None = Field(
        default=None, description="of the workload `ledger`: what became of its rows, the source the survivor"
    )
    limit: LimitJson | None = Field(default=None, description="null where nothing shows what it was")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


DOCUMENTS: Final[dict[str, Any]] = {"load": LoadReport}

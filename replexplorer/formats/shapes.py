"""Every JSON shape that a verb prints, as models; `schema` prints their JSON Schema.

Law: times are milliseconds unless the name says otherwise, sizes bytes, rates per second, clock
times UTC. A figure that is not known is null. A field whose source is not built yet is null too.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from replexplorer.core.printable import json_escaped

Scalar = int | float | str
"""A knob's value: a number in the knob's unit or a lower-case word."""


class Shape(BaseModel):
    """A part of a JSON document; unknown fields are refused so that code and contract stay one.

    Each is built when it is first used: a verb uses few of them.
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null", defer_build=True)


class ErrorDetail(Shape):
    """What went wrong, for scripts."""

    code: str
    message: str
    hint: str


class ErrorDocument(Shape):
    """What stdout carries instead of a result when a verb with --json fails."""

    error: ErrorDetail


class NodeShape(Shape):
    """One server."""

    name: str
    role: Literal["primary", "replica"]
    host: str | None
    port: int | None
    published_port: int | None
    path: Literal["direct", "published"] | None
    flavor: str | None
    version: str | None
    server_uuid: str | None
    reachable: bool
    gtid_executed: str | None
    errant_gtids: str | None = Field(
        default=None, description="what a replica has executed and the primary lacks; empty: nothing"
    )
    io_thread: str | None = Field(default=None, description="on, off, connecting, error; null for a primary")
    sql_thread: str | None = None
    lag_s: float | None = None


class ProtectionShape(Shape):
    """Whether the next commit is safe on a replica, with the evidence."""

    state: Literal["protected", "armed", "off", "blocked", "degraded", "down"]
    requested: bool | None
    operational: bool | None
    replicas_acking: int | None
    replicas_required: int | None
    wait_point: str | None
    timeout_ms: int | None
    fallbacks: int | None
    replicas_counted: int | None = Field(
        default=None,
        description="as the source counts them, with a connection that is gone and not missed yet",
    )
    no_ack_can_come: bool | None = Field(
        default=None, description="the links in force let too few acknowledgements through"
    )


class LinkShape(Shape):
    """The link between the primary and one replica."""

    replica: str
    backend: str | None
    rtt_asked_ms: float | None
    rtt_measured_ms: float | None
    rtt_base_ms: float | None
    jitter_ms: float | None = None
    loss_percent: float | None = None
    bandwidth_bps: int | None = Field(default=None, description="0 is no limit")
    partition: str | None = None
    healing: bool = Field(default=False, description="healed, and no event has come through yet")
    probes_lost_percent: float | None = Field(default=None, description="of those since the last change")
    dropped: int | None = Field(description="packets dropped though no loss was asked")
    fault: str | None = None


class FsyncCounts(Shape):
    """Calls of fsync and fdatasync by kind of file."""

    redo: int | None = None
    binlog: int | None = None
    relay: int | None = None
    data: int | None = None
    other: int | None = None


class DiskShape(Shape):
    """One node's disk: asked delay and what was measured."""

    node: str
    fsync_delay_ms: float | None
    fsync_measured_ms: float | None
    disk_probe_ms: float | None
    fsyncs: FsyncCounts
    fault: str | None = Field(default=None, description="why the delay cannot be set")


class StatusLoad(Shape):
    """The load that runs, as its driver tells it; the knobs say what is requested."""

    driver: str | None = Field(description="who drives it: `name (pid N)`; null when no one does")
    clients: int | None = Field(description="0 when no load runs, null when its driver does not say")
    workload: str | None = None
    mode: str | None = Field(default=None, description="closed or open")
    rate_tps: float | None = Field(default=None, description="asked, of an open loop")


class StatusKnob(Shape):
    """A knob in `status`: asked and in effect."""

    requested: Scalar | None
    effective: Scalar | None
    node: str


class Status(Shape):
    """`status --json`."""

    stack: str
    state: Literal["starting", "up", "partial", "down"]
    nodes: list[NodeShape]
    protection: ProtectionShape
    links: list[LinkShape]
    disks: list[DiskShape]
    load: StatusLoad
    footprint_bytes: int | None
    knobs: dict[str, StatusKnob]


class GetKnob(Shape):
    """A knob in `get`: all that the catalogue and the stack know of it."""

    requested: Scalar | None
    effective: Scalar | None
    default: Scalar
    min: float | int | None
    max: float | int | None
    unit: str | None
    node: str
    scope: str = Field(description="global (a server variable), link or load")
    restart: Literal["none", "applier", "sessions"]
    note: str | None
    choices: list[str] | None = None
    help: str


GetDocument = dict[str, GetKnob]
"""`get --json`: knobs by written name."""


class ChangedKnob(Shape):
    """One knob that a `set` turned."""

    key: str
    node: str
    before: Scalar | None
    requested: Scalar
    effective: Scalar | None
    took_ms: float
    statements: list[str]
    note: str | None = None
    measured_ms: float | None = Field(
        default=None, description="since the change: a link's round trip, or an fsync of a disk"
    )


class SetReport(Shape):
    """`set --json`, and `reset` and `scene apply` with --json."""

    changed: list[ChangedKnob]
    warnings: list[str]
    rolled_back: bool
    dry_run: bool = False
    took_ms: float | None = Field(
        default=None, description="from the verb's start until all was in effect: connecting and waiting too"
    )


class RolledBack(ErrorDocument):
    """A `set` that failed on the way, and whether what it had done was taken back."""

    changed: list[ChangedKnob] = []
    warnings: list[str] = []
    rolled_back: bool = Field(
        description="true: nothing is changed; false: something could not be rolled back, the hint names it"
    )


class Latency(Shape):
    """A latency distribution from one merged histogram; null where no commit was counted."""

    mean: float | None
    min: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Generator(Shape):
    """The load generator's own health."""

    processes: int
    cpu_percent: float | None
    lateness_p99_ms: float | None
    backlog_max: int | None = None
    dropped: int | None = None
    arrivals: int | None = None
    limited: str | None = None
    path: Literal["direct", "published"] | None


class LoadInterval(Shape):
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


class StatementLatency(Shape):
    """One class of statements of the workload."""

    name: str
    n: int
    latency_ms: Latency


class LoadAnatomy(Shape):
    """Where the time of the mean commit went, by the server's counters."""

    duration_s: float
    commits: int
    mean_ms: float
    parts_ms: dict[str, float]
    excess_ms: float
    from_s: float | None = Field(default=None, description="the part of the run that it covers")
    to_s: float | None = None


class SettingShape(Shape):
    """A knob while something was measured."""

    requested: Scalar | None
    effective: Scalar | None


class MachineShape(Shape):
    """The host, which the stack and the load share."""

    words: str = Field(description="in short")
    cores: int
    memory_bytes: int
    kernel: str
    architecture: str
    cpu: str | None


class Conditions(Shape):
    """What was measured under, so that it can be judged and run again elsewhere."""

    program: str = Field(description="version of replexplorer")
    server: str | None
    replicas: int
    machine: MachineShape
    settings: dict[str, SettingShape] = Field(description="by key@node")
    workload_files: dict[str, str] = Field(default={}, description="the text of each file of SQL by its path")


class CourseEvent(Shape):
    """Something that happened in a measurement: a knob turned, a fault, a change of state."""

    t_s: float = Field(description="since the measurement began")
    at: str
    severity: str
    text: str


class Course(Shape):
    """What a measurement went through."""

    protection_s: dict[str, float] = Field(description="seconds in each protection state")
    fallbacks: int | None = Field(description="falls back to asynchronous by a timeout")
    unprotected_commits: int | None = Field(
        description="acknowledged while semi-sync was on and no replica had them, by the server's count"
    )
    events: list[CourseEvent]


class LoadReport(Shape):
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
    generator: Generator
    intervals: list[LoadInterval]
    qps: float
    queries: dict[Literal["read", "write", "other"], int]
    deadlocks: int
    lock_timeouts: int
    errors_by_number: dict[str, int]
    statements: list[StatementLatency] | None
    anatomy: LoadAnatomy | None
    hides: str
    started: str | None = None
    warmup_s: float = 0.0
    table_size: int | None = Field(default=None, description="rows; null with a file of one's own")
    workload_text: str | None = Field(default=None, description="of a file of one's own")
    interrupted: str | None = Field(default=None, description="why it ended before its time")
    conditions: Conditions | None = None
    course: Course | None = None
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


class LabSource(Shape):
    """The published experiment that a lab reruns; null fields for our own."""

    title: str | None
    author: str | None
    url: str | None


class Published(Shape):
    """A published figure in its author's own unit and digits."""

    value: float
    unit: str


class LabPhase(Shape):
    """One phase of a lab with what was measured in it."""

    name: str
    settings: dict[str, Scalar]
    rtt_measured_ms: float | None
    fsync_measured_ms: float | None = None
    disk_probe_ms: float | None = None
    published: Published | None = None
    ceiling_tps: float | None
    predicted_tps: float | None = None
    tps: float | None
    latency_ms: Latency | None
    n: int
    clients: int | None = None
    errors: int | None = None
    protection: str | None = None
    rtt_interval_ms: tuple[float, float] | None = Field(
        default=None, description="95 % interval of the round trip measured before the load"
    )
    duration_s: float | None = None
    generator_cpu_percent: float | None = None
    machine_cpu_percent: float | None = Field(
        default=None, description="of all cores of the source's machine, by any process"
    )
    limited: str | None = Field(
        default=None,
        description="what beside the settings may have been the limit, so that a relation deviates",
    )
    invalid: str | None = Field(
        default=None, description="what somebody changed meanwhile, so that the figures are of no settings"
    )
    figures: dict[str, Scalar] = Field(default={}, description="what the phase found beside its load")


class Relation(Shape):
    """A relation that must hold, with the measured evidence."""

    name: str
    holds: bool
    evidence: str
    checked: bool = Field(default=True, description="false: a figure to look at, nothing was checked")

    @property
    def word(self) -> str:
        """`holds`, `deviates`, or `shown` where nothing was checked."""
        return ("holds" if self.holds else "deviates") if self.checked else "shown"


class LabResult(Shape):
    """`lab run --json`."""

    lab: str
    source: LabSource | None
    server: str | None
    started: str
    phases: list[LabPhase]
    relations: list[Relation]
    verdict: Literal["holds", "deviates", "aborted"]
    quick: bool = False
    aborted: str | None = Field(
        default=None,
        description="why nothing is judged: it ended before its last phase, or a phase is invalid",
    )
    unrestored: list[str] = Field(default=[], description="what could not be restored yet")
    conditions: Conditions | None = Field(default=None, description="before its first phase")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


class LabEntry(Shape):
    """A lab in `lab list --json`."""

    name: str
    title: str
    teaches: str = ""
    seconds: float | None = None
    quick_seconds: float | None = None
    turns: list[str] = Field(default=[], description="keys of the knobs that it turns")
    replicas: int = 1
    file: str | None = Field(default=None, description="of a lab of one's own")
    error: str | None = Field(default=None, description="why the file cannot be used")


class SceneEntry(Shape):
    """A scene in `scene list --json`."""

    name: str
    title: str
    origin: Literal["shipped", "user"]
    file: str
    knobs: dict[str, Scalar]
    error: str | None = None


class PredictTerm(Shape):
    """One term of a predicted commit."""

    name: str
    ms: float
    share: float = Field(description="of the latency, 0 to 1")


class PredictCalibration(Shape):
    """What the model was fitted to."""

    origin: Literal["shipped", "own"]
    file: str
    day: str
    machine: str
    server: str
    runs: int
    median_error: float = Field(description="of |predicted / measured - 1| over the runs")


class PredictDocument(Shape):
    """`predict --json`."""

    settings: dict[str, Scalar] = Field(description="the knobs that it rests on")
    others_from: Literal["stack", "defaults"] = Field(description="the knobs that were not named")
    tps: float | None = Field(description="null where no commit is acknowledged; `limit` says why")
    latency_ms: float | None = Field(description="mean service time of a commit")
    ceiling_tps: float | None = Field(description="the bound that the link sets; null without semi-sync")
    terms: list[PredictTerm]
    limit: str
    calibration: PredictCalibration
    warnings: list[str]


class Check(Shape):
    """One thing that doctor looked at."""

    name: str
    state: Literal["ok", "warning", "missing", "unknown"]
    detail: str
    remedy: str | None = None
    packages: list[str] = Field(default=[], description="host packages that remedy it, by Debian's names")


class Doctor(Shape):
    """`doctor --json`."""

    version: str
    ready: bool = Field(description="nothing that `up` needs is missing")
    checks: list[Check]


class ConfigValue(Shape):
    """One configuration key with its origin."""

    value: Any
    origin: str


class ConfigDocument(Shape):
    """`config --json`."""

    file: str
    file_found: bool
    values: dict[str, ConfigValue]
    paths: dict[str, str]
    unknown_variables: list[str]


class ThemeEntry(Shape):
    """A theme in `themes --json`; a broken one has an error and is not used."""

    name: str
    dark: bool | None
    origin: Literal["built-in", "user"]
    file: str | None
    description: str = ""
    error: str | None = None


class KeyBinding(Shape):
    """A binding in `keys --json`."""

    id: str
    keys: list[str]
    default_keys: list[str]
    help: str


class Dsn(Shape):
    """`dsn --json`."""

    node: str
    dsn: str
    path: Literal["direct", "published"]
    account: Literal["sandbox", "admin"] = Field(
        default="sandbox", description="whose: the load's account, or with --admin the app's own"
    )
    defaults_file: str | None = None
    """The option file, where one was asked for."""


class SweepInterval(Shape):
    """A figure with its 95 % confidence interval; null where there is too little for one."""

    value: float | None
    low: float | None
    high: float | None


class SweepKnob(Shape):
    """One dimension of a sweep."""

    key: str
    unit: str | None
    values: list[Scalar] = Field(description="in the sweep's order; the names of scenes")


class SweepRunShape(Shape):
    """One run of one cell."""

    block: int = Field(description="the pass over all cells, from 1")
    attempt: int
    started: str
    took_s: float
    failed: str | None = Field(description="why its figures do not count")
    limited: str | None = Field(description="what beside the settings may have been the limit; it counts")
    tps: SweepInterval = Field(description="with the interval within the run, from batch means")
    duration_s: float
    n: int
    errors: int
    unknown: int
    latency_ms: Latency
    response_ms: Latency | None
    rtt_measured_ms: float | None
    fsync_measured_ms: float | None
    generator_cpu_percent: float | None
    protection: str | None
    effective: dict[str, Scalar | None]
    anatomy_ms: dict[str, float] | None


class SweepCell(Shape):
    """One combination; figures are those of its runs that count, together."""

    settings: dict[str, Scalar] = Field(description="requested, by key@node")
    labels: dict[str, str]
    tps: SweepInterval = Field(description="of several runs: from how they differ")
    latency_ms: Latency
    n: int
    errors: int
    rtt_measured_ms: float | None
    fsync_measured_ms: float | None
    failed: str | None = Field(description="why no run counts; the figures are the last one's then")
    limited: str | None
    runs: list[SweepRunShape]


class SweepEffect(Shape):
    """What going from one value of a knob to the next did, all else equal."""

    key: str
    before: str
    after: str
    ratio: float | None = Field(description="TPS after / before, geometric mean over the pairs")
    low: float | None
    high: float | None
    least: float | None = Field(description="of the pairs")
    most: float | None
    pairs: int
    left_out: int
    verdict: str
    words: str


class SweepMap(Shape):
    """TPS by two knobs, the geometric mean over the others."""

    rows: str
    columns: str
    row_values: list[str]
    column_values: list[str]
    tps: list[list[float | None]]


class SweepResult(Shape):
    """`sweep --json`."""

    sweep: str
    server: str
    started: str
    ended: str
    seed: int
    duration_s: float
    repeat: int
    resumed_runs: int = Field(description="runs made before this command, which continued the sweep")
    journal: str | None
    knobs: list[SweepKnob]
    cells: list[SweepCell]
    effects: list[SweepEffect]
    heat_map: SweepMap | None
    calibration: str | None = Field(default=None, description="what the model learned from it, in words")
    conditions: Conditions | None = Field(default=None, description="its settings are those not swept")
    workload: str | None = None
    scenes: dict[str, dict[str, Scalar]] = Field(default={}, description="the knobs of each swept scene")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


DOCUMENTS: Final[dict[str, type[Shape]]] = {
    "up": Status,
    "status": Status,
    "get": GetKnob,
    "set": SetReport,
    "reset": SetReport,
    "load": LoadReport,
    "lab run": LabResult,
    "sweep": SweepResult,
    "predict": PredictDocument,
    "lab list": LabEntry,
    "scene list": SceneEntry,
    "scene save": SceneEntry,
    "scene apply": SetReport,
    "doctor": Doctor,
    "config": ConfigDocument,
    "themes": ThemeEntry,
    "keys": KeyBinding,
    "dsn": Dsn,
    "error": ErrorDocument,
}
"""The shape that each verb's --json is made of."""

_LISTS: Final = frozenset({"lab list", "scene list", "themes", "keys"})
_TABLES: Final = frozenset({"get"})
_TAKEN_BACK: Final = frozenset({"set", "reset", "scene apply"})
"""Verbs that print `RolledBack` when they fail on the way."""


def schema() -> dict[str, Any]:
    """One JSON Schema with a property for each verb's document and all shapes under `$defs`."""
    shapes: list[type[Shape]] = [*DOCUMENTS.values(), RolledBack]
    references, definitions = models_json_schema(
        [(shape, "serialization") for shape in shapes],
        ref_template="#/$defs/{model}",
    )
    properties: dict[str, Any] = {}
    for verb, shape in DOCUMENTS.items():
        reference = references[(shape, "serialization")]
        if verb in _LISTS:
            properties[verb] = {"type": "array", "items": reference}
        elif verb in _TABLES:
            properties[verb] = {"type": "object", "additionalProperties": reference}
        elif verb in _TAKEN_BACK:
            properties[verb] = {"anyOf": [reference, references[(RolledBack, "serialization")]]}
        else:
            properties[verb] = reference
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "replexplorer: the JSON document of each verb",
        "type": "object",
        "properties": properties,
        "$defs": definitions.get("$defs", {}),
    }


def document_schema(verb: str) -> dict[str, Any]:
    """One verb's document alone; raise KeyError for an unknown verb."""
    whole = schema()
    return {
        "$schema": whole["$schema"],
        "title": f"replexplorer {verb} --json",
        **whole["properties"][verb],
        "$defs": _reachable(whole["properties"][verb], whole["$defs"]),
    }


def _reachable(start: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema leads to."""
    found: dict[str, Any] = {}
    waiting = [start]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name in definitions and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return {name: found[name] for name in definitions if name in found}


def to_json(document: BaseModel | dict[str, Any] | list[Any]) -> str:
    """One JSON document with two spaces of indentation, in the models' order; escaped is also what JSON
    could leave as it is and a terminal obeys."""

    def plain(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return plain(value.model_dump(mode="json"))
        if isinstance(value, float) and not isfinite(value):
            return None
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return value

    return json_escaped(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))

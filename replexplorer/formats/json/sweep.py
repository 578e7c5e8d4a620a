"""`sweep`: every combination of some knobs."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from replexplorer.formats.json.measured import CommitCostJson, Conditions, Latency
from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.status import ExposureJson


class SweepInterval(JsonObject):
    """A figure with its 95 % confidence interval; null where there is too little for one."""

    value: float | None
    low: float | None
    high: float | None


class SweepKnob(JsonObject):
    """One dimension of a sweep."""

    key: str
    unit: str | None
    values: list[Scalar] = Field(description="in the sweep's order; the names of scenes")


class SweepRunJson(JsonObject):
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
    exposure: ExposureJson | None = Field(default=None, description="median of the looks while it ran")
    commit_cost: CommitCostJson | None = None


class SweepCell(JsonObject):
    """One combination; figures are those of its runs that count, together."""

    settings: dict[str, Scalar] = Field(description="requested, by key@node")
    labels: dict[str, str]
    tps: SweepInterval = Field(description="of several runs: from how they differ")
    latency_ms: Latency
    n: int
    errors: int
    rtt_measured_ms: float | None
    fsync_measured_ms: float | None
    exposure: ExposureJson | None = Field(default=None, description="what a failure would have lost")
    commit_cost: CommitCostJson | None = Field(default=None, description="of all runs; null: not known")
    failed: str | None = Field(description="why no run counts; the figures are the last one's then")
    limited: str | None
    runs: list[SweepRunJson]


class SweepEffect(JsonObject):
    """What going from one value of a knob to the next did, all else equal."""

    key: str
    before: str
    after: str
    ratio: float | None = Field(description="TPS after / before, geometric mean over the pairs")
    low: float | None
    high: float | None
    least: float | None = Field(description="of the pairs")
    most: float | None
    pairs: int = Field(description="of cells that were compared")
    passes: int | None = Field(default=None, description="runs of each of these cells at least")
    left_out: int
    verdict: str
    words: str


class SweepMap(JsonObject):
    """TPS by two knobs, the geometric mean over the others."""

    rows: str
    columns: str
    row_values: list[str]
    column_values: list[str]
    tps: list[list[float | None]]


class SweepRiskMap(JsonObject):
    """Acknowledged commits that the worst of the three failures would have lost, by two knobs, the mean over
    the others."""

    rows: str
    columns: str
    row_values: list[str]
    column_values: list[str]
    commits: list[list[float | None]]


class SweepRegion(JsonObject):
    """How far off the model is in some cells, each predicted from the others; `all`: whatever it is."""

    durable_by: str = Field(description="none, local, network or both, as the scenes are named")
    rtt: str = Field(description="ms asked; any where no commit waits for it")
    clients: str
    cells: int
    bias: float = Field(description="predicted / measured - 1, the geometric mean")
    error: float = Field(description="median of the absolute errors")
    noise: float | None = Field(description="standard deviation of a cell's runs as a part of their mean")


class SweepCurvePoint(JsonObject):
    """One arrival rate."""

    asked_tps: float
    tps: float = Field(description="answered")
    response_p50_ms: float
    response_p99_ms: float
    saturated: bool = Field(description="fewer were answered than arrived")


class SweepCurve(JsonObject):
    """Response over throughput in the open loop, all else equal."""

    label: str = Field(description="what is varied beside the rate")
    points: list[SweepCurvePoint]
    knee_tps: float | None = Field(description="the last rate before the p99 doubles; null: it does not")
    saturation_tps: float | None = Field(description="the most that was answered; null: all rates were")
    words: str


class SweepResult(JsonObject):
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
    passes_needed: int | None = Field(
        default=None, description="about, for TPS within 30 % at this noise; null before a second pass"
    )
    cells: list[SweepCell]
    effects: list[SweepEffect]
    heat_map: SweepMap | None
    risk_map: SweepRiskMap | None = None
    curves: list[SweepCurve] = Field(default=[], description="of a sweep of three rates or more")
    calibration: str | None = Field(default=None, description="what the model learned from it, in words")
    prediction: list[SweepRegion] = Field(default=[], description="how far off the model is, by region")
    conditions: Conditions | None = Field(default=None, description="its settings are those not swept")
    workload: str | None = None
    scenes: dict[str, dict[str, Scalar]] = Field(default={}, description="the knobs of each swept scene")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


DOCUMENTS: Final[dict[str, Any]] = {"sweep": SweepResult}

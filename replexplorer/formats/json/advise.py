"""`advise`: which settings meet goals."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.predict import PredictCalibration
from replexplorer.formats.json.status import ExposureJson

VerdictWord = Literal["meets", "may meet", "misses"]


class AdviseGoal(JsonObject):
    """One goal as it was read."""

    figure: str = Field(description="mean, p50, p95, p99, tps, process_dies, power_cut or source_lost (rpo)")
    sign: Literal["<", "<=", ">", ">=", "="]
    bound: float
    unit: Literal["ms", "tps", "commits", "s"]
    text: str


class AdviseRange(JsonObject):
    """A figure with what encloses it."""

    value: float
    low: float
    high: float
    origin: Literal["scaled", "model", "settings"] = Field(
        description="scaled: the model at the pace of this machine's sweeps; settings: what follows from them"
    )


class AdviseJudged(JsonObject):
    """A goal beside its figure."""

    goal: str
    figure: AdviseRange | None = Field(description="null where it is not known")
    verdict: VerdictWord


class AdviseChoice(JsonObject):
    """One choice of settings."""

    settings: dict[str, Scalar]
    set: str = Field(description="the command that turns them")
    verdict: VerdictWord
    usually_meets: bool = Field(description="by the figures themselves, whatever encloses them")
    calibrated: bool = Field(
        description="false where the runs of `calibration` say nothing of these settings"
    )
    goals: list[AdviseJudged]
    figures: dict[str, AdviseRange] = Field(description="latencies in ms, tps in commits a second")
    exposure: ExposureJson
    gives_up: list[str]


class AdviseDocument(JsonObject):
    """`advise --json`."""

    goals: list[AdviseGoal]
    conditions: dict[str, Scalar] = Field(description="the knobs that were not chosen and matter")
    others_from: Literal["stack", "defaults"]
    replicas: int
    looked_at: int = Field(description="choices of settings")
    found: list[AdviseChoice] = Field(
        description="those that meet the goals, then those that may; of each what gives up least comes first"
    )
    closest: AdviseChoice | None = Field(description="where none does")
    measured_runs: int = Field(description="of sweeps of this workload on this machine")
    slowness: float | None = Field(
        description="by these runs: how many times as long all but the network takes as calibrated"
    )
    calibration: PredictCalibration
    warnings: list[str]


DOCUMENTS: Final[dict[str, Any]] = {"advise": AdviseDocument}

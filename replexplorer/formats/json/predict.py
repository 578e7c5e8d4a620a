"""`predict`: what the model expects of settings."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.status import ExposureJson


class PredictTerm(JsonObject):
    """One term of a predicted commit."""

    name: str
    ms: float
    share: float = Field(description="of the latency, 0 to 1")


class PredictCalibration(JsonObject):
    """What the model was fitted to."""

    origin: Literal["shipped", "own"]
    file: str
    day: str
    machine: str
    server: str
    runs: int
    cells: int = Field(description="settings that were run, each predicted from the others")
    median_error: float = Field(description="of |predicted / measured - 1| over the cells")
    p90_error: float = Field(description="what 90 % of the cells do not exceed")
    noise: float | None = Field(
        description="standard deviation of a cell's runs as a part of their mean; null where none ran twice"
    )


class PredictDocument(JsonObject):
    """`predict --json`."""

    settings: dict[str, Scalar] = Field(description="the knobs that it rests on")
    others_from: Literal["stack", "defaults"] = Field(description="the knobs that were not named")
    tps: float | None = Field(description="null where no commit is acknowledged; `limit` says why")
    latency_ms: float | None = Field(description="mean service time of a commit")
    ceiling_tps: float | None = Field(
        description="the bound that the link sets to these clients; null without semi-sync"
    )
    terms: list[PredictTerm]
    exposure: ExposureJson = Field(description="what a failure would lose at this TPS, the mean over time")
    limit: str
    calibrated: bool = Field(
        description="false where no run of `calibration` had the like; `warnings` says of what"
    )
    calibration: PredictCalibration
    warnings: list[str]


DOCUMENTS: Final[dict[str, Any]] = {"predict": PredictDocument}

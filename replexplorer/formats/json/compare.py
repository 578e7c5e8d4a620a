"""`compare`: two stacks, or two recordings, and one against the other."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.status import ExposureJson


class FigureJson(JsonObject):
    """A figure with its own 95 % interval; null where it is not known."""

    value: float | None
    low: float | None
    high: float | None


class StretchJson(JsonObject):
    """What of a recording is compared."""

    from_s: float = Field(description="since its first tick, as in `replexplorer session export`")
    to_s: float
    why: str = Field(description="why this stretch, in words")


class ComparedSideJson(JsonObject):
    """One of the two."""

    name: str = Field(description="the stack, or the recording's file name without its ending")
    server: str
    stretch: StretchJson | None = Field(description="null for a stack, and where a recording has none")
    tps: FigureJson
    p50_ms: FigureJson
    p95_ms: FigureJson
    p99_ms: FigureJson
    commits: int
    measured_s: float
    protection: str | None
    exposure: ExposureJson | None = Field(description="the median of the looks; null before any look")


class DifferenceJson(JsonObject):
    """A knob that is not alike."""

    knob: str
    a: Scalar | None = Field(description="in effect; null where A has no such knob")
    b: Scalar | None


class CompareDocument(JsonObject):
    """`compare A B --json`."""

    a: ComparedSideJson
    b: ComparedSideJson
    tested: Literal["tps", "response_p95_ms"] = Field(description="TPS in the closed loop, else response p95")
    ratio: FigureJson = Field(description="B's divided by A's, with its 95 % interval; null: not compared")
    verdict: str = Field(description="faster, slower (of B), no difference shown, or why nothing is said")
    at_once: bool = Field(description="both loads ran at the same time; false: in turns, or recorded")
    turns: int = Field(description="how often each had the machine for itself; 0: both ran at once")
    cores: int | None
    machine_percent: float | None = Field(description="CPU of all cores of A's machine meanwhile")
    footing: str = Field(description="what the ratio rests on, in words")
    differences: list[DifferenceJson]


DOCUMENTS: Final[dict[str, Any]] = {"compare": CompareDocument}

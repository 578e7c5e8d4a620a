"""What a load, a lab and a sweep say alike: latencies, and what they were measured under."""

from __future__ import annotations

from pydantic import Field

from replexplorer.core.system import DEFAULT
from replexplorer.formats.json.model import JsonObject, Scalar


class Latency(JsonObject):
    """A latency distribution from one merged histogram; null where no commit was counted."""

    mean: float | None
    min: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class CommitCostJson(JsonObject):
    """What a commit cost the servers: all that they did meanwhile over the commits that the source wrote to
    its binlog; null where a figure is not known."""

    source: str = Field(description="the node that was the source")
    commits: int = Field(description="written to its binlog meanwhile, whoever made them")
    cpu_us: dict[str, float | None] = Field(description="CPU of each node's server")
    redo_bytes: float | None = Field(description="written to the source's redo log")
    binlog_bytes: float | None = Field(description="written to the source's binlog")
    sent_bytes: dict[str, float | None] = Field(description="sent to each replica, by the source's count")


class SettingJson(JsonObject):
    """A knob while something was measured."""

    requested: Scalar | None
    effective: Scalar | None


class MachineJson(JsonObject):
    """The host, which the stack and the load share."""

    words: str = Field(description="in short")
    cores: int
    memory_bytes: int
    kernel: str
    architecture: str
    cpu: str | None


class Conditions(JsonObject):
    """What was measured under, so that it can be judged and run again elsewhere."""

    program: str = Field(description="version of replexplorer")
    server: str | None
    replicas: int
    system: str = Field(default=DEFAULT, description="what the stack was")
    systems: list[str] = Field(
        default=[], description="that had a stack each, one after the other; empty: one stack with `replicas`"
    )
    machine: MachineJson
    settings: dict[str, SettingJson] = Field(description="by key@node")
    workload_files: dict[str, str] = Field(default={}, description="the text of each file of SQL by its path")

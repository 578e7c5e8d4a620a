"""One node's disk: the delay asked and in force, and what an fsync takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskView:
    """One node's disk: the delay asked and in force, and what an fsync takes."""

    node: str
    delay_asked_ms: float = 0.0
    delay_ms: float | None = None
    """In force; None when unknown."""
    measured_ms: float | None = None
    """What the server pays for an fsync of redo or binlog, the delay included; None when none ran."""
    measured_n: int = 0
    probe_p50_ms: float | None = None
    """Synchronous writes of 512 bytes, the server and the delay not involved; None when not probed."""
    probe_p95_ms: float | None = None
    probe_p99_ms: float | None = None
    fsyncs: Mapping[str, int] | None = None
    """Calls by class of file: redo, binlog, relay, data, other."""
    fault: str | None = None
    """Why the delay cannot be set, in words."""

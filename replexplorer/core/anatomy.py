"""Where the time of one commit goes, from the server's own counters (DOMAIN.md section 3).

Law: a part is what was measured; what no counter explains is `other`, never spread over the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Part(StrEnum):
    """One part of a commit's time, as a client waits for it."""

    WIRE = "wire"
    """Client and network: what a trivial statement takes less its time in the server."""
    EXECUTE = "execute"
    """The statements, up to the commit."""
    QUEUE = "queue"
    """Waiting for the groups before."""
    REDO = "redo"
    """Redo log fsync."""
    BINLOG = "binlog"
    """Binlog fsync."""
    ACK = "ack"
    """Waiting for the replicas' acknowledgement."""
    ENGINE = "engine"
    """Making the transaction visible."""
    OTHER = "other"
    """What no counter explains."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """One commit's time, as clients saw it over a stretch; milliseconds a commit."""

    duration_s: float
    commits: int
    mean_ms: float
    """The clients' mean service time, to which the parts are held."""
    parts: Mapping[Part, float] = field(default_factory=dict)
    """In the order in which a commit meets them (after_commit: engine before ack); only those that
    could be measured, `other` last."""
    excess_ms: float = 0.0
    """By how much the parts together exceed the mean: 0 when they fit within."""

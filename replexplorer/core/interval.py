"""What the load did in one interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from replexplorer.core.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of the load; counts are of this interval, gauges of its end."""

    start_s: float
    end_s: float
    """On the host's monotonic clock."""
    service: Histogram
    """Send to reply of each commit that was acknowledged, in microseconds."""
    errors: int
    """Statements that the server refused."""
    unknown: int
    """Commits whose connection was lost before the reply."""
    reconnects: int
    clients: int
    """Clients asked for."""
    connected: int
    """Clients with a live connection at the end."""
    workload: str
    cpu_percent: float
    """Of one core, generator processes summed."""
    lateness_p99_ms: float
    """How late the generator's own timers fired: its event loop's lag."""
    rows_reset: int = 0
    """Times the insert table was truncated at its bound in this interval."""
    state: str = "running"
    """running, preparing, waiting (the primary is away)."""
    fault: str | None = None
    """The last error in one line."""

    @property
    def duration_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.start_s

    @property
    def commits(self) -> int:
        """Acknowledged commits."""
        return self.service.count

    @property
    def tps(self) -> float:
        """Acknowledged commits per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    def followed_by(self, later: Interval) -> Interval:
        """Both intervals as one: counts added, gauges of the later, the worse lateness."""
        seconds = self.duration_s + later.duration_s
        cpu = self.cpu_percent * self.duration_s + later.cpu_percent * later.duration_s
        return replace(
            later,
            start_s=self.start_s,
            service=Histogram.merged((self.service, later.service)),
            errors=self.errors + later.errors,
            unknown=self.unknown + later.unknown,
            reconnects=self.reconnects + later.reconnects,
            cpu_percent=cpu / seconds if seconds > 0 else later.cpu_percent,
            lateness_p99_ms=max(self.lateness_p99_ms, later.lateness_p99_ms),
            rows_reset=self.rows_reset + later.rows_reset,
            fault=later.fault or self.fault,
        )

    def to_wire(self) -> dict[str, object]:
        """A JSON-ready form that `from_wire` reads back exactly."""
        wire: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        return wire | {"service": self.service.to_wire()}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        return cls(**{**wire, "service": Histogram.from_wire(wire["service"])})

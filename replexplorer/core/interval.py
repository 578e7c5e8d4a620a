"""What the load did in one interval."""

from __future__ import annotations

from dataclasses import dataclass

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

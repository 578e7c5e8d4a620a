"""The background load at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.stats.histogram import Histogram

SERVER: Final = "server"
"""The state of what other people's clients do, as their server counts it: commits a second of all of them,
and as `mean_ms` the server's time for the commit. No client's clock and no percentile is in it."""


@dataclass(frozen=True, slots=True)
class LoadView:
    """The background load at this moment; latencies are of the last interval."""

    clients: int
    connected: int
    workload: str
    tps: float | None
    n: int = 0
    """Commits in the interval."""
    duration_s: float = 0.0
    """Length of the interval; 0 when unknown."""
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    errors: int = 0
    unknown: int = 0
    reconnects: int = 0
    """Counts within the interval."""
    cpu_percent: float | None = None
    limited: str | None = None
    """In words, when the generator and not the server is the limit."""
    state: str = "running"
    """running, stopped, preparing, waiting (the primary is away), viewer (another app drives), `SERVER`."""
    prepared: float | None = None
    """Which part of its table is ready, 0 to 1, while it is prepared; None when not known."""
    driver: str | None = None
    """Who drives the load when it is not us: `name (pid N)`."""
    fault: str | None = None
    """The last error in one line, while it lasts."""
    service: Histogram | None = None
    """Durations of the interval's commits, so that the charts can merge ticks; None in a viewer."""
    mode: str = CLOSED
    """`closed` or `open` (core/load/pacing.py); `HIDES` says what each hides."""
    rate_asked_tps: float | None = None
    """Arrivals per second asked for; None in the closed loop."""
    qps: float | None = None
    """Statements answered per second, BEGIN and COMMIT included."""
    response: Histogram | None = None
    """Intended start to reply (open loop), so that the charts can merge ticks; None in the closed loop."""
    response_p50_ms: float | None = None
    response_p95_ms: float | None = None
    response_p99_ms: float | None = None
    response_max_ms: float | None = None
    arrivals: int = 0
    """Transactions that were intended to start within the interval (open loop)."""
    dropped: int = 0
    """Arrivals that were given up within the interval: the backlog was full."""
    backlog: int = 0
    """Arrivals that wait for a client now."""
    deadlocks: int = 0
    lock_timeouts: int = 0
    conflicts: int = 0
    """Transactions retried within the interval, in none of the other counts."""
    lateness_p99_ms: float | None = None
    """How late the generator was itself."""
    processes: int = 0
    """Generator processes; 0 when none runs or it is another app's."""

    @property
    def is_by_server(self) -> bool:
        """The clients are not this app's: TPS and mean are the server's counters, no percentile is known."""
        return self.state == SERVER or (self.mean_ms is not None and self.latency_ms("p50") is None)

    @property
    def latency(self) -> Histogram | None:
        """What a screen draws: in the open loop the response, from when each was due, else the service."""
        return self.service if self.response is None else self.response

    def latency_ms(self, figure: str) -> float | None:
        """`p50`, `p95`, `p99` or `max` of it."""
        of = "" if self.response is None else "response_"
        found: float | None = getattr(self, f"{of}{figure}_ms")
        return found

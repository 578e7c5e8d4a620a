"""What happened since the last interval: counted where it happens, folded once an interval."""

from __future__ import annotations

import time

from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval


class Tally:
    """Counts of the interval under way; `fold` ends it and begins the next."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        """One entry a commit: an append is all that a commit pays for being measured."""
        self.lateness_s: list[float] = []
        self.errors = 0
        self.unknown = 0
        self.reconnects = 0
        self.rows_reset = 0
        self.fault: str | None = None
        self.start_s = time.monotonic()
        """When the interval under way began."""
        self._cpu_s = time.process_time()

    def begin(self, at_s: float) -> None:
        """Let the interval under way begin when the clients did: what the logins and the program's
        own start took is no time in which commits could have come."""
        self.start_s = max(self.start_s, at_s)
        self._cpu_s = time.process_time()
        self.lateness_s.clear()

    def fold(self, *, clients: int, connected: int, workload: str, state: str) -> Interval:
        """The interval that ends now, with the gauges as given."""
        # The lists are emptied in place: clients hold their append.
        latencies, lateness = self.latencies_s[:], sorted(self.lateness_s)
        self.latencies_s.clear()
        self.lateness_s.clear()
        end_s, cpu_s = time.monotonic(), time.process_time()
        service = Histogram()
        service.record_all(int(latency * 1e6) for latency in latencies)
        seconds = end_s - self.start_s
        interval = Interval(
            start_s=self.start_s,
            end_s=end_s,
            service=service,
            errors=self.errors,
            unknown=self.unknown,
            reconnects=self.reconnects,
            clients=clients,
            connected=connected,
            workload=workload,
            cpu_percent=100 * (cpu_s - self._cpu_s) / seconds if seconds > 0 else 0.0,
            lateness_p99_ms=1000 * lateness[(len(lateness) * 99 - 1) // 100] if lateness else 0.0,
            rows_reset=self.rows_reset,
            state=state,
            fault=self.fault,
        )
        self.errors = self.unknown = self.reconnects = self.rows_reset = 0
        # Nobody retries in every interval: what keeps all clients away stays named.
        self.fault = self.fault if state == "waiting" else None
        self.start_s, self._cpu_s = end_s, cpu_s
        return interval

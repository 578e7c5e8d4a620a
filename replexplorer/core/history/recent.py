"""The load's figures of the last moments, all of one window.

Law: TPS, percentiles, the slowest commit and the counts are of the same stretch of time, the latencies
of one merged histogram: max >= p99 >= p95 >= p50, whatever came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.load.load_view import LoadView
from replexplorer.core.stats.histogram import Histogram

ENOUGH: Final[Mapping[str, int]] = {"p50": 5, "p95": 20, "p99": 100}
"""Commits that a percentile needs behind it to be drawn as a line."""
_COUNTED: Final = ("errors", "unknown", "reconnects", "deadlocks", "lock_timeouts", "conflicts", "dropped")
_USUAL_S: Final = 0.5
"""Length of an interval that does not say it."""


@dataclass(frozen=True, slots=True)
class Recent:
    """What every screen shows of the load now; an unknown figure is None."""

    length_s: float = 0.0
    """Length of the window; 0 when unknown."""
    n: int = 0
    """Commits in it."""
    tps: float | None = None
    qps: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    mean_ms: float | None = None
    """The server's mean time for the commit, where `is_by_server`."""
    is_by_server: bool = False
    """Other people's clients, of whom the server's counters are all that is known."""
    is_mixed: bool = False
    """A change took effect within it: its figures belong to neither side."""
    is_told: bool = False
    """The figures are as they came, without the histogram that would say how much stands behind them."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Errors, unknown outcomes, reconnects, deadlocks, lock timeouts and dropped arrivals."""

    def latency_ms(self, name: str) -> float | None:
        """`p50`, `p95`, `p99` or `max`."""
        found: float | None = getattr(self, f"{name}_ms")
        return found

    def is_firm(self, name: str) -> bool:
        """Whether enough commits of one setting stand behind a percentile."""
        enough = self.is_told or self.n >= ENOUGH.get(name, 1)
        return enough and not self.is_mixed and self.latency_ms(name) is not None

    def per_second(self, counted: str) -> float:
        """Errors, dropped arrivals and so on as a rate."""
        return self.counts.get(counted, 0) / (self.length_s if self.length_s > 0 else _USUAL_S)


def recent_of(parts: Sequence[LoadView], length_s: float, *, is_mixed: bool = False) -> Recent:
    """Several intervals of the load as one window of that length, the newest last; one alone where it
    brings no histogram."""
    newest = parts[-1]
    counts = {name: sum(getattr(part, name) for part in parts) for name in _COUNTED}
    if newest.latency is None:
        figures = {name: newest.latency_ms(name) for name in (*ENOUGH, "max")}
        n, tps = newest.n, newest.tps
    else:
        merged = Histogram.merged(part.latency for part in parts if part.latency is not None)
        figures = {name: merged.percentile_ms(float(name[1:])) for name in ENOUGH} | {"max": merged.max_ms}
        n, tps = merged.count, merged.count / length_s if length_s > 0 else newest.tps
    asked = [part for part in parts if part.qps is not None and part.duration_s > 0]
    asked_s = sum(part.duration_s for part in asked)
    return Recent(
        length_s,
        n,
        tps,
        sum((part.qps or 0.0) * part.duration_s for part in asked) / asked_s if asked else newest.qps,
        p50_ms=figures["p50"],
        p95_ms=figures["p95"],
        p99_ms=figures["p99"],
        max_ms=figures["max"],
        mean_ms=newest.mean_ms if newest.is_by_server else None,
        is_by_server=newest.is_by_server,
        is_mixed=is_mixed,
        is_told=newest.latency is None,
        counts=counts,
    )

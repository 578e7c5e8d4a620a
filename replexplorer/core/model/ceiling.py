"""The bound on TPS that the link sets (docs/explanation/model.md, "The formula"), and commits that beat it.

Law: the bound comes from things that are measured apart from the commits it bounds: the probe's round
trip, and commits that waited for no link. It is never lowered to fit. Commits that beat it by more than
the measurements err are a finding: the probe reads too high, or commits do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import (
    LEAST_BATCH_LATENCIES,
    LEAST_BATCH_S,
    bounds_of,
    spread_of,
    t_quantile_975,
)

_PROBE_ERROR: Final = 0.02
"""How far a probe may be off, as a part of the round trip,"""
_PROBE_ERROR_MS: Final = 0.5
"""or in ms where that is more: a process that wakes for it is in what it measures."""
_WINDOW: Final = 60
"""Readings that are compared."""


@frozen
class Ceiling:
    """The link's bound on TPS (docs/explanation/model.md) and its terms: clients / (rtt + local)."""

    tps: float
    clients: int
    rtt_ms: float
    local_ms: float
    """Execute and fsync time of one commit, from the measured async mean; 0 when none was seen."""
    beaten_tps: float | None = None
    """What commits reach, where that is beyond it by more than the measurements err; None: they do not."""

    @property
    def most_tps(self) -> float:
        """The bound if the probe reads as much too high as it may."""
        commit_ms = self.rtt_ms + self.local_ms
        error_ms = max(_PROBE_ERROR * self.rtt_ms, _PROBE_ERROR_MS)
        least_ms = max(commit_ms - error_ms, commit_ms / 10)
        return self.clients * 1000 / least_ms


def bound(clients: int, rtt_ms: float | None, local_ms: float | None) -> Ceiling | None:
    """Clients / (RTT + local): what semi-sync allows when every client commits once a round trip.

    `rtt_ms` is the probe's, `local_ms` execute and fsync time of one commit, measured while async;
    unknown counts as 0, which keeps it a bound. None when no round trip is known or nothing bounds: no
    client, or no time at all. While semi-sync is off nobody should ask.
    """
    commit_ms = (rtt_ms or 0.0) + (local_ms or 0.0)
    if clients < 1 or rtt_ms is None or commit_ms <= 0:
        return None
    return Ceiling(clients * 1000 / commit_ms, clients, rtt_ms, local_ms or 0.0)


def beaten(
    ceiling: Ceiling, tps: Sequence[float], bounds_tps: Sequence[float] | None = None, *, each_s: float
) -> float | None:
    """The mean of `tps`, where it is beyond the ceiling; None where it is not, or nobody can tell yet.

    Readings of `each_s` seconds, and the bounds as they were known at each, or the ceiling throughout: the
    interval of their ratio holds what either scatters by, and beyond it the probe may be off by 2 % or
    0.5 ms.
    """
    others = bounds_tps or [ceiling.tps] * len(tps)
    if not tps:
        return None
    ratio, other = sum(tps) / sum(others), sum(others) / len(others)
    # Residuals of a ratio of means (Cochran 1977, 6.4): where bounds scatter a mean of ratios is too high.
    shares = [ratio + (one - ratio * each) / other for one, each in zip(tps, others, strict=True)]
    least_s = max(LEAST_BATCH_S, LEAST_BATCH_LATENCIES * ceiling.clients / ceiling.tps)
    spread = spread_of(shares, each_s, least_s)
    if spread is None:
        return None
    low, _ = bounds_of(ratio, spread.variance, t_quantile_975(spread.freedom), 0.0)
    return sum(tps) / len(tps) if low is not None and low * ceiling.tps > ceiling.most_tps else None


@dataclass(slots=True)
class CeilingWatch:
    """Compares what commits reach with the ceiling over the last readings."""

    _since: object = None
    _tps: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    _bounds_tps: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def take(self, ceiling: Ceiling | None, tps: float | None, each_s: float, since: object) -> float | None:
        """A reading of `each_s` seconds; what commits reach where they beat the ceiling.

        `since` names the state of things: readings of another one are forgotten.
        """
        if ceiling is None or since != self._since:
            self._since = since
            self._tps.clear()
            self._bounds_tps.clear()
        if ceiling is None or tps is None:
            return None
        self._tps.append(tps)
        self._bounds_tps.append(ceiling.tps)
        return beaten(ceiling, self._tps, self._bounds_tps, each_s=each_s)


def beaten_words(ceiling: Ceiling) -> str:
    """`commits beat the ceiling, 13.1 > 11.4 TPS: ...`, with what that can mean."""
    return (
        f"commits beat the ceiling, {ceiling.beaten_tps:.1f} > {ceiling.tps:.1f} TPS: the probe of"
        f" {ceiling.rtt_ms:.1f} ms reads too high, or commits do not wait for the link"
    )


def local_cost_ms(clients: int, service: Histogram) -> float | None:
    """What commits cost that waited for no link: one client's mean, which with more clients holds their
    queueing as well and would make the bound too low, so that it is the fastest commit then; None without
    a commit."""
    return service.mean_ms if clients == 1 else service.min_ms


def acknowledging_rtt_ms(rtts_ms: Sequence[float | None], required: int) -> float | None:
    """The round trip that a commit waits for: the `required`-th fastest replica's.

    None when fewer links than that are known.
    """
    known = sorted(rtt for rtt in rtts_ms if rtt is not None)
    return known[required - 1] if 1 <= required <= len(known) else None

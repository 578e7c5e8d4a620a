"""The bound on TPS that the link sets (docs/facts.md, "The model")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The k=1 bound of TPS with its terms (docs/facts.md, "The model"): clients / (rtt + local)."""

    tps: float
    clients: int
    rtt_ms: float
    local_ms: float
    """Execute and fsync time of one commit, from the measured async mean; 0 when none was seen."""


def bound(
    clients: int, rtt_ms: float | None, local_ms: float | None, fastest_ms: float | None = None
) -> Ceiling | None:
    """Clients / (RTT + local): what semi-sync allows when every client commits once a round trip.

    `local_ms` is execute and fsync time of one commit, measured while async; unknown counts as 0,
    which keeps it a bound. `fastest_ms` is the fastest commit of those that are measured now: no
    commit takes less than the two terms together, so where it did they were measured too high (a
    probe that waited for a core, a busy machine), and they are taken down to it, the local one first.
    In the closed loop the TPS is then never above the bound (Little: clients = TPS x mean latency).
    None when no round trip is known or nothing bounds: no client, or no time at all. While semi-sync
    is off nobody should ask.
    """
    if clients < 1 or rtt_ms is None:
        return None
    local = local_ms or 0.0
    if fastest_ms is not None:
        rtt_ms = min(rtt_ms, fastest_ms)
        local = min(local, fastest_ms - rtt_ms)
    commit_ms = rtt_ms + local
    if commit_ms <= 0:
        return None
    return Ceiling(tps=clients * 1000 / commit_ms, clients=clients, rtt_ms=rtt_ms, local_ms=local)


def acknowledging_rtt_ms(rtts_ms: Sequence[float | None], required: int) -> float | None:
    """The round trip that a commit waits for: the `required`-th fastest replica's.

    None when fewer links than that are known.
    """
    known = sorted(rtt for rtt in rtts_ms if rtt is not None)
    return known[required - 1] if 1 <= required <= len(known) else None

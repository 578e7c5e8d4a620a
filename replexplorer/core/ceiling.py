"""The bound on TPS that the link sets (DOMAIN.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.tick import Ceiling


def bound(clients: int, rtt_ms: float | None, local_ms: float | None) -> Ceiling | None:
    """Clients / (RTT + local): what semi-sync allows when every client commits once a round trip.

    `local_ms` is execute and fsync time of one commit, from the mean latency measured while
    async; unknown counts as 0, which keeps it a bound. None when no round trip is known or
    nothing bounds: no client, or no time at all. While semi-sync is off nobody should ask.
    """
    if clients < 1 or rtt_ms is None:
        return None
    local = local_ms or 0.0
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

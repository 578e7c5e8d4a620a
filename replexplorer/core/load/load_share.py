"""What one of several generator processes has of a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replexplorer.core.load.pacing import rate_parts


@dataclass(frozen=True, slots=True)
class LoadShare:
    """One process's part of a load; by default all of it."""

    clients: int
    share: float = 1.0
    """Of the clients."""
    leads: bool = True
    """It prepares and truncates the tables."""
    rate_tps: float | None = None
    """Its arrivals per second; those of all processes add up to the rate asked for, to the last bit.
    None: all of them."""
    origin_s: float | None = None
    """Intervals end at whole intervals after this time; None: after the first transaction's begin."""
    phase: float | None = None
    """Which part of the arrivals comes before its own in an even row (`Pace.phase`)."""
    waits: bool = False
    """Its clients log in and begin when it is told to, so that all processes begin at one moment."""


def shares_of(
    clients: Sequence[int], rate_tps: float, origin_s: float | None = None, *, waits: bool = False
) -> list[LoadShare]:
    """What each process has of a load whose clients are shared out so; the first one leads.

    With an `origin_s` the others cut their intervals from it on; a first one without it says where it is.
    """
    total, parts, before = sum(clients), list[LoadShare](), 0
    for mine, part_tps in zip(clients, rate_parts(rate_tps, clients), strict=True):
        share, phase = (mine / total, before / total) if total else (1.0, 0.0)
        parts.append(LoadShare(mine, share, not parts, part_tps, origin_s if parts else None, phase, waits))
        before += mine
    return parts

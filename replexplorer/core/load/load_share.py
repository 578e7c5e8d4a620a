"""What one of several generator processes has of a load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadShare:
    """One process's part of a load; by default all of it."""

    clients: int
    share: float = 1.0
    """Of the arrivals of the open loop."""
    leads: bool = True
    """It prepares and truncates the tables."""
    origin_s: float | None = None
    """Intervals end at whole intervals after this time; None: after the first transaction's begin."""
    phase: float | None = None
    """Which part of the arrivals comes before its own in an even row (`Pace.phase`)."""

"""From the round trip that was asked to the delay on each side, and back.

Law: `rtt` is the total between primary and replica. The bare path and what an agent's own queue adds
are within it, not on top; a round trip below what the path can do is a floor, said and not hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TOLERATED_MS = 1.0
TOLERATED_SHARE = 0.05
SNAP_MS = 0.002
"""Agents keep microseconds: a sum that differs by less is the figure that was asked."""


class Egress(Protocol):
    """One side of a link: `ports.LinkState`, as far as the arithmetic needs it."""

    @property
    def delay_ms(self) -> float:
        """One-way delay in force."""
        ...

    @property
    def base_ms(self) -> float | None:
        """Round trip of the bare path; None when unknown."""
        ...

    @property
    def overhead_ms(self) -> float:
        """What the queue itself adds, one way: the smallest delay there is above none."""
        ...


@dataclass(frozen=True, slots=True)
class Delays:
    """The one-way delays that make a round trip."""

    to_replica_ms: float
    """On the primary's egress."""
    to_primary_ms: float
    """On the replica's egress."""
    floor_ms: float | None = None
    """The smallest round trip that can be installed above none, when less than that was asked."""


def base_rtt_ms(towards: Egress, back: Egress) -> float:
    """The bare path's round trip: the primary's figure, else the replica's, else nothing."""
    known = towards.base_ms if towards.base_ms is not None else back.base_ms
    return known or 0.0


def split_rtt(asked_ms: float, towards: Egress, back: Egress) -> Delays:
    """The delays for a total round trip: what the path does not take itself, half on each side.

    What is too little for two queues takes one; what is too little for one is the floor, no delay.
    """
    base_ms = base_rtt_ms(towards, back)
    rest_ms = asked_ms - base_ms
    half_ms = rest_ms / 2
    if asked_ms <= 0:
        return Delays(0.0, 0.0)
    if half_ms > 0 and half_ms >= max(towards.overhead_ms, back.overhead_ms):
        return Delays(half_ms, half_ms)
    if rest_ms > 0 and rest_ms >= towards.overhead_ms:
        return Delays(rest_ms, 0.0)
    return Delays(0.0, 0.0, floor_ms=base_ms + towards.overhead_ms)


def installed_rtt_ms(asked_ms: float | None, towards: Egress, back: Egress) -> float:
    """The round trip that the two sides have in force: 0 when nothing is asked and nothing installed,
    else the delays and the bare path."""
    delays_ms = towards.delay_ms + back.delay_ms
    if delays_ms == 0 and not asked_ms:
        return 0.0
    installed_ms = base_rtt_ms(towards, back) + delays_ms
    if asked_ms is not None and abs(installed_ms - asked_ms) < SNAP_MS:
        return asked_ms
    return round(installed_ms, 3)


def contradiction(asked_ms: float | None, measured_ms: float | None, base_ms: float | None) -> str | None:
    """What the measurement says against what was asked, in words; None when they agree or one is
    unknown. They disagree when they differ by more than 1 ms and more than 5 %."""
    if asked_ms is None or measured_ms is None:
        return None
    expected_ms = max(asked_ms, base_ms or 0.0)
    if abs(measured_ms - expected_ms) <= max(TOLERATED_MS, TOLERATED_SHARE * expected_ms):
        return None
    return f"asked {expected_ms:.4g} ms, measured {measured_ms:.4g} ms"

"""What one side of a link does to the packets of one direction; the backends carry it out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A direction as a backend installs it; the default does nothing and has no rule."""

    hold_us: int = 0
    """Each packet is held so long."""
    jitter_us: int = 0
    """Standard deviation of that time, normal; packets keep their order."""
    loss_percent: float = 0.0
    """Of packets, each on its own."""
    bandwidth_bps: int = 0
    """Bits a second; 0 is no limit."""
    cut: bool = False
    """Every packet is lost."""

    @property
    def is_plain(self) -> bool:
        """Nothing is asked: the rule is to be absent."""
        return self == Shape()

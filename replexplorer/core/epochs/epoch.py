"""What one change did: the figures before it and since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.outage import Outage
from replexplorer.core.stats.measured import Estimate

TOO_SHORT: Final = "too short"
TOO_NOISY: Final = "too noisy"
BEFORE: Final = " before"
"""Behind either: it is the epoch before that lacks something."""


@dataclass(frozen=True, slots=True)
class EpochSide:
    """An epoch's figures; latencies are responses in the open loop."""

    tps: Estimate = field(default_factory=Estimate)
    p50_ms: Estimate = field(default_factory=Estimate)
    p95_ms: Estimate = field(default_factory=Estimate)
    p99_ms: Estimate = field(default_factory=Estimate)
    n: int = 0
    """Commits."""
    length_s: float = 0.0
    """What was measured, the transition left out."""
    outage: Outage = field(default_factory=Outage)
    """What stood in the way of commits meanwhile: then the figures are of no one state."""
    exposure: Exposure | None = None
    """What a failure would have lost meanwhile (`exposure_meter.over_time`); None before any look."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one change did: the figures before it and since."""

    number: int
    at_s: float
    """When its change was in force, where its mark stands; until then, when the change began."""
    title: str
    """`rtt 20 -> 85 ms`, `baseline`."""
    before_tps: float | None
    after_tps: float | None
    delta_percent: float | None = None
    """Of the tested figure: TPS in the closed loop, response p95 in the open one; -100 or more."""
    ci_percent: float | None = None
    """Half the width of the difference's interval; None: still measuring, or without an end."""
    verdict: str = "measuring"
    """baseline, measuring, faster, slower, no difference shown, not comparable (the load's mode was
    another one before), outage (on either side: nothing is compared), too short (it ended before there were
    ten batches), too noisy (there are, and what they share is too much for two independent ones); too short
    before, too noisy before: the epoch before was, which nothing changes any more."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    n: int = 0
    mode: str = "closed"
    """The load's mode: closed or open."""
    low_percent: float | None = None
    high_percent: float | None = None
    """The difference's 95 % interval, which holds at every moment of the epoch at once; None: no
    bound on this side."""
    effect: float | None = None
    """Cohen's d: the difference in standard deviations of single seconds."""
    before: EpochSide | None = None
    after: EpochSide | None = None
    """Figures with intervals of their own, without a verdict."""

    more_s: float | None = None
    """How many seconds more would do, where it is too short or too noisy; None: not known."""

    @property
    def ratio(self) -> float | None:
        """The tested figure after divided by before; None where it is not compared or was 0 before."""
        return _ratio(self.delta_percent)

    @property
    def low_ratio(self) -> float | None:
        """The lower end of the ratio's interval, never below 0; None: no bound."""
        return _ratio(self.low_percent)

    @property
    def high_ratio(self) -> float | None:
        """The upper end of the ratio's interval; None: no bound."""
        return _ratio(self.high_percent)


def _ratio(percent: float | None) -> float | None:
    """Of a change; a recording from before intervals were those of ratios may hold one below -100 %."""
    return None if percent is None else max(0.0, 1 + percent / 100)

"""The figures of a load that was measured: its intervals, one by one and merged."""

from __future__ import annotations

from dataclasses import dataclass, field

from replexplorer.core.load.interval import Interval
from replexplorer.core.stats.histogram import Histogram


@dataclass(slots=True)
class Measurement:
    """Merged figures of a stretch of load."""

    intervals: list[Interval] = field(default_factory=list)
    total: Interval | None = None
    """All of them as one; None before the first."""
    duration_s: float = 0.0

    def add(self, interval: Interval) -> None:
        """Take one interval."""
        self.intervals.append(interval)
        self.duration_s += interval.duration_s
        self.total = interval if self.total is None else self.total.followed_by(interval)

    def extend_last(self, interval: Interval) -> None:
        """Take what a drain made into the last interval: its transactions were intended within it."""
        self.intervals[-1] = self.intervals[-1].followed_by(interval)
        self.duration_s += interval.duration_s
        self.total = interval if self.total is None else self.total.followed_by(interval)

    @property
    def service(self) -> Histogram:
        """Begin to reply of every acknowledged transaction."""
        return Histogram() if self.total is None else self.total.service

    @property
    def errors(self) -> int:
        """Transactions that came to nothing."""
        return 0 if self.total is None else self.total.errors

    @property
    def unknown(self) -> int:
        """Commits whose outcome is unknown."""
        return 0 if self.total is None else self.total.unknown

    @property
    def reconnects(self) -> int:
        """Connections recreated."""
        return 0 if self.total is None else self.total.reconnects

    @property
    def commits(self) -> int:
        """Acknowledged transactions."""
        return self.service.count

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def cpu_percent(self) -> float | None:
        """Mean CPU of the generator, in percent of one core."""
        return None if self.total is None else self.total.cpu_percent

    @property
    def lateness_p99_ms(self) -> float | None:
        """The generator's lateness over the whole stretch."""
        return None if self.total is None else self.total.lateness_p99_ms

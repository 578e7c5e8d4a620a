"""A load in the foreground and its figures: what `load` prints and what a lab's phase rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval
from replexplorer.engine.load import LoadDriver
from replexplorer.ports import Clock

IntervalCallback = Callable[[Interval], None]


@dataclass(slots=True)
class Measurement:
    """Merged figures of a stretch of load."""

    service: Histogram = field(default_factory=Histogram)
    intervals: list[Interval] = field(default_factory=list)
    duration_s: float = 0.0
    errors: int = 0
    unknown: int = 0
    reconnects: int = 0

    def add(self, interval: Interval) -> None:
        """Take one interval."""
        self.intervals.append(interval)
        self.service.add(interval.service)
        self.duration_s += interval.duration_s
        self.errors += interval.errors
        self.unknown += interval.unknown
        self.reconnects += interval.reconnects

    @property
    def commits(self) -> int:
        """Acknowledged commits."""
        return self.service.count

    @property
    def tps(self) -> float:
        """Acknowledged commits per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def cpu_percent(self) -> float | None:
        """Mean CPU of the generator, in percent of one core."""
        if not self.duration_s:
            return None
        return sum(each.cpu_percent * each.duration_s for each in self.intervals) / self.duration_s

    @property
    def lateness_p99_ms(self) -> float | None:
        """The worst interval's lateness of the generator's timers."""
        return max((each.lateness_p99_ms for each in self.intervals), default=None)


async def measure(
    load: LoadDriver,
    clock: Clock,
    *,
    duration_s: float,
    warmup_s: float = 0.0,
    on_interval: IntervalCallback = lambda _: None,
) -> Measurement:
    """Let the running load run and merge its intervals that begin after the warm-up.

    Ends with the interval that completes the duration. Raises StackUnavailable when the load
    ends by itself.
    """
    load.take()
    load.arrived.clear()
    from_s = clock.monotonic() + warmup_s
    measured = Measurement()
    while True:
        for interval in load.take():
            on_interval(interval)
            if interval.state != "preparing" and (not warmup_s or interval.start_s >= from_s):
                measured.add(interval)
        if measured.duration_s >= duration_s - 0.05:
            return measured
        if not load.is_running:
            raise StackUnavailable(load.fault or "the load ended", "`replexplorer status` shows the stack")
        await load.arrived.wait()
        load.arrived.clear()

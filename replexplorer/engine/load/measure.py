"""A load in the foreground and its figures: what `load` prints and what a lab's phase rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.load.driver import Inbox, LoadDriver
from replexplorer.ports import Clock

IntervalCallback = Callable[[Interval], None]


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
        """Connections made anew."""
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


async def measure(
    load: LoadDriver,
    clock: Clock,
    *,
    duration_s: float,
    commits: int = 0,
    warmup_s: float = 0.0,
    from_s: float | None = None,
    on_interval: IntervalCallback = lambda _: None,
    into: Measurement | None = None,
) -> Measurement:
    """Let the running load run and merge its intervals that begin after the warm-up, or from a moment on,
    `into` what the caller keeps when it ends before its time.

    Ends with the interval that completes the duration and as many commits as asked; an open loop's
    backlog is drained then, so that no slow arrival is left out. Raises StackUnavailable when the load
    ends by itself, or has lost its stack.
    """
    if from_s is None and warmup_s:
        from_s = clock.monotonic() + warmup_s
    measured = Measurement() if into is None else into
    with load.listening() as inbox:
        while measured.duration_s < duration_s - 0.05 or measured.commits < commits or not measured.intervals:
            for interval in await _next(load, inbox):
                on_interval(interval)
                if interval.state != "preparing" and (from_s is None or interval.start_s >= from_s):
                    measured.add(interval)
        if measured.intervals[-1].mode == OPEN:
            await _drain(load, inbox, measured, on_interval)
    return measured


async def _drain(
    load: LoadDriver, inbox: Inbox, measured: Measurement, on_interval: IntervalCallback
) -> None:
    """Serve who waits and take what that made."""
    await load.drain()
    while True:
        for interval in await _next(load, inbox):
            measured.extend_last(interval)
            if interval.state == "drained":
                return
            on_interval(interval)


async def _next(load: LoadDriver, inbox: Inbox) -> Sequence[Interval]:
    """The next intervals, at least one; raises StackUnavailable when the load ended."""
    while not (taken := inbox.take()):
        if load.lost is not None:
            raise StackUnavailable(load.lost, "`replexplorer up` makes it again")
        if not load.is_running:
            raise StackUnavailable(load.fault or "the load ended", "`replexplorer status` shows the stack")
        inbox.arrived.clear()
        await inbox.arrived.wait()
    return taken

"""Measuring the load that runs: what `load` prints and what an experiment's figures rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.measurement import Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.engine.load.driver import Inbox, LoadDriver
from replexplorer.ports import Clock

IntervalCallback = Callable[[Interval], None]


async def measure(
    load: LoadDriver,
    clock: Clock,
    *,
    duration_s: float,
    commits: int = 0,
    from_s: float | None = None,
    on_interval: IntervalCallback = lambda _: None,
    into: Measurement | None = None,
) -> Measurement:
    """Let the running load run and merge its intervals, or those that begin from a moment on,
    `into` what the caller keeps when it ends before its time.

    Ends with the interval that completes the duration and as many commits as asked; an open loop's
    backlog is drained then, so that no slow arrival is left out. Raises StackUnavailable when the load
    ends by itself, or has lost its stack.
    """
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

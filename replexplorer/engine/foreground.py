"""A load in the foreground: driven, measured and taken apart for whoever waits for its report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.machine import Machine, busy_percent
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.counters import CommitCost, CostSample, commit_cost
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.load import Driving, LoadDriver, load_knobs, measure
from replexplorer.engine.observe.samples import sample_cost, source_machine
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.observe.window import Gathering
from replexplorer.engine.record import EventLog
from replexplorer.ports import LoadSettings


@dataclass(slots=True)
class Foreground:
    """One load of a session, from its first connection to its last interval."""

    state: StackState
    load: LoadDriver
    driving: Driving
    event_log: EventLog
    rig: StackApi
    measured: Measurement = field(default_factory=Measurement)
    """What counts of it so far, after the warm-up."""
    path: str = ""
    """How it reaches the source: `direct` or `published`; empty before `drive`."""
    cost: CommitCost | None = None
    """What a commit cost the servers; None where that is not known, and before the end of `measure`."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, while that counted; None where no agent
    says, and before the end of `measure`."""
    _gathering: Gathering = field(default_factory=Gathering)

    def requested(self) -> LoadSettings:
        """The load as the knobs ask for it."""
        return self.driving.settings()

    def knobs(self) -> Collection[str]:
        """Keys of the knobs that a load takes its settings from."""
        return load_knobs(self.requested())

    async def drive(self, settings: LoadSettings, on_preparing: Callable[[float | None], None]) -> None:
        """Begin; `on_preparing` hears how far its table is made, 0..1. Raises StackUnavailable naming the
        driver when somebody else drives."""
        self.load.on_progress = lambda _, done: on_preparing(done)
        await self.driving.drive(settings)
        # Not looked for again: a source that goes away now has a load that is measured, and waits for it.
        self.path = "" if self.load.target is None else self.load.target.path

    async def measure(
        self, *, duration_s: float, warmup_s: float, on_interval: Callable[[Interval], None]
    ) -> None:
        """Let it run for this long after its warm-up; `on_interval` hears all of it. Raises
        StackUnavailable when it ends by itself; `measured` has what counted until then."""

        clock = self.state.fleet.outside.clock
        from_s = clock.monotonic() + warmup_s if warmup_s else None

        def take(interval: Interval) -> None:
            if interval.state not in ("preparing", "drained") and (
                from_s is None or interval.start_s >= from_s
            ):
                self._gathering.add(interval, self.state.window.newest, self.event_log.unchanged_since_s)
            on_interval(interval)

        async def after_warmup() -> tuple[CostSample | None, Machine | None]:
            if warmup_s:
                await clock.sleep(warmup_s)
            return await sample_cost(self.state.fleet), await source_machine(self.state.fleet)

        before = asyncio.create_task(after_warmup(), name="cost before")
        try:
            await measure(
                self.load, clock, duration_s=duration_s, from_s=from_s, on_interval=take, into=self.measured
            )
            after = await source_machine(self.state.fleet)
            cost, machine = await before
            costs = cost, await sample_cost(self.state.fleet)
        finally:
            before.cancel()
        self.machine_percent = busy_percent(machine, after)
        self.cost = commit_cost(*costs, acknowledged=self.measured.commits)

    async def reckon(self) -> LossLedger | None:
        """End it and compare what its clients were told with the rows on each node, the source the survivor.

        None for a load whose clients keep no log. Raises StackUnavailable where the source does not answer.
        """
        if self.load.settings is None or self.load.settings.ledger is None:
            return None
        return await self.rig.reckon(self.state.fleet.source_name)

    def is_its_end(self, text: str) -> bool:
        """Whether an event's text says why the load ended, which `measure` raises as well."""
        return text in (self.load.fault, self.load.lost)

    # -- once an interval was measured

    @property
    def span_s(self) -> tuple[float, float]:
        """From when to when it was measured, in seconds since the session began."""
        first, last = self.measured.intervals[0], self.measured.intervals[-1]
        return first.start_s - self.event_log.began_s, last.end_s - self.event_log.began_s

    @property
    def started_wall_s(self) -> float:
        """When the first measured interval began, in seconds since 1970."""
        clock = self.state.fleet.outside.clock
        return clock.wall() - (clock.monotonic() - self.measured.intervals[0].start_s)

    def anatomy(self) -> Anatomy | None:
        """The mean commit taken apart, with from when to when it counts, since the first measured interval;
        None before two looks at the source's counters."""
        found, covers = self._gathering.anatomy(), self._gathering.covers
        if found is None or not covers:
            return found
        from_s, to_s = (at_s - self.measured.intervals[0].start_s for at_s in covers)
        return replace(found, from_s=from_s, to_s=to_s)

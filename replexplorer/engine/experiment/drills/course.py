"""What a drill goes through: protection states, falls back, faults in force, what was done when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.drill_verdict import FaultSpan, StateAt, noted
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.fault import Fault, written
from replexplorer.core.load.measurement import Measurement
from replexplorer.core.server.commit_cost import CostSample
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.membership import MemberWatch
from replexplorer.engine.experiment.rig import Rig

_LOOK_EVERY_S: Final = 0.25
_READ_EVERY_S: Final = 0.05
"""Half as long as the meter takes between two looks."""


@dataclass(slots=True)
class DrillCourse:
    """One run's course; seconds since it began."""

    rig: Rig
    began_s: float
    """On the monotonic clock."""
    timeline: tuple[StateAt, ...] = ()
    windows: tuple[FaultSpan, ...] = ()
    told: list[tuple[float, str]] = field(default_factory=list)
    fallbacks: int | None = None
    measured: Measurement = field(default_factory=Measurement)
    """Of the load, for the pace of what waits for it."""
    readings: list[tuple[float, Exposure]] = field(default_factory=list)
    """What the meter said, each with its second."""
    costs: list[tuple[float, CostSample]] = field(default_factory=list)
    """What the servers' work had cost at its beginning and right before the first fault, each with its
    second."""
    failed_s: float | None = None
    """When the failure was complete; None before."""
    silences: bool = False
    """It ended all commits."""
    mended_s: float | None = None
    """When the mending of the last fault began."""
    _before: int | None = None
    """Falls back, by the server's own count, at the look before."""
    _members: dict[str, MemberWatch] = field(default_factory=dict)
    """Of a group: what each says of itself, one that is cut off too."""
    _measuring: asyncio.Task[object] | None = None

    def now_s(self) -> float:
        """Seconds since it began."""
        return self.rig.clock.monotonic() - self.began_s

    def tell(self, text: str) -> None:
        """Note what was done or seen."""
        self.told.append((self.now_s(), text))

    def take(self, seen: Sighting) -> None:
        """Note what a look has seen."""
        state = seen.protection.state.value
        if not self.timeline or self.timeline[-1].state != state:
            self.tell(f"protection: {state}")
        self.timeline = noted(self.timeline, self.now_s(), state)
        for node in seen.nodes:
            for _, text in self._members.setdefault(node.name, MemberWatch(node.name)).seen(node.member):
                self.tell(text)
        count = seen.protection.fallbacks
        if count is not None:
            if self._before is not None:
                grown = count - self._before if count >= self._before else count  # a restart counts from 0
                self.fallbacks = (self.fallbacks or 0) + grown
            self._before = count
            self.fallbacks = self.fallbacks or 0

    def read_meter(self) -> None:
        """Note what the meter said since it was read last."""
        found = self.rig.at_risk()
        if found is not None:
            read_s, exposure = found[0] - self.began_s, found[1]
            if not self.readings or self.readings[-1][0] < read_s:
                self.readings.append((read_s, exposure))

    async def count_cost(self) -> None:
        """Note what the servers' work has cost so far; nothing where the source does not answer."""
        at_s = self.now_s()
        found = await self.rig.cost()
        if found is not None:
            self.costs.append((at_s, found))

    def opened(self, faults: Sequence[Fault], from_s: float) -> None:
        """These are in force since a moment."""
        self.windows += tuple(
            FaultSpan(written(fault.kind, fault.value), fault.node, from_s, None) for fault in faults
        )

    def closed(self, faults: Sequence[Fault], to_s: float) -> None:
        """These are over."""
        over = {(written(fault.kind, fault.value), fault.node) for fault in faults}
        self.windows = tuple(
            replace(each, to_s=to_s) if each.to_s is None and (each.fault, each.node) in over else each
            for each in self.windows
        )

    def left_behind(self, node: str) -> None:
        """The node is the source no more: what was done to it has no effect on clients any longer."""
        to_s = self.now_s()
        self.windows = tuple(
            replace(each, to_s=to_s) if each.to_s is None and each.node == node else each
            for each in self.windows
        )

    def read_before(self, at_s: float) -> tuple[float, Exposure] | None:
        """The meter's last reading up to a moment; None where there was none."""
        return next((each for each in reversed(self.readings) if each[0] <= at_s), None)

    def check(self) -> None:
        """Raise what ended the measuring of the load, if anything did."""
        if self._measuring is not None and self._measuring.done():
            self._measuring.result()

    def writes_since(self, at_s: float) -> bool:
        """Whether an interval of the load that began after a moment of the monotonic clock had commits."""
        return any(each.commits for each in self.measured.intervals if each.start_s >= at_s)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look on, and measure the load, until the block ends."""
        self._measuring = asyncio.create_task(
            self.rig.load.measure(duration_s=inf, into=self.measured), name="drill load"
        )
        looking = asyncio.create_task(self._look_on(), name="drill looks")
        reading = asyncio.create_task(self._read_on(), name="drill meter")
        try:
            yield
            if looking.done():
                looking.result()
        finally:
            tasks = (looking, reading, self._measuring)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._measuring = None

    async def _look_on(self) -> None:
        while True:
            with suppress(ReplexplorerError):
                self.take(await self.rig.look())
            await self.rig.clock.sleep(_LOOK_EVERY_S)

    async def _read_on(self) -> None:
        while True:
            self.read_meter()
            await self.rig.clock.sleep(_READ_EVERY_S)

"""One run of one cell of a sweep: turn the knobs, settle, measure, and judge whether it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.experiment.sweep import Cell, settling_s
from replexplorer.core.experiment.sweep_runs import SweptRun, scatter_of
from replexplorer.core.knobs.names import SOURCE, KnobName, Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.measurement import Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.ceiling import acknowledging_rtt_ms
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.batch_means import LEAST_BATCH_LATENCIES, spread_of
from replexplorer.engine.experiment.baseline import Baseline
from replexplorer.engine.load.measure import measure
from replexplorer.engine.observe.stretch import Stretch

if TYPE_CHECKING:
    from replexplorer.engine.session import Session

_STATE_WITHIN_S: Final = 5.0
_FROM_NOW_S: Final = 1e-3
"""Counts intervals that begin from here on: the one under way began in the settling."""
_CPU_LIMIT_PERCENT: Final = 80.0
"""Of one core: the generator is the limit from there on (`core.interval`)."""

_WORKLOAD: Final = KnobName("workload", "load")
_NOT_MODELLED: Final = frozenset({"jitter", "loss", "bandwidth", "partition", "key_spread", "payload"})
"""Knobs that the model does not look at."""


@dataclass(slots=True)
class CellRun:
    """A run under way; nothing is kept or given back here."""

    session: Session
    cell: Cell
    values: Mapping[KnobName, Value]
    """The cell's, and the clients."""
    duration_s: float
    baseline: Baseline
    """Of the whole sweep."""
    restarted: tuple[str, ...] = ()
    """Servers that began anew while it ran."""
    _intervals: list[Interval] = field(default_factory=list)

    async def measured(self, lost: Mapping[KnobName, Value]) -> SweptRun:
        """Turn the knobs, and those that a restart took; settle; measure.

        A run that says nothing of its cell has a reason `why`. Raises StackUnavailable when a node is
        down or the load ends.
        """
        sight, clock = self.session.sight, self.session.outside.clock
        bare = SweptRun(self.cell.index, 0, 0, clock.wall(), 0.0)
        try:
            await self.session.controls.set({**lost, **self.values})
        except StackUnavailable:
            raise
        except ReplexplorerError as error:
            await self._look()
            return replace(bare, why=f"the knobs could not be turned: {error}")
        self.baseline.turned({**lost, **self.values})
        wanted = self._wanted_state()
        await sight.until_state(wanted, within_s=_STATE_WITHIN_S + settling_s(self.cell.values))
        await clock.sleep(settling_s(self.cell.values))
        await sight.refresh()
        self.baseline.begin()
        first = await sight.look_closely(SOURCE)
        try:
            measured = await measure(
                self.session.load,
                clock,
                duration_s=self.duration_s,
                warmup_s=_FROM_NOW_S,
                on_interval=self._intervals.append,
            )
        except StackUnavailable:
            await self._look()
            raise
        last = await sight.look_closely(SOURCE)
        if measured.total is not None and measured.total.mode == OPEN:
            await self.session.load.change({})  # it was drained, and goes on with the next change
        await self._look()
        why = self._failure(wanted, measured)
        anatomy = Stretch.of(first, last, self._intervals).anatomy()
        parts = {part.value: round(ms, 4) for part, ms in anatomy.parts.items()} if anatomy else None
        return self._figures(replace(bare, anatomy=parts), measured, why)

    async def _look(self) -> None:
        """Look at everything; raise StackUnavailable when a node is down."""
        await self.session.sight.refresh()
        if dead := self.session.sight.nodes_down():
            raise StackUnavailable(
                f"{' and '.join(dead)} went down in the sweep",
                "`replexplorer up` brings it back; the same command continues",
            )

    def _wanted_state(self) -> ProtectionState | None:
        """What the settings ask for; None where a partition makes it no matter of the settings."""
        sight = self.session.sight
        if any(sight.requested_value(KnobName("partition", each)) != "none" for each in sight.links):
            return None
        asked = sight.requested_value(KnobName("semi_sync", SOURCE)) == "on"
        return ProtectionState.PROTECTED if asked else ProtectionState.OFF

    def _failure(self, wanted: ProtectionState | None, measured: Measurement) -> str | None:
        """Why the run says nothing of its settings; None when it does."""
        sight, total = self.session.sight, measured.total
        self.restarted = self.baseline.restarted()
        if self.restarted:
            return f"{' and '.join(self.restarted)} restarted meanwhile"
        if changed := self.baseline.changed(own=self.session.turns.actor.writer):
            return f"changed meanwhile: {'; '.join(changed)}"
        state = sight.protection().state
        if wanted not in (None, state):
            return f"the stack is {state}, not {wanted}"
        if not measured.commits and wanted is not None:
            return "nothing was committed"
        # Its TPS would be the generator's.
        return total.limited if total is not None and total.cpu_busiest_percent > _CPU_LIMIT_PERCENT else None

    def _figures(self, bare: SweptRun, measured: Measurement, why: str | None) -> SweptRun:
        sight, total = self.session.sight, measured.total
        protection = sight.protection()
        rtts = [link.rtt_measured_ms for link in sight.links.values()]
        disk = sight.disks.get(SOURCE)
        # What is drained after an open loop's end makes its last interval longer.
        even = measured.intervals[:-1] if total and total.mode == OPEN else measured.intervals
        each_s = sum(each.duration_s for each in even) / len(even) if even else 1.0
        least_s = LEAST_BATCH_LATENCIES * (measured.service.mean_ms or 0.0) / 1000
        variance, freedom = scatter_of(spread_of([each.tps for each in even], each_s, least_s))
        return replace(
            bare,
            why=why,
            limited=total.limited if total is not None and why is None else None,
            tps=measured.tps,
            variance=variance,
            freedom=freedom,
            duration_s=measured.duration_s,
            service=measured.service,
            response=total.response if total else bare.response,
            errors=measured.errors,
            unknown=measured.unknown,
            rtt_ms=acknowledging_rtt_ms(rtts, protection.replicas_required or 1),
            fsync_ms=disk.measured_ms if disk else None,
            cpu_percent=measured.cpu_percent,
            state=protection.state.value,
            effective={str(name): sight.effective_value(name) for name in self.cell.values},
            setting=asdict(self.session.outlook.setting()) if self._is_modelled(total) else None,
        )

    def _is_modelled(self, total: Interval | None) -> bool:
        """Whether the model looks at all that makes these figures what they are."""
        sight = self.session.sight
        beside = [name for name in sight.names() if name.key in _NOT_MODELLED]
        usual = all(sight.requested_value(name) == name.knob.default for name in beside)
        own = _WORKLOAD.knob.is_file(str(sight.requested_value(_WORKLOAD)))
        return usual and not own and total is not None and total.mode != OPEN

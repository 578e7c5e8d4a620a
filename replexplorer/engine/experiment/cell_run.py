"""One run of one cell of a sweep: turn the knobs, settle, measure, and judge whether it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.experiment.sweep import Cell, settling_s
from replexplorer.core.experiment.sweep_runs import SweptRun, scatter_of
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.measurement import Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.operating_point import is_known
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.batch_means import LEAST_BATCH_LATENCIES, spread_of
from replexplorer.core.topology import SOURCE
from replexplorer.engine.experiment.loan import Loan

_STATE_WITHIN_S: Final = 5.0
_CPU_LIMIT_PERCENT: Final = 80.0
"""Of one core: the generator is the limit from there on (`core.interval`)."""

_WORKLOAD: Final = KnobName(keys.WORKLOAD, "load")


@dataclass(slots=True)
class CellRun:
    """A run under way; what it turns is the sweep's loan."""

    loan: Loan
    cell: Cell
    values: Mapping[KnobName, Value]
    """The cell's, and the clients."""
    duration_s: float
    restarted: tuple[str, ...] = ()
    """Servers that restarted while it ran."""

    async def measured(self) -> SweptRun:
        """Turn the knobs, settle, measure.

        A run that says nothing of its cell has a reason `why`. Raises StackUnavailable when a node is
        down or the load ends.
        """
        loan, load, clock = self.loan, self.loan.rig.load, self.loan.rig.clock
        bare = SweptRun(self.cell.index, 0, 0, clock.wall(), 0.0)
        try:
            await loan.turn(self.values)
        except StackUnavailable:
            raise
        except ReplexplorerError as error:
            await self._look()
            return replace(bare, why=f"the knobs could not be turned: {error}")
        wanted = _wanted_state(loan.rig.seen)
        await loan.until_state(wanted, within_s=_STATE_WITHIN_S + settling_s(self.cell.values))
        await clock.sleep(settling_s(self.cell.values))
        await loan.look()
        try:
            found = await load.measure(duration_s=self.duration_s)
        except StackUnavailable:
            await self._look()
            raise
        measured, anatomy = found.load, found.anatomy
        if measured.total is not None and measured.total.mode == OPEN:
            await load.follow()  # it was drained
        seen = await self._look()
        why = self._failure(seen, wanted, measured)
        parts = {part.value: round(ms, 4) for part, ms in anatomy.parts.items()} if anatomy else None
        bare = replace(bare, anatomy=parts, exposure=found.exposure, cost=found.cost)
        return self._figures(bare, seen, measured, why)

    async def _look(self) -> Sighting:
        """Look at everything; raise StackUnavailable when a node is down."""
        return await self.loan.look_alive("`replexplorer up` brings it back; the same command continues")

    def _failure(self, seen: Sighting, wanted: ProtectionState | None, measured: Measurement) -> str | None:
        """Why the run says nothing of its settings; None when it does."""
        baseline, total = self.loan.baseline, measured.total
        self.restarted = baseline.restarted(seen)
        if self.restarted:
            return f"{' and '.join(self.restarted)} restarted meanwhile"
        if changed := baseline.changed(seen):
            return f"changed meanwhile: {'; '.join(changed)}"
        state = seen.protection.state
        if wanted not in (None, state):
            return f"the stack is {state}, not {wanted}"
        if not measured.commits and wanted is not None:
            return "nothing was committed"
        # Its TPS would be the generator's.
        return total.limited if total is not None and total.cpu_busiest_percent > _CPU_LIMIT_PERCENT else None

    def _figures(self, bare: SweptRun, seen: Sighting, measured: Measurement, why: str | None) -> SweptRun:
        total = measured.total
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
            rtt_ms=seen.rtt_ms,
            fsync_ms=seen.fsync_ms,
            cpu_percent=measured.cpu_percent,
            state=seen.protection.state.value,
            effective={str(name): seen.effective(name) for name in self.cell.values},
            setting=asdict(self.loan.rig.forecast.setting()) if _is_modelled(seen, total) else None,
        )


def _wanted_state(seen: Sighting) -> ProtectionState | None:
    """What the settings ask for; None where a partition makes it no matter of the settings."""
    if _is_cut(seen):
        return None
    asked = seen.requested(KnobName(keys.SEMI_SYNC, SOURCE)) == "on"
    return ProtectionState.PROTECTED if asked else ProtectionState.OFF


def _is_cut(seen: Sighting) -> bool:
    """A partition is asked of one of the links."""
    return any(seen.requested(KnobName(keys.PARTITION, each)) != NO_PARTITION for each in seen.links)


def _is_modelled(seen: Sighting, total: Interval | None) -> bool:
    """Whether the model looks at all that makes these figures what they are."""
    workload = str(seen.requested(_WORKLOAD))
    usual = all(
        view.requested == view.default or is_known(name, workload) for name, view in seen.knobs.items()
    )
    own = _WORKLOAD.knob.is_file(workload)
    return usual and not _is_cut(seen) and not own and total is not None and total.mode != OPEN

"""Running a sweep: every cell settled and measured, each run kept in a journal at once.

A kill leaves the knobs as they were at that cell; the journal's next reader restores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any, Final

from replexplorer.core.change.planner import make_plan
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import Stage, Watch
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.experiment.sweep import Cell, Sweep, settling_s
from replexplorer.core.experiment.sweep_result import ATTEMPTS, Swept, SweptRun
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SEMI_SYNC, KnobName, Value
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.load.interval import Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.machine import busy_percent, short_of_cpu
from replexplorer.core.model.operating_point import is_known
from replexplorer.core.records import dataclass
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.measured import LEAST_BATCH_LATENCIES, spread_of
from replexplorer.engine.experiment.restore_guard import CLIENTS, RestoreGuard, restore_guard
from replexplorer.engine.experiment.run import Conductor, RunJournal, StagesUnderWay
from replexplorer.engine.experiment.stack_api import StackApi

_STATE_WITHIN_S: Final = 5.0
_LOOKED_S: Final = 2.0
"""At the machine before the first run."""
_CPU_LIMIT_PERCENT: Final = 80.0
"""Of one core: the generator is the limit from there on (`core.interval`)."""
_WORKLOAD: Final = KnobName(keys.WORKLOAD, "load")
_DOWN: Final = "run `replexplorer up` to bring it back; the same command continues"


@dataclass(slots=True)
class SweepRun:
    """One run of a sweep (`stack_api.Procedure`)."""

    sweep: Sweep
    watch: Watch = lambda _: None
    fresh: bool = False
    """Start over what an earlier run of the same has left unfinished."""
    runs: list[SweptRun] = field(default_factory=list)
    """All so far, those of an earlier run too."""
    needs_cpu: bool = False
    """Not to be started on a machine that is short of CPU before any load runs."""

    async def run(self, stack: StackApi) -> Swept:
        """Sweep to the end; raises UsageError before anything changes, StackUnavailable when another
        driver holds the load, a node goes down or CPU is short, and what the journal raises."""
        grid = self.sweep.grid
        if self.needs_cpu and (short := await _short_of_cpu(stack)) is not None:
            hint = "end what else runs there, or add `--force`"
            raise StackUnavailable(f"before any load runs: {short}", hint)

        def check(seen: Snapshot) -> None:
            if CLIENTS not in grid.names and not int(seen.requested(CLIENTS)):
                raise UsageError("no client commits", "add clients=N to the sweep, or set clients=N")
            for cell in grid.cells:
                make_plan(stack.state.observed(), cell.values)

        journal = RunJournal(stack.journal("sweep", self.sweep.identity), SweptRun)
        result = Swept(self.sweep, 0, self.runs, server=stack.seen.server, started_wall_s=stack.clock.wall())
        takes_s = self.sweep.repeats * [self.sweep.run_s(cell) for cell in grid.cells]
        stages = StagesUnderWay(self.sweep, self.watch, Conductor(), takes_s)
        guard: RestoreGuard | None = None
        try:
            async with restore_guard(stack, "sweep", grid.text, check=check) as guard:
                await self._passes(guard, journal, result, stages)
        finally:
            result.unrestored = guard.unrestored if guard else ()
            stages.at = 0
            for line in result.unrestored:
                stages.tell("", ended=line)
        result.server, result.ended_wall_s = stack.seen.server, stack.clock.wall()
        result.started_wall_s = min((run.started_wall_s for run in self.runs), default=result.started_wall_s)
        result.journal = await journal.set_aside()
        return result

    async def _passes(
        self, guard: RestoreGuard, journal: RunJournal[SweptRun], result: Swept, stages: StagesUnderWay
    ) -> None:
        """Every cell once in each pass; what failed once more at the pass's end."""
        stack, grid, seen = guard.stack, self.sweep.grid, guard.stack.seen
        seed = int(stack.clock.wall() * 1000) % 2**32 if self.sweep.seed is None else self.sweep.seed
        head: dict[str, Any] = {
            "sweep": grid.text,
            "seed": seed,
            "server": seen.server,
            "on": next((node.server_uuid for node in seen.nodes if node.name == seen.source), None),
        }
        begun, self.runs[:] = await journal.open(head, fresh=self.fresh)
        result.seed, result.resumed = int(begun["seed"]), len(self.runs)
        stages.kept = len(self.runs)
        if self.runs:
            finals = {(run.block, run.cell) for run in self.runs if run.is_final}
            done = f"{len(finals)} of {self.sweep.total} runs are done"
            stages.tell("", ended=f"continuing: {done} (--restart starts over)")
        kept = guard.keep(grid.names)
        await guard.look()
        passes = [self.sweep.order(result.seed, block) for block in range(self.sweep.repeats)]
        order = [(block, cell) for block, cells in enumerate(passes) for cell in cells]
        stages.run_stages = [Stage(grid.describe(cell), "") for _, cell in order]
        stages.left_s = [self.sweep.run_s(cell) for _, cell in order]
        for block, cells in enumerate(passes):
            for attempt in range(1, ATTEMPTS + 1):
                for number, cell in enumerate(cells, block * grid.size + 1):
                    known = [run for run in self.runs if (run.block, run.cell) == (block, cell.index)]
                    if any(run.is_final for run in known) or len(known) >= attempt:
                        continue
                    stages.begin(number, "measuring")
                    began_s = stack.clock.monotonic()
                    bare = SweptRun(cell.index, block, attempt, stack.clock.wall(), 0.0)
                    # What a scene leaves out is not what the run before left.
                    found = await self._measured(guard, cell, {**kept, **cell.values}, bare)
                    run = replace(found, took_s=stack.clock.monotonic() - began_s)
                    await journal.add(run)
                    self.runs.append(run)
                    stages.kept = len(self.runs)
                    stages.tell("", ended=run.words)

    async def _measured(
        self, guard: RestoreGuard, cell: Cell, values: Mapping[KnobName, Value], bare: SweptRun
    ) -> SweptRun:
        """Turn the knobs, settle, measure. A run that says nothing of its cell has a reason `why`. Raises
        StackUnavailable when a node is down or the load ends."""
        stack = guard.stack
        try:
            await guard.turn(values)
        except StackUnavailable:
            raise
        except ReplexplorerError as error:
            await guard.look_alive(_DOWN)
            return replace(bare, why=f"the knobs could not be turned: {error}")
        wanted, settling = _wanted_state(stack.seen), settling_s(cell.values)
        await guard.until_state(wanted, within_s=_STATE_WITHIN_S + settling)
        await stack.clock.sleep(settling)
        await guard.look()
        try:
            found = await stack.load.measure(duration_s=self.sweep.duration_s)
        except StackUnavailable:
            await guard.look_alive(_DOWN)
            raise
        measured, total = found.load, found.load.total
        is_open = total.mode == OPEN
        if is_open:
            await stack.load.follow()  # it was drained
        seen = await guard.look_alive(_DOWN)
        restarted = guard.baseline.restarted(seen)
        if restarted:
            guard.lost = stack.lost(restarted)  # it is set again with the next run
        why = _failure(guard, seen, wanted, measured)
        # What is drained after an open loop's end makes its last interval longer.
        even = measured.intervals[:-1] if is_open else measured.intervals
        each_s = sum(each.duration_s for each in even) / len(even) if even else 1.0
        least_s = LEAST_BATCH_LATENCIES * (total.service.mean_ms or 0.0) / 1000
        spread = spread_of([each.tps for each in even], each_s, least_s)
        anatomy, lag = found.anatomy, found.lag
        modelled = not is_open and _is_modelled(seen)
        return replace(
            bare,
            why=why,
            limited=total.limited if why is None else None,
            tps=total.tps,
            variance=None if spread is None else spread.variance,
            freedom=0.0 if spread is None else spread.freedom,
            duration_s=total.duration_s,
            service=total.service,
            response=total.response if is_open else None,
            errors=total.errors,
            unknown=total.unknown,
            rtt_ms=seen.rtt_ms,
            fsync_ms=seen.fsync_ms,
            cpu_percent=total.cpu_percent,
            protection=seen.protection.state.value,
            effective={str(name): seen.effective(name) for name in cell.values},
            setting=asdict(stack.forecast.setting()) if modelled else None,
            applier=asdict(stack.forecast.applier(lag.replica)) if modelled and lag is not None else None,
            anatomy={part.value: round(ms, 4) for part, ms in anatomy.parts.items()} if anatomy else None,
            exposure=found.exposure,
            cost=found.cost,
            lag=lag,
        )


async def _short_of_cpu(stack: StackApi) -> str | None:
    """In words, where the source's machine is; None where it is not, or no agent says."""
    before = await stack.cost()
    await stack.clock.sleep(_LOOKED_S)
    after = await stack.cost()
    return short_of_cpu(busy_percent(before.machine if before else None, after.machine if after else None))


def _failure(
    guard: RestoreGuard, seen: Snapshot, wanted: ProtectionState | None, measured: Measurement
) -> str | None:
    """Why the run says nothing of its settings; None when it does."""
    baseline, total = guard.baseline, measured.total
    if restarted := baseline.restarted(seen):
        return f"{' and '.join(restarted)} restarted meanwhile"
    if changed := baseline.changed(seen):
        return f"changed meanwhile: {'; '.join(changed)}"
    state = seen.protection.state
    if wanted not in (None, state):
        return f"the stack is {state}, not {wanted}"
    if not measured.commits and wanted is not None:
        return "nothing was committed"
    # Its TPS would be the generator's.
    return total.limited if total.cpu_busiest_percent > _CPU_LIMIT_PERCENT else None


def _wanted_state(seen: Snapshot) -> ProtectionState | None:
    """What the settings ask for, of a group always its majority; None where a partition makes it no matter of
    the settings."""
    if _is_cut(seen):
        return None
    if seen.system.is_group:
        return ProtectionState.PROTECTED
    asked = seen.requested(SEMI_SYNC) == "on"
    return ProtectionState.PROTECTED if asked else ProtectionState.OFF


def _is_cut(seen: Snapshot) -> bool:
    """A partition is asked of one of the links."""
    return any(seen.requested(KnobName(keys.PARTITION, each)) != NO_PARTITION for each in seen.links)


def _is_modelled(seen: Snapshot) -> bool:
    """Whether the model looks at all that makes these figures what they are, in the closed loop."""
    workload = str(seen.requested(_WORKLOAD))
    usual = all(
        view.requested == view.default or is_known(name, workload) for name, view in seen.knobs.items()
    )
    return usual and not _is_cut(seen) and not _WORKLOAD.knob.is_file(workload)

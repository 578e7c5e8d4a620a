"""Running a sweep: every cell settled and measured, each run kept in a journal at once.

A kill leaves the knobs as they were at that cell; the journal's next reader restores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.experiment.sweep import SETTLING_S, Cell, Sweep, settling_s
from replexplorer.core.experiment.sweep_result import Swept
from replexplorer.core.experiment.sweep_runs import ATTEMPTS, SweepProgress, SweepReport, SweptRun, scatter_of
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName, Value
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.operating_point import is_known
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.measured import LEAST_BATCH_LATENCIES, spread_of
from replexplorer.core.topology import SOURCE
from replexplorer.engine.experiment.journal import RunJournal
from replexplorer.engine.experiment.loan import CLIENTS, Loan, on_loan
from replexplorer.engine.experiment.rig import Rig

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


@dataclass(slots=True)
class SweepRun:
    """One run of a sweep (`rig.Procedure`)."""

    sweep: Sweep
    report: SweepReport
    fresh: bool = False
    """Start over what an earlier run of the same has left unfinished."""
    runs: list[SweptRun] = field(default_factory=list)
    seed: int = 0
    resumed: int = 0
    """Runs that the journal had."""
    _overheads_s: list[float] = field(default_factory=list)

    async def run(self, rig: Rig) -> Swept:
        """Sweep to the end; raises UsageError before anything changes, StackUnavailable when another
        driver holds the load or a node goes down, and what the journal raises."""
        grid = self.sweep.grid

        def check(seen: Sighting) -> None:
            if CLIENTS not in grid.names and not int(seen.requested(CLIENTS)):
                raise UsageError("no client commits", "add clients=N to the sweep, or set clients=N")
            for cell in grid.cells:
                rig.check(cell.values)

        journal = RunJournal(rig.journal("sweep", self.sweep.identity), SweptRun)
        started_wall_s = rig.clock.wall()
        async with on_loan(rig, "sweep", grid.text, check=check) as loan:
            seed = int(rig.clock.wall() * 1000) % 2**32 if self.sweep.seed is None else self.sweep.seed
            head: dict[str, Any] = {
                "sweep": grid.text,
                "seed": seed,
                "server": rig.seen.server,
                "on": rig.seen.source_uuid,
            }
            found, self.runs = await journal.open(head, fresh=self.fresh)
            self.seed, self.resumed = int((found or head)["seed"]), len(self.runs)
            if found is not None:
                self._tell(
                    f"continuing: {self._done} of {self.sweep.total} runs are done (--fresh starts over)"
                )
            kept = loan.keep(grid.names)
            loan.on_returned = self._returned
            await loan.look()
            for block in range(self.sweep.repeats):
                await self._pass(loan, journal, kept, block)
        return Swept(
            self.sweep,
            self.seed,
            tuple(self.runs),
            rig.seen.server,
            min((run.started_wall_s for run in self.runs), default=started_wall_s),
            rig.clock.wall(),
            self.resumed,
            await journal.set_aside(),
        )

    async def _returned(self, unrestored: Sequence[str]) -> None:
        """Tell what is not as it was."""
        for line in unrestored:
            self._tell(line)

    # -- the runs

    @property
    def _done(self) -> int:
        return len(self._finals())

    def _finals(self) -> set[tuple[int, int]]:
        """Pass and cell of all that need no further run."""
        return {(run.block, run.cell) for run in self.runs if run.is_final}

    async def _pass(self, loan: Loan, journal: RunJournal[SweptRun], kept: Desired, block: int) -> None:
        """Every cell once; those that failed once more at the end."""
        order, clock = self.sweep.order(self.seed, block), loan.rig.clock
        for attempt in range(1, ATTEMPTS + 1):
            for cell in order:
                known = [run for run in self.runs if (run.block, run.cell) == (block, cell.index)]
                if any(run.is_final for run in known) or len(known) >= attempt:
                    continue
                self._show(cell, None)
                began_s = clock.monotonic()
                run = await self._attempt(loan, kept, cell)
                run = replace(run, block=block, attempt=attempt, took_s=clock.monotonic() - began_s)
                self._overheads_s.append(run.took_s - self.sweep.run_s(cell, 0.0))
                await journal.add(run)
                self.runs.append(run)
                self._show(cell, run)

    async def _attempt(self, loan: Loan, kept: Desired, cell: Cell) -> SweptRun:
        """One run; what a restart took meanwhile is set again with the next."""
        values = {**kept, **cell.values}  # what a scene leaves out is not what the run before left
        under_way = CellRun(loan, cell, values, self.sweep.duration_s)
        run = await under_way.measured()
        if under_way.restarted:
            loan.owe(loan.rig.lost(under_way.restarted))
        return run

    # -- what is told

    def _show(self, cell: Cell, run: SweptRun | None) -> None:
        self.report(SweepProgress(self.sweep, tuple(self.runs), self._done, cell, run, self._left_s()))

    def _tell(self, text: str) -> None:
        self.report(SweepProgress(self.sweep, tuple(self.runs), self._done, None, None, self._left_s(), text))

    def _left_s(self) -> float:
        """What the runs left take, by what turning the knobs took so far."""
        seen = self._overheads_s
        overhead_s = sum(seen) / len(seen) if seen else SETTLING_S
        done = self._finals()
        return sum(
            self.sweep.run_s(cell, overhead_s)
            for block in range(self.sweep.repeats)
            for cell in self.sweep.grid.cells
            if (block, cell.index) not in done
        )

"""Running a sweep: every cell settled and measured, each run kept in a journal at once.

A kill leaves the knobs as they were at that cell; the journal's next reader restores them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sighting import Sighting
from replexplorer.core.experiment.sweep import SETTLING_S, Cell, Sweep
from replexplorer.core.experiment.sweep_runs import ATTEMPTS, SweptRun
from replexplorer.core.experiment.swept import SweepProgress, SweepReport, Swept
from replexplorer.core.knobs.names import Desired
from replexplorer.engine.experiment.cell_run import CellRun
from replexplorer.engine.experiment.loan import CLIENTS, Loan, on_loan, turn_back
from replexplorer.engine.experiment.rig import Rig
from replexplorer.engine.experiment.sweep_notes import SweepNotes, kept_of, runs_of, seed_of


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

        notes, started_wall_s = SweepNotes(rig.journal("sweep", self.sweep.identity)), rig.clock.wall()
        async with on_loan(rig, "sweep", grid.text, check=check) as loan:
            await self._open(rig, notes)
            kept = loan.keep(grid.names)
            await notes.keep(kept)
            loan.on_returned = partial(self._returned, notes)
            await loan.look()
            for block in range(self.sweep.repeats):
                await self._pass(loan, notes, kept, block)
            await notes.finish(rig.clock.wall())
        return Swept(
            self.sweep,
            self.seed,
            tuple(self.runs),
            rig.seen.server,
            min((run.started_wall_s for run in self.runs), default=started_wall_s),
            rig.clock.wall(),
            self.resumed,
            await notes.set_aside(),
        )

    async def _returned(self, notes: SweepNotes, unrestored: Sequence[str]) -> None:
        """The knobs are as they were; or say which are not, and leave them to the next run of this sweep."""
        for line in unrestored:
            self._tell(line)
        if not unrestored:
            await notes.restored()

    async def _open(self, rig: Rig, notes: SweepNotes) -> None:
        """Continue what the journal has of this sweep, or begin it; knobs that a killed run left turned are
        restored."""
        entries, seen = await notes.read(), rig.seen
        if left := kept_of(entries):
            self._tell("the last run of this sweep was killed: restoring the knobs that it had turned")
            for line in await turn_back(rig, left):
                self._tell(line)
        head = entries[0] if entries else None
        if head is not None and (self.fresh or head.get("server_uuid") != seen.source_uuid):
            if not self.fresh:
                self._tell("the journal of this sweep is from another server: it starts over")
            head = None
        if head is None:
            seed = self.sweep.seed
            self.seed = int(rig.clock.wall() * 1000) % 2**32 if seed is None else seed
            await notes.begin(self.sweep.grid.text, self.seed, seen)
            return
        self.seed, self.runs = seed_of(head), runs_of(entries)
        self.resumed = len(self.runs)
        self._tell(f"continuing: {self._done} of {self.sweep.total} runs are done (--fresh starts over)")

    # -- the runs

    @property
    def _done(self) -> int:
        return len(self._finals())

    def _finals(self) -> set[tuple[int, int]]:
        """Pass and cell of all that need no further run."""
        return {(run.block, run.cell) for run in self.runs if run.is_final}

    async def _pass(self, loan: Loan, notes: SweepNotes, kept: Desired, block: int) -> None:
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
                await notes.add(run)
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

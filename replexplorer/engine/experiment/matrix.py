"""Running the matrix: one drill a cell, one after the other, each with a ledger of its own.

Each cell is kept in a journal as it ends, so that the next run goes on behind it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.experiment.drill import DEFAULT_CLIENTS, Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.experiment import (
    ExperimentProgress,
    ExperimentResult,
    NamedExperiment,
    Watch,
)
from replexplorer.core.experiment.lab import Lab
from replexplorer.core.experiment.matrix import (
    CellResult,
    Matrix,
    MatrixCell,
    MatrixResult,
    cell_drill,
    chosen_cells,
    matrix_cells,
    stages_of,
)
from replexplorer.core.records import dataclass, field, replace
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.experiment.run import Conductor, RunJournal, StagesUnderWay
from replexplorer.engine.experiment.stack_api import Procedure, StackApi


@dataclass(slots=True)
class MatrixRun:
    """One run of some cells (`stack_api.Procedure`)."""

    cells: Sequence[MatrixCell]
    """Where none are given: those of the system of the stack that it runs on."""
    quick: bool
    clients: int = DEFAULT_CLIENTS
    settings: tuple[str, ...] = ()
    """`KEY=VALUE` in place of the cells' own."""
    only: tuple[str, ...] = ()
    """Where no cells are given: words that choose among those (`chosen_cells`)."""
    fresh: bool = False
    """Start over what an earlier run of the same has left unfinished."""
    watch: Watch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    """Its hand is between cells."""

    @property
    def identity(self) -> str:
        """A short name that only a run of the same cells in the same way has."""
        cells = [cell.name for cell in self.cells]
        text = f"{cells} quick={self.quick} clients={self.clients} {self.settings}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    async def run(self, stack: StackApi) -> MatrixResult:
        """Run every cell that an interrupted run has not; one that a dead server or a refusal ends is told,
        and the next one goes on. Raises UsageError and StackUnavailable before the first as a drill does,
        also for words that choose no cell, and what the journal raises."""
        if not self.cells:
            cells = matrix_cells(quick=self.quick, system=stack.seen.system.name)
            self.cells = chosen_cells(cells, self.only)
            for cell in self.cells:
                self.drill(cell)
        journal = RunJournal(stack.journal("matrix", self.identity), CellResult)
        head = {"matrix": [cell.name for cell in self.cells], "on": stack.seen.server}
        _, found_before = await journal.open(head, fresh=self.fresh)
        known = {each.cell: each for each in found_before}
        result = MatrixResult(
            server=stack.seen.server, quick=self.quick, clients=self.clients, resumed=len(known)
        )
        takes_s = [
            0.0 if cell in known else self.drill(cell).seconds(quick=self.quick) for cell in self.cells
        ]
        stages = StagesUnderWay(
            Matrix(), self.watch, self.conductor, takes_s, run_stages=stages_of(self.cells)
        )
        for number, cell in enumerate(self.cells, 1):
            found = known.get(cell)
            if found is None:
                try:
                    if stages.at:
                        await stages.gate()
                    stages.begin(number, "beginning")
                    found = await self._cell(stack, stages, cell, is_first=not result.cells)
                except asyncio.CancelledError:
                    if not self.conductor.has_aborted():
                        raise
                    result.aborted = self.conductor.aborted
                    return result
                if found.aborted is None:  # what was aborted is run again
                    await journal.add(found)
                    stages.kept += 1
                stages.tell("", ended=found.line)
            result.add(found)
        result.server = stack.seen.server
        await journal.set_aside()
        return result

    def drill(self, cell: MatrixCell) -> Drill:
        """The cell as a drill, with the settings that were typed."""
        drill = cell_drill(cell, clients=self.clients)
        return replace(drill.with_settings(self.settings), name=drill.name)

    async def _cell(
        self, stack: StackApi, stages: StagesUnderWay, cell: MatrixCell, *, is_first: bool
    ) -> CellResult:
        drill, began_s, started_wall_s = self.drill(cell), stack.clock.monotonic(), stack.clock.wall()
        takes_s = drill.seconds(quick=self.quick)

        def show(now: ExperimentProgress) -> None:
            stages.tell(now.doing, None if now.left_s is None else max(0.0, 1 - now.left_s / takes_s))

        try:
            found = await DrillRun(drill, self.quick, show).run(stack)
        except (StackUnavailable, ServerRefused) as error:
            if is_first:
                raise
            found = DrillResult(
                drill, server=stack.seen.server, started_wall_s=started_wall_s, aborted=str(error)
            )
        return CellResult.of(cell, found, stack.clock.monotonic() - began_s)


def run_of(
    experiment: NamedExperiment, quick: bool, watch: Watch, conductor: Conductor
) -> Procedure[ExperimentResult]:
    """A run that reports to `watch` and is held by the `conductor`."""
    match experiment:
        case Lab():
            return LabRun(experiment, quick, watch, conductor)
        case Drill():
            return DrillRun(experiment, quick, watch, conductor)
        case _:
            return MatrixRun((), quick, watch=watch, conductor=conductor)

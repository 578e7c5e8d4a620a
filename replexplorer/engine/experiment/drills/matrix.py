"""Running the matrix: one drill a cell, one after the other, each with a ledger of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.experiment.drill import DEFAULT_CLIENTS, Drill
from replexplorer.core.experiment.drill_result import CellResult, DrillResult, MatrixResult
from replexplorer.core.experiment.matrix import MatrixCell, cell_drill
from replexplorer.engine.experiment.drills.progress import DrillWatch
from replexplorer.engine.experiment.drills.run import DrillRun
from replexplorer.engine.experiment.rig import Rig

CellWatch = Callable[[int, MatrixCell, CellResult | None], None]
"""Called as a cell begins (its number, from 1) and again with what came of it."""


@dataclass(slots=True)
class MatrixRun:
    """One run of some cells (`rig.Procedure`)."""

    cells: Sequence[MatrixCell]
    quick: bool
    clients: int = DEFAULT_CLIENTS
    settings: tuple[str, ...] = ()
    """`KEY=VALUE` in place of the cells' own."""
    on_cell: CellWatch = lambda number, cell, found: None
    watch: DrillWatch = lambda _: None

    async def run(self, rig: Rig) -> MatrixResult:
        """Run every cell; one that a dead server or a refusal ends is told, and the next one goes on. Raises
        UsageError and StackUnavailable before the first as a drill does."""
        began_s = rig.clock.monotonic()
        result = MatrixResult(rig.seen.server, rig.clock.wall(), self.quick)
        for number, cell in enumerate(self.cells, 1):
            self.on_cell(number, cell, None)
            drill = self.drill(cell)
            try:
                found = await DrillRun(drill, self.quick, self.watch).run(rig)
            except (StackUnavailable, ServerRefused) as error:
                if not result.cells:
                    raise
                found = DrillResult(drill, rig.seen.server, rig.clock.wall(), self.quick, aborted=str(error))
            result.cells.append(CellResult(cell, found))
            self.on_cell(number, cell, result.cells[-1])
        result.server = rig.seen.server
        result.duration_s = rig.clock.monotonic() - began_s
        return result

    def drill(self, cell: MatrixCell) -> Drill:
        """The cell as a drill, with the settings that were typed."""
        drill = cell_drill(cell, clients=self.clients)
        return replace(drill.with_settings(self.settings), name=drill.name)

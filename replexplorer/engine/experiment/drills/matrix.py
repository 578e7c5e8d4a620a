"""Running the matrix: one drill a cell, one after the other, each with a ledger of its own.

Each cell is kept in a journal as it ends, so that the next run goes on behind it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.core.experiment.drill import DEFAULT_CLIENTS, Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import MatrixCell, cell_drill, chosen_cells, matrix_cells
from replexplorer.core.experiment.matrix_result import CellResult, MatrixResult
from replexplorer.engine.experiment.conductor import Conductor
from replexplorer.engine.experiment.drills.progress import DrillProgress
from replexplorer.engine.experiment.drills.run import DrillRun
from replexplorer.engine.experiment.rig import Rig
from replexplorer.ports import Journal


@dataclass(frozen=True, slots=True)
class MatrixProgress:
    """What a matrix does now."""

    cells: Sequence[MatrixCell]
    number: int
    """Of the cell, from 1; 0 before the first one that is run."""
    doing: str
    """In the present tense: `inject kill`, `comparing rows`."""
    done: float | None = None
    """0..1 of the step, when it is known."""
    left_s: float | None = None
    """About until the last cell's end."""
    ended: CellResult | None = None
    """The cell has just come to this end."""

    @property
    def cell(self) -> MatrixCell | None:
        """The one under way."""
        return self.cells[self.number - 1] if self.number else None


MatrixWatch = Callable[[MatrixProgress], None]


@dataclass(slots=True)
class MatrixRun:
    """One run of some cells (`rig.Procedure`)."""

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
    watch: MatrixWatch = lambda _: None
    conductor: Conductor = field(default_factory=Conductor)
    """Its hand is between cells."""
    _known: Mapping[MatrixCell, CellResult] = field(default_factory=dict)
    """What an interrupted run has found."""
    _extra_s: list[float] = field(default_factory=list)
    """How much longer each cell took than a drill of its steps is expected to."""

    @property
    def identity(self) -> str:
        """A short name that only a run of the same cells in the same way has."""
        cells = [cell.name for cell in self.cells]
        text = f"{cells} quick={self.quick} clients={self.clients} {self.settings}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    async def run(self, rig: Rig) -> MatrixResult:
        """Run every cell that an interrupted run has not; one that a dead server or a refusal ends is told,
        and the next one goes on. Raises UsageError and StackUnavailable before the first as a drill does,
        also for words that choose no cell, and what the journal raises."""
        if not self.cells:
            cells = matrix_cells(quick=self.quick, system=rig.seen.system.name)
            self.cells = chosen_cells(cells, self.only)
            for cell in self.cells:
                self.drill(cell)
        journal = rig.journal("matrix", self.identity)
        known = self._known = await self._open(journal, rig)
        result = MatrixResult(rig.seen.server, self.quick, self.clients, resumed=len(known))
        for number, cell in enumerate(self.cells, 1):
            found = known.get(cell)
            if found is None:
                self._tell(number, "beginning")
                try:
                    found = await self._cell(rig, number, cell)
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if self.conductor.aborted is None or task is None:
                        raise
                    task.uncancel()
                    result.aborted = self.conductor.aborted
                    return result
                if found.aborted is None:  # what was aborted is run again
                    await journal.append({"cell": found.to_wire()})
                self._tell(number, "", ended=found)
            result.cells.append(found)
        result.server = rig.seen.server
        await journal.set_aside()
        return result

    def drill(self, cell: MatrixCell) -> Drill:
        """The cell as a drill, with the settings that were typed."""
        drill = cell_drill(cell, clients=self.clients)
        return replace(drill.with_settings(self.settings), name=drill.name)

    async def _open(self, journal: Journal, rig: Rig) -> Mapping[MatrixCell, CellResult]:
        """Continue what the journal has of this matrix on this server, or begin it."""
        entries = () if self.fresh else await journal.read()
        if entries and entries[0].get("server") == rig.seen.server:
            return _cells_of(entries)
        await journal.begin({"matrix": [cell.name for cell in self.cells], "server": rig.seen.server})
        return {}

    async def _cell(self, rig: Rig, number: int, cell: MatrixCell) -> CellResult:
        """Run one, where somebody holds the matrix once that is over."""
        if self.conductor.holds:
            self._tell(number, "waiting for the next cell")
            await self.conductor.gate()
        drill, began_s, started_wall_s = self.drill(cell), rig.clock.monotonic(), rig.clock.wall()

        def show(now: DrillProgress) -> None:
            self._tell(number, now.doing, now.done, now.left_s)

        try:
            found = await DrillRun(drill, self.quick, show).run(rig)
        except (StackUnavailable, ServerRefused) as error:
            if not self._extra_s:
                raise
            found = DrillResult(drill, rig.seen.server, started_wall_s, self.quick, aborted=str(error))
        took_s = rig.clock.monotonic() - began_s
        self._extra_s.append(took_s - drill.seconds(quick=self.quick))
        return CellResult.of(cell, found, took_s)

    def _tell(
        self,
        number: int,
        doing: str,
        done: float | None = None,
        cell_left_s: float | None = None,
        *,
        ended: CellResult | None = None,
    ) -> None:
        """Say what is done now."""
        extra_s = sum(self._extra_s) / len(self._extra_s) if self._extra_s else 0.0
        ahead = [self.drill(cell) for cell in self.cells[number:] if cell not in self._known]
        left_s = sum(drill.seconds(quick=self.quick) + extra_s for drill in ahead)
        if ended is None:
            own_s = self.drill(self.cells[number - 1]).seconds(quick=self.quick)
            left_s += own_s if cell_left_s is None else cell_left_s
        self.watch(MatrixProgress(self.cells, number, doing, done, max(0.0, left_s), ended))


def _cells_of(entries: Sequence[Mapping[str, Any]]) -> Mapping[MatrixCell, CellResult]:
    """The cells that a journal has; raises UsageError for another version's."""
    try:
        found = [CellResult.from_wire(entry["cell"]) for entry in entries if "cell" in entry]
    except (KeyError, TypeError, ValueError):
        raise UsageError("the matrix's journal is of another version", "--fresh starts over") from None
    return {each.cell: each for each in found}

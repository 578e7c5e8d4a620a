"""What a run of the matrix found, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import FailureKind, MatrixCell, Mode
from replexplorer.core.server.exposure import Loss
from replexplorer.core.system import DEFAULT


@dataclass(frozen=True, slots=True)
class CellResult:
    """What came of one cell of the matrix."""

    cell: MatrixCell
    started_wall_s: float
    took_s: float
    """With setting up and giving everything back."""
    acknowledged: int | None = None
    """Rows whose client was told they are committed; this and what follows is None where the cell ended
    before rows were compared."""
    lost: int | None = None
    """Of those, missing on the survivor."""
    phantom_reads: int | None = None
    """Rows that another session has read and the survivor lacks."""
    oldest_lost_age_ms: float | None = None
    """How long before the failure the client of the oldest lost row was told OK; None where nothing was
    lost."""
    recovery_ms: float | None = None
    """From the mending to the first OK; None where the source never comes back."""
    meter: Loss | None = None
    """What the exposure meter said of this failure just before it, its `high` with the commits between its
    reading and the failure; None where it could not say, and of a group: the meter reckons what one server
    has, and others have it too."""
    repaired: tuple[str, ...] = ()
    """What a member of a group needed to be let in again, beside the mending of its fault, and why."""
    aborted: str | None = None
    """Why it was not run to its end; None: it was."""
    unrestored: tuple[str, ...] = ()
    """What could not be returned yet, and what becomes of it."""

    @classmethod
    def of(cls, cell: MatrixCell, found: DrillResult, took_s: float) -> Self:
        """Of the cell's drill."""
        ledger, reading = found.ledger, found.reading
        return cls(
            cell,
            found.started_wall_s,
            took_s,
            acknowledged=None if ledger is None else ledger.acknowledged,
            lost=None if ledger is None else ledger.lost,
            phantom_reads=None if ledger is None else ledger.phantom_reads,
            oldest_lost_age_ms=None if ledger is None else ledger.oldest_lost_age_ms,
            recovery_ms=found.recovery_ms,
            meter=None if reading is None or cell.mode.system != DEFAULT else reading.of(cell.failure),
            repaired=found.repaired,
            aborted=found.aborted,
            unrestored=found.unrestored,
        )

    @property
    def in_meter(self) -> bool | None:
        """Whether what was lost lies between the meter's low and high; None where either is unknown."""
        meter, lost = self.meter, self.lost
        return None if meter is None or lost is None else meter.low <= lost <= meter.high

    @property
    def as_theory(self) -> bool | None:
        """Whether theory allows what was found; None where the cell was aborted."""
        if self.lost is None or self.phantom_reads is None or self.aborted is not None:
            return None
        theory = self.cell.theory
        return theory.lost.allows(self.lost, self.oldest_lost_age_ms) and theory.phantom.allows(
            self.phantom_reads
        )

    def to_wire(self) -> dict[str, Any]:
        """A JSON-ready form that `from_wire` reads back."""
        wire = {each.name: getattr(self, each.name) for each in fields(self)}
        meter = None if self.meter is None else asdict(self.meter)
        lines = {"repaired": list(self.repaired), "unrestored": list(self.unrestored)}
        return wire | {"cell": asdict(self.cell), "meter": meter, **lines}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        cell, meter = wire["cell"], wire["meter"]
        known = MatrixCell(
            Mode(cell["mode"]), int(cell["sync_binlog"]), int(cell["flush"]), FailureKind(cell["failure"])
        )
        loss = None if meter is None else Loss(**meter)
        lines = {name: tuple(wire[name]) for name in ("repaired", "unrestored")}
        return cls(**{**wire, "cell": known, "meter": loss, **lines})


@dataclass(slots=True)
class MatrixResult:
    """A run of the matrix."""

    server: str
    quick: bool
    clients: int
    cells: list[CellResult] = field(default_factory=list)
    resumed: int = 0
    """Cells that an earlier run, which was interrupted, had found."""
    aborted: str | None = None
    """Why it ended before its last cell; None: it did not."""

    @property
    def started_wall_s(self) -> float:
        """When its first cell began; seconds since 1970, UTC."""
        return min((each.started_wall_s for each in self.cells), default=0.0)

    @property
    def duration_s(self) -> float:
        """How long its cells took, together."""
        return sum(each.took_s for each in self.cells)

    @property
    def system(self) -> str:
        """The name of the one that its cells are of."""
        return next((each.cell.mode.system for each in self.cells), DEFAULT)

    @property
    def unrestored(self) -> Sequence[str]:
        """What its last cell could not return yet."""
        return self.cells[-1].unrestored if self.cells else ()

    @property
    def verdict(self) -> str:
        """holds, deviates, or aborted where it or a cell was and no cell deviates."""
        found = [each.as_theory for each in self.cells]
        if False in found or not (found or self.aborted):
            return "deviates"
        return "aborted" if None in found or self.aborted is not None else "holds"

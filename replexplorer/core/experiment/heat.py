"""A heat map of two knobs: TPS by their values, the others averaged out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Dimension, Grid
from replexplorer.core.experiment.sweep_runs import CellFigures


@dataclass(frozen=True, slots=True)
class Heat:
    """One field of the map."""

    tps: float | None
    """Geometric mean over the cells that count; None while there is none."""
    cells: int
    """Cells that count."""
    of: int
    """Cells that there are."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """TPS by two knobs."""

    rows: Dimension
    columns: Dimension
    fields: tuple[tuple[Heat, ...], ...]
    """By row, then by column."""

    def warmth(self, field: Heat) -> float | None:
        """0 for the least TPS of the map to 1 for the most, on a log scale; None where nothing is known."""
        if not field.tps:
            return None if field.tps is None else 0.0
        known = [log(each.tps) for row in self.fields for each in row if each.tps]
        low, high = min(known), max(known)
        return (log(field.tps) - low) / (high - low) if high > low else 1.0


def mapped(grid: Grid, keys: Sequence[str] | None) -> tuple[Dimension, Dimension] | None:
    """The two dimensions of the map; by default those with the most values, in the sweep's order.

    None where fewer than two knobs vary. Raises UsageError for a key that is not swept.
    """
    if keys is not None:
        if len(keys) != 2:
            raise UsageError(f"a heat map has two knobs, not {len(keys)}", "give --map KEY,KEY")
        rows, columns = (grid.dimension(key.strip()) for key in keys)
        if rows is columns:
            raise UsageError(f"{rows.key} is given twice for the heat map", "give two knobs of the sweep")
        return rows, columns
    most = sorted(grid.varied, key=lambda dimension: -len(dimension.choices))[:2]
    if len(most) < 2:
        return None
    rows, columns = (dimension for dimension in grid.dimensions if dimension in most)
    return rows, columns


def heat_map(grid: Grid, figures: Sequence[CellFigures], keys: Sequence[str] | None = None) -> HeatMap | None:
    """The map of two dimensions (`mapped`)."""
    chosen = mapped(grid, keys)
    if chosen is None:
        return None
    rows, columns = chosen
    down, across = grid.dimensions.index(rows), grid.dimensions.index(columns)
    fields = [
        [
            _heat(
                [
                    each
                    for each in figures
                    if each.cell.choices[down] == row and each.cell.choices[across] == column
                ]
            )
            for column in range(len(columns.choices))
        ]
        for row in range(len(rows.choices))
    ]
    return HeatMap(rows, columns, tuple(tuple(row) for row in fields))


def _heat(figures: Sequence[CellFigures]) -> Heat:
    known = [tps for each in figures if each.good and (tps := each.tps.value) is not None]
    if not known:
        return Heat(None, 0, len(figures))
    mean = 0.0 if 0.0 in known else exp(sum(log(tps) for tps in known) / len(known))
    return Heat(mean, len(known), len(figures))

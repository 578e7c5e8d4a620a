"""A heat map of two knobs: TPS, or what is at risk, by their values, the others averaged out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Dimension, Grid
from replexplorer.core.experiment.sweep_runs import CellFigures


def _geometric(values: Sequence[float]) -> float:
    return 0.0 if 0.0 in values else exp(sum(map(log, values)) / len(values))


def _tps(each: CellFigures) -> float | None:
    return each.tps.value


def _at_risk(each: CellFigures) -> float | None:
    return each.at_risk


@dataclass(frozen=True, slots=True)
class HeatFigure:
    """What a map shows."""

    title: str
    words: str
    mean_words: str
    """How a field's cells are averaged."""
    read: Callable[[CellFigures], float | None]
    mean: Callable[[Sequence[float]], float]


TPS: Final = HeatFigure(
    "TPS", "TPS (commits per second)", "geometric mean over the other knobs", _tps, _geometric
)
AT_RISK: Final = HeatFigure(
    "commits at risk",
    "commits that the worst failure would lose",
    "mean over the other knobs",
    _at_risk,
    fmean,
)


@dataclass(frozen=True, slots=True)
class Heat:
    """One field of the map."""

    value: float | None
    """Mean over the cells that count; None while there is none."""
    cells: int
    """Cells that count."""
    of: int
    """Cells that there are."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure by two knobs."""

    figure: HeatFigure
    rows: Dimension
    columns: Dimension
    fields: tuple[tuple[Heat, ...], ...]
    """By row, then by column."""

    def warmth(self, field: Heat) -> float | None:
        """0 for the least of the map to 1 for the most, on a log scale; None where nothing is known."""
        if not field.value:
            return None if field.value is None else 0.0
        known = [log(each.value) for row in self.fields for each in row if each.value]
        low, high = min(known), max(known)
        return (log(field.value) - low) / (high - low) if high > low else 1.0


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


def heat_map(
    grid: Grid, figures: Sequence[CellFigures], keys: Sequence[str] | None = None, figure: HeatFigure = TPS
) -> HeatMap | None:
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
                ],
                figure,
            )
            for column in range(len(columns.choices))
        ]
        for row in range(len(rows.choices))
    ]
    return HeatMap(figure, rows, columns, tuple(tuple(row) for row in fields))


def risk_map(grid: Grid, figures: Sequence[CellFigures], keys: Sequence[str] | None = None) -> HeatMap | None:
    """The map of what is at risk; None where nothing at all is known of it, or nothing was."""
    heat = heat_map(grid, figures, keys, AT_RISK)
    return heat if heat is not None and any(each.value for row in heat.fields for each in row) else None


def _heat(figures: Sequence[CellFigures], figure: HeatFigure) -> Heat:
    known = [value for each in figures if each.good and (value := figure.read(each)) is not None]
    return Heat(figure.mean(known) if known else None, len(known), len(figures))

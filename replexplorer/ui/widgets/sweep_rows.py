"""A sweep's map, effects and table as rows of the line widgets."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.experiment.heat import HeatMap
from replexplorer.core.experiment.sweep import Grid
from replexplorer.core.experiment.sweep_effects import Effect
from replexplorer.core.experiment.sweep_runs import CellFigures
from replexplorer.core.experiment.sweep_text import figure, heat_text, losses_text, scatter
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Line, wrapped

_SHADES = 5
"""`heat1` to `heat5`."""
_GAP = "  "


def heat_rows(heat: HeatMap, glyphs: Glyphs, *, tones: bool) -> list[Line]:
    """The map: a shade and the figure of each field; `tones`: shades are colours, else characters."""
    labels = [choice.label for choice in heat.rows.choices]
    left = max(len(label) for label in labels) + 1
    texts = [[heat_text(each) for each in row] for row in heat.fields]
    heads = [choice.label for choice in heat.columns.choices]
    widths = [max(len(head) - 3, *(len(row[at]) for row in texts)) for at, head in enumerate(heads)]
    title: Line = [
        (f" {heat.figure.title.upper()}", "accent b"),
        (f"   {heat.rows.key} down, {heat.columns.key} across", "muted"),
    ]
    head = "".join(f"{_GAP}{text:>{width + 3}}" for text, width in zip(heads, widths, strict=True))
    rows: list[Line] = [title, [(f" {'':>{left}}{head}", "muted")]]
    for label, row, shown in zip(labels, heat.fields, texts, strict=True):
        line: list[tuple[str, str]] = [(f" {label:>{left}}", "muted")]
        for each, text, width in zip(row, shown, widths, strict=True):
            line += [(_GAP, "text"), _block(heat.warmth(each), glyphs, tones), (f" {text:>{width}}", "text")]
        rows.append(line)
    return rows


def _block(warmth: float | None, glyphs: Glyphs, tones: bool) -> tuple[str, str]:
    """Two cells that show how much; blank where nothing is known."""
    if warmth is None:
        return "  ", "text"
    shade = 1 + min(_SHADES - 1, int(warmth * _SHADES))
    return ("  ", f"text on heat{shade}") if tones else (glyphs.densities[shade - 1] * 2, "text")


def effect_rows(effects: Sequence[Effect], width: int) -> list[Line]:
    """Each knob's own effect in words."""
    rows: list[Line] = [[(" EFFECTS", "accent b"), ("   on TPS, all else equal, 95 %", "muted")]]
    for effect in effects:
        for at, part in enumerate(wrapped(effect.words, max(20, width - 4))):
            rows.append([(" " if at == 0 else "   ", "text"), (part, "text")])
    return rows


def table_rows(grid: Grid, figures: Sequence[CellFigures], width: int) -> list[Line]:
    """A row a cell that was run; where the width is short, without the mean and then fewer percentiles."""
    run = [each for each in figures if each.runs]
    columns = [
        *(
            (dimension.key, [each.cell.labels[at] for each in run])
            for at, dimension in enumerate(grid.dimensions)
        ),
        ("TPS", [figure(each.tps.value) for each in run]),
        ("±", [scatter(each.tps) or "-" for each in run]),
    ]
    if any(each.exposure for each in run):
        columns.append(("at risk", [losses_text(each.exposure) for each in run]))
    columns.append(("mean ms", [figure(each.service.mean_ms) for each in run]))
    for percent in (50, 95, 99):
        found = [figure(each.service.percentile_ms(percent)) for each in run]
        columns.append((f"p{percent} ms", found))

    def wide(column: tuple[str, list[str]]) -> int:
        return max(map(len, (column[0], *column[1])))

    for name in ("mean ms", "p95 ms", "p50 ms"):
        if 1 + sum(wide(column) + len(_GAP) for column in columns) > width:
            columns = [column for column in columns if column[0] != name]

    def line(cells: Sequence[str], words: str, note: str = "") -> Line:
        row = _GAP.join(f"{cell:>{wide(column)}}" for cell, column in zip(cells, columns, strict=True))
        return [(f" {row}{_GAP}", words), (note, "warn")]

    rows = [line([name for name, _ in columns], "muted")]
    for at, each in enumerate(run):
        note = f"does not count: {each.why}" if each.why else each.limited or ""
        rows.append(line([cells[at] for _, cells in columns], "text", note))
    return rows

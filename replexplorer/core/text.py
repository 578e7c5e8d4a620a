"""Rows and figures as text of one width, for a terminal and for pages alike."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from replexplorer.core.printable import printable

_LEAST_FOLDED: Final = 20
"""Columns of a table's folded cells, however narrow the terminal is."""


def table(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str] = (),
    right: Sequence[int] = (),
    *,
    fold: int | None = None,
    columns: int | None = None,
) -> str:
    """Columns two spaces apart; `right` names the columns of numbers. Where the terminal's `columns` are
    known, the cells of column `fold` take as many lines as make the table fit."""
    lines = [list(map(printable, line)) for line in ([headings, *rows] if headings else rows)]
    if not lines:
        return ""
    if fold is not None and columns is not None:
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        room = columns - sum(widths) + widths[fold] - 2 * (len(widths) - 1)
        lines = [part for line in lines for part in _folded_cell(line, fold, max(room, _LEAST_FOLDED))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _folded_cell(line: list[str], column: int, width: int) -> list[list[str]]:
    """A line of a table whose cell in this column takes as many lines as it needs."""
    first, *more = folded(line[column], width, "").splitlines() or [""]
    rest = [["" if at != column else part for at in range(len(line))] for part in more]
    return [[*line[:column], first, *line[column + 1 :]], *rest]


def folded(text: str, columns: int | None, indent: str = "  ") -> str:
    """A long line cut between words for this many columns, the rest indented; whole where nobody says how
    many."""
    if columns is None or len(text) < columns:
        return text
    return "\n".join(
        textwrap.wrap(
            text, columns - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    )


def number(value: float | None, digits: int = 1) -> str:
    """A figure with its digits; an unknown one is a dash, never zero."""
    return "-" if value is None else f"{value:,.{digits}f}"


def duration_text(seconds: float) -> str:
    """`40 s`, `3 min`, `1 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

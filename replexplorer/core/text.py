"""Rows and figures as text of one width, for a terminal and for pages alike."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from replexplorer.core.printable import printable


def table(rows: Sequence[Sequence[str]], headings: Sequence[str] = (), right: Sequence[int] = ()) -> str:
    """Columns two spaces apart; `right` names the columns of numbers."""
    lines = [list(map(printable, line)) for line in ([headings, *rows] if headings else rows)]
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


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

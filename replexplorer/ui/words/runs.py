"""Rows of text as runs of (text, style words): measured in cells, fitted, cut, spread and wrapped.

Law: a run's words are `TOKEN [on TOKEN] [b] [u]`, colors being theme tokens, never values.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

Run = tuple[str, str]
"""A text and the words of its style."""


Line = Sequence[Run]
"""One row, or a part of one."""


Segment = tuple[Line, ...]
"""A part of a row in all its variants, longest first."""


def width_of(line: Line) -> int:
    """Cells of a row."""
    return sum(cell_len(text) for text, _ in line)


def fit(variants: Iterable[Line], width: int) -> Line:
    """The first variant that fits into this many cells; the last one where none does."""
    line: Line = []
    for line in variants:
        if width_of(line) <= width:
            break
    return line


def fit_text(variants: Iterable[str], width: int) -> str:
    """The same of texts."""
    text = ""
    for text in variants:
        if cell_len(text) <= width:
            break
    return text


def apart(parts: Iterable[Line], gap: str = " ", words: str = "text") -> list[Run]:
    """The parts that are not empty, with a gap between them."""
    row: list[Run] = []
    for part in parts:
        if part:
            row += [*([(gap, words)] if row else ()), *part]
    return row


def pair(word: str, figure: str, words: str = "text") -> list[Run]:
    """A quiet word and its figure, a blank between them."""
    return [(f"{word} ", "muted"), (figure, words)]


def hint(key: str, does: str, words: str = "muted") -> list[Run]:
    """A key and what it does."""
    return [(key, "key b"), (f" {does}", words)]


def padded(line: Line, cells: int, words: str = "text") -> list[Run]:
    """The row with blanks behind it, up to this many cells."""
    return [*line, (" " * max(0, cells - width_of(line)), words)]


_VALUE_CELLS: Final = 11
"""Of the field for a value."""


def field(typed: str, cells: int = _VALUE_CELLS, empty: str = "") -> list[Run]:
    """What is being typed, its end in sight, with the cursor behind it; where it is `empty`, what to type."""
    shown = typed[-max(0, cells - 1) :]
    hint = [] if typed else [(empty, "muted on select")]
    return padded([(shown, "title on select"), (" ", "title u on select"), *hint], cells, "title on select")


def right(line: Line, cells: int) -> list[Run]:
    """The row at the right edge of this many cells."""
    return [(" " * max(0, cells - width_of(line)), "text"), *line]


def cut(line: Line, width: int) -> list[Run]:
    """The row in at most `width` cells; a cut text ends with an ellipsis."""
    if width_of(line) <= width:
        return list(line)
    kept: list[Run] = []
    room = width - 1
    for text, words in line:
        if cell_len(text) > room:
            kept.append((set_cell_size(text, max(0, room)) + ("…" if width > 0 else ""), words))
            break
        kept.append((text, words))
        room -= cell_len(text)
    return kept


def spread(left: Line, right: Line, width: int) -> list[Run]:
    """`left` at the left edge, `right` at the right edge; the left one is cut when both do not fit."""
    room = max(0, width - width_of(right) - (1 if right else 0))
    return [*padded(cut(left, room), width - width_of(right)), *right]


def rule(title: Line, right: Line, width: int) -> list[Run]:
    """A titled rule: `─ Title ───────── right ─`."""
    end: list[Run] = [(" ", "rule"), *right, (" ─", "rule")] if right else []
    start = cut([("─ ", "rule"), *title, (" ", "rule")], max(0, width - width_of(end)))
    return [*start, ("─" * max(0, width - width_of(start) - width_of(end)), "rule"), *end]


def wrapped(text: str, width: int) -> list[str]:
    """A text in rows of at most `width` cells, broken at blanks (a longer word is broken anywhere)."""
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False)


def hung(head: Line, text: str, width: int, words: str = "text") -> list[Line]:
    """A text next to its head, in as many rows as it takes, each below the first."""
    indent = width_of(head)
    first, *more = wrapped(text, max(20, width - indent)) or [""]
    return [[*head, (first, words)], *([(" " * indent, "text"), (part, words)] for part in more)]


def joined(line: Line) -> list[Run]:
    """Neighbors of one style as one run, plain blanks as part of the run beside them: each run costs the
    terminal some forty bytes of colors."""
    runs: list[Run] = []
    for text, words in line:
        before, last = runs[-1] if runs else ("", "")
        is_plain = not any(mark in f"{last} {words} " for mark in (" on ", " u "))
        if words == last or (is_plain and text.isspace()):
            runs[-1:] = [(before + text, last or words)]
        elif is_plain and before.isspace():
            runs[-1] = (before + text, words)
        elif text:
            runs.append((text, words))
    return runs

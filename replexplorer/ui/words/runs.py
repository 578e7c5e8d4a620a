"""Rows of text as runs of (text, style words): measured in cells, cut, spread and wrapped.

Law: a run's words are `TOKEN [on TOKEN] [b] [u]`, colours being theme tokens, never values.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

Run = tuple[str, str]
"""A text and the words of its style."""


Line = Sequence[Run]
"""One row."""


Segment = tuple[Line, ...]
"""A part of a row in all its variants, longest first; an empty last one means it can go."""


def width_of(line: Line) -> int:
    """Cells of a row."""
    return sum(cell_len(text) for text, _ in line)


def cut(line: Line, width: int, ellipsis: str = "…") -> list[Run]:
    """The row in at most `width` cells; a cut text ends with an ellipsis."""
    if width_of(line) <= width:
        return list(line)
    kept: list[Run] = []
    room = width - 1
    for text, words in line:
        if cell_len(text) > room:
            kept.append((set_cell_size(text, max(0, room)) + (ellipsis if width > 0 else ""), words))
            break
        kept.append((text, words))
        room -= cell_len(text)
    return kept


def listed(text: str, width: int, ellipsis: str = "…") -> str:
    """A list of changes, `rtt 25 → 85 ms, clients 8 → 32`, in at most `width` cells: of one that is too long
    as many as fit whole, and how many more there are; where not even the first does, its first words."""
    parts = text.split(", ")
    for kept in range(len(parts), 0, -1):
        more = len(parts) - kept
        shown = ", ".join(parts[:kept]) + (f" +{more}" if more else "")
        if cell_len(shown) <= width:
            return shown
    tail = f"{ellipsis} +{len(parts) - 1}" if len(parts) > 1 else ellipsis
    words = parts[0].split(" ")
    while len(words) > 1 and cell_len(" ".join(words) + tail) > width:
        words.pop()
    return "".join(part for part, _ in cut([(" ".join(words) + tail, "")], width, ellipsis))


def spread(left: Line, right: Line, width: int, words: str = "text") -> list[Run]:
    """`left` at the left edge, `right` at the right edge; the left one is cut when both do not fit."""
    room = max(0, width - width_of(right) - (1 if right else 0))
    start = cut(left, room)
    gap = width - width_of(start) - width_of(right)
    return [*start, (" " * max(0, gap), words), *right]


def rule(title: Line, right: Line, width: int) -> list[Run]:
    """A titled rule: `─ Title ───────── right ─`."""
    end: list[Run] = [(" ", "rule"), *right, (" ─", "rule")] if right else []
    start = cut([("─ ", "rule"), *title, (" ", "rule")], max(0, width - width_of(end)))
    return [*start, ("─" * max(0, width - width_of(start) - width_of(end)), "rule"), *end]


def wrapped(text: str, width: int) -> list[str]:
    """A text in rows of at most `width` cells, broken at blanks (a longer word is broken anywhere)."""
    rows: list[str] = []
    row = ""
    for word in text.split():
        while cell_len(word) > width > 0:
            if row:
                rows.append(row)
                row = ""
            rows.append(word[:width])
            word = word[width:]
        if row and cell_len(row) + 1 + cell_len(word) > width:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    return [*rows, row] if row else rows


def hung(head: Line, text: str, width: int, words: str = "text") -> list[Line]:
    """A text beside its head, in as many rows as it takes, each below the first."""
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


def apart(chips: Sequence[Line]) -> Line:
    """Chips with a blank between them."""
    row: list[Run] = []
    for chip in chips:
        row += [*([(" ", "text")] if row else ()), *chip]
    return row

"""A rectangle of cells, each a character and an ink, and what changed between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from replexplorer.core.printable import printable


class Ink(NamedTuple):
    """How a cell is coloured, by theme tokens: of the character and of the ground."""

    role: str = "text"
    ground: str = "bg"
    strong: bool = False


@lru_cache(maxsize=1024)
def ink(role: str, ground: str, strong: bool) -> Ink:
    """The one ink of its kind: thousands of cells share a few."""
    return Ink(role, ground, strong)


class Plot(NamedTuple):
    """Where the plot lies in the widget, in cells."""

    x: int
    y: int
    width: int
    height: int
    gutter: int
    """Columns to its right, for labels."""


PLAIN: Final = Ink()
"""Blank ground."""
_BRIDGE: Final = 3
"""Unchanged cells between two changes that are drawn along with them."""


class CellGrid:
    """Rows of cells; writes outside of it are left out."""

    __slots__ = ("chars", "height", "inks", "width")

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.chars: list[list[str]] = [[" "] * width for _ in range(height)]
        self.inks: list[list[Ink]] = [[PLAIN] * width for _ in range(height)]

    def put(self, x: int, y: int, char: str, role: str, *, strong: bool = False) -> None:
        """Draw a character and keep the cell's ground."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self.chars[y][x] = char
            self.inks[y][x] = ink(role, self.inks[y][x].ground, strong)

    def text(self, x: int, y: int, text: str, role: str, *, strong: bool = False) -> None:
        """Draw a text from a cell on, without what a terminal obeys."""
        for at, char in enumerate(printable(text)):
            self.put(x + at, y, char, role, strong=strong)

    def tint(self, x: int, y: int, ground: str) -> None:
        """Change a cell's ground and keep its character."""
        if 0 <= x < self.width and 0 <= y < self.height:
            now = self.inks[y][x]
            self.inks[y][x] = ink(now.role, ground, now.strong)

    def row(self, y: int) -> str:
        """The characters of a row."""
        return "".join(self.chars[y])

    def runs(self, y: int) -> Iterator[tuple[str, Ink]]:
        """A row as texts of one ink each."""
        at = 0
        for ink, cells in groupby(self.inks[y]):
            length = sum(1 for _ in cells)
            yield "".join(self.chars[y][at : at + length]), ink
            at += length

    def changes(self, before: CellGrid) -> Iterator[tuple[int, int, int]]:
        """(row, first column, column after the last) of what differs from a grid of the same size."""
        for y in range(self.height):
            chars, inks, old_chars, old_inks = self.chars[y], self.inks[y], before.chars[y], before.inks[y]
            if chars == old_chars and inks == old_inks:
                continue
            start = end = -1
            for x in range(self.width):
                if chars[x] == old_chars[x] and inks[x] == old_inks[x]:
                    continue
                if start >= 0 and x - end > _BRIDGE:
                    yield y, start, end
                    start = -1
                if start < 0:
                    start = x
                end = x + 1
            if start >= 0:
                yield y, start, end

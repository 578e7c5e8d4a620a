"""Text drawn row by row from runs of (text, style words); only cells that changed are drawn again.

Law: colours are theme tokens, never values; a run's words are `TOKEN [on TOKEN] [b] [u]`. Nothing is drawn
that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from replexplorer.core.printable import printable
from replexplorer.ui.ink import style_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs

if TYPE_CHECKING:
    from rich.style import Style

Run = tuple[str, str]
"""A text and the words of its style."""
Line = Sequence[Run]
"""One row."""


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


class OwnRows(Widget):
    """A widget whose `render_line` makes its rows.

    Textual notes what is to be drawn anew for widgets that it renders whole, and forgets it there: here
    it would keep every region that ever changed, some thousands an hour.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region."""
        self._dirty_regions.clear()
        return super().render_lines(crop)


class Lines(OwnRows):
    """A widget that paints rows of runs; subclasses say what, in `paint`."""

    GROUND: ClassVar[str] = "bg"
    """Token of the colour behind everything."""

    def __init__(
        self, *, glyphs: Glyphs = BRAILLE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._painted: list[list[Run]] = []
        self._painted_size = (0, 0)

    def paint(self, width: int, height: int) -> Sequence[Line]:
        """The rows at this size; missing ones are blank, longer ones are cut."""
        raise NotImplementedError

    @property
    def rows(self) -> list[str]:
        """What stands in each row now, as plain text."""
        return ["".join(text for text, _ in line) for line in self._painted]

    def repaint(self) -> None:
        """Paint again and refresh the cells that differ from the last picture."""
        width, height = self.size
        if not (self.is_mounted and width and height):
            return
        painted = [_printable(line) for line in self.paint(width, height)]
        fresh = [cut(line, width, self.glyphs.ellipsis) for line in painted][:height]
        fresh += [[] for _ in range(height - len(fresh))]
        before, self._painted = self._painted, fresh
        if self._painted_size != (width, height) or len(before) != height:
            self._painted_size = (width, height)
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, fresh, strict=True)):
            if old != new:
                start, end = _difference(old, new)
                self.refresh(Region(start, y, max(1, min(end, width) - start), 1))

    def restyle(self) -> None:
        """Draw everything again, e.g. in another theme."""
        self._painted_size = (0, 0)
        self.repaint()

    def on_resize(self, event: events.Resize) -> None:
        """Paint at the new size."""
        self.repaint()

    def on_show(self, event: events.Show) -> None:
        """Paint what changed while it was hidden."""
        self.repaint()

    def render_line(self, y: int) -> Strip:
        """One painted row."""
        width = self.size.width
        ground = self._style("text")
        if not 0 <= y < len(self._painted):
            return Strip.blank(width, ground)
        segments = [Segment(self.glyphs.text(text), self._style(words)) for text, words in self._painted[y]]
        return Strip(segments).adjust_cell_length(width, ground)

    def _style(self, words: str) -> Style:
        return style_of(self.app, words, self.GROUND)


def _printable(line: Line) -> Line:
    """The row without what a terminal obeys: texts of servers and files stand in it."""
    if all(text.isprintable() for text, _ in line):
        return line
    return [(printable(text), words) for text, words in line]


def _difference(old: Line, new: Line) -> tuple[int, int]:
    """Columns of the first cell that differs and after the last one."""
    before, after = _cells(old), _cells(new)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end_before, end_after = len(before), len(after)
    if end_before == end_after:
        while end_after > start and before[end_after - 1] == after[end_after - 1]:
            end_after -= 1
        return start, end_after
    return start, max(end_before, end_after)


def _cells(line: Line) -> list[tuple[str, str]]:
    return [(character, words) for text, words in line for character in text]

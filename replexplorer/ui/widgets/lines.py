"""Text drawn row by row from runs of (text, style words); only cells that changed are drawn again.

Law: colours are theme tokens, never values; a run's words are `TOKEN [on TOKEN] [b] [u]`. Nothing is drawn
that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from replexplorer.core.printable import printable
from replexplorer.ui.style.ink import style_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.words.runs import Line, Run, cut

if TYPE_CHECKING:
    from rich.style import Style


class OwnRows(Widget):
    """A widget whose `render_line` makes its rows.

    Textual notes what is to be drawn again for widgets that it renders whole, and forgets it there: here
    it would keep every region that ever changed, some thousands an hour.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region."""
        self._dirty_regions.clear()
        return super().render_lines(crop)


class Cadence:
    """Figures that all move with each tick, drawn less often than that; what is said in words at once.

    Stretches begin at multiples of their length, so that all that is drawn once a second is drawn with the
    same tick: a colour is then sent once for all of it.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._words: object = None
        self._drawn_s = -inf

    def is_due(self, at_s: float, words: object = None) -> bool:
        """Whether to draw at this moment, which then counts as drawn: other words, the same moment again,
        an earlier one as after a jump, or the first one of another stretch."""
        is_later = at_s > self._drawn_s and isfinite(self._drawn_s)
        if words == self._words and is_later and self._stretch(at_s) == self._stretch(self._drawn_s):
            return False
        self._words, self._drawn_s = words, at_s
        return True

    def forget(self) -> None:
        """What comes next is drawn."""
        self._drawn_s = -inf

    def _stretch(self, at_s: float) -> int:
        return int(at_s // self._every_s)


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

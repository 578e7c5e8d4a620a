"""Text drawn row by row from runs of (text, style words); only rows that changed are drawn again.

Law: colors are theme tokens, never values; a run's words are `TOKEN [b] [u] [on TOKEN]`. Nothing is drawn
that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import inf, isfinite
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from replexplorer.core.text import printable
from replexplorer.ui.actions import first_key
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.charts.paint import paint_chart
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.words.runs import Line, Run, cut, joined


class Cadence:
    """Figures that all move with each tick, drawn less often than that; what is said in words at once.

    Stretches begin at multiples of their length, so that all that is drawn once a second is drawn with the
    same tick.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._words: object = None
        self._drawn_s = -inf

    def is_due(self, at_s: float, words: object) -> bool:
        """Whether to draw at this moment, which then counts as drawn: other words, the same moment again,
        an earlier one as after a jump, or the first one of another stretch."""
        is_later = at_s > self._drawn_s and isfinite(self._drawn_s)
        if words == self._words and is_later and at_s // self._every_s == self._drawn_s // self._every_s:
            return False
        self._words, self._drawn_s = words, at_s
        return True


Shown = TypeVar("Shown")


class RegionWidget(Widget):
    """A widget that refreshes regions of its own."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region. Textual forgets what is to be redrawn only where it renders a widget whole:
        here it would keep every region that ever changed, some thousands an hour."""
        self._dirty_regions.clear()
        return super().render_lines(crop)


class Lines(RegionWidget, Generic[Shown]):
    """A widget that paints what it is shown as rows of runs; subclasses say how, in `draw`."""

    GROUND: ClassVar[str] = "bg"
    """Token of the color behind everything."""

    shown: Shown | None = None
    """What is painted; None: nothing yet."""

    def __init__(self, settings: Settings, id: str) -> None:
        super().__init__(id=id)
        self.glyphs = settings.glyphs
        self._keymap = settings.keymap
        self._painted: list[list[Run]] = []
        self._painted_size = (0, 0)

    def show(self, shown: Shown) -> None:
        """Paint this from now on."""
        self.shown = shown
        self.repaint()

    def take_rows(self, rows: int) -> None:
        """Be this many rows high; an assignment lays the screen out, so there is one only where it
        differs."""
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    def draw(self, shown: Shown, width: int, height: int) -> Sequence[Line]:
        """The rows of it at this size; missing ones are blank, longer ones are cut."""
        raise NotImplementedError

    def paint(self, width: int, height: int) -> Sequence[Line]:
        """The rows at this size."""
        return [] if self.shown is None else self.draw(self.shown, width, height)

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return first_key(action, self._keymap, in_ascii=self.glyphs.ascii)

    @property
    def rows(self) -> list[str]:
        """Each row now, as plain text."""
        return ["".join(text for text, _ in line) for line in self._painted]

    def repaint(self) -> None:
        """Paint again and refresh what differs from the last picture: of each row as far as it does."""
        width, height = self.size
        if not (self.is_mounted and width and height):
            return
        painted = [[(printable(text), words) for text, words in line] for line in self.paint(width, height)]
        fresh = [cut(line, width) for line in painted][:height]
        fresh += [[] for _ in range(height - len(fresh))]
        before, self._painted = self._painted, fresh
        if self._painted_size != (width, height):
            self._painted_size = (width, height)
            self.redraw(Region(0, 0, width, height))
            return
        for y, (old, new) in enumerate(zip(before, fresh, strict=True)):
            if old != new:
                cells = enumerate(zip_longest(_cells(old), _cells(new)))
                changed = [at for at, (was, now) in cells if was != now] or [0]
                start, end = changed[0], min(changed[-1] + 1, width)
                self.redraw(Region(start, y, max(1, end - start), 1))

    def redraw(self, cells: Region) -> None:
        """Have cells drawn from what is painted."""
        self.refresh(cells)

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
        inks = inks_of(self.app)
        line = joined(self._painted[y]) if y < len(self._painted) else []
        segments = [Segment(self.glyphs.text(text), inks.style(words, self.GROUND)) for text, words in line]
        return Strip(segments).adjust_cell_length(self.size.width, inks.style("text", self.GROUND))


def _cells(line: Line) -> list[tuple[str, str]]:
    return [(character, words) for text, words in line for character in text]


class Slice(RegionWidget):
    """A part of the columns of a `Chart`. Textual writes a row again from the left edge of its widget to the
    last cell that changed: in a chart of one widget most of each row with each tick."""

    def __init__(self, chart: Chart) -> None:
        super().__init__()
        self._chart = chart

    def render_line(self, y: int) -> Strip:
        """Its cells of a row that the chart has painted."""
        start = self.region.x - self._chart.region.x
        return self._chart.render_line(y).crop(start, start + self.size.width)


class Chart(Lines[ChartModel]):
    """Title rule, plot and time axis of one `ChartModel`; TPS and latency are two models of it."""

    DEFAULT_CSS = """
    Chart { height: 1fr; min-height: 5; layout: horizontal; }
    Chart Slice { width: 1fr; height: 100%; }
    """
    SLICES: ClassVar = 8

    def compose(self) -> ComposeResult:
        """The slices, from the left."""
        for _ in range(self.SLICES):
            yield Slice(self)

    def redraw(self, cells: Region) -> None:
        """Of each slice what is in it."""
        for part in self.children:
            its = part.region.translate(-self.region.offset)
            if inside := its.intersection(cells):
                part.refresh(inside.translate(-its.offset))

    def show(self, shown: ChartModel) -> None:
        """Paint another model: equal ones are the same picture."""
        if shown != self.shown:
            super().show(shown)

    def draw(self, shown: ChartModel, width: int, height: int) -> list[Line]:
        """The model at this size."""
        inks = inks_of(self.app)
        grid = paint_chart(shown, width, height, self.glyphs, shades=inks.shades)
        return [grid.runs(y) for y in range(height)]

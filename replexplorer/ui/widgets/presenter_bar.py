"""For a room: the one number that matters in big digits, what just happened in a sentence, time and keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from replexplorer.core.history.caption import Headline, Matters
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.big_digits import big_rows, solid_rows
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, spread, width_of, wrapped

NUMBER_CELLS: Final = 31
"""Columns of the number and of what it counts."""
_DIGIT_ROWS: Final = 3
_SOLID_ROWS: Final = 5
"""Of digits on a screen that has `_SOLID_FROM` rows."""
_SOLID_FROM: Final = 36
_MOST_ROWS: Final = 6
"""Of what is said."""
_INKS: Final = {Matters.TPS: "tps b", Matters.WAIT: "bad b", Matters.AT_RISK: "warn b"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the bar shows."""

    headline: Headline
    caption: str = ""
    """What happened last."""
    lesson: str = ""
    """What to watch in the stage of the lesson that is read; empty without a lesson."""
    stands: str = ""
    """Where the lesson is: `2/5 semi-sync`."""
    is_earlier: bool = False
    """An earlier stage than the one under way is read."""
    longest: str = ""
    """The lesson's longest sentence: the bar is as high throughout."""
    timer_s: float = 0.0
    """Since presenting began."""
    keys: tuple[str, ...] = ()
    """Pressed lately."""
    back: str = "b"
    """The key that reads the caption before."""
    on: str = "n"
    """The key that reads on."""


class PresenterBar(Lines):
    """Five rows or more, from 36 rows of screen on seven; nothing in it moves with the figures."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "PresenterBar { height: 5; }"

    def __init__(self, *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._shown: Shown | None = None
        self._height = 0

    def show(self, shown: Shown) -> None:
        """Show this; as high as what is said at its longest."""
        self._shown = shown
        height = self._rows(self.app.size.width) + 2
        if height != self._height:  # each assignment lays the screen out
            self._height = self.styles.height = height
        self.repaint()

    def _rows(self, width: int) -> int:
        shown = self._shown
        least = _SOLID_ROWS if self.app.size.height >= _SOLID_FROM else _DIGIT_ROWS
        if shown is None or not shown.longest:
            return least
        lesson = len(wrapped(shown.longest, _said_cells(width)))
        return max(least, min(_MOST_ROWS, lesson + 1))

    def paint(self, width: int, height: int) -> list[Line]:
        """What the number counts and the time; digits beside what is said; the lesson and the keys."""
        shown = self._shown
        if shown is None:
            return []
        middle = max(1, height - 2)
        digits = _big(_digits(shown.headline), middle, self.glyphs)
        ink = _INKS[shown.headline.matters]
        said = self._said(shown, _said_cells(width), middle)
        rows: list[Line] = [spread([(f" {shown.headline.words}", "title b")], _time(shown.timer_s), width)]
        for at in range(middle):
            digit = digits[at] if at < len(digits) else ""
            left: list[Run] = [(" ", "text"), (digit, ink)]
            left.append((" " * max(1, NUMBER_CELLS - width_of(left)), "text"))
            rows.append([*left, *(said[at] if at < len(said) else [])])
        return [*rows, spread(_stands(shown), _keys(shown, width), width)]

    def _said(self, shown: Shown, cells: int, rows: int) -> list[Line]:
        """The lesson's sentence, then what happened last, which has a row at least."""
        lesson: list[Line] = [[(row, "title b")] for row in wrapped(shown.lesson, cells)]
        ink = "text" if lesson else "title b"
        happened: list[Line] = [[(row, ink)] for row in wrapped(shown.caption, cells)]
        kept = lesson[: rows - min(1, len(happened))]
        if len(kept) < len(lesson):
            kept[-1] = cut(
                [*kept[-1], (" " + self.glyphs.ellipsis * 2, "title b")], cells, self.glyphs.ellipsis
            )
        room = rows - len(kept)
        if len(happened) > room:
            last = cut([*happened[room - 1], (" " * cells, ink)], cells, self.glyphs.ellipsis)
            happened = [*happened[: room - 1], last]
        return [*kept, *happened]


def _said_cells(width: int) -> int:
    """Columns for what is said."""
    return max(20, width - NUMBER_CELLS - 1)


def _big(text: str, rows: int, glyphs: Glyphs) -> tuple[str, ...]:
    """The figure as big as there is room for."""
    solid = solid_rows(text, glyphs)
    return solid if rows >= len(solid) and len(solid[0]) < NUMBER_CELLS - 1 else big_rows(text, glyphs)


def _digits(headline: Headline) -> str:
    if headline.value is None:
        return "-"
    if headline.matters is Matters.TPS:
        return figures.rate(headline.value)
    return figures.count(round(headline.value))


def _time(seconds: float) -> Line:
    return [(f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d} ", "title b")]


def _stands(shown: Shown) -> list[Run]:
    """` 2/5 semi-sync   b back  n on`."""
    if not shown.stands:
        return []
    ink = "warn b" if shown.is_earlier else "accent b"
    runs: list[Run] = [(f" {shown.stands}", ink), ("   ", "text")]
    return [*runs, (shown.back, "key b"), (" back  ", "muted"), (shown.on, "key b"), (" on", "muted")]


def _keys(shown: Shown, width: int) -> Line:
    """The newest keys that fit beside the lesson."""
    room = max(12, width // 3)
    kept = list(shown.keys)
    while kept and sum(len(key) + 3 for key in kept) > room:
        kept.pop(0)
    runs: list[Run] = []
    for key in kept:
        runs += [(f" {key} ", "onstate on armed b"), (" ", "text")]
    return runs

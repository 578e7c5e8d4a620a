"""The last rows: keys that matter at this width, the player of a replay, the presenter's bar for a room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, ClassVar, Final

from replexplorer.core.history.caption import Headline, Matters
from replexplorer.core.text import elapsed
from replexplorer.engine.view import PlayerPosition
from replexplorer.ui.actions import FOOTER, FooterItem
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import Layout
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.strips import big_rows, solid_rows
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, apart, cut, fit, hint, padded, spread, width_of, wrapped

if TYPE_CHECKING:
    from replexplorer.ui.presenter import Presenter


class Footer(Lines[str]):
    """Hints from the action registry under the keymap in force; the least important go first."""

    GROUND: ClassVar[str] = "keybg"
    DEFAULT_CSS = "Footer { height: 1; dock: bottom; }"

    layout_name = Layout.NORMAL
    """Which hints there are."""
    items: tuple[FooterItem, ...] = FOOTER
    """All hints there are."""
    question: tuple[Line, ...] = ()
    """Asked in place of the hints, longest first: the first that fits is shown."""

    def ask(self, question: tuple[Line, ...]) -> None:
        """Ask this, or show the hints again."""
        self.question = question
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The question, while there is one; else as many hints as fit in the condition that is shown: `down`
        while a node is down or a replication thread is stopped."""
        if self.question:
            return [fit(self.question, width)]
        items = [
            item
            for item in self.items
            if self.layout_name.value[0] in item.layouts and item.when in ("", self.shown)
        ]
        while items and width_of(row := self._row(items)) > width:
            items.remove(max(items, key=lambda item: item.rank))
        return [row] if items else []

    def _row(self, items: list[FooterItem]) -> Line:
        hints = []
        for item in items:
            keys = [self.key(action) for action in item.actions.split()]
            label, word = ("" if all(len(key) == 1 for key in keys) else " ").join(keys), item.word
            if not keys:
                label, _, word = item.word.partition(" ")
            hints.append(hint(label, word))
        return [(" ", "text"), *apart(hints, "  ")]


class PlayerLine(Lines[PlayerPosition]):
    """One row over the keys: `▶ REPLAY 00:01:23 / 00:02:33 ×1 ━━━━╸───`."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "PlayerLine { height: 1; }"

    marks_s: Sequence[float] = ()
    """Seconds since the recording's first tick."""

    def draw(self, shown: PlayerPosition, width: int, height: int) -> list[Line]:
        """The state, the clock, and a bar of what was played and what comes, with the marks on both."""
        state = ("▶ REPLAY", "good b") if shown.playing else ("‖ PAUSED", "warn b")
        if not shown.playing and shown.position_s >= shown.length_s:
            state = ("■ END   ", "warn b")
        clocks = " / ".join(elapsed(each) for each in (shown.position_s, shown.length_s))
        row: Line = [(" ", "text"), state, (f" {clocks}  ×{shown.speed:g} ", "text")]
        room, length_s = max(0, width - width_of(row) - 1), shown.length_s or 1.0
        done = round(shown.position_s / length_s * room)
        marked = {min(room - 1, int(mark_s / length_s * room)) for mark_s in self.marks_s}
        cells = [
            ("┃", "mark") if at in marked else ("━", "accent") if at < done else ("─", "rule")
            for at in range(room)
        ]
        return [[*row, *cells]]


NUMBER_CELLS: Final = 31
"""Columns of the number and of what it counts."""
_DIGIT_ROWS: Final = 3
_SOLID_ROWS: Final = 5
"""Of digits on a screen that has `_SOLID_FROM` rows."""
_SOLID_FROM: Final = 36
_MOST_ROWS: Final = 6
"""Of what is said."""
_INKS: Final = {Matters.TPS: "tps b", Matters.WAIT: "bad b", Matters.AT_RISK: "warn b"}


class PresenterBar(Lines[tuple[Headline, float]]):
    """Five rows or more, from 36 rows of screen on seven; nothing in it moves with the figures. It is shown
    what the number is, and the time on the presenter's clock."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "PresenterBar { height: 5; }"

    def __init__(self, presenter: Presenter, settings: Settings, id: str) -> None:
        super().__init__(settings, id)
        self._presenter = presenter

    def show(self, shown: tuple[Headline, float]) -> None:
        """Show this; as high as what is said at its longest."""
        size = self.app.size
        least = _SOLID_ROWS if size.height >= _SOLID_FROM else _DIGIT_ROWS
        cells = _said_cells(size.width)
        lesson = 1 + max((len(wrapped(each.shows, cells)) for each in self._presenter.stages), default=0)
        height = 2 + max(least, min(_MOST_ROWS, lesson))
        self.take_rows(height)
        super().show(shown)

    def draw(self, shown: tuple[Headline, float], width: int, height: int) -> list[Line]:
        """What the number counts and the time; digits next to what is said; the lesson and the keys."""
        headline, now_s = shown
        middle, figure = max(1, height - 2), figures.UNKNOWN
        if headline.value is not None:
            is_rate = headline.matters is Matters.TPS
            figure = figures.rate(headline.value) if is_rate else figures.count(round(headline.value))
        digits = solid_rows(figure, self.glyphs)
        if middle < len(digits) or len(digits[0]) >= NUMBER_CELLS - 1:
            digits = big_rows(figure, self.glyphs)
        said = self._said(_said_cells(width), middle)
        time_s = int(now_s - (self._presenter.began_s or now_s))
        clock: Line = [(f"{time_s // 60:02d}:{time_s % 60:02d} ", "title b")]
        rows: list[Line] = [spread([(f" {headline.words}", "title b")], clock, width)]
        for digit, words in islice(zip_longest(digits, said, fillvalue=""), middle):
            left: Line = [(" ", "text"), (str(digit), _INKS[headline.matters])]
            rows.append([*padded(left, NUMBER_CELLS), *(words or ())])
        return [*rows, spread(self._stands(), _keys(self._presenter.keys(now_s), width), width)]

    def _said(self, cells: int, rows: int) -> list[Line]:
        """The lesson's sentence, then what happened last, which has a row at least."""
        stage = self._presenter.stage
        lesson: list[Line] = [[(row, "title b")] for row in wrapped(stage.shows, cells)] if stage else []
        ink = "text" if lesson else "title b"
        happened: list[Line] = [[(row, ink)] for row in wrapped(self._presenter.caption, cells)]
        kept = self._shortened(lesson, rows - min(1, len(happened)), cells)
        return [*kept, *self._shortened(happened, rows - len(kept), cells)]

    def _stands(self) -> Line:
        """` 2/5 semi-sync   b back  n on`."""
        presenter, stage = self._presenter, self._presenter.stage
        if stage is None:
            return []
        ink = "warn b" if presenter.reads is not None else "accent b"
        keys = apart([hint(self.key("step.prev"), "back"), hint(self.key("step.next"), "on")], "  ")
        return [(f" {presenter.stage_number}/{len(presenter.stages)} {stage.name}   ", ink), *keys]

    def _shortened(self, said: list[Line], rows: int, cells: int) -> list[Line]:
        """At most `rows` rows of a text, the last one with an ellipsis where there is more."""
        if len(said) <= rows:
            return said
        last = [*said[rows - 1], (" " * cells, said[0][0][1])]
        return [*said[: rows - 1], cut(last, cells)]


def _said_cells(width: int) -> int:
    """Columns for what is said."""
    return max(20, width - NUMBER_CELLS - 1)


def _keys(pressed: Sequence[str], width: int) -> Line:
    """The newest keys that fit next to the lesson."""
    kept = [[(f" {key} ", "onstate on armed b"), (" ", "text")] for key in pressed]
    rows = ([run for key in kept[at:] for run in key] for at in range(len(kept) + 1))
    return fit(rows, max(12, width // 3))

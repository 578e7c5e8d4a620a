"""The last rows: keys that matter at this width, the player of a replay, the presenter's bar for a room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from replexplorer.core.history.caption import Headline, Matters, headline
from replexplorer.core.text import elapsed
from replexplorer.core.tick import Tick
from replexplorer.engine.view import PlayerPosition
from replexplorer.ui.actions import FOOTER, FooterItem
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import TALL_ROWS, WIDE_SIZE, Layout
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.strips import block_rows
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, apart, fit, hint, padded, spread, width_of, wrapped
from replexplorer.ui.words.states import state_of

if TYPE_CHECKING:
    from replexplorer.ui.presenter import Presenter


class Footer(Lines[str]):
    """Hints from the action registry under the keymap in force; the least important go first."""

    GROUND = "keybg"
    DEFAULT_CSS = "Footer { height: 1; dock: bottom; }"

    layout_name = Layout.NORMAL
    """Which hints there are."""
    items: tuple[FooterItem, ...] = FOOTER
    """All hints there are."""
    question: tuple[Line, ...] = ()
    """Asked in place of the hints, longest first: the first that fits is shown."""

    def ask(self, question: tuple[Line, ...]) -> None:
        """Ask this, or show the hints again."""
        if question != self.question:
            self.question = question
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The question, while there is one; else as many hints as fit in the condition that is shown: `down`
        while a node is down or a replication thread is stopped."""
        if self.question:
            return [fit(self.question, width)]
        hints = {
            item: self._hint(item)
            for item in self.items
            if self.layout_name.value[0] in item.layouts and item.when in ("", self.shown)
        }
        while hints and width_of(row := [(" ", "text"), *apart(hints.values(), "  ")]) > width:
            del hints[max(hints, key=lambda item: item.rank)]
        return [row] if hints else []

    def _hint(self, item: FooterItem) -> Line:
        keys = [self.key(action) for action in item.actions.split()]
        label, word = ("" if all(len(key) == 1 for key in keys) else " ").join(keys), item.word
        if not keys:
            label, _, word = item.word.partition(" ")
        return hint(label, word)


class PlayerLine(Lines[PlayerPosition]):
    """One row over the keys: `▶ REPLAY 00:01:23 / 00:02:33 ×1 ━━━━╸───`."""

    GROUND = "panel"
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


_NUMBER_CELLS: Final = 38
"""Columns of the number and of what it counts."""
_NUMBER_ROWS: Final = 8
"""Seven of digits, and what they count."""
_LETTERS_FROM: Final = 33
"""Rows of a screen from which on the state and what is said are in large letters."""
_INKS: Final = {Matters.TPS: "tps b", Matters.WAIT: "bad b", Matters.AT_RISK: "warn b"}


class PresenterBar(Lines[tuple[Tick, float | None, float]]):
    """The state across the screen, the number that matters, what is said and the keys, as high on a screen
    whatever they are. It is shown a tick, the TPS and the time on the presenter's clock."""

    GROUND = "panel"
    DEFAULT_CSS = "PresenterBar { height: 10; }"

    def __init__(self, presenter: Presenter, settings: Settings, id: str) -> None:
        super().__init__(settings, id)
        self._presenter = presenter

    @property
    def _is_large(self) -> bool:
        return self.app.size.height >= _LETTERS_FROM

    @property
    def _letter_lines(self) -> int:
        """How many lines of large letters what is said may have, four rows each and a blank one between; one
        more where lines are short and there is room."""
        width, height = self.app.size
        if not self._is_large or self.glyphs.ascii:
            return 0
        return 4 if width < WIDE_SIZE[0] and height >= TALL_ROWS else 3

    @property
    def _said_rows(self) -> int:
        return max(_NUMBER_ROWS, 5 * self._letter_lines - 1)

    def show(self, shown: tuple[Tick, float | None, float]) -> None:
        """Show this, as high as the screen is for."""
        self.take_rows((6 if self._is_large else 1) + self._said_rows + 1)
        super().show(shown)

    def draw(self, shown: tuple[Tick, float | None, float], width: int, height: int) -> list[Line]:
        """The state; the number with what is said; the lesson, the keys and the time."""
        tick, tps, now_s = shown
        number = self._number(headline(tick, tps))
        said = self._said(width - _NUMBER_CELLS - 1)
        rows = [[*padded(row or [], _NUMBER_CELLS), *words] for row, words in zip_longest(number, said)]
        time_s = int(now_s - (self._presenter.began_s or now_s))
        keys = [
            *_keys(self._presenter.keys(now_s), width),
            (f" {time_s // 60:02d}:{time_s % 60:02d} ", "title b"),
        ]
        return [*self._state(tick, width), *rows, spread(self._lesson(), keys, width)]

    def _state(self, tick: Tick, width: int) -> list[Line]:
        """In large letters, which a blank row keeps apart from the number, or in spaced ones."""
        symbol, word, token = state_of(tick)
        rows = ["", *block_rows(word, self.glyphs)] if self._is_large else [f"{symbol}   {' '.join(word)}"]
        bar: list[Line] = [[(f"{row:^{width}}", f"onstate on {token} b")] for row in rows]
        return [*bar, []] if self._is_large else bar

    def _number(self, shown: Headline) -> list[Line]:
        """Its digits, smaller where there are too many, and what it counts."""
        figure = figures.UNKNOWN
        if shown.value is not None:
            is_rate = shown.matters is Matters.TPS
            figure = figures.rate(shown.value) if is_rate else figures.count(round(shown.value))
        large, small = (block_rows(figure, self.glyphs, scale=scale) for scale in (2, 1))
        digits = large if len(large[0]) < _NUMBER_CELLS else small
        rows: list[Line] = [[(f" {row}", _INKS[shown.matters])] for row in digits]
        rows = [*rows, *[[]] * _NUMBER_ROWS][: _NUMBER_ROWS - 1]
        return [*rows, [(f" {shown.words}", "title b")]]

    def _said(self, cells: int) -> list[Line]:
        """The lesson's question or sentence, or without one what happened last: in large letters where these
        fit; what happened last below the lesson's, where there is room."""
        stage, happened = self._presenter.stage, self._presenter.caption
        text = self._presenter.question or (stage.shows if stage else happened)
        letters = wrapped(text, cells // 3)
        rows: list[Line]
        are_large = text.isascii() and len(letters) <= self._letter_lines
        if are_large:
            rows = [[(row, "title b")] for line in letters for row in (*block_rows(line, bold=False), "")]
        else:
            rows = [[("", "text")], *([(row, "title b")] for row in wrapped(text, cells))]
        more: list[Line] = [[], *([(row, "text")] for row in wrapped(happened, cells))]
        if stage and len(rows) + len(more) <= self._said_rows:
            rows += more[are_large:]
        return [*rows, *[[]] * self._said_rows][: self._said_rows]

    def _lesson(self) -> Line:
        """` 2/5 semi-sync   b back  n on`."""
        presenter, stage = self._presenter, self._presenter.stage
        if stage is None:
            return []
        ink = "warn b" if presenter.reads is not None else "accent b"
        keys = apart([hint(self.key("step.prev"), "back"), hint(self.key("step.next"), "on")], "  ")
        return [(f" {presenter.stage_number}/{len(presenter.stages)} {stage.name}   ", ink), *keys]


def _keys(pressed: Sequence[str], width: int) -> Line:
    """The newest keys that fit next to the lesson."""
    kept = [[(f" {key} ", "onstate on armed b"), (" ", "text")] for key in pressed]
    rows = ([run for key in kept[at:] for run in key] for at in range(len(kept) + 1))
    return fit(rows, max(12, width // 3))

"""The last rows: keys that matter at this width, the player of a replay, the presenter's bar for a room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from textual.reactive import reactive

from replexplorer.core.history.caption import Headline, Matters
from replexplorer.engine.view import PlayerPosition
from replexplorer.ui.actions import FOOTER, FooterItem, key_label, keys_of
from replexplorer.ui.style.layout import Layout
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.big_digits import big_rows, solid_rows
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, spread, width_of, wrapped


class Footer(Lines):
    """Hints from the action registry under the keymap in force; the least important go first."""

    GROUND: ClassVar[str] = "keybg"
    DEFAULT_CSS = "Footer { height: 1; dock: bottom; }"

    layout_name: reactive[Layout] = reactive(Layout.NORMAL)
    """Which hints there are."""
    items: reactive[tuple[FooterItem, ...]] = reactive(FOOTER)
    """All hints there are."""
    condition: reactive[str] = reactive("")
    """`down` while a node is down or a replication thread is stopped."""
    question: reactive[tuple[Line, ...]] = reactive(())
    """Asked in place of the hints, longest first: the first that fits is shown."""

    def __init__(self, keymap: Mapping[str, str], *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._keymap = keymap

    def watch_layout_name(self) -> None:
        """Draw the hints of the layout."""
        self.repaint()

    def watch_items(self) -> None:
        """Draw other hints."""
        self.repaint()

    def watch_condition(self) -> None:
        """Show or hide hints."""
        self.repaint()

    def watch_question(self) -> None:
        """Ask, or show the hints again."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The question, while there is one; else as many hints as fit."""
        if self.question:
            return [next((row for row in self.question if width_of(row) <= width), self.question[-1])]
        items = [
            item
            for item in self.items
            if self.layout_name.value[0] in item.layouts and item.when in ("", self.condition)
        ]
        while items and width_of(row := self._row(items)) > width:
            items.remove(max(items, key=lambda item: item.rank))
        return [row] if items else []

    def _row(self, items: list[FooterItem]) -> list[Run]:
        runs: list[Run] = []
        for item in items:
            keys = [
                key_label(keys_of(action, self._keymap)[0], in_ascii=self.glyphs.ascii)
                for action in item.actions
            ]
            label = "".join(keys) if all(len(key) == 1 for key in keys) else " ".join(keys)
            word = item.word
            if not keys:
                label, _, word = item.word.partition(" ")
            runs += [("  " if runs else " ", "text"), (label, "key b"), (f" {word}", "muted")]
        return runs


class PlayerLine(Lines):
    """One row over the keys."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "PlayerLine { height: 1; }"

    view: reactive[PlayerPosition | None] = reactive(None)
    """Where it stands."""
    marks_s: reactive[Sequence[float]] = reactive(())
    """Seconds since the recording's first tick."""

    def watch_view(self) -> None:
        """Repaint with the position and speed of now."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """`▶ REPLAY 00:01:23 / 00:02:33 ×1 ━━━━╸───`."""
        view = self.view
        if view is None:
            return []
        state = ("▶ REPLAY", "good b") if view.playing else ("‖ PAUSED", "warn b")
        if not view.playing and view.position_s >= view.length_s:
            state = ("■ END", "warn b")
        told = f" {_clock(view.position_s)} / {_clock(view.length_s)}  ×{view.speed:g} "
        room = max(0, width - len(state[0]) - len(told) - 2)
        return [[(" ", "text"), state, (told, "text"), *self._bar(view, room)]]

    def _bar(self, view: PlayerPosition, room: int) -> Line:
        """What was played, what comes, and the marks on both."""
        length_s = view.length_s or 1.0
        done = round(view.position_s / length_s * room)
        marked = {min(room - 1, int(mark_s / length_s * room)) for mark_s in self.marks_s} if room else set()
        cells = [
            ("┃", "mark") if at in marked else ("━", "accent") if at < done else ("─", "rule")
            for at in range(room)
        ]
        inks = groupby(cells, key=lambda cell: cell[1])
        return [("".join(text for text, _ in run), ink) for ink, run in inks]


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


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

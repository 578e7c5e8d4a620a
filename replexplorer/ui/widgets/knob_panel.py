"""All knobs by group: asked, in effect, measured; drawn from the catalogue and the tick, with what is typed
of a value or a filter."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from textual import events
from textual.message import Message

from replexplorer.core.knobs.names import Group, KnobName, format_value
from replexplorer.core.records import dataclass
from replexplorer.core.tick import Tick
from replexplorer.ui.board import Board
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, field, hint, padded, spread, width_of
from replexplorer.ui.words.states import effect_of, measured_of

_SOUGHT: Final = "words of a name, or of its help"
_HEADS: Final = (("in effect", "measured"), ("in effect", "seen"), ("effect", "seen"))
"""Of the figures in effect and measured, the longest first."""


class Columns(NamedTuple):
    """Where the columns of a row begin."""

    label: int
    asked: int
    effective: int


class KnobPanel(Lines[Tick]):
    """The knobs; arrow keys work on the screen, clicks and the wheel here."""

    GROUND = "panel"
    COLUMNS: ClassVar = Columns(3, 18, 30)
    HEADINGS_BESIDE: ClassVar = False
    """Headings are in a column of their own instead of a row of their own."""
    DEFAULT_CSS = "KnobPanel { height: 1fr; }"

    @dataclass
    class Picked(Message):
        """A knob was clicked."""

        name: KnobName

    @dataclass
    class Stepped(Message):
        """An arrow next to the selected value was clicked: -1 or 1."""

        direction: int

    @dataclass
    class Scrolled(Message):
        """The wheel turned: select this many rows further."""

        rows: int

    def __init__(self, board: Board, settings: Settings, id: str) -> None:
        super().__init__(settings, id)
        self._board = board
        self._top = 0
        self._rows: list[KnobName | None] = []
        self._arrows = (-1, -1)

    def draw(self, shown: Tick, width: int, height: int) -> list[Line]:
        """The rows that fit, the selected one among them, each under its heading."""
        board, beside = self._board, self.HEADINGS_BESIDE
        painted: list[tuple[Line, KnobName | None]] = []
        if board.searching or board.filter:
            painted.append((self._filter(width), None))
        rows: list[tuple[str, KnobName | None]] = []  # with the heading's title; None is the heading itself
        for section in board.sections:
            rows += [(section.title, row) for row in (*((None,) if not beside else ()), *section.names)]
        if not rows:
            painted.append(([(f" no knob matches `{board.filter}`", "muted")], None))
        elif beside:
            painted.append((self._heading("", width, columns=True), None))
        top = self._scrolled(rows, height - len(painted))
        seen = rows[top : top + height - len(painted)]
        if len(seen) > 1 and seen[-1][1] is None:
            seen.pop()  # a heading with nothing below it
        before = ""
        for at, (title, row) in enumerate(seen):
            if row is None or (at == 0 and not beside):
                line = self._heading(title, width, columns=at == 0)
                row = None
            else:
                line = self._knob(shown, row, title if beside and title != before else "", width)
            before = title
            painted.append((line, row))
        self._rows = [row for _, row in painted]
        return [line for line, _ in painted]

    def _scrolled(self, rows: list[tuple[str, KnobName | None]], height: int) -> int:
        """The first row of the window, which moves so that the cursor is in it, below the row of the
        heading."""
        cursor = self._board.selected
        at = next((i for i, (_, row) in enumerate(rows) if row is not None and row == cursor), 0)
        least, most = at - height + 1, at - (0 if self.HEADINGS_BESIDE else 1)
        self._top = max(0, min(max(least, min(self._top, most)), len(rows) - height))
        return self._top

    def _filter(self, width: int) -> Line:
        """What is filtered for, a field while it is typed, and how to see all again."""
        text, keys = self._board.filter, [*hint("esc", "all knobs"), (" ", "text")]
        filtered: Line = [(text, "title b")]
        if self._board.searching:
            filtered = field(text, width - 4 - width_of(keys), _SOUGHT)
        return spread([(" / ", "accent b"), *filtered], keys, width)

    def _heading(self, title: str, width: int, *, columns: bool) -> Line:
        """A heading, over the topmost knobs with the names of the columns; that of the disk with what the
        primary's takes without the server and the delay."""
        row: Line = [(f" {title}", "accent b")]
        disk = self.shown.source_disk if self.shown is not None else None
        right = ""
        if columns:
            effective = _HEADS[0][0]
            if title in (Group.DISK.upper(), Group.LINK.upper()):
                room = width - 2 - self.COLUMNS.effective
                effective, seen = next((head for head in _HEADS if len("".join(head)) <= room), _HEADS[-1])
                right = f"{seen} "
            row = padded([*padded(row, self.COLUMNS.asked), ("asked", "faint")], self.COLUMNS.effective)
            row = [*row, (effective, "faint")]
        elif title == Group.DISK.upper() and disk is not None and disk.probe_p50_ms is not None:
            right = f"bare disk {figures.millis(disk.probe_p50_ms)}   measured "
        return spread(row, [(right, "faint")] if right else [], width)

    def _knob(self, tick: Tick, name: KnobName, heading: str, width: int) -> Line:
        """`▸ rtt   ◂ 85 ms ▸   85 ms   85.4`: asked, in effect, measured."""
        board, at = self._board, self.COLUMNS
        chosen = name == board.selected
        label = cut([(board.label(name), "text b" if chosen else "text")], at.asked - at.label - 2)
        row = padded([(f" {heading}", "accent b")], at.label - 2)
        row = padded([*row, ("▸ " if chosen else "  ", "accent b"), *label], at.asked - 2)
        asked, ends = format_value(name.knob, board.asked(name)), ("◂ ", " ▸") if chosen else ("  ", "")
        value: Line = [(asked, "warn b" if name in board.staged else "text b"), (ends[1], "accent b")]
        if chosen and board.typed is not None and not board.searching:
            value = field(board.typed)
        row += [(ends[0], "accent b"), *value]
        if chosen:
            self._arrows = (at.asked - 2, width_of(row) - 1)
        row = self._with_effect(tick, row, name, width)
        return [(text, f"{words} on select") for text, words in padded(row, width)] if chosen else row

    def _with_effect(self, tick: Tick, row: list[Run], name: KnobName, width: int) -> list[Run]:
        """The figures in effect and measured; amber with an arrow where they are not what was asked."""
        at = self.COLUMNS.effective
        if name in self._board.pending:
            return [*padded(row, at), ("applying…", "accent")]
        effect, as_asked = effect_of(self._board.views[name], tick)
        measured, agrees = measured_of(name, tick)
        room = width - at - (len(measured) + 2 if measured else 0)
        if width_of(row) >= at or len(effect) > room:
            row = cut([*row, (" " if as_asked else " → ", "warn")], width)
        else:
            row = padded(row, at) if as_asked else [*padded(row, at - 2), ("→ ", "warn b")]
        quiet = "muted" if name == self._board.selected else "faint"
        row.append((effect, quiet if as_asked else "warn b"))
        if measured:
            row = [*padded(row, width - 1 - len(measured)), (measured, "muted" if agrees else "warn b")]
        return cut(row, width)

    def on_click(self, event: events.Click) -> None:
        """Select the knob, or step it when an arrow next to the value was hit."""
        row = self._rows[event.y] if 0 <= event.y < len(self._rows) else None
        less, more = self._arrows
        if row is not None and row == self._board.selected and event.x in (less, less + 1, more - 1, more):
            self.post_message(self.Stepped(1 if event.x >= more - 1 else -1))
        elif row is not None:
            self.post_message(self.Picked(row))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Select further down."""
        self.post_message(self.Scrolled(1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Select further up."""
        self.post_message(self.Scrolled(-1))


class KnobDrawer(KnobPanel):
    """The same knobs with their headings beside, over a small screen."""

    COLUMNS: ClassVar = Columns(13, 30, 43)
    HEADINGS_BESIDE: ClassVar = True
    DEFAULT_CSS = "KnobDrawer { width: 58; border-right: tall $rx-accent; layer: drawer; }"

"""All knobs by group: asked, in effect, measured; drawn from the catalogue and the tick."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual import events
from textual.message import Message

from replexplorer.core.knobs.names import Group, KnobName, format_value
from replexplorer.core.tick import Tick
from replexplorer.ui.board import Board, Fold, Row
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, width_of
from replexplorer.ui.words.states import effect_of, measured_of


class Columns(NamedTuple):
    """Where the columns of a row begin."""

    label: int
    asked: int
    effective: int


class KnobPanel(Lines[Tick]):
    """The knobs; arrow keys work on the screen, clicks and the wheel here."""

    GROUND: ClassVar[str] = "panel"
    COLUMNS: ClassVar = Columns(3, 18, 30)
    HEADINGS_BESIDE: ClassVar = False
    """Headings stand in a column of their own instead of a row of their own."""
    FILTER_COLUMN: ClassVar = 3
    """Where the filter's field begins in the first row."""
    DEFAULT_CSS = "KnobPanel { height: 1fr; }"

    class Picked(Message):
        """A knob or the line of the fold was clicked."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    class Stepped(Message):
        """An arrow beside the selected value was clicked, or the wheel turned over it."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    class Scrolled(Message):
        """The wheel turned: select this many rows further."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, board: Board, *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._board = board
        self._top = 0
        self._rows: list[Row | None] = []
        self._arrows = (-1, -1)

    @property
    def _filter_rows(self) -> int:
        """The row above the knobs where the filter stands, while there is one."""
        return 1 if self._board.searching or self._board.filter else 0

    def row_of(self, name: KnobName | None) -> int | None:
        """The row where a knob stands now, or None."""
        return self._rows.index(name) if name is not None and name in self._rows else None

    def draw(self, shown: Tick, width: int, height: int) -> list[Line]:
        """The rows that fit, the selected one among them, each under its heading."""
        rows = self._all_rows()
        painted: list[Line] = []
        self._rows = []
        if self._filter_rows:
            painted.append(self._filter(width))
            self._rows.append(None)
            height -= 1
        if not rows:
            return [*painted, [(f" no knob matches `{self._board.filter}`", "muted")]]
        if self.HEADINGS_BESIDE:
            painted.append(self._heading("", width, columns=True))
            self._rows.append(None)
            height -= 1
        self._scroll(rows, height)
        visible = rows[self._top : self._top + height]
        for at, (title, row) in enumerate(visible):
            if at == 0 and not self.HEADINGS_BESIDE:
                painted.append(self._heading(title, width, columns=True))
                self._rows.append(None)
                continue
            if row is None:
                painted.append(self._heading(title, width, columns=False))
            elif isinstance(row, Fold):
                painted.append(self._fold(row, width))
            else:
                first = at == 0 or rows[self._top + at - 1][0] != title
                painted.append(self._knob(row, title if first and self.HEADINGS_BESIDE else "", width))
            self._rows.append(row)
        return painted

    def _all_rows(self) -> list[tuple[str, Row | None]]:
        """Headings (None), knobs and the line of the fold, all of them, each with its heading's title."""
        rows: list[tuple[str, Row | None]] = []
        for section in self._board.sections:
            if not self.HEADINGS_BESIDE:
                rows.append((section.title, None))
            rows += [(section.title, row) for row in section.rows]
        return rows

    def _scroll(self, rows: list[tuple[str, Row | None]], height: int) -> None:
        """Move the window so that the cursor is in it, below the row of the heading."""
        cursor = self._board.at_fold or self._board.selected
        at = next((i for i, (_, row) in enumerate(rows) if row is not None and row == cursor), 0)
        sticky = 0 if self.HEADINGS_BESIDE else 1
        if at < self._top + sticky:
            self._top = at - sticky
        if at >= self._top + height:
            self._top = at - height + 1
        self._top = max(0, min(self._top, len(rows) - height))

    def _filter(self, width: int) -> Line:
        """What is filtered for, and how to see all again; the field stands over it while it is open."""
        row: list[Run] = [(" / ", "accent b"), (self._board.filter, "title b")]
        hint: list[Run] = [("esc", "key b"), (" all knobs", "muted")]
        gap = width - 1 - width_of(row) - width_of(hint)
        return cut(row if gap < 1 else [*row, (" " * gap, "text"), *hint], width)

    def _heading(self, title: str, width: int, *, columns: bool) -> Line:
        row: list[Run] = [(" ", "text"), (title, "accent b")]
        at, has_bare, bare = self.COLUMNS, title == Group.DISK.upper(), self._bare_disk()
        if columns:
            row = [*_to(row, at.asked), ("asked", "faint")]
            row = [*_to(row, at.effective), ("in effect", "faint")]
            measured = "measured" if width >= 48 else "seen"
            has_measured = has_bare or title == Group.LINK.upper()
            return [*_to(row, width - len(measured)), (measured, "faint")] if has_measured else row
        if not (has_bare and bare):
            return row
        told = f"{bare}   measured"
        return [*_to(row, width - 1 - len(told)), (told, "faint")]

    def _bare_disk(self) -> str:
        """What the primary's disk takes without the server and the delay, in words."""
        disk = self.shown.source_disk if self.shown is not None else None
        known = disk is not None and disk.probe_p50_ms is not None
        return f"bare disk {figures.millis(disk.probe_p50_ms)}" if known and disk is not None else ""

    def _fold(self, fold: Fold, width: int) -> Line:
        """`5 more link settings ▸`: how many are folded away, or that they are shown."""
        chosen = fold == self._board.at_fold
        ground = " on select" if chosen else ""
        row = _to([], self.COLUMNS.label - 2, ground)
        row.append(("▸ " if chosen else "  ", f"accent b{ground}"))
        count = len(self._board.folded(fold))
        text = f"{count} {fold.title}" if count else fold.title
        row.append((text, f"text b{ground}" if chosen else "muted"))
        row.append((" ▸" if count else " ▾", f"accent b{ground}"))
        return _to(row, width, ground)

    def _knob(self, name: KnobName, heading: str, width: int) -> Line:
        board, at = self._board, self.COLUMNS
        chosen = name == board.selected
        ground = " on select" if chosen else ""
        row: list[Run] = [(f" {heading}", f"accent b{ground}")] if heading else []
        row = _to(row, at.label - 2, ground)
        row.append(("▸ " if chosen else "  ", f"accent b{ground}"))
        label = cut(
            [(board.label(name), f"text b{ground}" if chosen else f"text{ground}")], at.asked - at.label - 2
        )
        row = _to([*row, *label], at.asked - 2, ground)
        staged = name in board.staged
        value = format_value(name.knob, board.asked(name))
        arrows = ("◂ ", " ▸") if chosen else ("  ", "")
        row.append((arrows[0], f"accent b{ground}"))
        row.append((value, f"{'warn' if staged else 'text'} b{ground}"))
        if chosen:
            self._arrows = (at.asked - 2, width_of(row) + 1)
        row.append((arrows[1], f"accent b{ground}"))
        row = self._with_effect(row, name, width, ground)
        return _to(row, width, ground)

    def _with_effect(self, row: list[Run], name: KnobName, width: int, ground: str) -> list[Run]:
        """The figures in effect and measured; amber with an arrow where they are not what was asked."""
        at = self.COLUMNS
        if name in self._board.pending:
            return [*_to(row, at.effective, ground), ("applying…", f"accent{ground}")]
        effect = effect_of(self._board.views[name], self.shown)
        measured, apart = measured_of(name, self.shown)
        room = width - at.effective - (len(measured) + 2 if measured else 0)
        if width_of(row) >= at.effective or len(effect.text) > room:
            row = cut([*row, (" " if effect.as_asked else " → ", f"warn{ground}")], width)
        elif effect.as_asked:
            row = _to(row, at.effective, ground)
        else:
            row = [*_to(row, max(width_of(row), at.effective - 2), ground), ("→ ", f"warn b{ground}")]
        quiet = "muted" if ground else "faint"
        row.append((effect.text, f"{quiet}{ground}" if effect.as_asked else f"warn b{ground}"))
        if measured:
            row = _to(row, width - 1 - len(measured), ground)
            row.append((measured, f"warn b{ground}" if apart else f"muted{ground}"))
        return cut(row, width)

    def on_click(self, event: events.Click) -> None:
        """Select the knob, or step it when an arrow beside the value was hit."""
        row = self._rows[event.y] if 0 <= event.y < len(self._rows) else None
        if row is None:
            return
        if row == self._board.selected and event.x in (self._arrows[0], self._arrows[0] + 1):
            self.post_message(self.Stepped(-1))
        elif row == self._board.selected and event.x in (self._arrows[1] - 1, self._arrows[1]):
            self.post_message(self.Stepped(1))
        else:
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


def _to(row: list[Run], column: int, ground: str = "") -> list[Run]:
    """The row, filled with blanks up to a column."""
    return [*row, (" " * max(0, column - width_of(row)), f"text{ground}")]

"""The last row: the keys that matter at this width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.reactive import reactive

from replexplorer.ui.keys.actions import FOOTER, FooterItem, key_label, keys_of
from replexplorer.ui.style.layout import Layout
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, width_of


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

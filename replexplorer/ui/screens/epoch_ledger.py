"""Every epoch, newest first."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import BindingType

from replexplorer.core.epochs.table import markdown
from replexplorer.ui.desks.board import Board
from replexplorer.ui.desks.labels import with_labels
from replexplorer.ui.desks.picture import Picture
from replexplorer.ui.keys.actions import EPOCH_LEDGER, key_label, keys_of
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.epoch_table import heads, rows_of, unprotected_total
from replexplorer.ui.words.runs import Line

_WIDE: Final = 110
"""Cells from which on the title has room for what epochs are compared with."""


class EpochLedgerScreen(ListingScreen):
    """The epoch table over the whole terminal, each epoch with the intervals of all its figures."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of(EPOCH_LEDGER)

    def __init__(self, picture: Picture, board: Board, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        self._board = board

    def fill(self) -> None:
        """All rows of the newest tick."""
        tick = self._picture.shown.tick
        width = self.app.size.width - 1
        epochs = tuple(reversed(with_labels(tick.epochs, self._board))) if tick else ()
        body: list[Line] = []
        for epoch in epochs:
            body += rows_of(epoch, width, self.settings.glyphs, self._picture.shown.origin_s)
        against = " · each against the one before, settling left out" if width >= _WIDE else ""
        about: Line = [
            ("Epochs ", "title b"),
            (f"{len(epochs)}{against}   ", "muted"),
            (key_label(keys_of("ledger.copy", self.settings.keymap)[0]), "key b"),
            (" copy as Markdown", "muted"),
        ]
        if total := unprotected_total(tick.protection.unprotected if tick else None):
            about = [*about[:1], *total, (" · ", "muted"), *about[1:]]
        self.listing.show(about, [heads(width)], body)

    def action_ledger_copy(self) -> None:
        """Copy the epoch ledger as Markdown, over OSC 52."""
        tick = self._picture.shown.tick
        epochs = tick.epochs if tick else ()
        self.app.copy_to_clipboard(markdown(epochs, self._picture.shown.origin_s))
        self.notify(f"{len(epochs)} epochs as Markdown", title="copied", timeout=4, markup=False)

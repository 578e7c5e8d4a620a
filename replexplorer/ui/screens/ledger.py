"""Every epoch, newest first."""

from __future__ import annotations

from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.epochs import heads, row


class LedgerScreen(ListingScreen):
    """The epoch table over the whole terminal."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture

    def fill(self) -> None:
        """All rows of the newest tick."""
        tick = self._picture.tick
        width = self.app.size.width
        epochs = tuple(reversed(tick.epochs)) if tick else ()
        about = f"{len(epochs)} · each change against the one before, its settling left out"
        body = [row(epoch, width - 1, self.settings.glyphs, self._picture.origin_s) for epoch in epochs]
        self.listing.show([("Epochs ", "title b"), (about, "muted")], [heads(width - 1)], body)

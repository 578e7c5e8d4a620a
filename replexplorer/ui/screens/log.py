"""Every event of the session, newest first."""

from __future__ import annotations

from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.event_log import event_rows


class LogScreen(ListingScreen):
    """The event log over the whole terminal."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture

    def fill(self) -> None:
        """All rows."""
        events, width = self._picture.log, self.app.size.width - 1
        rows = [row for event in reversed(events) for row in event_rows(event, self.settings.glyphs, width)]
        self.listing.show([("Events ", "title b"), (f"{len(events)}", "muted")], [], rows)

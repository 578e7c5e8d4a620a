"""Every event of the session, newest first."""

from __future__ import annotations

from replexplorer.core.event import Event
from replexplorer.ui.desks.picture import Picture
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.event_log import CLOCKS, event_rows
from replexplorer.ui.words.runs import Line


class LogScreen(ListingScreen):
    """The event log over the whole terminal."""

    def __init__(self, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._picture = picture
        self._wrapped: dict[tuple[Event, int, float], list[Line]] = {}
        """Rows by event, width and origin: a long log is filled twice a second and wrapped once."""

    def fill(self) -> None:
        """All rows."""
        events, width = self._picture.shown.log, self.app.size.width - 1
        rows = [row for event in reversed(events) for row in self._rows(event, width)]
        self.listing.show([("Events ", "title b"), (f"{len(events)} · {CLOCKS}", "muted")], [], rows)

    def _rows(self, event: Event, width: int) -> list[Line]:
        origin_s = self._picture.origin_s
        key = (event, width, origin_s)
        if key not in self._wrapped:
            self._wrapped[key] = event_rows(event, self.settings.glyphs, width, origin_s)
        return self._wrapped[key]

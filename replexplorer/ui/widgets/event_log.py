"""The newest events with the user's own clock time."""

from __future__ import annotations

from textual.reactive import reactive

from replexplorer.core.tick import Event
from replexplorer.ui import figures
from replexplorer.ui.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Line, Lines, rule
from replexplorer.ui.words import SEVERITIES


class EventLog(Lines):
    """A titled list, newest first; one row without a title on a small screen."""

    DEFAULT_CSS = "EventLog { height: 4; }"

    events: reactive[tuple[Event, ...]] = reactive(())
    """Newest last."""

    def watch_events(self) -> None:
        """Draw the newest."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The rows."""
        title: list[Line] = [rule([("Events", "title b")], [], width)] if height > 1 else []
        newest = tuple(reversed(self.events[-height:]))
        return [*title, *(event_row(event, self.glyphs) for event in newest[: height - len(title)])]


def event_row(event: Event, glyphs: Glyphs) -> Line:
    """Local time, mark or symbol, text."""
    symbol, token = SEVERITIES[event.severity]
    if event.mark is not None:
        symbol, token = glyphs.number(event.mark), "mark"
    text = "text" if event.severity in ("warn", "bad") or event.mark is not None else "muted"
    return [(f" {figures.local_time(event.wall_s)} ", "faint"), (f"{symbol} ", token), (event.text, text)]

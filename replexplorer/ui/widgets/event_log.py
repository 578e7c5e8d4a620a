"""The newest events with the user's own clock time."""

from __future__ import annotations

from textual.reactive import reactive

from replexplorer.core.tick import Event
from replexplorer.ui import figures
from replexplorer.ui.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Line, Lines, Run, hung, rule
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
        return [
            *title,
            *([*_head(event, self.glyphs), _text(event)] for event in newest[: height - len(title)]),
        ]


def event_rows(event: Event, glyphs: Glyphs, width: int) -> list[Line]:
    """Local time, mark or symbol, and the whole text in as many rows as it takes."""
    text, words = _text(event)
    return hung(_head(event, glyphs), text, width, words)


def _head(event: Event, glyphs: Glyphs) -> Line:
    symbol, token = SEVERITIES[event.severity]
    if event.mark is not None:
        symbol, token = glyphs.number(event.mark), "mark"
    return [(f" {figures.local_time(event.wall_s)} ", "faint"), (f"{symbol} ", token)]


def _text(event: Event) -> Run:
    stands_out = event.severity in ("warn", "bad") or event.mark is not None
    return (event.text, "text" if stands_out else "muted")

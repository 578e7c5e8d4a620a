"""The newest events, each with the charts' time and the user's own clock time."""

from __future__ import annotations

from typing import Final

from textual.reactive import reactive

from replexplorer.core.event import Event
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, hung, listed, rule, width_of
from replexplorer.ui.words.states import SEVERITIES

CLOCKS: Final = "elapsed as on the charts, then local time"
"""What the two times of a row are."""


class EventLogPane(Lines):
    """A titled list, newest first; one row without a title on a small screen."""

    DEFAULT_CSS = "EventLogPane { height: 4; }"

    events: reactive[tuple[Event, ...]] = reactive(())
    """Newest last."""
    origin_s: reactive[float] = reactive(0.0)
    """When elapsed time began."""

    def watch_events(self) -> None:
        """Draw the newest."""
        self.repaint()

    def watch_origin_s(self) -> None:
        """Draw the times again."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The rows."""
        title: Line = [("Events ", "title b"), (CLOCKS, "muted")]
        top: list[Line] = [rule(title, [], width)] if height > 1 else []
        newest = tuple(reversed(self.events[-height:]))
        return [*top, *(self._row(event, width) for event in newest[: height - len(top)])]

    def _row(self, event: Event, width: int) -> Line:
        """An event; of a change of several knobs as many as fit whole."""
        head, (text, words) = _head(event, self.glyphs, self.origin_s), _text(event)
        room = width - width_of(head)
        return [*head, (text if event.mark is None else listed(text, room, self.glyphs.ellipsis), words)]


def event_rows(event: Event, glyphs: Glyphs, width: int, origin_s: float) -> list[Line]:
    """Elapsed and local time, mark or symbol, and the whole text in as many rows as it takes."""
    text, words = _text(event)
    return hung(_head(event, glyphs, origin_s), text, width, words)


def _head(event: Event, glyphs: Glyphs, origin_s: float) -> Line:
    symbol, token = SEVERITIES[event.severity]
    if event.mark is not None:
        symbol, token = glyphs.number(event.mark), "mark"
    return [
        (f"{figures.moment(event.at_s - origin_s):>7} ", "text"),
        (f"{figures.local_time(event.wall_s)} ", "faint"),
        (f"{symbol:>3} ", token),
    ]


def _text(event: Event) -> Run:
    stands_out = event.severity in ("warn", "bad") or event.mark is not None
    return (event.text, "text" if stands_out else "muted")

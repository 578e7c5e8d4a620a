"""The newest events, each with the charts' time and the user's own clock time."""

from __future__ import annotations

from itertools import islice
from typing import Final

from replexplorer.core.event import Event
from replexplorer.ui.picture import Picture
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, hung, listed, rule, width_of
from replexplorer.ui.words.states import SEVERITIES

CLOCKS: Final = "elapsed as on the charts, then local time"
"""What the two times of a row are."""


class EventLogPane(Lines[Picture]):
    """A titled list, newest first; one row without a title on a small screen."""

    DEFAULT_CSS = "EventLogPane { height: 4; }"

    def draw(self, shown: Picture, width: int, height: int) -> list[Line]:
        """The rows; of a change of several knobs as many as fit whole."""
        title: Line = [("Events ", "title b"), (CLOCKS, "muted")]
        rows: list[Line] = [rule(title, [], width)] if height > 1 else []
        for event in islice(reversed(shown.log), height - len(rows)):
            head, (text, words) = _head(event, self.glyphs, shown.origin_s), _text(event)
            if event.mark is not None:
                text = listed(text, width - width_of(head), self.glyphs.ellipsis)
            rows.append([*head, (text, words)])
        return rows


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

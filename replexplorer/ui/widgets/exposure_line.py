"""What a failure now would lose, in one row."""

from __future__ import annotations

from textual.reactive import reactive

from replexplorer.core.server.exposure import Exposure
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.exposure import exposure_line
from replexplorer.ui.words.runs import Line


class ExposureLine(Lines):
    """` at risk now: mysqld dies 0 · power cut 312 (0.4 s) · source lost 8`."""

    GROUND = "panel"
    DEFAULT_CSS = "ExposureLine { height: 1; }"

    exposure: reactive[Exposure | None] = reactive(None)
    """What was known at the moment that is shown; None before anything was looked at."""

    def watch_exposure(self) -> None:
        """Draw the row."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        return [exposure_line(self.exposure, width)]

"""What a failure now would lose, in one row."""

from __future__ import annotations

from math import inf
from typing import Final

from replexplorer.core.server.exposure import Exposure
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.exposure import exposure_line
from replexplorer.ui.words.runs import Line

_EVERY_S: Final = 0.9
"""All its figures move with each look: drawn with each they would be a third of what a small screen
sends."""


class ExposureLine(Lines):
    """` at risk now: mysqld dies 0 · power cut 312 (0.4 s) · source lost 8`."""

    GROUND = "panel"
    DEFAULT_CSS = "ExposureLine { height: 1; }"

    _exposure: Exposure | None = None
    _shown_s = -inf

    def show(self, exposure: Exposure | None, at_s: float) -> None:
        """Show what was known at this moment, once a second; None before anything was looked at."""
        is_due = not 0 <= at_s - self._shown_s < _EVERY_S
        if exposure != self._exposure and (is_due or exposure is None or self._exposure is None):
            self._exposure, self._shown_s = exposure, at_s
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        return [exposure_line(self._exposure, width)]

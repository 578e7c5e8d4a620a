"""What a failure now would lose, in one row."""

from __future__ import annotations

from typing import Final

from replexplorer.core.server.exposure import Exposure
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Cadence, Lines
from replexplorer.ui.words.exposure import exposure_line
from replexplorer.ui.words.runs import Line

_EVERY_S: Final = 1.0
"""All its figures move with each look: drawn with each they would be a third of what a small screen
sends."""


class ExposureLine(Lines):
    """` at risk now: mysqld dies 0 · power cut 312 (0.4 s) · source lost 8`."""

    GROUND = "panel"
    DEFAULT_CSS = "ExposureLine { height: 1; }"

    def __init__(
        self, *, glyphs: Glyphs = BRAILLE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(glyphs=glyphs, id=id, classes=classes)
        self._exposure: Exposure | None = None
        self._cadence = Cadence(_EVERY_S)

    def show(self, exposure: Exposure | None, at_s: float) -> None:
        """Show what was known at this moment, once a second; None before anything was looked at."""
        if exposure != self._exposure and self._cadence.is_due(at_s, exposure is None):
            self._exposure = exposure
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The row."""
        return [exposure_line(self._exposure, width)]

"""Where a replay stands: playing or paused, the time, the speed, and the marks along the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.reactive import reactive

from replexplorer.engine.view import PlayerPosition
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run


class PlayerLine(Lines):
    """One row over the keys."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "PlayerLine { height: 1; }"

    view: reactive[PlayerPosition | None] = reactive(None)
    """Where it stands."""
    marks_s: reactive[Sequence[float]] = reactive(())
    """Seconds since the recording's first tick."""

    def watch_view(self) -> None:
        """Repaint with the position and speed of now."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """`▶ REPLAY 00:01:23 / 00:02:33 ×1 ━━━━╸───`."""
        view = self.view
        if view is None:
            return []
        state = ("▶ REPLAY", "good b") if view.playing else ("‖ PAUSED", "warn b")
        if not view.playing and view.position_s >= view.length_s:
            state = ("■ END", "warn b")
        told = f" {_clock(view.position_s)} / {_clock(view.length_s)}  ×{view.speed:g} "
        room = max(0, width - len(state[0]) - len(told) - 2)
        return [[(" ", "text"), state, (told, "text"), *self._bar(view, room)]]

    def _bar(self, view: PlayerPosition, room: int) -> Line:
        """What was played, what comes, and the marks on both."""
        length_s = view.length_s or 1.0
        done = round(view.position_s / length_s * room)
        marked = {min(room - 1, int(mark_s / length_s * room)) for mark_s in self.marks_s} if room else set()
        cells: list[Run] = []
        for at in range(room):
            text = "┃" if at in marked else "━" if at < done else "─"
            ink = "mark" if at in marked else "accent" if at < done else "rule"
            if cells and cells[-1][1] == ink:
                cells[-1] = (cells[-1][0] + text, ink)
            else:
                cells.append((text, ink))
        return cells


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"

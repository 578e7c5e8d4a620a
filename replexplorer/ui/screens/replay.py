"""A recording on the dashboard: the same picture, with a player's keys where the knobs' are."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import BindingType

from replexplorer.engine.replay import Replay
from replexplorer.ui.actions import CONDUCTOR, DASHBOARD, PLAYER, REPLAY_FOOTER
from replexplorer.ui.bindings import bindings_of
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.player_line import PlayerLine

SEEK_S: Final = 5.0
FAR_S: Final = 30.0
_SHOWN_EVERY_S: Final = 0.25
_LIVE: Final = frozenset(
    {
        "knob_type", "knob_undo", "semisync_toggle", "wait_point_toggle", "fault_partition", "fault_heal",
        "load_toggle", "mark_add", "stack_reset", "stack_repair", "statement_copy", "sweep_open", "lab_open",
        "lab_pause", "lab_abort",
    }
)  # fmt: skip
"""What only servers can do."""


class ReplayScreen(DashboardScreen):
    """The dashboard over a recording."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*DASHBOARD, *CONDUCTOR, *PLAYER))

    def __init__(self, replay: Replay, settings: Settings) -> None:
        super().__init__(replay, settings)
        self._replay = replay

    def on_mount(self) -> None:
        """Show where it stands beside the picture."""
        line = PlayerLine(glyphs=self._settings.glyphs, id="player")
        line.marks_s = self._replay.marks_s
        self.mount(line, before="#knob-line")
        self.query_one(Footer).items = REPLAY_FOOTER
        self.set_interval(_SHOWN_EVERY_S, self._show_player)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing that needs servers."""
        return action not in _LIVE

    def action_chart_freeze(self) -> None:
        """Pause or play."""
        self._replay.toggle()
        self._show_player()

    def action_knob_less(self) -> None:
        """A little back."""
        self._seek(-SEEK_S)

    def action_knob_more(self) -> None:
        """A little on."""
        self._seek(SEEK_S)

    def action_knob_coarse_less(self) -> None:
        """Far back."""
        self._seek(-FAR_S)

    def action_knob_coarse_more(self) -> None:
        """Far on."""
        self._seek(FAR_S)

    def action_step_next(self) -> None:
        """To the next mark."""
        self._replay.step(forward=True)

    def action_step_prev(self) -> None:
        """To the mark before."""
        self._replay.step(forward=False)

    def action_replay_faster(self) -> None:
        """The next speed."""
        self._replay.change_speed(faster=True)
        self._show_player()

    def action_replay_slower(self) -> None:
        """The speed before."""
        self._replay.change_speed(faster=False)
        self._show_player()

    def _seek(self, by_s: float) -> None:
        self._replay.seek(by_s)

    def _show_player(self) -> None:
        self.query_one(PlayerLine).view = self._replay.player

    def _open_value(self, text: str) -> None:
        self.notify("this is a recording: knobs turn in the live dashboard", timeout=3)

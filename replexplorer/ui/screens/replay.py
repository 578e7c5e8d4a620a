"""A recording on the dashboard: the same picture, with a player's keys where the knobs' are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from textual.binding import BindingType

from replexplorer.engine.view import Player, View
from replexplorer.ui.keys.actions import CONDUCTOR, DASHBOARD, PLAYER, REPLAY_FOOTER
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.screens.onlooking import OnlookingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.player_line import PlayerLine

SEEK_S: Final = 5.0
FAR_S: Final = 30.0
_SHOWN_EVERY_S: Final = 0.25


class ReplayScreen(OnlookingScreen):
    """The dashboard over a recording."""

    WHY = "a recording: nothing can be turned"
    TITLES: ClassVar[Mapping[str, str]] = {
        **OnlookingScreen.TITLES,
        "knob.less": f"Go back {SEEK_S:g} s",
        "knob.more": f"Go on {SEEK_S:g} s",
        "knob.coarse_less": f"Go back {FAR_S:g} s",
        "knob.coarse_more": f"Go on {FAR_S:g} s",
        "knob.apply": "Open all knobs on a small screen",
        "knob.revert": "Drop the filter or the drawer",
        "chart.freeze": "Pause or play",
        "step.next": "Go to the next mark",
        "step.prev": "Go to the mark before",
        "replay.faster": "Play faster",
        "replay.slower": "Play slower",
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*DASHBOARD, *CONDUCTOR, *PLAYER))

    def __init__(self, view: View, player: Player, settings: Settings) -> None:
        super().__init__(view, settings)
        self._player = player

    def on_mount(self) -> None:
        """Show where it stands beside the picture."""
        line = PlayerLine(glyphs=self._settings.glyphs, id="player")
        line.marks_s = self._player.marks_s
        self.mount(line, before="#knob-line")
        self.query_one(Footer).items = REPLAY_FOOTER
        self.set_interval(_SHOWN_EVERY_S, self._show_player)

    def _draw_tick(self) -> None:
        super()._draw_tick()
        if self.query(PlayerLine):  # not before it stands
            self._show_player()

    def action_chart_freeze(self) -> None:
        """Pause or play."""
        self._player.toggle()
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
        self._player.step(forward=True)

    def action_step_prev(self) -> None:
        """To the mark before."""
        self._player.step(forward=False)

    def action_replay_faster(self) -> None:
        """The next speed."""
        self._player.change_speed(faster=True)
        self._show_player()

    def action_replay_slower(self) -> None:
        """The speed before."""
        self._player.change_speed(faster=False)
        self._show_player()

    def _seek(self, by_s: float) -> None:
        self._player.seek(by_s)

    def _show_player(self) -> None:
        self.query_one(PlayerLine).view = self._player.position

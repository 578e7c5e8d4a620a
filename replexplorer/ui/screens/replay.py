"""A recording on the dashboard: the same picture, with a player's keys where the knobs' are."""

from __future__ import annotations

import math
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType

from replexplorer.engine.view import Player, View
from replexplorer.ui.keys.actions import CONDUCTOR, DASHBOARD, PLAYER, REPLAY_FOOTER, keys_of
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.player_line import PlayerLine

SEEK_S: Final = 5.0
FAR_S: Final = 30.0
_SHOWN_EVERY_S: Final = 0.25
_SAID_S: Final = 3.0
"""How long a toast stands."""
_LIVE: Final = frozenset(
    {
        "knob_type", "knob_undo", "semisync_toggle", "wait_point_toggle", "fault_partition", "fault_heal",
        "fault_open", "load_toggle", "mark_add", "stack_reset", "stack_repair", "statement_copy",
        "sweep_open", "lab_open", "lab_pause", "lab_abort",
    }
)  # fmt: skip
"""What only servers can do."""


class ReplayScreen(DashboardScreen):
    """The dashboard over a recording."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*DASHBOARD, *CONDUCTOR, *PLAYER))

    def __init__(self, view: View, player: Player, settings: Settings) -> None:
        super().__init__(view, settings)
        self._player = player
        self._said_s = -math.inf
        """When it was last said that nothing can be turned."""

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

    def asks_before_quit(self) -> bool:
        """A recording ends nothing."""
        return False

    async def take_key(self, event: events.Key) -> bool:
        """Say of a key that turns something live why nothing happens."""
        if self._would_turn(event.key):
            self._say_recorded()
            return True
        return await super().take_key(event)

    def _would_turn(self, key: str) -> bool:
        return not any(entry.is_open for entry in self.query(Entry)) and any(
            key in keys_of(action.id, self._settings.keymap)
            for action in (*DASHBOARD, *CONDUCTOR)
            if action.method in _LIVE
        )

    def _say_recorded(self) -> None:
        """In one toast, however many keys are tried while it stands."""
        now_s = self._settings.monotonic()
        if now_s - self._said_s >= _SAID_S:
            self._said_s = now_s
            self.notify("a recording: nothing can be turned", timeout=_SAID_S)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing that needs servers."""
        return action not in _LIVE

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

    def _open_value(self, text: str) -> None:
        self._say_recorded()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        """The mouse on a knob."""
        self._say_recorded()

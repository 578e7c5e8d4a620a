"""The dashboard of whoever can only watch: a key that would change something is answered in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Final

from textual import events

from replexplorer.engine.view import View
from replexplorer.ui.keys.actions import CONDUCTOR, DASHBOARD, QUIT, WATCH_FOOTER, keys_of
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.help import HelpScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.footer import Footer

LIVE: Final = frozenset(
    {
        "knob_type", "knob_undo", "semisync_toggle", "wait_point_toggle", "fault_partition", "fault_heal",
        "fault_open", "load_toggle", "mark_add", "stack_reset", "stack_repair", "statement_copy",
        "sweep_open", "lab_open", "lab_pause", "lab_abort", "compare_open",
    }
)  # fmt: skip
"""What only who may turn something can do."""
STEPS: Final = frozenset({"knob_less", "knob_more", "knob_coarse_less", "knob_coarse_more", "step_next"})
"""What steps through a knob's values."""
_SAID_S: Final = 3.0
"""How long a toast stands."""


class OnlookingScreen(DashboardScreen):
    """The dashboard without what turns anything."""

    REFUSED: ClassVar[frozenset[str]] = LIVE
    """The methods of the actions that are refused."""
    WHY: ClassVar[str] = "nothing can be turned here"
    TITLES: ClassVar[Mapping[str, str]] = {QUIT: "Close what is open, or quit"}
    """What actions do that do something else here, by their ids."""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self._said_s = -math.inf
        """When it was last said that nothing can be turned."""

    def help(self) -> HelpScreen:
        """The help of the keys that do something here."""
        return HelpScreen(self._settings, refused=self.REFUSED, why=self.WHY, titles=self.TITLES)

    def asks_before_quit(self) -> bool:
        """Nothing ends with it."""
        return False

    async def take_key(self, event: events.Key) -> bool:
        """Say of a key that would turn something why nothing happens."""
        if self._would_turn(event.key):
            self._refuse()
            return True
        return await super().take_key(event)

    def _would_turn(self, key: str) -> bool:
        return not any(entry.is_open for entry in self.query(Entry)) and any(
            key in keys_of(action.id, self._settings.keymap)
            for action in (*DASHBOARD, *CONDUCTOR)
            if action.method in self.REFUSED
        )

    def _refuse(self) -> None:
        """In one toast, however many keys are tried while it stands."""
        now_s = self._settings.monotonic()
        if now_s - self._said_s >= _SAID_S:
            self._said_s = now_s
            self.notify(self.WHY, timeout=_SAID_S)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing that turns anything."""
        return action not in self.REFUSED

    def _open_value(self, text: str) -> None:
        self._refuse()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        """The mouse on a knob."""
        self._refuse()


class SpectatorScreen(OnlookingScreen):
    """What others do with a live stack."""

    REFUSED = LIVE | STEPS
    WHY = "view only: the driver turns the knobs"

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self._followed: str | None = None
        """The knob that the driver had selected when the cursor here last went there."""

    def _draw_tick(self) -> None:
        """The cursor goes where the driver's goes; between two of its moves it is the spectator's own."""
        tick = self.picture.tick
        selected = tick.driver_selects if tick is not None else None
        if selected != self._followed and not self._types:
            self._followed = selected
            name = next((each for each in self.board.views if str(each) == selected), None)
            if name is not None:
                self.board.select(name)
        super()._draw_tick()

    def on_mount(self) -> None:
        """Show the keys that do something here."""
        self.query_one(Footer).items = WATCH_FOOTER

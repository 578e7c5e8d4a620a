"""The dashboard over servers that somebody else runs: watched, and turned where that was allowed."""

from __future__ import annotations

from typing import Final

from replexplorer.ui.keys.actions import LOADING_FOOTER, VISIT_FOOTER, WATCH_FOOTER
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.onlooking import LIVE, STEPS, OnlookingScreen
from replexplorer.ui.widgets.footer import Footer

LOADS: Final = "load_toggle"
"""And where a load of this app's runs there."""
TURNS: Final = frozenset(
    {"knob_type", "knob_undo", "semisync_toggle", "wait_point_toggle", "mark_add", "statement_copy"}
)
"""What can be done with servers that are somebody else's, where changes are allowed."""


class VisitingScreen(OnlookingScreen):
    """Servers that are only watched."""

    REFUSED = LIVE | STEPS
    WHY = "these servers are only watched: --allow-changes lets settings be turned"

    def on_mount(self) -> None:
        """Show the keys that do something here."""
        self.query_one(Footer).items = WATCH_FOOTER


class TurningScreen(OnlookingScreen):
    """Servers whose settings may be turned, and nothing else."""

    REFUSED = LIVE - TURNS
    WHY = "on servers that `up` did not make only settings can be turned"

    def on_mount(self) -> None:
        """Show the keys that do something here."""
        self.query_one(Footer).items = VISIT_FOOTER

    def _open_value(self, text: str) -> None:
        DashboardScreen._open_value(self, text)

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        DashboardScreen._step(self, direction, coarse=coarse)


class LoadingScreen(TurningScreen):
    """And a load runs there that can be stopped and started."""

    REFUSED = TurningScreen.REFUSED - {LOADS}
    WHY = "on servers that `up` did not make only settings can be turned, and the load stopped or started"

    def on_mount(self) -> None:
        """Show the keys that do something here."""
        self.query_one(Footer).items = LOADING_FOOTER

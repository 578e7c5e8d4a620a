"""The application of `compare`: the start-up screen, then two stacks on one screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual.screen import Screen

from replexplorer.core.machine import Machine
from replexplorer.engine.pair import PairedViews
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.settings import Settings


class CompareApp(ExplorerApp):
    """The dashboard of two stacks."""

    CSS_PATH = "app.tcss"

    def __init__(
        self, views: PairedViews, settings: Settings, machine: Callable[[], Awaitable[Machine | None]]
    ) -> None:
        super().__init__(views, settings)
        self._views = views
        self._machine = machine

    def main_screen(self) -> Screen[Any]:
        """Both stacks."""
        from replexplorer.ui.screens.compare import CompareScreen

        return CompareScreen(self._views, self.settings, self._machine)

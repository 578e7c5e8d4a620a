"""The command palette: `area: Verb thing`, from the action registry, the themes and the knobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from replexplorer.ui.keys.actions import ACTIONS, key_label, keys_of
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings

Command = tuple[str, str, Callable[[], object]]
"""Text, help, and what it does."""


class Themed(Protocol):
    """The application, as far as the palette needs it."""

    settings: Settings

    @property
    def theme_names(self) -> Sequence[str]:
        """Themes that can be chosen."""
        ...

    def use_theme(self, name: str) -> None:
        """Draw in this theme."""
        ...


class ExplorerCommands(Provider):
    """Everything that can be done by name."""

    async def discover(self) -> Hits:
        """What stands there before anything is typed: the actions."""
        for text, help_text, call in self._actions():
            yield DiscoveryHit(text, call, help=help_text)

    async def search(self, query: str) -> Hits:
        """What matches."""
        matcher = self.matcher(query)
        for text, help_text, call in (*self._actions(), *self._themes(), *self._knobs()):
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), call, help=help_text)

    @property
    def _app(self) -> Themed:
        return cast("Themed", self.app)

    def _actions(self) -> Iterator[Command]:
        for action in ACTIONS:
            target = self.screen if hasattr(self.screen, f"action_{action.method}") else self.app
            if not action.listed or not hasattr(target, f"action_{action.method}"):
                continue
            if target.check_action(action.method, ()) is False:
                continue
            keys = " ".join(key_label(key) for key in keys_of(action.id, self._app.settings.keymap))
            run = partial(target.run_action, action.method)
            yield f"{action.area}: {action.title}", f"key {keys}", run

    def _themes(self) -> Iterator[Command]:
        for name in self._app.theme_names:
            yield f"theme: Use {name}", "", partial(self._app.use_theme, name)

    def _knobs(self) -> Iterator[Command]:
        if isinstance(self.screen, DashboardScreen):
            for name in self.screen.board.views:
                yield f"knob: Select {name}", name.knob.help, partial(self.screen.select_knob, name)

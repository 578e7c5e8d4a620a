"""The dashboard as a play runs it: keys from a script, and its output kept instead of shown where asked."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rich.color import ColorSystem
from textual.drivers.headless_driver import HeadlessDriver
from textual.notifications import SeverityLevel
from textual.widgets import Static

from replexplorer.engine.view import View
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.settings import Settings

if TYPE_CHECKING:
    from replexplorer.ui.stage.clock import StagedClock

_CLIPBOARD: Final = "\x1b]52;"
"""How a text for the clipboard begins: it would go to whoever plays the cast."""
_NEVER_S: Final = 86_400.0
_SAID_S: Final = 5.0
"""How long a toast stands that does not say it."""


class CaptionBar(Static):
    """One line of a play over the lower end of the screen, the knob line and keys below it left free."""

    DEFAULT_CSS = """
    CaptionBar {
        layer: _toastrack; dock: bottom; height: auto; max-height: 4; width: 1fr;
        margin: 0 2 2 2; padding: 0 2;
        background: $rx-select; color: $rx-title; text-style: bold; text-align: center;
    }
    """


class CapturingDriver(HeadlessDriver):
    """A terminal that is not there: what it would be sent goes to its app."""

    @property
    def is_headless(self) -> bool:
        """Textual draws for it as for a real one."""
        return False

    def write(self, data: str) -> None:
        """Pass on what is drawn."""
        app = self._app
        if isinstance(app, PlayedApp) and not data.startswith(_CLIPBOARD):
            app.capture(data)


class PlayedApp(ExplorerApp):
    """The dashboard with a performance that begins with it."""

    CSS_PATH = "../app.tcss"

    def __init__(
        self,
        view: View,
        settings: Settings,
        perform: Callable[[PlayedApp], Awaitable[None]],
        *,
        capture: Callable[[str], None] | None = None,
        clock: StagedClock | None = None,
    ) -> None:
        """With `capture` nothing is drawn in the terminal: it is given what would be, in all colours. With
        `clock` toasts last by it."""
        super().__init__(view, settings)
        self._perform = perform
        self._capture = capture
        self._clock = clock
        self._said_until_s = math.inf
        if capture is not None:
            self.driver_class = CapturingDriver
            if not self.no_color:
                self.console._color_system = ColorSystem.TRUECOLOR

    @property
    def has_terminal(self) -> bool:
        """Not while its output is captured."""
        return self._capture is None and super().has_terminal

    def capture(self, data: str) -> None:
        """Take what a terminal would be sent."""
        if self._capture is not None:
            self._capture(data)

    def on_mount(self) -> None:
        """Begin the play behind the start-up screen, which the dashboard's own handler shows."""
        if not self.has_terminal:  # then no key can end it
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
                for number in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(number, self._leave_orderly)
        self.run_worker(self._perform(self), group="play", exit_on_error=False)

    def _leave_orderly(self) -> None:
        """As a terminal that is closed: the load stops and no stack is taken away."""
        self._leave(keep=True)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A toast; over a recording it lasts by the recording's time."""
        if self._clock is not None:
            self._said_until_s = self._clock.monotonic() + (_SAID_S if timeout is None else timeout)
            timeout = _NEVER_S
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def end_toasts(self) -> None:
        """Take away toasts whose time is over by the clock."""
        if self._clock is not None and self._clock.monotonic() >= self._said_until_s:
            self._said_until_s = math.inf
            self.clear_notifications()

"""The dashboard as a play runs it: keys from a script, and its output kept instead of shown where asked."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.color import ColorSystem
from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Static

from replexplorer.engine.view import View
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.keys.actions import key_label
from replexplorer.ui.settings import Settings

if TYPE_CHECKING:
    from replexplorer.ui.stage.clock import StagedClock

_NOT_DRAWN: Final = ("\x1b]52;", "\x1b]22;")
"""How a text for the clipboard begins, and the pointer's shape: both are for whoever sits here, not for
those who play the cast."""
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
        if isinstance(app, PlayedApp) and not data.startswith(_NOT_DRAWN):
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
        self._pressed: events.Key | None = None
        self._answer: bool | None = None
        """Whether something took what was pressed; None until that is known."""
        if capture is not None:
            self.driver_class = CapturingDriver
            if not self.no_color:
                self.console._color_system = ColorSystem.TRUECOLOR

    @property
    def has_terminal(self) -> bool:
        """Not while its output is captured."""
        return self._capture is None and super().has_terminal

    def redraw(self) -> None:
        """Draw the whole screen: whoever sees it has not seen what came before."""
        screen = self.screen
        if self.shadow is not None:
            self.shadow.forget()
        whole = screen._compositor.render_update(full=True, screen_stack=self._background_screens)
        self._display(screen, whole)

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

    def press(self, event: events.Key) -> None:
        """Press a key."""
        self._pressed, self._answer = event, None
        event.set_sender(self)
        self.post_message(event)

    @property
    def took(self) -> bool | None:
        """Whether something took the key that was pressed last; None until that is known."""
        is_kept = self._pressed is not None and self._pressed._stop_propagation
        return True if is_kept and self._answer is None else self._answer

    async def on_event(self, event: events.Event) -> None:
        """See what becomes of a key: the screen takes it at once, a binding does, or it is passed on."""
        await super().on_event(event)
        if event is self._pressed and not event.is_forwarded:
            self._answer = True

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Look for what is bound to a key; without priority, the last place to."""
        took = await super()._check_bindings(key, priority)
        if not priority and self._pressed is not None and key == self._pressed.key:
            self._answer = took
        return took

    def untaken(self, key: str) -> tuple[str, str]:
        """That nothing took this key, with the screen that was in front, and what would have been right."""
        text, other = key_label(key), key.swapcase()
        hint = f"? on that screen shows its keys; {text} is none of them"
        if other != key and other in self.screen.active_bindings:
            hint = f"did you mean {other}?"
        elif places := [_title(kind) for kind in _screens(Screen) if key in _keys_of(kind)]:
            hint = f"{text} is a key of {' and of '.join(places)}: open it first"
        return f"nothing took {text}: the screen was {_title(type(self.screen))}", hint

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


def _screens(kind: type[Screen[Any]]) -> Iterator[type[Screen[Any]]]:
    """All kinds of screens."""
    for each in kind.__subclasses__():
        yield from (each, *_screens(each))


def _keys_of(kind: type[Screen[Any]]) -> Iterable[str]:
    return () if kind._merged_bindings is None else kind._merged_bindings.key_to_bindings


def _title(kind: type[Screen[Any]]) -> str:
    return f"the {kind.__name__.removesuffix('Screen').lower()}"

"""The application: registers screens, themes, keymap and commands, and ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import events, work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import WorkerError

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.text import LAYOUT, printable, shortened
from replexplorer.engine.view import View
from replexplorer.formats.themes import load_themes
from replexplorer.ui.actions import ACTIONS, EVERYWHERE, LEAVE_KEY, bindings_of, key_label, keys_of, mode_of
from replexplorer.ui.screens.lists import help_screen
from replexplorer.ui.screens.startup import StartupScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import NO_COLOR_THEME, no_color_theme, textual_theme
from replexplorer.ui.terminal.crash import (
    FORGET_EVERY_S,
    STARTED_S,
    TERMINATED,
    QuietEnd,
    TerminalWatch,
    forget_what_was_drawn,
    keep_what_stays,
    return_large_buffers,
)

_DASHBOARD = "replexplorer.ui.screens.dashboard"
MOST_TOLD = 600
"""Characters of a toast."""


class ExplorerApp(QuietEnd[str]):
    """The dashboard of one stack; `run` answers the line that says what was left behind."""

    CSS_PATH = "app.tcss"
    TITLE = "replexplorer"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "f20"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(EVERYWHERE),
        Binding(LEAVE_KEY, "app_leave", "Quit at once", show=False, priority=True),
    ]

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(ansi_color=settings.no_color)
        self.animation_level = "none"
        self.settings = settings
        """How it was started."""
        self._view = view
        self._leaving = False
        self._drawing: asyncio.AbstractEventLoop | None = None
        """Where it runs, for the thread that sees the terminal's end."""
        self._ends_with = 0
        """The exit code of an orderly end."""
        self._watch = TerminalWatch(self._lost, deadline_s=settings.close_deadline_s)
        themes = settings.themes or load_themes()
        self.theme_names = [theme.name for theme in themes]
        """Themes that `theme.next` walks through."""
        for theme in themes:
            self.register_theme(textual_theme(theme))
        self.register_theme(no_color_theme())
        known = settings.theme if settings.theme in self.theme_names else self.theme_names[0]
        self.theme = NO_COLOR_THEME if self.no_color else known
        self.set_keymap(dict(settings.keymap))
        self.set_class(settings.glyphs.ascii, "-ascii")

    def on_mount(self) -> None:
        """Begin behind the start-up screen."""
        loop = self._drawing = asyncio.get_running_loop()
        if self.has_terminal:
            self._watch.start(sys.__stdin__.fileno() if sys.__stdin__ else 0)
            loop.add_signal_handler(signal.SIGTERM, partial(self._leave, keep=True, code=TERMINATED))
        with self.batch_update():
            self.push_screen(StartupScreen(self._view, self.settings, self._show_dashboard))
        # Uses the time in which the servers start.
        load = partial(importlib.import_module, _DASHBOARD)
        self.run_worker(load, group="import", thread=True, exit_on_error=False)
        if self.settings.ends_after_s is not None:
            self.set_timer(self.settings.ends_after_s, self.end_in_time)
        for notice in self.settings.notices:
            self.notify(notice, severity="warning", timeout=10, markup=False)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A toast of plain text, whoever wrote it: no markup, nothing that a terminal obeys."""
        drawn = self.settings.glyphs.text
        text, title = drawn(shortened(printable(message, LAYOUT), MOST_TOLD)), drawn(printable(title))
        super().notify(text, title=title, severity=severity, timeout=timeout, markup=False)

    @property
    def has_terminal(self) -> bool:
        """It draws in the terminal of its process."""
        return not self.is_headless

    async def on_event(self, event: events.Event) -> None:
        """Let the dashboard take keys in the order in which they were typed."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            take_key = getattr(self.screen, "take_key", None)
            if take_key is not None and await take_key(event):
                return
        await super().on_event(event)

    def _show_dashboard(self) -> None:
        # What draws the charts takes a fifth of a second to import: not before the first screen.
        from replexplorer.ui.screens.dashboard import DashboardScreen

        screen = DashboardScreen(self._view, self.settings)
        with self.batch_update():
            self.switch_screen(screen)
        if self.has_terminal:  # else the process is somebody else's
            return_large_buffers()
            self.set_timer(STARTED_S, keep_what_stays)
        self.set_interval(FORGET_EVERY_S, forget_what_was_drawn)

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """What the palette offers: the actions; by what is typed also the themes and the knobs."""
        from replexplorer.ui.screens.dashboard import DashboardScreen

        for action in ACTIONS if isinstance(screen, DashboardScreen) else EVERYWHERE:
            target = self if action in EVERYWHERE else screen
            if action.listed and target.check_action(action.method, ()) is not False:
                keys = " ".join(key_label(key) for key in keys_of(action.id, self.settings.keymap))
                run = partial(target.run_action, action.run)
                yield SystemCommand(f"{action.area}: {action.title}", f"key {keys}", run)
        for theme in self.theme_names:
            yield SystemCommand(f"theme: Use {theme}", "", partial(self.use_theme, theme), discover=False)
        if isinstance(screen, DashboardScreen):
            for name in screen.board.views:
                select = partial(screen.select_knob, name)
                yield SystemCommand(f"knob: Select {name}", name.knob.help, select, discover=False)

    def use_theme(self, name: str) -> None:
        """Draw in another theme; NO_COLOR keeps its own."""
        if not self.no_color:
            self.theme = name

    def action_theme_next(self) -> None:
        """The next theme."""
        if self.theme in self.theme_names:
            at = self.theme_names.index(self.theme)
            self.use_theme(self.theme_names[(at + 1) % len(self.theme_names)])

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        """The screen as an SVG that needs no network: in the viewer's own fonts."""
        svg = super().export_screenshot(title=title, simplify=simplify)
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
        return svg.replace("Fira Code, monospace", "monospace").replace(
            "font-family: arial", "font-family: sans-serif"
        )

    @work(group="picture", exit_on_error=False)
    async def action_picture_save(self) -> None:
        """Save the screen as an SVG in the working directory, next to what is there."""
        if self.is_web:  # it would be on the server's disk
            self.notify("a browser cannot save a picture: use a terminal", severity="warning")
            return
        stack = re.sub(r"[^\w.-]+", "-", self.settings.stack)
        name = f"replexplorer-{stack}-{time.strftime('%Y%m%d-%H%M%S')}.svg"
        svg = self.export_screenshot()
        try:
            file = Path.cwd() / name
            await asyncio.to_thread(_write_new, file, svg)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.notify(f"cannot write {name}: {why}", title="picture failed", severity="error", timeout=10)
        else:
            self.notify(str(file), title="picture saved", timeout=8)

    def action_palette(self) -> None:
        """Open the command palette."""
        self.action_command_palette()

    def action_help(self) -> None:
        """Open the help."""
        if self.screen.name != "help":
            self.push_screen(help_screen(self.settings, mode_of(self._view, visits=self.settings.visits)))

    def action_app_quit(self) -> None:
        """Quit; a screen that drives something may ask first."""
        asks = getattr(self.screen, "asks_before_quit", None)
        if self._leaving or asks is None or not asks():
            self.action_app_leave()

    def end_in_time(self) -> None:
        """The time that it was given is over: as when it is quit."""
        self._leave(keep=True)

    def action_app_leave(self) -> None:
        """Stop the load, disconnect, leave; a second time leaves at once."""
        self._leave(keep=False)

    def _leave(self, *, keep: bool, code: int = 0) -> None:
        """`keep`: whatever is configured, no stack is taken away, as at SIGTERM or when the time is over."""
        self._ends_with = code
        if self._leaving:
            left = "" if self.settings.visits else "left at once; the load ends with the app"
            self.exit(left, code)
            return
        self._leaving = True
        self.notify("leaving…" if self.settings.visits else "stopping the load…", timeout=10)
        self._quit(keep)

    @work(exclusive=True, group="quit", exit_on_error=False)
    async def _quit(self, keep: bool) -> None:
        await self._stop_starting()
        try:
            line = await self.close_view(keep=keep)
        except ReplexplorerError as error:
            line = str(error)
        except Exception as error:  # whatever it is, the terminal must come back
            line = f"closing failed: {type(error).__name__}: {error}"
        self.exit(line, self._ends_with)

    async def close_view(self, *, keep: bool) -> str:
        """End a lesson, and what is watched; answers in one line what is left behind."""
        for screen in self.screen_stack:
            if experiments := getattr(screen, "experiments", None):
                await experiments.leave()
        return await self._view.close(keep=keep)

    async def _stop_starting(self) -> None:
        """A start-up under way is given up before its view is closed."""
        starting = [worker for worker in self.workers if worker.group == "start"]
        for worker in starting:
            worker.cancel()
        with contextlib.suppress(WorkerError, TimeoutError):
            async with asyncio.timeout(2):
                for worker in starting:
                    await worker.wait()

    def _lost(self) -> None:
        """The terminal is gone: close without drawing, then end the process."""
        loop = self._drawing
        if loop is not None:
            loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._abandon(), loop=loop))

    async def _abandon(self) -> None:
        with contextlib.suppress(Exception):
            await self.close_view(keep=True)
        self._watch.finished()


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)

"""The real app over a fake facade, and waiting for a condition instead of for luck."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from textual._context import visible_screen_stack
from textual.keys import Keys
from textual.message import Message
from textual.notifications import Notify
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Static

from replexplorer.cli.experiment import LABS
from replexplorer.core.tick import Tick
from replexplorer.engine.view import View
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.dashboard import CommandDone, CommandFailed, DashboardScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import FakeFacade
from tests.ticks import tick_of
from tests.waiting import patience

_NAMED = {key.value for key in Keys}
Size = tuple[int, int]
"""Columns and rows."""
DEADLINE_S = 10.0
EVERY_SIZE = pytest.mark.parametrize("size", [(160, 45), (120, 36), (80, 24)])
TWO_SIZES = pytest.mark.parametrize("size", [(120, 36), (80, 24)])


def keys_of(words: str) -> list[str]:
    """`/rtt enter 2.5 enter`: of each word the key of this name, or its characters one after the other."""
    return [key for word in words.split() for key in ([word] if word in _NAMED else word)]


def drawn(app: ExplorerApp) -> list[Strip]:
    """The rows of the terminal, with what is seen of the screens below the one in front."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


def folded(ticks: Iterable[Tick]) -> Picture:
    """What is shown after these."""
    picture = Picture()
    for tick in ticks:
        picture.fold(tick)
    return picture


def page(*parts: Iterable[str]) -> str:
    """Rows as one text, of no version of the program in particular."""
    return re.sub(
        r"(?<=replexplorer )\d[\w.]*", "VERSION", "\n".join(row.rstrip() for part in parts for row in part)
    )


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Bench:
    """A running app with everything that a test looks at."""

    app: ExplorerApp
    pilot: Pilot[str]
    facade: FakeFacade
    clock: ManualClock
    messages: list[Message]

    @property
    def dashboard(self) -> DashboardScreen:
        screen = self.app.screen_stack[1] if len(self.app.screen_stack) > 1 else self.app.screen
        assert isinstance(screen, DashboardScreen)
        return screen

    def rows(self, selector: str) -> list[str]:
        return self.dashboard.query_one(selector, Lines).rows

    def text(self, selector: str) -> str:
        return "\n".join(self.rows(selector))

    def painted(self, selector: str) -> list[list[tuple[str, str]]]:
        """Of each row its runs of text, with the words for their style."""
        return self.dashboard.query_one(selector, Lines)._painted

    @property
    def shown(self) -> list[str]:
        """What is on the terminal now, row by row."""
        return ["".join(segment.text for segment in strip) for strip in drawn(self.app)]

    @property
    def sheet(self) -> list[str]:
        """Of that the list that is open, one blank row before it is."""
        found = self.app.screen.query("#sheet")
        return self.shown[found.first().region.y :] if found else [""]

    @property
    def screen_text(self) -> str:
        """The same in one text."""
        return "\n".join(row.rstrip() for row in self.shown)

    @property
    def whole(self) -> list[str]:
        """All rows of the list that is open, also those that are out of sight."""
        content = self.app.screen.query_one("#rows", Static).content
        return str(content).splitlines()

    @property
    def notices(self) -> list[str]:
        """All toasts, in their order."""
        told = (each.notification for each in self.messages if isinstance(each, Notify))
        return [f"{note.title}: {note.message}" if note.title else note.message for note in told]

    async def opened(self, keys: str) -> str:
        """All that is in the list that a key opens."""
        await self.press(keys)
        await self.until(lambda: self.app.screen is not self.dashboard and bool(self.whole), "the list")
        return "\n".join(self.whole)

    async def closed(self, keys: str = "escape") -> None:
        """Back on the dashboard by this key."""
        await self.press(keys)
        await self.until(lambda: self.app.screen is self.dashboard, "the dashboard")

    async def shows(self, *words: str) -> None:
        """Wait until each is on the terminal."""
        for each in words:
            await self.until(partial(lambda each: each in self.screen_text, each), each)

    async def told(self, words: str) -> None:
        """Wait until a toast has these words."""
        await self.until(lambda: any(words in notice for notice in self.notices), words)

    async def asked(self, method: str, *arguments: object) -> None:
        """Wait until the facade was called with these, one after the other, and no others."""
        await self.until(lambda: self.facade.called(method) == [*arguments], f"{method} {arguments}")

    async def quits(self, keys: str) -> None:
        """These end the app in order."""
        await self.press(keys)
        await self.until(lambda: self.app.return_value == self.facade.closing_line, "the end")

    async def refuses(self, keys: Iterable[str], why: str) -> None:
        """Press each twice: why it does nothing is told once, and of the next one again after a while."""
        for number, key in enumerate(keys, 1):
            self.clock.now_s += 10
            await self.press(f"{key} {key}")
            assert self.notices == [why] * number, key

    async def done(self) -> None:
        """Wait for a command's end, and look for the next one's from then on."""
        ends = CommandDone, CommandFailed
        await self.until(lambda: any(isinstance(each, ends) for each in self.messages), "the command's end")
        self.messages.clear()

    async def press(self, keys: str = "") -> None:
        await self.pilot.press(*keys_of(keys))
        await self.pilot.pause()

    async def until(self, condition: Callable[[], bool], what: str = "the condition") -> None:
        """Let the app work until the condition holds; the deadline fails the test."""
        began_s = time.monotonic()
        while not condition():
            late = time.monotonic() - began_s >= DEADLINE_S * patience()
            assert not late, f"{what} did not come within {DEADLINE_S:.0f} s"
            await self.pilot.pause(0.01)

    async def play(self, given: Tick | str) -> None:
        """Give a tick, or what a line of words says of one, and wait until it is drawn."""
        tick = tick_of(given) if isinstance(given, str) else given
        self.facade.play(tick)
        await self.until(lambda: self.dashboard.picture.tick is tick, "the tick")
        await self.pilot.pause()
        await self.pilot.pause()


@asynccontextmanager
async def running(
    view: View, facade: FakeFacade, size: Size = (120, 36), **settings: Any
) -> AsyncIterator[Bench]:
    """The app over a view, from its first moment on."""
    clock, messages = ManualClock(), list[Message]()
    app = ExplorerApp(view, Settings(monotonic=clock, **settings))
    async with app.run_test(size=size, message_hook=messages.append) as pilot:
        yield Bench(app, pilot, facade, clock, messages)


@asynccontextmanager
async def bench(
    *ticks: Tick | str, size: Size = (120, 36), facade: FakeFacade | None = None, **settings: Any
) -> AsyncIterator[Bench]:
    """The app at a size, its dashboard showing the last of the ticks."""
    given = [tick_of(each) if isinstance(each, str) else each for each in ticks or ("1", "1.5")]
    facade = facade or FakeFacade()
    for tick in given:
        facade.play(tick)
    settings.setdefault("experiments", tuple(LABS.shipped().values()))
    async with running(facade, facade, size, **settings) as app:
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen), "the dashboard")
        await app.until(lambda: app.dashboard.picture.tick is given[-1], "the last tick")
        await app.pilot.pause()
        await app.pilot.pause()
        yield app

"""Apps that run on from one test to the next: to start and end one costs more than what most tests do in it.

Each test gets a screen, a view and settings of its own; of the app only what a test may have changed is
put back. One that was quit or resized, that failed, or whose test failed is not used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from textual.geometry import Offset
from textual.message import Message
from textual.pilot import Pilot

from replexplorer.engine.view import View
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings

MOST: Final = 6
"""Apps that are kept, one a size."""
_AS_BUILT: Final = Settings()


@dataclass
class Running:
    """An app, and the task in which it runs."""

    app: ExplorerApp
    size: tuple[int, int]
    heard: list[Message] = field(default_factory=list)
    """Every message, of the test under way."""
    _end: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def start(self) -> Pilot[str]:
        """Answers what it is driven with."""
        started: asyncio.Future[Pilot[str]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started))
        self._task.add_done_callback(lambda _: started.done() or started.cancel())
        await asyncio.wait({started})
        if started.cancelled():
            await self._task
        return started.result()

    async def _run(self, started: asyncio.Future[Pilot[str]]) -> None:
        async with self.app.run_test(
            size=self.size, message_hook=lambda each: self.heard.append(each)
        ) as pilot:
            started.set_result(pilot)
            await self._end.wait()

    @property
    def is_well(self) -> bool:
        """It can be used again."""
        app = self.app
        is_going_on = app.is_running and app.return_value is None and not app._exit
        return is_going_on and app._exception is None and app.size == self.size

    async def end(self) -> None:
        """Raises what the app failed with."""
        self._end.set()
        if self._task is not None:
            await self._task

    async def show(self, view: View, settings: Settings) -> None:
        """Begin again with another view, as from the start on."""
        app = self.app
        app._view, app.settings = view, settings
        app.theme = settings.theme
        app.set_keymap(dict(settings.keymap))
        app.mouse_position = Offset(0, 0)
        await view.start(lambda *_: None)
        app.call_later(lambda: app.push_screen(DashboardScreen(view, settings)) and None)

    async def clear(self) -> None:
        """Leave nothing of a test behind."""
        app = self.app
        while len(app.screen_stack) > 1:
            await app.pop_screen()
        app.workers.cancel_all()
        app.clear_notifications()
        app._clipboard = ""


_kept: dict[tuple[int, int], Running] = {}


def may_be_shared(settings: Settings) -> bool:
    """Whether an app that was built with other settings does the same with these."""
    return (
        not settings.no_color
        and settings.themes == _AS_BUILT.themes
        and settings.notices == _AS_BUILT.notices
        and settings.ends_after_s is None
        and settings.close_deadline_s == _AS_BUILT.close_deadline_s
    )


@asynccontextmanager
async def running(
    view: View, settings: Settings, size: tuple[int, int], heard: list[Message], *, fresh: bool = False
) -> AsyncIterator[Pilot[str]]:
    """An app of this size that shows the view's main screen; `heard` is given each of its messages. A fresh
    one is started for this test and ended with it."""
    shared = may_be_shared(settings) and not fresh
    one = _kept.pop(size, None) if shared else None
    if one is None:
        one = Running(ExplorerApp(view, settings), size, heard)
        pilot = await one.start()
    else:
        one.heard = heard
        pilot = Pilot(one.app)
        await one.show(view, settings)
    try:
        with one.app._context():
            yield pilot
            if shared and one.is_well:
                await one.clear()
                _kept[size] = one
    finally:
        if _kept.get(size) is not one:
            await one.end()
    while len(_kept) > MOST:
        await _kept.pop(next(iter(_kept))).end()


async def end_all() -> None:
    """End those that are left."""
    while _kept:
        await _kept.popitem()[1].end()

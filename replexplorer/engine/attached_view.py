"""Servers that this program did not make, whose settings are changed for as long as the dashboard runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from replexplorer.core.tick import Tick
from replexplorer.engine.console import Console
from replexplorer.engine.outcome import ProgressCallback
from replexplorer.engine.session import Session
from replexplorer.engine.tasks import to_the_end


class AttachedView:
    """A session whose changes are restored when it is closed (`view.View`)."""

    player: Final = None
    """Its time goes by itself."""

    def __init__(self, session: Session, restore: Callable[[], Awaitable[object]]) -> None:
        self._session = session
        self._restore = restore

    @property
    def console(self) -> Console:
        """Where settings are changed."""
        return self._session.console

    async def start(self, progress: ProgressCallback) -> None:
        """See `view.View`."""
        await self._session.start(progress)

    def ticks(self) -> AsyncIterator[Tick]:
        """See `view.View`."""
        return self._session.ticks()

    async def close(self, *, keep: bool = False) -> str:
        """Let go of the servers and give each variable the value that it had, however this ends; returns
        nothing, for what was restored is a list."""
        try:
            await self._session.close(keep=True)
        finally:
            await to_the_end(_awaited(self._restore))
        return ""


async def _awaited(work: Callable[[], Awaitable[object]]) -> None:
    await work()

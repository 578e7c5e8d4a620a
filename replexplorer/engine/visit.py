"""Servers that somebody else runs, whose settings are turned for as long as one looks on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from replexplorer.core.tick import Tick
from replexplorer.engine.console import Console
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.progress import ProgressCallback
from replexplorer.engine.session import Session


class Visit:
    """A session whose changes are taken back when it is closed (`view.View`)."""

    player: Final = None
    """Its time goes by itself."""

    def __init__(self, session: Session, take_back: Callable[[], Awaitable[object]]) -> None:
        self._session = session
        self._take_back = take_back

    @property
    def console(self) -> Console:
        """Where settings are turned."""
        return self._session.console

    async def start(self, progress: ProgressCallback) -> None:
        """See `view.View`."""
        await self._session.start(progress)

    def ticks(self) -> AsyncIterator[Tick]:
        """See `view.View`."""
        return self._session.ticks()

    async def close(self, *, keep: bool = False) -> str:
        """Let go of the servers and give each variable the value that it had, however this ends; answers
        nothing, for what was taken back is a list."""
        try:
            await self._session.close(keep=True)
        finally:
            await to_the_end(self._undo())
        return ""

    async def _undo(self) -> None:
        await self._take_back()

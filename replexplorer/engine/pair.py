"""Two views as one, for an app that shows both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from replexplorer.core.tick import Tick
from replexplorer.engine.progress import Progress, ProgressCallback
from replexplorer.engine.view import View


class PairedViews:
    """A and B (`view.View`); what is done is done at the console of one of them."""

    console: Final = None
    """Each side has its own."""
    player: Final = None
    """Time goes by itself."""

    def __init__(self, a: View, b: View, names: tuple[str, str]) -> None:
        """`names` are the stacks'."""
        self.sides = (a, b)
        self.names = names
        self._started = 0

    async def start(self, progress: ProgressCallback) -> None:
        """Start A, then B; asked again after a failure, only what does not run yet."""
        for at, (side, name) in enumerate(zip(self.sides, self.names, strict=True)):
            if at >= self._started:
                await side.start(partial(_tell, progress, name))
                self._started = at + 1

    def ticks(self) -> AsyncIterator[Tick]:
        """A's picture; whoever shows both listens to each of `sides`."""
        return self.sides[0].ticks()

    async def close(self, *, keep: bool = False) -> str:
        """End both; answers what each leaves behind."""
        left = await asyncio.gather(*(side.close(keep=keep) for side in self.sides), return_exceptions=True)
        return "\n".join(str(line) for line in left if str(line))


class Overheard:
    """A view that somebody else listens to already (`view.View`): its picture is what that one passes on, and
    it is neither started nor closed with this."""

    player: Final = None
    """Time goes by itself."""

    def __init__(self, view: View) -> None:
        self.console = view.console
        self._heard: asyncio.Queue[Tick | None] = asyncio.Queue()

    def hear(self, tick: Tick) -> None:
        """Pass a tick on."""
        self._heard.put_nowait(tick)

    async def start(self, progress: ProgressCallback) -> None:
        """It runs."""

    async def ticks(self) -> AsyncIterator[Tick]:
        """What was passed on, until `close`."""
        while (tick := await self._heard.get()) is not None:
            yield tick

    async def close(self, *, keep: bool = False) -> str:
        """End the picture here."""
        self._heard.put_nowait(None)
        return ""


def _tell(progress: ProgressCallback, name: str, step: Progress) -> None:
    progress(Progress(f"{name}: {step.text}", step.done))

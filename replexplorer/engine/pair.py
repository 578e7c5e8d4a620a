"""Two views as one, for an app that shows both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
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

    async def start(self, progress: ProgressCallback) -> None:
        """Start A, then B; where B cannot be started A is closed, and its error raised."""
        await self.sides[0].start(lambda step: progress(_named(step, self.names[0])))
        try:
            await self.sides[1].start(lambda step: progress(_named(step, self.names[1])))
        except BaseException:
            await self.sides[0].close(keep=True)
            raise

    def ticks(self) -> AsyncIterator[Tick]:
        """A's picture; whoever shows both listens to each of `sides`."""
        return self.sides[0].ticks()

    async def close(self, *, keep: bool = False) -> str:
        """End both; answers what each leaves behind."""
        left = await asyncio.gather(*(side.close(keep=keep) for side in self.sides), return_exceptions=True)
        return "\n".join(str(line) for line in left if str(line))


def _named(step: Progress, name: str) -> Progress:
    return Progress(f"{name}: {step.text}", step.done)

"""A session file in memory, on a disk that can fill up or hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.tick import Tick


class FakeRecorder:
    """`ports.Recorder`."""

    file = "/sessions/fake.rxs"

    about: dict[str, str] | None = None
    is_full = False
    hangs = False
    closed = 0
    discarded = False
    """There is no file any more."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []

    async def open(self, about: Mapping[str, str]) -> None:
        """See `ports.Recorder`."""
        self._write()
        self.about = dict(about)

    async def write(self, ticks: Sequence[Tick]) -> None:
        """See `ports.Recorder`."""
        if self.hangs:
            await asyncio.Event().wait()
        self._write()
        self.ticks.extend(ticks)

    def past(self) -> Iterator[Tick]:
        """See `ports.Recorder`."""
        return iter(self.ticks)

    async def close(self) -> None:
        """See `ports.Recorder`."""
        self.closed += 1

    async def discard(self) -> None:
        """See `ports.Recorder`."""
        self.closed += 1
        self.discarded = True

    def _write(self) -> None:
        if self.is_full:
            raise ReplexplorerError("the disk is full", "make room")

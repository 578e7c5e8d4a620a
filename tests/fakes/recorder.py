"""A session file in memory, on a disk that can fill up or hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.tick import Tick


class FakeRecorder:
    """`ports.Recorder`."""

    file = "/sessions/fake.rxs"

    def __init__(self) -> None:
        self.about: dict[str, str] | None = None
        self.ticks: list[Tick] = []
        self.is_full = False
        self.hangs = False
        self.closed = 0
        self.discarded = False
        """There is no file any more."""

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

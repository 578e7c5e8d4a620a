"""How many bytes this node's volumes hold: their files are counted, for a volume has no size of its own.

Law: a directory that cannot be read makes the sum unknown, never smaller. Counted at most once in KEPT_S,
whoever asks, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

KEPT_S = 5.0


class Footprint:
    """The files below some directories."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = tuple(directories)
        self._counting = asyncio.Lock()
        self._counted: tuple[float, int | None] | None = None

    async def bytes(self) -> int | None:
        """What the files take on the disk, as they were at most KEPT_S ago; None where it is unknown."""
        async with self._counting:
            if self._counted is None or time.monotonic() - self._counted[0] > KEPT_S:
                found = await asyncio.to_thread(self._count)
                self._counted = (time.monotonic(), found)
            return self._counted[1]

    def _count(self) -> int | None:
        try:
            return sum(_used(directory) for directory in self._directories)
        except OSError:
            return None


def _used(directory: Path) -> int:
    """Bytes of all files below; those that go while it looks are gone."""
    total = 0
    waiting = [os.fspath(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                except FileNotFoundError:
                    continue
    return total

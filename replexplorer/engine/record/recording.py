"""Keeping a session: its ticks go to a recorder a batch at a time, and never in the way of the picture."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.tick import Tick
from replexplorer.ports import Recorder

_WRITE_EVERY_S: Final = 1.0
"""A killed app loses what came since."""
_END_WITHIN_S: Final = 2.0
_MOST_WAITING: Final = 600
"""Ticks that wait for a recorder that hangs; then it is given up."""


class Recording:
    """The recording of one session; a recorder that fails ends it, and the session goes on."""

    def __init__(self, make: Callable[[], Recorder] | None, warn: Callable[[str], None]) -> None:
        """`make` answers the recorder of a session that is recorded; None: this one is not."""
        self._make = make
        self._warn = warn
        self._recorder: Recorder | None = None
        self._writing: asyncio.Task[None] | None = None
        self._waiting: list[Tick] = []
        self._ended = asyncio.Event()
        self._kept = True
        self.file: str | None = None
        """Where it is, or was, written; None when nothing is recorded."""

    async def begin(self, about: Mapping[str, str]) -> None:
        """Make the file; a failure is reported and the session goes on unrecorded."""
        if self._make is None or self._recorder is not None:
            return
        recorder = self._make()
        try:
            await recorder.open(about)
        except ReplexplorerError as error:
            self._warn(f"not recorded: {error}")
            return
        self._recorder, self.file = recorder, recorder.file
        self._writing = asyncio.create_task(self._write_on(), name="recording")

    def take(self, tick: Tick) -> None:
        """Record a tick soon."""
        if self._recorder is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._give_up("its disk does not answer")
            return
        self._waiting.append(tick)

    async def end(self, *, kept: bool = True) -> None:
        """Write what waits, and close the file, or leave none unless it is to be `kept`; harmless twice. A
        disk that hangs is not waited for long."""
        self._kept = kept
        self._ended.set()
        if self._writing is None:
            return
        _, late = await asyncio.wait({self._writing}, timeout=_END_WITHIN_S)
        for task in late:
            task.cancel()
        self._recorder = None

    async def _write_on(self) -> None:
        recorder = self._recorder
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_EVERY_S):
                    await self._ended.wait()
            await self._write()
        if recorder is not None:
            await (recorder.close() if self._kept else recorder.discard())

    async def _write(self) -> None:
        if self._recorder is None or not self._waiting:
            return
        ticks, self._waiting = self._waiting, []
        try:
            await self._recorder.write(ticks)
        except ReplexplorerError as error:
            self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        self._recorder = None
        self._waiting.clear()
        self._warn(f"recording stopped: {why}")

"""Lines to the app that never wait for it.

Law: a pipe that nobody reads costs no commit. Intervals that cannot be sent are merged into one,
exactly, so the memory is bounded and nothing is lost when the app reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from replexplorer.core.load.interval import Interval

_KEPT_LINES: Final = 256
"""Other lines than intervals; beyond it the oldest progress goes."""


class Outbox:
    """Writes JSON lines to a pipe as it takes them."""

    def __init__(self, descriptor: int, on_closed: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._unsent = b""
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._interval: Interval | None = None
        self._is_watching = False
        self._emptied = asyncio.Event()
        self._emptied.set()
        os.set_blocking(descriptor, False)

    def tell(self, event: str, **content: object) -> None:
        """Send an event."""
        self._lines.append(_line({"event": event, **content}))
        self._flush()

    def tell_interval(self, interval: Interval) -> None:
        """Send an interval, merged with those that wait."""
        self._interval = interval if self._interval is None else self._interval.followed_by(interval)
        self._flush()

    def _next(self) -> bytes:
        """The next line to send; empty when there is none."""
        if self._lines:
            return self._lines.popleft()
        if self._interval is not None:
            interval, self._interval = self._interval, None
            return _line({"event": "interval", "interval": interval.to_wire()})
        return b""

    def _flush(self) -> None:
        """Write until the pipe is full or nothing is left."""
        try:
            while True:
                self._unsent = self._unsent or self._next()
                if not self._unsent:
                    self._watch(False)
                    return
                self._unsent = self._unsent[os.write(self._descriptor, self._unsent) :]
        except BlockingIOError:
            self._watch(True)
        except OSError:  # the app is gone
            self._watch(False)
            self._on_closed()

    def _watch(self, is_full: bool) -> None:
        """Be called when the pipe takes more."""
        if is_full != self._is_watching:
            self._is_watching = is_full
            if is_full:
                self._emptied.clear()
                self._loop.add_writer(self._descriptor, self._flush)
            else:
                self._emptied.set()
                self._loop.remove_writer(self._descriptor)

    async def drain(self, deadline_s: float) -> None:
        """Wait until everything is sent, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self._emptied.wait()


def _line(content: Mapping[str, object]) -> bytes:
    """A JSON document in one line."""
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"

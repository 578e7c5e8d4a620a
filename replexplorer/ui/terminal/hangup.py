"""The end of the terminal: whatever happens to it, the app and its load are gone within two seconds.

Law: once the terminal is lost nothing is written to it any more; the process leaves with
`os._exit` after the load was asked to stop, and a thread sees to it even when the event loop
is stuck in a write.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Final

EXIT_CODE: Final = 128 + int(signal.SIGHUP)
"""What a process that was hung up on ends with."""
TERMINATED: Final = 128 + int(signal.SIGTERM)
"""What one that was asked to end by SIGTERM ends with, as a shell says it."""


class TerminalWatch:
    """Notices SIGHUP and a closed terminal, asks once for an orderly end, then ends the process."""

    def __init__(
        self,
        on_lost: Callable[[], None],
        *,
        deadline_s: float,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._on_lost = on_lost
        self._deadline_s = deadline_s
        self._leave = leave
        self._lost = threading.Event()
        self._done = threading.Event()

    def start(self, descriptor: int) -> None:
        """Watch this descriptor's terminal and the process's SIGHUP; call it in the main thread."""
        with contextlib.suppress(ValueError):  # not the main thread: a test's or a server's app
            signal.signal(signal.SIGHUP, lambda *_: self.lose())
        threading.Thread(target=self._poll, args=(descriptor,), daemon=True, name="terminal-watch").start()

    def lose(self) -> None:
        """The terminal is gone: ask for the end, and make sure of it."""
        if not self._lost.is_set():
            self._lost.set()
            threading.Thread(target=self._end, daemon=True, name="terminal-lost").start()
            self._on_lost()

    def finished(self) -> None:
        """The orderly end is done: leave at once."""
        self._done.set()

    def _end(self) -> None:
        self._done.wait(self._deadline_s)
        self._leave(EXIT_CODE)

    def _poll(self, descriptor: int) -> None:
        """Sleep until the other side of the terminal is closed; costs nothing meanwhile."""
        poller = select.poll()
        poller.register(descriptor, 0)
        while not self._lost.is_set():
            with contextlib.suppress(InterruptedError):
                for _, event in poller.poll():
                    if event & (select.POLLHUP | select.POLLERR):
                        self.lose()
                    return

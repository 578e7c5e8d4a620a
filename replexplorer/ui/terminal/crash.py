"""What becomes of the process in its terminal: a defect, the terminal's end, and memory meanwhile.

A defect ends the app quietly: the terminal is restored and the caller gets what it was. Textual 8.2.8 would
print a traceback with every local variable in it, passwords among them: this overrides two of its private
methods, and keeps what its test kit needs of them.

Law: once the terminal is lost nothing is written to it any more; the process leaves with `os._exit` after
the load was asked to stop, within two seconds, and a thread sees to it even when the event loop is stuck in
a write.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.cells import cached_cell_len
from rich.console import RenderableType
from textual.app import App, ReturnType
from textual.geometry import Region

from replexplorer.core.text import LAYOUT, printable

_MOST_BYTES: Final = 1_000_000
"""A log that has grown beyond this starts over."""


class QuietEnd(App[ReturnType]):
    """An App that keeps the exception that ended it, and prints nothing about it."""

    crash: Exception | None = None
    """The first defect that ended the app; None after an orderly end."""

    def _handle_exception(self, error: Exception) -> None:
        """End the app with code 1."""
        self._return_code = 1
        if self.crash is None:
            self.crash = self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        """Say nothing: the caller does."""
        self._exit_renderables.clear()

    def panic(self, *renderables: RenderableType) -> None:
        """Textual found that it cannot go on: keep its words."""
        text = " ".join(str(renderable) for renderable in renderables)
        self._handle_exception(RuntimeError(" ".join(text.split()) or "panic"))


def log_crash(error: BaseException, file: Path) -> bool:
    """Add the traceback, without any values, to the log; answers whether it could be written."""
    lines = [f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} the dashboard crashed (internal error)\n"]
    lines += traceback.format_exception(error)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists() and file.stat().st_size > _MOST_BYTES:
            file.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags, 0o600), "a", encoding="utf-8", errors="replace") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(printable("".join(lines), LAYOUT))
    except OSError:
        return False
    return True


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


STARTED_S: Final = 3.0
"""After the dashboard stands: what lives then lives to the end."""
FORGET_EVERY_S: Final = 10.0
_COLLECT_AFTER: Final = (700, 10, 2)
"""New objects to a young collection, of those to a middle one, of those to a full one: some seconds, with
what is left to look through."""
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 * 1024


def keep_what_stays() -> None:
    """Modules, classes and widgets are for ever: looked through no more, full collections become
    short and may be frequent, and what a tick leaves behind does not pile up."""
    gc.collect()
    gc.freeze()
    # Counts what is left to look through: until a quarter of that is new, no full collection begins.
    gc.collect()
    gc.set_threshold(*_COLLECT_AFTER)


def return_large_buffers() -> None:
    """Have each large buffer returned to the system when it is freed (mallopt(3), glibc alone).

    asyncio receives into 256 KB. By itself the allocator takes them from the heap after the first one,
    what lives longer settles in the hole that each leaves, and the next one lengthens the heap.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def forget_what_was_drawn() -> None:
    """Rich and Textual remember thousands of texts' widths and of regions' overlaps, most of them with a
    figure or a part of a curve that never comes again: some megabytes, that only the frame needs."""
    cached_cell_len.cache_clear()
    Region.intersection.cache_clear()
    Region.translate.cache_clear()

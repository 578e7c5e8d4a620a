"""A defect ends the app quietly: the terminal is restored and the caller is told what it was.

Textual 8.2.8 would print a traceback with every local variable in it, passwords among them. This
overrides two of its private methods, and keeps what its test kit needs of them.
"""

from __future__ import annotations

import os
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import RenderableType
from textual.app import App, ReturnType

from replexplorer.core.printable import LAYOUT, printable

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
    lines = [f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} the dashboard ended on a defect\n"]
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

"""Programs in a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import patience

ROOT = Path(__file__).parents[2]


@contextmanager
def in_terminal(program: str, *words: str, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process of this Python text, and the end of its terminal that people sit at."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (36, 120))
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environ},
    )
    os.close(terminal)
    try:
        yield process, controller
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):
            os.close(controller)


def read_until(controller: int, words: bytes | None = None) -> bytes:
    """What a program writes until these words; None: until its end."""
    written = b""
    while words is None or words not in written:
        assert select.select([controller], [], [], 60 * patience())[0], written[-1500:]
        try:
            written += os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
    return written

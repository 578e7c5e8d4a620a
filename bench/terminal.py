"""The dashboard in a terminal of its own: what it shows, writes, burns and holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pyte

from replexplorer.adapters.recording import SUFFIX
from replexplorer.formats.paths import sessions_directory

PROGRAM = (sys.executable, "-m", "replexplorer")
_FIRST_S = 120.0
"""How long the first figure may take before a measurement is given up."""
_END_S = 20.0
_RATE = re.compile(r"TPS +[1-9]")


class Terminal:
    """The program behind a pseudo-terminal; its screen is followed until it shows commits."""

    def __init__(self, stack: str, columns: int, lines: int) -> None:
        self.written_bytes = 0
        self.shows_commits = asyncio.Event()
        """A rate stands in the header."""
        self.began_s = time.monotonic()
        self.first_s = 0.0
        """How long that took."""
        self.picture_s = 0.0
        """How long it took until anything was on the screen."""
        self._screen: pyte.Screen | None = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._controller, end = pty.openpty()
        termios.tcsetwinsize(end, (lines, columns))
        self._process = subprocess.Popen(
            [*PROGRAM, "--stack", stack],
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            env=_environment(),
        )
        os.close(end)
        os.set_blocking(self._controller, False)
        asyncio.get_running_loop().add_reader(self._controller, self._read)

    def _read(self) -> None:
        """Take what the program writes."""
        try:
            written = os.read(self._controller, 65536)
        except BlockingIOError:
            return
        except OSError:  # it has ended
            written = b""
        if not written:
            asyncio.get_running_loop().remove_reader(self._controller)
            return
        self.written_bytes += len(written)
        if self._screen is None:
            return
        self._stream.feed(written)
        if not self.picture_s and any(line.strip() for line in self._screen.display):
            self.picture_s = time.monotonic() - self.began_s
        if _RATE.search(self._screen.display[0]):
            self.first_s = time.monotonic() - self.began_s
            self._screen = None
            self.shows_commits.set()

    async def begun(self) -> None:
        """Wait for the first figure; raises RuntimeError with the screen when none comes."""
        until_s = self.began_s + _FIRST_S
        while not self.shows_commits.is_set():
            if self._process.poll() is not None or time.monotonic() > until_s:
                lines = self._screen.display if self._screen is not None else []
                shown = " | ".join(line.strip() for line in lines if line.strip())
                raise RuntimeError(f"the dashboard shows no commits: {shown[-400:]}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self.shows_commits.wait()

    def hold(self, *, on: bool) -> None:
        """Stop the app's process where it is, its load not, or let it go on."""
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def cpu_s(self) -> float:
        """CPU of the app's process so far, its load's not included."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Memory that the app's process holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def recorded_bytes(self) -> int:
        """Length of the app's session file, with what SQLite keeps beside it."""
        return sum(
            part.stat().st_size for part in sessions_directory().glob(f"*-{self._process.pid}{SUFFIX}*")
        )

    async def quit(self) -> None:
        """Let it go on, press ctrl+c, which asks nothing, and wait for the end; kill it when none comes."""
        with contextlib.suppress(OSError):
            self.hold(on=False)
            os.write(self._controller, b"\x03")
        until_s = time.monotonic() + _END_S
        while self._process.poll() is None:
            if time.monotonic() > until_s:
                self._process.kill()
            await asyncio.sleep(0.05)
        asyncio.get_running_loop().remove_reader(self._controller)
        os.close(self._controller)


def _environment() -> dict[str, str]:
    """A user's: modules are compiled once, as where the program is installed, and not at each start."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


@contextlib.asynccontextmanager
async def dashboard(stack: str, columns: int, lines: int) -> AsyncIterator[Terminal]:
    """A dashboard that shows commits; it is gone afterwards."""
    terminal = Terminal(stack, columns, lines)
    try:
        await terminal.begun()
        yield terminal
    finally:
        await terminal.quit()

"""One tab: a process of the dashboard, and the line to the browser while there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from replexplorer.core.printable import one_line

ENDS_WITHIN_S: Final = 4.0
"""A process whose terminal is gone lets go of its load within two seconds; one that does not is killed."""
STALLED_S: Final = 5.0
"""A line that takes nothing for so long is dropped: the process must not wait for it."""
_RESIZED_S: Final = 0.05
"""Between two changes of size that are not taken for one."""
_PRELUDE: Final = b"__GANGLION__\n"
"""What Textual's web driver says first."""
_MODES: Final = b"\x1b[?1049h\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h\x1b[?25l\x1b[?2004h"
"""How that driver begins: alternate screen, mouse, no cursor, bracketed paste. A new page starts without."""
_MOST_COLUMNS, _MOST_LINES = 1000, 500
_TAIL_BYTES: Final = 2000


def size_of(width: object, height: object) -> tuple[int, int]:
    """A terminal's size as a page says it, within reason; raises ValueError for what is no number."""
    columns, lines = int(str(width)), int(str(height))
    return min(max(1, columns), _MOST_COLUMNS), min(max(1, lines), _MOST_LINES)


class Tab(AppService):
    """A process, which outlives its line for a while: the tab may be loaded again, or its line come back."""

    def __init__(self, words: Sequence[str], *, drives: bool) -> None:
        """`words` start the process."""
        super().__init__(
            "",
            write_bytes=self._to_line,
            write_str=_unheard,
            close=_unneeded,
            download_manager=DownloadManager(),
        )
        self.drives = drives
        """It turns the knobs; else it watches."""
        self.has_left = False
        """Its page was closed, or is being loaded again; its line was not dropped."""
        self.ended = asyncio.Event()
        """The process is gone."""
        self.said = ""
        """The last line that it said, once it has ended."""
        self._words = words
        self._size = (80, 24)
        self._cut: Callable[[], object] = lambda: None
        self.leaving: asyncio.Task[None] | None = None
        """Ends the process once nobody has come back for long enough."""
        self.line: web.WebSocketResponse | None = None
        """To the page; None while there is none."""

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        """Start it in a session of its own: a Ctrl-C is the server's, which ends it in order."""
        process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._process, self._stdin, self._size = process, process.stdin, (width, height)
        return process

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        """What a browser's terminal can do, whatever the one of the server can."""
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONIOENCODING": "utf-8"}
        return {**super()._build_environment(width, height), **terminal}

    async def start(self, width: int, height: int) -> None:
        """Start the process; one that cannot be started has ended, and said why."""
        try:
            await super().start(width, height)
        except OSError as error:
            self.said = f"the dashboard cannot be started: {(error.strerror or str(error)).lower()}"
            self.ended.set()

    async def run(self) -> None:
        """Read what it draws until it ends."""
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("a tab's process runs with pipes")
        said = asyncio.create_task(_tail(process.stderr))
        output = process.stdout
        try:
            while await output.readline() not in (b"", _PRELUDE):
                pass
            while True:
                kind = await output.readexactly(1)
                size = int.from_bytes(await output.readexactly(4), "big")
                payload = await output.readexactly(size)
                if kind == b"D":
                    await self.on_data(payload)
        except (asyncio.IncompleteReadError, ConnectionResetError, ValueError):
            pass
        finally:
            await process.wait()
            self.said = await said
            self.ended.set()

    async def stop(self) -> None:
        """End the process as a terminal that hangs up does; harmless twice."""
        if self._task is None or self._process is None:
            return
        self.stdin.close()
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                await self.ended.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self.ended.wait()
        await self._task

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Draw for this size."""
        try:
            self._size = size_of(width, height)
        except ValueError:
            return
        await super().set_terminal_size(*self._size)

    def begin(self, line: web.WebSocketResponse, cut: Callable[[], object]) -> None:
        """Draw to this line from now on; `cut` ends it at once."""
        if self.leaving is not None:
            self.leaving.cancel()  # who leaves again has all of the time again
        self.line, self.has_left, self._cut = line, False, cut

    async def attach(self, line: web.WebSocketResponse, cut: Callable[[], object]) -> None:
        """As `begin`, in place of another line, to a page that shows nothing yet."""
        before = self.line
        self.begin(line, cut)
        if before is not None:
            await before.close(code=4002, message=b"This dashboard is open in another tab now.")
        with contextlib.suppress(ConnectionError):  # dropped again: whoever reads from it finds out
            await line.send_bytes(_MODES)
        # What a terminal shows is not known after it changed its size: all is drawn again.
        width, height = self._size
        await super().set_terminal_size(width, height + 1)
        await asyncio.sleep(_RESIZED_S)
        await super().set_terminal_size(width, height)

    async def _to_line(self, payload: bytes) -> None:
        line = self.line
        if line is None or line.closed:
            return
        try:
            async with asyncio.timeout(STALLED_S):
                await line.send_bytes(payload)
        except (TimeoutError, ConnectionError):
            self.line = None  # a page that comes back gets all of the screen
            self._cut()


async def _tail(stream: asyncio.StreamReader) -> str:
    """The last line of a stream, once it has ended; a terminal obeys none of it."""
    kept = b""
    while chunk := await stream.read(4096):
        kept = (kept + chunk)[-_TAIL_BYTES:]
    lines = [line for line in kept.decode("utf-8", "replace").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


async def _unheard(_: str) -> None:
    """The page hears of nothing but the screen."""


async def _unneeded() -> None:
    """The line is closed by the server, once the process has ended."""

"""The server: pages, and a process of the dashboard for each tab; the first drives, others watch.

Law: a process lives as long as its tab's line. A tab that is loaded again has its old process ended first,
and plays the same part again.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from string import Template
from tempfile import TemporaryFile
from typing import Final

from aiohttp import WSCloseCode, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager
from textual_serve.server import Server

from replexplorer.core.text import one_line
from replexplorer.web.gate import PAGES, Gate

MOST_TABS: Final = 16
"""Each is a process of about 100 MB."""
_ENDS_WITHIN_S: Final = 4.0
"""A process whose terminal is gone lets go of its load within two seconds; one that does not is killed."""
_STALLED_S: Final = 5.0
"""A line that takes nothing for so long is cut: the process must not wait for it."""
_ENDED, _MOVED, _TOO_MANY = 4000, 4002, 4003
"""Why a line is closed, as page/tab.js knows it."""
_TAB: Final = re.compile(r"[0-9a-f]{32}")
_MOST_REASON_BYTES: Final = 120
_MOST_MESSAGE_BYTES: Final = 1 << 16
_MOST_COLUMNS, _MOST_LINES = 1000, 500
_PRELUDE: Final = b"__GANGLION__\n"
"""What Textual's web driver says first."""


def size_of(width: object, height: object) -> tuple[int, int]:
    """A terminal's size as a page says it, within reason; raises ValueError if it is not a number."""
    columns, lines = int(str(width)), int(str(height))
    return min(max(1, columns), _MOST_COLUMNS), min(max(1, lines), _MOST_LINES)


class Tab(AppService):
    """A process of the dashboard, and its line to the browser."""

    def __init__(self, words: Sequence[str], line: web.WebSocketResponse, cut: Callable[[], object]) -> None:
        """`words` start the process, `cut` ends the line at once."""
        super().__init__(
            "",
            write_bytes=self._draw,
            write_str=line.send_str,
            close=self._close,
            download_manager=DownloadManager(),
        )
        self.line = line
        self._words = words
        self._cut = cut
        self._stderr = TemporaryFile()  # noqa: SIM115 - it goes with the tab

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        """Start it in a session of its own: a Ctrl-C is the server's, which ends it in order."""
        # What a browser's terminal can do, whatever the one of the server can.
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONIOENCODING": "utf-8"}
        process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            env={**self._build_environment(width, height), **terminal},
            start_new_session=True,
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def run(self) -> None:
        """Send what it draws until it ends, then close the line with the last that it said."""
        process = self._process
        if process is None or process.stdout is None:
            raise RuntimeError("a tab's process runs with pipes")
        output = process.stdout
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while await output.readline() not in (b"", _PRELUDE):
                pass
            while True:
                kind, size = await output.readexactly(1), await output.readexactly(4)
                payload = await output.readexactly(int.from_bytes(size, "big"))
                if kind == b"D":
                    await self.on_data(payload)
        await process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode("utf-8", "replace").strip()
        await self._say_end(one_line(said.rpartition("\n")[2]))

    async def _close(self) -> None:
        await self.line.close()

    async def _say_end(self, why: str) -> None:
        self._stderr.close()
        reason = why.encode()[:_MOST_REASON_BYTES].decode("utf-8", "ignore").encode()
        await self.line.close(code=_ENDED, message=reason)

    async def stop(self) -> None:
        """End the process as a terminal that hangs up does; harmless twice."""
        if self._task is None or self._process is None:
            return
        self.stdin.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._task

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Draw for this size."""
        await super().set_terminal_size(*size_of(width, height))

    async def _draw(self, payload: bytes) -> None:
        if self.line.closed:
            return
        try:
            async with asyncio.timeout(_STALLED_S):
                await self.line.send_bytes(payload)
        except (TimeoutError, ConnectionError):
            self._cut()


def table_page(
    gate: Gate, title: str, heads: Sequence[str], rows: Callable[[], Awaitable[Sequence[Sequence[str]]]]
) -> web.Application:
    """A page behind a gate that shows a table as it is then, and comes again by itself."""
    page = Template((PAGES / "table.html").read_text(encoding="utf-8"))

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    async def show(_: web.Request) -> web.Response:
        found = [row("th", heads), *(row("td", cells) for cells in await rows())]
        text = page.substitute(title=html.escape(title), rows="\n".join(found))
        return web.Response(text=text, content_type="text/html")

    app = web.Application(client_max_size=4096)
    gate.guard(app)
    app.add_routes([web.get("/", show), web.static("/page", PAGES)])
    return app


class DashboardServer(Server):
    """Serves one stack's dashboard."""

    def __init__(self, words_of: Callable[[bool], Sequence[str]], gate: Gate) -> None:
        """`words_of(drives)` start a process of the dashboard."""
        super().__init__("", title="replexplorer")
        self._words_of = words_of
        self._gate = gate
        self._tabs: dict[str, Tab] = {}
        self._driver: Tab | None = None
        self._seating = asyncio.Lock()
        """Held while a process begins or ends: the next driver finds the load's lease free."""
        self.has_driven = False
        """Some tab drove the stack."""

    def application(self) -> web.Application:
        """The pages behind the gate."""
        app = web.Application(client_max_size=4096)
        self._gate.guard(app)

        async def page(_: web.Request) -> web.FileResponse:
            return web.FileResponse(PAGES / "tab.html")

        async def alive(_: web.Request) -> web.Response:
            """What a tab asks whose line was dropped."""
            return web.Response(status=204)

        app.add_routes(
            [
                web.get("/", page),
                web.get("/ws", self.handle_websocket),
                web.get("/alive", alive),
                web.static("/static", self.statics_path),
                web.static("/page", PAGES),
            ]
        )
        app.on_shutdown.append(self.on_shutdown)
        return app

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A tab's line and its process, from their beginning to their end."""
        name, transport = request.query.get("tab", ""), request.transport
        try:
            size = size_of(request.query.get("width", "80"), request.query.get("height", "24"))
        except ValueError:
            raise web.HTTPBadRequest(text="width and height are numbers\n") from None
        if not _TAB.fullmatch(name) or transport is None:
            raise web.HTTPBadRequest(text="tab is 32 hexadecimal digits\n")
        line = web.WebSocketResponse(heartbeat=15, timeout=1.0, max_msg_size=_MOST_MESSAGE_BYTES)
        await line.prepare(request)
        async with self._seating:
            for key, other in [*self._tabs.items()]:
                if key == name or other.line.closed:
                    await other.line.close(code=_MOVED, message=b"This dashboard is open in another tab now.")
                    await self._end(key, other)
            if len(self._tabs) >= MOST_TABS:
                many = f"There are {MOST_TABS} tabs already: close one."
                await line.close(code=_TOO_MANY, message=many.encode())
                return line
            drives = self._driver is None
            tab = self._tabs[name] = Tab(self._words_of(drives), line, transport.abort)
            if drives:
                self._driver, self.has_driven = tab, True
            await tab.start(*size)
        try:
            await self._process_messages(line, tab)
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
            await line.close(code=WSCloseCode.UNSUPPORTED_DATA)  # no page of ours said that
        except ConnectionError:
            pass  # the line was dropped while it was answered
        finally:
            async with self._seating:
                await self._end(name, tab)
        return line

    async def _end(self, name: str, tab: Tab) -> None:
        """End a process and wait for it."""
        await tab.stop()
        if self._tabs.get(name) is tab:
            del self._tabs[name]
        if self._driver is tab:
            self._driver = None

    async def on_shutdown(self, app: web.Application) -> None:
        """End every process."""
        tabs = [*self._tabs.items()]
        closes = [
            tab.line.close(code=WSCloseCode.GOING_AWAY, message=b"The server has ended.") for _, tab in tabs
        ]
        await asyncio.gather(*(self._end(name, tab) for name, tab in tabs), *closes, return_exceptions=True)

"""The server: pages, and a websocket a tab; the first tab drives, those beside it watch."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import WSCloseCode, web
from textual_serve.server import Server

from replexplorer.web.gate import PAGES, Gate
from replexplorer.web.tab import Tab, size_of

MOST_TABS: Final = 16
"""Each is a process of about 100 MB."""
BACK_WITHIN_S: Final = 20.0
"""How long a process waits for its tab when the line was dropped."""
LOADED_WITHIN_S: Final = 2.0
"""How long it waits when the page was closed: it may be being loaded again."""
_ENDED, _TOO_MANY = 4000, 4003
"""Why a line is closed, as page/tab.js knows it."""
_CLOSES_WITHIN_S: Final = 1.0
_TAB: Final = re.compile(r"[0-9a-f]{32}")
_MOST_REASON_BYTES: Final = 120
_MOST_MESSAGE_BYTES: Final = 1 << 16


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
        self._waiting: set[asyncio.Task[None]] = set()
        """Processes whose tab may come back."""
        self.has_driven = False
        """Some tab drove the stack."""

    def application(self) -> web.Application:
        """The pages behind the gate."""
        app = web.Application(client_max_size=4096)
        self._gate.guard(app)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws", self.handle_websocket),
                web.get("/alive", self._alive),
                web.static("/static", self.statics_path),
                web.static("/page", PAGES),
            ]
        )
        app.on_shutdown.append(self.on_shutdown)
        return app

    async def _page(self, _: web.Request) -> web.Response:
        """The page of a tab."""
        return web.Response(text=(PAGES / "tab.html").read_text(encoding="utf-8"), content_type="text/html")

    async def _alive(self, _: web.Request) -> web.Response:
        """What a tab asks whose line was dropped."""
        return web.Response(status=204)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A tab's line, from its opening to its end."""
        name = request.query.get("tab", "")
        try:
            size = size_of(request.query.get("width", "80"), request.query.get("height", "24"))
        except ValueError:
            raise web.HTTPBadRequest(text="width and height are numbers\n") from None
        if not _TAB.fullmatch(name):
            raise web.HTTPBadRequest(text="tab is 32 hexadecimal digits\n")
        line = web.WebSocketResponse(heartbeat=15, timeout=_CLOSES_WITHIN_S, max_msg_size=_MOST_MESSAGE_BYTES)
        await line.prepare(request)
        try:
            async with self._seating:
                tab = await self._seat(name, line, _cut(request), size)
            if tab is None:
                many = f"There are {MOST_TABS} tabs already: close one."
                await line.close(code=_TOO_MANY, message=many.encode())
            else:
                await self._talk(tab, line)
        finally:
            self._leave(name, line)
        return line

    async def _talk(self, tab: Tab, line: web.WebSocketResponse) -> None:
        """Take what the page says until one of the two has ended."""
        ending = asyncio.create_task(_tell_end(tab, line))
        try:
            await self._process_messages(line, tab)
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
            await line.close(code=WSCloseCode.UNSUPPORTED_DATA)  # no page of ours said that
        except ConnectionError:
            pass  # the line was dropped while it was answered
        finally:
            ending.cancel()

    async def _seat(
        self, name: str, line: web.WebSocketResponse, cut: Callable[[], object], size: tuple[int, int]
    ) -> Tab | None:
        """The tab's process: the one that it has, or a new one; None where there are too many."""
        await self._clear()
        tab = self._tabs.get(name)
        if tab is not None and not tab.drives and self._driver is None:
            await self._end(name, tab)  # nobody drives any more: loaded again, it does
            tab = None
        if tab is not None:
            await tab.attach(line, cut)
            return tab
        if self._driver is not None and self._driver.has_left:
            await self._end(
                next(key for key, each in self._tabs.items() if each is self._driver), self._driver
            )
        if len(self._tabs) >= MOST_TABS:
            return None
        drives = self._driver is None
        tab = self._tabs[name] = Tab(self._words_of(drives), drives=drives)
        if drives:
            self._driver, self.has_driven = tab, True
        tab.begin(line, cut)
        await tab.start(*size)
        return tab

    def _leave(self, name: str, line: web.WebSocketResponse) -> None:
        """The line has ended, whether its tab was seated by then or not: the process does unless the tab
        comes back."""
        tab = self._tabs.get(name)
        if tab is None or tab.line not in (line, None):
            return
        if tab.leaving is not None:
            tab.leaving.cancel()
        tab.line = None
        dropped = line.close_code in (None, WSCloseCode.ABNORMAL_CLOSURE)
        tab.has_left = not dropped
        wait_s = BACK_WITHIN_S if dropped else LOADED_WITHIN_S
        tab.leaving = task = asyncio.create_task(self._end_unless_back(name, tab, wait_s))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _end_unless_back(self, name: str, tab: Tab, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await tab.ended.wait()
        async with self._seating:
            if tab.line is None:
                await self._end(name, tab)

    async def _clear(self) -> None:
        """Forget processes that have ended by themselves."""
        for name, tab in [*self._tabs.items()]:
            if tab.ended.is_set():
                await self._end(name, tab)

    async def _end(self, name: str, tab: Tab) -> None:
        """End a process and wait for it: whoever drives next finds the load's lease free."""
        await tab.stop()
        if self._tabs.get(name) is tab:
            del self._tabs[name]
        if self._driver is tab:
            self._driver = None

    async def on_shutdown(self, app: web.Application) -> None:
        """End every process."""
        for task in self._waiting:
            task.cancel()
        lines = [line for tab in self._tabs.values() if (line := tab.line) is not None]
        ends = [self._end(name, tab) for name, tab in [*self._tabs.items()]]
        closes = [line.close(code=WSCloseCode.GOING_AWAY, message=b"The server has ended.") for line in lines]
        await asyncio.gather(*ends, *closes, return_exceptions=True)


def _cut(request: web.Request) -> Callable[[], object]:
    """What ends a request's connection at once, whatever is on its way."""
    transport = request.transport
    return (lambda: None) if transport is None else transport.abort


async def _tell_end(tab: Tab, line: web.WebSocketResponse) -> None:
    """Close the line once the process has ended, with the last line that it said."""
    await tab.ended.wait()
    if tab.line is line:
        reason = tab.said.encode()[:_MOST_REASON_BYTES].decode("utf-8", "ignore").encode()
        await line.close(code=_ENDED, message=reason)

"""Headless Chromium by its DevTools protocol: a page as people see it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

from tests.waiting import patience, until_true

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
READ_SCREEN = """(() => {
  const seen = window.__terminal;
  if (!seen) return "";
  const buffer = seen.buffer.active, rows = [];
  for (let at = 0; at < buffer.length; at++) rows.push(buffer.getLine(at).translateToString(true));
  return rows.join("\\n");
})()"""
"""What the terminal of the page shows, as text."""
CATCH_TERMINAL = """(() => {
  const was = Object.prototype;
  Object.defineProperty(was, "websocket_url", { configurable: true, set(value) {
    Object.defineProperty(this, "websocket_url", { value, writable: true });
    const page = this;
    Object.defineProperty(window, "__terminal", { configurable: true, get: () => page.terminal });
  } });
})()"""
"""The terminal is within the page's own script: it is caught as that is set up."""


NEEDS_CHROMIUM = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")


@dataclass
class Tab:
    """One tab of the browser, by the DevTools protocol."""

    line: ClientWebSocketResponse
    session: str
    context: str = ""
    """What it shares with no other tab: cookies, permissions."""
    _waiting: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    _last: list[int] = field(default_factory=lambda: [1000])

    async def call(self, method: str, **params: Any) -> Any:
        self._last[0] += 1
        number = self._last[0]
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self.line.send_json({**message, "sessionId": self.session} if self.session else message)
        return await asyncio.wait_for(answer, 30 * patience())

    async def evaluate(self, expression: str) -> Any:
        """What an expression of the page's is; of a promise what it becomes. None for undefined."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def screen(self) -> str:
        """The rows of the terminal in the page."""
        return str(await self.evaluate(READ_SCREEN) or "")

    async def until(self, seen: Callable[[str], object], what: str) -> str:
        screen = ""
        for _ in range(round(600 * patience())):
            screen = await self.screen()
            if seen(screen):
                return screen
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what} is not on the page:\n{screen}")

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def picture(self, file: Path, *, whole: bool = False) -> None:
        """What is seen of the page, or all of it."""
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(file.write_bytes, base64.b64decode(answer["data"]))


@dataclass
class Browser:
    """Headless Chromium."""

    root: Tab

    async def open(self, url: str) -> Tab:
        context = (await self.root.call("Target.createBrowserContext"))["browserContextId"]
        made = await self.root.call(
            "Target.createTarget", url="about:blank", browserContextId=context, width=1280, height=800
        )
        joined = await self.root.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        tab = Tab(self.root.line, joined["sessionId"], context, self.root._waiting, self.root._last)
        await tab.call("Page.enable")
        await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH_TERMINAL)
        await tab.call("Page.navigate", url=url)
        return tab

    async def allow_clipboard(self, tab: Tab) -> None:
        """As somebody who answers the browser's question with yes."""
        await self.root.call(
            "Browser.grantPermissions",
            permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
            browserContextId=tab.context,
        )


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = await asyncio.create_subprocess_exec(
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
            f"--user-data-dir={home}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            port = Path(home) / "DevToolsActivePort"
            await asyncio.to_thread(
                until_true,
                lambda: port.exists() and len(port.read_text().split()) == 2,
                "the browser answers",
            )
            number, path = port.read_text().split()
            async with (
                ClientSession() as client,
                client.ws_connect(f"ws://127.0.0.1:{number}{path}", max_msg_size=0) as line,
            ):
                root = Tab(line, "")
                reading = asyncio.create_task(_read(root))
                yield Browser(root)
                reading.cancel()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _read(root: Tab) -> None:
    async for message in root.line:
        said = json.loads(message.data)
        waiting = root._waiting.pop(said.get("id", -1), None)
        if waiting is not None and not waiting.done():
            if "error" in said:
                waiting.set_exception(RuntimeError(said["error"]))
            else:
                waiting.set_result(said["result"])

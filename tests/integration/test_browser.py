"""`serve` as people use it: pages in a browser, with real servers behind them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

from tests.integration.conftest import LiveStack
from tests.integration.shell import hear_signals
from tests.waiting import patience, until_true

pytestmark = pytest.mark.docker

PROGRAM = [sys.executable, "-m", "replexplorer"]
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


@dataclass
class Serving:
    """A server, and where it is."""

    process: subprocess.Popen[str]
    url: str


@contextmanager
def serving(stack: str, *words: str) -> Iterator[Serving]:
    process = subprocess.Popen(
        [*PROGRAM, "--stack", stack, "serve", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_signals,
    )
    assert process.stdout is not None
    try:
        yield Serving(process, process.stdout.readline().strip())
    finally:
        try:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30 * patience())
        finally:
            process.kill()


@dataclass
class Tab:
    """One tab of the browser, by the DevTools protocol."""

    line: ClientWebSocketResponse
    session: str
    _waiting: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    _last: list[int] = field(default_factory=lambda: [1000])

    async def call(self, method: str, **params: Any) -> Any:
        self._last[0] += 1
        number = self._last[0]
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self.line.send_json({**message, "sessionId": self.session} if self.session else message)
        return await asyncio.wait_for(answer, 30 * patience())

    async def screen(self) -> str:
        answer = await self.call("Runtime.evaluate", expression=READ_SCREEN)
        return str(answer["result"].get("value", ""))

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

    async def picture(self, file: Path) -> None:
        answer = await self.call("Page.captureScreenshot", format="png")
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
        tab = Tab(self.root.line, joined["sessionId"], self.root._waiting, self.root._last)
        await tab.call("Page.enable")
        await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await tab.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH_TERMINAL)
        await tab.call("Page.navigate", url=url)
        return tab


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


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")
async def test_in_a_browser_it_draws_keys_arrive_and_a_second_tab_watches(
    live_stack: LiveStack, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("BROWSER_PICTURES", tmp_path))
    with serving(live_stack.stack.name) as served:
        async with browser() as chromium:
            first = await chromium.open(served.url)
            await first.until(lambda screen: "TPS" in screen and " now" in screen, "the first sample")
            second = await chromium.open(served.url)
            await second.until(lambda screen: "view only" in screen and "VIEWER" in screen, "the viewer")
            await first.press("s")
            await first.until(
                lambda screen: "PROTECTED" in screen and "①" in screen, "semi-sync and its mark"
            )
            await second.until(
                lambda screen: "PROTECTED" in screen and "①" in screen, "the mark at the viewer"
            )
            await second.press("s")
            await second.until(lambda screen: "the driver turns the knobs" in screen, "the refusal")
            await first.picture(pictures / "driver.png")
            await second.picture(pictures / "viewer.png")
            assert "PROTECTED" in await first.screen()
            await first.call("Page.reload")
            await first.until(
                lambda screen: "PROTECTED" in screen and "①" in screen, "the same dashboard again"
            )
            await first.press("s")
            await first.until(lambda screen: "②" in screen, "semi-sync off, by the tab that was loaded again")
    assert served.process.returncode == 130

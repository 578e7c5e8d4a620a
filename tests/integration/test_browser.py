"""`serve` as people use it: pages in a browser, with real servers behind them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chromium import NEEDS_CHROMIUM, browser
from tests.integration.conftest import LiveStack
from tests.integration.shell import hear_signals
from tests.waiting import patience

pytestmark = pytest.mark.docker

PROGRAM = [sys.executable, "-m", "replexplorer"]


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


@NEEDS_CHROMIUM
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
            await chromium.allow_clipboard(first)
            await first.press("Y")
            await first.until(lambda screen: "copied" in screen, "the toast")
            assert "-- rtt@db2 = " in await first.evaluate("navigator.clipboard.readText()")
            for key in "/sync_binlog":
                await first.press(key)
            await first.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r")
            await first.until(lambda screen: "▸ sync_binlog" in screen, "the knob that was looked for")
            await second.until(lambda screen: "▸ sync_binlog" in screen, "the driver's knob")
            await second.press("s")
            await second.until(lambda screen: "the driver turns the knobs" in screen, "the refusal")
            await first.picture(pictures / "driver.png")
            await second.picture(pictures / "viewer.png")
            assert "PROTECTED" in await first.screen()
            await first.call("Page.reload")
            await first.until(lambda screen: "PROTECTED" in screen and " now" in screen, "the driver again")
            await first.press("s")
            await first.until(
                lambda screen: "PROTECTED" not in screen and "①" in screen,
                "semi-sync off, by the tab that was loaded again",
            )
    assert served.process.returncode == 130

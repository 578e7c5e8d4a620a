"""`serve` as people use it: pages in a browser, with real servers behind them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chromium import NEEDS_CHROMIUM, browser
from tests.integration.conftest import LiveStack
from tests.integration.shell import hear_signals
from tests.waiting import patience

pytestmark = pytest.mark.docker


@contextmanager
def serving(stack: str) -> Iterator[str]:
    """The address of a server, which ends at Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "replexplorer", "--stack", stack, "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=hear_signals,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(30 * patience()) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@NEEDS_CHROMIUM
async def test_in_a_browser_it_draws_keys_arrive_and_a_second_tab_watches(
    live_stack: LiveStack,
) -> None:
    with serving(live_stack.stack.name) as url:
        async with browser() as chromium:
            first = await chromium.open(url)
            await first.until(lambda screen: "TPS" in screen and " now" in screen, "the first sample")
            second = await chromium.open(url)
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
            assert "PROTECTED" in await first.screen()
            await first.call("Page.reload")
            await first.until(lambda screen: "PROTECTED" in screen and " now" in screen, "the driver again")
            await first.press("s")
            await first.until(
                lambda screen: "PROTECTED" not in screen and "①" in screen,
                "semi-sync off, by the tab that was loaded again",
            )

"""The real dashboard in a real terminal, on real servers, as an operator uses it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.integration.conftest import LiveStack
from tests.waiting import patience, until_true

pytestmark = pytest.mark.docker

LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"
PROGRAM = [sys.executable, "-m", "replexplorer"]


class Dashboard:
    """The program in a terminal of its own, with a screen to read."""

    def __init__(
        self, stack: str, *words: str, environment: Mapping[str, str] = {}, size: tuple[int, int] = (120, 36)
    ) -> None:
        self._ends = [*pty.openpty()]
        self.controller, self.terminal = self._ends
        self.modes = termios.tcgetattr(self.terminal)
        self.written = b""
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        termios.tcsetwinsize(self.terminal, size[::-1])
        own = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*PROGRAM, "--stack", stack, *words],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            start_new_session=True,
            env={**own, **environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )

    def resize(self, columns: int, lines: int) -> None:
        """The window is pulled to another size."""
        self._screen.resize(lines, columns)
        termios.tcsetwinsize(self.terminal, (lines, columns))
        self.process.send_signal(signal.SIGWINCH)

    @property
    def screen(self) -> str:
        """What the operator sees."""
        return "\n".join(self._screen.display)

    def read(self, seconds: float) -> None:
        """Take what the program writes."""
        if not select.select([self.controller], [], [], seconds)[0]:
            return
        with suppress(OSError):
            data = os.read(self.controller, 65536)
            self.written += data
            self._stream.feed(data)

    def until(self, seen: Callable[[str], bool], what: str, within_s: float = 30.0) -> None:
        """Wait until the screen shows something."""
        began_s = time.monotonic()
        while not seen(self.screen):
            assert time.monotonic() < began_s + within_s * patience(), (
                f"{what} is not on the screen:\n{self.screen}"
            )
            assert self.process.poll() is None, f"the program ended:\n{self.screen}"
            self.read(0.1)

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.controller, keys.encode())

    def end(self, within_s: float) -> int:
        """Wait for the program's end, reading what it says."""
        began_s = time.monotonic()
        while self.process.poll() is None:
            assert time.monotonic() < began_s + within_s * patience(), f"the program goes on:\n{self.screen}"
            self.read(0.05)
        self.read(0.05)
        return self.process.returncode

    def loads(self) -> list[int]:
        """The process ids of its load."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"load_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def hang_up(self) -> None:
        """Take the terminal away."""
        while self._ends:
            os.close(self._ends.pop())

    def close(self) -> None:
        """End what has not ended by itself, and hang up."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.hang_up()


@contextmanager
def dashboard(live: LiveStack, **options: Any) -> Iterator[Dashboard]:
    """A dashboard that is gone afterwards, and the knobs as they were."""
    shown = Dashboard(live.stack.name, **options)
    try:
        shown.until(lambda screen: " now" in screen, "the first sample")
        yield shown
    finally:
        shown.close()
        run(live, "reset")


def run(live: LiveStack, *words: str) -> str:
    """A verb beside the dashboard."""
    return subprocess.run(
        [*PROGRAM, "--stack", live.stack.name, *words], check=True, capture_output=True, text=True
    ).stdout


def until_gone(pids: list[int], within_s: float) -> None:
    """Wait for the end of processes; one that waits to be reaped is gone."""

    def is_there(pid: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    until_true(lambda: not any(map(is_there, pids)), "the processes are gone", within_s=within_s)


def test_three_knobs_by_keys_then_quit(live_stack: LiveStack) -> None:
    with dashboard(live_stack) as shown:
        shown.until(lambda screen: "ASYNC" in screen, "the state word")
        shown.press("s")
        shown.until(lambda screen: "PROTECTED" in screen and "①" in screen, "semi-sync and its mark")
        shown.press("w")
        shown.until(lambda screen: "②" in screen and "AFTER_COMMIT" in screen, "the wait point and its mark")
        shown.press("/rtt")
        shown.until(lambda screen: "doublewrite" not in screen, "only what the filter finds")
        shown.press("\r25\r")
        shown.until(lambda screen: "③" in screen and "RTT 25" in screen, "the round trip and its mark")
        knobs = json.loads(run(live_stack, "get", "--json"))
        effective = [knobs[name]["effective"] for name in ("semi_sync", "wait_point", "rtt@db2")]
        assert effective == ["on", "after_commit", 25.0]
        loads = shown.loads()
        assert len(loads) == 1
        shown.press("q")
        shown.until(lambda screen: "Quit?" in screen, "the question")
        shown.press("q")
        assert shown.end(within_s=5) == 0
        assert LEAVE_ALTERNATE_SCREEN in shown.written
        assert shown.written.rindex(SHOW_CURSOR) > 0
        assert b"keeps running" in shown.written[shown.written.rindex(LEAVE_ALTERNATE_SCREEN) :]
        assert termios.tcgetattr(shown.terminal) == shown.modes
        until_gone(loads, within_s=1)


def test_the_least_terminal_has_no_color_and_no_glyph_and_grows(live_stack: LiveStack) -> None:
    plain = {"NO_COLOR": "1", "REPLEXPLORER_GLYPHS": "ascii"}
    with dashboard(live_stack, size=(80, 24), environment=plain) as shown:
        shown.until(lambda screen: "ASYNC" in screen and "TPS" in screen, "state and rate")
        shown.press("s")
        shown.until(lambda screen: "PROTECTED" in screen, "semi-sync")
        assert "DURABILITY" not in shown.screen, "80 columns have room for one knob"
        shown.resize(120, 36)
        shown.until(lambda screen: "DURABILITY" in screen and "Events" in screen, "the panel and the events")
        shown.resize(80, 24)
        shown.until(lambda screen: "DURABILITY" not in screen and "TPS" in screen, "one knob again")
        shown.press("qq")
        assert shown.end(within_s=5) == 0
        drawn = shown.written[: shown.written.rindex(LEAVE_ALTERNATE_SCREEN)]
        assert {sign for sign in drawn.decode() if not sign.isascii()} == set()
        assert not re.search(rb"\x1b\[[0-9;]*(3[0-7]|4[0-7]|[34]8;)[0-9;]*m", drawn), "no color is asked for"


def test_a_killed_app_loses_nothing_and_the_next_one_attaches(live_stack: LiveStack) -> None:
    with dashboard(live_stack) as first:
        first.press("s")
        first.until(lambda screen: "PROTECTED" in screen, "semi-sync")
        loads = first.loads()
        first.process.kill()
        first.process.wait()
        until_gone(loads, within_s=2)
        with dashboard(live_stack) as second:
            second.until(lambda screen: "PROTECTED" in screen, "the state as it was left")
            assert "drives the load" not in second.screen
            assert len(second.loads()) == 1
            second.press("qq")
            assert second.end(within_s=5) == 0


@pytest.mark.parametrize("how", ["hangup", "closed"])
def test_a_lost_terminal_ends_app_and_load_within_two_seconds(live_stack: LiveStack, how: str) -> None:
    with dashboard(live_stack) as shown:
        pids = [shown.process.pid, *shown.loads()]
        assert len(pids) == 2
        if how == "hangup":
            shown.process.send_signal(signal.SIGHUP)
        else:
            shown.hang_up()
        until_gone(pids, within_s=2)
        shown.process.wait(30)


def test_a_second_dashboard_is_a_viewer_whose_knobs_work(live_stack: LiveStack) -> None:
    with dashboard(live_stack) as first, dashboard(live_stack) as second:
        second.until(lambda screen: "drives the load" in screen or "viewer" in screen, "who drives")
        assert second.loads() == []
        second.press("w")
        second.until(lambda screen: "AFTER_COMMIT" in screen, "its own knob")
        first.until(lambda screen: "AFTER_COMMIT" in screen and "①" in screen, "the other's mark")

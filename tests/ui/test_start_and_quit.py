"""From the first step to the last line, and a terminal that goes away."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.core.errors import MissingPiece
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.tick import Tick
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.startup import StartupScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.terminal.crash import EXIT_CODE, TERMINATED
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import FakeFacade, altered, make_tick
from tests.ui.driving import TWO_SIZES, Bench, ManualClock, Size, bench
from tests.ui.test_spectator import Watched
from tests.waiting import patience


async def test_a_start_shows_its_steps_tells_the_remedy_where_it_fails_and_can_be_tried_again() -> None:
    facade = FakeFacade(make_tick(1.0))
    facade.steps = (("building the MySQL image", 0.5), ("waiting for the replica", None))
    facade.failures["start"] = MissingPiece("Docker does not answer", "start the Docker service")
    gate = facade.hold["start"] = asyncio.Event()
    app = ExplorerApp(facade, Settings(stack="demo"))
    async with app.run_test(size=(80, 24)) as pilot:
        running = Bench(app, pilot, facade, ManualClock())
        await running.until(lambda: isinstance(app.screen, StartupScreen))
        await running.until(lambda: "▸ waiting for the replica" in running.screen_text)
        assert "✓ building the MySQL image" in running.screen_text
        assert "stack demo" in running.screen_text
        gate.set()
        await running.until(lambda: "✖" in running.screen_text)
        assert "Docker does not answer" in running.screen_text
        assert "start the Docker service" in running.screen_text
        await pilot.press("r")
        await running.until(lambda: isinstance(app.screen, DashboardScreen))
        assert len(facade.called("start")) == 2


async def test_a_remedy_on_the_screen_names_the_stack_that_it_is_about() -> None:
    async with bench(stack="demo") as app:
        app.facade.failures["undo"] = MissingPiece(
            "replica is down", "run `replexplorer up` to bring it back"
        )
        await app.press("u")
        told = "replica is down: run `replexplorer up --stack demo` to bring it back"
        await app.told(told)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 36), (160, 45)])
async def test_q_asks_once_while_a_load_runs_and_any_other_key_goes_on(size: Size) -> None:
    async with bench(size=size) as app:
        hints = app.text("#footer")
        await app.press("q")
        footer = app.dashboard.query_one("#footer", Lines)
        await app.until(lambda: bool(footer.rows) and "Quit?" in footer.rows[-1])
        assert footer.display
        assert len(footer.rows[-1]) <= size[0]
        assert "q quits" in footer.rows[-1]
        await app.play(make_tick(9.0, tps=1234.0))
        assert "00:00:08" in app.text("#header") or size == (40, 10)  # it draws on
        assert "Quit?" in footer.rows[-1]
        await app.press("s")  # `s` would turn semi-sync
        assert [name for name, _ in app.facade.calls] == ["start"]
        assert app.text("#footer") == hints or size == (40, 10)
        assert app.app.is_running
        await app.press("q", "q")
        await app.until(lambda: app.app.return_value == app.facade.closing_line)
        assert app.facade.called("close") == [False]


async def test_the_question_says_what_stops_and_what_stays_cut() -> None:
    cut = make_tick(2.0, values={KnobName("partition", "db2"): "both", KnobName("clients", "load"): 32})
    async with bench(cut) as app:
        await app.press("q")
        assert app.text("#footer").strip() == (
            "Quit? The load (32 clients) stops, partition both stays.  q quits, any other key cancels"
        )
        app.facade.by_turns = True
        await app.press("escape")
        await app.opened("o")
        await app.press("enter")
        await app.until(lambda: "Run tour" in app.screen_text)
        await app.press("y")
        await app.until(lambda: app.app.screen is app.dashboard)
        await app.press("q")
        assert "The lab tour stops, its knobs are restored" in app.text("#footer")
        await app.press("escape")
        assert "Quit?" not in app.text("#footer")


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False)])
@TWO_SIZES
async def test_what_a_restart_took_is_asked_for_and_answered_once(size: Size, key: str, answer: bool) -> None:
    lost = replace(make_tick(9.0), lost=("semi_sync on", "sync_binlog 0", "innodb_flush_log_at_trx_commit 2"))
    async with bench(size=size) as app:
        hints = app.text("#footer")
        await app.play(lost)
        asked = app.text("#footer")
        assert asked.strip().startswith("Lost by a restart: semi_sync on")
        assert asked.strip().endswith("y re-applies, n leaves it")
        await app.press("s")  # all other keys are as ever
        await app.until(lambda: bool(app.facade.called("set")))
        await app.press("q", "g")
        assert "Lost by a restart" in app.text("#footer")
        await app.press(key)
        await app.until(lambda: app.facade.called("give_back") == [answer])
        await app.play(replace(lost, at_s=9.5))
        assert app.text("#footer") == hints
        await app.play(make_tick(10.0))
        await app.play(replace(lost, at_s=11.0))
        assert "Lost by a restart" in app.text("#footer")


@pytest.mark.parametrize(
    ("tick", "facade"),
    [
        (replace(make_tick(1.0), viewer=True), FakeFacade),
        (make_tick(1.0, values={KnobName("clients", "load"): 0}), FakeFacade),
        (altered(make_tick(1.0), load={"connected": 0, "tps": None, "state": "stopped"}), FakeFacade),
        (replace(make_tick(1.0), load=None), FakeFacade),
        (make_tick(1.0), Watched),
    ],
    ids=["viewer", "no clients", "stopped", "none", "spectator"],
)
async def test_where_no_load_of_ours_runs_nothing_is_asked(tick: Tick, facade: type[FakeFacade]) -> None:
    async with bench(tick, facade=facade()) as app:
        await app.press("q")
        await app.until(lambda: app.app.return_value == app.facade.closing_line)


async def test_the_question_follows_the_keymap() -> None:
    async with bench(keymap={"app.quit": "ctrl+x"}) as app:
        await app.opened("o")
        await app.press("q")
        assert app.app.screen is not app.dashboard, "nor does `q` close a list"
        await app.press("ctrl+x")
        await app.until(lambda: app.app.screen is app.dashboard)
        await app.press("ctrl+x")
        assert "^x quits" in app.text("#footer")
        await app.press("q")
        assert "Quit?" not in app.text("#footer")
        await app.press("ctrl+x", "ctrl+x")
        await app.until(lambda: app.app.return_value == app.facade.closing_line)


async def test_quitting_gives_up_a_start_under_way() -> None:
    facade = FakeFacade()
    gate = facade.hold["start"] = asyncio.Event()
    app = ExplorerApp(facade, Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        running = Bench(app, pilot, facade, ManualClock())
        await running.until(lambda: facade.called("start") == [None])
        await pilot.press("q")
        await running.until(lambda: app.return_value is not None)
        assert not gate.is_set()
        assert app.return_value == facade.closing_line


async def test_quitting_a_second_time_does_not_wait() -> None:
    facade = FakeFacade()
    facade.hold["close"] = asyncio.Event()
    async with bench(facade=facade) as app:
        await app.press("q", "q", "ctrl+c")
        await app.until(lambda: app.app.return_value is not None)


PROGRAM = """
import asyncio, sys
from tests.fakes.facade import FakeFacade, make_tick
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lines import Lines

class Endless(FakeFacade):
    async def ticks(self):
        at_s = 0.0
        while True:
            at_s += 0.1
            yield make_tick(at_s, tps=500 + at_s)
            await asyncio.sleep(0.05)
    async def close(self, *, keep=False):
        if "stuck" in sys.argv:
            await asyncio.sleep(60)
        open(sys.argv[1], "w").write("kept" if keep else "closed")
        return "left"

app = ExplorerApp(Endless(), Settings())
app.run()
sys.exit(app.return_code)
"""


def _start(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """The app in a terminal of its own, drawn at least once."""
    controller, terminal = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "36"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "closed"), *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env=environ,
        cwd=Path(__file__).parents[2],
    )
    os.close(terminal)
    seen = b""
    end_s = time.monotonic() + 20 * patience()
    while b"PROTECTED" not in seen:
        assert time.monotonic() < end_s, seen[-500:]
        seen += os.read(controller, 65536)
    return process, controller


@pytest.mark.costly("it starts the dashboard in a process of its own")
@pytest.mark.parametrize("words", [(), ("stuck",)])
def test_a_closed_terminal_ends_the_app_within_two_seconds(tmp_path: Path, words: tuple[str, ...]) -> None:
    process, controller = _start(tmp_path, *words)
    os.close(controller)
    assert process.wait(2.0) == EXIT_CODE
    assert (tmp_path / "closed").exists() is not bool(words)
    if not words:
        assert (tmp_path / "closed").read_text() == "kept"


@pytest.mark.costly("it starts the dashboard in a process of its own")
def test_sigterm_ends_in_order_without_a_question_and_says_so_in_its_exit_code(tmp_path: Path) -> None:
    """The load is ended, the terminal given back, and no stack removed: that is for `q` alone."""
    process, controller = _start(tmp_path)
    process.send_signal(signal.SIGTERM)
    written = b""
    end_s = time.monotonic() + 10 * patience()
    while process.poll() is None:
        assert time.monotonic() < end_s
        written += read_what_is_there(controller)
    written += read_what_is_there(controller)
    os.close(controller)
    assert process.returncode == TERMINATED == 143
    assert (tmp_path / "closed").read_text() == "kept"
    assert b"\x1b[?1049l" in written  # the alternate screen is left
    assert written.rindex(b"\x1b[?25h") > 0  # the cursor is shown


def read_what_is_there(controller: int) -> bytes:
    if not select.select([controller], [], [], 0.05)[0]:
        return b""
    try:
        return os.read(controller, 65536)
    except OSError:  # the other side is closed
        return b""


FULL_BYTES = 4095
"""What a terminal of Linux keeps at least before its writer has to wait."""


def unread_bytes(controller: int) -> int:
    answer = fcntl.ioctl(controller, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


@pytest.mark.costly("it starts the dashboard in a process of its own")
def test_a_hangup_ends_the_app_even_when_nobody_reads_the_terminal(tmp_path: Path) -> None:
    process, controller = _start(tmp_path)
    end_s = time.monotonic() + 20 * patience()
    while unread_bytes(controller) < FULL_BYTES:  # nobody reads: the terminal's buffer fills
        assert time.monotonic() < end_s, unread_bytes(controller)
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    assert process.wait(2.0) == EXIT_CODE
    os.close(controller)

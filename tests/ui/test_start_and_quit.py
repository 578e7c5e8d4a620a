"""From the first step to the last line, and a terminal that goes away."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.core.errors import MissingPiece
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.terminal.crash import EXIT_CODE
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import FakeFacade
from tests.ticks import tick_of
from tests.ui.driving import TWO_SIZES, Size, bench, running
from tests.ui.terminal import in_terminal, read_until
from tests.ui.test_spectator import Watched
from tests.waiting import until_true


async def test_a_start_shows_its_steps_tells_the_remedy_where_it_fails_and_can_be_tried_again() -> None:
    facade = FakeFacade(tick_of("1"))
    facade.steps = (("building the MySQL image", 0.5), ("waiting for the replica", None))
    facade.failures["start"] = MissingPiece("Docker does not answer", "start the Docker service")
    gate = facade.hold["start"] = asyncio.Event()
    async with running(facade, facade, (80, 24), stack="demo") as app:
        await app.shows("▸ waiting for the replica", "✓ building the MySQL image", "stack demo")
        gate.set()
        await app.shows("✖", "Docker does not answer", "start the Docker service")
        await app.press("r")
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
        await app.asked("start", None, None)


async def test_quitting_gives_up_a_start_under_way() -> None:
    facade = FakeFacade()
    gate = facade.hold["start"] = asyncio.Event()
    async with running(facade, facade) as app:
        await app.asked("start", None)
        await app.quits("q")
        assert not gate.is_set()


async def test_a_remedy_on_the_screen_names_the_stack_that_it_is_about() -> None:
    async with bench(stack="demo") as app:
        app.facade.failures["undo"] = MissingPiece(
            "replica is down", "run `replexplorer up` to bring it back"
        )
        await app.press("u")
        await app.told("replica is down: run `replexplorer up --stack demo` to bring it back")


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
        await app.play("9 tps=1234.0")
        assert "00:00:08" in app.text("#header") or size == (40, 10)  # it draws on
        assert "Quit?" in footer.rows[-1]
        await app.press("s")  # `s` would turn semi-sync
        assert [name for name, _ in app.facade.calls] == ["start"]
        assert app.text("#footer") == hints or size == (40, 10)
        assert app.app.is_running
        await app.quits("q q")
        await app.asked("close", False)


async def test_the_question_says_what_stops_and_what_stays_cut() -> None:
    async with bench("partition@db2=both clients=32") as app:
        await app.press("q")
        assert app.text("#footer").strip() == (
            "Quit? The load (32 clients) stops, partition both stays.  q quits, any other key cancels"
        )
        app.facade.by_turns = True
        await app.press("escape")
        await app.opened("o")
        await app.press("enter")
        await app.shows("Run tour")
        await app.closed("y")
        await app.press("q")
        assert "The lab tour stops, its knobs are restored" in app.text("#footer")
        await app.press("escape")
        assert "Quit?" not in app.text("#footer")


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False)])
@TWO_SIZES
async def test_what_a_restart_took_is_asked_for_and_answered_once(size: Size, key: str, answer: bool) -> None:
    lost = replace(tick_of("9"), lost=("semi_sync on", "sync_binlog 0", "innodb_flush_log_at_trx_commit 2"))
    async with bench(size=size) as app:
        hints = app.text("#footer")
        await app.play(lost)
        asked = app.text("#footer").strip()
        assert asked.startswith("Lost by a restart: semi_sync on")
        assert asked.endswith("y re-applies, n leaves it")
        await app.press("s")  # all other keys are as ever
        await app.until(lambda: bool(app.facade.called("set")))
        await app.press("q g")
        assert "Lost by a restart" in app.text("#footer")
        await app.press(key)
        await app.asked("give_back", answer)
        await app.play(replace(lost, at_s=9.5))
        assert app.text("#footer") == hints
        await app.play("10")
        await app.play(replace(lost, at_s=11.0))
        assert "Lost by a restart" in app.text("#footer")


@pytest.mark.parametrize(
    ("tick", "facade"),
    [
        ("viewer", FakeFacade),
        ("clients=0", FakeFacade),
        ("load.connected=0 load.tps=None load.state=stopped", FakeFacade),
        ("load=None", FakeFacade),
        ("1", Watched),
    ],
)
async def test_where_no_load_of_ours_runs_nothing_is_asked(tick: str, facade: type[FakeFacade]) -> None:
    async with bench(tick, facade=facade()) as app:
        await app.quits("q")


async def test_the_question_follows_the_keymap() -> None:
    async with bench(keymap={"app.quit": "ctrl+x"}) as app:
        await app.opened("o")
        await app.press("q")
        assert app.app.screen is not app.dashboard, "nor does `q` close a list"
        await app.closed("ctrl+x")
        await app.press("ctrl+x")
        assert "^x quits" in app.text("#footer")
        await app.press("q")
        assert "Quit?" not in app.text("#footer")
        await app.quits("ctrl+x ctrl+x")


async def test_quitting_a_second_time_does_not_wait() -> None:
    async with bench() as app:
        app.facade.hold["close"] = asyncio.Event()
        await app.press("q q ctrl+c")
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


FULL_BYTES = 4095
"""What a terminal of Linux keeps at least before its writer has to wait."""


@pytest.mark.costly("it starts the dashboard in a process of its own")
@pytest.mark.parametrize(
    ("how", "code", "left"),
    [
        ("closed", EXIT_CODE, "kept"),
        ("closed, stuck", EXIT_CODE, ""),
        ("hangup", EXIT_CODE, "kept"),
        ("sigterm", 143, "kept"),
    ],
)
def test_a_lost_terminal_and_a_signal_end_the_app_within_two_seconds(
    tmp_path: Path, how: str, code: int, left: str
) -> None:
    """In order and without a question: the load is ended, and no stack removed, for that is for `q` alone. It
    ends also when it does not get rid of what it draws, or cannot close; a terminal that is there is
    restored."""
    closed = tmp_path / "closed"
    with in_terminal(PROGRAM, str(closed), *how.split()[1:]) as (process, controller):
        read_until(controller, b"PROTECTED")
        match how:
            case "sigterm":
                process.send_signal(signal.SIGTERM)
                written = read_until(controller)
                assert b"\x1b[?1049l" in written  # the alternate screen is left
                assert b"\x1b[?25h" in written  # the cursor is shown
            case "hangup":
                until_true(lambda: unread_bytes(controller) >= FULL_BYTES, "a full buffer")
                process.send_signal(signal.SIGHUP)
            case _:
                os.close(controller)
        assert process.wait(2.0) == code
    assert (closed.read_text() if closed.exists() else "") == left


def unread_bytes(controller: int) -> int:
    answer = fcntl.ioctl(controller, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)

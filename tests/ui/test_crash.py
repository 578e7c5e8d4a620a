"""A defect in a handler: one line, a traceback in the log, a terminal as it was, no values shown."""

from __future__ import annotations

import subprocess
import sys
import termios
from pathlib import Path

import pytest

from replexplorer.ui.terminal.crash import log_crash
from tests.ui.terminal import in_terminal, read_until

LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"
SECRET = "hush-4711"
PROGRAM = f"""
import sys
from unittest import mock
from replexplorer.cli import dashboard, main
from replexplorer.ports import UpOptions
from replexplorer.ui.app import ExplorerApp
from tests.fakes.facade import FakeFacade
from tests.ticks import make_tick

mount = ExplorerApp.on_mount

def on_mount(app):
    password = "{SECRET}"
    mount(app)
    app.set_timer(0.3, lambda: fail(password))

def fail(password):
    raise ValueError("it broke\\nhere")

async def nothing(*_): return UpOptions()

with (
    mock.patch.object(ExplorerApp, "on_mount", on_mount),
    mock.patch.object(dashboard, "runs", nothing),
    mock.patch.object(dashboard, "to_make", nothing),
    mock.patch.object(dashboard, "session_on", lambda *_, **__: FakeFacade(make_tick(1.0))),
):
    sys.exit(main([]))
"""


@pytest.mark.costly("it starts the dashboard in a process of its own")
def test_a_defect_is_one_line_and_the_terminal_is_restored(tmp_path: Path) -> None:
    home = str(tmp_path)
    with in_terminal(PROGRAM, XDG_STATE_HOME=home, XDG_CONFIG_HOME=home) as (process, controller):
        before = termios.tcgetattr(controller)
        written = read_until(controller)
        assert process.wait(2.0) == 1
        assert termios.tcgetattr(controller) == before
    screen, _, after = written.partition(LEAVE_ALTERNATE_SCREEN)
    assert screen
    assert SHOW_CURSOR in after, written[-1500:]
    err = after.decode().rpartition("\x1b[?")[2].partition("replexplorer: ")[2]
    log = tmp_path / "replexplorer" / "log"
    assert err.startswith("the dashboard crashed because of a bug (ValueError: it broke here)")
    assert err.count("\n") == 1
    assert str(log) in err
    assert log.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in log.read_text()
    assert SECRET not in log.read_text()
    assert SECRET.encode() not in written
    assert b"Traceback" not in written


def test_a_log_that_cannot_be_written_is_said_so_and_a_long_one_begins_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not log_crash(ValueError("x"), tmp_path / "file" / "log")
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_000_001)
    assert log_crash(ValueError("x"), log)
    assert log_crash(ValueError("y"), log)
    assert log.read_text().count("crashed (internal error)") == 2


def test_the_log_shows_what_a_terminal_obeys_and_follows_no_link(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert log_crash(ValueError("a\x1b[31mb"), log)
    assert r"ValueError: a\x1b[31mb" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    assert not log_crash(ValueError("x"), tmp_path / "link")
    assert not (tmp_path / "victim").exists()


# What a dashboard that stands for hours gives back

HEAP = """
import ctypes
from replexplorer.ui.terminal.crash import return_large_buffers

libc = ctypes.CDLL(None)
for size, kind in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_int)):
    if hasattr(libc, size):
        break
else:
    raise SystemExit("no glibc")

class Figures(ctypes.Structure):
    _fields_ = [(name, kind) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks".split()]
    _fields_ += [("fordblks", kind), ("keepcost", kind)]

told = getattr(libc, size)
told.restype = Figures

def lengthens_the_heap():
    before = told().arena
    buffers = [bytearray(200_000) for _ in range(100)]
    return told().arena - before > 10_000_000

bytearray(1_000_000)  # freed: from here on glibc by itself takes what is smaller from the heap
by_itself = lengthens_the_heap()
return_large_buffers()
libc.malloc_trim(0)
print(by_itself, lengthens_the_heap())
"""


def test_large_buffers_do_not_lengthen_the_heap() -> None:
    run = subprocess.run([sys.executable, "-c", HEAP], capture_output=True, text=True, timeout=60)
    if run.stderr.strip() == "no glibc":
        pytest.skip("another allocator")
    assert run.stdout.split() == ["True", "False"], run.stderr

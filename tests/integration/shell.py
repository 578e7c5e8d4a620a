"""The program as a user's shell runs it: to its end, or beside the test."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from replexplorer.cli import main
from tests.documents import document
from tests.waiting import until_true

_LAST_WORDS = 3000
"""Characters of a program's narration that a failure shows."""


def hear_signals() -> None:
    """Who runs the tests behind others, or under nohup, ignores these, and what it starts would too."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Started:
    """A program that runs beside a test, as a context: it is gone behind it, and a failure within says what
    the program said and whether it had ended by itself."""

    def __init__(self, words: tuple[str, ...], environment: dict[str, str]) -> None:
        self._words = words
        # Files, not pipes: a pipe that nobody reads stops its writer, and one that is read here may block.
        with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
            self._out, self._err = os.dup(out.fileno()), os.dup(err.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "replexplorer", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=hear_signals,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        """It runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, and tell a failure what became of it."""
        ended = self._process.poll()
        self._process.kill()
        self._process.wait()
        if error is not None:
            fate = "it ran until the test ended" if ended is None else f"it had ended with {ended}"
            error.add_note(f"{self}: {fate}; stdout:\n{self.printed()}\nstderr:\n{self.said()}")
        os.close(self._out)
        os.close(self._err)

    def __str__(self) -> str:
        return f"replexplorer {' '.join(self._words)} (pid {self.pid})"

    def printed(self) -> str:
        """What stands on its stdout by now."""
        return _content(self._out)

    def said(self) -> str:
        """The end of what stands on its stderr by now."""
        return _content(self._err)[-_LAST_WORDS:]

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it."""
        self._process.send_signal(number)

    def until(self, holds: Callable[[], object], what: str, *, within_s: float = 20.0) -> None:
        """Wait for a condition that comes only while the program runs: its end fails the test at once."""

        def holds_or_cannot() -> object:
            over = self._process.poll() is not None  # before the look: it may end just after it
            reached = holds()
            assert reached or not over, f"{self} ended before {what}"
            return reached

        until_true(holds_or_cannot, what, within_s=within_s)

    def until_said(self, words: str, *, within_s: float = 20.0) -> None:
        """Wait until it has narrated this."""
        self.until(lambda: words in _content(self._err), f"it says {words!r}", within_s=within_s)

    def until_first_interval(self) -> None:
        """Wait until a load has committed, and for as long as a line of its narration takes: one whose source
        goes away before that has not begun, and ends."""
        self.until_said("[ 1s ]", within_s=60)

    def ends(self, *, within_s: float = 60.0) -> int:
        """Its exit code, once it has ended by itself."""
        until_true(lambda: self._process.poll() is not None, f"{self} ends", within_s=within_s)
        return self._process.returncode


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")


class Shell:
    """Runs the program with directories of its own."""

    def __init__(self, home: Path, stack: str, state: Path | None = None) -> None:
        """`state` is where the stack that it works on was made from; None: it makes its own."""
        directories = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "CACHE")}
        directories |= {} if state is None else {"XDG_STATE_HOME": str(state)}
        own = {name: value for name, value in os.environ.items() if not name.startswith("REPLEXPLORER_")}
        self.environment = own | directories | {"REPLEXPLORER_STACK": stack}

    def started(self, *words: str) -> Started:
        """Start it and go on; a context that ends it."""
        return Started(words, self.environment)

    def run(self, *words: str, code: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to the end, for which the test's own time is the limit, and expect this exit code; any for
        None."""
        began_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "replexplorer", *words],
            env=self.environment | environment,
            capture_output=True,
            text=True,
        )
        took_s = time.monotonic() - began_s
        assert code in (None, done.returncode), (
            f"{words}: {done.returncode}, not {code}, after {took_s:.1f} s\n{done.stdout}\n{done.stderr}"
        )
        assert "Traceback" not in done.stderr
        return done

    def run_here(self, *words: str, code: int, **environment: str) -> tuple[str, str]:
        """The same in this process, without an interpreter of its own: stdout and stderr. For the many ways
        to be refused, which differ in nothing else."""
        done, out, err = self.answer(*words, **environment)
        assert done == code, f"{words}: {done}, not {code}\n{out}\n{err}"
        return out, err

    def answer(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a run in this process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environment | environment),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            done = main(words)
        return done, out.getvalue(), err.getvalue()

    def json(self, *words: str, code: int = 0, apart: bool = False) -> Any:
        """The one document that it prints; `apart` in a process of its own, where an event loop runs here or
        the verb starts processes."""
        words = (*words, "--json")
        return document(self.run(*words, code=code).stdout if apart else self.run_here(*words, code=code)[0])

    def status(self, code: int = 0) -> Any:
        """`status --json`."""
        return self.json("status", code=code)

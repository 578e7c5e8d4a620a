"""Every failure of a verb is one line and an exit code; stdout keeps its promise."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from unittest.mock import Mock

import pytest

from replexplorer.cli import entry, machine
from replexplorer.cli.experiment import DRILLS, LABS
from replexplorer.cli.output import Output
from replexplorer.core.errors import (
    MissingPiece,
    ServerRefused,
    ServerUnreachable,
    StackUnavailable,
    UsageError,
)
from replexplorer.core.text import with_stack
from tests.unit.conftest import Run
from tests.unit.test_question import Screen


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPLEXPLORER_DEBUG", raising=False)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def verb(call: entry.Call) -> int:
        assert call.values.stack
        raise error

    monkeypatch.setattr(machine, "config", verb)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("no", "do this"),
        MissingPiece("no Docker", "start it"),
        StackUnavailable("no stack", "run `replexplorer up`"),
        ServerUnreachable("gone"),
        ServerRefused(1290, "read only", "look"),
        RuntimeError("a\nb"),
        PermissionError(13, "Permission denied", "/etc/x"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_one_line_and_one_document(
    monkeypatch: pytest.MonkeyPatch, run: Run, error: BaseException, snapshot: object
) -> None:
    """Commands in its remedy name its stack."""
    failing(monkeypatch, error)
    assert (run("config --stack demo"), run("config --stack demo --json")) == snapshot


def test_a_traceback_is_only_for_those_who_ask(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    failing(monkeypatch, RuntimeError("inside"))
    asked = run("config -v")
    monkeypatch.setenv("REPLEXPLORER_DEBUG", "1")
    for code, _, err in (asked, run("config")):
        assert code == 1
        assert "Traceback" in err


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [sys.executable, "-m", "replexplorer", "themes"], stdout=writing, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writing)
    assert run.stderr == b""
    assert run.returncode == 141


@pytest.mark.parametrize(("words", "code"), [("config", 4), ("config --json", 4), ("frob --json", 2)])
def test_a_stdout_that_takes_nothing_is_one_line(
    words: str, code: int, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    with suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        ended, _, err = run(words)
        assert ended == code
        assert err.startswith("replexplorer: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_error(closed: str, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(sys, closed, None)  # as the interpreter has it then
    code, out, err = run("config")
    if (nowhere := getattr(sys, closed)) is not None:
        nowhere.close()
    assert code == 0
    assert err == ""
    assert ("theme" in out) is (closed != "stdout")


def test_nor_are_all_of_them() -> None:
    command = f'exec "{sys.executable}" -m replexplorer config <&- >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", command], timeout=60).returncode == 0


def test_streams_without_our_letters_get_question_marks(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    written = io.BytesIO()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert [run(words).code for words in ("keys", "…")] == [0, 2]
    sys.stdout.flush()
    assert b"? k" in written.getvalue()
    assert b"replexplorer: unknown verb '?'" in written.getvalue()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_verb_after_it_has_cleaned_up(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """With one document where JSON was promised."""
    cleaned = []
    before = signal.signal(number, signal.SIG_DFL)  # who runs the tests may ignore it, as nohup does

    async def verb(call: entry.Call) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    monkeypatch.setattr(machine, "config", verb)
    try:
        code, out, _ = run("config --json")
    finally:
        signal.signal(number, before)
    assert (code, cleaned) == (128 + number, [True])
    assert json.loads(out)["error"]["message"] == f"ended by {number.name}"


def test_progress_is_one_line_on_a_terminal_and_gone_before_anything_else() -> None:
    err, out = Screen(), io.StringIO()
    console = Output(out=out, err=err)
    console.progress("building", 0.5)
    console.progress("x" * 500)
    console.print("done")
    assert out.getvalue() == "done\n"
    _, building, long, nothing = err.getvalue().split("\r\x1b[K")
    assert "building  50%" in building
    assert len(long) < 500
    assert nothing == ""


def test_narration_survives_a_closed_stderr() -> None:
    out = io.StringIO()
    console = Output(out=out, err=Mock(**{"write.side_effect": BrokenPipeError}))
    console.narrate("lost")
    console.print("kept")
    assert out.getvalue() == "kept\n"


def test_a_document_is_all_that_stdout_gets(run: Run) -> None:
    for words in ("schema", "themes --json", "keys --json", "config --json", "scene list --json"):
        code, out, _ = run(words)
        assert code == 0, words
        assert json.loads(out), words


def test_a_list_that_is_piped_fits_80_columns_and_loses_no_word(run: Run) -> None:
    for verb, shipped in (("lab", LABS.shipped()), ("drill", DRILLS.shipped())):
        lines = run(f"{verb} list").out.splitlines()
        assert max(map(len, lines)) <= 80, verb
        titles = " ".join(each.title for each in shipped.values())
        assert Counter(titles.split()) <= Counter(" ".join(lines).split())


# -- commands to type in a remedy address the stack that it is about


HINTS = """\
`replexplorer up` brings it back
replexplorer down, then up
`replexplorer down --stack demo` first
`replexplorer down --all`
run `replexplorer doctor` for details
`replexplorer preset list` shows them"""


def test_a_remedy_names_the_stack_where_it_is_not_the_default(snapshot: object) -> None:
    assert with_stack(HINTS, "default") == HINTS
    assert [with_stack(text, "demo") for text in HINTS.splitlines()] == snapshot

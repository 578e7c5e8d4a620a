"""The verbs session list and session remove, and which client sql opens."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from replexplorer.cli import stack
from replexplorer.core.text import utc
from tests.ticks import make_tick
from tests.unit.conftest import Run
from tests.unit.test_session_file import write


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recordings of the default stack, one of another, and a file that is none."""
    monkeypatch.setattr("replexplorer.formats.paths.sessions_directory", lambda: tmp_path)
    for name, of in (("1-tui-9", "default"), ("2-load-9", "default"), ("3-tui-9", "mine")):
        ticks = [make_tick(float(second)) for second in range(4)]
        asyncio.run(write(tmp_path / f"{name}.rxs", ticks, {"stack": of, "holder": "tui"}))
    (tmp_path / "4-tui-9.rxs").write_text("nothing")
    return tmp_path


LISTED = {
    "": ["2-load-9", "1-tui-9"],
    "--stack mine": ["3-tui-9"],
    "--stack nobody": [],
    "--all": ["4-tui-9", "3-tui-9", "2-load-9", "1-tui-9"],
}


def test_recordings_of_a_stack_are_listed_the_newest_first(kept: Path, run: Run) -> None:
    for words, names in LISTED.items():
        found = json.loads(run(f"session list {words} --json").out)
        assert [each["name"] for each in found] == names
        assert [line.split()[0] for line in run(f"session list {words}").out.splitlines()[1:]] == names
        for each in found[-1:]:
            assert each["began"] == utc(make_tick(0.0).wall_s)
            assert each["length_s"] == 3.0
            assert each["bytes"] == Path(each["file"]).stat().st_size


REFUSED = {
    "1-tui-9": "nothing was removed: answer y, or add --yes",
    "tour --yes": "tour is not among the recordings",
    "last --stack nobody --yes": "no recording last of stack nobody",
    "1-tui-9 nothing --yes": "no recording nothing: the newest are 4-tui-9, 3-tui-9, 2-load-9; last, tour",
}


def test_a_removal_that_is_not_meant_removes_nothing(kept: Path, run: Run) -> None:
    for words, told in REFUSED.items():
        code, _, err = run(f"session remove {words}")
        assert (code, told in err, len(os.listdir(kept))) == (2, True, 4), err


def test_what_is_named_is_removed(kept: Path, run: Run) -> None:
    assert run("session remove last 3-tui-9 --stack default --yes").code == 0
    assert sorted(os.listdir(kept)) == ["1-tui-9.rxs", "4-tui-9.rxs"]


def test_sql_becomes_the_first_client_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    address = stack.Dsn(node="db2", dsn="mysql://u:p@h:1/sandbox", path="direct", defaults_file="/x.cnf")
    become = Mock(return_value=0)
    monkeypatch.setattr(stack, "_address", AsyncMock(return_value=address))
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("sql db2")
    assert code == 3
    assert err.startswith("replexplorer: no mysql, mycli or mariadb is on the PATH: install one")
    for name in ("mariadb", "mycli"):
        client = tmp_path / name
        client.touch(mode=0o755)
        assert run("sql db2").code == 0
        path, words = become.call_args.args
        assert (path, words[1:]) == (str(client), ["--defaults-file=/x.cnf", "sandbox"])
    assert run("sql --option-file").out == run("dsn --defaults-file").out == "/x.cnf\n"
    assert run("sql --url --json").out == run("dsn --json").out
    assert become.call_count == 2

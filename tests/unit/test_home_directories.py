"""`~` of who is there, and who has no home directory at all."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from replexplorer.cli.attach import known_login
from replexplorer.cli.output import Output
from replexplorer.core.errors import MissingPiece
from replexplorer.formats.paths import expanded
from tests.unit.conftest import Run
from tests.unit.test_attach import flags

SERVER = "mysql://watcher@127.0.0.1:1"


def test_who_is_there_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/a.rxs") == tmp_path / "a.rxs"
    assert expanded("./~x") == Path("~x")


@pytest.fixture
def _homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number of nobody."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_123)
    with pytest.raises(RuntimeError):
        Path.home()


@pytest.mark.usefixtures("_homeless")
def test_who_has_no_home_has_no_login_paths_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert known_login(flags(url=SERVER), Output(err=io.StringIO()), {}).login.password == ""


@pytest.mark.usefixtures("_homeless")
def test_who_has_no_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    for words in ("config", "doctor", f"attach {SERVER}"):
        code, _, err = run(words)
        assert code == MissingPiece.exit_code
        [line] = err.splitlines()
        assert "this user has no home directory: set HOME" in line, words


# -- a configuration directory that is closed to this user is never taken for empty


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$XDG_CONFIG_HOME/replexplorer` as a user sees it who has no right to it; root may read all."""
    directory = tmp_path / "replexplorer"
    directory.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def guarded(call: Any) -> Any:
        def looked(path: Any, *more: Any, **named: Any) -> Any:
            if directory in Path(path).parents or (call is listdir and Path(path) == directory):
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *more, **named)

        return looked

    listdir, lstat, access = os.listdir, Path.lstat, os.access
    monkeypatch.setattr(os, "listdir", guarded(listdir))
    monkeypatch.setattr(Path, "lstat", guarded(lstat))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != directory and access(path, mode))
    return directory


def test_the_error_names_the_directory_to_open_and_how(closed: Path, run: Run) -> None:
    for words in ("config", "keys", "themes", "scene list", "lab list"):
        code, out, err = run(words)
        assert (code, out) == (3, ""), words
        assert err.startswith(f"replexplorer: {closed}")
        assert "Permission denied: give this user access to it" in err

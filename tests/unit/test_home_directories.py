"""`~` of who is there, and who has no home directory at all."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

import pytest

from replexplorer.core.errors import MissingPiece
from replexplorer.formats.paths import expanded
from tests.unit.conftest import Run

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
def test_who_has_no_home_has_no_login_paths_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from replexplorer.cli.attach import known_login
    from replexplorer.cli.output import Output

    monkeypatch.setattr("sys.stdin", None)
    words = ("defaults_file", "ssl_mode", "ssl_ca")
    args = Namespace(url=SERVER, **dict.fromkeys(words))
    console = Output(out=io.StringIO(), err=io.StringIO())
    assert known_login(args, console, {}).login.password == ""


@pytest.mark.usefixtures("_homeless")
@pytest.mark.parametrize("words", [["config"], ["doctor"], ["attach", SERVER]], ids=lambda words: words[0])
def test_who_has_no_home_is_told_what_to_set(
    words: list[str], monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    code, _, err = run(*words)
    assert code == MissingPiece.exit_code
    [line] = err.splitlines()
    assert "this user has no home directory: set HOME" in line

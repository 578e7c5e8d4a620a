"""Where a server outside a stack is and as whom: a URL, an option file, a variable; no password in argv."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

import pytest

from replexplorer.cli import main
from replexplorer.cli.output import Output
from replexplorer.cli.server_login import ServerLogin, login_of
from replexplorer.core.errors import UsageError

CONSOLE = Output(out=io.StringIO(), err=io.StringIO())


def login(url: str | None, file: Path | None = None) -> ServerLogin:
    return login_of(Namespace(url=url, defaults_file=None if file is None else str(file)), CONSOLE)


def test_the_url_beats_the_option_file_and_that_beats_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(
        "# mine\n!includedir /nowhere\n[mysql]\nuser=no\n[client]\nuser=ada\npassword='a b'\nport=3307\n"
    )
    monkeypatch.setenv("MYSQL_PWD", "other")
    assert login("mysql://db.example:3308", file) == ServerLogin("db.example", 3308, "ada", "a b")
    assert login("mysql://bob@db.example", None) == ServerLogin("db.example", 3306, "bob", "other")
    assert "other" not in repr(login("mysql://bob@db.example"))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (None, "no server is named"),
        ("mysql://ada:geheim@db.example", "the address of db.example has a password in it"),
        ("http://db.example", "'http://db.example' is no address of a server"),
        ("mysql://db.example:99999", "is no address of a server"),
        ("mysql://db.example:0", "'0' is no port"),
    ],
)
def test_an_address_that_is_none_is_said(url: str | None, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PWD", "x")
    with pytest.raises(UsageError) as caught:
        login(url)
    assert told in caught.value.message
    assert "geheim" not in str(caught.value)


def test_without_a_password_and_a_terminal_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    assert main(["workload", "capture", "mysql://ada@127.0.0.1:1"]) == 2
    assert (
        "no password for the server: give it in --defaults-file FILE or in MYSQL_PWD"
        in capsys.readouterr().err
    )


def test_a_server_that_is_not_there_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MYSQL_PWD", "x")
    assert main(["workload", "capture", "mysql://ada@127.0.0.1:1", "--for", "1s"]) == 4
    assert capsys.readouterr().err.startswith("replexplorer: 127.0.0.1:1: no MySQL server answers")

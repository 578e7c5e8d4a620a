"""What Docker says, told to people; and passwords that stay where they belong."""

from __future__ import annotations

import configparser
import os
import stat
from pathlib import Path

import pytest

from replexplorer.adapters import secrets
from replexplorer.adapters.docker.client import explain
from replexplorer.core.errors import MissingPiece


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "could not find an available, non-overlapping IPv4 address pool among the defaults",
            "no free address pool",
        ),
        ("Pool overlaps with other one on this address space", "subnet overlaps"),
        (
            "driver failed programming: Bind for 127.0.0.1:3306 failed: port is already allocated",
            "port is in use",
        ),
        ("listen tcp4 127.0.0.1:3306: bind: address already in use", "port is in use"),
        ("write /var/lib/docker/tmp/x: no space left on device", "disk of Docker is full"),
        ("Read timed out. (read timeout=30)", "in time"),
        ("something\nnew", "Docker refused: something new"),
    ],
)
def test_what_the_daemon_says_becomes_one_line(text: str, says: str) -> None:
    error = explain(RuntimeError(text))
    assert isinstance(error, MissingPiece)
    assert says in str(error)
    assert error.hint
    assert "\n" not in str(error)


def test_a_docker_host_where_nothing_listens_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert "systemctl start docker" in str(explain(FileNotFoundError(2, "No such file")))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    told = explain(FileNotFoundError(2, "No such file"))
    assert str(told).startswith("Docker is not running: DOCKER_HOST is unix:///nowhere.sock: ")


def test_the_pool_error_names_the_config_key() -> None:
    text = "could not find an available, non-overlapping IPv4 address pool among the defaults"
    assert "config key subnet" in explain(RuntimeError(text)).hint


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        (PermissionError(13, "Permission denied"), "permission"),
        (FileNotFoundError(2, "No such file"), "not running"),
        (ConnectionRefusedError(111, "refused"), "not running"),
    ],
)
def test_the_cause_is_found_inside_what_requests_wraps(cause: OSError, says: str) -> None:
    wrapped = RuntimeError("Error while fetching server API version", ("Connection aborted.", cause))
    assert says in str(explain(wrapped))
    assert says in str(explain(RuntimeError(ConnectionError(*wrapped.args[1]))))


def test_passwords_survive_the_file(tmp_path: Path) -> None:
    made = secrets.StoredAccounts(secrets.generate(), "network")
    file = tmp_path / "a" / "b" / "accounts"
    secrets.write(file, made)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secrets.read(file) == made
    assert [path.name for path in file.parent.iterdir()] == ["accounts"]


def test_passwords_are_random_and_never_shown() -> None:
    one, other = secrets.generate(), secrets.generate()
    shown = repr(secrets.StoredAccounts(one, "a")) + str(one)
    for line, another in zip(
        secrets.encode(one).splitlines(), secrets.encode(other).splitlines(), strict=True
    ):
        password = line.partition("=")[2]
        assert len(password) >= 32
        assert password != another.partition("=")[2]
        assert password not in shown


@pytest.mark.parametrize("content", [b"", b"control=\ndsn=1\nreplication=2\n", b"\xff\xff"])
def test_a_broken_file_is_no_password(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "accounts"
    file.write_bytes(content)
    assert secrets.read(file) is None
    assert secrets.read(tmp_path / "lost") is None


def test_a_state_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingPiece, match="cannot keep the stack's passwords"):
        secrets.write(tmp_path / "file" / "accounts", secrets.StoredAccounts(secrets.generate(), ""))


def test_passwords_are_written_beside_no_link_of_others(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "accounts"
    victim.write_text("kept")
    (tmp_path / f".accounts.{os.getpid()}").symlink_to(victim)
    secrets.write(file, secrets.StoredAccounts(secrets.generate(), "a"))
    assert victim.read_text() == "kept"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_option_file_is_one_for_each_client_and_goes_with_the_passwords(tmp_path: Path) -> None:
    accounts = tmp_path / "stack" / "accounts"
    secrets.write(accounts, secrets.StoredAccounts(secrets.generate(), "a"))
    file = accounts.parent / "sandbox-primary.cnf"
    secrets.keep(file, secrets.option_file("sandbox", "secret", "172.18.0.2", 3306))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = configparser.ConfigParser()
    read.read(file)
    assert dict(read["client"]) == {
        "host": "172.18.0.2", "port": "3306", "user": "sandbox", "password": "secret",
    }  # fmt: skip
    assert dict(read["mysql"]) == {"database": "sandbox"}
    assert {key: read["sysbench"][f"mysql-{key}"] for key in read["client"]} == dict(read["client"])
    secrets.forget(accounts)
    assert not accounts.parent.exists()

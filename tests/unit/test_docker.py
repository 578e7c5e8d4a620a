"""Docker's daemons: what they say, whether they answer, and what stands in them; and passwords."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.adapters import secrets
from replexplorer.adapters.docker import client
from replexplorer.adapters.docker.client import NoDaemon, explain
from replexplorer.adapters.docker.hosts import Daemons, Placement, manager_of
from replexplorer.adapters.docker.inventory import Container, addresses
from replexplorer.core.errors import MissingPiece, StackUnavailable

REFUSALS = """\
could not find an available, non-overlapping IPv4 address pool among the defaults
Pool overlaps with other one on this address space
driver failed programming: Bind for 127.0.0.1:3306 failed: port is already allocated
listen tcp4 127.0.0.1:3306: bind: address already in use
write /var/lib/docker/tmp/x: no space left on device
Read timed out. (read timeout=30)
"""


def test_what_the_daemon_says_becomes_one_line(monkeypatch: pytest.MonkeyPatch, snapshot: object) -> None:
    """A cause is found inside what requests wraps around it."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    said: list[Exception] = [RuntimeError(text) for text in (*REFUSALS.splitlines(), "something\nnew")]
    said.append(RuntimeError("Error while fetching", ("Connection aborted.", PermissionError(13, "denied"))))
    said.append(RuntimeError(ConnectionError("Connection aborted.", ConnectionRefusedError(111, "refused"))))
    told = {repr(error): explain(error) for error in said}
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    told["where that is named"] = explain(FileNotFoundError(2, "No such file"))
    assert all(isinstance(error, MissingPiece) for error in told.values())
    assert {case: str(error) for case, error in told.items()} == snapshot


def test_passwords_and_a_client_s_option_file_are_kept_until_the_stack_goes(
    tmp_path: Path, snapshot: object
) -> None:
    """A link of somebody else in the directory is left alone, and a broken file is no password."""
    made, directory, victim = secrets.StoredAccounts(secrets.generate(), "a"), tmp_path / "a", tmp_path / "b"
    directory.mkdir()
    victim.write_text("kept")
    link = directory / f".accounts.{os.getpid()}"
    link.symlink_to(victim)
    accounts, options = directory / "accounts", directory / "sandbox-primary.cnf"
    secrets.write(accounts, made)
    secrets.keep(options, secrets.option_file("sandbox", "secret", "172.18.0.2", 3306))
    assert [stat.S_IMODE(file.stat().st_mode) for file in (accounts, options)] == [0o600, 0o600]
    assert options.read_text() == snapshot
    assert secrets.read(accounts) == made
    assert victim.read_text() == "kept"
    link.unlink()
    for content in (b"", b"control=\ndsn=1\nreplication=2\n", b"\xff\xff"):
        accounts.write_bytes(content)
        assert secrets.read(accounts) is None
    secrets.forget(accounts)
    assert not directory.exists()
    assert secrets.read(accounts) is None


def test_passwords_are_random_never_shown_and_cannot_be_kept_everywhere(tmp_path: Path) -> None:
    one, other = secrets.generate(), secrets.generate()
    lines = f"{secrets.encode(one)}\n{secrets.encode(other)}".split()
    passwords = {line.partition("=")[2] for line in lines}
    assert len(passwords) == 6
    assert min(map(len, passwords)) >= 32
    accounts = secrets.StoredAccounts(one, "a")
    assert not any(password in repr(accounts) for password in passwords)
    (tmp_path / "file").touch()
    with pytest.raises(MissingPiece, match="cannot keep the stack's passwords"):
        secrets.write(tmp_path / "file" / "accounts", accounts)


# -- a busy daemon is waited for, and one that says nothing is given up


def test_a_daemon_that_accepts_and_says_nothing_is_waited_for_once_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "docker.sock")
    monkeypatch.setattr(client, "PING_TIMEOUT_S", 0.4)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        silent.setblocking(False)
        for calls in (3, 1):
            for _ in range(calls):
                with pytest.raises(MissingPiece, match="Docker did not answer in time"):
                    client.connect(f"unix://{path}")
            silent.accept()[0].close()
            with pytest.raises(BlockingIOError):
                silent.accept()
            time.sleep(0.5)


# -- the daemons of several hosts: one that is away is named and hides nobody


A, B = "unix:///a/sock", "unix:///b/sock"
PLACED = Placement({"db1": A, "db2": B, "db3": B})


class Client:
    """A daemon's client that knows its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = False

    def nodes(self) -> list[dict[str, str]]:
        return [{"ID": "a"}, {"ID": "b"}]

    def close(self) -> None:
        self.closed = True


def test_work_is_done_on_a_node_s_host_and_one_that_is_away_is_named_and_asked_again() -> None:
    away, made = set[str](), list[Client]()

    def answers(address: str) -> str:
        if address in away:
            raise NoDaemon("Docker is not running", "start it")
        return address

    def opened(address: str) -> Client:
        made.append(Client(answers(address)))
        return made[-1]

    daemons = Daemons("far", PLACED, opened)
    assert [daemons.on(node, lambda client: client.address) for node in ("db1", "db2", "db3")] == [A, B, B]
    assert len(made) == 2
    away.add(B)
    assert daemons.each(lambda host, client: answers(host)) == {A: A}
    assert made[1].closed
    assert daemons.away == {B: "Docker is not running"}
    with pytest.raises(
        StackUnavailable, match=r"the host unix:///b/sock \(db2, db3\) is away: Docker is not"
    ):
        daemons.every(lambda host, client: None)
    away.add(A)
    for node, keeps in (("db1", True), ("db2", False)):
        with pytest.raises(StackUnavailable, match="start it, then `replexplorer up`") as raised:
            daemons.on(node, lambda client: answers(client.address))
        assert ("it stores the requested values, so nothing can be changed" in str(raised.value)) is keeps
    away.clear()
    assert daemons.each(lambda host, client: client.address) == {A: A, B: B}
    assert daemons.away == {}
    with pytest.raises(StackUnavailable, match="no such stack"):
        daemons.each(Mock(side_effect=StackUnavailable("no such stack")))
    assert daemons.away == {}, "the work refused, and no host is away"
    daemons.close()
    assert all(client.closed for client in made[-2:])


def swarm(state: str, node: str = "", *, manages: bool = False) -> dict[str, Any]:
    """What a daemon says of its swarm."""
    return {"Swarm": {"LocalNodeState": state, "NodeID": node, "ControlAvailable": manages}}


def test_the_network_is_made_through_a_manager_of_the_one_swarm_that_all_hosts_are_in() -> None:
    worker, manager = swarm("active", "a"), swarm("active", "b", manages=True)
    assert manager_of({A: worker, B: manager}, Client) == B
    for here, there, said in (
        (manager, swarm("inactive"), f"{B} is in no swarm"),
        (worker, swarm("active", "b"), "none of the hosts manages"),
        (manager, swarm("active", "other"), "in two swarms"),
    ):
        with pytest.raises(StackUnavailable, match=said):
            manager_of({A: here, B: there}, Client)


# -- what stands in Docker under a stack's label: its nodes in order


def test_a_node_that_is_gone_among_others_is_down() -> None:
    """A stack that lost its first node still has it, and its others keep their names."""
    there = (("db10", "mysqld"), ("db2", "mysqld"), ("db3", "sidecar"))
    found = addresses(
        [Container("c", node, role, "image", "id", "running", None, None) for node, role in there]
    )
    assert [node.name for node in found] == [f"db{number}" for number in range(1, 11)]
    assert [node.name for node in found if node.server_running] == ["db2", "db10"]
    assert addresses([]) == []

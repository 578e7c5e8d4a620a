"""Docker's daemons: what they say, whether they answer, and what stands in them; and passwords."""

from __future__ import annotations

import json
import os
import socketserver
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters import secrets
from replexplorer.adapters.docker import client
from replexplorer.adapters.docker.client import NoDaemon, explain
from replexplorer.adapters.docker.hosts import Daemons, Placement, manager_of
from replexplorer.adapters.docker.inventory import Container, addresses
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece, StackUnavailable

REFUSALS = """\
could not find an available, non-overlapping IPv4 address pool among the defaults
Pool overlaps with other one on this address space
driver failed programming: Bind for 127.0.0.1:3306 failed: port is already allocated
listen tcp4 127.0.0.1:3306: bind: address already in use
write /var/lib/docker/tmp/x: no space left on device
Read timed out. (read timeout=30)
"""


def test_what_the_daemon_says_becomes_one_line(snapshot: object) -> None:
    said = {text: explain(RuntimeError(text)) for text in (*REFUSALS.splitlines(), "something\nnew")}
    assert all(isinstance(error, MissingPiece) for error in said.values())
    assert {text: str(error) for text, error in said.items()} == snapshot


def test_a_docker_host_where_nothing_listens_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert "systemctl start docker" in str(explain(FileNotFoundError(2, "No such file")))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    told = explain(FileNotFoundError(2, "No such file"))
    assert str(told).startswith("Docker is not running: DOCKER_HOST is unix:///nowhere.sock: ")


def test_the_cause_is_found_inside_what_requests_wraps() -> None:
    for cause, says in (
        (PermissionError(13, "Permission denied"), "permission"),
        (FileNotFoundError(2, "No such file"), "not running"),
        (ConnectionRefusedError(111, "refused"), "not running"),
    ):
        wrapped = RuntimeError("Error while fetching server API version", ("Connection aborted.", cause))
        assert says in str(explain(wrapped))
        assert says in str(explain(RuntimeError(ConnectionError(*wrapped.args[1]))))


def test_passwords_survive_the_file_beside_which_a_link_of_others_is_left_alone(tmp_path: Path) -> None:
    made = secrets.StoredAccounts(secrets.generate(), "network")
    file, victim = tmp_path / "a" / "accounts", tmp_path / "victim"
    file.parent.mkdir()
    victim.write_text("kept")
    (file.parent / f".accounts.{os.getpid()}").symlink_to(victim)
    secrets.write(file, made)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secrets.read(file) == made
    assert victim.read_text() == "kept"


def test_passwords_are_random_and_never_shown() -> None:
    one, other = secrets.generate(), secrets.generate()
    lines = f"{secrets.encode(one)}\n{secrets.encode(other)}".split()
    passwords = [line.partition("=")[2] for line in lines]
    assert len(set(passwords)) == len(passwords) == 6
    assert min(map(len, passwords)) >= 32
    shown = repr(secrets.StoredAccounts(one, "a")) + str(one)
    assert not any(password in shown for password in passwords)


def test_a_broken_file_is_no_password(tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    for content in (b"", b"control=\ndsn=1\nreplication=2\n", b"\xff\xff"):
        file.write_bytes(content)
        assert secrets.read(file) is None
    assert secrets.read(tmp_path / "lost") is None


def test_a_state_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingPiece, match="cannot keep the stack's passwords"):
        secrets.write(tmp_path / "file" / "accounts", secrets.StoredAccounts(secrets.generate(), ""))


def test_an_option_file_is_one_for_each_client_and_goes_with_the_passwords(
    tmp_path: Path, snapshot: object
) -> None:
    accounts = tmp_path / "stack" / "accounts"
    secrets.write(accounts, secrets.StoredAccounts(secrets.generate(), "a"))
    file = accounts.parent / "sandbox-primary.cnf"
    secrets.keep(file, secrets.option_file("sandbox", "secret", "172.18.0.2", 3306))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == snapshot
    secrets.forget(accounts)
    assert not accounts.parent.exists()


# -- a busy daemon is waited for, and one that says nothing is given up


TIMEOUT_S = 0.4


class Daemon:
    """A daemon that says nothing to some calls."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        """Parts of the paths that get no answer in time."""
        self.calls: list[str] = []

    def answer(self, path: str) -> Any:
        self.calls.append(path.partition("?")[0])
        if any(part in path for part in self.silent):
            time.sleep(3 * TIMEOUT_S)
        return {"ApiVersion": "1.41", "Version": "20.10"} if "version" in path else []


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    found = Daemon()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(found.answer(self.path)).encode()
            with suppress(OSError):  # who asked may have gone
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    path = tmp_path / "docker.sock"
    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        monkeypatch.setattr(client, "CALL_TIMEOUT_S", TIMEOUT_S)
        monkeypatch.setattr(client.connect, "__kwdefaults__", {"timeout_s": TIMEOUT_S})
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


async def containers() -> Any:
    """What the daemon says stands there."""
    stack = DockerProvider("s")
    try:
        return await stack.on("db1", lambda client: client.containers())
    finally:
        await stack.close()


async def test_a_daemon_that_never_answers_is_given_up_in_one_line(daemon: Daemon) -> None:
    daemon.silent.add("containers/json")
    with pytest.raises(MissingPiece, match="Docker did not answer in time") as caught:
        await containers()
    assert sum("containers/json" in path for path in daemon.calls) == 1
    assert "\n" not in str(caught.value)


async def test_a_daemon_that_accepts_and_says_nothing_is_waited_for_once(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PING_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr(client, "_silent_until_s", {})
    daemon.silent.add("_ping")
    for _ in range(3):
        with pytest.raises(MissingPiece, match="Docker did not answer in time"):
            await containers()
    assert daemon.calls == ["/_ping"]
    client._silent_until_s.clear()
    daemon.silent.clear()
    assert await containers() == []


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


def opened(away: set[str], made: list[Client] | None = None) -> Callable[[str], Client]:
    """Opens clients, but for those that are away now."""

    def open_one(address: str) -> Client:
        if address in away:
            raise NoDaemon("Docker is not running", "start it")
        client = Client(address)
        if made is not None:
            made.append(client)
        return client

    return open_one


def test_work_of_a_node_is_done_on_its_host_with_one_client() -> None:
    made: list[Client] = []
    daemons = Daemons("far", PLACED, opened(set(), made))
    assert [daemons.on(node, lambda client: client.address) for node in ("db1", "db2", "db3")] == [A, B, B]
    assert len(made) == 2
    daemons.close()
    assert all(client.closed for client in made)


def test_the_hosts_that_are_there_answer_and_the_other_is_named() -> None:
    away = {B}
    daemons = Daemons("far", PLACED, opened(away))
    assert daemons.each(lambda host, client: client.address) == {A: A}
    assert daemons.away == {B: "Docker is not running"}
    with pytest.raises(StackUnavailable, match=r"the host unix:///b/sock \(db2, db3\) is away"):
        daemons.every(lambda host, client: None)
    with pytest.raises(StackUnavailable, match="is away: Docker is not running"):
        daemons.on("db3", lambda client: client)
    away.clear()
    assert daemons.each(lambda host, client: client.address) == {A: A, B: B}
    assert daemons.away == {}


def test_a_client_whose_daemon_went_is_opened_anew() -> None:
    made: list[Client] = []
    daemons = Daemons("far", PLACED, opened(set(), made))

    def refuse(client: Client) -> None:
        raise NoDaemon("Docker does not answer", "start it")

    with pytest.raises(StackUnavailable):
        daemons.on("db1", refuse)
    assert made[0].closed
    assert daemons.on("db1", lambda client: client) is made[1]


def test_what_the_work_itself_refuses_is_no_host_that_is_away() -> None:
    daemons = Daemons("far", PLACED, opened(set()))

    def refuse(host: str, client: Client) -> None:
        raise StackUnavailable("no such stack", "run `replexplorer up`")

    with pytest.raises(StackUnavailable, match="no such stack"):
        daemons.each(refuse)


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


def test_a_host_that_keeps_what_is_requested_is_away_and_says_what_that_means() -> None:
    daemons = Daemons("far", PLACED, opened({A, B}))
    for node, keeps in (("db1", True), ("db2", False)):
        with pytest.raises(StackUnavailable, match="start it, then `replexplorer up`") as raised:
            daemons.on(node, lambda client: client)
        assert ("it stores the requested values, so nothing can be changed" in str(raised.value)) is keeps
        assert "\n" not in str(raised.value)


# -- what stands in Docker under a stack's label: its nodes in order


def container(node: str, role: str = "mysqld") -> Container:
    return Container(f"{node}-{role}", node, role, "image", "id", "running", None, None)


def test_a_node_that_is_gone_among_others_is_down() -> None:
    """A stack that lost its first node still has it, and its others keep their names."""
    found = addresses([container("db10"), container("db2"), container("db3", "sidecar")])
    assert [node.name for node in found] == [f"db{number}" for number in range(1, 11)]
    assert [node.name for node in found if node.server_running] == ["db2", "db10"]
    assert addresses([]) == []

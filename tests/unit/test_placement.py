"""Which host each node is on, and a stack on several hosts as its provider sees it, without Docker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replexplorer.adapters.docker import hosts, load
from replexplorer.adapters.docker.hosts import Placement, address_of, asked, checked
from replexplorer.adapters.docker.inventory import HOST, NODE, ROLE, STACK
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.formats import paths
from replexplorer.ports import HostView, UpOptions
from tests.known import refused
from tests.typed import values_of

A, B = "unix:///a/sock", "tcp://10.0.0.2:2375"


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.delenv("REPLEXPLORER_STACK", raising=False)


def test_words_of_the_command_line_name_a_host_for_each_node() -> None:
    assert asked([f"db1={A}", f"db2={B}", "db3=far"]) == {"db1": A, "db2": B, "db3": "far"}
    for word in ("db1", "db1=", f"primary={A}", f"={A}", f"db0={A}"):
        assert "--on" in refused(asked, [word])
    assert "db1 twice" in refused(asked, [f"db1={A}", f"db1={B}"])
    assert "no db4" in refused(checked, {"db1": A, "db2": B, "db4": B}, ["db1", "db2"])


def test_a_host_is_an_address_or_the_name_of_a_context_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    from docker.context import ContextAPI

    contexts = {
        "far": SimpleNamespace(Host=B, TLSConfig=None),
        "web": SimpleNamespace(Host=B.replace("tcp", "http"), TLSConfig=None),
        "secret": SimpleNamespace(Host="https://far:2376", TLSConfig=object()),
    }
    monkeypatch.setattr(ContextAPI, "get_context", contexts.get)
    assert [address_of(name) for name in (A, B, "far", "web")] == [A, B, B, B]
    with pytest.raises(MissingPiece, match="TLS"):
        address_of("secret")


def test_another_shell_finds_the_hosts_by_the_name_of_the_stack_and_a_broken_file_is_named() -> None:
    placed = Placement({"db1": A, "db2": B}, "network", "async", "source=db2\n")
    hosts.write("far", placed)
    assert hosts.read("far") == placed
    assert hosts.stacks() == ["far"]
    file = paths.stack_directory("far") / "hosts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    for text in ("", "{}", "[1]", '{"hosts": {}}', '{"hosts": {"one": "a"}}', '{"hosts": 3}'):
        file.write_text(text)
        with pytest.raises(MissingPiece, match=r"hosts\.json"):
            hosts.read("far")
    hosts.forget("far")
    assert hosts.read("far") is None
    assert hosts.stacks() == []


# -- a stack on several hosts


C = "unix:///b/sock"
PLACED = Placement({"db1": A, "db2": C}, "network", "galera")


class Client:
    """A daemon with the containers of some nodes, of which the last one's server has ended."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.gone: list[str] = []

    def containers(self, *, all: bool = False, filters: Any) -> list[dict[str, Any]]:  # noqa: A002 - the SDK's
        found = [
            {
                "Id": f"{node} {role}",
                "Labels": {STACK: "far", NODE: node, ROLE: role, HOST: "any"},
                "Image": "image",
                "ImageID": "sha256:1",
                "State": "running",
                "NetworkSettings": {"Networks": {"far": {"IPAddress": f"10.0.1.{node[2:]}"}}},
            }
            for node in self.nodes
            for role in ("sidecar", "mysqld")
        ]
        return found if all else found[:-1]

    def volumes(self, *, filters: Any) -> dict[str, Any]:
        labels = {STACK: "far"}
        of_nodes = [{"Name": f"{node} data", "Labels": {**labels, NODE: node}} for node in self.nodes]
        return {"Volumes": [*of_nodes, {"Name": "tools", "Labels": labels}]}

    def networks(self, *, filters: Any) -> list[dict[str, Any]]:
        return [{"Id": "network"}]

    def remove(self, found: str, **options: Any) -> None:
        self.gone.append(found)

    remove_container = remove_volume = remove_network = remove

    def info(self) -> dict[str, Any]:
        return {"Swarm": {"ControlAvailable": True}}

    def exec_create(self, *words: Any, **options: Any) -> None:
        raise StackUnavailable("no command is taken here")

    def close(self) -> None:
        pass


def provider(monkeypatch: pytest.MonkeyPatch, clients: dict[str, Client]) -> DockerProvider:
    """Hosts that are not among the clients are away."""
    stack = DockerProvider("far", PLACED)

    def opened(address: str) -> Client:
        if address not in clients:
            raise ConnectionRefusedError("refused")
        return clients[address]

    monkeypatch.setattr(stack._daemons, "_opened", opened)
    return stack


async def test_nodes_are_on_their_hosts_and_the_first_one_s_keeps(
    monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    stack = provider(monkeypatch, {A: Client("db1"), C: Client("db2")})
    assert await stack.nodes() == snapshot
    assert stack.host_at("10.0.1.2", await stack.nodes()) == C
    with pytest.raises(StackUnavailable, match=r"no node .* 10\.9\.9\.9"):
        stack.host_at("10.9.9.9", await stack.nodes())
    await stack.close()


async def test_the_nodes_of_a_host_that_is_away_are_known_and_down(
    monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    stack = provider(monkeypatch, {C: Client("db2")})
    assert (await stack.nodes(), await stack.hosts()) == snapshot
    with pytest.raises(StackUnavailable, match=r"the host unix:///a/sock \(db1\) is away"):
        await stack.open_bridge("db1")


CLOCKS = """\
0.3   0.4  0
30.0  2.0  28.0
-30.0 2.0  28.0
30.0  45.0 0
None  None None
"""
"""How far a clock is ahead, within what, and so how far apart they are."""


def test_what_a_round_trip_explains_is_no_difference_of_clocks() -> None:
    for ahead_ms, within_ms, apart_ms in values_of(CLOCKS):
        view = HostView(A, ("db1",), clock_ms=ahead_ms, clock_within_ms=within_ms)
        assert view.clock_apart_ms == apart_ms, ahead_ms


async def test_hosts_that_answer_and_have_nothing_have_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await provider(monkeypatch, {A: Client(), C: Client()}).nodes() == []


async def test_down_removes_all_of_a_stack_and_less_replicas_only_their_nodes(
    monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    here, there = Client("db1"), Client("db2", "db3")
    stack = provider(monkeypatch, {A: here, C: there})
    await stack.shrink(1)
    assert here.gone == []
    assert sorted(there.gone) == ["db3 data", "db3 mysqld", "db3 sidecar"]
    there.gone.clear()
    assert await stack.down() == 5 + 8
    assert (sorted(here.gone), sorted(there.gone)) == snapshot


async def test_a_node_stays_on_its_host() -> None:
    with pytest.raises(UsageError, match="db2 of stack far is on unix:///b/sock, not on unix:///a/sock"):
        await DockerProvider("far", PLACED).up(UpOptions(hosts={"db2": A}), lambda text, done=None: None)


async def test_passwords_are_those_of_this_network_only() -> None:
    from replexplorer.adapters import secrets

    stack = DockerProvider("far", PLACED)
    with pytest.raises(StackUnavailable, match="its passwords are lost"):
        await stack.credentials()
    secrets.write(stack.accounts_file, secrets.StoredAccounts(secrets.generate(), "network"))
    assert (await stack.credentials()).control_password
    secrets.write(stack.accounts_file, secrets.StoredAccounts(secrets.generate(), "another"))
    with pytest.raises(StackUnavailable):
        await stack.credentials()


def test_the_load_s_image_has_the_program_without_its_screens() -> None:
    names = {name for name, _ in load.program()}
    assert "replexplorer/load_process.py" in names
    assert not any(name.startswith(("replexplorer/ui/", "replexplorer/cli/")) for name in names)

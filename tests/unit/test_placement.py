"""Which host each node is on: as it is typed, checked, kept and read again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from replexplorer.adapters.docker import hosts
from replexplorer.adapters.docker.hosts import Placement, address_of, asked, checked
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.formats import paths

A, B = "unix:///a/sock", "tcp://10.0.0.2:2375"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_words_of_the_command_line_name_a_host_for_each_node() -> None:
    assert asked([f"db1={A}", f"db2={B}", "db3=far"]) == {"db1": A, "db2": B, "db3": "far"}


@pytest.mark.parametrize("word", ["db1", "db1=", f"primary={A}", f"={A}", f"db0={A}"])
def test_what_is_no_node_and_host_is_refused_by_name(word: str) -> None:
    with pytest.raises(UsageError, match="--on"):
        asked([word])


def test_a_node_and_a_host_are_named_once_and_there() -> None:
    with pytest.raises(UsageError, match="db1 twice"):
        asked([f"db1={A}", f"db1={B}"])
    with pytest.raises(UsageError, match="no db4"):
        checked({"db1": A, "db2": B, "db4": B}, ["db1", "db2"])


@pytest.mark.parametrize("written", [B, B.replace("tcp", "http")])
def test_a_host_is_an_address_or_the_name_of_a_context(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from docker.context import ContextAPI

    contexts = {"far": SimpleNamespace(Host=written, TLSConfig=None)}
    monkeypatch.setattr(ContextAPI, "get_context", contexts.get)
    assert [address_of(A), address_of(B), address_of("far")] == [A, B, B]


def test_a_context_that_needs_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from docker.context import ContextAPI

    context = SimpleNamespace(Host="https://far:2376", TLSConfig=object())
    monkeypatch.setattr(ContextAPI, "get_context", lambda name: context)
    with pytest.raises(MissingPiece, match="TLS"):
        address_of("far")


def test_the_first_node_has_the_host_that_keeps_what_is_shared() -> None:
    placed = Placement({"db10": B, "db2": A, "db1": A})
    assert placed.names == (A, B)
    assert placed.nodes_on(A) == ("db1", "db2")
    assert placed.words(B) == f"{B} (db10)"


def test_another_shell_finds_the_hosts_by_the_name_of_the_stack() -> None:
    placed = Placement({"db1": A, "db2": B}, "network", "async", "source=db2\n")
    assert hosts.read("far") is None
    hosts.write("far", placed)
    assert hosts.read("far") == placed
    assert hosts.stacks() == ["far"]
    assert (paths.stack_directory("far") / "hosts.json").stat().st_mode & 0o777 == 0o600
    hosts.forget("far")
    assert hosts.read("far") is None
    assert hosts.stacks() == []


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"hosts": {}}', '{"hosts": {"one": "a"}}', '{"hosts": 3}']
)
def test_a_broken_file_is_named(text: str) -> None:
    hosts.write("far", Placement({"db1": A}))
    file = paths.stack_directory("far") / "hosts.json"
    file.write_text(text)
    with pytest.raises(MissingPiece, match=r"hosts\.json"):
        hosts.read("far")

"""The daemons of several hosts: one that is away is named and hides nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replexplorer.adapters.docker.client import NoDaemon
from replexplorer.adapters.docker.hosts import Daemons, Placement, manager_of
from replexplorer.core.errors import StackUnavailable

A, B = "unix:///a/sock", "unix:///b/sock"
PLACED = Placement({"db1": A, "db2": B, "db3": B})


class Client:
    """A daemon's client that knows its address."""

    def __init__(self, address: str, info: dict[str, Any] | None = None) -> None:
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
        raise StackUnavailable("no such stack", "replexplorer up")

    with pytest.raises(StackUnavailable, match="no such stack"):
        daemons.each(refuse)


def swarm(state: str, node: str = "", *, manages: bool = False) -> dict[str, Any]:
    """What a daemon says of its swarm."""
    return {"Swarm": {"LocalNodeState": state, "NodeID": node, "ControlAvailable": manages}}


def test_the_network_is_made_through_a_manager() -> None:
    infos = {A: swarm("active", "a"), B: swarm("active", "b", manages=True)}
    assert manager_of(infos, Client) == B


@pytest.mark.parametrize(
    ("infos", "said"),
    [
        ({A: swarm("active", "a", manages=True), B: swarm("inactive")}, f"{B} is in no swarm"),
        ({A: swarm("active", "a"), B: swarm("active", "b")}, "none of the hosts manages"),
        ({A: swarm("active", "a", manages=True), B: swarm("active", "other")}, "in two swarms"),
    ],
)
def test_hosts_that_are_not_in_one_swarm_are_said(infos: dict[str, Any], said: str) -> None:
    with pytest.raises(StackUnavailable, match=said):
        manager_of(infos, Client)


@pytest.mark.parametrize(("node", "keeps"), [("db1", True), ("db2", False)])
def test_a_host_that_keeps_what_is_requested_is_away_and_says_what_that_means(node: str, keeps: bool) -> None:
    daemons = Daemons("far", PLACED, opened({A, B}))
    with pytest.raises(StackUnavailable, match="start it, then `replexplorer up`") as raised:
        daemons.on(node, lambda client: client)
    assert ("it keeps what is requested, so nothing can be changed until then" in str(raised.value)) is keeps
    assert "\n" not in str(raised.value)

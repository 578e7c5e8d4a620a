"""What is requested of a stack on several hosts: another one keeps it while the first one is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.adapters.docker import placement
from replexplorer.adapters.docker.kept_copy import KeptCopy, check_keeper
from replexplorer.adapters.docker.placement import Placement
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.wire import Document
from tests.fakes.sidecar import FakeAgent
from tests.fakes.world import World

A, B = "unix:///a/sock", "unix:///b/sock"
PLACED = Placement({"db1": A, "db2": B}, "network", "async")


def agent_on(node: str) -> FakeAgent:
    """The agent of a host where nothing was ever requested."""
    return FakeAgent(World().sidecars[node], 1)


@pytest.fixture(autouse=True)
def _stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    placement.write("far", PLACED)


async def test_another_host_goes_on_with_what_was_last_requested() -> None:
    copy = KeptCopy("far")
    for version in (3, 9, 7):  # the last one is that of a program that was slow
        copy.hear("db1", Document(version, {"knobs": {"rtt": version}}))
    agent = agent_on("db2")
    await KeptCopy("far").hand_over(B, agent)
    assert (await agent.document()).content == {"knobs": {"rtt": 9}}
    placed = placement.read("far")
    assert placed is not None
    assert placed.names == (B, A)


async def test_whoever_did_not_hear_of_it_is_told() -> None:
    """It would read what the host of before has, when that is back."""
    unaware = KeptCopy("far")
    unaware.hear("db1", Document(9, {"knobs": {}}))
    unaware.ask("db1")
    agent = agent_on("db2")
    await KeptCopy("far").hand_over(B, agent)
    with pytest.raises(StackUnavailable, match=f"kept by {B} now"):
        unaware.ask("db1")
    unaware.ask("db2")


async def test_the_copy_goes_on_with_the_other_host_s_versions() -> None:
    copy, agent = KeptCopy("far"), agent_on("db2")
    copy.hear("db1", Document(9, {"knobs": {"rtt": 9}}))
    await copy.hand_over(B, agent)
    copy.hear("db1", Document(10, {"knobs": {"rtt": 10}}))  # of the host of before, which does not count
    written = await agent.write_document(1, {"knobs": {"rtt": 2}})
    assert written is not None
    copy.hear("db2", written)
    placement.write("far", PLACED)
    again = agent_on("db1")
    await KeptCopy("far").hand_over(A, again)
    assert (await again.document()).content == {"knobs": {"rtt": 2}}


async def test_nothing_is_handed_over_where_nothing_was_heard() -> None:
    with pytest.raises(StackUnavailable, match="no copy"):
        await KeptCopy("far").hand_over(B, agent_on("db2"))
    assert placement.read("far") == PLACED


@pytest.mark.parametrize(
    ("host", "away", "kind", "says"),
    [
        ("nowhere", {A: "it is off"}, UsageError, f"it is on {A}, {B}"),
        (A, {A: "it is off"}, UsageError, "keeps what is requested already"),
        (B, {}, StackUnavailable, f"the host {A} is there, and keeps"),
        (B, {A: "it is off", B: "it is off"}, StackUnavailable, "db2. is away: it is off"),
    ],
)
def test_it_is_handed_over_only_while_it_is_lacking(
    host: str, away: dict[str, str], kind: type[ReplexplorerError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        check_keeper(PLACED, host, away)
    check_keeper(PLACED, B, {A: "it is off"})

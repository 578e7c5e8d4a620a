"""The document of requested values: merged compare-and-set, and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.topology import SOURCE, new_roster
from replexplorer.core.wire import Document
from replexplorer.engine.requested import Requested, read_requested, write_requested
from tests.fakes.clock import virtual
from tests.fakes.sidecar import FakeAgent
from tests.fakes.world import World

ROSTER = new_roster(2)
SYNC = KnobName("sync_binlog", SOURCE)
RTT = KnobName("rtt", "db2")


def an_agent(world: World, pid: int = 1) -> FakeAgent:
    return FakeAgent(world.sidecars["db1"], pid)


@virtual
async def test_nothing_was_ever_asked() -> None:
    requested = await read_requested(an_agent(World()), ROSTER)
    assert requested == Requested()


@virtual
async def test_writes_merge_and_versions_grow() -> None:
    world = World()
    agent = an_agent(world)
    await write_requested(agent, ROSTER, {SYNC: 0}, writer="a", yes_tx_at_enabling=7)
    after = await write_requested(agent, ROSTER, {RTT: 85.0}, writer="b")
    assert after == Requested(2, {SYNC: 0, RTT: 85.0}, 7, "b")
    assert await read_requested(agent, ROSTER) == after
    assert world.document.content["knobs"] == {"sync_binlog": 0, "rtt@db1:db2": 85.0}


@virtual
async def test_two_apps_that_write_at_once_lose_nothing() -> None:
    world = World(replicas=2)
    names = [KnobName("sync_relay_log", node) for node in ("db2", "db3")]
    names += [SYNC, RTT]
    await asyncio.gather(
        *(
            write_requested(an_agent(world, pid), ROSTER, {name: pid}, writer=f"app {pid}")
            for pid, name in enumerate(names, 1)
        )
    )
    assert world.requested == {str(name): pid for pid, name in enumerate(names, 1)}
    assert world.document.version == 4


@virtual
async def test_what_another_version_wrote_is_kept_and_not_believed() -> None:
    world = World()
    world.document.version = 3
    world.document.content = {
        "knobs": {"sync_binlog": 0, "colour@db2": 1.5, "rtt@db2": "far", "semi_sync": None, "rtt": 5},
        "theme": "dark",
    }
    requested = await write_requested(an_agent(world), ROSTER, {KnobName("clients", "load"): 4}, writer="us")
    assert requested.values == {SYNC: 0, KnobName("clients", "load"): 4}
    assert world.requested["colour@db2"] == 1.5
    assert world.document.content["theme"] == "dark"


class Contended(FakeAgent):
    """Somebody else always writes in between."""

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Write first, then lose."""
        await super().write_document(expect_version, {"knobs": {}})
        return await super().write_document(expect_version, content)


@virtual
async def test_a_document_that_never_stays_is_an_error() -> None:
    world = World()
    with pytest.raises(StackUnavailable, match="being written by another app: try again"):
        await write_requested(Contended(world.sidecars["db1"], 1), ROSTER, {SYNC: 0}, writer="us")


class Forgetful(FakeAgent):
    """Writes, and loses the first answers."""

    losses = 1

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """The bridge ends after the write."""
        written = await super().write_document(expect_version, content)
        if self.losses:
            self.losses -= 1
            raise StackUnavailable("the bridge to db1 was lost")
        return written


@virtual
async def test_a_write_whose_answer_was_lost_is_made_again() -> None:
    world = World()
    agent = Forgetful(world.sidecars["db1"], 1)
    values: dict[KnobName, Value] = {SYNC: 0, RTT: 85.0}
    assert (await write_requested(agent, ROSTER, values, writer="us")).values == values
    agent.losses = 2
    with pytest.raises(StackUnavailable, match="was lost"):
        await write_requested(agent, ROSTER, {SYNC: 10}, writer="us")


@virtual
async def test_a_document_from_before_nodes_had_numbers_is_read_and_written_on() -> None:
    """As version 0.1.0 wrote it for a stack with two replicas."""
    world = World(replicas=2)
    world.document.version = 7
    world.document.content = {
        "knobs": {"semi_sync": "on", "rtt@db2": 85.0, "rtt@db3": 20.0, "fsync_delay@db2": 2.0},
        "writer": "set (pid 12)", "written_s": 1795280861.0, "yes_tx_at_enabling": 3,
        "enabled_s": 1795280861.0,
    }  # fmt: skip
    agent = an_agent(world)
    requested = await read_requested(agent, ROSTER)
    assert requested.values == {
        KnobName("semi_sync", SOURCE): "on",
        KnobName("rtt", "db2"): 85.0,
        KnobName("rtt", "db3"): 20.0,
        KnobName("fsync_delay", "db2"): 2.0,
    }
    await write_requested(agent, ROSTER, {RTT: 5.0}, writer="us")
    assert world.requested == {"semi_sync": "on", "rtt@db2": 5.0, "rtt@db3": 20.0, "fsync_delay@db2": 2.0}

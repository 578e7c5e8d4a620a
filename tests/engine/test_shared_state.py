"""What the stack keeps for all apps outlives any one sidecar, the source's too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.topology import new_roster
from replexplorer.core.wire import Document
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.requested import Requested, write_document
from replexplorer.engine.shared_state import SharedState
from tests.fakes.clock import VirtualClock, until
from tests.fakes.sidecar import GRACE_S, FakeAgent
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known, refusal
from tests.typed import typed


def an_app(world: World, pid: int) -> SharedState:
    agents = [FakeAgent(sidecar, pid) for sidecar in world.sidecars.values()]
    return SharedState(lambda: agents, VirtualClock())


@TWO_REPLICAS
async def test_a_killed_sidecar_costs_nothing_that_was_held_through_it(world: World) -> None:
    mine, other = an_app(world, 1), an_app(world, 2)
    assert await mine.take_lease("tui") is None
    assert await mine.take_turn("tui", within_s=1) is None
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    for version, node in enumerate(("db1", "db2")):  # what was taken again is taken again
        world.sidecars[node].stop()
        assert await mine.write_document(version, {"knobs": {}}) is not None
        assert await other.take_lease("load") is not None
        assert await other.take_turn("load", within_s=0) is not None
        await asyncio.sleep(2 * GRACE_S)
        holders = [world.holder(place).holder for place in ("lease", "turn", "experiment")]
        assert holders == ["tui"] * 3
    await mine.close()
    assert await other.take_lease("load") is None
    await other.close()


async def test_while_no_agent_answers_it_is_tried_until_one_does_and_what_another_has_by_then_stays_so(
    world: World,
) -> None:
    mine, other = an_app(world, 1), an_app(world, 2)
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    assert await mine.take_lease("tui") is None
    for sidecar in world.sidecars.values():
        sidecar.stop()
    assert "no agent on db1" in await refusal(mine.document())
    await asyncio.sleep(10 * GRACE_S)
    assert world.holder("experiment") is None
    world.sidecars["db2"].boot()
    assert await other.take_lease("load") is None
    await until(lambda: world.holder("experiment"))
    await asyncio.sleep(2 * GRACE_S)
    await mine.close()
    assert (world.holder("experiment"), world.holder("lease").holder) == (None, "load")
    await other.close()


async def test_what_is_given_back_is_free_though_it_is_taken_again_or_its_agent_failed_at_a_write() -> None:
    for at_ms in (*range(0, 30, 2), None):
        world = World()
        mine, other = an_app(world, 1), an_app(world, 2)
        assert await mine.take_turn("tui", within_s=1) is None
        if at_ms is None:
            world.trouble_at = 0
            assert await mine.write_document(0, {"knobs": {}}) is not None
        else:
            world.sidecars["db1"].stop()
            await asyncio.sleep(at_ms / 1000)
        await mine.leave("turn")
        assert await other.take_turn("set", within_s=0.1) is None
        await mine.close()
        await other.close()


# The fleet: members come from Docker, stay while their place stays, and close wholly


@pytest.fixture
async def fleet(world: World) -> Fleet:
    """One that has found its members."""
    fleet = Fleet(world.outside())
    await fleet.discover()
    return fleet


@TWO_REPLICAS
async def test_members_are_the_nodes_in_their_order_and_stay_while_they_are_exchanged(
    world: World, fleet: Fleet
) -> None:
    members = dict(fleet.members)
    assert list(members) == ["db1", "db2", "db3"]
    world.crash("db2")
    await fleet.discover()
    assert dict(fleet.members) == members
    assert not fleet.member("db2").address.server_running
    world.moved = {"db1": "10.0.0.97", "db2": "10.0.0.98"}
    discovering = asyncio.create_task(fleet.discover())
    while not discovering.done():
        assert (fleet.source.name, len(fleet.replicas)) == ("db1", 2)
        await asyncio.sleep(0.0001)
    assert fleet.source is not members["db1"]


async def test_only_the_nodes_of_one_host_keep_what_all_apps_share(world: World) -> None:
    world.keepers = {"db2"}
    fleet = Fleet(world.outside())
    assert "no stack is attached" in await refusal(fleet.keeper.lease())
    await fleet.discover()
    assert await fleet.keeper.take_lease("one") is None
    assert known(await fleet.keeper.lease()).holder == "one"
    world.sidecars["db2"].stop()
    with pytest.raises(StackUnavailable):
        await fleet.keeper.document()
    await fleet.close()


# The document of requested values: merged compare-and-set, and never lost

ROSTER = new_roster(2)


class BusyAgent(FakeAgent):
    """One through which others write as well, and that loses answers."""

    others_write = losses = 0

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Somebody else writes in between, or the bridge ends after the write."""
        if self.others_write:
            self.others_write -= 1
            await super().write_document(expect_version, {"knobs": {}})
        written = await super().write_document(expect_version, content)
        if self.losses:
            self.losses -= 1
            raise StackUnavailable("the bridge to db1 was lost")
        return written


@pytest.fixture
async def agent(world: World) -> BusyAgent:
    """One app's to the source's sidecar."""
    return BusyAgent(world.sidecars["db1"], 1)


async def write_requested(
    agent: FakeAgent, values: Mapping[KnobName, Value], writer: str = "us", yes_tx: int | None = None
) -> Requested:
    return await write_document(
        agent, ROSTER, lambda now: now.asking(values, ROSTER, writer, 1000.5).enabling(yes_tx, 1000.5)
    )


async def test_writes_merge_and_versions_grow(world: World, agent: FakeAgent) -> None:
    await write_requested(agent, typed("sync_binlog=0"), yes_tx=7)
    after = await write_requested(agent, typed("rtt@db2=85"), writer="b")
    assert (after.version, after.values) == (2, typed("sync_binlog=0 rtt@db2=85"))
    assert (after.yes_tx_at_enabling, after.writer) == (7, "b")
    assert Requested.read(await agent.document(), ROSTER) == after
    assert world.document.content["knobs"] == {"sync_binlog": 0, "rtt@db1:db2": 85.0}


async def test_what_another_version_wrote_is_kept_and_not_believed(world: World, agent: FakeAgent) -> None:
    world.document.version = 3
    world.document.content = {
        "knobs": {"sync_binlog": 0, "colour@db2": 1.5, "rtt@db2": "far", "semi_sync": None, "rtt": 5},
        "theme": "dark",
    }
    requested = await write_requested(agent, typed("clients=4"))
    assert requested.values == typed("sync_binlog=0 clients=4")
    assert (world.document.content["knobs"]["colour@db2"], world.document.content["theme"]) == (1.5, "dark")
    kept = ("faults", "marks", "owed", "role_change", "alone")
    for rubbish in (None, 3, "x", [], {}, [3, {}, {"number": "x"}], {"kind": "merger"}):
        assert Requested.read(Document(1, dict.fromkeys(kept, rubbish)), ROSTER) == Requested(version=1)


async def test_a_write_whose_answer_was_lost_is_made_again_and_one_that_never_stays_is_an_error(
    agent: BusyAgent,
) -> None:
    agent.losses = agent.others_write = 1
    values = typed("sync_binlog=0 rtt@db2=85")
    assert (await write_requested(agent, values)).values == values
    agent.losses = 2
    assert "was lost" in await refusal(write_requested(agent, typed("sync_binlog=10")))
    agent.others_write = 99
    assert "being written by another app: try again" in await refusal(
        write_requested(agent, typed("sync_binlog=0"))
    )

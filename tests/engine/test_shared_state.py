"""What the stack keeps for all apps outlives any one sidecar, the source's too."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.shared_state import SharedState
from tests.fakes.clock import VirtualClock, until
from tests.fakes.sidecar import GRACE_S, FakeAgent
from tests.fakes.world import TWO_REPLICAS, World, tasks_left
from tests.turning import turn


def an_app(world: World, pid: int) -> tuple[SharedState, list[FakeAgent]]:
    agents = [FakeAgent(sidecar, pid) for sidecar in world.sidecars.values()]
    return SharedState(lambda: agents, VirtualClock()), agents


async def test_a_killed_sidecar_costs_nothing_that_was_held_through_it() -> None:
    world = World(replicas=2)
    (mine, _), (other, others) = an_app(world, 1), an_app(world, 2)
    assert await mine.take_lease("tui") is None
    assert await mine.take_turn("tui", within_s=1) is None
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    await other.lease()
    for node in ("db1", "db2"):  # what was taken again is taken again
        world.sidecars[node].stop()
        assert await other.take_lease("load") is not None
        assert await other.take_turn("load", within_s=0) is not None
        await asyncio.sleep(2 * GRACE_S)
        assert world.holder("lease").holder == "tui"
        assert world.holder("turn").holder == "tui"
        assert world.holder("experiment").holder == "tui"
    assert others[2] in world.sidecars["db3"]._bridges
    await mine.close()
    assert await other.take_lease("load") is None
    await other.close()
    assert tasks_left() == []


async def test_while_no_agent_answers_it_is_tried_until_one_does(world: World) -> None:
    mine, _ = an_app(world, 1)
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    for sidecar in world.sidecars.values():
        sidecar.stop()
    with pytest.raises(StackUnavailable, match="no agent on db1"):
        await mine.document()
    await asyncio.sleep(10 * GRACE_S)
    assert world.holder("experiment") is None
    world.sidecars["db2"].boot()
    await until(lambda: world.holder("experiment") is not None)
    await mine.close()
    assert world.holder("experiment") is None
    assert tasks_left() == []


async def test_what_another_took_meanwhile_stays_anothers(world: World) -> None:
    (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
    assert await mine.take_lease("tui") is None
    for sidecar in world.sidecars.values():
        sidecar.stop()
    await asyncio.sleep(2 * GRACE_S)
    for sidecar in world.sidecars.values():
        sidecar.boot()
    assert await other.take_lease("load") is None
    await asyncio.sleep(2 * GRACE_S)
    assert world.holder("lease").holder == "load"
    await mine.close()
    assert world.holder("lease").holder == "load"
    await other.close()
    assert tasks_left() == []


async def test_what_is_given_back_while_it_is_taken_again_is_free() -> None:
    for at_ms in range(0, 30, 2):
        world = World()
        (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
        assert await mine.take_turn("tui", within_s=1) is None
        world.sidecars["db1"].stop()
        await asyncio.sleep(at_ms / 1000)
        await mine.leave("turn")
        assert await other.take_turn("set", within_s=0.1) is None
        await other.close()
        assert tasks_left() == []


async def test_what_is_ours_is_given_back_though_its_agent_failed_at_a_write(world: World) -> None:
    (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    world.trouble_at = len(world.changes)
    assert await mine.write_document(0, {"knobs": {}}) is not None
    await mine.leave("experiment")
    assert await other.begin_experiment("lab", "next", "tui") is None
    await mine.close()
    await other.close()


async def test_a_set_under_way_and_the_lease_survive_the_sources_sidecar(world: World) -> None:
    async with world.attached("load") as load, world.attached("set") as typed:
        await load.drive(load.driving.settings())
        await turn(typed, "sync_binlog=0")
        world.sidecars["db1"].stop()
        await turn(typed, "sync_binlog=100")
        assert world.requested == {"sync_binlog": 100}
        async with world.attached("lab tour") as lab:
            with pytest.raises(StackUnavailable, match="drives the load"):
                await lab.drive(lab.driving.settings())
        await asyncio.sleep(2 * GRACE_S)
        assert world.holder("lease").holder == "load"
        assert load.load.is_running


async def test_a_call_that_no_agent_can_take_is_the_first_ones_error(world: World) -> None:
    mine, agents = an_app(world, 1)
    agents.clear()
    with pytest.raises(StackUnavailable, match="no stack is attached"):
        await mine.lease()
    await mine.leave("turn")
    await mine.close()


# The fleet: members come from Docker, stay while their place stays, and close wholly


@pytest.fixture
async def fleet(world: World) -> Fleet:
    """One that has found its members."""
    fleet = Fleet(world.outside())
    await fleet.discover()
    return fleet


@TWO_REPLICAS
async def test_members_are_the_nodes_in_their_order_and_stay(world: World, fleet: Fleet) -> None:
    members = dict(fleet.members)
    assert list(members) == ["db1", "db2", "db3"]
    assert fleet.replica_names == ("db2", "db3")
    assert fleet.source.name == "db1"
    world.crash("db2")
    await fleet.discover()
    assert dict(fleet.members) == members
    assert not fleet.member("db2").address.server_running
    assert len(world.sqls) == 4 * 3


async def test_a_node_that_moved_gets_new_connections_and_the_old_are_closed(
    world: World, fleet: Fleet
) -> None:
    old = fleet.source
    for sql in (old.control, old.poll, old.kick):
        await sql.query("SELECT 1")
    await old.agent.lease()
    world.moved["db1"] = "10.0.0.99"
    await fleet.discover()
    assert fleet.source is not old
    assert (world.open_connections(), world.open_bridges()) == (0, 0)
    assert list(fleet.members) == ["db1", "db2"]


@TWO_REPLICAS
async def test_while_members_are_exchanged_the_primary_never_is_missing(world: World, fleet: Fleet) -> None:
    world.moved = {"db1": "10.0.0.97", "db2": "10.0.0.98"}
    discovering = asyncio.create_task(fleet.discover())
    while not discovering.done():
        assert fleet.source.name == "db1"
        assert len(fleet.replicas) == 2
        await asyncio.sleep(0.0001)
    await discovering


async def test_close_leaves_no_connection_and_no_bridge_though_one_fails(world: World, fleet: Fleet) -> None:
    for member in fleet.members.values():
        await asyncio.gather(
            member.control.query("SELECT 1"), member.poll.query("SELECT 1"), member.agent.lease()
        )
    assert world.open_connections() == 4

    async def fail() -> None:
        raise OSError("the socket is gone")

    fleet.source.kick.close = fail  # type: ignore[method-assign]
    await fleet.close()
    assert (world.open_connections(), world.open_bridges()) == (0, 0)
    await fleet.close()


async def test_only_the_nodes_of_one_host_keep_what_all_apps_share() -> None:
    world = World(replicas=2)
    world.keepers = {"db2"}
    fleet = Fleet(world.outside())
    await fleet.discover()
    assert await fleet.keeper.take_lease("one") is None
    lease = await fleet.keeper.lease()
    assert lease is not None
    assert lease.holder == "one"
    world.sidecars["db2"].stop()
    with pytest.raises(StackUnavailable):
        await fleet.keeper.document()
    await fleet.close()

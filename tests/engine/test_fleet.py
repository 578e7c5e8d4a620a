"""The fleet: members come from Docker, stay while their place stays, and close wholly."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.engine.fleet import Fleet
from tests.fakes.world import TWO_REPLICAS, World


async def test_without_a_stack_there_is_one_clear_line() -> None:
    fleet = Fleet(World(exists=False).outside())
    with pytest.raises(StackUnavailable, match="no stack 'default' runs here: replexplorer up"):
        await fleet.discover()
    with pytest.raises(StackUnavailable, match="there is no primary in stack 'default'"):
        _ = fleet.source


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

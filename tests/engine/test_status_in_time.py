"""`status` answers soon and whole whatever is down."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.engine.outcome import DrivenLoad, Status
from tests.fakes.world import World

HANGS_S = 3600.0


async def glance(world: World) -> tuple[Status, float]:
    """What `status` says in a shell of its own, and how long it took."""
    session = world.session("status")
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        return await session.status(), loop.time() - began_s
    finally:
        await session.disconnect()


def reachable(status: Status) -> list[bool]:
    return [node.reachable for node in status.nodes]


async def test_a_dead_node_costs_nothing_and_the_rest_is_told() -> None:
    world = World(replicas=2)
    world.crash("db2")
    status, took_s = await glance(world)
    assert took_s < 0.2
    assert (status.state, reachable(status)) == ("partial", [True, False, True])
    assert (status.protection.state, status.load) == ("off", DrivenLoad(None, 0))
    assert status.nodes[2].gtid_executed is not None
    assert all(link.values is not None for link in status.links)
    assert status.footprint_bytes == 3 * (100 << 20)
    world.crash("db1")
    world.sidecars["db1"].stop()
    status, took_s = await glance(world)
    assert took_s < 0.5
    assert (status.protection.state, reachable(status)) == ("down", [False, False, True])
    assert status.footprint_bytes is None
    assert "no agent on db1" in str(status.links[0].fault)


@pytest.mark.parametrize(("missing", "lag_s"), [("", 0), ("uuid-1:7-9", 12.3)])
async def test_a_replica_that_gets_nothing_is_not_told_to_be_level(
    world: World, missing: str, lag_s: float | None
) -> None:
    """By its own word it is 0 s behind until its connection times out."""
    replica = world.servers["db2"]
    replica.applied.update(missing=missing, applied_us=12_300_000)
    status, _ = await glance(world)
    assert (status.nodes[1].io_thread, status.nodes[1].lag_s) == ("on", lag_s)


async def test_a_server_that_hangs_is_down_and_the_rest_is_told() -> None:
    world = World(replicas=2)
    world.servers["db3"].slow_s = HANGS_S
    status, took_s = await glance(world)
    assert took_s < 6.0
    assert (status.state, reachable(status)) == ("partial", [True, True, False])
    assert [link.replica for link in status.links] == ["db2", "db3"]


async def test_a_machine_on_which_everything_is_slow_has_no_dead_nodes(world: World) -> None:
    for sidecar in world.sidecars.values():
        sidecar.slow_s = 1.5
    world.primary.slow_s, world.replica.slow_s = 1.6, 1.9
    status, _ = await glance(world)
    assert (status.state, reachable(status)) == ("up", [True, True])


async def test_servers_that_have_just_begun_are_starting_and_later_they_are_down(world: World) -> None:
    for server in world.servers.values():
        server.starting = True
    assert (await glance(world))[0].state == "starting"
    await asyncio.sleep(120)
    assert (await glance(world))[0].state == "down"
    world.primary.starting = False
    assert (await glance(world))[0].state == "partial"
    world.crash("db1")
    world.crash("db2")
    world.replica.boot()
    world.replica.starting = True
    assert (await glance(world))[0].state == "starting"

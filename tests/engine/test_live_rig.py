"""What experiments do to a live stack, where part of it is gone."""

from __future__ import annotations

import asyncio

from tests.fakes.clock import virtual
from tests.fakes.world import World


@virtual
async def test_a_dead_replica_is_not_waited_for_when_replicas_are_attached_again() -> None:
    """The restoring of a lab whose replica was killed took half a minute more."""
    world, loop = World(replicas=2), asyncio.get_running_loop()
    async with world.attached("lab wan-insert") as session:
        await session.rig.attach(0)
        assert not world.servers["db2"].registered
        world.crash("db3")
        await session.rig.look()
        began_s = loop.time()
        await session.rig.attach(None)
        assert loop.time() - began_s < 5
        assert world.servers["db2"].registered


@virtual
async def test_all_that_live_are_waited_for() -> None:
    world = World(replicas=2)
    async with world.attached("lab wan-insert") as session:
        await session.rig.attach(1)
        assert [world.servers[name].registered for name in ("db2", "db3")] == [True, False]
        await session.rig.attach(None)
        assert [world.servers[name].registered for name in ("db2", "db3")] == [True, True]

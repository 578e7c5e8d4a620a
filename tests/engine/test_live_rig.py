"""What experiments do to a live stack, where part of it is gone."""

from __future__ import annotations

import asyncio

from tests.fakes.world import World


async def test_replicas_are_attached_again_and_of_them_all_that_live_are_waited_for() -> None:
    """The restoring of a lab whose replica was killed took half a minute more."""
    world, loop = World(replicas=2), asyncio.get_running_loop()
    async with world.attached("lab wan-insert") as session:
        for attached in (1, None, 0):
            await session.rig.attach(attached)
            first = 2 if attached is None else attached
            assert [world.servers[name].registered for name in ("db2", "db3")] == [first > 0, first > 1]
        world.crash("db3")
        await session.rig.look()
        began_s = loop.time()
        await session.rig.attach(None)
        assert loop.time() - began_s < 5
        assert world.servers["db2"].registered

"""A node's mysqld stopped and frozen, and what brings it back."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.ports import UpOptions
from tests.integration.conftest import LiveStack, quiet

pytestmark = pytest.mark.docker


async def test_a_frozen_server_keeps_its_connections_and_goes_on(live_stack: LiveStack) -> None:
    process = live_stack.stack.server_process("db1")
    async with live_stack.session("db1") as cursor:
        await cursor.execute("SELECT CONNECTION_ID()")
        (number,) = await cursor.fetchone()
        await process.pause()
        await process.pause()
        assert not (await live_stack.node("db1")).server_running
        waiting = asyncio.create_task(cursor.execute("SELECT CONNECTION_ID()"))
        done, _ = await asyncio.wait({waiting}, timeout=1)
        assert not done
        await process.start()
        await process.start()
        await waiting
        assert await cursor.fetchone() == (number,)
    await live_stack.ready()


async def test_a_server_that_was_frozen_is_killed_or_stopped_as_any_other_and_comes_back(
    live_stack: LiveStack,
) -> None:
    """The source because it is started, its replica by `up`; each at its address."""
    stack, before = live_stack.stack, await live_stack.stack.nodes()
    source, replica = map(stack.server_process, ("db1", "db2"))
    for process in (source, replica):
        await process.pause()
    await source.kill()
    await replica.stop()
    assert [(node.server_running, node.sidecar_running) for node in await stack.nodes()] == [
        (False, True)
    ] * 2
    with pytest.raises(StackUnavailable, match="the server of db2 has ended"):
        await replica.pause()
    await source.start()
    assert await stack.up(UpOptions(), quiet) is False
    await live_stack.ready()
    assert await stack.nodes() == before
    with pytest.raises(StackUnavailable, match="nowhere has no server"):
        await stack.server_process("nowhere").kill()

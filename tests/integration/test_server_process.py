"""A node's mysqld killed, stopped and frozen, and what brings it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.ports import ServerProcess, UpOptions
from tests.integration.conftest import LiveStack, quiet
from tests.waiting import until

pytestmark = pytest.mark.docker

Faults = tuple[Callable[[ServerProcess], Awaitable[None]], ...]

KILL, STOP, PAUSE = (lambda p: p.kill()), (lambda p: p.stop()), (lambda p: p.pause())
FAULTS: dict[str, Faults] = {
    "stopped": (STOP, STOP),
    "frozen": (PAUSE, PAUSE),
    "frozen, then killed": (PAUSE, KILL),
    "frozen, then stopped": (PAUSE, STOP),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_server_comes_back_from_it_with_address_and_data(live_stack: LiveStack, fault: str) -> None:
    """The source because it is started, its replica by `up`."""
    stack, nodes = live_stack.stack, ("db1", "db2")
    before, rows = await stack.nodes(), "SELECT COUNT(*) FROM sandbox.survivors"
    async with live_stack.session("db1") as cursor:
        await cursor.execute("CREATE TABLE IF NOT EXISTS sandbox.survivors (id SERIAL)")
        await cursor.execute("INSERT INTO sandbox.survivors () VALUES ()")
    written = await live_stack.value("db1", rows)
    for node in nodes:
        for act in FAULTS[fault]:
            await act(stack.server_process(node))
            assert not (await live_stack.node(node)).server_running
            assert (await live_stack.node(node)).sidecar_running
    source = stack.server_process("db1")
    await source.start()
    await source.start()
    assert not (await live_stack.node("db2")).server_running
    assert await stack.up(UpOptions(), quiet) is False
    await live_stack.ready()
    assert await stack.nodes() == before
    for node in nodes:
        await until(partial(reads, live_stack, node, rows, written))


async def reads(live: LiveStack, node: str, statement: str, expected: object) -> bool:
    return bool(await live.value(node, statement) == expected)


async def test_a_frozen_server_keeps_its_connections_and_goes_on(live_stack: LiveStack) -> None:
    process = live_stack.stack.server_process("db1")
    async with live_stack.session("db1") as cursor:
        await cursor.execute("SELECT CONNECTION_ID()")
        (number,) = await cursor.fetchone()
        await process.pause()
        waiting = asyncio.create_task(cursor.execute("SELECT CONNECTION_ID()"))
        done, _ = await asyncio.wait({waiting}, timeout=1)
        assert not done
        await process.start()
        await process.start()
        await waiting
        assert await cursor.fetchone() == (number,)
    await live_stack.ready()


async def test_what_an_ended_server_cannot_do_is_said(live_stack: LiveStack) -> None:
    process = live_stack.stack.server_process("db2")
    try:
        await process.kill()
        with pytest.raises(StackUnavailable, match="the server of db2 has ended"):
            await process.pause()
    finally:
        await process.start()
    await live_stack.ready()
    with pytest.raises(StackUnavailable, match="nowhere has no server"):
        await live_stack.stack.server_process("nowhere").kill()

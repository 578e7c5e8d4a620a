"""The link between real servers: partitions by direction, healing, and two apps at once."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import patience, until

pytestmark = pytest.mark.docker

TABLE = "sandbox.partitioned"


async def insert(live: LiveStack, number: int) -> None:
    async with live.session("db1", dsn=True) as cursor:
        await cursor.execute(f"INSERT INTO {TABLE} VALUES ({number})")


async def has_row(live: LiveStack, node: str, number: int) -> bool:
    return bool(await live.value(node, f"SELECT COUNT(*) FROM {TABLE} WHERE id = {number}", dsn=True))


async def prepare(live: LiveStack) -> None:
    async with live.session("db1", dsn=True) as cursor:
        await cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        await cursor.execute(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY)")


async def state_is(session: Session, state: ProtectionState) -> bool:
    await session.state.refresh()
    await session.state.look_twice_if_waiting()
    return session.state.protection().state is state


@pytest.mark.parametrize(("partition", "arrives"), [("ack", True), ("dump", False)])
async def test_a_waiting_commit_is_on_the_replica_when_only_acknowledgements_are_cut(
    live_stack: LiveStack, partition: str, arrives: bool
) -> None:
    await prepare(live_stack)
    async with attached(live_stack) as session:
        await turn(session, "semi_sync=on", "semi_sync_timeout=60s")
        await insert(live_stack, 1)
        await until(lambda: has_row(live_stack, "db2", 1))
        await turn(session, f"partition={partition}")
        waiting = asyncio.create_task(insert(live_stack, 2))
        await until(lambda: state_is(session, ProtectionState.BLOCKED))
        await until(lambda: has_row(live_stack, "db2", 2), holds=lambda found: found == arrives)
        assert not waiting.done()
        link = session.state.links["db2"]
        assert (link.partition, link.rtt_measured_ms) == (partition, None)
        result = await turn(session, "partition=none")
        assert result.warnings == ()
        await asyncio.wait_for(waiting, 10 * patience())

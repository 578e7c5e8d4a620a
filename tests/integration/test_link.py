"""The link between real servers: what a cut of one direction lets through."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from replexplorer.core.server.protection import ProtectionState
from tests.conformance.scenarios import becomes
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import patience, until

pytestmark = pytest.mark.docker

TABLE = "sandbox.partitioned"
ROWS = f"SELECT COUNT(*) FROM {TABLE}"


@pytest.mark.parametrize(("cut", "arrives"), [("ack", True), ("dump", False)])
async def test_a_waiting_commit_is_on_the_replica_when_only_acknowledgements_are_cut(
    live_stack: LiveStack, cut: str, arrives: bool
) -> None:
    async with attached(live_stack) as session, live_stack.session("db1", dsn=True) as cursor:
        await turn(session, "semi_sync=on", "semi_sync_timeout=60s")
        await cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id SERIAL)")
        before = await live_stack.value("db1", ROWS)
        await until(partial(live_stack.value, "db2", ROWS), holds=lambda rows: rows == before)
        await turn(session, f"partition={cut}")
        waiting = asyncio.create_task(cursor.execute(f"INSERT INTO {TABLE} () VALUES ()"))
        await becomes(session, ProtectionState.BLOCKED)
        await until(partial(live_stack.value, "db2", ROWS), holds=lambda rows: rows == before + arrives)
        assert not waiting.done()
        link = session.state.links["db2"]
        assert (link.partition, link.rtt_measured_ms) == (cut, None)
        assert (await turn(session, "partition=none")).warnings == ()
        await asyncio.wait_for(waiting, 10 * patience())

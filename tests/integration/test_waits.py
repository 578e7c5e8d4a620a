"""Who waits for what, on a real server: for a row lock, a metadata lock, an acknowledgement; statements."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from replexplorer.core.server.waits import ServerWaits, Wait
from tests.integration.attaching import TLS, outsider
from tests.integration.conftest import LiveStack
from tests.integration.lock_waits import HOLDS, TABLE, clients, seen, two_wait_for_a_row
from tests.integration.sessions import attached
from tests.turning import turn

pytestmark = pytest.mark.docker


async def test_a_row_lock_has_its_holder_table_index_and_key(live_stack: LiveStack, tmp_path: Path) -> None:
    shell = await outsider(live_stack, tmp_path)
    async with attached(live_stack) as session, two_wait_for_a_row(session) as locks:
        assert {each.blocker_statement for each in locks} == {HOLDS}
        watched = await asyncio.to_thread(shell.json, "attach", TLS, "--waits", apart=True)
        assert {each.blocker for each in watched.locks} == {each.blocker for each in locks}


async def test_a_metadata_lock_has_the_open_transaction_that_holds_it(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session, clients(session, 2) as (holder, other):
        await holder.query("BEGIN")
        await holder.query(f"SELECT * FROM {TABLE}")
        altering = asyncio.create_task(other.query(f"ALTER TABLE {TABLE} ADD COLUMN m INT", deadline_s=30))
        found = await seen(session, lambda now: any(each.kind == "metadata" for each in now.locks))
        (lock,) = found.locks
        assert (lock.table, lock.mode, lock.blocker_statement) == (
            TABLE,
            "EXCLUSIVE",
            f"SELECT * FROM {TABLE}",
        )
        assert Wait.METADATA_LOCK in {each.wait for each in found.groups}
        await holder.query("ROLLBACK")
        await altering


def all_four(now: ServerWaits) -> bool:
    """One waits for its replica and three behind it, or two for two."""
    found = {group.wait: group.sessions for group in now.groups}
    return Wait.ACK in found and found[Wait.ACK] + found.get(Wait.BEHIND_ACK, 0) == 4


async def test_commits_stand_behind_the_one_that_waits_for_its_replica(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session, clients(session, 4) as made:
        await turn(session, "semi_sync=on", "semi_sync_timeout=20s", "rtt=1500ms")
        writing = [
            asyncio.create_task(each.query(f"INSERT INTO {TABLE} VALUES ({at}, 0)", deadline_s=60))
            for at, each in enumerate(made, 10)
        ]
        await seen(session, all_four)
        await turn(session, "rtt=0")
        await asyncio.gather(*writing)

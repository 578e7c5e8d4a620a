"""Faults on real servers: a crash, a frozen replica, and what a power cut takes by the settings it meets."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncmy
import pytest

from replexplorer.core.server.comeback import Comeback, Replication
from replexplorer.core.server.gtid import gtid_count
from replexplorer.engine.outcome import Injected
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached, connected, inject
from tests.waiting import NO_ANSWER, patience, until

pytestmark = pytest.mark.docker

WRITERS, LEAST_ROWS = 4, 200
TABLE = "sandbox.acknowledged"


async def state(session: Session) -> str:
    return (await session.status()).state


async def write(live: LiveStack, node: str, writer: int, acknowledged: set[tuple[int, int]]) -> None:
    """Insert rows until the server goes away; a row counts once its client has the OK."""
    with suppress(*NO_ANSWER, asyncmy.errors.Error):
        async with live.session(node) as cursor:
            for number in range(1_000_000):
                await cursor.execute(f"INSERT INTO {TABLE} VALUES ({writer}, {number})")
                acknowledged.add((writer, number))


async def cut_under_writes(
    live: LiveStack, session: Session
) -> tuple[set[tuple[int, int]], Injected, Comeback]:
    """Cut the source's power while rows are written; answers those acknowledged and missing afterwards, and
    what the source is said to have come back without."""
    source = session.fleet.source_name
    async with live.session(source) as cursor:
        await cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        await cursor.execute(f"CREATE TABLE {TABLE} (writer INT, number INT, PRIMARY KEY (writer, number))")
    acknowledged: set[tuple[int, int]] = set()
    writers = [asyncio.create_task(write(live, source, number, acknowledged)) for number in range(WRITERS)]
    while len(acknowledged) < LEAST_ROWS:
        assert not all(writer.done() for writer in writers)
        await asyncio.sleep(0.01)
    [done] = await inject(session, "power_cut")
    await asyncio.gather(*writers)
    assert await state(session) == "partial"
    [cleared] = await session.console.clear("power_cut")
    assert cleared.comeback is not None
    async with live.session(source) as cursor:
        await cursor.execute(f"SELECT writer, number FROM {TABLE}")
        rows = set(await cursor.fetchall())
    return acknowledged - rows, done, cleared.comeback


async def differing(session: Session) -> dict[str, str]:
    """By node why it is to be copied, as everybody sees it."""
    return {node.name: node.diverged for node in (await session.status()).nodes if node.diverged}


@pytest.mark.in_full
async def test_on_a_full_disk_a_commit_waits_for_room(live_stack: LiveStack) -> None:
    async with attached(live_stack, "fault") as session:
        source = session.fleet.source_name
        async with live_stack.session(source) as cursor:
            await cursor.execute("CREATE TABLE IF NOT EXISTS sandbox.filled (id SERIAL)")
            await inject(session, "disk_full")
            commit = asyncio.create_task(cursor.execute("INSERT INTO sandbox.filled () VALUES ()"))
            done, _ = await asyncio.wait({commit}, timeout=2)
            assert not done or commit.exception() is not None
            await session.console.clear()
            with suppress(*NO_ANSWER):
                await asyncio.wait_for(commit, 90 * patience())
        await until(lambda: state(session), holds=lambda word: word == "up", within_s=90)


async def test_faults_are_done_recorded_and_undone_by_another_app(live_stack: LiveStack) -> None:
    live = live_stack
    async with attached(live, "fault") as session:
        replica = session.fleet.replica_names[0]
        async with connected(live, "another") as other:
            await inject(other, "kill", "pause@replica")
            assert await state(other) == "down"
        assert len((await session.status()).faults) == 2
        cleared = await session.console.clear()
        assert len(cleared) == 2
        assert await state(session) == "up"
        await live.ready()

        await session.console.set((session.console.parse("undo_journal=on"),))
        missing, _, comeback = await cut_under_writes(live, session)
        assert missing == set(), "redo and binlog are fsynced before a client is told"
        assert not comeback.words("demo")
        assert await differing(session) == {}
        await live.ready()

        relaxed = ("sync_binlog=0", "innodb_flush_log_at_trx_commit=2")
        await session.console.set(tuple(map(session.console.parse, relaxed)))
        missing, done, comeback = await cut_under_writes(live, session)
        assert any("binlog" in file for file in done.lost_files)
        assert (await session.status()).faults == ()
        assert gtid_count(comeback.lost) <= len(missing) + WRITERS
        assert not missing or "lost" in comeback.words("s")[0]
        assert gtid_count(comeback.binlog_lost or "") > 0
        assert comeback.binlog_bytes > 0
        purged = await live.value(session.fleet.source_name, "SELECT @@GLOBAL.gtid_purged")
        lacks = await live.value(replica, f"SELECT GTID_SUBTRACT('{purged}', @@GLOBAL.gtid_executed)")
        is_short = bool(lacks or comeback.only_on)
        assert set(comeback.replication) == {replica}
        assert (comeback.after is not Replication.WHOLE) is is_short
        assert set(await differing(session)) == ({replica} if is_short else set())
        await session.console.rejoin(replica, copy=True)
        assert await differing(session) == {}
        await live.ready()

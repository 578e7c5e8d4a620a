"""Clients that wait for a row's lock, and the looks at what a server says of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from replexplorer.core.server.waits import LockWait, ServerWaits, Wait
from replexplorer.engine.session import Session
from replexplorer.ports import Sql

TABLE = "sandbox.waited"
HOLDS = f"UPDATE {TABLE} SET n = 1 WHERE id = 1"


@asynccontextmanager
async def clients(session: Session, number: int) -> AsyncIterator[list[Sql]]:
    """Connections to the source beside the session's own; what they hold is let go of."""
    made = [session.fleet.connection(session.fleet.source_name) for _ in range(number)]
    try:
        await made[0].query(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, n INT)")
        await made[0].query(f"INSERT INTO {TABLE} VALUES (1, 0), (2, 0)")
        yield made
    finally:
        for sql in made:
            await sql.close()
        await session.fleet.source.control.query(f"DROP TABLE {TABLE}", deadline_s=30)


async def seen(session: Session, holds: Callable[[ServerWaits], object]) -> ServerWaits:
    """The first look of which this holds."""
    async with asyncio.timeout(30), aclosing(session.waits()) as looks:
        async for found in looks:
            if holds(found):
                return found
    raise AssertionError


@asynccontextmanager
async def two_wait_for_a_row(session: Session) -> AsyncIterator[tuple[LockWait, ...]]:
    """Two clients wait for a row that a third one has changed and does not commit: what is seen of them."""
    async with clients(session, 3) as (holder, *others):
        await holder.query("BEGIN")
        await holder.query(HOLDS)
        waiting = [
            asyncio.create_task(each.query(f"UPDATE {TABLE} SET n = n + {at} WHERE id = 1", deadline_s=30))
            for at, each in enumerate(others, 2)
        ]
        found = await seen(session, lambda now: len(now.locks) == 2)
        assert {(each.kind, each.table, each.index, each.key) for each in found.locks} == {
            ("row", TABLE, "PRIMARY", "1")
        }
        assert len({each.blocker for each in found.locks}) == 1, "who holds it, not who stands before it"
        assert {each.blocker_command for each in found.locks} == {"Sleep"}
        assert all(each.waited_s is not None and each.waited_s < 30 for each in found.locks)
        [group] = [each for each in found.groups if each.wait is Wait.ROW_LOCK]
        assert group.sessions == 2
        yield found.locks
        await holder.query("ROLLBACK")
        await asyncio.gather(*waiting)

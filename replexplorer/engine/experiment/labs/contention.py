"""Clients that all want the same few rows, at every node that takes writes: what rolls back, and what waits.

On one node they wait for each other's row locks. A lock means nothing to another member of a group: there
both go on, and the one that the group orders second is rolled back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.topology import Role
from replexplorer.engine.experiment.labs.lab import RETRIED, Act, Played
from replexplorer.engine.finish import all_of
from replexplorer.ports import Sql

CLIENTS: Final = 32
HOT_ROWS: Final = 8
_TABLE: Final = "replexplorer.contended"
_DEADLINE_S: Final = 60.0
_COPIED_WITHIN_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.1
_SETTLED_S: Final = 0.5
_TELL_EVERY_S: Final = 0.5
_SEED: Final = 78
_NO_SUCH_TABLE: Final = 1146
_ROLLED_BACK: Final = frozenset({1180, 1205, 1213, 3101})
"""A client tries these again: an error during COMMIT, a lock that was waited for too long, a deadlock, and a
group's certification."""


async def contend(act: Act) -> Played:
    """Let `CLIENTS` clients, as many at each node that takes writes, update one of `HOT_ROWS` rows at a time;
    raises StackUnavailable where a node does not get the rows."""
    rig = act.rig
    nodes = [node.name for node in rig.seen.nodes if node.role == Role.PRIMARY]
    seconds = act.phase.length(quick=act.quick).seconds
    source = rig.sql(rig.seen.source)
    clients = [rig.sql(nodes[number % len(nodes)]) for number in range(CLIENTS)]
    service, retried = Histogram(), Counter[int]()
    try:
        await _fill(source)
        await all_of(*(_until_filled(act, sql) for sql in clients))
        began_s = rig.clock.monotonic()
        ends_s = began_s + seconds

        async def client(number: int, sql: Sql) -> None:
            random = Random(_SEED + number)
            while rig.clock.monotonic() < ends_s:
                row, sent_s = random.randrange(HOT_ROWS), rig.clock.monotonic()
                while not await _updated(sql, row, retried):
                    if rig.clock.monotonic() >= ends_s:
                        return
                if (now_s := rig.clock.monotonic()) < ends_s:
                    service.record(round((now_s - sent_s) * 1e6))

        async def tell() -> None:
            while (passed_s := rig.clock.monotonic() - began_s) < seconds:
                act.tell("measuring", passed_s / seconds)
                await rig.clock.sleep(min(_TELL_EVERY_S, seconds - passed_s))

        await all_of(tell(), *(client(number, sql) for number, sql in enumerate(clients)))
    finally:
        try:
            with suppress(ReplexplorerError):
                await _until_same(act, clients[: len(nodes)])
            await source.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        finally:
            await asyncio.gather(*(sql.close() for sql in (source, *clients)))
    return Played(
        {RETRIED: retried.total()},
        service=service,
        duration_s=seconds,
        clients=CLIENTS,
        retried=retried.total(),
    )


async def _fill(sql: Sql) -> None:
    """The table with its rows."""
    statements = (
        f"DROP TABLE IF EXISTS {_TABLE}",
        f"CREATE TABLE {_TABLE} (id INT PRIMARY KEY, number INT NOT NULL) ENGINE=InnoDB",
        f"INSERT INTO {_TABLE} VALUES {', '.join(f'({row}, 0)' for row in range(HOT_ROWS))}",
    )
    for statement in statements:
        await sql.query(statement, deadline_s=_DEADLINE_S)


async def _until_filled(act: Act, sql: Sql) -> None:
    """Until a node has the rows that another one was given."""
    clock = act.rig.clock
    ends_s = clock.monotonic() + _COPIED_WITHIN_S
    while clock.monotonic() < ends_s:
        if await _rows(sql) == HOT_ROWS:
            return
        await clock.sleep(_LOOK_EVERY_S)
    raise StackUnavailable("a member does not apply what another one commits", "`replexplorer status`")


async def _until_same(act: Act, members: Sequence[Sql]) -> None:
    """Until every node has applied all: a DROP at one node is certified against nothing, and another's
    update that is still to be applied there would find no table and end its membership."""
    clock, before = act.rig.clock, None
    ends_s = clock.monotonic() + _COPIED_WITHIN_S
    while clock.monotonic() < ends_s:
        found = [
            await sql.query(f"SELECT SUM(number) AS changes FROM {_TABLE}", deadline_s=_DEADLINE_S)
            for sql in members
        ]
        if found == before and all(each == found[0] for each in found):
            return
        before = found
        await clock.sleep(_SETTLED_S)


async def _rows(sql: Sql) -> int:
    try:
        found: Sequence[object] = await sql.query(f"SELECT id FROM {_TABLE}", deadline_s=_DEADLINE_S)
    except ServerRefused as refused:
        if refused.number != _NO_SUCH_TABLE:
            raise
        return 0
    return len(found)


async def _updated(sql: Sql, row: int, retried: Counter[int]) -> bool:
    """Whether the update was committed; False where the server rolled it back."""
    try:
        await sql.query(f"UPDATE {_TABLE} SET number = number + 1 WHERE id = {row}", deadline_s=_DEADLINE_S)
    except ServerRefused as refused:
        if refused.number not in _ROLLED_BACK:
            raise
        retried[refused.number] += 1
        return False
    return True

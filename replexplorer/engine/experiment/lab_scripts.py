"""What phases of labs do that do more than let the load run, by the name that their files have for it.

On one node the clients of hot rows wait for each other's row locks. A lock means nothing to another member of
a group: there both go on, and the one that the group orders second is rolled back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from statistics import median
from typing import Final

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable
from replexplorer.core.experiment.experiment import Try
from replexplorer.core.experiment.lab import RETRIED, PhaseResult, Play
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.topology import Role
from replexplorer.engine.experiment.lab_tables import WITHIN_S, archive, do, missing_key
from replexplorer.engine.experiment.phase import Act
from replexplorer.engine.tasks import all_of, end_all
from replexplorer.ports import Sql

_WARMUP_S: Final = 1.5


async def catch_up(act: Act) -> PhaseResult:
    """Measure the load; then how far the replica is behind, and how long it needs to catch up."""
    stack = act.stack
    clock, replica = stack.clock, stack.seen.replicas[0]
    await stack.load.follow()
    found = await act.measure(clock.monotonic() + _WARMUP_S)
    executed = await stack.ask(stack.seen.source, stack.dialect(stack.seen.source).executed)
    behind = await stack.ask(replica, stack.dialect(replica).behind(executed))
    waiting = gtid_count(behind.queued or "") if behind else 0
    lag_s = 0.0
    if behind is not None and waiting:
        # Where transactions carry no time it is computed from how fast they came.
        by_pace_s = waiting / found.load.tps if found.load.tps else 0.0
        lag_s = by_pace_s if behind.applying_us is None else behind.applying_us / 1e6
    act.tell("the replica catches up")
    await stack.load.follow(clients=0)
    resting_s = clock.monotonic()
    await stack.caught_up(among=[replica])
    figures = {
        "lag at the end, s": lag_s,
        "acknowledged, not applied at the end": waiting,
        "catches up in, s": clock.monotonic() - resting_s,
    }
    await stack.load.follow()
    return act.of_load(found, figures)


async def count_fsyncs(act: Act) -> PhaseResult:
    """Measure the load, and count the binlog's fsyncs meanwhile."""
    stack = act.stack
    await stack.load.follow()
    await stack.clock.sleep(_WARMUP_S)
    first, from_s = await stack.look(), stack.clock.monotonic()
    found = await act.measure(from_s)
    last, passed_s = await stack.look(), stack.clock.monotonic() - from_s
    disks = [seen.disks.get(stack.seen.source) for seen in (first, last)]
    counted = [disk.fsyncs.get("binlog", 0) for disk in disks if disk is not None and disk.fsyncs is not None]
    if len(counted) < 2:
        return act.of_load(found)
    fsyncs_a_s = (counted[1] - counted[0]) / passed_s
    group = found.load.tps / fsyncs_a_s if fsyncs_a_s else "-"
    return act.of_load(found, {"binlog fsyncs a second": fsyncs_a_s, "commits per binlog fsync": group})


_TRIES: Final = 10
_PHANTOM: Final = "replexplorer.phantom"
_POLL_S: Final = 0.002
_SHOWN_EVERY_S: Final = 0.1
_EARLY_MS: Final = 250.0
"""The reply to the writer and the reader's next look are never so far apart."""


async def phantom_read(act: Act) -> PhaseResult:
    """A writer inserts a row and waits, a reader polls for it; once a try."""
    writer, reader = (act.stack.sql(act.stack.seen.source) for _ in range(2))
    tries: list[Try] = []
    create = f"CREATE TABLE IF NOT EXISTS {_PHANTOM} (id INT PRIMARY KEY) ENGINE=InnoDB"
    try:
        await do(writer, create)
        for number in range(1, _TRIES + 1):
            await do(writer, f"DELETE FROM {_PHANTOM} WHERE id = {number}")
            tries.append(await _try(act, writer, reader, number))
    finally:
        await do(writer, f"DROP TABLE IF EXISTS {_PHANTOM}")
        await asyncio.gather(writer.close(), reader.close())
    return PhaseResult(
        act.phase,
        figures={
            "seen before COMMIT returned": sum(each.is_early for each in tries),
            "row seen after, ms": median(each.seen_ms or 0.0 for each in tries),
            "COMMIT returned after, ms": median(each.returned_ms or 0.0 for each in tries),
        },
    )


async def _try(act: Act, writer: Sql, reader: Sql, number: int) -> Try:
    """One try to its end, shown meanwhile: when the row was first seen, and when the writer's statement
    returned."""
    clock = act.stack.clock
    began_s = clock.monotonic()

    def since_ms() -> float:
        return (clock.monotonic() - began_s) * 1000

    async def write() -> float:
        await do(writer, f"INSERT INTO {_PHANTOM} VALUES ({number})")
        return since_ms()

    async def read() -> float:
        while not await reader.query(f"SELECT id FROM {_PHANTOM} WHERE id = {number}", deadline_s=WITHIN_S):
            await clock.sleep(_POLL_S)
        return since_ms()

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        while True:
            is_over = all(task.done() for task in tasks)
            seen_ms, returned_ms = (task.result() if task.done() else None for task in tasks)
            found = Try(act.phase.name, number, since_ms(), seen_ms, returned_ms, _EARLY_MS)
            act.note(found)
            act.tell(f"try {number} of {_TRIES}", (number - 1 + is_over) / _TRIES)
            if is_over:
                return found
            await clock.sleep(_SHOWN_EVERY_S)
    finally:
        await end_all(*tasks)


CLIENTS: Final = 32
HOT_ROWS: Final = 8
_CONTENDED: Final = "replexplorer.contended"
_COPIED_WITHIN_S: Final = 30.0
_SETTLED_S: Final = 0.5
_TELL_EVERY_S: Final = 0.5
_SEED: Final = 78
_ROLLED_BACK: Final = frozenset({1180, 1205, 1213, 3101})
"""A client tries these again: an error during COMMIT, a lock that was waited for too long, a deadlock, and a
group's certification."""


async def contend(act: Act) -> PhaseResult:
    """Let `CLIENTS` clients, as many at each node that takes writes, update one of `HOT_ROWS` rows at a time;
    raises StackUnavailable where a node does not get the rows."""
    stack = act.stack
    nodes = [node.name for node in stack.seen.nodes if node.role == Role.PRIMARY]
    seconds = act.phase.length(quick=act.quick).seconds
    source = stack.sql(stack.seen.source)
    clients = [stack.sql(nodes[number % len(nodes)]) for number in range(CLIENTS)]
    service, retried = Histogram(), Counter[int]()
    try:
        await do(
            source,
            f"DROP TABLE IF EXISTS {_CONTENDED}",
            f"CREATE TABLE {_CONTENDED} (id INT PRIMARY KEY, number INT NOT NULL) ENGINE=InnoDB",
            f"INSERT INTO {_CONTENDED} VALUES {', '.join(f'({row}, 0)' for row in range(HOT_ROWS))}",
        )
        if not await stack.caught_up(_COPIED_WITHIN_S):
            raise StackUnavailable(
                "a node does not apply what another one commits", "see `replexplorer status`"
            )
        began_s = stack.clock.monotonic()
        ends_s = began_s + seconds

        async def client(number: int, sql: Sql) -> None:
            random = Random(_SEED + number)
            while stack.clock.monotonic() < ends_s:
                row, sent_s = random.randrange(HOT_ROWS), stack.clock.monotonic()
                while not await _updated(sql, row, retried):
                    if stack.clock.monotonic() >= ends_s:
                        return
                if (now_s := stack.clock.monotonic()) < ends_s:
                    service.record(round((now_s - sent_s) * 1e6))

        async def tell() -> None:
            while (now_s := stack.clock.monotonic()) < ends_s:
                act.tell("measuring", (now_s - began_s) / seconds)
                await stack.clock.sleep(_TELL_EVERY_S)

        await all_of(tell(), *(client(number, sql) for number, sql in enumerate(clients)))
    finally:
        try:
            with suppress(ReplexplorerError):
                await _until_same(act, clients[: len(nodes)])
            await do(source, f"DROP TABLE IF EXISTS {_CONTENDED}")
        finally:
            await asyncio.gather(*(sql.close() for sql in (source, *clients)))
    return PhaseResult(
        act.phase,
        figures={RETRIED: retried.total()},
        service=service,
        duration_s=seconds,
        clients=CLIENTS,
        retried=retried.total(),
    )


async def _until_same(act: Act, members: Sequence[Sql]) -> None:
    """Until every node has applied all: a DROP at one node is certified against nothing, and another's
    update that is still to be applied there would find no table and end its membership."""
    clock, before = act.stack.clock, None
    ends_s = clock.monotonic() + _COPIED_WITHIN_S
    while clock.monotonic() < ends_s:
        found = [
            await sql.query(f"SELECT SUM(number) AS changes FROM {_CONTENDED}", deadline_s=WITHIN_S)
            for sql in members
        ]
        if found == before and all(each == found[0] for each in found):
            return
        before = found
        await clock.sleep(_SETTLED_S)


async def _updated(sql: Sql, row: int, retried: Counter[int]) -> bool:
    """Whether the update was committed; False where the server rolled it back."""
    try:
        await do(sql, f"UPDATE {_CONTENDED} SET number = number + 1 WHERE id = {row}")
    except ServerRefused as refused:
        if refused.number not in _ROLLED_BACK:
            raise
        retried[refused.number] += 1
        return False
    return True


SCRIPTS: Final[Mapping[str, Play]] = {
    "archive": archive,
    "missing-key": missing_key,
    "phantom-read": phantom_read,
    "catch-up": catch_up,
    "count-fsyncs": count_fsyncs,
    "hot-rows": contend,
}
"""Scripts of phases that look at the load or have sessions of their own (docs/reference/labs.md)."""

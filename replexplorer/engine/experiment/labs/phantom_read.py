"""phantom-read: who sees a row before its writer's COMMIT returns (docs/labs.md; WL#6355)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import protected
from replexplorer.engine.experiment.labs.lab import (
    Act,
    Lab,
    Length,
    Phase,
    Phases,
    Played,
    Publication,
    Relation,
)
from replexplorer.ports import Clock, Sql

_TRIES = 10
_TABLE = "replexplorer.phantom"
_DDL = f"CREATE TABLE IF NOT EXISTS {_TABLE} (id INT PRIMARY KEY) ENGINE=InnoDB"
_DEADLINE_S = 20.0
_POLL_S = 0.002
_RTT_MS = 1000.0
_EARLY_SHARE = 0.25
"""Of the round trip: the reply to the writer and the reader's next look are never so far apart."""


async def _play(act: Act) -> Played:
    """A writer inserts a row and waits, a reader polls for it; once a try."""
    rig = act.rig
    writer, reader = (rig.sql(rig.seen.source) for _ in range(2))
    seen_ms, returned_ms = [], []
    try:
        await writer.query(_DDL, deadline_s=_DEADLINE_S)
        for number in range(1, _TRIES + 1):
            act.tell(f"try {number} of {_TRIES}", (number - 1) / _TRIES)
            await writer.query(f"DELETE FROM {_TABLE} WHERE id = {number}", deadline_s=_DEADLINE_S)
            seen, returned = await _try(rig.clock, writer, reader, number)
            seen_ms.append(seen)
            returned_ms.append(returned)
    finally:
        await writer.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        await asyncio.gather(writer.close(), reader.close())
    before = sum(
        returned - seen > _EARLY_SHARE * _RTT_MS for seen, returned in zip(seen_ms, returned_ms, strict=True)
    )
    return Played(
        {
            "seen before COMMIT returned": f"{before} of {_TRIES}",
            "row seen after, ms": median(seen_ms),
            "COMMIT returned after, ms": median(returned_ms),
        }
    )


async def _try(clock: Clock, writer: Sql, reader: Sql, number: int) -> tuple[float, float]:
    """When the row was first seen, and when the writer's statement returned; ms since it was sent."""
    began_s = clock.monotonic()

    async def write() -> float:
        await writer.query(f"INSERT INTO {_TABLE} VALUES ({number})", deadline_s=_DEADLINE_S)
        return clock.monotonic()

    writing = asyncio.create_task(write())
    try:
        look = f"SELECT id FROM {_TABLE} WHERE id = {number}"
        while not await reader.query(look, deadline_s=_DEADLINE_S):
            await clock.sleep(_POLL_S)
        seen_s = clock.monotonic()
        returned_s = await writing
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    return (seen_s - began_s) * 1000, (returned_s - began_s) * 1000


def _judge(phases: Phases) -> Sequence[Relation]:
    early = str(phases["AFTER_COMMIT"].figures["seen before COMMIT returned"])
    late = str(phases["AFTER_SYNC"].figures["seen before COMMIT returned"])
    every, none = f"{_TRIES} of {_TRIES}", f"0 of {_TRIES}"
    return (
        protected(tuple(phases.values())),
        Relation("AFTER_COMMIT: others see the row before COMMIT returns", early == every, _of(early, every)),
        Relation(
            "AFTER_SYNC: no other session sees the row before COMMIT returns", late == none, _of(late, none)
        ),
    )


def _of(found: str, would_hold: str) -> str:
    return found if found == would_hold else f"found {found}; {would_hold} would hold"


def _phase(point: str, shows: str) -> Phase:
    settings = (
        "semi_sync=on", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1", "semi_sync_timeout=60s",
        f"rtt={_RTT_MS:g}ms", f"wait_point={point.lower()}", "clients=0",
    )  # fmt: skip
    return Phase(
        point,
        settings,
        full=Length(25),
        quick=Length(25),
        state=ProtectionState.PROTECTED,
        shows=shows,
        play=_play,
    )


PHANTOM_READ = Lab(
    name="phantom-read",
    title="Who sees a row before its writer knows",
    teaches="AFTER_COMMIT shows a row that a failover may lose; AFTER_SYNC shows it once it is safe.",
    source=Publication(
        "Loss-less semi-synchronous replication",
        "WL#6355",
        "https://dev.mysql.com/worklog/task/?id=6355",
        "two sessions on the source",
    ),
    phases=(
        _phase("AFTER_COMMIT", "the engine has committed: others read what no replica has acknowledged"),
        _phase("AFTER_SYNC", "the engine waits as well: no one reads the row before it is on the replica"),
    ),
    judge=_judge,
)

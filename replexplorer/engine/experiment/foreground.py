"""What the load and the replicas feel while something else is done to the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final

from replexplorer.core.load.measurement import Measurement
from replexplorer.engine.experiment.rig import Rig
from replexplorer.ports import Sql

_LOOK_S: Final = 0.2
_CATCH_UP_S: Final = 900.0
_LAG: Final = (
    "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, applying_transaction_original_commit_timestamp, "
    "NOW(6))), 0) AS lag_us FROM performance_schema.replication_applier_status_by_worker "
    "WHERE applying_transaction <> ''"
)
"""Age of what a replica applies now, by its original commit; 0 while it has nothing to do."""


@dataclass(slots=True)
class Foreground:
    """The load's figures, and how far the replicas fell behind."""

    load: Measurement = field(default_factory=Measurement)
    lag_s: float = 0.0
    """The largest of any replica."""

    def figures(self) -> Mapping[str, float | str]:
        """As a phase tells them, each name with its unit."""
        p99_ms, max_ms = self.load.service.percentile_ms(99), self.load.service.max_ms
        return {
            "foreground, TPS": self.load.tps,
            "foreground p99, ms": "-" if p99_ms is None else p99_ms,
            "foreground max, ms": "-" if max_ms is None else max_ms,
            "largest replica lag, s": self.lag_s,
        }


@asynccontextmanager
async def foreground(rig: Rig) -> AsyncIterator[Foreground]:
    """Let the load run and watch it and the replicas until the block ends and the replicas have caught up.

    Raises StackUnavailable at the block's end when the load ended meanwhile.
    """
    felt = Foreground()
    replicas = [rig.sql(name) for name in rig.seen.replicas]
    await rig.load.follow()
    watching = [
        asyncio.create_task(rig.load.measure(duration_s=inf, into=felt.load), name="foreground"),
        asyncio.create_task(_watch_lag(rig, replicas, felt), name="replica lag"),
    ]
    try:
        yield felt
        await _caught_up(rig, replicas)
        for task in watching:
            if task.done():
                task.result()
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.gather(*(sql.close() for sql in replicas))


async def _watch_lag(rig: Rig, replicas: Sequence[Sql], felt: Foreground) -> None:
    while True:
        for sql in replicas:
            rows = await sql.query(_LAG)
            felt.lag_s = max(felt.lag_s, float(rows[0]["lag_us"]) / 1e6)
        await rig.clock.sleep(_LOOK_S)


async def _caught_up(rig: Rig, replicas: Sequence[Sql]) -> None:
    """Wait until the replicas have what the source has now."""
    source = rig.sql(rig.seen.source)
    try:
        rows = await source.query("SELECT @@GLOBAL.gtid_executed AS gtids")
    finally:
        await source.close()
    gtids = str(rows[0]["gtids"]).replace("\n", "")
    for sql in replicas:
        await sql.query(
            f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {_CATCH_UP_S:g}) AS late", deadline_s=_CATCH_UP_S
        )

"""What the load and the replicas feel while something else is done to the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from replexplorer.core.dialect.question import Question
from replexplorer.core.load.measurement import Measurement
from replexplorer.engine.asking import ask
from replexplorer.engine.experiment.rig import Rig
from replexplorer.ports import Sql

T = TypeVar("T")
_LOOK_S: Final = 0.2
_CATCH_UP_S: Final = 900.0


@dataclass(slots=True)
class ForegroundFigures:
    """The load's figures, and how far the replicas fell behind."""

    load: Measurement = field(default_factory=Measurement)
    lag_s: float = 0.0
    """The largest of any replica."""

    def figures(self) -> Mapping[str, float | str]:
        """As a phase reports them, each name with its unit."""
        p99_ms, max_ms = self.load.service.percentile_ms(99), self.load.service.max_ms
        return {
            "foreground, TPS": self.load.tps,
            "foreground p99, ms": "-" if p99_ms is None else p99_ms,
            "foreground max, ms": "-" if max_ms is None else max_ms,
            "largest replica lag, s": self.lag_s,
        }


@asynccontextmanager
async def foreground(rig: Rig) -> AsyncIterator[ForegroundFigures]:
    """Let the load run and watch it and the replicas until the block ends and the replicas have caught up.

    Raises StackUnavailable at the block's end when the load ended meanwhile.
    """
    felt = ForegroundFigures()
    replicas = {name: rig.sql(name) for name in rig.seen.replicas}
    await rig.load.follow()
    watching = [
        asyncio.create_task(rig.load.measure(duration_s=inf, into=felt.load), name="foreground"),
        asyncio.create_task(_watch_lag(rig, replicas, felt), name="replica lag"),
    ]
    try:
        yield felt
        await caught_up(rig)
        for task in watching:
            if task.done():
                task.result()
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.gather(*(sql.close() for sql in replicas.values()))


async def _watch_lag(rig: Rig, replicas: Mapping[str, Sql], felt: ForegroundFigures) -> None:
    """The age of what a replica applies now counts; one that has nothing to do is not behind."""
    while True:
        for name, sql in replicas.items():
            behind = await ask(sql, rig.dialect(name).behind(""))
            if behind is not None and behind.applying_us is not None:
                felt.lag_s = max(felt.lag_s, behind.applying_us / 1e6)
        await rig.clock.sleep(_LOOK_S)


async def caught_up(rig: Rig, within_s: float = _CATCH_UP_S, among: Sequence[str] | None = None) -> bool:
    """Wait until the replicas, or those `among` them, have what the source has now, on connections of its
    own: the lag is looked at meanwhile. Answers whether they have, each within this time."""
    executed = await _asked(rig, rig.seen.source, rig.dialect(rig.seen.source).executed())
    have = [
        await _asked(rig, name, rig.dialect(name).reached(executed, within_s))
        for name in (rig.seen.replicas if among is None else among)
    ]
    return all(have)


async def _asked(rig: Rig, node: str, question: Question[T]) -> T:
    sql = rig.sql(node)
    try:
        return await ask(sql, question, deadline_s=_CATCH_UP_S)
    finally:
        await sql.close()

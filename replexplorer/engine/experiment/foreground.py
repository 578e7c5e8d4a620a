"""What the load and the replicas feel while something is done to the source, and after a failure the rows of
each node against what the clients were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from replexplorer.core.dialect.flavours import Dialect
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, StackUnavailable
from replexplorer.core.load.interval import Measurement
from replexplorer.core.loss.client_log import Rows
from replexplorer.core.loss.ledger import LossLedger, reckon
from replexplorer.core.server.gtid import gtid_count
from replexplorer.engine.asking import ask, ledger_rows
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


_APPLIED_WITHIN_S: Final = 60.0
_STALLED_S: Final = 10.0
"""An applier that gets no further for so long will not."""
_LOOK_EVERY_S: Final = 0.1
_US_PER_S: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Found:
    """One node as it is when its relay log is applied."""

    rows: Rows
    executed: str


async def reckoned(rig: Rig, survivor: str, failed_at_s: float | None) -> LossLedger:
    """See `experiment.rig.Rig.reckon`."""
    await rig.load.stop()
    log = await rig.load.client_log()
    names = [node.name for node in rig.seen.nodes]
    if survivor not in names:
        raise StackUnavailable(f"there is no node {survivor!r}", f"one of {', '.join(names)}")
    others = [name for name in names if name != survivor]
    # The survivor first: what it lacks is the answer, and others are compared with it.
    found = {survivor: await _look(rig, survivor, log.run)}
    looks = await asyncio.gather(*(_look(rig, name, log.run) for name in others), return_exceptions=True)
    for name, look in zip(others, looks, strict=True):
        if isinstance(look, _Found):
            found[name] = look
        elif not isinstance(look, ReplexplorerError):
            raise look
    return reckon(
        log,
        _in_order(names, {name: each.rows for name, each in found.items()}),
        survivor,
        executed={name: each.executed for name, each in found.items()},
        failed_at_us=None if failed_at_s is None else int(failed_at_s * _US_PER_S),
    )


def _in_order(names: list[str], rows: Mapping[str, Rows]) -> dict[str, Rows]:
    """By the order of the nodes."""
    return {name: rows[name] for name in names if name in rows}


async def _look(rig: Rig, node: str, run: int) -> _Found:
    """A node's rows when it has applied what it received; raises StackUnavailable where it does not."""
    sql, dialect = rig.sql(node), rig.dialect(node)
    try:
        await _applied(rig, node, sql, dialect)
        executed = await ask(sql, dialect.executed())
        return _Found(await ledger_rows(sql, dialect, run), executed)
    finally:
        await sql.close()


async def _applied(rig: Rig, node: str, sql: Sql, dialect: Dialect) -> None:
    """Wait until the relay log is applied: what was received and not applied is not lost."""
    began_s = moved_s = rig.clock.monotonic()
    last: str | None = None
    while True:
        behind = await ask(sql, dialect.behind(""))
        queued = "" if behind is None or behind.queued is None else behind.queued
        if not queued:
            return
        now_s = rig.clock.monotonic()
        if queued != last:
            last, moved_s = queued, now_s
        if now_s - moved_s > _STALLED_S or now_s - began_s > _APPLIED_WITHIN_S:
            try:
                threads = await ask(sql, dialect.threads())
            except ServerUnreachable:
                threads = None
            why = "" if threads is None or threads.fault is None else f" ({threads.fault})"
            raise StackUnavailable(
                f"{node} does not apply its relay log{why}: {gtid_count(queued):,} transactions wait there",
                f"{dialect.start_applier()} on {node}, or clear the fault that stopped it",
            )
        await rig.clock.sleep(_LOOK_EVERY_S)

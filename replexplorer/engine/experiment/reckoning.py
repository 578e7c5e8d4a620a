"""Reckoning: after a failure the rows of each node, against what the clients were told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replexplorer.core.dialect.dialect import Dialect
from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, StackUnavailable
from replexplorer.core.loss.client_log import Rows
from replexplorer.core.loss.ledger import LossLedger, reckon
from replexplorer.core.server.gtid import gtid_count
from replexplorer.engine.asking import ask, ledger_rows
from replexplorer.engine.experiment.rig import Rig
from replexplorer.ports import Sql

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

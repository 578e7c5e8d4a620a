"""What noting each row costs: TPS of the `ledger` load against `insert`, in turns.

Both insert one row a transaction in autocommit. The ledger's clients wait for a sync of the load's own disk
before each row, and a session on each node looks which rows can be read.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from bench.figure import Figure, spread
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.workload import LEDGER
from replexplorer.engine.load import measure
from replexplorer.engine.session import Session

CLIENTS = (1, 8, 64)
PAIRS, QUICK_PAIRS, TURN_S, SETTLE_S = 5, 2, 4.0, 1.0


async def turn(session: Session, workload: str) -> Interval:
    """One turn's figures."""
    await session.load.change({"workload": workload})
    clock = session.outside.clock
    measured = await measure(session.load, clock, duration_s=TURN_S, from_s=clock.monotonic() + SETTLE_S)
    if measured.total is None:
        raise RuntimeError("the load made no commits")
    return measured.total


async def compare(session: Session, clients: int, pairs: int) -> Figure:
    """Pairs of turns with this many clients."""
    await session.load.change({"clients": clients})
    noted, plain = [], []
    for _ in range(pairs):
        plain.append(await turn(session, "insert"))
        noted.append(await turn(session, LEDGER))
    ratios = [one.tps / other.tps for one, other in zip(noted, plain, strict=True)]
    syncs_ms = [each.log_sync.mean_ms or 0.0 for each in noted]
    waits_ms = [each.log_wait.mean_ms or 0.0 for each in noted]
    a_sync = [each.log_wait.count / each.log_sync.count for each in noted if each.log_sync.count]
    return Figure(
        "2",
        f"ledger against insert, {clients} clients: TPS",
        "said",
        f"{spread(ratios, 2)}; a sync {statistics.median(syncs_ms):.2f} ms for "
        f"{statistics.median(a_sync):.1f} rows, a row waits {statistics.median(waits_ms):.2f} ms",
        True,
        {
            "tps_ledger": [each.tps for each in noted],
            "tps_insert": [each.tps for each in plain],
            "cpu_percent_ledger": [each.cpu_percent for each in noted],
            "cpu_percent_insert": [each.cpu_percent for each in plain],
            "sync_ms": syncs_ms,
            "wait_ms": waits_ms,
        },
    )


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The price at one client and at many."""
    await session.drive(replace(session.driving.settings(), clients=CLIENTS[0], workload="insert"))
    try:
        pairs, counts = (QUICK_PAIRS, CLIENTS[1:2]) if quick else (PAIRS, CLIENTS)
        return [await compare(session, clients, pairs) for clients in counts]
    finally:
        await session.driving.stop()

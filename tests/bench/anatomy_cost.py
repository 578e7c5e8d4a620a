"""What the commit's anatomy costs: TPS with it against without it, in turns.

With: its instruments on and polled as shipped. Without: neither. Nothing is durable, so that a commit is
as cheap as it gets and the share is the largest that it can be. The turns of a pair follow each other,
now one first and now the other; all other looking goes on in both.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from replexplorer.core.commit_counters import INSTRUMENTS
from replexplorer.engine.measure import measure
from replexplorer.engine.session import Session
from tests.bench.figure import Figure

CLIENTS = (1, 16)
PAIRS, QUICK_PAIRS, TURN_S, SETTLE_S = 20, 10, 3.0, 0.5
LEAST_RATIO = 0.98
SETTINGS = ("semi_sync=off", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "fsync_delay=0", "rtt=0")


async def switch(session: Session, *, on: bool) -> None:
    """Turn the instruments and their polling on or off."""
    names = ", ".join(f"'{name}'" for name in INSTRUMENTS)
    word = "YES" if on else "NO"
    await session.fleet.primary.control.query(
        "UPDATE performance_schema.setup_instruments"
        f" SET enabled = '{word}', timed = '{word}' WHERE name IN ({names})"
    )
    session.controls.counts_commits = on


async def turn(session: Session, *, on: bool) -> float:
    """TPS of one turn."""
    await switch(session, on=on)
    clock = session.outside.clock
    measured = await measure(session.load, clock, duration_s=TURN_S, warmup_s=SETTLE_S)
    return measured.tps


async def compare(session: Session, clients: int, pairs: int) -> Figure:
    """Pairs of turns at so many clients."""
    await session.load.change({"clients": clients})
    await turn(session, on=True)
    turns: list[tuple[float, float]] = []
    for pair in range(pairs):
        tps = {on: await turn(session, on=on) for on in ((True, False) if pair % 2 else (False, True))}
        turns.append((tps[True], tps[False]))
    ratios = sorted(counted / plain for counted, plain in turns)
    median = statistics.median(ratios)
    # The median's 95 % interval, from the order statistics.
    reach, middle = round(0.98 * len(ratios) ** 0.5), len(ratios) // 2
    low, high = ratios[max(0, middle - reach)], ratios[min(len(ratios) - 1, middle + reach)]
    return Figure(
        "5",
        f"TPS, commit anatomy on against off, nothing durable, {clients} clients",
        f">= {LEAST_RATIO}",
        f"{median:.3f} ({low:.3f} to {high:.3f})",
        median >= LEAST_RATIO,
        {
            "pairs": len(turns),
            "turn_s": TURN_S,
            "turns": turns,
            "tps_with": statistics.median(counted for counted, _ in turns),
            "tps_without": statistics.median(plain for _, plain in turns),
        },
    )


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The anatomy's price at one client and at many; the session's knobs are reset afterwards."""
    await session.set([session.parse(text) for text in SETTINGS])
    await session.drive(replace(session.load_settings(), clients=CLIENTS[0], workload="update_index"))
    session.watcher.start()
    try:
        return [await compare(session, clients, QUICK_PAIRS if quick else PAIRS) for clients in CLIENTS]
    finally:
        await switch(session, on=True)
        await session.watcher.stop()
        await session.driving.stop()
        await session.reset()

"""What the commit's anatomy costs: TPS with it against without it, in turns.

With: its instruments on and polled as shipped. Without: neither. Nothing is durable, so that a commit is
as cheap as it gets and the share is the largest that it can be. The turns of a pair follow each other,
now one first and now the other; all other looking goes on in both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from replexplorer.adapters.docker.client import connect
from replexplorer.core.dialect.mysql import INSTRUMENTS
from replexplorer.engine.console import Reset
from replexplorer.engine.load.measure import measure
from replexplorer.engine.session import Session
from tests.bench.figure import Figure
from tests.turning import turn as turn_knobs

CLIENTS = (1, 16)
PAIRS, QUICK_PAIRS, TURN_S, SETTLE_S = 20, 4, 3.0, 0.5
LEAST_RATIO, MOST_CPU_RATIO = 0.98, 1.02
SETTINGS = ("semi_sync=off", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "fsync_delay=0", "rtt=0")


@dataclass(frozen=True)
class Turn:
    """One turn's figures."""

    tps: float
    cpu_us: float
    """Of the primary's server, a commit, whoever else used the machine meanwhile."""


class ServerCpu:
    """CPU time of the primary's container."""

    def __init__(self, stack: str) -> None:
        self._docker = connect()
        labels = {"stack": stack, "node": "db1", "role": "mysqld"}
        wanted = [f"dev.replexplorer.{name}={value}" for name, value in labels.items()]
        [container] = self._docker.containers(filters={"label": wanted})
        self._id = container["Id"]

    def seconds(self) -> float:
        """Used so far."""
        stats: dict[str, Any] = self._docker.stats(self._id, stream=False, one_shot=True)
        return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def close(self) -> None:
        """Let go of the daemon."""
        self._docker.close()


async def switch(session: Session, *, on: bool) -> None:
    """Turn the instruments and their polling on or off."""
    names = ", ".join(f"'{name}'" for name in INSTRUMENTS)
    word = "YES" if on else "NO"
    await session.fleet.source.control.query(
        "UPDATE performance_schema.setup_instruments"
        f" SET enabled = '{word}', timed = '{word}' WHERE name IN ({names})"
    )
    session.sight.counts_commits = on


async def commits_of(session: Session) -> int:
    """That the primary counted so far."""
    rows = await session.fleet.source.control.query(
        "SELECT variable_value AS commits FROM performance_schema.global_status"
        " WHERE variable_name = 'Binlog_cache_use'"
    )
    return int(rows[0]["commits"])


async def turn(session: Session, cpu: ServerCpu, *, on: bool) -> Turn:
    """One turn."""
    await switch(session, on=on)
    commits, used_s = await commits_of(session), cpu.seconds()
    measured = await measure(
        session.load,
        session.outside.clock,
        duration_s=TURN_S,
        from_s=session.outside.clock.monotonic() + SETTLE_S,
    )
    used_s = cpu.seconds() - used_s
    return Turn(measured.tps, 1e6 * used_s / (await commits_of(session) - commits))


def judged(ratios: Sequence[float]) -> tuple[float, str]:
    """The median, and in words with its 95 % interval, from the order statistics."""
    ranked = sorted(ratios)
    reach, middle = round(0.98 * len(ranked) ** 0.5), len(ranked) // 2
    low, high = ranked[max(0, middle - reach)], ranked[min(len(ranked) - 1, middle + reach)]
    median = statistics.median(ranked)
    return median, f"{median:.3f} ({low:.3f} to {high:.3f})"


async def compare(session: Session, cpu: ServerCpu, clients: int, pairs: int) -> list[Figure]:
    """Pairs of turns at so many clients."""
    await session.load.change({"clients": clients})
    await turn(session, cpu, on=True)
    turns: list[tuple[Turn, Turn]] = []
    for pair in range(pairs):
        both = {on: await turn(session, cpu, on=on) for on in ((True, False) if pair % 2 else (False, True))}
        turns.append((both[True], both[False]))
    tps, told_tps = judged([counted.tps / plain.tps for counted, plain in turns])
    cost, told_cost = judged([counted.cpu_us / plain.cpu_us for counted, plain in turns])
    what = f"commit anatomy on against off, nothing durable, {clients} clients"
    samples = {
        "pairs": len(turns),
        "turn_s": TURN_S,
        "tps_with": [counted.tps for counted, _ in turns],
        "tps_without": [plain.tps for _, plain in turns],
        "cpu_us_with": [counted.cpu_us for counted, _ in turns],
        "cpu_us_without": [plain.cpu_us for _, plain in turns],
    }
    return [
        Figure("5", f"TPS, {what}", f">= {LEAST_RATIO}", told_tps, tps >= LEAST_RATIO, samples),
        Figure(
            "5", f"server CPU a commit, {what}", f"<= {MOST_CPU_RATIO}", told_cost, cost <= MOST_CPU_RATIO
        ),
    ]


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The anatomy's price at one client and at many; the session's knobs are reset afterwards."""
    await turn_knobs(session, *SETTINGS)
    await session.drive(replace(session.load_settings(), clients=CLIENTS[0], workload="update_index"))
    session.watcher.start()
    cpu = ServerCpu(session.outside.provider.name)
    try:
        pairs, counts = (QUICK_PAIRS, CLIENTS[-1:]) if quick else (PAIRS, CLIENTS)
        return [figure for clients in counts for figure in await compare(session, cpu, clients, pairs)]
    finally:
        cpu.close()
        await switch(session, on=True)
        await session.watcher.stop()
        await session.driving.stop()
        await session.console.do(Reset())

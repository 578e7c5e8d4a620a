"""What the commit's anatomy costs: TPS with it against without it, in turns.

With: its instruments on and polled as shipped. Without: neither. Nothing is durable, so that a commit is
as cheap as it gets and the share is the largest that it can be; all other looking goes on in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench import paired
from bench.figure import Figure, ratio_figure
from bench.paired import LIMIT_S, QUICK_LIMIT_S
from replexplorer.adapters.docker.client import connect
from replexplorer.core.dialect.dialect import MYSQL_TIMED
from replexplorer.core.dialect.question import listed
from replexplorer.engine.load import measure
from replexplorer.engine.session import Session
from tests.turning import turn as turn_knobs

CLIENTS = (1, 16)
TURN_S, SETTLE_S = 3.0, 0.5
LEAST_RATIO, MOST_CPU_RATIO = 0.98, 1.02
SETTINGS = ("semi_sync=off", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "fsync_delay=0", "rtt=0")


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


def _is_on_by_default(instrument: str) -> bool:
    return instrument == "idle" or instrument.startswith("wait/io/")


async def switch(session: Session, *, on: bool) -> None:
    """Turn the instruments and their polling on or off."""
    names = listed(name for name in (*MYSQL_TIMED.waits, *MYSQL_TIMED.stages) if not _is_on_by_default(name))
    word = "YES" if on else "NO"
    await session.fleet.source.control.query(
        "UPDATE performance_schema.setup_instruments"
        f" SET enabled = '{word}', timed = '{word}' WHERE name IN ({names})"
    )
    session.state.counts_commits = on


async def commits_of(session: Session) -> int:
    """That the primary counted so far."""
    rows = await session.fleet.source.control.query(
        "SELECT variable_value AS commits FROM performance_schema.global_status"
        " WHERE variable_name = 'Binlog_cache_use'"
    )
    return int(rows[0]["commits"])


async def turn(session: Session, cpu: ServerCpu, *, on: bool) -> dict[str, float]:
    """One turn: TPS, and CPU of the primary's server a commit, whoever else used the machine meanwhile."""
    await switch(session, on=on)
    commits, used_s = await commits_of(session), cpu.seconds()
    measured = await measure(
        session.load,
        session.outside.clock,
        duration_s=TURN_S,
        from_s=session.outside.clock.monotonic() + SETTLE_S,
    )
    used_s = cpu.seconds() - used_s
    commits = await commits_of(session) - commits
    return {"tps": measured.tps, "cpu_us": 1e6 * used_s / commits}


async def compare(session: Session, cpu: ServerCpu, clients: int, limit_s: float) -> list[Figure]:
    """Turns at so many clients."""
    await session.load.change({"clients": clients})
    await turn(session, cpu, on=True)
    found = await paired.compare(lambda on: turn(session, cpu, on=on), "tps", limit_s)
    what = f"commit anatomy on against off, nothing durable, {clients} clients"
    return [
        ratio_figure("5", f"TPS, {what}", found["tps"], least=LEAST_RATIO),
        ratio_figure("5", f"server CPU a commit, {what}", found["cpu_us"], most=MOST_CPU_RATIO),
    ]


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The anatomy's price at one client and at many; the session's knobs are reset afterwards."""
    await turn_knobs(session, *SETTINGS)
    await session.drive(replace(session.driving.settings(), clients=CLIENTS[0], workload="update_index"))
    session.monitor.start()
    cpu = ServerCpu(session.outside.provider.name)
    try:
        limit_s, counts = (QUICK_LIMIT_S, CLIENTS[-1:]) if quick else (LIMIT_S, CLIENTS)
        return [figure for clients in counts for figure in await compare(session, cpu, clients, limit_s)]
    finally:
        cpu.close()
        await switch(session, on=True)
        await session.monitor.stop()
        await session.driving.stop()
        await session.console.reset()

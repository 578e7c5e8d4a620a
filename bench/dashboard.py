"""P6, P7, P12: what the dashboard costs, how soon it shows commits, and what an hour of it holds and writes.

It runs in a real terminal. `python -m bench.dashboard STACK [SECONDS]` measures P6 on a stack that
runs, or with a time P12 over so long.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import paired
from bench.figure import Figure, ratio_figure, spread
from bench.given_stack import print_figures
from bench.paired import LIMIT_S, QUICK_LIMIT_S
from bench.terminal import Terminal, dashboard
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.engine.session import Session
from tests.turning import turn

WIDE, SMALL = (120, 36), (80, 24)
SETTLE_S = 3.0
"""After the first figure, before anything is measured: start-up is not what is looked for."""
TURN_S, TURN_SETTLE_S = 3.0, 0.7
"""What was held catches up within a moment, which is in no turn."""
LEAST_RATIO, MOST_CPU_PERCENT = 0.97, 5.0
MOST_BYTES_PER_S = 4096
PICTURE_S, COLD_RATE_S, WARM_RATE_S = 0.7, 4.0, 1.5
HOUR_S = 3600.0
HOUR_RATE = 2000
_SAMPLE_S = 5.0
_MOST_GROWTH_MB = 5.0
_MOST_RECORDED_MB = 20.0
_FSYNCS = ("sync_binlog", "innodb_flush_log_at_trx_commit")
_COMMITS = (
    "SELECT VARIABLE_VALUE AS n FROM performance_schema.global_status "
    "WHERE VARIABLE_NAME = 'Binlog_cache_use'"
)


@dataclass
class Watched:
    """A load under the dashboard."""

    tps: float
    cpu_percent: float
    bytes_per_s: float


async def figures(session: Session, *, quick: bool = False) -> list[Figure]:
    """P6 and P7 on an attached session whose load is not running."""
    started = await starts(session, rounds=1 if quick else 5)  # first: then the replica rests
    price_of = await price(
        session, limit_s=QUICK_LIMIT_S if quick else LIMIT_S, length_s=5.0 if quick else 30.0
    )
    return [*price_of, *started]


# -- P6


async def price(session: Session, *, limit_s: float, length_s: float) -> list[Figure]:
    """The load of the knobs' defaults while the app works and while its process is held, in turns of one
    load: all that the app does, its looks at the servers as well, against a load that nobody looks at."""
    async with dashboard(session.fleet.outside.provider.name, *WIDE) as terminal:
        await asyncio.sleep(SETTLE_S)
        wide: list[Watched] = []

        async def turn(on: bool) -> Mapping[str, float]:
            terminal.hold(on=not on)
            await asyncio.sleep(TURN_SETTLE_S)
            seen = await watched(session, terminal, TURN_S)
            if on:
                wide.append(seen)
            return {"tps": seen.tps}

        found = (await paired.compare(turn, "tps", limit_s))["tps"]
        terminal.hold(on=False)
    small = await under_dashboard(session, length_s, SMALL)
    cpu = [each.cpu_percent for each in wide]
    return [
        ratio_figure("P6", "load under the dashboard to unwatched, TPS", found, least=LEAST_RATIO),
        Figure(
            "P6",
            "dashboard's process at 120x36, % of a core",
            f"<= {MOST_CPU_PERCENT:g}",
            spread(cpu),
            statistics.median(cpu) <= MOST_CPU_PERCENT,
            {"cpu_percent": cpu},
        ),
        Figure(
            "P6",
            "to the terminal at 80x24, bytes/s",
            f"<= {MOST_BYTES_PER_S}",
            f"{small.bytes_per_s:.0f}",
            small.bytes_per_s <= MOST_BYTES_PER_S,
        ),
    ]


async def under_dashboard(session: Session, length_s: float, size: tuple[int, int]) -> Watched:
    """The load with the dashboard at this size before it."""
    async with dashboard(session.fleet.outside.provider.name, *size) as terminal:
        await asyncio.sleep(SETTLE_S)
        return await watched(session, terminal, length_s)


async def watched(session: Session, terminal: Terminal, length_s: float) -> Watched:
    """What the load makes, and the app takes, for so long."""
    cpu_s, written = terminal.cpu_s(), terminal.written_bytes
    began_s = time.monotonic()
    tps = await server_tps(session, length_s)
    took_s = time.monotonic() - began_s
    return Watched(
        tps, 100 * (terminal.cpu_s() - cpu_s) / took_s, (terminal.written_bytes - written) / took_s
    )


async def server_tps(session: Session, length_s: float) -> float:
    """Commits a second as the server counts them, for so long: the same yardstick for both."""
    sql = session.fleet.source.control
    before, began_s = int((await sql.query(_COMMITS))[0]["n"]), time.monotonic()
    await asyncio.sleep(length_s)
    after, ended_s = int((await sql.query(_COMMITS))[0]["n"]), time.monotonic()
    return (after - before) / (ended_s - began_s)


# -- P7


async def starts(session: Session, *, rounds: int) -> list[Figure]:
    """From the command to the first picture and to a rate on it: images built and nothing running, and on a
    stack that runs."""
    warm, cold = [], []
    for _ in range(rounds):
        async with dashboard(session.fleet.outside.provider.name, *WIDE) as terminal:
            warm.append(terminal)
        stack = DockerProvider(f"bench-cold-{os.getpid()}")
        try:
            async with dashboard(stack.name, *WIDE) as terminal:
                cold.append(terminal)
        finally:
            await stack.down()
            await stack.close()
    return [
        start_figure("start to the first picture, s", [each.picture_s for each in warm + cold], PICTURE_S),
        start_figure("cold start to the first rate, s", [each.first_s for each in cold], COLD_RATE_S),
        start_figure(
            "to the first rate of a stack that runs, s", [each.first_s for each in warm], WARM_RATE_S
        ),
    ]


def start_figure(what: str, took_s: Sequence[float], most_s: float) -> Figure:
    """One of them, against the longest that it may take."""
    holds = statistics.median(took_s) <= most_s
    return Figure("P7", what, f"<= {most_s:g}", spread(took_s, 2), holds, {"took_s": list(took_s)})


# -- P12


async def hour(session: Session, length_s: float = HOUR_S) -> list[Figure]:
    """What the app's memory and its session file grow by under 2,000 TPS; its first seconds are start-up."""
    # Nothing durable on either server, so that small machines keep the rate.
    await turn(session, *(f"{knob}{node}=0" for knob in _FSYNCS for node in ("", "@db2")))
    await turn(session, "clients=16", "load_mode=open", f"rate={HOUR_RATE}")
    held_mb = []
    try:
        async with dashboard(session.fleet.outside.provider.name, *WIDE) as terminal:
            await asyncio.sleep(SETTLE_S)
            recorded_bytes = -terminal.recorded_bytes()
            measuring = asyncio.create_task(server_tps(session, length_s))
            while not measuring.done():
                held_mb.append(terminal.rss_bytes() / 2**20)
                await asyncio.wait({measuring}, timeout=_SAMPLE_S)
            tps = await measuring
            recorded_bytes += terminal.recorded_bytes()
    finally:
        await turn(session, "load_mode=closed", "clients=8", "rate=500")
        await turn(session, *(f"{knob}{node}=1" for knob in _FSYNCS for node in ("", "@db2")))
    some = max(1, min(6, len(held_mb) // 4))
    first_mb, last_mb = statistics.median(held_mb[:some]), statistics.median(held_mb[-some:])
    recorded_mb = recorded_bytes / 2**20
    an_hour_mb = recorded_mb * HOUR_S / length_s
    what = f"over {length_s / 60:.0f} min at {tps:.0f} TPS, MB"
    return [
        Figure(
            "P12",
            f"app's memory {what}",
            f"grows < {_MOST_GROWTH_MB:g}",
            f"{last_mb - first_mb:+.1f}: {first_mb:.1f} to {last_mb:.1f}",
            last_mb - first_mb < _MOST_GROWTH_MB,
            {"rss_mb": held_mb, "every_s": _SAMPLE_S, "tps": tps},
        ),
        Figure(
            "P12",
            f"session file {what}",
            f"< {_MOST_RECORDED_MB:g} an hour",
            f"{recorded_mb:.1f}: {an_hour_mb:.1f} an hour",
            an_hour_mb < _MOST_RECORDED_MB if recorded_bytes else None,
            {"recorded_bytes": recorded_bytes},
        ),
    ]


def main() -> None:
    """Measure on a stack that runs already."""

    async def measure(session: Session) -> list[Figure]:
        if len(sys.argv) > 2:
            return await hour(session, float(sys.argv[2]))
        return await figures(session, quick=bool(os.environ.get("QUICK")))

    print_figures(sys.argv[1], measure)


if __name__ == "__main__":
    main()

"""P6, P7, P12: what the dashboard costs, how soon it shows commits, and what an hour of it holds and writes.

It runs in a real terminal. `python -m tests.bench.dashboard STACK [SECONDS]` measures P6 on a stack that
runs, or with a time P12 over so long.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from dataclasses import dataclass

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.engine.session import Session
from tests.bench.figure import Figure, spread
from tests.bench.given_stack import print_figures
from tests.bench.terminal import PROGRAM, dashboard
from tests.turning import turn

WIDE, SMALL = (120, 36), (80, 24)
SETTLE_S = 3.0
"""After the first figure, before anything is measured: start-up is not what is looked for."""
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
    return [
        *await price(session, rounds=2 if quick else 7, length_s=4.0 if quick else 12.0),
        await cold_start(rounds=1 if quick else 3),
    ]


# -- P6


async def price(session: Session, *, rounds: int, length_s: float) -> list[Figure]:
    """The load of the knobs' defaults under the dashboard and without it, in turns."""
    watched, alone = [], []
    for number in range(rounds):
        if number % 2:
            alone.append(await headless(session, length_s))
        watched.append(await under_dashboard(session, length_s, WIDE))
        if not number % 2:
            alone.append(await headless(session, length_s))
    small = await under_dashboard(session, length_s, SMALL)
    ratios = [each.tps / tps for each, tps in zip(watched, alone, strict=True)]
    ratio = statistics.median(each.tps for each in watched) / statistics.median(alone)
    cpu = [each.cpu_percent for each in watched]
    wide_bytes = [each.bytes_per_s for each in watched]
    samples = {"watched_tps": [each.tps for each in watched], "headless_tps": alone}
    return [
        Figure(
            "P6",
            "load under the dashboard to headless, TPS",
            ">= 0.97",
            f"{ratio:.3f} (pairs {min(ratios):.3f} to {max(ratios):.3f}): "
            f"{statistics.median(samples['watched_tps']):.0f} to {statistics.median(alone):.0f} TPS",
            ratio >= 0.97,
            samples,
        ),
        Figure(
            "P6",
            "dashboard's process at 120x36, % of a core",
            "<= 6",
            spread(cpu),
            statistics.median(cpu) <= 6,
            {"cpu_percent": cpu},
        ),
        Figure(
            "P6",
            "to the terminal at 120x36, bytes/s",
            "<= 4096",
            spread(wide_bytes, 0),
            statistics.median(wide_bytes) <= 4096,
            {"bytes_per_s": wide_bytes},
        ),
        Figure(
            "P6",
            "to the terminal at 80x24, bytes/s",
            "<= 2048",
            f"{small.bytes_per_s:.0f}",
            small.bytes_per_s <= 2048,
        ),
    ]


async def under_dashboard(session: Session, length_s: float, size: tuple[int, int]) -> Watched:
    """The load with the dashboard at this size before it."""
    async with dashboard(session.fleet.outside.provider.name, *size) as terminal:
        await asyncio.sleep(SETTLE_S)
        cpu_s, written = terminal.cpu_s(), terminal.written_bytes
        began_s = time.monotonic()
        tps = await server_tps(session, length_s)
        took_s = time.monotonic() - began_s
        return Watched(
            tps, 100 * (terminal.cpu_s() - cpu_s) / took_s, (terminal.written_bytes - written) / took_s
        )


async def headless(session: Session, length_s: float) -> float:
    """TPS of `replexplorer load` with the same knobs."""
    stack = session.fleet.outside.provider.name
    load = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *("--stack", stack, "load", "--duration", "600"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert load.stderr is not None
    drained: asyncio.Task[bytes] | None = None
    try:
        while not (line := await load.stderr.readline()).startswith(b"["):
            if not line:
                raise RuntimeError("`replexplorer load` ended before its first second")
        drained = asyncio.create_task(load.stderr.read())
        await asyncio.sleep(SETTLE_S - 1)
        return await server_tps(session, length_s)
    finally:
        if load.returncode is None:
            load.terminate()
        await load.wait()
        if drained is not None:
            await drained


async def server_tps(session: Session, length_s: float) -> float:
    """Commits a second as the server counts them, for so long: the same yardstick for both."""
    sql = session.fleet.source.control
    before, began_s = int((await sql.query(_COMMITS))[0]["n"]), time.monotonic()
    await asyncio.sleep(length_s)
    after, ended_s = int((await sql.query(_COMMITS))[0]["n"]), time.monotonic()
    return (after - before) / (ended_s - began_s)


# -- P7


async def cold_start(*, rounds: int) -> Figure:
    """Images built and nothing running: from the command to a rate on the screen."""
    took_s = []
    for _ in range(rounds):
        stack = DockerProvider(f"bench-cold-{os.getpid()}")
        try:
            async with dashboard(stack.name, *WIDE) as terminal:
                took_s.append(terminal.first_s)
        finally:
            await stack.down()
            await stack.close()
    return Figure(
        "P7",
        "cold start to the first rate on the screen, s",
        "<= 4",
        spread(took_s),
        statistics.median(took_s) <= 4,
        {"took_s": took_s},
    )


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

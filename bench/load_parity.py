"""P1, P3, P4, P5: our load beside sysbench's on the same server, and what it says of stalls.

`closed_figures` and `open_figures` answer them on an attached session whose load is not running. A and B
alternate within each cell, medians are compared, and a cell tells how busy the machine was meanwhile.
sysbench's password goes through a file of mode 0600.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path

import docker

from bench.figure import Figure, shift_figure
from bench.given_stack import print_figures
from bench.paired import differing
from replexplorer.adapters.docker.inventory import LABEL
from replexplorer.adapters.load import LoadGroup
from replexplorer.core.fault import parse_fault
from replexplorer.core.load.interval import Interval
from replexplorer.core.stats.histogram import slot_middle_us
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings, LoadTarget
from tests.turning import turn

TABLE_SIZE = 10_000
WARM_UP_S = 0.5
DURABILITY = {
    "nothing durable": ("sync_binlog=0", "innodb_flush_log_at_trx_commit=0"),
    "durable": ("sync_binlog=1", "innodb_flush_log_at_trx_commit=1"),
    "durable, fsync 2 ms": ("sync_binlog=1", "innodb_flush_log_at_trx_commit=1", "fsync_delay=2"),
    "semi-sync 2 ms": ("sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "rtt=2", "semi_sync=on"),
}
DEFAULTS = ("semi_sync=off", "rtt=0", "fsync_delay=0", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1")
CELLS = [
    (workload, clients, durability)
    for durability in DURABILITY
    for workload in ("update_index", "insert")
    for clients in (1, 16, 32)
]
QUICK_CELLS = [
    ("update_index", 1, "nothing durable"),
    ("insert", 16, "nothing durable"),
    ("update_index", 32, "durable"),
    ("update_index", 16, "durable, fsync 2 ms"),
    ("insert", 1, "semi-sync 2 ms"),
    ("update_index", 32, "semi-sync 2 ms"),
]
"""Each client count, workload and durability at least once; the cheapest commit and the most queueing."""
OPEN_RATE, OPEN_CLIENTS = 500.0, 16
PAUSE_S, PAUSE_RATE = 5.0, 200.0
STALL_S, STALL_EVERY_S = 0.1, 0.5
LEAST_RATIO, MOST_CPU_RATIO = 0.95, 1.25
ALIKE_MS, ALIKE_SHARE = 0.1, 0.05


@dataclass
class Run:
    """One run of either tool."""

    tps: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    busy_percent: float
    """Of all cores of the machine."""
    cpu_us: float
    """CPU of the tool itself a transaction: what a busy machine moves least."""


async def closed_figures(session: Session, *, quick: bool = False) -> list[Figure]:
    """P1: closed loops in each durability, while no replica applies anything: one that falls behind takes
    half of a small machine from whoever has the next turn. Its IO thread acknowledges all the same."""
    target = await session.driving.target()
    await session.console.inject(parse_fault("applier_stop", session.roster))
    async with sysbench_of(target) as sysbench:
        return await parity(session, target, sysbench, quick=quick)


async def open_figures(session: Session, *, quick: bool = False) -> list[Figure]:
    """P3, P4, P5: the open loop, and what it says of stalls."""
    target = await session.driving.target()
    blocks, length_s = (2, 3.0) if quick else (7, 8.0)
    async with sysbench_of(target) as sysbench:
        found = [await open_parity(target, sysbench, blocks=blocks, length_s=length_s)]
    found.append(await stall_immunity(target, blocks=blocks, length_s=length_s))
    found.append(await stall_honesty(session.fleet.outside.provider.name, target))
    return found


# -- P1


async def parity(session: Session, target: LoadTarget, sysbench: Sysbench, *, quick: bool) -> list[Figure]:
    """Closed loop, a cell for each workload, number of clients and durability."""
    found = []
    asked = ""
    for workload, clients, durability in QUICK_CELLS if quick else CELLS:
        if durability != asked:
            await turn(session, *DEFAULTS)
            await turn(session, *DURABILITY[durability])
            asked = durability
        settings = LoadSettings(clients, workload, TABLE_SIZE)
        ours, theirs = [], []
        for _ in range(2 if quick else 5):
            ours.append(await our_run(target, settings, 2.0 if quick else 4.0))
            theirs.append(await sysbench.run(settings, 2.0 if quick else 4.0))
        found.append(cell(f"{workload}, {clients} clients, {durability}", ours, theirs))
    return found


def cell(what: str, ours: Sequence[Run], theirs: Sequence[Run]) -> Figure:
    """One comparison."""
    ratio = median(ours, "tps") / median(theirs, "tps")
    cpu = median(ours, "cpu_us") / median(theirs, "cpu_us")
    busy = max(median(ours, "busy_percent"), median(theirs, "busy_percent"))
    pairs = [one.tps / other.tps for one, other in zip(ours, theirs, strict=True)]
    measured = (
        f"{ratio:.3f} ({min(pairs):.3f} to {max(pairs):.3f}): "
        f"{median(ours, 'tps'):.0f} to {median(theirs, 'tps'):.0f} TPS, "
        f"p50 {median(ours, 'p50_ms'):.2f} to {median(theirs, 'p50_ms'):.2f}, "
        f"p95 {median(ours, 'p95_ms'):.2f} to {median(theirs, 'p95_ms'):.2f}, "
        f"CPU {cpu:.2f}: {median(ours, 'cpu_us'):.0f} to {median(theirs, 'cpu_us'):.0f} us, "
        f"machine {busy:.0f} %"
    )
    samples = {"ours": [asdict(each) for each in ours], "sysbench": [asdict(each) for each in theirs]}
    holds = ratio >= LEAST_RATIO and cpu <= MOST_CPU_RATIO
    for name in ("p50_ms", "p95_ms"):
        allowed_ms = max(ALIKE_MS, ALIKE_SHARE * median(theirs, name))
        holds = holds and abs(median(ours, name) - median(theirs, name)) <= allowed_ms
    target = f"TPS >= {LEAST_RATIO:g}, CPU <= {MOST_CPU_RATIO:g}; p50, p95 5 % or {ALIKE_MS:g} ms"
    return Figure("P1", what, target, measured, holds, samples)


def median(runs: Sequence[Run], name: str) -> float:
    """The median of one figure."""
    return statistics.median(float(getattr(run, name)) for run in runs)


# -- P3


async def open_parity(target: LoadTarget, sysbench: Sysbench, *, blocks: int, length_s: float) -> Figure:
    """Response p99 at 500 TPS beside sysbench's `--rate=500`."""
    settings = LoadSettings(OPEN_CLIENTS, "update_index", TABLE_SIZE, mode="open", rate_tps=OPEN_RATE)

    async def p99_ms(is_ours: bool) -> float:
        run = our_run(target, settings, length_s) if is_ours else sysbench.run(settings, length_s)
        return (await run).p99_ms

    what = "open loop, 500 TPS: response p99 less sysbench's, ms"
    return shift_figure("P3", what, *await differing(p99_ms, blocks), most=2)


# -- P4

_HOST = """
import asyncio, json, sys
from replexplorer.ports import LoadSettings, LoadTarget
from bench.load_parity import merged
async def main():
    asked = json.loads(sys.stdin.readline())
    target, settings = LoadTarget(**asked["target"]), LoadSettings(**asked["settings"])
    total = await merged(target, settings, asked["length_s"], tell=True)
    print(total.response.percentile_ms(99), flush=True)
asyncio.run(main())
"""


async def stall_immunity(target: LoadTarget, *, blocks: int, length_s: float) -> Figure:
    """The app's process stopped 100 ms in every 500, against left alone."""

    async def p99_ms(is_stalled: bool) -> float:
        return await hosted(target, length_s, is_stalled=is_stalled)

    what = "app stopped 100 ms in 500: response p99 moves, ms"
    return shift_figure("P4", what, *await differing(p99_ms, blocks), most=1)


async def hosted(target: LoadTarget, length_s: float, *, is_stalled: bool) -> float:
    """Response p99 of an open load whose app is a process of its own."""
    settings = LoadSettings(OPEN_CLIENTS, "update_index", TABLE_SIZE, mode="open", rate_tps=OPEN_RATE)
    host = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _HOST,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert host.stdin is not None
    assert host.stdout is not None
    asked = {"target": asdict(target), "settings": asdict(settings), "length_s": length_s}
    host.stdin.write(json.dumps(asked).encode() + b"\n")
    await host.stdout.readline()  # it commits
    stalls = asyncio.create_task(_stall(host.pid)) if is_stalled else None
    try:
        p99_ms = float(await host.stdout.readline())
    finally:
        if stalls is not None:
            stalls.cancel()
            await asyncio.gather(stalls, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            host.send_signal(signal.SIGCONT)
        host.stdin.close()
        await host.wait()
    return p99_ms


async def _stall(pid: int) -> None:
    """Stop a process again and again."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(STALL_S)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(STALL_EVERY_S - STALL_S)


# -- P5


async def stall_honesty(stack: str, target: LoadTarget) -> Figure:
    """The primary paused 5 s under 200 TPS: how many arrivals intended then are late by their share."""
    settings = LoadSettings(4, "update_index", TABLE_SIZE, mode="open", rate_tps=PAUSE_RATE, spacing="even")
    client = docker.from_env(version="auto")
    group = LoadGroup()
    try:
        labels = [f"{LABEL}stack={stack}", f"{LABEL}node=db1", f"{LABEL}role=mysqld"]
        [server] = client.containers.list(filters={"label": labels})
        await group.start(target, settings, interval_s=0.5)
        await asyncio.sleep(1)
        await asyncio.to_thread(server.pause)
        began_s = time.monotonic()
        try:
            await asyncio.sleep(PAUSE_S)
        finally:
            length_s = time.monotonic() - began_s
            await asyncio.to_thread(server.unpause)
        await group.drain()
    finally:
        await group.stop()
        client.close()
    total = reduce(Interval.followed_by, [each async for each in group.intervals()])
    kept = min(late_share(total, length_s, tenth / 10) for tenth in range(10))
    max_ms = total.response.max_ms or 0.0
    lost = total.arrivals - total.response.count - total.dropped - total.errors - total.unknown
    return Figure(
        "P5",
        f"paused {length_s:.1f} s at 200 TPS: late by their share; max, ms; lost silently",
        ">= 95 %; >= 4900; 0",
        f"{100 * kept:.1f} %; {max_ms:.0f}; {lost}",
        kept >= 0.95 and max_ms >= 4900 and lost == 0,
        {"share": kept, "max_ms": max_ms, "arrivals": total.arrivals, "dropped": total.dropped},
    )


def late_share(total: Interval, length_s: float, part: float) -> float:
    """Of the arrivals that were intended before this part of the pause was left, how many waited for it."""
    least_us = 1e6 * length_s * part
    late = sum(times for slot, times in total.response.counts.items() if slot_middle_us(slot) >= least_us)
    return min(1.0, late / (PAUSE_RATE * length_s * (1 - part)))


# -- the two tools


async def our_run(target: LoadTarget, settings: LoadSettings, length_s: float) -> Run:
    """Our load, warmed up."""
    busy = Busy()
    total = await merged(target, settings, length_s)
    latency = total.latency
    return Run(
        total.tps,
        latency.mean_ms or math.nan,
        latency.percentile_ms(50) or math.nan,
        latency.percentile_ms(95) or math.nan,
        latency.percentile_ms(99) or math.nan,
        busy.percent(),
        1e4 * total.cpu_percent * total.duration_s / max(1, total.commits),
    )


async def merged(
    target: LoadTarget, settings: LoadSettings, length_s: float, *, tell: bool = False
) -> Interval:
    """So many seconds of our load after the warm-up, as one interval; an open one is drained."""
    group = LoadGroup()
    await group.start(target, settings, interval_s=WARM_UP_S)
    if tell:
        print("started", flush=True)
    found: list[Interval] = []
    try:
        async for interval in _warm(group):
            found.append(interval)
            if sum(each.duration_s for each in found) >= length_s - 0.05:
                break
        if settings.mode == "open":
            await group.drain()
    finally:
        await group.stop()
    if settings.mode == "open":
        found += [each async for each in group.intervals()]
    return reduce(Interval.followed_by, found)


async def _warm(group: LoadGroup) -> AsyncIterator[Interval]:
    """Intervals after the first that has commits."""
    is_warm = False
    async for interval in group.intervals():
        if is_warm:
            yield interval
        is_warm = is_warm or interval.commits > 0


class Busy:
    """How busy the machine is from now on."""

    def __init__(self) -> None:
        self._before = self._read()

    def _read(self) -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    def percent(self) -> float:
        """Of all cores since the beginning."""
        (total, idle), (total_before, idle_before) = self._read(), self._before
        return 100 * (1 - (idle - idle_before) / max(1, total - total_before))


_BUCKET = re.compile(r"^\s*([\d.]+) \|\**\s+(\d+)$", re.MULTILINE)


@dataclass
class Sysbench:
    """sysbench 1.0 against the same server, in a database of its own."""

    options: Path
    keys: str = "special"
    """How they are drawn."""

    async def run(self, settings: LoadSettings, length_s: float) -> Run:
        """One run of the script of the same name."""
        busy, before = Busy(), resource.getrusage(resource.RUSAGE_CHILDREN)
        open_options = [f"--rate={settings.rate_tps:g}"] if settings.mode == "open" else []
        text = await self._call(
            f"oltp_{settings.workload}",
            f"--threads={settings.clients}",
            f"--time={math.ceil(length_s)}",
            "--histogram=on",
            f"--rand-type={self.keys}",
            *open_options,
            "run",
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        [(transactions, tps)] = re.findall(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
        [mean_ms] = re.findall(r"avg:\s+([\d.]+)", text)
        buckets = [(float(value), int(times)) for value, times in _BUCKET.findall(text)]
        p50_ms, p95_ms, p99_ms = (nearest(buckets, each) for each in (50, 95, 99))
        cpu_us = 1e6 * cpu_s / max(1, int(transactions))
        return Run(float(tps), float(mean_ms), p50_ms, p95_ms, p99_ms, busy.percent(), cpu_us)

    async def prepare(self) -> None:
        """Its table, anew."""
        await self._call("oltp_update_index", "cleanup")
        await self._call("oltp_update_index", "prepare")

    async def clean_up(self) -> None:
        """Leave nothing behind."""
        await self._call("oltp_update_index", "cleanup")

    async def _call(self, script: str, *words: str) -> str:
        command = ("sysbench", f"--config-file={self.options}", script, *words)
        ended = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
        )
        if ended.returncode:
            raise RuntimeError(f"sysbench {script} {words[-1]}: {ended.stdout[-300:]}{ended.stderr[-300:]}")
        return ended.stdout


def nearest(buckets: Sequence[tuple[float, int]], percent: float) -> float:
    """The nearest-rank percentile of counts by value."""
    rank = max(1, math.ceil(sum(times for _, times in buckets) * percent / 100))
    for value, times in buckets:
        rank -= times
        if rank <= 0:
            return value
    return math.nan


@contextlib.asynccontextmanager
async def sysbench_of(target: LoadTarget, *, prepares: bool = True) -> AsyncIterator[Sysbench]:
    """sysbench for a target, with prepared statements or plain ones; its table is there within."""
    options = {
        "mysql-host": target.host,
        "mysql-port": target.port,
        "mysql-user": target.user,
        "mysql-password": target.password,
        "mysql-db": "sandbox",
        "table-size": TABLE_SIZE,
        "db-driver": "mysql",
        "db-ps-mode": "auto" if prepares else "disable",
    }
    with tempfile.TemporaryDirectory() as folder:  # its mode is 0700
        path = Path(folder) / "sysbench.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in options.items()), encoding="utf-8")
        sysbench = Sysbench(path)
        await sysbench.prepare()
        try:
            yield sysbench
        finally:
            await sysbench.clean_up()


def main() -> None:
    """Measure on a stack that runs already: `python -m bench.load_parity STACK`."""
    print_figures(sys.argv[1], _all)


async def _all(session: Session) -> list[Figure]:
    quick = bool(os.environ.get("QUICK"))
    return [*await closed_figures(session, quick=quick), *await open_figures(session, quick=quick)]


if __name__ == "__main__":
    main()

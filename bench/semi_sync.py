"""P2: one client's semi-synchronous commits beside what the link and the local part of a commit allow."""

from __future__ import annotations

import statistics

from bench.figure import Figure
from bench.load_parity import DEFAULTS, TABLE_SIZE, merged
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings, LoadTarget
from tests.turning import turn

RTT_MS = 85
SETTINGS = LoadSettings(1, "update_index", TABLE_SIZE)


async def figures(session: Session, *, quick: bool = False) -> list[Figure]:
    """On an attached session whose load is not running; the knobs are left at their defaults."""
    target = await session.driving.target()
    try:
        return [await one_client(session, target, rounds=2 if quick else 7, length_s=4.0 if quick else 10.0)]
    finally:
        await turn(session, *DEFAULTS)


async def one_client(session: Session, target: LoadTarget, *, rounds: int, length_s: float) -> Figure:
    """TPS at 85 ms over the bound 1 / (measured RTT + mean of an asynchronous commit), in turns."""
    replica = session.fleet.replicas[0]
    await turn(session, f"rtt={RTT_MS}")
    tps, rtts_ms, locals_ms = [], [], []
    for _ in range(rounds):
        await turn(session, "semi_sync=off")
        apart = await merged(target, SETTINGS, length_s / 4)
        await turn(session, "semi_sync=on")
        tps.append((await merged(target, SETTINGS, length_s)).tps)
        rtt_ms = (await session.fleet.source.agent.link(replica.name)).measured_ms
        if apart.latency.mean_ms is None or rtt_ms is None:
            raise RuntimeError("no commits, or no answer on the link")
        rtts_ms.append(rtt_ms)
        locals_ms.append(apart.latency.mean_ms)
    ratios = [
        rate * (rtt_ms + local_ms) / 1000
        for rate, rtt_ms, local_ms in zip(tps, rtts_ms, locals_ms, strict=True)
    ]
    ratio = statistics.median(ratios)
    return Figure(
        "P2",
        f"semi-sync, 1 client, {RTT_MS} ms: TPS of 1/(RTT + async mean)",
        ">= 0.97",
        f"{ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}): {statistics.median(tps):.2f} TPS, "
        f"RTT {statistics.median(rtts_ms):.2f}, async {statistics.median(locals_ms):.2f} ms",
        ratio >= 0.97,
        {"ratio": ratios, "tps": tps, "rtt_ms": rtts_ms, "async_mean_ms": locals_ms},
    )

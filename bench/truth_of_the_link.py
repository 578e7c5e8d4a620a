"""P10: asked against measured round trips, idle and on a full machine, and clients that are not touched."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from dataclasses import replace
from typing import Any

from docker import DockerClient

from bench.figure import Figure, spread
from replexplorer.adapters.docker import inventory
from replexplorer.engine.session import Session
from tests.turning import turn

ASKED_MS = (1, 2, 5, 10, 25, 85, 200)
PROBES = 5
"""That one reading is the median of."""
PINGS = 200
LOADED_MS = (85, 1)
LOAD_CLIENTS = 32
USUAL_SHARES = 1024
"""A container's weight where nobody says another."""
LOADED_S, LOADED_PER_S = 10.0, 25.0
PROBER = """
import json, select, sys, time
sys.path.insert(0, "/opt/replexplorer")
import agent, probe
agent.ask_for_short_slices()
peer, seconds, pace_s = sys.argv[1], float(sys.argv[2]), 1 / float(sys.argv[3])
asks = probe.Socket(47123)
asks._port = probe.PORT
sent, rtts_ms, next_s = 0, [], time.monotonic()
end_s = next_s + seconds
while time.monotonic() < end_s + 2 and not (time.monotonic() >= end_s and len(rtts_ms) == sent):
    now_s = time.monotonic()
    if next_s <= now_s < end_s:
        sent += 1
        asks.ask(sent, peer)
        next_s = max(next_s + pace_s, now_s)
    wait_s = next_s - time.monotonic() if now_s < end_s else 0.2
    select.select([asks], [], [], max(0.0, wait_s))
    for packet in asks.received():
        if not packet.asks and (echo := asks.echo(packet)):
            rtts_ms.append(echo.rtt_ms)
print(json.dumps(rtts_ms))
"""
"""Probes as the agent's own, many more of them, from the sidecar itself; each one's round trip in ms."""


async def figures(session: Session, readings: int) -> list[Figure]:
    """P10 on an attached session: `readings` windows of five probes for each round trip asked."""
    found = [await asked_and_measured(session, asked_ms, readings) for asked_ms in ASKED_MS]
    found += [*await clients(session), await at_nothing(session)]
    return [*found, *await on_a_full_machine(session, max(2, readings // 3))]


async def asked_and_measured(session: Session, asked_ms: int, readings: int) -> Figure:
    """The median of so many windows."""
    await turn(session, f"rtt={asked_ms}")
    agent, peer = session.fleet.source.agent, session.fleet.replica_names[0]
    measured_ms: list[float] = []
    for _ in range(readings):
        state = await agent.link(peer, anew=True)
        while state.probes < PROBES:
            await asyncio.sleep(0.05)
            state = await agent.link(peer)
        assert state.measured_ms is not None
        measured_ms.append(state.measured_ms)
    median_ms, tolerated_ms = statistics.median(measured_ms), max(0.3, 0.02 * asked_ms)
    return Figure(
        "P10",
        f"RTT asked {asked_ms} ms, {readings * PROBES} probes",
        f"+- {tolerated_ms:.1f} ms",
        spread(measured_ms, 2),
        abs(median_ms - asked_ms) <= tolerated_ms,
        {"measured_ms": measured_ms},
    )


async def on_a_full_machine(session: Session, rounds: int) -> list[Figure]:
    """Single probes while clients commit asynchronously on every core: with the sidecars' weight and with the
    usual one, in alternation."""
    containers = await asyncio.to_thread(_sidecars, session.name)
    given = containers[0].attrs["HostConfig"]["CpuShares"] or USUAL_SHARES
    errors_ms: dict[tuple[int, int], list[float]] = {}
    await session.driving.drive(replace(session.driving.settings(), clients=LOAD_CLIENTS))
    try:
        for number in range(rounds):
            for asked_ms in LOADED_MS:
                await turn(session, f"rtt={asked_ms}")
                for shares in (USUAL_SHARES, given)[:: 1 if number % 2 else -1]:
                    found = await asyncio.to_thread(_probed, session, containers, shares)
                    errors_ms.setdefault((asked_ms, shares), []).extend(each - asked_ms for each in found)
    finally:
        await asyncio.to_thread(_weigh, containers, given)
        await session.driving.stop()
        await turn(session, "rtt=0")
    return [
        figure
        for (asked_ms, shares), found_ms in errors_ms.items()
        for figure in _full_machine(asked_ms, shares, found_ms, is_shipped=shares == given)
    ]


def _full_machine(asked_ms: int, shares: int, errors_ms: list[float], *, is_shipped: bool) -> list[Figure]:
    """p50 and p99 of how far single probes are off; only the shipped weight has to hold a target."""
    cuts = statistics.quantiles(errors_ms, n=100)
    busy = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    rows = []
    for percent, bound_ms in ((50, max(0.5, 0.02 * asked_ms)), (99, 5.0)):
        error_ms = cuts[percent - 1]
        rows.append(
            Figure(
                "P10",
                f"RTT asked {asked_ms} ms, full machine, CPU weight {shares}: p{percent} of the error, ms",
                f"+- {bound_ms:.1f}",
                f"{error_ms:.2f} (n {len(errors_ms)}, {busy})",
                abs(error_ms) <= bound_ms if is_shipped else None,
                {"errors_ms": errors_ms},
            )
        )
    return rows


def _sidecars(stack: str) -> list[Any]:
    labels = [f"{inventory.STACK}={stack}", f"{inventory.ROLE}=sidecar"]
    found = DockerClient.from_env().containers.list(filters={"label": labels})
    return sorted(found, key=lambda container: container.labels[inventory.NODE])


def _weigh(containers: list[Any], shares: int) -> None:
    for container in containers:
        container.update(cpu_shares=shares)


def _probed(session: Session, containers: list[Any], shares: int) -> list[float]:
    """Round trips in ms under this weight, asked by the source's sidecar of the first replica."""
    _weigh(containers, shares)
    source, peer = session.fleet.source.name, session.fleet.replicas[0].address.address
    asking = next(each for each in containers if each.labels[inventory.NODE] == source)
    code, output = asking.exec_run(
        ["python3", "-c", PROBER, str(peer), str(LOADED_S), str(LOADED_PER_S)], demux=True
    )
    assert code == 0, output
    rtts_ms: list[float] = json.loads(output[0])
    return rtts_ms


async def at_nothing(session: Session) -> Figure:
    """P11's first half: at 0 ms there is no rule, so a link that was turned costs what none costs."""
    await turn(session, "rtt=5", "rtt=0")
    agents = [member.agent for member in session.fleet.members.values()]
    before = [(await agent.health()).packets["packets"] for agent in agents]
    await turn(session, "semi_sync=on")
    for _ in range(PINGS):
        await session.fleet.source.kick.query(session.fleet.source.dialect.kick)
    await turn(session, "semi_sync=off")
    took = sum([(await agent.health()).packets["packets"] for agent in agents]) - sum(before)
    return Figure("P11", f"packets of {PINGS} commits in a rule at 0 ms", "0", str(took), took == 0)


async def clients(session: Session) -> list[Figure]:
    """Packets of clients under a rule, and their round trip with and without one, five alternations."""
    sql, moved_ms = session.fleet.source.poll, []
    medians_ms: dict[int, list[float]] = {0: [], 200: []}
    for _ in range(5):
        for asked_ms, medians in medians_ms.items():
            await turn(session, f"rtt={asked_ms}")
            times_ms = []
            for _ in range(PINGS):
                began_s = time.perf_counter()
                await sql.query("SELECT 1")
                times_ms.append((time.perf_counter() - began_s) * 1000)
            medians.append(statistics.median(times_ms))
        moved_ms.append(medians_ms[200][-1] - medians_ms[0][-1])
    health = await session.fleet.source.agent.health()
    await turn(session, "rtt=0")
    touched, dropped = health.packets.get("strangers"), health.packets["dropped"]
    return [
        Figure("P10", "client packets under the rule", "0", str(touched), not touched, {"packets": touched}),
        Figure("P10", "packets dropped unasked", "0", str(dropped), dropped == 0),
        Figure(
            "P10",
            "client RTT moved by a link of 200 ms, ms",
            "< 0.1",
            spread(moved_ms, 3),
            abs(statistics.median(moved_ms)) < 0.1,
            {"moved_ms": moved_ms, **{f"rtt_{key}_ms": value for key, value in medians_ms.items()}},
        ),
    ]

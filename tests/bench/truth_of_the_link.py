"""P10: asked against measured round trips on an idle link, and clients that are not touched."""

from __future__ import annotations

import asyncio
import statistics
import time

from replexplorer.engine.session import Session
from tests.bench.figure import Figure, spread
from tests.turning import turn

ASKED_MS = (1, 2, 5, 10, 25, 85, 200)
PROBES = 5
"""That one reading is the median of."""
PINGS = 200


async def figures(session: Session, readings: int) -> list[Figure]:
    """P10 on an attached session: `readings` windows of five probes for each round trip asked."""
    found = [await asked_and_measured(session, asked_ms, readings) for asked_ms in ASKED_MS]
    return [*found, *await clients(session), await at_nothing(session)]


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


async def at_nothing(session: Session) -> Figure:
    """P11's first half: at 0 ms there is no rule, so a link that was turned costs what none costs."""
    await turn(session, "rtt=5", "rtt=0")
    agents = [member.agent for member in session.fleet.members.values()]
    before = [(await agent.health()).links.packets for agent in agents]
    await turn(session, "semi_sync=on")
    for _ in range(PINGS):
        await session.fleet.source.kick.query(session.fleet.source.dialect.kick())
    await turn(session, "semi_sync=off")
    took = sum([(await agent.health()).links.packets for agent in agents]) - sum(before)
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
    touched = health.links.client_packets
    return [
        Figure("P10", "client packets under the rule", "0", str(touched), not touched, {"packets": touched}),
        Figure("P10", "packets dropped unasked", "0", str(health.links.dropped), health.links.dropped == 0),
        Figure(
            "P10",
            "client RTT moved by a link of 200 ms, ms",
            "< 0.1",
            spread(moved_ms, 3),
            abs(statistics.median(moved_ms)) < 0.1,
            {"moved_ms": moved_ms, **{f"rtt_{key}_ms": value for key, value in medians_ms.items()}},
        ),
    ]

"""P14: how long there is no source, when it is killed and when it is replaced on purpose.

Two replicas, eight clients of `update_index`. The failover begins with the kill, as by somebody who knows of
it at once; its time is split as its JSON has it.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import Final

from bench.figure import Figure, spread
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.role_change import RoleChange
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings
from tests.waiting import until

CLIENTS: Final = 8
ROUNDS: Final = 5
PACE_TPS: Final = 200.0
"""Of the load under a switchover: one that replicas on the same cores can apply as it comes."""
WRITES_S: Final = 3.0
READY_WITHIN_S: Final = 120.0
DETECT_MS, PROMOTE_MS, FIRST_WRITE_MS, BLOCKED_MS = 1500.0, 1000.0, 500.0, 1000.0
DRAIN: Final = "drain the relay log"


async def changed(session: Session, *, failover: bool) -> RoleChange:
    """Kill the source and fail over, or switch over, under load."""
    await until(session.status, holds=lambda status: status.state == "up", within_s=READY_WITHIN_S)
    await asyncio.sleep(WRITES_S)
    if not failover:
        return await session.console.switchover()
    began_s = session.outside.clock.monotonic()
    await session.console.inject(parse_fault("kill", session.fleet.roster))
    done = await session.console.failover(since_s=began_s)
    await session.console.rejoin(done.source_before)
    await session.console.clear()
    return done


def step_ms(change: RoleChange, name: str) -> float:
    """How long a step took; 0 for one that there was not."""
    return sum(step.took_ms for step in change.steps if step.name == name)


async def rounds_of(
    session: Session, rounds: int, settings: LoadSettings, *, failover: bool
) -> list[RoleChange]:
    """As many as could be done; each is told as it is over."""
    found: list[RoleChange] = []
    await session.drive(settings)
    try:
        for _ in range(rounds):
            found.append(await changed(session, failover=failover))
            print(f"{found[-1].kind}: {found[-1].rto}", file=sys.stderr, flush=True)
    except ReplexplorerError as error:
        print(f"after {len(found)}: {error}", file=sys.stderr, flush=True)
    finally:
        await session.driving.stop()
    return found


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The parts of five failovers and five switchovers. The stack has three nodes afterwards, and any of
    them may be the source."""
    rounds = 2 if quick else ROUNDS
    await session.console.scale(2)
    closed = LoadSettings(CLIENTS, "update_index", 10_000)
    over = await rounds_of(session, rounds, closed, failover=True)
    paced = replace(closed, mode=OPEN, rate_tps=PACE_TPS)
    across = await rounds_of(session, rounds, paced, failover=False)
    detect = [each.rto.detect_ms or 0.0 for each in over]
    drain = [step_ms(each, DRAIN) for each in over]
    promote = [(each.rto.promote_ms or 0.0) - ms for each, ms in zip(over, drain, strict=True)]
    first = [each.rto.first_write_ms or 0.0 for each in over]
    blocked = [each.rto.total_ms or 0.0 for each in across]

    def figure(what: str, target_ms: float | None, values: list[float]) -> Figure:
        if len(values) < rounds:
            return Figure("P14", f"{what}, ms", "", f"{len(values)} of {rounds} done", None, {"ms": values})
        holds = None if target_ms is None else max(values) <= target_ms
        target = "" if target_ms is None else f"<= {target_ms:.0f}"
        return Figure("P14", f"{what}, ms", target, spread(values, 0), holds, {"ms": values})

    return [
        figure("failover: detect", DETECT_MS, detect),
        figure("failover: promote, without the drain", PROMOTE_MS, promote),
        figure("failover: drain of the relay log", None, drain),
        figure("failover: first write", FIRST_WRITE_MS, first),
        figure("switchover: writes blocked", BLOCKED_MS, blocked),
    ]

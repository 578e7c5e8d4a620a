"""P9: from a knob to its effect, as the effect itself is observed."""

from __future__ import annotations

import asyncio
import time

from bench.figure import Figure, spread
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.link import LinkSettings, wanted
from replexplorer.core.wire import SetDisk
from replexplorer.engine.session import Session
from replexplorer.ports import ask, execute
from tests.turning import turn


async def figures(session: Session, rounds: int) -> list[Figure]:
    """All of P9 on an attached session; the knobs are left at their defaults."""
    return [
        await statement(session, rounds),
        await link(session, rounds),
        await fsync(session, rounds),
        await semi_sync(session, rounds, on=True),
        await semi_sync(session, rounds, on=False),
        await semi_sync_with_restart(session, max(1, rounds // 3)),
    ]


async def statement(session: Session, rounds: int) -> Figure:
    """SET GLOBAL until the variable reads back."""
    took_ms = []
    sql = session.fleet.source.control
    for number in range(rounds):
        began_s = time.perf_counter()
        await sql.query(f"SET GLOBAL sync_binlog = {number % 2}")
        rows = await sql.query("SELECT @@GLOBAL.sync_binlog AS value")
        took_ms.append((time.perf_counter() - began_s) * 1000)
        assert rows[0]["value"] == number % 2
    await sql.query("SET GLOBAL sync_binlog = 1")
    return Figure(
        "P9", "SET GLOBAL to effect, ms", "<= 50", spread(took_ms), max(took_ms) <= 50, {"took_ms": took_ms}
    )


async def link(session: Session, rounds: int) -> Figure:
    """Both ends told until a probe that was sent since is as slow as asked; its own flight is taken off."""
    primary, replica = session.fleet.source, session.fleet.replicas[0]
    there, here = str(replica.address.address), str(primary.address.address)
    took_ms = []
    for number in range(rounds):
        asked_ms = (40.0, 20.0)[number % 2]
        towards, back = await primary.agent.link(replica.name), await replica.agent.link(primary.name)
        want = wanted(LinkSettings(asked_ms), towards, back)
        shapes = (want.to_replica, want.to_primary)
        if towards.holds == "received":
            shapes = shapes[::-1]
        began_s = time.perf_counter()
        await asyncio.gather(
            primary.agent.set_link(replica.name, there, shapes[0]),
            replica.agent.set_link(primary.name, here, shapes[1]),
        )
        state = await primary.agent.link(replica.name, anew=True)
        while state.measured_ms is None or abs(state.measured_ms - asked_ms) > 0.05 * asked_ms + 1:
            await asyncio.sleep(0.002)
            state = await primary.agent.link(replica.name)
        took_ms.append((time.perf_counter() - began_s) * 1000 - state.measured_ms)
    await turn(session, "rtt=1", "rtt=0")
    return Figure(
        "P9", "link to effect, ms", "<= 50", spread(took_ms), max(took_ms) <= 50, {"took_ms": took_ms}
    )


async def fsync(session: Session, rounds: int) -> Figure:
    """The delay told until the first commit that pays it has begun; one client commits all the time."""
    primary = session.fleet.source
    ends, slow = asyncio.Event(), asyncio.Event()
    first_s = 0.0

    async def commit() -> None:
        nonlocal first_s
        while not ends.is_set():
            began_s = time.perf_counter()
            await primary.kick.query(primary.dialect.kick)
            if time.perf_counter() - began_s > 0.029 and not slow.is_set():
                first_s = began_s
                slow.set()

    committing = asyncio.create_task(commit())
    took_ms = []
    try:
        for _ in range(rounds):
            await asyncio.sleep(0.1)
            slow.clear()
            told_s = time.perf_counter()
            await primary.agent.ask(SetDisk(delay_ms=30))
            await slow.wait()
            took_ms.append(max(0.0, first_s - told_s) * 1000)
            await primary.agent.ask(SetDisk(delay_ms=0))
    finally:
        ends.set()
        await committing
    return Figure(
        "P9", "fsync delay to effect, ms", "<= 10", spread(took_ms), max(took_ms) <= 10, {"took_ms": took_ms}
    )


async def semi_sync(session: Session, rounds: int, *, on: bool) -> Figure:
    """The switch at an RTT of 2 ms until the server says so, and when on a commit was acknowledged."""
    await turn(session, "rtt=2")
    sql, kick = session.fleet.source.control, session.fleet.source.kick
    took_ms = []
    for _ in range(rounds):
        await sql.query(f"SET GLOBAL rpl_semi_sync_source_enabled = {int(not on)}", deadline_s=10)
        began_s = time.perf_counter()
        await sql.query(f"SET GLOBAL rpl_semi_sync_source_enabled = {int(on)}", deadline_s=10)
        if on:
            await kick.query(session.fleet.source.dialect.kick)
        took_ms.append((time.perf_counter() - began_s) * 1000)
    await sql.query("SET GLOBAL rpl_semi_sync_source_enabled = 0", deadline_s=10)
    await turn(session, "rtt=0")
    bound_ms = 52.0 if on else 1500.0
    what = "semi_sync on to an acknowledged commit, ms" if on else "semi_sync off, ms"
    target = "<= 50 + one RTT (2)" if on else "<= 1500"
    return Figure("P9", what, target, spread(took_ms), max(took_ms) <= bound_ms, {"took_ms": took_ms})


async def semi_sync_with_restart(session: Session, rounds: int) -> Figure:
    """The replica has to register first, at an RTT of 20 ms."""
    replica = session.fleet.replicas[0]
    took_ms = []
    for _ in range(rounds):
        await turn(session, "semi_sync=off")
        leaving = "SET GLOBAL rpl_semi_sync_replica_enabled = 0"
        await execute(replica.control, (leaving, replica.dialect.stop_io, replica.dialect.start_io))
        primary, ends_s = session.fleet.source, time.perf_counter() + 20
        while True:
            if (await ask(primary.control, primary.dialect.status)).clients == 0:
                break
            if time.perf_counter() > ends_s:
                raise ReplexplorerError("the source still counts a replica that left semi-sync")
            await asyncio.sleep(0.02)
        await turn(session, "rtt=20")
        began_s = time.perf_counter()
        await turn(session, "semi_sync=on")
        took_ms.append((time.perf_counter() - began_s) * 1000)
    await turn(session, "semi_sync=off", "rtt=0")
    bound_ms = 1000 + 20 * 20
    return Figure(
        "P9",
        "semi_sync on with an IO restart at 20 ms, ms",
        "<= 1000 + 20 RTT (1400)",
        spread(took_ms, 0),
        max(took_ms) <= bound_ms,
        {"took_ms": took_ms},
    )

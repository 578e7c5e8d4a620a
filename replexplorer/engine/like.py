"""What is read of servers that somebody else made, so that a stack can be like them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from replexplorer.core.dialect.attaching import ARRIVED, CLOCK
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.like import ClockLook, Theirs, fast_fsync_ms, fsync_figures, round_trip
from replexplorer.core.load.captured import CapturedWorkload
from replexplorer.core.server.counters import CommitSample
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.samples import asked, sample_commits
from replexplorer.engine.session import Session
from replexplorer.engine.tasks import end_all

_BETWEEN_LOOKS_S: Final = 0.1


async def read_theirs(session: Session, capture: Awaitable[CapturedWorkload]) -> Theirs:
    """Look at an attached session's servers for as long as the capture of their load takes, which may fail.
    Raises ServerUnreachable where the source does not answer."""
    fleet, clock, state = session.fleet, session.outside.clock, session.state
    server, members = fleet.source.dialect.capabilities, (fleet.source, *fleet.replicas)
    looks: dict[str, list[ClockLook]] = {member.name: [] for member in members}
    counted: dict[str, list[CommitSample]] = {member.name: [] for member in members}

    async def look_on(member: Member) -> None:
        while True:
            if commits := await sample_commits(member, None, clock):
                counted[member.name].append(commits)
            asked_s = clock.monotonic()
            server_s = await asked(member, lambda _: CLOCK)
            trip_s = clock.monotonic() - asked_s
            if server_s is not None:
                way_us = await asked(member, lambda _: ARRIVED)
                looks[member.name].append(ClockLook(trip_s, server_s - asked_s - trip_s / 2, way_us))
            await clock.sleep(_BETWEEN_LOOKS_S)

    looking = [asyncio.create_task(look_on(member)) for member in members]
    load, unknown = None, ""
    try:
        load = await capture
    except ReplexplorerError as error:
        unknown = str(error)
    finally:
        await end_all(*looking)
    source, *replicas = looks
    delay_us, synced_by = (
        state.effective_value(KnobName(key, SOURCE))
        for key in (keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, keys.SYNC_BINLOG)
    )
    held_ms = float(delay_us or 0) / 1000
    if synced_by == 1:  # events are sent when the binlog is synced
        held_ms += fast_fsync_ms(counted[source])
    return Theirs(
        server.title,
        "mariadb" if server.flavor == "mariadb" else "mysql",
        session.system.name,
        tuple(looks),
        session.knobs(),
        {name: round_trip(looks[source], looks[name], held_ms) for name in replicas},
        {name: fsync_figures(samples) for name, samples in counted.items()},
        load,
        unknown,
    )

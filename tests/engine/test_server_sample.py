"""Looking closer, and our heartbeats, against model servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.server.anatomy import Part
from replexplorer.core.server.counters import ServerStatus
from replexplorer.core.tick import Tick
from replexplorer.engine.observe.samples import NodeSample, TimeoutLook
from replexplorer.engine.session import Session
from replexplorer.ports import Ability
from tests.fakes.world import World
from tests.turning import turn
from tests.waiting import load_runs, until_tick

PS_PER_MS = 10**9


def counted(commits: int, event: str, ms: float, kind: str = "account") -> dict[str, object]:
    return {
        "kind": kind, "event": event, "times": commits, "ps": round(commits * ms * PS_PER_MS),
        "fsyncs": commits, "fsync_ps": round(commits * ms * PS_PER_MS),
    }  # fmt: skip


async def keep_counting(world: World) -> None:
    """The server's counters follow its commits: 0.25 ms of binlog fsync each."""
    while True:
        commits = world.primary.commits
        world.primary.commit_counters = [
            counted(commits, "wait/io/file/sql/binlog", 0.25, "file"),
            counted(commits, "statement/com/Execute", 0.75),
        ]
        await asyncio.sleep(0.1)


def lag_ms(tick: Tick) -> float | None:
    return tick.truth.replicas[0].lag_ms if tick.truth and tick.truth.replicas else None


async def test_a_tick_carries_the_anatomy_and_the_truth(world: World, tui: Session) -> None:
    tick = await until_tick(tui, lambda tick: tick.anatomy is not None)
    assert tick.anatomy is not None
    assert tick.anatomy.parts.keys() == {Part.OTHER}, "a server without these tables"
    assert not world.primary.beats, "nobody asked for them"
    counting = asyncio.create_task(keep_counting(world), name="server counters")
    tick = await until_tick(tui, lambda tick: bool(tick.anatomy and tick.anatomy.parts.get(Part.BINLOG)))
    assert tick.anatomy is not None
    assert tick.anatomy.parts.keys() == {Part.BINLOG, Part.OTHER}
    assert tick.truth is not None
    await turn(tui, "rtt=20")
    tick = await anext(tui.ticks())
    assert tick.anatomy is None, "a stretch reached across a change"
    counting.cancel()


@pytest.mark.parametrize("statements", range(8))
async def test_a_timeout_amid_a_look_never_shows_a_protected_source(
    world: World, tui: Session, statements: int
) -> None:
    """Whichever statement of a look the timeout comes before, blocked gives way to degraded."""
    await turn(tui, "semi_sync=on", "clients=8")
    await until_tick(tui, lambda tick: tick.protection.state == "protected")
    await turn(tui, "partition=both")
    await until_tick(tui, lambda tick: (tick.protection.oldest_wait_s or 0) > 5)
    world.primary.time_out_before(statements)
    tick = await until_tick(tui, lambda tick: tick.protection.state != "blocked")
    assert tick.protection.state == "degraded"
    tick = await until_tick(tui, lambda later: later.at_s > tick.at_s + 2)
    assert tick.protection.fallbacks == 1, "else no later look counts it"


async def test_a_replica_that_lags_says_so_with_the_age_of_what_it_has_not_applied(
    world: World, tui: Session
) -> None:
    await until_tick(tui, lambda tick: lag_ms(tick) == 0)
    world.replica.applied = {"queued": "uuid-0:5-9", "missing": "uuid-0:5-9", "applying_us": 2_500_000}
    tick = await until_tick(tui, lambda tick: lag_ms(tick) == 2500)
    assert tick.truth is not None
    assert tick.truth.replicas[0].queued == 5
    world.crash("db2")
    tick = await until_tick(tui, lambda tick: lag_ms(tick) is None)
    assert tick.truth is not None
    assert tick.truth.replicas[0].queued is None


async def test_a_heartbeat_a_second_while_our_load_runs_one_at_a_time(world: World) -> None:
    world.primary.has_heartbeat_table = False  # as in a stack that an earlier version made
    async with world.started(heartbeat=True) as session:
        await until_tick(session, load_runs)
        await asyncio.sleep(10)
        assert 9 <= world.primary.beats <= 12
        await session.console.toggle_load()
        await asyncio.sleep(1)
        before = world.primary.beats, world.primary.commits
        await asyncio.sleep(10)
        assert (world.primary.beats, world.primary.commits) == before
        await session.console.toggle_load()
        await until_tick(session, load_runs)
        await turn(session, "semi_sync=on", "semi_sync_timeout=60s")
        await asyncio.sleep(2)
        world.primary.acknowledges = False
        await asyncio.sleep(10)
        assert len(world.primary.waits) == 1
        assert session.monitor.failed is None
    assert not world.open_connections()


# Timeouts of semi-sync by a server's log: somebody's SET is none


TIMEOUT = (
    "26 [Warning] Timeout waiting for reply of binlog (file: binlog.000001, pos: 483), semi-sync up to file"
)
SWITCHED = "26 [Note] Semi-sync replication switched OFF."


async def test_of_all_times_that_it_went_off_only_timeouts_count(world: World, session: Session) -> None:
    look, view = TimeoutLook(session.fleet), session.state.samples["db1"].view

    def seen(no_times: int | None, at_s: float) -> NodeSample:
        return NodeSample(at_s, view, ServerStatus(no_times=no_times))

    async def counted(now: NodeSample, before: NodeSample | None) -> NodeSample:
        carried = before.logged_timeouts if before else None
        moved = before is None or before.status.no_times != now.status.no_times
        now = replace(now, logged_timeouts=None if moved else carried)
        return replace(now, logged_timeouts=await look.look("db1", now, before))

    assert (await counted(seen(None, 0), None)).logged_timeouts is None
    never = await counted(seen(0, 0), None)
    assert never.logged_timeouts == 0
    by_hand = await counted(seen(1, 1), never)
    assert by_hand.logged_timeouts == 0
    early = await counted(seen(2, 2), by_hand)
    world.logs["db1"] = [TIMEOUT, SWITCHED]
    late = await counted(seen(2, 2.5), early)
    assert (early.logged_timeouts, late.logged_timeouts) == (0, 1)
    world.logs["db1"] = []  # longer by now than what is read of it
    assert (await counted(seen(3, 60), late)).logged_timeouts == 1
    assert (await counted(seen(1, 61), late)).logged_timeouts == 0
    provider = session.outside.provider
    provider.abilities = provider.abilities - {Ability.STOP_SERVERS}
    assert (await counted(seen(4, 70), late)).logged_timeouts is None

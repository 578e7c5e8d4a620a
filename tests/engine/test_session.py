"""A session's life: bring up or attach, drive or watch, tick, and leave nothing behind."""

from __future__ import annotations

import asyncio
from asyncio import create_task, sleep, timeout, wait_for
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, TakenAway
from replexplorer.core.load.interval import Measurement
from replexplorer.core.tick import Tick
from replexplorer.engine.outcome import Status
from replexplorer.engine.session import Session
from replexplorer.reports.conditions import conditions_of
from tests.fakes.clock import cancelled_in_round, virtual
from tests.fakes.world import CREATING_S, World
from tests.known import known, refusal
from tests.turning import turn
from tests.waiting import load_runs, told, until_tick


async def test_from_nothing_to_a_running_load_and_its_end_and_to_a_stack_that_lives(
    snapshot: object,
) -> None:
    world, steps = World(exists=False), list[str]()
    session = world.session()
    await session.start(lambda text, _=None: steps.append(text))
    tick = await until_tick(session, load_runs)
    load, target = known(tick.load), known(world.loads[0].target)
    assert (load.clients, load.tps) == pytest.approx((8, 8000), rel=0.02)
    assert (*steps, tick.stack, tick.state, tick.viewer, target.host, target.user) == snapshot
    reading = create_task(until_tick(session, lambda _: False, "it was closed"))
    await sleep(2)
    line = await session.close()
    assert line == "stack 'default' keeps running (2 servers, no load); `replexplorer down` removes it"
    with pytest.raises(AssertionError, match="the ticks ended before it was closed"):
        await wait_for(reading, 0.01)
    world.stack_failure = StackUnavailable("up was called")
    async with world.attached() as other:
        await turn(other, "clients=3 workload=foo")
    async with world.started() as again:
        load = known((await until_tick(again, load_runs)).load)
        assert (load.clients, load.workload) == (3, "foo")


@pytest.mark.parametrize("found", [True, False])
async def test_a_stack_that_does_not_come_up_is_removed_if_it_was_made_here(found: bool) -> None:
    world = World(exists=found)
    world.servers_stay_away = True
    if found:
        world.crash("db2")
    async with world.apart("up") as session:
        with pytest.raises(StackUnavailable, match=r"does not accept logins.*its log: log \w+"):
            await session.up(lambda *_: None)
        assert (world.exists, world.removals) == (found, not found)
        world.servers_stay_away = False
        for server in world.servers.values():
            server.starting = False
        assert await session.up(lambda *_: None) is not found, "whether it was created"


def test_a_start_that_is_cancelled_anywhere_leaves_no_half_made_stack() -> None:
    outcomes: list[str] = []

    @virtual
    async def at(number: int) -> None:
        world = World(exists=False)
        session = world.session(on_quit="remove")

        async def start() -> str:
            await session.start(lambda *_: None)
            return "started"

        outcomes.append(await cancelled_in_round(start(), number) or "cancelled")
        await session.close()
        assert (world.exists, any(world.left())) == (False, False)

    while "started" not in outcomes:
        at(len(outcomes) + 1)
    assert outcomes.count("cancelled") > 10


def test_a_close_at_any_moment_leaves_nothing(stride: int) -> None:
    """Also while the load is being prepared, a set is under way, or the watcher re-applies."""

    @virtual
    async def after(seconds: float) -> None:
        world = World()
        session = world.session()
        await session.start(lambda *_: None)
        asyncio.get_running_loop().call_later(0.3, world.restart, "db1")
        before = world.state()
        setting = create_task(turn(session, "sync_binlog=0 rtt=85 semi_sync=on"))
        await sleep(seconds)
        await session.close()
        [error] = await asyncio.gather(setting, return_exceptions=True)
        assert not any(world.left())
        await sleep(30)
        if isinstance(error, BaseException):
            assert (world.requested, world.state()) == ({}, before)
        else:
            assert world.requested["semi_sync"] == "on"

    for hundredths in range(0, 400, 3 * stride):
        after(hundredths / 100)


async def test_close_is_harmless_twice_and_before_the_start(world: World) -> None:
    session = world.session()
    for _ in range(2):
        assert await session.close() == "no stack 'default' was reached"


async def test_a_defect_in_the_watcher_ends_the_ticks_and_does_not_keep_the_load_from_being_stopped(
    tui: Session,
) -> None:
    tui.controls.drift.news = Mock(side_effect=KeyError("a defect"))  # type: ignore[method-assign]
    with pytest.raises(KeyError, match="a defect"):
        await until_tick(tui, lambda _: False)


# -- ticks


async def some(session: Session, count: int, every_s: float) -> list[Tick]:
    """Ticks of a reader who is so slow."""
    seen: list[Tick] = []
    async for tick in session.ticks():
        seen.append(tick)
        if len(seen) == count:
            break
        await sleep(every_s)
    return seen


async def test_ticks_come_twice_a_second_and_a_slow_reader_misses_no_commit_and_no_event(
    tui: Session,
) -> None:
    *_, before = await some(tui, 10, 0)
    await tui.console.mark("seen late")
    slow = await some(tui, 5, 5)
    assert slow[-1].at_s - slow[1].at_s == pytest.approx(15, abs=1)
    assert [event.text for tick in slow for event in tick.events] == ["seen late"]
    commits = sum(known(tick.load).n for tick in slow)
    assert commits == pytest.approx(8000 * (slow[-1].at_s - before.at_s), rel=0.03)
    for runs in (False, True):
        assert await tui.console.toggle_load() is runs
        times = [tick.at_s for tick in await some(tui, 10, 0)]
        assert times[-1] - times[1] == pytest.approx(4, abs=0.1)


# -- driver and viewer


async def test_the_second_session_is_a_viewer_until_the_driver_has_gone(world: World) -> None:
    first = world.session("tui")
    await first.start(lambda *_: None)
    async with world.started() as second:
        await until_tick(second, lambda tick: tick.viewer and known(tick.load).tps)
        loads = [known(tick.load) for tick in await some(second, 40, 0)]
        assert {(load.state, load.connected) for load in loads} == {("viewer", 0)}
        assert sum(load.tps or 0 for load in loads) / 40 == pytest.approx(8000, rel=0.1)
        with pytest.raises(StackUnavailable, match=r"tui \(pid \d+ on here\) drives the load"):
            await second.console.toggle_load()
        assert world.running_loads() == 1
        await first.close()
        await told(second, "no longer drives the load")
        assert await second.console.toggle_load()
        assert not (await until_tick(second, load_runs)).viewer
        assert world.running_loads() == 1


async def test_a_second_load_may_run_as_well(world: World, tui: Session) -> None:
    async with world.attached("load", beside=True) as beside:
        await beside.drive(beside.driving.settings())
        assert str(conditions_of(beside).other_driver).startswith("tui (pid ")
        assert "drives a load too" in str(beside.event_log.take_events())
        assert world.running_loads() == 2


async def test_a_load_that_cannot_start_or_dies_leaves_a_session_that_watches_and_starts_it_again(
    world: World,
) -> None:
    why = "the load's process ended by itself (signal 9)"
    world.load_failure = ServerRefused(1142, "no CREATE privilege")
    async with world.started() as session:
        await told(session, "no load: no CREATE privilege")
        await sleep(2)
        assert (await glance(world)).load.clients == 0
        assert await session.console.toggle_load()
        await until_tick(session, load_runs)
        assert (await glance(world)).load.clients == 8
        world.loads[-1].die(ReplexplorerError(why))
        await told(session, why)
        await sleep(2)
        load = known((await until_tick(session, lambda tick: why not in str(tick.events))).load)
        assert (load.state, load.fault) == ("stopped", why)
        assert (await glance(world)).load.clients == 0
        await turn(session, "clients=2")
        assert await session.console.toggle_load()
        load = known((await until_tick(session, load_runs)).load)
        assert (load.clients, load.fault) == (2, None)
        assert not await session.console.toggle_load()
        assert (await glance(world)).load.clients == 0


# -- what is left


@pytest.mark.parametrize(
    ("exists", "keep", "left"),
    [(True, False, "keeps running"), (False, True, "keeps running"), (False, False, "is removed")],
)
async def test_on_quit_only_a_stack_made_here_is_removed_and_never_when_the_terminal_went(
    exists: bool, keep: bool, left: str
) -> None:
    world = World(exists=exists)
    session = world.session(on_quit="remove")
    await session.start(lambda *_: None)
    await session.console.repair()
    assert left in await session.close(keep=keep)
    assert world.exists is (left != "is removed")


async def test_links_that_stay_cut_are_named_at_the_end_in_commands_of_this_stack(tui: Session) -> None:
    tui.outside.provider.name = "demo"
    await turn(tui, "partition=ack")
    line = await tui.close()
    assert "`replexplorer down --stack demo` removes it" in line
    assert line.endswith("partition ack stays: `replexplorer set partition=none --stack demo` heals it")


async def test_threads_that_were_stopped_are_started_by_up_and_one_that_cannot_is_named_at_once(
    world: World, session: Session
) -> None:
    replica = world.replica
    replica.io = replica.sql = "No"
    async with timeout(20):
        await session.up(lambda *_: None)
        assert (replica.io, replica.sql) == ("Yes", "Yes")
        replica.sql, replica.sql_errno = "No", 1062
        assert "db2 does not replicate (io on, sql error)" in await refusal(session.up(lambda *_: None))
        replica.boot()
        replica.io, replica.io_errno, replica.refusals = "No", 1236, {"START REPLICA": 1200}
        assert "db2 does not replicate (io error, sql on)" in await refusal(session.up(lambda *_: None))


# A stack that is removed while it comes up, or while a load runs on it


@pytest.mark.parametrize("end", [World.remove, World._make], ids=["removed", "made again elsewhere"])
async def test_up_sees_that_its_stack_was_taken_away_and_leaves_what_came_after(
    end: Callable[[World], None],
) -> None:
    """It waited 90 s and blamed the primary's log."""
    world = World(exists=False)
    world.servers_stay_away = True
    async with world.apart("up") as session:
        coming = create_task(session.up(lambda *_: None))
        await sleep(CREATING_S + 0.2)
        end(world)
        with pytest.raises(TakenAway, match="stack 'default' was removed while it came up"):
            await wait_for(coming, 10)
        assert world.removals == 0


LOGS = """\

0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.|0 [ERROR] [MY-010119] [Server] Aborting
1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.
"""


async def test_a_server_that_ends_while_it_starts_is_not_waited_for_and_says_why(snapshot: object) -> None:
    said = {}
    for log in LOGS.splitlines():
        world = World()
        world.logs["db2"] = log.split("|")
        for server in world.servers.values():
            server.starting = True
        async with world.apart("up") as session:
            coming = create_task(session.up(lambda *_: None))
            await sleep(2)
            world.crash("db2")
            with pytest.raises(StackUnavailable) as raised:
                await wait_for(coming, 5)
            said[log] = raised.value.message, raised.value.hint
    assert said == snapshot


async def test_a_load_whose_stack_goes_ends_at_once_with_what_it_had(world: World) -> None:
    """It printed zeros to its end and exited 0."""
    async with world.attached("load") as session, session.observed():
        await session.drive(session.driving.settings())
        had = Measurement()
        measuring = create_task(session.rig.load.measure(duration_s=600, into=had))
        await sleep(5)
        world.remove()
        assert "stack 'default' was removed" in await refusal(wait_for(measuring, 1.5))
        assert had.commits > 0
        assert had.duration_s == pytest.approx(5, abs=1.5)


# `status` answers soon and whole whatever is down


async def glance(world: World, *, within_s: float = 6.0) -> Status:
    """What `status` says in a shell of its own, in time."""
    async with timeout(within_s), world.apart("status") as session:
        return await session.status()


async def seen(world: World) -> str:
    """`partial: db1`: the state, and the nodes that answer."""
    status = await glance(world)
    return f"{status.state}: {' '.join(node.name for node in status.nodes if node.reachable)}"


async def test_a_dead_node_costs_nothing_and_the_rest_is_told(snapshot: object) -> None:
    world = World(replicas=2)
    world.crash("db2")
    one_dead = await glance(world, within_s=0.2)
    world.crash("db1")
    world.sidecars["db1"].stop()
    both_dead = await glance(world, within_s=0.5)
    for status in (one_dead, both_dead):
        nodes = [f"{node.name} {node.reachable} lacks {node.missing_gtids!r}" for node in status.nodes]
        links = [f"{link.replica} {link.values is not None} {link.fault}" for link in status.links]
        others = status.state, status.protection.state.value, status.load, status.footprint_bytes
        assert (*others, *nodes, *links) == snapshot
    assert known(one_dead.nodes[0].binlogs).end == "binlog.000001:1000"


async def test_a_replica_that_gets_nothing_is_not_told_to_be_level(world: World) -> None:
    """By its own word it is 0 s behind until its connection times out."""
    for missing, lag_s in (("", 0), ("uuid-1:7-9", 12.3)):
        world.replica.applied.update(missing=missing, applied_us=12_300_000)
        replica = (await glance(world)).nodes[1]
        assert (replica.io_thread, replica.lag_s) == ("on", lag_s)


async def test_a_server_that_hangs_or_begins_is_told_from_one_that_is_slow(world: World) -> None:
    world.replica.slow_s = 3600
    found = [await seen(world)]
    for sidecar in world.sidecars.values():
        sidecar.slow_s = 1.5
    world.primary.slow_s, world.replica.slow_s = 1.6, 1.9
    found.append(await seen(world))
    for server in world.servers.values():
        server.boot()
        server.starting = True
    found.append(await seen(world))
    await sleep(120)
    found.append(await seen(world))
    world.primary.starting = False
    found.append(await seen(world))
    world.crash("db1")
    world.restart("db2")
    found.append(await seen(world))
    assert found == ["partial: db1", "up: db1 db2", "starting: ", "down: ", "partial: db1", "starting: "]

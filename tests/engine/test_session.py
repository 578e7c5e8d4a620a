"""A session's life: bring up or attach, drive or watch, tick, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, TakenAway
from replexplorer.core.load.interval import Measurement
from replexplorer.core.tick import Tick
from replexplorer.engine.outcome import DrivenLoad, Status
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions
from replexplorer.reports.conditions import conditions_of
from tests.fakes.clock import cancelled_in_round, virtual
from tests.fakes.world import CREATING_S, World
from tests.known import known
from tests.turning import turn
from tests.waiting import load_runs, tick_after, until_tick


async def test_from_nothing_to_a_running_load() -> None:
    world, told = World(exists=False), list[str]()
    session = world.session()
    await session.start(lambda text, _=None: told.append(text))
    tick = await until_tick(session, load_runs)
    assert told == ["creating", "waiting for the servers", "waiting for the replica"]
    assert (tick.stack, tick.state, tick.viewer) == ("default", "up", False)
    assert [node.name for node in tick.nodes] == ["db1", "db2"]
    load, target = known(tick.load), known(world.loads[0].target)
    assert load.clients == 8
    assert load.tps == pytest.approx(8000, rel=0.02)
    assert (target.host, target.user) == ("10.0.0.2", "sandbox")
    line = await session.close()
    assert line == "stack 'default' keeps running (2 servers, no load); `replexplorer down` removes it"
    assert world.exists


async def test_a_live_stack_is_attached_to_and_not_brought_up(world: World) -> None:
    world.stack_failure = StackUnavailable("up was called")
    async with world.attached() as other:
        await turn(other, "clients=3", "workload=foo")
    async with world.started() as session:
        load = known((await until_tick(session, load_runs)).load)
        assert (load.clients, load.workload) == (3, "foo")


async def test_up_gives_back_what_was_requested_and_says_whether_it_created() -> None:
    world, told = World(exists=False), list[str]()
    session = world.session("up", up=UpOptions())
    assert await session.up(lambda text, _=None: told.append(text))
    await turn(session, "sync_binlog=0", "rtt=20")
    world.crash("db1")
    world.sidecars["db2"].stop()
    assert not await session.up(lambda text, _=None: told.append(text))
    assert world.primary.variables["sync_binlog"] == "0"
    assert world.rtt_ms() == pytest.approx(20.0)
    assert "re-applying what was requested" in told
    await session.disconnect()


async def test_a_replica_that_joins_gets_what_all_others_were_asked_for() -> None:
    world = World(replicas=2)
    async with world.attached("set") as session:
        await turn(session, "rtt=85")
    async with world.brought_up(up=UpOptions(replicas=3)) as session:
        assert world.requested["rtt@db4"] == 85
        assert session.restorer.repaired == ("rtt@db4 set again",)


@pytest.mark.parametrize("found", [True, False])
async def test_a_stack_that_does_not_come_up_is_removed_if_it_was_made_here(found: bool) -> None:
    world = World(exists=found)
    world.servers_stay_away = True
    if found:
        world.crash("db2")
    session = world.session("up")
    with pytest.raises(StackUnavailable, match=r"does not accept logins.*its log: log \w+"):
        await session.up(lambda *_: None)
    assert (world.exists, world.removals) == (found, not found)
    await session.disconnect()


def test_a_start_that_is_cancelled_anywhere_leaves_no_half_made_stack() -> None:
    outcomes: list[str] = []

    @virtual
    async def at(number: int) -> None:
        world = World(exists=False)
        session = world.session(on_quit="remove")

        async def start() -> str:
            await session.start(lambda *_: None)
            return "started"

        ended = await cancelled_in_round(start(), number)
        await session.close()
        outcomes.append(ended or "cancelled")
        assert not any(world.left())
        if world.exists:
            assert asyncio.get_running_loop().time() < CREATING_S + 1
            raise AssertionError("a stack was left")

    while "started" not in outcomes:
        at(len(outcomes) + 1)
        assert len(outcomes) < 500
    assert outcomes.count("cancelled") > 10


async def test_cancels_in_a_row_do_not_keep_a_stack_that_did_not_come_up() -> None:
    world = World(exists=False)
    world.servers_stay_away = True
    session = world.session()
    task = asyncio.create_task(session.start(lambda *_: None))
    await asyncio.sleep(CREATING_S + 5)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.001)
    await asyncio.wait({task})
    assert task.cancelled()
    assert not world.exists
    await session.close()


def test_a_close_at_any_moment_leaves_nothing(stride: int) -> None:
    """Also while the load is being prepared, a set is under way, or the watcher re-applies."""

    @virtual
    async def after(seconds: float) -> None:
        world = World()
        session = world.session()
        await session.start(lambda *_: None)
        asyncio.get_running_loop().call_later(0.3, world.restart, "db1")
        old = world.state()["variables"]
        setting = asyncio.create_task(turn(session, "sync_binlog=0", "rtt=85", "semi_sync=on"))
        await asyncio.sleep(seconds)
        await session.close()
        await asyncio.gather(setting, return_exceptions=True)
        assert not any(world.left())
        await asyncio.sleep(30)
        if setting.cancelled() or setting.exception() is not None:
            assert world.requested == {}
            assert world.state()["variables"] == old
            assert world.rtt_ms() == pytest.approx(0.1)
        else:
            assert world.requested["semi_sync"] == "on"
        assert not any(world.left())

    for hundredths in range(0, 400, 3 * stride):
        after(hundredths / 100)


async def test_close_is_harmless_twice_and_before_the_start(world: World) -> None:
    session = world.session()
    assert await session.close() == "no stack 'default' was reached"
    await session.close()


async def test_a_defect_in_the_watcher_ends_the_ticks_and_does_not_keep_the_load_from_being_stopped(
    world: World,
) -> None:
    session = world.session()
    await session.start(lambda *_: None)
    await until_tick(session, load_runs)

    async def defect() -> None:
        raise KeyError("a defect")

    session.controls.drift.news = defect  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyError, match="a defect"):
        await until_tick(session, lambda _: False)
    await session.close()


# -- ticks


async def _some(session: Session, count: int) -> AsyncIterator[Tick]:
    async for tick in session.ticks():
        yield tick
        count -= 1
        if not count:
            return


async def test_a_slow_reader_skips_and_misses_no_commit_and_no_event(tui: Session) -> None:
    seen: list[Tick] = []
    async for tick in tui.ticks():
        seen.append(tick)
        if len(seen) == 6:
            break
        if len(seen) == 2:
            await tui.console.mark("while nobody looks")
        await asyncio.sleep(5)
    gaps = [later.at_s - tick.at_s for tick, later in pairwise(seen)]
    assert all(4.999 <= gap < 5.6 for gap in gaps), gaps
    texts = [event.text for tick in seen for event in tick.events]
    assert texts.count("while nobody looks") == 1
    commits = sum(tick.load.n for tick in seen[1:] if tick.load)
    assert commits == pytest.approx(8000 * (seen[-1].at_s - seen[0].at_s), rel=0.03)


async def test_ticks_end_at_once_when_the_session_closes(world: World) -> None:
    session = world.session()
    await session.start(lambda *_: None)
    await until_tick(session, load_runs)

    async def read() -> int:
        return len([tick async for tick in session.ticks()])

    reader = asyncio.create_task(read())
    await asyncio.sleep(2)
    await session.close()
    async with asyncio.timeout(0.01):
        assert await reader >= 4


# -- driver and viewer


async def test_the_second_session_is_a_viewer_until_the_driver_has_gone(world: World) -> None:
    first = world.session("tui")
    await first.start(lambda *_: None)
    async with world.started() as second:
        await until_tick(first, load_runs)
        tick = await until_tick(
            second, lambda tick: tick.viewer and tick.load is not None and tick.load.tps is not None
        )
        load = known(tick.load)
        assert (load.state, load.connected) == ("viewer", 0)
        seen = [tick.load.tps async for tick in _some(second, 40) if tick.load and tick.load.tps is not None]
        assert sum(seen) / len(seen) == pytest.approx(8000, rel=0.1)
        assert world.running_loads() == 1
        with pytest.raises(StackUnavailable, match=r"tui \(pid \d+ on here\) drives the load"):
            await second.console.toggle_load()
        await turn(second, "sync_binlog=0")
        await first.close()
        tick = await until_tick(second, lambda tick: not tick.viewer)
        assert any("no longer drives the load" in event.text for event in tick.events)
        assert await second.console.toggle_load()
        await until_tick(second, load_runs)
        assert world.running_loads() == 1


async def test_a_second_load_may_run_beside(world: World, tui: Session) -> None:
    async with world.attached("load", beside=True) as beside:
        await beside.drive(beside.driving.settings())
        assert str(conditions_of(beside).other_driver).startswith("tui (pid ")
        assert any("drives a load too" in event.text for event in beside.event_log.take_events())
        assert world.running_loads() == 2


async def test_a_load_that_cannot_start_leaves_a_session_that_watches(world: World) -> None:
    world.load_failure = ServerRefused(1142, "no CREATE privilege")
    async with world.started() as session:
        tick = await until_tick(session, lambda tick: tick.events)
        assert any(event.text == "no load: no CREATE privilege" for event in tick.events)
        assert known(tick.load).state == "stopped"
        assert await session.console.toggle_load()
        await until_tick(session, load_runs)


async def test_a_load_that_dies_is_told_and_can_be_started_again(world: World, tui: Session) -> None:
    world.loads[0].die(ReplexplorerError("the load's process ended by itself (signal 9)"))
    tick = await tick_after(tui, 10)
    why = "the load's process ended by itself (signal 9)"
    assert (known(tick.load).state, known(tick.load).fault) == ("stopped", why)
    assert [event.text for event in tick.events].count(why) == 1
    await turn(tui, "clients=2")
    assert world.requested["clients"] == 2
    assert await tui.console.toggle_load()
    load = known((await until_tick(tui, load_runs)).load)
    assert (load.clients, load.fault) == (2, None)


# -- status


@pytest.mark.parametrize(
    ("exists", "keep", "told"),
    [(True, False, "keeps running"), (False, True, "keeps running"), (False, False, "is removed")],
)
async def test_on_quit_only_a_stack_made_here_is_removed_and_never_when_the_terminal_went(
    exists: bool, keep: bool, told: str
) -> None:
    world = World(exists=exists)
    session = world.session(on_quit="remove")
    await session.start(lambda *_: None)
    await until_tick(session, load_runs)
    await session.console.repair()
    assert told in await session.close(keep=keep)
    assert world.exists is (told != "is removed")


async def test_links_that_stay_cut_are_named_at_the_end_in_commands_of_this_stack() -> None:
    world = World(replicas=2)
    session = world.session()
    session.outside.provider.name = "demo"
    await session.start(lambda *_: None)
    await turn(session, "partition@db3=ack")
    line = await session.close()
    assert "`replexplorer down --stack demo` removes it" in line
    assert line.endswith("partition db3 ack stays: `replexplorer set partition=none --stack demo` heals it")


async def test_threads_that_were_stopped_are_started_by_up_and_one_that_cannot_is_named_at_once() -> None:
    world = World(replicas=2)
    world.replica.io = world.replica.sql = "No"
    async with world.attached("up") as session, asyncio.timeout(20):
        await session.up(lambda *_: None)
        assert (world.replica.io, world.replica.sql) == ("Yes", "Yes")
        world.replica.sql, world.replica.sql_errno = "No", 1062
        world.servers["db3"].io = "Connecting"
        with pytest.raises(StackUnavailable, match=r"db2 does not replicate \(io on, sql error\)"):
            await session.up(lambda *_: None)
        world.replica.sql, world.replica.sql_errno = "Yes", 0
        world.replica.io, world.replica.io_errno = "No", 1236
        world.replica.refusals["START REPLICA"] = 1200
        with pytest.raises(StackUnavailable, match=r"db2 does not replicate \(io error, sql on\)"):
            await session.up(lambda *_: None)


async def test_ticks_come_twice_a_second_with_and_without_a_load(world: World, tui: Session) -> None:
    for runs in (True, False):
        if not runs:
            assert not await tui.console.toggle_load()
        assert world.running_loads() == runs
        times = [tick.at_s async for tick in _some(tui, 10)]
        assert (times[-1] - times[1]) / 8 == pytest.approx(0.5, abs=0.01)
    assert await tui.console.toggle_load()
    await until_tick(tui, load_runs)


# A stack that somebody removes while it comes up, or while a load runs on it


def killed_first(world: World) -> None:
    """As a busy daemon removes a stack."""
    for node in world.node_names:
        world.crash(node)
        world.sidecars[node].stop()
    asyncio.get_running_loop().call_later(8, world.remove)


@pytest.mark.parametrize(
    ("exists", "end"),
    [(False, World.remove), (False, World._make), (True, killed_first)],
    ids=["removed", "made anew in another shell", "killed before it is removed"],
)
async def test_up_sees_that_its_stack_was_taken_away_and_leaves_what_came_after(
    exists: bool, end: Callable[[World], None]
) -> None:
    """It waited 90 s and blamed the primary's log."""
    world = World(exists=exists)
    world.servers_stay_away = not exists
    for server in world.servers.values():
        server.starting = exists
    session = world.session("up")
    coming = asyncio.create_task(session.up(lambda *_: None))
    await asyncio.sleep(CREATING_S + 0.2)
    end(world)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(TakenAway, match="stack 'default' was removed while it came up"):
        await coming
    assert asyncio.get_running_loop().time() - began_s < 10.0
    assert world.removals == 0
    await session.disconnect()


@pytest.mark.parametrize(
    ("said", "words", "remedy"),
    [
        ((), "the server of db2 ended while it started", "see its log: log db2"),
        (
            (
                "0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.",
                "0 [ERROR] [MY-010119] [Server] Aborting",
            ),
            "the server of db2 ended while it started: [MY-000067] [Server] unknown variable 'x=1'",
            "see its log: log db2",
        ),
        (
            ("1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.",),
            "the server of db2 ended while it started: [MY-012584] [InnoDB] io_setup() failed with EAGAIN"
            " after 5 attempts: its machine's servers have used up fs.aio-max-nr",
            "run `sysctl fs.aio-max-nr=1048576` there, as root, then `replexplorer up`; or end other stacks;"
            " see its log: log db2",
        ),
    ],
)
async def test_a_server_that_ends_while_it_starts_is_not_waited_for_and_says_why(
    world: World, said: tuple[str, ...], words: str, remedy: str
) -> None:
    world.logs["db2"] = [*said]
    for server in world.servers.values():
        server.starting = True
    session = world.session("up")
    coming = asyncio.create_task(session.up(lambda *_: None))
    await asyncio.sleep(2)
    world.crash("db2")
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(StackUnavailable) as raised:
        await coming
    assert (raised.value.message, raised.value.hint) == (words, remedy)
    assert asyncio.get_running_loop().time() - began_s < 5.0
    await session.disconnect()


async def test_a_load_whose_stack_goes_ends_at_once_with_what_it_had(world: World) -> None:
    """It printed zeros to its end and exited 0."""
    async with world.attached("load") as session, session.observed():
        await session.drive(session.driving.settings())
        had = Measurement()
        measuring = asyncio.create_task(session.rig.load.measure(duration_s=600, into=had))
        await asyncio.sleep(5)
        world.remove()
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(StackUnavailable, match="stack 'default' was removed"):
            await measuring
        assert asyncio.get_running_loop().time() - began_s < 1.5
        assert had.commits > 0
        assert had.duration_s == pytest.approx(5, abs=1.5)


# `status` answers soon and whole whatever is down


HANGS_S = 3600.0


async def glance(world: World) -> tuple[Status, float]:
    """What `status` says in a shell of its own, and how long it took."""
    session = world.session("status")
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        return await session.status(), loop.time() - began_s
    finally:
        await session.disconnect()


def reachable(status: Status) -> list[bool]:
    return [node.reachable for node in status.nodes]


async def test_a_dead_node_costs_nothing_and_the_rest_is_told() -> None:
    world = World(replicas=2)
    world.crash("db2")
    status, took_s = await glance(world)
    assert took_s < 0.2
    assert (status.state, reachable(status)) == ("partial", [True, False, True])
    assert (status.protection.state, status.load) == ("off", DrivenLoad(None, 0))
    source, lost, whole = status.nodes
    assert (whole.gtid_executed, whole.missing_gtids, lost.missing_gtids) == (source.gtid_executed, "", None)
    assert source.binlogs is not None
    assert source.binlogs.end == "binlog.000001:1000"
    assert all(link.values is not None for link in status.links)
    assert status.footprint_bytes == 3 * (100 << 20)
    world.crash("db1")
    world.sidecars["db1"].stop()
    status, took_s = await glance(world)
    assert took_s < 0.5
    assert (status.protection.state, reachable(status)) == ("down", [False, False, True])
    assert status.footprint_bytes is None
    assert "no agent on db1" in str(status.links[0].fault)


@pytest.mark.parametrize(("missing", "lag_s"), [("", 0), ("uuid-1:7-9", 12.3)])
async def test_a_replica_that_gets_nothing_is_not_told_to_be_level(
    world: World, missing: str, lag_s: float | None
) -> None:
    """By its own word it is 0 s behind until its connection times out."""
    replica = world.servers["db2"]
    replica.applied.update(missing=missing, applied_us=12_300_000)
    status, _ = await glance(world)
    assert (status.nodes[1].io_thread, status.nodes[1].lag_s) == ("on", lag_s)


async def test_a_server_that_hangs_is_down_and_the_rest_is_told() -> None:
    world = World(replicas=2)
    world.servers["db3"].slow_s = HANGS_S
    status, took_s = await glance(world)
    assert took_s < 6.0
    assert (status.state, reachable(status)) == ("partial", [True, True, False])
    assert [link.replica for link in status.links] == ["db2", "db3"]


async def test_a_machine_on_which_everything_is_slow_has_no_dead_nodes(world: World) -> None:
    for sidecar in world.sidecars.values():
        sidecar.slow_s = 1.5
    world.primary.slow_s, world.replica.slow_s = 1.6, 1.9
    status, _ = await glance(world)
    assert (status.state, reachable(status)) == ("up", [True, True])


async def test_servers_that_have_just_begun_are_starting_and_later_they_are_down(world: World) -> None:
    for server in world.servers.values():
        server.starting = True
    assert (await glance(world))[0].state == "starting"
    await asyncio.sleep(120)
    assert (await glance(world))[0].state == "down"
    world.primary.starting = False
    assert (await glance(world))[0].state == "partial"
    world.crash("db1")
    world.crash("db2")
    world.replica.boot()
    world.replica.starting = True
    assert (await glance(world))[0].state == "starting"

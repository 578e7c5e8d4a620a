"""What servers do that the product relies on: scenarios, each on the world of fakes and on real servers.

A scenario that holds on one of them only says that the fakes have drifted from the servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Final

import pytest

from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.engine.fleet import Member
from replexplorer.engine.load import measure
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings
from tests.known import known
from tests.turning import inject, turn
from tests.waiting import until

App = Callable[[str], AbstractAsyncContextManager[Session]]
"""Opens one more app on the stack, by its holder's name."""
Scenario = Callable[[App], Awaitable[None]]

SCENARIOS: Final[list[Scenario]] = []
"""In an order in which one leaves a real stack as the next one needs it."""


def of_apps(play: Scenario) -> Scenario:
    """One more of them, which opens its apps by itself."""
    SCENARIOS.append(play)
    return play


def scenario(play: Callable[[Session], Awaitable[None]]) -> Scenario:
    """One more of them, with a single app."""

    @wraps(play)
    async def in_one_app(app: App) -> None:
        async with app("set") as session:
            await play(session)

    return of_apps(in_one_app)


async def seen(session: Session) -> Protection:
    """The protection as it is judged now."""
    await session.state.refresh()
    await session.state.look_twice_if_waiting()
    return session.state.protection()


async def becomes(session: Session, state: ProtectionState) -> Protection:
    """Wait until that is the protection."""
    return await until(lambda: seen(session), state, holds=lambda found: found.state is state, within_s=40)


async def acknowledged(session: Session, state: ProtectionState = ProtectionState.PROTECTED) -> Protection:
    """Commit until that is the protection: a commit alone shows whether it is acknowledged."""

    async def after_a_commit() -> Protection:
        await commit(session.fleet.source)
        return await seen(session)

    return await until(after_a_commit, state, holds=lambda found: found.state is state, within_s=40)


async def none_acknowledges(session: Session) -> None:
    """Wait until no replica is counted any more."""
    await until(lambda: seen(session), "none acknowledges", holds=lambda found: not found.replicas_acking)


async def commit(member: Member) -> None:
    """One transaction, as long as it takes."""
    await member.kick.query(member.dialect.kick, deadline_s=60)


def replica_of(session: Session) -> Member:
    return session.fleet.replicas[0]


async def threads(session: Session) -> tuple[str | None, str | None]:
    """Of the replica: its IO and its SQL thread."""
    await session.state.refresh()
    [view] = [view for view in session.state.node_views() if view.name == replica_of(session).name]
    return view.io_thread, view.sql_thread


async def lacks(session: Session) -> int:
    """How many transactions of the source the replica has not executed."""
    source, replica = session.fleet.source, replica_of(session)
    return gtid_count(subtract_gtids(await source.executed(), await replica.executed()))


async def errant(session: Session) -> int:
    """How many transactions the replica has that the source lacks."""
    has = await replica_of(session).executed()
    return gtid_count(subtract_gtids(has, await session.fleet.source.executed()))


@asynccontextmanager
async def broken(session: Session, text: str) -> AsyncIterator[None]:
    """While a fault is in force."""
    await inject(session, text)
    try:
        yield
    finally:
        await session.console.clear()


@asynccontextmanager
async def stopped(session: Session, thread: str) -> AsyncIterator[None]:
    """While somebody has stopped a thread of the replica by hand."""
    replica = replica_of(session)
    await replica.run(f"STOP REPLICA {thread}")
    try:
        yield
    finally:
        await replica.run(f"START REPLICA {thread}")


async def restarted(session: Session, member: Member) -> None:
    """Kill a server, start it, and wait until it answers."""
    process = session.fleet.server_process(member.name)
    await process.kill()
    await process.start()
    await until(lambda: answers(member), f"{member.name} answers", within_s=90)


async def answers(member: Member) -> bool:
    """Whether its server takes a statement."""
    try:
        await member.executed()
    except StackUnavailable:
        return False
    return True


# -- protection


@scenario
async def semi_sync_protects_while_it_is_on(session: Session) -> None:
    assert (await seen(session)).state is ProtectionState.OFF
    await turn(session, "semi_sync=on")
    protection = await acknowledged(session)
    assert (protection.requested, protection.operational) == (True, True)
    assert (protection.replicas_acking, protection.replicas_required) == (1, 1)
    await turn(session, "semi_sync=off")
    assert (await seen(session)).state is ProtectionState.OFF


@scenario
async def switched_on_by_hand_it_protects_as_well(session: Session) -> None:
    source = session.fleet.source
    await source.run("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    try:
        assert not (await acknowledged(session)).requested
    finally:
        await source.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")


@scenario
async def without_a_replica_a_commit_waits_its_timeout_then_all_go_unprotected(session: Session) -> None:
    await turn(session, "semi_sync=on", "semi_sync_timeout=6s")
    before = await acknowledged(session)
    async with stopped(session, "IO_THREAD"):
        await becomes(session, ProtectionState.ARMED)
        waiting = asyncio.create_task(commit(session.fleet.source))
        blocked = await becomes(session, ProtectionState.BLOCKED)
        assert not waiting.done()
        assert 1 < known(blocked.oldest_wait_s) < 7
        await waiting
        after = await becomes(session, ProtectionState.DEGRADED)
        assert (before.fallbacks or 0) + 1 == after.fallbacks
        assert after.operational is False
        await asyncio.wait_for(commit(session.fleet.source), 5)  # none waits any more
        assert (await seen(session)).fallbacks == after.fallbacks
    assert (await acknowledged(session)).operational is True


@scenario
async def unwilling_to_wait_without_replicas_it_falls_back_at_once(session: Session) -> None:
    await turn(session, "semi_sync=on", "wait_no_replica=off", "semi_sync_timeout=60s")
    await acknowledged(session)
    async with stopped(session, "IO_THREAD"):
        await none_acknowledges(session)
        await asyncio.wait_for(commit(session.fleet.source), 30)
        await becomes(session, ProtectionState.DEGRADED)
    await acknowledged(session)


@scenario
async def two_acknowledgements_do_not_come_from_one_replica(session: Session) -> None:
    await turn(session, "semi_sync=on", "semi_sync_timeout=3s")
    before = await acknowledged(session)
    await turn(session, "semi_sync_replicas=2")
    protection = await seen(session)
    assert (protection.replicas_acking, protection.replicas_required) == (1, 2)
    assert protection.state is not ProtectionState.PROTECTED
    await commit(session.fleet.source)
    fallen = await becomes(session, ProtectionState.DEGRADED)
    assert fallen.fallbacks == (before.fallbacks or 0) + 1
    await turn(session, "semi_sync_replicas=1")
    await acknowledged(session)


@scenario
async def flush_status_hides_no_fallback(session: Session) -> None:
    """FLUSH STATUS sets the counters back by which a fallback is seen."""
    await turn(session, "semi_sync=on", "semi_sync_timeout=2s")
    await acknowledged(session)
    async with stopped(session, "IO_THREAD"):
        await none_acknowledges(session)
        await commit(session.fleet.source)
        await becomes(session, ProtectionState.DEGRADED)
        await session.fleet.source.kick.query("FLUSH NO_WRITE_TO_BINLOG STATUS")
        assert (await seen(session)).state is ProtectionState.DEGRADED
    await acknowledged(session)
    await session.fleet.source.kick.query("FLUSH NO_WRITE_TO_BINLOG STATUS")
    assert (await acknowledged(session)).operational is True


@scenario
async def an_applier_that_stopped_acknowledges_and_lags(session: Session) -> None:
    await turn(session, "semi_sync=on")
    await acknowledged(session)
    async with broken(session, "applier_stop"):
        assert await threads(session) == ("on", "off")
        for _ in range(3):
            await commit(session.fleet.source)
        assert (await seen(session)).state is ProtectionState.PROTECTED
        assert await lacks(session) == 3
    await until(lambda: lacks(session), "it has all", holds=lambda count: count == 0)
    assert await threads(session) == ("on", "on")


# -- the link


@scenario
async def a_commit_takes_the_round_trip_only_while_it_is_acknowledged(session: Session) -> None:
    clock = session.outside.clock

    async def median_ms() -> float:
        run = await measure(session.load, clock, duration_s=2, from_s=clock.monotonic() + 1)
        return known(run.total.service.percentile_ms(50))

    await turn(session, "rtt=85")
    await session.drive(LoadSettings(1, "update_index"))
    assert await median_ms() < 85 / 2
    await turn(session, "semi_sync=on")
    assert await median_ms() >= 0.98 * 85
    await turn(session, "rtt=0")
    assert await median_ms() < 85 / 2


@scenario
async def a_partition_either_way_blocks_commits_until_it_heals(session: Session) -> None:
    await turn(session, "semi_sync=on", "semi_sync_timeout=120s")
    for way in ("both", "ack", "dump"):
        before = await acknowledged(session)
        async with broken(session, f"partition={way}"):
            waiting = asyncio.create_task(commit(session.fleet.source))
            blocked = await becomes(session, ProtectionState.BLOCKED)
            assert blocked.no_ack_can_come, way
            assert not waiting.done(), way
        await asyncio.wait_for(waiting, 90)
        assert (await acknowledged(session)).fallbacks == before.fallbacks, way


# -- servers that die


@scenario
async def a_restart_forgets_what_was_set_and_repair_brings_it_back(session: Session) -> None:
    name = KnobName("sync_binlog", SOURCE)
    await turn(session, "sync_binlog=10", "semi_sync=on")
    await restarted(session, session.fleet.source)
    await session.state.refresh()
    assert (session.state.requested_value(name), session.state.effective_value(name)) == (10, 1)
    assert (await seen(session)).state is not ProtectionState.PROTECTED
    await session.console.repair()
    await session.state.refresh()
    assert session.state.effective_value(name) == 10
    await acknowledged(session)


@scenario
async def a_source_that_is_gone_is_down_and_its_replica_connects_again(session: Session) -> None:
    source = session.fleet.source
    process = session.fleet.server_process(source.name)
    await process.kill()
    assert (await becomes(session, ProtectionState.DOWN)).replicas_acking is None
    await until(lambda: threads(session), "it looks for it", holds=lambda found: found[0] == "connecting")
    await process.start()
    await until(lambda: answers(source), "it answers", within_s=90)
    await until(lambda: threads(session), "both run", holds=lambda found: found == ("on", "on"), within_s=90)


@scenario
async def a_replica_that_is_gone_is_missed_and_acknowledges_when_it_is_back(session: Session) -> None:
    await turn(session, "semi_sync=on", "semi_sync_timeout=120s")
    await acknowledged(session)
    process = session.fleet.server_process(replica_of(session).name)
    await process.kill()
    await none_acknowledges(session)
    assert [node.reachable for node in (await session.status()).nodes] == [True, False]
    waiting = asyncio.create_task(commit(session.fleet.source))
    await becomes(session, ProtectionState.BLOCKED)
    await process.start()
    await until(lambda: answers(replica_of(session)), "it answers", within_s=90)
    await session.console.repair()
    await asyncio.wait_for(waiting, 120)
    await acknowledged(session)


# -- what servers refuse


@scenario
async def servers_refuse_what_is_unknown_forbidden_or_in_use(session: Session) -> None:
    replica = replica_of(session)
    for member, statement, number in (
        (session.fleet.source, "SET GLOBAL no_such_variable = 1", 1193),
        (replica, "SET GLOBAL replica_preserve_commit_order = OFF", 3017),
        (replica, replica.dialect.kick, 1290),
    ):
        with pytest.raises(ServerRefused) as refused:
            await member.run(statement)
        assert refused.value.number == number, statement


# -- several apps


@of_apps
async def one_app_drives_the_load_and_another_is_told_who(app: App) -> None:
    async with app("first") as first, app("second") as second:
        await first.start(lambda *_: None)
        await until(lambda: running(first), "the load runs")
        with pytest.raises(StackUnavailable, match=r"first \(pid"):
            await second.drive(LoadSettings(1, "insert"))
        await turn(second, "clients=3")
        await until(lambda: running(first), "it follows", holds=lambda clients: clients == 3)
        await first.close()
        await second.drive(LoadSettings(1, "insert"))
        assert await running(second) == 1


async def running(session: Session) -> object:
    """How many clients the load has."""
    return session.load.effective().get("clients")


@of_apps
async def what_one_app_asks_for_another_sees_and_returns(app: App) -> None:
    name = KnobName("sync_binlog", SOURCE)
    async with app("first") as first, app("second") as second:
        await asyncio.gather(turn(first, "sync_binlog=7"), turn(second, "semi_sync_timeout=3s"))
        await second.state.refresh()
        assert (second.state.requested_value(name), second.state.effective_value(name)) == (7, 7)
        await second.console.reset()
        await first.state.refresh()
        assert (first.state.requested_value(name), first.state.effective_value(name)) == (1, 1)


# -- roles


@scenario
async def roles_swap_and_only_the_source_takes_writes(session: Session) -> None:
    first, second = session.fleet.source_name, replica_of(session).name
    with pytest.raises(StackUnavailable, match="answers"):
        await session.console.failover()
    change = await session.console.switchover()
    assert (change.source_before, change.source, change.rpo.commits) == (first, second, 0)
    assert session.fleet.source_name == second
    with pytest.raises(ServerRefused, match="1290"):
        await session.fleet.member(first).run(session.fleet.member(first).dialect.kick)
    await commit(session.fleet.source)
    await until(lambda: lacks(session), "it follows", holds=lambda count: count == 0)
    await session.console.switchover(first)
    assert session.fleet.source_name == first


@scenario
async def a_write_on_a_replica_is_errant_and_a_copy_removes_it(session: Session) -> None:
    replica = replica_of(session)
    assert await errant(session) == 0
    await replica.run("SET GLOBAL super_read_only = OFF")
    await commit(replica)
    await replica.run("SET GLOBAL super_read_only = ON")
    assert await errant(session) == 1
    change = await session.console.rejoin(replica.name)
    assert set(change.errant_gtids) == {replica.name}
    assert (await errant(session), await lacks(session)) == (0, 0)

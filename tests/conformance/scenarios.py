"""What servers do that the product relies on: scenarios, each on the world of fakes and on real servers.

A scenario that holds on one of them only says that the fakes have drifted from the servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.server.protection import Protection
from replexplorer.engine.fleet import Member
from replexplorer.engine.session import Session
from tests.known import known
from tests.turning import inject, turn
from tests.waiting import until

Scenario = Callable[[Session], Awaitable[None]]
SCENARIOS: Final[list[Scenario]] = []
"""In an order in which one leaves a real stack as the next one needs it."""


def scenario(play: Scenario) -> Scenario:
    """One more of them."""
    SCENARIOS.append(play)
    return play


async def seen(session: Session) -> Protection:
    """The protection as it is judged now."""
    await session.state.refresh()
    await session.state.look_twice_if_waiting()
    return session.state.protection()


async def becomes(session: Session, state: str) -> Protection:
    """Wait until that is the protection."""
    return await until(lambda: seen(session), state, holds=lambda found: found.state == state, within_s=40)


async def acknowledged(session: Session) -> Protection:
    """Commit until it protects: a commit alone shows whether it is acknowledged."""

    async def after_a_commit() -> Protection:
        await commit(session.fleet.source)
        return await seen(session)

    return await until(after_a_commit, holds=lambda found: found.state == "protected", within_s=40)


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


@asynccontextmanager
async def broken(session: Session, text: str) -> AsyncIterator[None]:
    """While a fault is in force."""
    await inject(session, text)
    try:
        yield
    finally:
        await session.console.clear()


async def answers(member: Member) -> bool:
    """Whether its server takes a statement."""
    try:
        await member.executed()
    except StackUnavailable:
        return False
    return True


# -- protection


@scenario
async def semi_sync_protects_while_it_is_on_whoever_switches_it(session: Session) -> None:
    assert (await seen(session)).state == "off"
    await turn(session, "semi_sync=on")
    found = await acknowledged(session)
    assert (found.requested, found.operational) == (True, True)
    assert (found.replicas_acking, found.replicas_required) == (1, 1)
    await turn(session, "semi_sync=off")
    assert (await seen(session)).state == "off"
    source = session.fleet.source
    await source.run("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    try:
        assert not (await acknowledged(session)).requested
    finally:
        await source.run("SET GLOBAL rpl_semi_sync_source_enabled = OFF")


@scenario
async def without_a_replica_a_commit_waits_its_timeout_then_all_go_unprotected(session: Session) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=6s")
    before = await acknowledged(session)
    async with broken(session, "receiver_stop"):
        await becomes(session, "armed")
        waiting = asyncio.create_task(commit(session.fleet.source))
        blocked = await becomes(session, "blocked")
        assert not waiting.done()
        assert 1 < known(blocked.oldest_wait_s) < 7
        await waiting
        after = await becomes(session, "degraded")
        assert (before.fallbacks or 0) + 1 == after.fallbacks
        assert after.operational is False
        await asyncio.wait_for(commit(session.fleet.source), 5)  # none waits any more
        assert (await seen(session)).fallbacks == after.fallbacks
    assert (await acknowledged(session)).operational is True


@scenario
async def unwilling_to_wait_without_replicas_it_falls_back_at_once(session: Session) -> None:
    await turn(session, "semi_sync=on wait_no_replica=off semi_sync_timeout=60s")
    await acknowledged(session)
    async with broken(session, "receiver_stop"):
        await none_acknowledges(session)
        await asyncio.wait_for(commit(session.fleet.source), 30)
        await becomes(session, "degraded")
    await acknowledged(session)


@scenario
async def two_acknowledgements_do_not_come_from_one_replica(session: Session) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=3s")
    before = await acknowledged(session)
    await turn(session, "semi_sync_replicas=2")
    protection = await seen(session)
    assert (protection.replicas_acking, protection.replicas_required) == (1, 2)
    assert protection.state != "protected"
    await commit(session.fleet.source)
    fallen = await becomes(session, "degraded")
    assert fallen.fallbacks == (before.fallbacks or 0) + 1
    await turn(session, "semi_sync_replicas=1")
    await acknowledged(session)


@scenario
async def flush_status_hides_no_fallback(session: Session) -> None:
    """FLUSH STATUS sets the counters back by which a fallback is seen."""
    await turn(session, "semi_sync=on semi_sync_timeout=2s")
    await acknowledged(session)
    async with broken(session, "receiver_stop"):
        await none_acknowledges(session)
        await commit(session.fleet.source)
        await becomes(session, "degraded")
        await session.fleet.source.kick.query("FLUSH NO_WRITE_TO_BINLOG STATUS")
        assert (await seen(session)).state == "degraded"
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
        assert (await seen(session)).state == "protected"
        assert await lacks(session) == 3
    await until(lambda: lacks(session), "it has all", holds=lambda count: count == 0)
    assert await threads(session) == ("on", "on")


# -- the link


@scenario
async def a_partition_either_way_blocks_commits_until_it_heals(session: Session) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=120s")
    for way in ("both", "ack", "dump"):
        before = await acknowledged(session)
        async with broken(session, f"partition={way}"):
            waiting = asyncio.create_task(commit(session.fleet.source))
            blocked = await becomes(session, "blocked")
            assert blocked.no_ack_can_come, way
            assert not waiting.done(), way
        await asyncio.wait_for(waiting, 90)
        assert (await acknowledged(session)).fallbacks == before.fallbacks, way


# -- servers that die


@scenario
async def a_source_that_is_gone_is_down_and_its_replica_connects_again(session: Session) -> None:
    source = session.fleet.source
    process = session.fleet.server_process(source.name)
    await process.kill()
    assert (await becomes(session, "down")).replicas_acking is None
    await until(lambda: threads(session), "it looks for it", holds=lambda found: found[0] == "connecting")
    await process.start()
    await until(lambda: answers(source), "it answers", within_s=90)
    await until(lambda: threads(session), "both run", holds=lambda found: found == ("on", "on"), within_s=90)


@scenario
async def a_replica_that_is_gone_is_missed_and_acknowledges_when_it_is_back(session: Session) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=120s")
    await acknowledged(session)
    process = session.fleet.server_process(replica_of(session).name)
    await process.kill()
    await none_acknowledges(session)
    assert [node.reachable for node in (await session.status()).nodes] == [True, False]
    waiting = asyncio.create_task(commit(session.fleet.source))
    await becomes(session, "blocked")
    await process.start()
    await until(lambda: answers(replica_of(session)), "it answers", within_s=90)
    await session.console.repair()
    await asyncio.wait_for(waiting, 120)
    await acknowledged(session)

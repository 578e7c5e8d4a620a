"""What happens by itself: restarts, other apps' changes, addresses that move."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Desired
from replexplorer.engine.outcome import RolledBack
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known
from tests.turning import turn
from tests.waiting import load_runs, told, until_tick

REQUESTS = "semi_sync=on sync_binlog=0 rtt=20 sync_relay_log=1"
LOST = ("semi_sync on", "sync_binlog 0")


def given_back(world: World) -> bool:
    """Whether the source has what `REQUESTS` asks of it."""
    return (world.primary.enabled, world.primary.variables["sync_binlog"]) == (True, "0")


async def test_what_a_restart_took_is_asked_for_once_and_given_back_on_yes(world: World) -> None:
    async with world.started(reapply="ask", asks=True) as session, world.attached("set") as other:
        await turn(session, REQUESTS)
        await asyncio.sleep(5)
        world.restart("db1")
        await told(session, "db1 restarted and lost")
        await until_tick(session, lambda tick: tick.lost == LOST)
        await asyncio.sleep(10)
        await session.console.give_back(False)
        await told(session, "not restored: semi_sync, sync_binlog")
        await asyncio.sleep(20)
        assert (await until_tick(session, lambda _: True)).lost == ()
        assert not world.primary.enabled
        world.restart("db1")
        await until_tick(session, lambda tick: tick.lost == LOST)
        await turn(other, "sync_binlog=0")
        await until_tick(session, lambda tick: tick.lost == ("semi_sync on",))
        await session.console.give_back(True)
        await told(session, "mark: re-applied: ")
        assert given_back(world)
        assert (await until_tick(session, lambda _: True)).lost == ()


@TWO_REPLICAS
async def test_a_restarted_replica_gets_its_own_settings_back_and_its_epoch_says_so(
    world: World, tui: Session
) -> None:
    await turn(tui, "sync_relay_log=1 sync_binlog=0")
    await asyncio.sleep(5)
    world.restart("db2")
    before = len(world.changes)
    await told(tui, "re-applied: ")
    tick = await until_tick(tui, load_runs)
    assert [node.name for node in tick.nodes if node.restarted_s is not None] == ["db2"]
    assert known(tick.epochs[-2].after).outage.restarts == ("db2",)
    assert world.told()[before:] == ["db2: SET GLOBAL sync_relay_log = 1", "write document"]


async def test_what_can_be_given_back_is_given_back_though_the_rest_cannot(
    world: World, tui: Session
) -> None:
    """The replica is dead, so semi-sync cannot go on; the primary's durability can."""
    await turn(tui, "semi_sync=on sync_binlog=0")
    await asyncio.sleep(5)
    world.crash("db2")
    await until_tick(tui, lambda tick: tick.state == "partial")
    world.restart("db1")
    await told(tui, "semi_sync on refused")
    assert (world.primary.enabled, world.primary.variables["sync_binlog"]) == (False, "0")


async def test_another_app_s_change_is_marked_and_our_load_follows_or_that_it_cannot_is_told(
    world: World, tui: Session
) -> None:
    async with world.attached("set") as other:
        await turn(other, "clients=32 workload=foo sync_binlog=0")
        event = await told(tui, f"by {other.turns.actor.writer}")
        assert event.text.startswith("clients 8 → 32, workload update_index → foo, sync_binlog 1 → 0, by ")
        assert event.mark == (await until_tick(tui, load_runs)).epochs[-1].number == 1
        settings = known(world.loads[0].settings)
        assert (settings.clients, settings.workload) == (32, "foo")
        await turn(other, "workload=insert")
        world.trouble_at = len(world.changes)
        await told(tui, "our load did not follow")
        assert tui.monitor.failed is None


async def test_what_another_app_changes_is_not_taken_for_a_hand_s_however_long_it_takes(
    world: World, tui: Session
) -> None:
    """The server has the value seconds before the document says who asked for it."""
    tell = Mock(wraps=tui.event_log.tell)
    tui.event_log.tell = tell  # type: ignore[method-assign]
    async with world.attached("set") as other:
        world.links["db2"].retry_s = 4.0
        await turn(other, "partition=both")
        await turn(other, "sync_binlog=0 semi_sync=on partition=none rtt=2000")
        await turn(tui, "innodb_flush_log_at_trx_commit=2")
        await turn(other, "sync_binlog=1")
        world.primary.refusals["SET GLOBAL innodb_flush_log_at_timeout"] = 1231
        with pytest.raises(RolledBack):
            await turn(other, "sync_binlog=5 innodb_flush_log_at_timeout=3")
        world.restart("db1")
        await told(tui, "re-applied: ", within_s=60)
        await asyncio.sleep(20)
        async with other.turns.change():
            world.primary.variables["sync_binlog"] = "0"
            await asyncio.sleep(60)
            assert not any(word in str(tell.mock_calls) for word in ("by hand", "waiting for"))
        await told(tui, "sync_binlog 1 → 0, by hand on db1")


async def test_a_change_of_another_is_not_lost_behind_one_of_ours(world: World, tui: Session) -> None:
    """Ours reads the document as well, and must not make the other's change old news."""
    async with world.attached("set") as other:
        for number in range(10):
            await turn(other, f"clients={20 + number}")
            await turn(tui, f"sync_binlog={number + 2}")
        await told(tui, "→ 29, by ")
        await until(lambda: known(world.loads[0].settings).clients == 29)
        assert world.requested == {"clients": 29, "sync_binlog": 11}


async def test_a_replica_that_was_added_elsewhere_is_watched(world: World, tui: Session) -> None:
    world.grow()
    tick = await until_tick(tui, lambda tick: len(tick.links) == 2 and not tick.links[1].fault)
    assert (tick.state, tick.nodes[2].name) == ("up", "db3")
    await turn(tui, "rtt@db3=20 sync_relay_log@db3=1")
    await until_tick(tui, lambda tick: tick.links[1].rtt_asked_ms == 20.0)
    assert world.servers["db3"].variables["sync_relay_log"] == "1"


async def test_a_stack_that_is_made_again_under_us_is_watched_and_driven_unless_its_load_was_stopped(
    world: World, tui: Session
) -> None:
    await turn(tui, REQUESTS)
    world.remove()
    await until_tick(tui, lambda tick: tick.state == "down")
    await asyncio.sleep(30)
    assert tui.load.lost == "stack 'default' was removed"
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    await told(tui, "warn: the stack was removed and created again")
    tick = await until_tick(tui, lambda tick: load_runs(tick) and tick.links, within_s=60)
    assert (tick.state, tick.protection.state, tick.links[0].rtt_asked_ms) == ("up", "off", 0.0)
    assert (world.running_loads(), bool(tui.load.lost)) == (1, False)
    assert known(world.loads[-1].target).password == world.credentials.dsn_password
    with pytest.raises(UsageError, match="nothing to undo"):
        await tui.console.undo()
    await tui.console.toggle_load()
    world.remove()
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    await told(tui, "created again")
    await asyncio.sleep(10)
    assert world.running_loads() == 0


async def test_a_fall_back_to_async_is_told_and_its_epoch_claims_no_gain(world: World, tui: Session) -> None:
    """The cable out past the timeout, and in again: the whole story in events, epochs and the total."""
    await turn(tui, "semi_sync=on rtt=20")
    await until_tick(tui, lambda tick: tick.protection.state == "protected")
    await turn(tui, "partition=both")
    assert (await told(tui, "bad: BLOCKED: commits wait")).mark is None
    await until_tick(tui, lambda tick: (tick.protection.oldest_wait_s or 0) > 5)
    world.primary.time_out()
    await told(tui, "DEGRADED after 5.")
    await asyncio.sleep(5)
    await turn(tui, "partition=none")
    world.primary.operational = True
    await told(tui, "good: PROTECTED again after")
    tick = await until_tick(tui, lambda tick: tick.protection.state == "protected")
    *_, out, back = tick.epochs
    assert (out.verdict, out.delta_percent, back.verdict) == ("outage", None, "outage")
    outage = known(out.after).outage
    assert outage.blocked_s == pytest.approx(5.0, abs=0.6)
    assert tick.protection.unprotected == outage.unprotected + known(back.after).outage.unprotected
    assert tick.protection.unprotected == pytest.approx(world.primary.counters["no_tx"], abs=10)


@TWO_REPLICAS
async def test_a_repair_starts_stopped_threads_and_says_so_as_up_does(world: World, tui: Session) -> None:
    assert await tui.console.repair() == ()
    number = tui.event_log.begin_change("semi_sync off → on")
    world.replica.io = "No"  # as a change restarts it, which is no event of its own
    await asyncio.sleep(10)
    world.replica.io = "Yes"
    tui.event_log.change_effective(number, "semi_sync off → on", "semi_sync off → on")
    await asyncio.sleep(10)
    events = (await until_tick(tui, lambda tick: tick.events)).events
    assert [event.text for event in events if "thread" in event.text] == []
    world.replica.sql, world.servers["db3"].io = "No", "No"
    await told(tui, "warn: db2: SQL thread stopped")
    steps: list[str] = []
    done = await tui.console.repair(lambda text, _=None: steps.append(text))
    assert sorted(done) == ["db2: SQL thread started", "db3: IO thread started"]
    assert set(done) <= set(steps)
    await told(tui, "repaired: ")
    await told(tui, "both threads run again")
    await turn(tui, "partition=both")
    world.replica.io = "Connecting"
    async with asyncio.timeout(5):  # it is not waited for behind a link that is cut
        assert await tui.console.repair() == ()


async def test_a_repair_says_which_servers_it_started_and_what_it_set_again(world: World) -> None:
    async with world.started(reapply="off") as session:
        await turn(session, "sync_binlog=0")
        world.crash("db1")
        world.sidecars["db2"].stop()
        await told(session, "bad: db1 is down")
        done = await session.console.repair()
        assert done == ("db1: server started", "db2: sidecar started", "sync_binlog set again")
        await told(session, "good: db1 answers again")


async def test_what_restarts_took_is_given_back_and_marked_whoever_else_looks(
    world: World, tui: Session
) -> None:
    async with world.started() as second:
        await turn(tui, REQUESTS)
        await told(tui, "semi_sync off → on")
        await asyncio.sleep(5)
        world.restart("db1")
        world.sidecars["db2"].restart()
        assert (await told(tui, "mark: re-applied: ")).mark is not None
        await asyncio.sleep(10)
        assert given_back(world)
        assert world.rtt_ms() == pytest.approx(20.0)
        await until_tick(second, lambda tick: tick.protection.state == "protected")
    assert (await until_tick(tui, load_runs)).epochs[-1].title.startswith("re-applied: ")


# -- while no app looks


async def left_alone(world: World) -> None:
    """An app turns knobs and leaves; a while later the source restarts."""
    async with world.attached() as session:
        await turn(session, REQUESTS)
    await asyncio.sleep(30)
    world.restart("db1")
    await asyncio.sleep(30)


@pytest.mark.parametrize("yes", [True, False])
async def test_up_gives_back_what_it_is_allowed_to(world: World, yes: bool) -> None:
    await left_alone(world)
    asked: list[str] = []

    async def consent(lost: Desired) -> bool:
        asked.extend(map(str, lost))
        return yes

    async with world.attached("up", reapply="ask") as session:
        await session.up(lambda *_: None, consent)
        assert asked == ["semi_sync", "sync_binlog"]
        assert given_back(world) is yes


async def test_what_an_experiment_s_restart_took_is_the_experiment_s_to_give_back(world: World) -> None:
    async with world.attached("drill kill-primary") as drill:
        await turn(drill, "sync_binlog=0")
        async with drill.turns.measuring("drill", "kill-primary"):
            world.restart("db1")
            await asyncio.sleep(30)
            async with world.started():
                assert world.primary.variables["sync_binlog"] == "1"


async def test_what_restarts_took_while_no_app_looked_is_asked_for_told_or_given_back_at_the_start(
    world: World,
) -> None:
    await left_alone(world)
    world.sidecars["db2"].restart()
    async with world.started(reapply="ask", asks=True) as session:
        assert (await until_tick(session, lambda tick: tick.lost)).lost[:2] == LOST
    for reapply in ("ask", "off"):
        async with world.started(reapply=reapply) as session:
            await told(session, f"reapply = {reapply}")
            await asyncio.sleep(5)
    assert not given_back(world)
    async with world.started() as session:
        assert given_back(world)
        assert world.rtt_ms() == pytest.approx(20.0)
        words = str((await until_tick(session, lambda tick: tick.events)).events)
        assert "db1 restarted while no app was attached and lost" in words
        assert "<Severity.MARK: 'mark'>, text='re-applied: " in words
    world.primary.variables["sync_binlog"] = "7"  # by hand, and nothing restarted
    async with world.started():
        assert world.primary.variables["sync_binlog"] == "7"


async def test_a_restarted_sidecar_is_probed_again_and_gets_its_links_back(
    world: World, tui: Session
) -> None:
    await asyncio.sleep(5)
    for sidecar in world.sidecars.values():
        sidecar.restart()
    await told(tui, "the sidecar of db2 restarted")
    assert world.changes == []
    await until(lambda: world.sidecars["db1"].watched == {"db2"})
    assert world.sidecars["db2"].watched == {"db1"}
    await turn(tui, "rtt=85")
    for sidecar in world.sidecars.values():
        await asyncio.sleep(5)
        sidecar.restart()
        assert world.rtt_ms() < 43
        await until(lambda: world.rtt_ms() == pytest.approx(85.0))
        await until_tick(tui, lambda tick: tick.rtt and tick.rtt.rtt_measured_ms == pytest.approx(85.0))


@TWO_REPLICAS
async def test_a_variable_that_is_set_by_hand_is_a_mark_and_begins_an_epoch(
    world: World, tui: Session
) -> None:
    world.primary.variables["sync_binlog"] = "0"
    assert (await told(tui, "mark: sync_binlog 1 → 0, by hand on db1")).mark == 1
    epoch = (await until_tick(tui, load_runs)).epochs[-1]
    assert (epoch.number, epoch.title) == (1, "sync_binlog 1 → 0")
    world.primary.variables["sync_binlog"] = "1"
    await told(tui, "sync_binlog 0 → 1, by hand on db1, as requested again")
    world.servers["db3"].variables["sync_relay_log"] = "7"
    assert (await told(tui, "sync_relay_log@db3 10000 → 7, by hand on db3")).mark == 3
    await asyncio.sleep(10)
    assert (tui.event_log._last_mark, world.requested) == (3, {})


async def test_our_own_change_is_marked_once_and_what_was_requested_before_we_came_is_no_news(
    world: World,
) -> None:
    async with world.attached() as before:
        await turn(before, "rtt=5")
    async with world.started() as tui:
        await until_tick(tui, load_runs)
        await turn(tui, "clients=4")
        await turn(tui, "sync_binlog=0")
        await asyncio.sleep(5)
        events = (await until_tick(tui, lambda tick: tick.events)).events
        marks = [event.text for event in events if event.mark is not None]
        assert marks == ["clients 8 → 4", "SET GLOBAL sync_binlog = 0"]
        assert len(world.loads[0].history) == 2


async def test_addresses_that_move_are_followed_by_watcher_and_load(world: World, tui: Session) -> None:
    world.moved = {"db1": "10.0.0.98", "db2": "10.0.0.99"}
    await until(lambda: world.sidecars["db1"].addresses.get("db2") == "10.0.0.99")
    await until(lambda: known(world.loads[-1].target).host == "10.0.0.98")
    tick = await until_tick(tui, load_runs)
    assert (tick.state, tick.nodes[1].host, world.running_loads()) == ("up", "10.0.0.99", 1)
    assert tui.monitor.failed is None


@TWO_REPLICAS
async def test_transactions_that_the_source_lacks_are_told_once_and_a_commit_that_waits_is_none(
    world: World, tui: Session
) -> None:
    # A replica may have executed what the source's session still holds.
    world.replica.errant, world.primary.owned = "uuid-0:100000", "uuid-0:100000#48"
    await asyncio.sleep(30)
    assert "lacks" not in str((await until_tick(tui, load_runs)).events)
    world.servers["db3"].errant = "uuid-9:443-8709"
    await told(tui, "bad: db3 has 8,267 transactions that the source lacks: uuid-9:443-8709")
    tick = await until_tick(tui, load_runs)
    assert [node.errant_gtids for node in tick.nodes] == [None, "", "uuid-9:443-8709"]
    world.servers["db3"].errant = ""
    await told(tui, "good: db3 no longer has transactions that the source lacks")

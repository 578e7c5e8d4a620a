"""What happens by itself: restarts, other apps' changes, addresses that move."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import Desired
from replexplorer.engine.outcome import RolledBack
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known, refusal
from tests.turning import turn
from tests.waiting import load_runs, tick_after, told, until_tick

REQUESTS = "semi_sync=on sync_binlog=0 rtt=20 sync_relay_log=1"
LOST = ("semi_sync on", "sync_binlog 0")


def given_back(world: World) -> bool:
    """Whether the source has what `REQUESTS` asks of it."""
    return (world.primary.enabled, world.primary.variables["sync_binlog"]) == (True, "0")


async def log(session: Session, seconds: float = 10) -> list[str]:
    """Look on for so many seconds; all that the log says by then, each line with severity and mark."""
    ends_s = session.event_log.at_s + seconds
    await until_tick(session, lambda tick: tick.at_s >= ends_s, within_s=2 * seconds)
    events = (event for tick in session.past() for event in tick.events)
    return [f"{event.severity} {event.mark or '-'}: {event.text}" for event in events]


async def test_what_a_restart_took_is_asked_for_once_and_given_back_on_yes(
    world: World, snapshot: object
) -> None:
    async with world.started(reapply="ask", asks=True) as session, world.attached("set") as other:
        await turn(session, REQUESTS)
        await log(session, 5)
        world.restart("db1")
        await until_tick(session, lambda tick: tick.lost == LOST)
        await session.console.give_back(False)
        await log(session, 20)
        assert ((await tick_after(session)).lost, world.primary.enabled) == ((), False)
        world.restart("db1")
        await until_tick(session, lambda tick: tick.lost == LOST)
        await turn(other, "sync_binlog=0")
        await until_tick(session, lambda tick: tick.lost == LOST[:1])
        await session.console.give_back(True)
        assert await log(session) == snapshot
        assert ((await tick_after(session)).lost, given_back(world)) == ((), True)


@TWO_REPLICAS
async def test_what_restarts_took_is_given_back_as_far_as_can_be_and_marked_whoever_else_looks(
    world: World, tui: Session, snapshot: object
) -> None:
    async with world.started() as second:
        await turn(tui, REQUESTS)
        await log(tui, 5)
        before = len(world.changes)
        world.restart("db2")
        tick = await tick_after(tui, 10)
        assert world.told()[before:] == ["db2: SET GLOBAL sync_relay_log = 1", "write document"]
        assert [node.name for node in tick.nodes if node.restarted_s is not None] == ["db2"]
        assert [known(epoch.after).outage.restarts for epoch in tick.epochs] == [(), ("db2",)]
        world.restart("db1")
        world.sidecars["db2"].restart()
        await log(tui)
        assert given_back(world)
        assert world.rtt_ms() == pytest.approx(20.0)
        await until_tick(second, lambda tick: tick.protection.state == "protected")
    # Replicas are dead, so semi-sync cannot go on; the source's durability can.
    world.crash("db2")
    world.crash("db3")
    await until_tick(tui, lambda tick: tick.state == "partial")
    world.restart("db1")
    assert await log(tui) == snapshot
    assert (world.primary.enabled, world.primary.variables["sync_binlog"]) == (False, "0")


async def test_another_app_s_changes_are_marked_and_our_load_follows_or_that_it_cannot_is_told(
    world: World, tui: Session, snapshot: object
) -> None:
    async with world.attached("set") as other:
        for number in range(10):  # ours reads the document as well, and does not make the other's old news
            await turn(other, f"clients={20 + number} workload=foo")
            await turn(tui, f"sync_relay_log={number + 2}")
        await log(tui)
        settings = known(world.loads[0].settings)
        assert (settings.clients, settings.workload) == (29, "foo")
        await turn(other, "workload=insert")
        world.trouble_at = len(world.changes)
        assert await log(tui) == snapshot
        assert (tui.monitor.failed, world.requested["sync_relay_log@db2"]) == (None, 11)


async def test_what_another_app_changes_is_not_taken_for_a_hand_s_however_long_it_takes(
    world: World, tui: Session
) -> None:
    """The server has the value seconds before the document says who asked for it."""
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
        await log(tui, 80)
        async with other.turns.change():
            world.primary.variables["sync_binlog"] = "0"
            said = str(await log(tui, 60))
        assert "re-applied: " in said
        assert not any(words in said for words in ("by hand", "waiting for"))
        await told(tui, "sync_binlog 1 → 0, by hand on db1")


async def test_a_replica_that_was_added_elsewhere_is_watched(world: World, tui: Session) -> None:
    world.grow()
    await until_tick(tui, lambda tick: len(tick.links) == 2 and not tick.links[1].fault)
    await turn(tui, "rtt@db3=20 sync_relay_log@db3=1")
    await until_tick(tui, lambda tick: tick.links[1].rtt_asked_ms == 20.0)
    assert world.servers["db3"].variables["sync_relay_log"] == "1"


async def test_a_stack_that_is_made_again_under_us_is_watched_and_driven_unless_its_load_was_stopped(
    world: World, tui: Session, snapshot: object
) -> None:
    await turn(tui, REQUESTS)
    world.remove()
    await until_tick(tui, lambda tick: tick.state == "down")
    await log(tui, 30)
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    tick = await until_tick(tui, lambda tick: tick.state == "up" and load_runs(tick), within_s=60)
    assert (tick.protection.state, tick.links[0].rtt_asked_ms) == ("off", 0.0)
    assert known(world.loads[-1].target).password == world.credentials.dsn_password
    assert "nothing to undo" in await refusal(tui.console.undo(), UsageError)
    await tui.console.toggle_load()
    world.remove()
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    assert await log(tui, 20) == snapshot
    assert world.running_loads() == 0


async def test_a_fall_back_to_async_is_told_and_its_epoch_claims_no_gain(
    world: World, tui: Session, snapshot: object
) -> None:
    """The cable out past the timeout, and in again: the whole story in events, epochs and the total."""
    await turn(tui, "semi_sync=on rtt=20")
    await log(tui, 5)
    await turn(tui, "partition=both")
    await until_tick(tui, lambda tick: (tick.protection.oldest_wait_s or 0) > 5)
    world.primary.time_out()
    await log(tui, 5)
    await turn(tui, "partition=none")
    world.primary.operational = True
    assert await log(tui) == snapshot
    tick = await until_tick(tui, lambda tick: tick.protection.state == "protected")
    *_, out, back = tick.epochs
    assert (out.verdict, out.delta_percent, back.verdict) == ("outage", None, "outage")
    outage = known(out.after).outage
    assert outage.blocked_s == pytest.approx(5.0, abs=0.6)
    assert tick.protection.unprotected == outage.unprotected + known(back.after).outage.unprotected
    assert tick.protection.unprotected == pytest.approx(world.primary.counters["no_tx"], abs=10)


@TWO_REPLICAS
async def test_a_repair_starts_what_stopped_and_says_so_as_up_does(
    world: World, tui: Session, snapshot: object
) -> None:
    number = tui.event_log.begin_change("semi_sync off → on")
    world.replica.io = "No"  # as a change restarts it, which is no event of its own
    await log(tui)
    world.replica.io = "Yes"
    tui.event_log.change_effective(number, "semi_sync off → on", "semi_sync off → on")
    steps: list[str] = []
    await log(tui)
    world.replica.sql, world.servers["db3"].io = "No", "No"
    await log(tui)
    done = await tui.console.repair(lambda text, _=None: steps.append(text))
    assert set(done) <= set(steps)
    await log(tui)
    world.crash("db1")
    world.sidecars["db2"].stop()
    await log(tui)
    assert [*done, *await tui.console.repair(), *await log(tui)] == snapshot
    await turn(tui, "partition=both")
    world.replica.io = "Connecting"
    async with asyncio.timeout(5):  # it is not waited for behind a link that is cut
        assert await tui.console.repair() == ()


# -- while no app looks


async def test_what_an_experiment_s_restart_took_is_the_experiment_s_to_give_back(world: World) -> None:
    async with world.attached("drill kill-primary") as drill:
        await turn(drill, "sync_binlog=0")
        async with drill.turns.measuring("drill", "kill-primary"):
            world.restart("db1")
            await asyncio.sleep(30)
            async with world.started():
                assert world.primary.variables["sync_binlog"] == "1"


async def test_what_restarts_took_while_no_app_looked_is_asked_for_told_or_given_back_at_the_start(
    world: World, snapshot: object
) -> None:
    async with world.attached() as session:
        await turn(session, REQUESTS)
    await asyncio.sleep(30)
    world.restart("db1")
    world.sidecars["db2"].restart()
    await asyncio.sleep(30)
    asked: list[str] = []

    async def refuse(lost: Desired) -> bool:
        asked.extend(map(str, lost))
        return False

    async with world.attached("up", reapply="ask") as session:
        await session.up(lambda *_: None, refuse)
        said = [asked, [event.text for event in session.event_log.take_events()]]
    async with world.started(reapply="ask", asks=True) as session:
        assert (await until_tick(session, lambda tick: tick.lost)).lost[:2] == LOST
    for reapply in ("ask", "off", "auto"):
        assert not given_back(world)
        async with world.started(reapply=reapply) as session:
            said.append(await log(session, 1))
    assert said == snapshot
    assert given_back(world)
    assert world.rtt_ms() == pytest.approx(20.0)
    world.primary.variables["sync_binlog"] = "7"  # by hand, and nothing restarted
    async with world.started():
        assert world.primary.variables["sync_binlog"] == "7"


async def test_a_restarted_sidecar_is_probed_again_and_gets_its_links_back(
    world: World, tui: Session
) -> None:
    await turn(tui, "rtt=85")
    for sidecar in world.sidecars.values():
        await log(tui, 5)
        sidecar.restart()
        assert (world.rtt_ms() < 43, sidecar.watched) == (True, set())
        await until(lambda: world.rtt_ms() == pytest.approx(85.0))
        await until_tick(tui, lambda tick: tick.rtt and tick.rtt.rtt_measured_ms == pytest.approx(85.0))


@TWO_REPLICAS
async def test_a_variable_that_is_set_by_hand_and_our_own_changes_are_marked_once_and_begin_epochs(
    world: World, snapshot: object
) -> None:
    async with world.attached() as before:
        await turn(before, "rtt=5")  # which is no news to who comes later
    async with world.started() as tui:
        await turn(tui, "clients=4")
        await turn(tui, "innodb_flush_log_at_trx_commit=2")
        for value in ("0", "1"):
            await log(tui)
            world.primary.variables["sync_binlog"] = value
        await log(tui)
        world.servers["db3"].variables["sync_relay_log"] = "7"
        assert await log(tui) == snapshot
        epochs = (await tick_after(tui)).epochs
        assert [f"{epoch.number} {epoch.title}" for epoch in epochs] == snapshot
        assert len(world.loads[0].history) == 2
        assert "sync_binlog" not in world.requested


async def test_addresses_that_move_are_followed_by_watcher_and_load(world: World, tui: Session) -> None:
    world.moved = {"db1": "10.0.0.98", "db2": "10.0.0.99"}
    await until(lambda: world.sidecars["db1"].addresses.get("db2") == "10.0.0.99")
    await until(lambda: known(world.loads[-1].target).host == "10.0.0.98")
    tick = await until_tick(tui, load_runs)
    assert (tick.state, tick.nodes[1].host, tui.monitor.failed) == ("up", "10.0.0.99", None)


@TWO_REPLICAS
async def test_transactions_that_the_source_lacks_are_told_once_and_a_commit_that_waits_is_none(
    world: World, tui: Session, snapshot: object
) -> None:
    # A replica may have executed what the source's session still holds.
    world.replica.errant, world.primary.owned = "uuid-0:100000", "uuid-0:100000#48"
    await log(tui, 30)
    world.servers["db3"].errant = "uuid-9:443-8709"
    await log(tui, 30)
    tick = await until_tick(tui, load_runs)
    assert [node.errant_gtids for node in tick.nodes] == [None, "", "uuid-9:443-8709"]
    world.servers["db3"].errant = ""
    assert await log(tui, 30) == snapshot

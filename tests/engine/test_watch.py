"""What happens by itself: restarts, other apps' changes, addresses that move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.knobs.names import Desired
from replexplorer.engine.outcome import RolledBack
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known
from tests.turning import turn
from tests.waiting import load_runs, told, until_tick

REQUESTS = ("semi_sync=on", "sync_binlog=0", "rtt=20", "sync_relay_log=1")


LOST = ("semi_sync on", "sync_binlog 0")


async def test_what_a_restart_took_is_asked_for_once_and_given_back_on_yes(world: World) -> None:
    async with world.started(reapply="ask", asks=True) as session, world.attached("set") as other:
        await turn(session, *REQUESTS)
        await asyncio.sleep(5)
        world.restart("db1")
        await told(session, "db1 restarted and lost")
        assert (await until_tick(session, lambda tick: tick.lost)).lost == LOST
        await asyncio.sleep(10)
        assert not world.primary.enabled
        await session.console.give_back(False)
        await told(session, "not restored: semi_sync, sync_binlog")
        await asyncio.sleep(20)
        assert (await until_tick(session, lambda _: True)).lost == ()
        assert not world.primary.enabled
        assert world.requested["semi_sync"] == "on"
        world.restart("db1")
        assert (await until_tick(session, lambda tick: tick.lost)).lost == LOST
        await turn(other, "sync_binlog=0")
        assert (await until_tick(session, lambda tick: tick.lost != LOST)).lost == ("semi_sync on",)
        await session.console.give_back(True)
        assert (await told(session, "re-applied: ")).severity is Severity.MARK
        assert (world.primary.enabled, world.primary.variables["sync_binlog"]) == (True, "0")
        assert (await until_tick(session, lambda _: True)).lost == ()


@pytest.mark.parametrize("yes", [True, False])
async def test_up_gives_back_what_it_is_allowed_to(world: World, yes: bool) -> None:
    await left_alone(world, *REQUESTS)
    world.restart("db1")
    await asyncio.sleep(30)
    asked: list[str] = []

    async def consent(lost: Desired) -> bool:
        asked.extend(map(str, lost))
        return yes

    async with world.attached("up", reapply="ask") as session:
        await session.up(lambda *_: None, consent)
        assert asked == ["semi_sync", "sync_binlog"]
        assert world.primary.enabled is yes


@TWO_REPLICAS
async def test_a_restarted_replica_gets_its_own_settings_back(world: World, tui: Session) -> None:
    await turn(tui, "sync_relay_log=1", "sync_binlog=0")
    await asyncio.sleep(5)
    world.restart("db2")
    before = len(world.changes)
    await told(tui, "re-applied: ")
    assert world.told()[before:] == ["db2: SET GLOBAL sync_relay_log = 1", "write document"]


async def test_what_can_be_given_back_is_given_back_though_the_rest_cannot(
    world: World, tui: Session
) -> None:
    """The replica is dead, so semi-sync cannot go on; the primary's durability can."""
    await turn(tui, "semi_sync=on", "sync_binlog=0", "innodb_flush_log_at_trx_commit=2")
    await asyncio.sleep(5)
    world.crash("db2")
    await until_tick(tui, lambda tick: tick.state == "partial")
    world.restart("db1")
    await until(lambda: world.primary.variables["innodb_flush_log_at_trx_commit"] == "2")
    assert world.primary.variables["sync_binlog"] == "0"
    assert not world.primary.enabled
    assert (await told(tui, "semi_sync on refused")).severity is Severity.BAD


async def test_an_answer_that_a_busy_machine_delays_is_no_restart(world: World, tui: Session) -> None:
    """The agent says how long it runs; when that was read is anybody's guess."""
    await turn(tui, "rtt=85")
    heard: list[str] = []
    for late_s in (0.0, 4.0, 0.1, 20.0, 0.0):
        world.sidecars["db1"].answers_late_s = late_s
        ends_s = asyncio.get_running_loop().time() + late_s + 5
        async for tick in tui.ticks():
            heard += [event.text for event in tick.events]
            if asyncio.get_running_loop().time() > ends_s:
                break
    assert [text for text in heard if "restarted" in text] == []
    world.sidecars["db1"].restart()
    await told(tui, "the sidecar of db1 restarted")


async def test_another_app_s_change_is_marked_and_our_load_follows_or_that_it_cannot_is_told(
    world: World, tui: Session
) -> None:
    async with world.attached("set") as other:
        await turn(other, "clients=32", "workload=foo", "sync_binlog=0")
        event = await told(tui, f"by {other.turns.actor.writer}")
        assert "clients 8 → 32" in event.text
        assert "sync_binlog 1 → 0" in event.text
        assert event.mark == 1
        settings = known(world.loads[0].settings)
        assert (settings.clients, settings.workload) == (32, "foo")
        tick = await until_tick(tui, lambda tick: tick.load is not None and tick.load.clients == 32)
        assert tick.epochs[-1].number == 1
        await turn(other, "workload=insert")
        world.trouble_at = len(world.changes)
        assert (await told(tui, "our load did not follow")).severity is Severity.BAD
        assert tui.monitor.failed is None


def hands(session: Session) -> list[str]:
    """What the log says from now on of variables that somebody sets by hand."""
    found, tell = list[str](), session.event_log.tell

    def noting(severity: Severity, text: str, **more: Any) -> None:
        found.extend([text] if "by hand" in text else [])
        tell(severity, text, **more)

    session.event_log.tell = noting  # type: ignore[method-assign]
    return found


async def test_what_another_app_changes_is_not_taken_for_a_hand_s_however_long_it_takes(
    world: World, tui: Session
) -> None:
    """The server has the value seconds before the document says who asked for it."""
    async with world.attached("set") as other:
        seen = hands(tui)
        world.links["db2"].retry_s = 4.0
        await turn(other, "partition=both")
        await turn(other, "sync_binlog=0", "semi_sync=on", "partition=none", "rtt=2000")
        await turn(tui, "innodb_flush_log_at_trx_commit=2")
        await turn(other, "sync_binlog=1")
        world.primary.refusals["SET GLOBAL innodb_flush_log_at_timeout"] = 1231
        with pytest.raises(RolledBack):
            await turn(other, "sync_binlog=5", "innodb_flush_log_at_timeout=3")
        world.restart("db1")
        await told(tui, "re-applied: ", within_s=60)
        await asyncio.sleep(20)
        async with other.turns.change():
            world.primary.variables["sync_binlog"] = "0"
            await asyncio.sleep(60)
            assert seen == []
            events = (await until_tick(tui, lambda _: True)).events
            assert not any("waiting for" in event.text for event in events)
        await told(tui, "sync_binlog 1 → 0, by hand on db1")


async def test_a_change_of_another_is_not_lost_behind_one_of_ours(world: World, tui: Session) -> None:
    """Ours reads the document as well, and must not make the other's change old news."""
    async with world.attached("set") as other:
        for number in range(10):
            await turn(other, f"clients={20 + number}")
            await turn(tui, f"sync_binlog={number + 2}")
        await until(lambda: bool(world.loads[0].settings and world.loads[0].settings.clients == 29))
        assert world.requested == {"clients": 29, "sync_binlog": 11}
        await told(tui, "→ 29, by ")


async def test_a_replica_that_was_added_elsewhere_is_watched(world: World, tui: Session) -> None:
    world.grow()
    tick = await until_tick(tui, lambda tick: len(tick.links) == 2 and not tick.links[1].fault)
    assert (tick.state, tick.nodes[2].name) == ("up", "db3")
    await turn(tui, "rtt@db3=20", "sync_relay_log@db3=1")
    await until_tick(tui, lambda tick: tick.links[1].rtt_asked_ms == 20.0)
    assert world.servers["db3"].variables["sync_relay_log"] == "1"


async def test_a_stack_that_is_made_anew_under_us_is_watched_and_driven(world: World, tui: Session) -> None:
    await turn(tui, *REQUESTS)
    await asyncio.sleep(5)
    world.remove()
    await until_tick(tui, lambda tick: tick.state == "down")
    await asyncio.sleep(30)
    assert tui.load.lost == "stack 'default' was removed"
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    assert (await told(tui, "created again")).severity is Severity.WARN
    tick = await until_tick(
        tui, lambda tick: tick.state == "up" and load_runs(tick) and bool(tick.links), within_s=60
    )
    assert (tick.protection.state, tick.links[0].rtt_asked_ms) == ("off", 0.0)
    await until(lambda: world.running_loads() == 1)
    assert known(world.loads[-1].target).password == world.credentials.dsn_password
    assert tui.load.lost is None
    with pytest.raises(UsageError, match="nothing to undo"):
        await tui.console.undo()
    await turn(tui, "semi_sync=on")


async def test_a_load_that_was_stopped_by_hand_stays_so_when_the_stack_is_made_anew(
    world: World, tui: Session
) -> None:
    await tui.console.toggle_load()
    world.remove()
    await tui.outside.provider.up(UpOptions(), lambda *_: None)
    await until_tick(tui, lambda tick: tick.state == "up")
    await asyncio.sleep(10)
    assert world.running_loads() == 0


# -- while no app looks


async def left_alone(world: World, *requests: str) -> None:
    """An app turns knobs and leaves; a while goes by."""
    async with world.attached() as session:
        await turn(session, *requests)
    await asyncio.sleep(30)


async def test_what_an_experiment_s_restart_took_is_the_experiment_s_to_give_back(world: World) -> None:
    await left_alone(world, "sync_binlog=0")
    async with world.attached("drill kill-primary") as drill, drill.turns.measuring("drill", "kill-primary"):
        world.restart("db1")
        await asyncio.sleep(30)
        before = len(world.told())
        async with world.started():
            assert "SET GLOBAL sync_binlog = 0" not in world.told()[before:]


async def test_a_fall_back_to_async_is_told_and_its_epoch_claims_no_gain(world: World, tui: Session) -> None:
    """The cable out past the timeout, and in again: the whole story in events, epochs and the total."""
    await turn(tui, "semi_sync=on", "rtt=20", "clients=8")
    await until_tick(tui, lambda tick: tick.protection.state == "protected")
    await asyncio.sleep(5)
    await turn(tui, "partition=both")
    event = await told(tui, "BLOCKED: commits wait")
    assert (event.severity, event.mark) == (Severity.BAD, None)
    tick = await until_tick(tui, lambda tick: (tick.protection.oldest_wait_s or 0) > 5)
    await asyncio.sleep(10 - (tick.protection.oldest_wait_s or 0))
    world.primary.time_out()
    await told(tui, "DEGRADED after 10.")
    await asyncio.sleep(5)
    await turn(tui, "partition=none")
    world.primary.operational = True
    assert (await told(tui, "PROTECTED again after")).severity is Severity.GOOD
    tick = await until_tick(tui, lambda tick: tick.protection.state == "protected")
    *_, out, back = tick.epochs
    assert (out.verdict, out.delta_percent, back.verdict) == ("outage", None, "outage")
    outage = known(out.after).outage
    assert outage.blocked_s == pytest.approx(10.0, abs=0.2)
    assert tick.protection.unprotected == outage.unprotected + known(back.after).outage.unprotected
    assert tick.protection.unprotected == pytest.approx(world.primary.counters["no_tx"], abs=10)


async def test_a_restart_is_in_its_epoch_and_with_its_node(world: World, tui: Session) -> None:
    await asyncio.sleep(5)
    world.restart("db2")
    await told(tui, "db2 restarted")
    tick = await until_tick(tui, lambda tick: tick.nodes[1].restarted_s is not None)
    assert tick.nodes[0].restarted_s is None
    assert known(tick.epochs[-1].after).outage.restarts == ("db2",)


@TWO_REPLICAS
async def test_a_repair_starts_stopped_threads_and_says_so_as_up_does(world: World, tui: Session) -> None:
    assert await tui.console.repair() == ()
    world.replica.sql, world.servers["db3"].io = "No", "No"
    assert (await told(tui, "db2: SQL thread stopped")).severity is Severity.WARN
    steps: list[str] = []
    done = await tui.console.repair(lambda text, _=None: steps.append(text))
    assert sorted(done) == ["db2: SQL thread started", "db3: IO thread started"]
    assert set(done) <= set(steps)
    assert (world.replica.sql, world.servers["db3"].io) == ("Yes", "Yes")
    await told(tui, "repaired: ")
    await told(tui, "both threads run again")


async def test_a_repair_says_which_servers_it_started_and_what_it_set_again(world: World) -> None:
    async with world.started(reapply="off") as session:
        await turn(session, "sync_binlog=0")
        world.crash("db1")
        world.sidecars["db2"].stop()
        assert (await told(session, "db1 is down")).severity is Severity.BAD
        done = await session.console.repair()
        assert done == ("db1: server started", "db2: sidecar started", "sync_binlog set again")
        assert (await told(session, "db1 answers again")).severity is Severity.GOOD


async def test_a_repair_does_not_wait_for_a_replica_whose_link_is_cut(world: World, tui: Session) -> None:
    await turn(tui, "partition=both")
    world.replica.io = "Connecting"
    began_s = tui.outside.clock.monotonic()
    assert await tui.console.repair() == ()
    assert tui.outside.clock.monotonic() - began_s < 5


async def test_a_lab_that_stopped_a_thread_on_purpose_is_left_alone(world: World, tui: Session) -> None:
    async with world.attached("lab run hot-row") as other:
        world.replica.io = "No"
        async with other.turns.measuring("lab", "hot-row"):
            with pytest.raises(StackUnavailable, match="the lab hot-row"):
                await tui.console.repair()
            assert world.replica.io == "No"
        assert await tui.console.repair() == ("db2: IO thread started",)


async def test_a_thread_that_a_change_restarts_is_no_event_of_its_own(world: World, tui: Session) -> None:
    number = tui.event_log.begin_change("semi_sync off → on")
    world.replica.io = "No"
    await asyncio.sleep(10)
    world.replica.io = "Yes"
    tui.event_log.change_effective(number, "semi_sync off → on", "semi_sync off → on")
    await asyncio.sleep(10)
    tick = await until_tick(tui, lambda _: True)
    assert [event.text for event in tick.events if "thread" in event.text] == []


async def test_what_restarts_took_is_given_back_and_marked_whoever_else_looks(
    world: World, tui: Session
) -> None:
    async with world.started() as second:
        await turn(tui, *REQUESTS)
        await told(tui, "semi_sync off → on")
        await asyncio.sleep(5)
        world.restart("db1")
        world.sidecars["db2"].restart()
        event = await told(tui, "re-applied: ")
        assert event.severity is Severity.MARK
        assert event.mark is not None
        await asyncio.sleep(10)
        assert (world.primary.enabled, world.primary.variables["sync_binlog"]) == (True, "0")
        assert world.rtt_ms() == pytest.approx(20.0)
        await until_tick(second, lambda tick: tick.protection.state == "protected")
    tick = await until_tick(tui, lambda tick: tick.protection.state == "protected")
    assert tick.epochs[-1].title.startswith("re-applied: ")


async def test_what_restarts_took_while_nobody_looked_is_asked_for_told_or_given_back_at_the_start(
    world: World,
) -> None:
    await left_alone(world, *REQUESTS)
    world.restart("db1")
    world.sidecars["db2"].restart()
    await asyncio.sleep(30)
    async with world.started(reapply="ask", asks=True) as session:
        assert (await until_tick(session, lambda tick: tick.lost)).lost[:2] == LOST
    for reapply in ("ask", "off"):
        async with world.started(reapply=reapply) as session:
            await told(session, f"reapply = {reapply}")
            await asyncio.sleep(5)
    assert not world.primary.enabled
    async with world.started() as session:
        assert (world.primary.enabled, world.primary.variables["sync_binlog"]) == (True, "0")
        assert world.rtt_ms() == pytest.approx(20.0)
        tick = await until_tick(session, lambda tick: bool(tick.events))
        words = [event.text for event in tick.events]
        assert any("db1 restarted while no app was attached and lost" in text for text in words)
        assert any(event.mark is not None and "re-applied: " in event.text for event in tick.events)
    before = len(world.told())
    world.primary.variables["sync_binlog"] = "7"  # by hand, and nothing restarted
    async with world.started():
        pass
    assert "SET GLOBAL sync_binlog = 0" not in world.told()[before:]


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
    await turn(tui, "rtt=85", "sync_binlog=0")
    for sidecar in world.sidecars.values():
        await asyncio.sleep(5)
        sidecar.restart()
        assert world.rtt_ms() < 43
        await until(lambda: world.rtt_ms() == pytest.approx(85.0))
        await until_tick(tui, lambda tick: tick.rtt and tick.rtt.rtt_measured_ms == pytest.approx(85.0))


@TWO_REPLICAS
async def test_a_variable_that_somebody_sets_by_hand_is_a_mark_and_begins_an_epoch(
    world: World, tui: Session
) -> None:
    seen = hands(tui)
    world.primary.variables["sync_binlog"] = "0"
    event = await told(tui, "by hand")
    assert event.text == "sync_binlog 1 → 0, by hand on db1"
    assert (event.severity, event.mark) == (Severity.MARK, 1)
    tick = await until_tick(tui, lambda _: True)
    assert (tick.epochs[-1].number, tick.epochs[-1].title) == (1, "sync_binlog 1 → 0")
    world.primary.variables["sync_binlog"] = "1"
    await told(tui, "sync_binlog 0 → 1, by hand on db1, as requested again")
    world.servers["db3"].variables["sync_relay_log"] = "7"
    await told(tui, "sync_relay_log@db3 10000 → 7, by hand on db3")
    await asyncio.sleep(10)
    assert len(seen) == 3
    assert world.requested == {}


async def test_our_own_change_is_marked_once_and_what_was_requested_before_we_came_is_no_news(
    world: World,
) -> None:
    await left_alone(world, "rtt=5")
    async with world.started() as tui:
        await until_tick(tui, load_runs)
        await turn(tui, "clients=4")
        await turn(tui, "sync_binlog=0")
        await asyncio.sleep(5)
        tick = await until_tick(tui, lambda _: True)
        marks = [event for event in tick.events if event.mark is not None]
        assert [event.text for event in marks] == ["clients 8 → 4", "SET GLOBAL sync_binlog = 0"]
        assert len(world.loads[0].history) == 2


async def test_addresses_that_move_are_followed_by_watcher_and_load(world: World, tui: Session) -> None:
    world.moved["db2"] = "10.0.0.99"
    await until(lambda: world.sidecars["db1"].addresses.get("db2") == "10.0.0.99")
    tick = await until_tick(tui, lambda tick: tick.nodes[1].host == "10.0.0.99")
    assert tick.state == "up"
    world.moved["db1"] = "10.0.0.98"
    await until(lambda: bool(world.loads[-1].target and world.loads[-1].target.host == "10.0.0.98"))
    await until_tick(tui, load_runs)
    assert world.running_loads() == 1
    assert tui.monitor.failed is None


@TWO_REPLICAS
async def test_transactions_that_the_primary_lacks_are_told_once_and_a_commit_that_waits_is_none(
    world: World, tui: Session
) -> None:
    await until_tick(tui, load_runs)
    # A replica may have executed what the primary's session still holds.
    world.replica.errant, world.primary.owned = "uuid-0:100000", "uuid-0:100000#48"
    await asyncio.sleep(30)
    tick = await until_tick(tui, lambda _: True)
    assert not any("lacks" in event.text for event in tick.events)
    world.servers["db3"].errant = "uuid-9:443-8709"
    event = await told(tui, "that the source lacks")
    assert event.severity is Severity.BAD
    assert event.text == "db3 has 8,267 transactions that the source lacks: uuid-9:443-8709"
    tick = await until_tick(tui, lambda _: True)
    assert [node.errant_gtids for node in tick.nodes] == [None, "", "uuid-9:443-8709"]
    world.servers["db3"].errant = ""
    assert (await told(tui, "that the source lacks")).severity is Severity.GOOD

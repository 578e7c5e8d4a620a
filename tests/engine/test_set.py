"""`set` on a model stack: its statements in order, each verified by its effect, all or nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.server.protection import Protection
from replexplorer.core.topology import new_roster
from replexplorer.engine.outcome import RolledBack, SetResult
from replexplorer.engine.requested import write_document
from replexplorer.engine.session import Session
from tests.fakes.servers import mysql_9
from tests.fakes.world import TWO_REPLICAS, World
from tests.turning import turn

ENABLED = "rpl_semi_sync_source_enabled"
KNOBS = """\
rtt=85ms
wait_point=after_commit
replica_parallel_workers=8
sync_binlog=0
binlog_row_image=minimal
clients=2
semi_sync=on
fsync_delay_redo=0
"""
CHANGES = """\
db2: STOP REPLICA SQL_THREAD
db2: SET GLOBAL replica_parallel_workers = 8
db2: START REPLICA SQL_THREAD
SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_COMMIT'
SET GLOBAL sync_binlog = 0
SET GLOBAL binlog_row_image = 'MINIMAL'
load 8 update_index
load 2 update_index
SET GLOBAL rpl_semi_sync_source_enabled = ON
INSERT INTO replexplorer.kick (id, kicked_at) VALUES (1, NOW(6)) ON DUPLICATE KEY UPDATE kicked_at = NOW(6)
redo 0
link db2 42.450
db2: link db1 42.450
write document
""".splitlines()
"""What `KNOBS` comes to while a load runs: each of these is made to fail in turn."""


def effects(result: SetResult) -> dict[str, object]:
    return {str(change.name): change.effective for change in result.changed}


async def protection(session: Session) -> Protection:
    """As it is judged now."""
    await session.state.refresh()
    return session.state.protection()


async def test_a_dry_run_runs_nothing(world: World, tui: Session) -> None:
    before = world.state()
    result = await turn(tui, KNOBS, dry_run=True)
    assert result.dry_run
    assert (world.changes, world.document.version, world.state()) == ([], 0, before)
    assert set(effects(result).values()) == {None}
    assert ("SET GLOBAL sync_binlog = 0",) in [change.statements for change in result.changed]
    assert not [event for event in tui.event_log.take_events() if event.mark]


async def test_a_set_of_every_kind_of_knob(world: World, tui: Session) -> None:
    result = await turn(tui, KNOBS)
    assert world.told() == CHANGES
    assert effects(result) == world.requested
    assert world.requested == {
        "binlog_row_image": "minimal",
        "clients": 2,
        "fsync_delay_redo": 0.0,
        "replica_parallel_workers@db2": 8,
        "rtt@db2": 85.0,
        "semi_sync": "on",
        "sync_binlog": 0,
        "wait_point": "after_commit",
    }
    assert all(change.took_ms > 0 for change in result.changed)
    assert world.rtt_ms() == pytest.approx(85.0)
    assert world.replica.sql == "Yes"
    assert world.loads[0].history[-1].fresh_sessions == 1


@pytest.mark.parametrize("position", range(len(CHANGES) - 1))
async def test_a_failure_at_any_change_takes_everything_back(
    world: World, tui: Session, position: int
) -> None:
    before = world.state()
    world.trouble_at = len(world.changes) + position
    if "kick" in CHANGES[position]:  # a test commit that is refused is a warning
        result = await turn(tui, KNOBS)
        assert "our test commit was refused" in str(result.warnings)
    else:
        with pytest.raises(RolledBack, match=r"nothing is changed$") as caught:
            await turn(tui, KNOBS)
        assert caught.value.complete
        assert (world.state(), world.requested, world.document.version) == (before, {}, 0)
    await turn(tui, KNOBS)
    assert (world.primary.variables[ENABLED], world.requested["semi_sync"]) == ("ON", "on")


async def test_a_document_that_cannot_be_written_and_a_server_that_refuses_the_undo_too_change_nothing(
    world: World, session: Session
) -> None:
    before = world.state()
    for sidecar in world.sidecars.values():
        sidecar.refusals["write_document"] = StackUnavailable("the disk is full")
    with pytest.raises(RolledBack, match="the disk is full: nothing is changed"):
        await turn(session, "sync_binlog=0 rtt=85 semi_sync=on")
    world.primary.refusals["SET GLOBAL"] = 1227
    for texts in (("semi_sync=on",), ("rtt=20", "sync_binlog=0")):
        with pytest.raises(RolledBack, match=r"1227 .*nothing is changed") as caught:
            await turn(session, *texts)
        assert caught.value.complete
    assert (world.state(), world.document.version) == (before, 0)


async def test_what_cannot_be_taken_back_is_named(world: World, session: Session) -> None:
    world.primary.refusals["SET GLOBAL sync_binlog = 1"] = 1227
    world.primary.stuck.add("innodb_flush_log_at_trx_commit")
    with pytest.raises(RolledBack, match=r"trx_commit stays 1: the server did not accept 2") as caught:
        await turn(session, "sync_binlog=0 innodb_flush_log_at_trx_commit=2")
    assert (caught.value.complete, caught.value.exit_code) == (False, ServerRefused.exit_code)
    assert "not rolled back: SET GLOBAL sync_binlog = 1" in str(caught.value)


async def test_a_round_trip_below_the_path_is_its_floor_and_one_that_no_probe_measures_ends_the_wait(
    world: World, session: Session
) -> None:
    result = await turn(session, "rtt=0.05")
    assert effects(result) == {"rtt@db2": 0.1}
    assert "floor" in str(result.warnings)
    assert session.state.lost_values(("db2",)) == {}
    for sidecar in world.sidecars.values():
        sidecar.watched.clear()
    async with asyncio.timeout(3.3):
        assert effects(await turn(session, "rtt=1000")) == {"rtt@db2": 1000.0}


async def test_what_is_so_already_runs_nothing_and_is_requested(world: World, session: Session) -> None:
    assert (await turn(session, "sync_binlog=1")).changed == ()
    assert (world.requested, world.told()) == ({"sync_binlog": 1}, ["write document"])
    (change,) = (await turn(session, "clients=4")).changed
    assert (change.effective, change.note) == (None, "no load runs")
    await turn(session, "rtt=20 semi_sync=on")
    before = world.taken, len(world.changes), world.document.version
    result = await turn(session, "semi_sync=on rtt=20ms sync_binlog=1")
    assert (result.changed, len(result.unchanged)) == ((), 3)
    assert (world.taken, len(world.changes), world.document.version) == before


# -- undo and reset


async def test_undo_goes_back_change_by_change_is_tried_again_when_it_fails_and_then_refuses(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on sync_binlog=0 replica_parallel_workers=8 clients=2")
    await turn(session, "sync_binlog=100 rtt=85")
    turned = world.state()
    await session.console.reset()
    assert (world.primary.variables[ENABLED], world.requested["clients"]) == ("OFF", 8)
    await session.console.undo()
    assert (world.state(), world.requested["clients"]) == (turned, 2)
    assert effects(await session.console.undo()) == {"rtt@db2": 0.0, "sync_binlog": 0}
    world.primary.refusals["SET GLOBAL sync_binlog"] = 1227
    with pytest.raises(RolledBack):
        await session.console.undo()
    world.primary.refusals.clear()
    assert effects(await session.console.undo())["sync_binlog"] == 1
    with pytest.raises(UsageError, match="nothing to undo"):
        await session.console.undo()
    assert (world.requested["sync_binlog"], world.requested["rtt@db2"]) == (1, 0.0)


async def test_who_waits_for_another_app_s_change_is_told_for_whom_and_its_undo_knows_what_that_changed(
    world: World, session: Session
) -> None:
    said: list[str] = []
    session.narrate = said.append
    async with world.attached("tui") as other:
        async with other.turns.change():
            waiting = asyncio.create_task(turn(session, "sync_binlog=3"))
            await asyncio.sleep(1.0)
            assert said == [f"waiting for {other.turns.actor.writer}, which is changing knobs"]
            agent, asked = other.fleet.source.agent, {KnobName("sync_binlog", SOURCE): 2}
            await write_document(agent, new_roster(), lambda now: now.asking(asked, new_roster(), "tui", 0.0))
            world.primary.variables["sync_binlog"] = "2"
        await waiting
        assert world.primary.variables["sync_binlog"] == "3"
        await session.console.undo()
        assert world.primary.variables["sync_binlog"] == "2"
        async with other.turns.change():
            with pytest.raises(StackUnavailable, match=r"tui .* has been changing knobs for 20 s"):
                await turn(session, "sync_binlog=4")


async def test_changes_at_once_run_one_after_the_other_and_lose_nothing(
    world: World, session: Session
) -> None:
    async with world.attached("other") as other:
        await asyncio.gather(
            turn(session, "rtt=85 semi_sync=on"), turn(session, "rtt=0"), turn(other, "sync_binlog=0")
        )
    assert world.requested == {"rtt@db2": 0.0, "semi_sync": "on", "sync_binlog": 0}
    assert world.rtt_ms() == pytest.approx(0.1)


async def test_a_knob_s_default_is_that_of_the_server_it_is_on(session: Session) -> None:
    name, source = KnobName("wait_point", SOURCE), session.fleet.source
    assert session.knobs()[name].default == "after_sync"
    source.probed = replace(mysql_9(), capabilities=replace(mysql_9().capabilities, flavor="mariadb"))
    assert session.knobs()[name].default == session.controls.reset_values()[name] == "after_commit"
    assert session.state.requested_value(name) == "after_commit", "where it was not asked for"


# -- semi-sync


async def test_semi_sync_without_an_acknowledgement_is_on_with_a_warning(
    world: World, session: Session
) -> None:
    world.primary.acknowledges = False
    result = await turn(session, "semi_sync=on semi_sync_timeout=60s rtt=10")
    (warning,) = [each for each in result.warnings if "not acknowledged" in each]
    assert "semi_sync is on and blocked" in warning
    assert "within 2 s" in warning
    assert (world.requested["semi_sync"], world.primary.variables[ENABLED]) == ("on", "ON")
    await turn(session, "semi_sync=off")
    world.replica.registered, world.replica.silent = False, True
    result = await turn(session, "semi_sync=on")
    assert "db2 did not register" in str(result.warnings)
    assert (world.primary.variables[ENABLED], world.replica.io) == ("ON", "Yes")


async def test_a_counted_replica_that_restarts_is_missed_before_it_is_found() -> None:
    """Both say that they are registered and one is counted: each restarts, and neither hangs."""
    world = World(replicas=2)
    first, second = world.servers["db2"], world.servers["db3"]
    second.silent = True
    async with world.attached() as session:
        first.silent, second.silent = True, False
        asyncio.get_running_loop().call_later(0.5, setattr, first, "silent", False)
        assert (await turn(session, "semi_sync=on semi_sync_replicas=2")).warnings == ()


@TWO_REPLICAS
async def test_a_stale_connection_that_the_source_still_counts_is_no_replica(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on semi_sync_replicas=2")
    world.primary.stale_connections = 1
    found = await protection(session)
    assert (found.replicas_acking, found.replicas_counted) == (2, 3)
    late = world.servers["db3"]
    late.io, late.registered, late.silent = "Connecting", True, True
    found = await protection(session)
    assert (found.replicas_acking, found.replicas_counted, found.state) == (1, 2, "armed")


@TWO_REPLICAS
async def test_when_no_acknowledgement_can_come_it_is_said_with_the_state(session: Session) -> None:
    await turn(session, "semi_sync=on")
    for links, no_ack_can_come in (
        ("loss=50", False),
        ("loss@db3=100 partition@db2=dump", True),
        ("loss=0 partition=none", False),
        ("partition=ack", True),
        ("partition@db3=none", False),
    ):
        await turn(session, *links.split())
        assert (await protection(session)).no_ack_can_come is no_ack_can_come, links


async def test_semi_sync_behind_a_link_that_was_asked_to_be_cut_is_as_asked(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=60s partition=both")
    world.replica.source_went()
    world.changes.clear()
    result = await turn(session, "semi_sync=on")
    assert result.unmet == ()
    assert "semi_sync is on and" in str(result.warnings)
    assert "IO_THREAD" not in str(world.changes)


async def test_semi_sync_asked_again_is_repaired_where_a_replica_stopped_acknowledging(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on semi_sync_timeout=60s")
    world.replica.unregister()
    world.changes.clear()
    result = await turn(session, "semi_sync=on")
    assert (await protection(session)).state == "protected"
    assert [line.split(" (")[0] for line in world.told()] == [
        "db2: SET GLOBAL rpl_semi_sync_replica_enabled = ON",
        "db2: STOP REPLICA IO_THREAD",
        "db2: START REPLICA IO_THREAD",
        "INSERT INTO replexplorer.kick",
    ]
    assert (result.unmet, result.warnings, effects(result)) == ((), (), {"semi_sync": "on"})
    assert "db2 registers for semi-sync" in str(session.event_log.take_events())
    assert result.changed[0].statements[0] == "db2: SET GLOBAL rpl_semi_sync_replica_enabled = ON"
    # It stays registered until it reconnects.
    world.replica.variables["rpl_semi_sync_replica_enabled"] = "OFF"
    world.changes.clear()
    await turn(session, "semi_sync=on")
    assert world.told(kick=False) == ["db2: SET GLOBAL rpl_semi_sync_replica_enabled = ON"]
    world.replica.unregister()
    await session.up(lambda *_: None)
    assert (await protection(session)).state == "protected"
    world.changes.clear()
    await session.up(lambda *_: None)
    assert world.told() == []
    world.replica.silent = True
    world.replica.unregister()
    (line,) = (await turn(session, "semi_sync=on sync_binlog=0")).unmet
    assert line.startswith("semi_sync is on and blocked: 0 of 1 replicas acknowledge")
    assert world.primary.variables["sync_binlog"] == "0"


async def test_flushed_counters_do_not_ask_for_as_many_acknowledgements_again(
    world: World, session: Session
) -> None:
    world.primary.counters["yes_tx"] = 3
    await turn(session, "semi_sync=on")
    await asyncio.sleep(5)
    world.primary.flush_status()
    for _ in range(3):
        await world.primary.commit()
    await asyncio.sleep(5)
    assert (await protection(session)).state == "protected"


async def test_a_rollback_that_enables_semi_sync_again_asks_for_new_evidence(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on")
    world.primary.refusals["SET GLOBAL sync_binlog"] = 1227
    world.primary.acknowledges = False
    with pytest.raises(RolledBack, match="1227"):
        await turn(session, "semi_sync=off sync_binlog=0")
    assert world.primary.variables[ENABLED] == "ON"
    assert world.document.content["yes_tx_at_enabling"] == 1
    assert (await protection(session)).state in ("armed", "blocked")


# -- what was set by hand, and what takes its time


@pytest.mark.parametrize("runs", ["Yes", "No"])
async def test_a_variable_that_was_set_by_hand_is_asked_again_with_the_applier_s_restart(
    world: World, session: Session, runs: str
) -> None:
    """It has the value; the applier that runs was started with another, and one that was stopped stays so."""
    world.replica.sql = runs
    world.replica.variables["replica_parallel_workers"] = "8"
    await turn(session, "replica_parallel_workers=8")
    assert world.told() == [*(CHANGES[:3] if runs == "Yes" else CHANGES[1:2]), "write document"]


async def test_a_delay_that_is_said_to_be_in_force_and_is_not_is_asked_for_again(
    world: World, session: Session
) -> None:
    await turn(session, "rtt=85")
    world.links["db2"].rules_hold = False
    await asyncio.sleep(5)
    world.changes.clear()
    result = await turn(session, "rtt=85")
    assert world.told() == ["link db2 42.450", "db2: link db1 42.450"]
    assert result.unmet == ("the link to db2: asked 85 ms, measured 0.1 ms",)


async def test_what_needs_a_dead_server_is_refused_and_one_that_is_late_is_not_said_to_be_down(
    world: World, session: Session
) -> None:
    usual_s, world.primary.statement_s = world.primary.statement_s, 30
    with pytest.raises(StackUnavailable, match="db1 did not answer within 2 s: try again"):
        await turn(session, "sync_binlog=0")
    world.primary.statement_s = usual_s
    world.crash("db2")
    with pytest.raises(StackUnavailable, match=r"needs 1 replica, and db2 is down.*up"):
        await turn(session, "semi_sync=on sync_binlog=0")
    assert (world.changes, world.document.version) == ([], 0)
    assert effects(await turn(session, "sync_binlog=0")) == {"sync_binlog": 0}
    world.crash("db1")
    with pytest.raises(StackUnavailable, match="primary is down"):
        await turn(session, "sync_binlog=1")


async def test_a_resize_of_the_buffer_pool_is_waited_for_but_not_for_ever(
    world: World, session: Session
) -> None:
    world.primary.pool_resize_looks = 100
    result = await turn(session, "innodb_buffer_pool_size=16M")
    assert effects(result) == {"innodb_buffer_pool_size": 16 << 20}
    assert (world.primary.pool_resize_looks, result.warnings) == (0, ())
    assert result.changed[0].took_ms > 1000
    world.primary.pool_resize_looks = 10**9
    result = await turn(session, "innodb_buffer_pool_size=32M")
    late = "innodb_buffer_pool_size: the server still works on it after 300 s (withdrawing blocks: 40 %)"
    assert late in result.warnings
    assert world.primary.variables["innodb_buffer_pool_size"] == str(32 << 20)

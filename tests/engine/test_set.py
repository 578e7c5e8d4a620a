"""`set` on a model stack: its statements in order, each verified by its effect, all or nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.engine.outcome import RolledBack, SetResult
from replexplorer.engine.session import Session
from tests.fakes.clock import later
from tests.fakes.servers import mysql_9
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import refusal
from tests.turning import turn

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


def printed(world: World, result: SetResult) -> list[str]:
    """What was told to servers, agents and the load since this was last printed, and what the result says."""
    changed = [f"{each.name} {each.before} → {each.effective} {each.note or ''}" for each in result.changed]
    told = world.told()
    world.changes.clear()
    return [*told, *changed, *(f"unchanged: {name}" for name in result.unchanged), *result.all_warnings]


async def test_a_set_of_every_kind_of_knob_after_a_dry_run_that_runs_nothing(
    world: World, tui: Session, snapshot: object
) -> None:
    before = world.taken
    result = await turn(tui, KNOBS, dry_run=True)
    assert (world.changes, world.document.version, world.taken) == ([], 0, before)
    assert [result.dry_run, *(change.statements for change in result.changed)] == snapshot
    result = await turn(tui, KNOBS)
    assert len(world.changes) == STEPS
    assert printed(world, result) == snapshot
    assert {str(change.name): change.effective for change in result.changed} == world.requested
    assert all(change.took_ms > 0 for change in result.changed)
    assert world.rtt_ms() == pytest.approx(85.0)
    assert world.replica.sql == "Yes"
    assert world.loads[0].history[-1].fresh_sessions == 1


KICK, STEPS = 9, 14
"""What `KNOBS` comes to while a load runs: each of these is made to fail in turn."""


@pytest.mark.parametrize("position", range(STEPS))
async def test_a_failure_at_any_change_takes_everything_back(
    world: World, tui: Session, position: int
) -> None:
    """But for two: our test commit is not needed, and another agent writes the document."""
    before = world.taken
    world.trouble_at = len(world.changes) + position
    if position in (KICK, STEPS - 1):
        result = await turn(tui, KNOBS)
        assert ("our test commit was refused" in str(result.warnings)) is (position == KICK)
    else:
        with pytest.raises(RolledBack, match=r"nothing is changed$") as caught:
            await turn(tui, KNOBS)
        assert caught.value.complete
        assert (world.taken, world.document.version) == (before, 0)
        await turn(tui, KNOBS)
    assert (world.primary.enabled, world.requested["semi_sync"]) == (True, "on")


async def test_an_end_of_a_link_that_stays_away_leaves_no_half_of_a_round_trip(
    world: World, session: Session
) -> None:
    await turn(session, "rtt=20")
    world.sidecars["db2"].refusals["set_link"] = StackUnavailable("the agent of db2 is away")
    assert "the agent of db2 is away" in await refusal(turn(session, "rtt=85"), RolledBack)
    assert world.sidecars["db1"].delays["db2"] == pytest.approx(9.95)
    assert world.requested == {"rtt@db2": 20.0}


async def test_a_document_that_cannot_be_written_and_a_server_that_refuses_the_undo_too_change_nothing(
    world: World, session: Session
) -> None:
    before = world.taken
    for sidecar in world.sidecars.values():
        sidecar.refusals["write_document"] = StackUnavailable("the disk is full")
    assert "the disk is full: nothing is changed" in await refusal(
        turn(session, "sync_binlog=0 rtt=85 semi_sync=on"), RolledBack
    )
    world.primary.refusals["SET GLOBAL"] = 1227
    for text in ("semi_sync=on", "rtt=20 sync_binlog=0"):
        with pytest.raises(RolledBack, match=r"1227 .*nothing is changed"):
            await turn(session, text)
    assert (world.taken, world.document.version) == (before, 0)


async def test_what_cannot_be_taken_back_is_named(world: World, session: Session) -> None:
    world.primary.refusals["SET GLOBAL sync_binlog = 1"] = 1227
    world.primary.stuck.add("innodb_flush_log_at_trx_commit")
    with pytest.raises(RolledBack, match=r"trx_commit stays 1: the server did not accept 2") as caught:
        await turn(session, "sync_binlog=0 innodb_flush_log_at_trx_commit=2")
    assert (caught.value.complete, caught.value.exit_code) == (False, ServerRefused.exit_code)
    assert "not rolled back: SET GLOBAL sync_binlog = 1" in str(caught.value)


async def test_what_is_so_already_runs_nothing_and_a_round_trip_is_measured_or_its_floor_is_said(
    world: World, session: Session, snapshot: object
) -> None:
    done = [
        printed(world, await turn(session, text))
        for text in ("sync_binlog=1", "clients=4", "rtt=0.05", "rtt=20 semi_sync=on")
    ]
    assert session.state.lost_values(("db2",)) == {}
    before = world.taken, world.document.version
    done.append(printed(world, await turn(session, "semi_sync=on rtt=20ms sync_binlog=1")))
    assert (world.taken, world.document.version) == before
    for sidecar in world.sidecars.values():
        sidecar.watched.clear()
    async with asyncio.timeout(3.3):  # no probe is answered: that ends the wait, and not the set
        done.append(printed(world, await turn(session, "rtt=1000")))
    assert done == snapshot


# -- undo and reset


async def test_undo_goes_back_change_by_change_is_tried_again_when_it_fails_and_then_refuses(
    world: World, session: Session, snapshot: object
) -> None:
    await turn(session, "semi_sync=on sync_binlog=0 replica_parallel_workers=8 clients=2")
    await turn(session, "sync_binlog=100 rtt=85")
    turned = world.taken
    await session.console.reset()
    assert (world.primary.enabled, world.requested["clients"]) == (False, 8)
    await session.console.undo()
    assert world.taken == turned
    world.changes.clear()
    done = [printed(world, await session.console.undo())]
    world.primary.refusals["SET GLOBAL sync_binlog"] = 1227
    with pytest.raises(RolledBack):
        await session.console.undo()
    world.primary.refusals.clear()
    world.changes.clear()
    assert [*done, printed(world, await session.console.undo())] == snapshot
    assert "nothing to undo" in await refusal(session.console.undo(), UsageError)
    assert (world.requested["sync_binlog"], world.requested["rtt@db2"]) == (1, 0.0)


async def test_who_waits_for_another_app_s_change_is_told_for_whom_and_its_undo_knows_what_that_changed(
    world: World, session: Session
) -> None:
    said: list[str] = []
    session.narrate = said.append
    async with world.attached("tui") as other:
        world.primary.pool_resize_looks = 100
        changing = asyncio.create_task(turn(other, "sync_binlog=2 innodb_buffer_pool_size=16M"))
        await asyncio.sleep(0.1)
        await turn(session, "sync_binlog=3")
        assert changing.done()
        assert said[0] == f"waiting for {other.turns.actor.writer}, which is changing knobs"
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


# -- semi-sync


async def protection(session: Session) -> str:
    """Its state as it is judged now, by how many replicas that acknowledge, of how many that are counted."""
    await session.state.refresh()
    found = session.state.protection()
    cut = ", and none can" if found.no_ack_can_come else ""
    return f"{found.state}: {found.replicas_acking} of {found.replicas_counted} acknowledge{cut}"


async def turned(world: World, session: Session, text: str) -> list[str]:
    """What it did and said, and the protection that is left."""
    return [*printed(world, await turn(session, text)), await protection(session)]


async def test_semi_sync_without_an_acknowledgement_is_on_with_a_warning(
    world: World, session: Session, snapshot: object
) -> None:
    world.primary.acknowledges = False
    assert await turned(world, session, "semi_sync=on semi_sync_timeout=60s rtt=10") == snapshot
    await turn(session, "semi_sync=off")
    world.replica.registered, world.replica.silent = False, True
    world.changes.clear()
    assert await turned(world, session, "semi_sync=on") == snapshot
    await turn(session, "semi_sync=off")
    world.replica.silent, world.primary.acknowledges = False, True
    await turn(session, "semi_sync=on partition=both")
    world.replica.source_went()
    world.changes.clear()
    assert await turned(world, session, "semi_sync=on") == snapshot, "as the link was asked to be cut"


@TWO_REPLICAS
async def test_a_counted_replica_that_restarts_is_missed_and_a_stale_connection_is_no_replica(
    world: World, session: Session
) -> None:
    """Both say that they are registered and one is counted: each restarts, and neither hangs."""
    first, second = world.servers["db2"], world.servers["db3"]
    first.silent = True
    later(0.5, setattr, first, "silent", False)
    assert (await turn(session, "semi_sync=on semi_sync_replicas=2")).warnings == ()
    world.primary.stale_connections = 1
    assert await protection(session) == "protected: 2 of 3 acknowledge"
    second.io, second.registered, second.silent = "Connecting", True, True
    assert await protection(session) == "armed: 1 of 2 acknowledge"


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
        await turn(session, links)
        assert ("and none can" in await protection(session)) is no_ack_can_come, links


async def test_semi_sync_asked_again_is_repaired_where_a_replica_stopped_acknowledging(
    world: World, session: Session, snapshot: object
) -> None:
    done = [await turned(world, session, "semi_sync=on semi_sync_timeout=60s")]
    world.replica.unregister()
    done.append(await turned(world, session, "semi_sync=on"))
    assert "db2 registers for semi-sync" in str(session.event_log.take_events())
    # It stays registered until it reconnects.
    world.replica.variables["rpl_semi_sync_replica_enabled"] = "OFF"
    done.append(await turned(world, session, "semi_sync=on"))
    world.replica.unregister()
    for _ in range(2):
        await session.up(lambda *_: None)
        done.append([*world.told(), await protection(session)])
        world.changes.clear()
    world.replica.silent = True
    world.replica.unregister()
    done.append(await turned(world, session, "semi_sync=on sync_binlog=0"))
    assert done == snapshot


async def test_evidence_of_acknowledgements_is_as_new_as_the_counters_and_the_enabling(
    world: World, session: Session
) -> None:
    world.primary.counters["yes_tx"] = 3
    await turn(session, "semi_sync=on")
    await asyncio.sleep(5)
    world.primary.flush_status()
    for _ in range(3):
        await world.primary.commit()
    await asyncio.sleep(5)
    assert await protection(session) == "protected: 1 of 1 acknowledge"
    world.primary.refusals["SET GLOBAL sync_binlog"] = 1227
    world.primary.acknowledges = False
    with pytest.raises(RolledBack, match="1227"):  # it is enabled again, and asks for new evidence
        await turn(session, "semi_sync=off sync_binlog=0")
    assert world.primary.enabled
    assert world.document.content["yes_tx_at_enabling"] == 3
    assert (await protection(session)).startswith("blocked")


# -- what was set by hand, and what takes its time


async def test_what_was_set_by_hand_or_is_not_in_force_is_asked_again(
    world: World, session: Session, snapshot: object
) -> None:
    """It has the value; the applier that runs was started with another, and one that was stopped stays so."""
    done = []
    for runs, value in (("Yes", "8"), ("No", "16")):
        world.replica.sql = runs
        world.replica.variables["replica_parallel_workers"] = value
        done.append(printed(world, await turn(session, f"replica_parallel_workers={value}")))
    await turn(session, "rtt=85")
    world.links["db2"].rules_hold = False
    await asyncio.sleep(5)
    world.changes.clear()
    assert [*done, printed(world, await turn(session, "rtt=85"))] == snapshot


async def test_what_needs_a_dead_server_is_refused_and_one_that_is_late_is_not_said_to_be_down(
    world: World, session: Session
) -> None:
    usual_s, world.primary.statement_s = world.primary.statement_s, 30
    assert "db1 did not answer within 2 s: try again" in await refusal(turn(session, "sync_binlog=0"))
    world.primary.statement_s = usual_s
    world.crash("db2")
    with pytest.raises(StackUnavailable, match=r"needs 1 replica, and db2 is down.*up"):
        await turn(session, "semi_sync=on sync_binlog=0")
    assert (world.changes, world.document.version) == ([], 0)
    await turn(session, "sync_binlog=0")
    assert world.primary.variables["sync_binlog"] == "0"
    world.crash("db1")
    assert "primary is down" in await refusal(turn(session, "sync_binlog=1"))


async def test_a_resize_of_the_buffer_pool_is_waited_for_but_not_for_ever(
    world: World, session: Session, snapshot: object
) -> None:
    world.primary.pool_resize_looks = 100
    result = await turn(session, "innodb_buffer_pool_size=16M")
    assert world.primary.pool_resize_looks == 0
    assert result.changed[0].took_ms > 1000
    world.primary.pool_resize_looks = 10**9
    assert (
        printed(world, result) + printed(world, await turn(session, "innodb_buffer_pool_size=32M"))
        == snapshot
    )

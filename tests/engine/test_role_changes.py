"""Failover, switchover and rejoin on the world of fakes: done, refused, taken back, finished by others."""

from __future__ import annotations

from dataclasses import asdict
from unittest.mock import AsyncMock, Mock

import pytest

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, HEAD, read_run
from replexplorer.core.role_change import BootRoles, ChangeKind, RoleChange, UnderWay
from replexplorer.core.system import GROUP
from replexplorer.engine.change.role_run import RoleRun
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import refusal
from tests.turning import inject, turn
from tests.typed import values_of


async def report(world: World, session: Session, done: RoleChange | None = None) -> list[str]:
    """What was done, step by step, and how all nodes are left by that."""
    lines = [] if done is None else [done.words, *steps(done), *done.warnings]
    for node in (await session.status()).nodes:
        server = world.servers[node.name]
        writes = server.running and server.variables["super_read_only"] == "OFF"
        follows = f" of {server.follows}" if server.is_replica else ""
        lines.append(
            f"{node.name} {node.role}{follows}{', takes writes' * writes}: {node.diverged or 'whole'}"
        )
    under_way = world.document.content.get("role_change")
    return [*lines, f"at their start: {world.boot_roles}", *(["a change is under way"] if under_way else [])]


def steps(done: RoleChange) -> list[str]:
    return [f"{step.node}: {step.name}" for step in done.steps]


@TWO_REPLICAS
async def test_the_replica_that_has_received_most_takes_the_place_of_a_dead_source(
    world: World, session: Session, snapshot: object
) -> None:
    """And nothing can say what the old source had."""
    world.servers["db3"].applied["queued"] = "uuid-0:900-902"
    world.crash("db1")
    done = await session.console.failover()
    assert await report(world, session, done) == snapshot
    parts = (done.rto.detect_ms, done.rto.promote_ms, done.rto.first_write_ms)
    assert sum(filter(None, parts)) == pytest.approx(done.rto.total_ms)
    assert done.fenced


async def test_an_old_source_comes_back_without_writes_and_is_copied_where_it_cannot_follow(
    world: World, session: Session, snapshot: object
) -> None:
    asked: list[tuple[str, str]] = []

    async def consents(node: str, gtids: str) -> bool:
        asked.append((node, gtids))
        return len(asked) > 1

    rejoin, old = session.console.rejoin, world.servers["db1"]
    world.crash("db1")
    await session.console.failover()
    old.boot()
    story = [await report(world, session)]
    assert "needs 1 replica, and db1 follows no source" in await refusal(turn(session, "semi_sync=on"))
    old.errant = "uuid-0:77-79"
    assert "db1 keeps 3 transactions that the source lacks" in await refusal(rejoin("db1", consents))
    done = await rejoin("db1", consents)
    assert (asked, done.errant_gtids) == ([("db1", "uuid-0:77-79")] * 2, {"db1": "uuid-0:77-79"})
    story += [await report(world, session, done), steps(await rejoin("db1"))]
    story.append(steps(await rejoin("db1", copy=True)))

    async def stopped() -> list[str]:
        await session.fleet.member("db1").run("STOP REPLICA")
        done = await rejoin("db1")
        return [*steps(done), f"lost: {done.rpo.commits} {done.errant_gtids}"]

    old.errant, world.primary.owned = (
        "uuid-1:100000",
        "uuid-1:100000#48",
    )  # executed before it is acknowledged
    story.append(await stopped())
    world.primary.purged = "uuid-9:1-5"  # as of a source that was itself made by a copy
    story.append(await stopped())
    assert story == snapshot


JOINING = """\
6000 ""           None True
4000 ""           None False
10   "uuid-9:1-5" None True
6000 ""           1126 False
"""
"""Commits to receive, what no binlog has, how the clone plugin is refused, and whether a copy is had."""


async def test_a_node_that_joins_is_given_a_copy_where_that_is_sooner_and_possible() -> None:
    for commits, purged, number, copied in values_of(JOINING):
        world, steps = World(), Mock()
        world.primary.commits = world.unreceived = commits
        world.primary.purged = purged
        world.primary.refusals = {"INSTALL PLUGIN": number} if number else {}
        async with world.attached("lab") as session:
            await turn(session, "rtt=85")
            await session.rig.scale(2, steps)
            assert (world.requested["rtt@db3"], world.servers["db3"].io) == (85, "Yes")
        assert (world.servers["db3"].missing == 0) == copied
        assert ("db3: gets a copy of db1" in str(steps.mock_calls)) == (copied or bool(number))


RUN = 1_795_000_000
ACCOUNT = f"{HEAD}{RUN}\nt 1\ni 1 1\na 1 1 5\ni 1 2\na 1 2 6\ni 1 3\na 1 3 7\ni 1 4\n"
"""Client 1 was told of three rows, and not of the fourth."""
FAILED_OVER = """\
"ledger" "load"     4 0
"ledger" "failover" 3 0
"ledger" "failover" 1 2
"insert" "failover" 4 None
"""
"""The load, whose failover it is, the last row that the new source has, and how many are lost."""


async def test_a_failover_counts_what_clients_of_the_ledger_load_were_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    for workload, whose, last, lost in values_of(FAILED_OVER):
        world = World()
        world.client_logs.log = read_run([("0.log", ACCOUNT.encode())])
        world.replica.ledger = [(RUN * CLIENTS_A_RUN + 1, 1, last)]
        async with world.attached("load") as session, world.attached("failover") as other:
            await session.drive(LoadSettings(4, workload, 1000))
            world.crash("db1")
            rpo = (await (session if whose == "load" else other).console.failover()).rpo
        assert (rpo.commits, rpo.ms == 0) == (lost, lost == 0)
        assert ("the load keeps no client log: only" in str(rpo.unknown)) is (lost is None)


@TWO_REPLICAS
async def test_what_no_node_hands_on_has_to_be_accepted_by_name(
    world: World, session: Session, snapshot: object
) -> None:
    world.replica.has = "uuid-0:1-9"
    world.servers["db3"].has = "uuid-0:1-12, uuid-2:1-200"
    world.servers["db3"].sql, world.servers["db3"].sql_errno = "No", 1062
    world.crash("db1")
    with pytest.raises(StackUnavailable, match=r"db3 could not hand them on.*--to db2 --accept-loss`"):
        await session.console.failover()
    assert "--to NODE --accept-loss" in await refusal(session.console.failover(accept_loss=True), UsageError)
    story = await report(world, session)
    done = await session.console.failover("db2", accept_loss=True)
    assert [*story, done.rpo.accepted, *await report(world, session, done)] == snapshot


@TWO_REPLICAS
async def test_a_node_with_a_hole_in_its_own_log_protects_nothing_and_is_copied(
    world: World, session: Session, snapshot: object
) -> None:
    """It once was the source, and follows again without what it lost: that never comes back by itself."""
    await turn(session, "semi_sync=on")
    world.servers["db1"].has = "uuid-0:1-9, uuid-1:1-6"
    world.replica.has = "uuid-0:1-9, uuid-1:1-4"
    story = await report(world, session)
    status = await session.status()
    assert [node.lag_s for node in status.nodes[1:]] == [None, 0.0]
    assert (status.protection.state, status.protection.diverged) == ("armed", ("db2",))
    assert "db2 cannot be promoted: it lost the end" in await refusal(session.console.switchover("db2"))
    await inject(session, "receiver_stop@db2")
    await session.console.clear()
    await session.up(lambda *_: None)
    assert "db2 is not started: it lost the end of its own log" in str(session.restorer.repaired)
    assert world.replica.io == "No", "started it would be taken for whole"
    story += await report(world, session, await session.console.rejoin("db2"))
    # A source that started again with an earlier end of its log gives the same numbers to others.
    world.servers["db1"].has, world.replica.has = "uuid-0:1-4", "uuid-0:1-6"
    assert [*story, *await report(world, session)] == snapshot


@pytest.mark.parametrize("flush", [0, 2])
async def test_a_source_whose_engine_may_have_lost_rows_that_its_binlog_has_is_copied(
    world: World, session: Session, flush: int, snapshot: object
) -> None:
    """Killed with 2 it loses none: the operating system has them."""
    await turn(session, f"innodb_flush_log_at_trx_commit={flush}")
    world.crash("db1")
    await session.console.failover()
    world.servers["db1"].boot()
    story = await report(world, session)
    assert [*story, *await report(world, session, await session.console.rejoin("db1"))] == snapshot


async def test_what_cannot_be_done_is_refused_in_a_line(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, console = world.taken, session.console
    assert "no node 'db9'" in await refusal(console.failover("db9"), UsageError)
    assert "db1 is the source already" in await refusal(console.failover("primary"), UsageError)
    assert "db1 is the source" in await refusal(console.rejoin("db1"), UsageError)
    monkeypatch.setattr(Fleet, "system", GROUP)
    assert "no member takes writes, so there is no group for db2" in await refusal(console.rejoin("db2"))
    assert world.taken == before


@TWO_REPLICAS
async def test_what_is_for_a_role_stays_with_the_role(
    world: World, session: Session, snapshot: object
) -> None:
    await turn(session, "semi_sync=on sync_binlog=0 rtt@db2=10 rtt@db3=40 rtt@db2:db3=20 fsync_delay@db2=3")
    done = await session.console.switchover("db2")
    assert "db2 is the source, and would go with the last nodes" in await refusal(
        session.console.scale(0), UsageError
    )
    status = await session.status()
    knobs = [
        f"{name} {view.requested} {view.effective}"
        for name, view in status.knobs.items()
        if view.requested != view.default
    ]
    assert [*await report(world, session, done), *knobs, str(status.protection.state)] == snapshot
    assert [each.variables["sync_binlog"] for each in world.servers.values()] == ["1", "0", "1"]
    assert world.servers["db1"].variables["rpl_semi_sync_source_enabled"] == "OFF"


async def test_semi_sync_waits_for_a_rejoin_where_no_node_could_acknowledge_and_a_cut_link_heals(
    world: World, session: Session, snapshot: object
) -> None:
    await turn(session, "semi_sync=on")
    await inject(session, "partition=both kill")
    story = await report(world, session, await session.console.failover())
    await session.console.clear()
    status = await session.status()
    assert (status.protection.state, status.faults) == ("off", ())
    async with world.brought_up() as other:
        assert [*story, *await report(world, other)] == snapshot
    await session.console.rejoin("db1")
    assert (await session.status()).protection.state == "protected"


@pytest.mark.parametrize("whose", ["our own", "another's"])
async def test_a_load_goes_on_at_the_new_source_whoever_made_it(
    world: World, tui: Session, whose: str
) -> None:
    async with world.attached("switchover") as other:
        target = tui.load.target
        done = await (tui if whose == "our own" else other).console.switchover()
        assert ("db2: point the load there" in steps(done)) == (whose == "our own")
        assert done.warnings == ()
        await until(lambda: tui.load.target not in (None, target))
        assert tui.load.target == world.loads[-1].target


class Killed(BaseException):
    """The app's end: nothing of it runs any more."""


LAST_STEPS = """\
end the old source
fence the old source
drain the relay log
promote
let the knobs follow
"""


async def test_a_failover_whose_app_is_killed_is_ended_by_the_next_up(
    monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    record, story = RoleRun.record, {}
    for last in LAST_STEPS.splitlines():
        world = World(replicas=2)

        async def recorded(run: RoleRun, change: UnderWay | None, last: str = last) -> None:
            if change is None:
                raise Killed
            await record(run, change)
            if change.step == last:
                raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(RoleRun, "record", recorded)
            patched.setattr(RoleChanges, "_give_up", AsyncMock())
            async with world.attached("failover") as session:
                world.crash("db1")
                with pytest.raises(Killed):
                    await session.console.failover()
        assert world.document.content["role_change"] is not None
        async with world.brought_up() as session:
            story[last] = await report(world, session)
    assert story == snapshot


async def test_an_interrupted_failover_is_told_where_nothing_can_be_done_yet(
    world: World, session: Session, snapshot: object
) -> None:
    world.crash("db1")
    change = UnderWay(ChangeKind.FAILOVER, "db1", "db2", "drain the relay log", "failover (pid 7)", 0.0)
    world.document.content["role_change"] = asdict(change)
    story = [await session.roles.settle(), *await report(world, session)]
    assert [*story, *await report(world, session, await session.console.failover())] == snapshot


FAILING = """\
db1 SET GLOBAL super_read_only
db2 STOP REPLICA
db2 RESET REPLICA
db2 SET GLOBAL read_only
"""


@TWO_REPLICAS
async def test_a_switchover_that_fails_before_the_promotion_is_taken_back(
    world: World, session: Session
) -> None:
    await turn(session, "sync_binlog=0")
    before = world.taken
    for node, statement in (line.split(" ", 1) for line in FAILING.splitlines()):
        world.servers[node].refusals[statement] = 1227
        assert "1227" in await refusal(session.console.switchover("db2"), ReplexplorerError)
        world.servers[node].refusals.clear()
        await until(lambda: world.replica.io == "Yes")
        assert world.taken == before, statement
    world.replica.lags = True
    assert "did not have every transaction" in await refusal(session.console.switchover("db2"))
    assert (world.taken, world.boot_roles) == (before, BootRoles("db1"))


@TWO_REPLICAS
async def test_what_a_dead_node_cannot_take_keeps_nothing_else_from_following(
    world: World, session: Session
) -> None:
    """And a thread of the source of now that was stopped when it was a replica is no fault any more."""
    await turn(session, "undo_journal=on fsync_delay=4 rtt@db3=40")
    await inject(session, "receiver_stop@db2")
    world.crash("db1")
    world.sidecars["db1"].shim = False
    assert (await session.console.failover("db2")).warnings == ()
    await session.console.clear()
    status = await session.status()
    assert status.faults == ()
    names = (KnobName("rtt", "db3"), KnobName("fsync_delay", SOURCE), KnobName("undo_journal", SOURCE))
    assert [status.knobs[name].effective for name in names] == [40.0, 4.0, "on"]

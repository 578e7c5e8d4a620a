"""Failover, switchover and rejoin on the world of fakes: done, refused, taken back, finished by others."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, HEAD, read_run
from replexplorer.core.role_change import BootRoles, ChangeKind, RoleChange, UnderWay
from replexplorer.core.server.node_view import diverged_words
from replexplorer.core.system import GROUP
from replexplorer.engine.change.role_run import RoleRun
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.console import Command
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.turning import inject, turn
from tests.waiting import tick_after, told


def names_of(done: RoleChange) -> list[tuple[str, str]]:
    return [(step.node, step.name) for step in done.steps]


def takers(world: World) -> list[str]:
    """Who takes writes."""
    servers = world.servers.values()
    return [each.node for each in servers if each.running and each.variables["super_read_only"] == "OFF"]


async def roles(session: Session) -> list[str]:
    return [str(node.role) for node in (await session.status()).nodes]


@TWO_REPLICAS
async def test_the_replica_that_has_received_most_takes_the_place_of_a_dead_source(
    world: World, session: Session
) -> None:
    world.servers["db3"].applied["queued"] = "uuid-0:900-902"
    world.crash("db1")
    queued = {node.name: node.applier.queued for node in (await session.status()).nodes if node.applier}
    assert queued == {"db2": 0, "db3": 3}
    done = await session.console.failover()
    assert (done.kind, done.source_before, done.source, done.fenced) == ("failover", "db1", "db3", True)
    assert (done.rpo.commits, done.rpo.ms) == (None, None), "nobody can say what the old source had"
    assert "no load of this program runs" in str(done.rpo.unknown)
    steps = [
        ("db1", "fence the old source"), ("db3", "drain the relay log"), ("db3", "promote"),
    ]  # fmt: skip
    assert [step for step in names_of(done) if step in steps] == steps
    parts = (done.rto.detect_ms, done.rto.promote_ms, done.rto.first_write_ms)
    assert None not in parts
    assert sum(filter(None, parts)) == pytest.approx(done.rto.total_ms)
    assert takers(world) == ["db3"]
    assert world.servers["db2"].follows == "db3"
    assert world.boot_roles == BootRoles("db3", frozenset({"db1"}))
    assert await roles(session) == ["down", "replica", "primary"]
    assert world.document.content["role_change"] is None


async def test_an_old_source_that_comes_back_takes_no_writes_and_rejoins(
    world: World, session: Session
) -> None:
    world.crash("db1")
    await session.console.failover()
    world.servers["db1"].boot()
    assert takers(world) == ["db2"]
    assert await roles(session) == ["detached", "primary"]
    with pytest.raises(StackUnavailable, match="needs 1 replica, and db1 follows no source"):
        await turn(session, "semi_sync=on")
    done = await session.console.rejoin("db1")
    assert (done.source_before, done.source, done.rpo.commits) == ("db1", "db2", 0)
    assert await roles(session) == ["replica", "primary"]
    assert world.boot_roles == BootRoles("db2")
    assert (await session.console.rejoin("db1")).steps == ()
    again = await session.console.rejoin("db1", copy=True)
    assert ("db1", "copy db2") in names_of(again)


async def test_a_commit_that_waits_at_the_source_is_no_transaction_of_the_replica_s_own(
    world: World, session: Session
) -> None:
    """A replica has executed it before it is acknowledged: it costs nobody a copy."""
    await session.fleet.member("db2").run("STOP REPLICA")
    world.replica.errant, world.primary.owned = "uuid-0:100000", "uuid-0:100000#48"
    done = await session.console.rejoin("db2")
    assert ("db2", "follow db1") in names_of(done)
    assert not any("CLONE" in statement for step in done.steps for statement in step.statements)
    assert (done.rpo.commits, done.errant_gtids) == (0, {})


async def test_where_no_member_takes_writes_there_is_no_group_to_come_back_to(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fleet, "system", GROUP)
    with pytest.raises(StackUnavailable, match="no member takes writes, so there is no group for db2"):
        await session.console.rejoin("db2")


async def test_what_only_the_old_source_has_is_told_and_lost_by_a_copy(
    world: World, session: Session
) -> None:
    asked: list[tuple[str, str]] = []

    async def consents(node: str, gtids: str) -> bool:
        asked.append((node, gtids))
        return len(asked) > 1

    world.crash("db1")
    await session.console.failover()
    world.servers["db1"].errant = "uuid-0:77-79"
    with pytest.raises(StackUnavailable, match="db1 keeps 3 transactions that the source lacks"):
        await session.console.rejoin("db1", consents)
    assert await roles(session) == ["detached", "primary"]
    done = await session.console.rejoin("db1", consents)
    assert asked == [("db1", "uuid-0:77-79")] * 2
    assert (done.rpo.commits, done.errant_gtids) == (3, {"db1": "uuid-0:77-79"})
    assert await roles(session) == ["replica", "primary"]
    assert takers(world) == ["db2"]


RUN = 1_795_000_000
ACCOUNT = f"{HEAD}{RUN}\nt 1\ni 1 1\na 1 1 5\ni 1 2\na 1 2 6\ni 1 3\na 1 3 7\ni 1 4\n"
"""Client 1 was told of three rows, and not of the fourth."""


async def test_a_node_that_lacks_what_no_binlog_of_the_source_has_any_more_gets_a_copy(
    world: World, session: Session
) -> None:
    world.crash("db1")
    await session.console.failover()
    world.servers["db2"].purged = "uuid-9:1-5"  # as of a source that was itself made by a copy
    done = await session.console.rejoin("db1")
    assert ("db1", "copy db2") in names_of(done)
    assert done.rpo.commits == 0, "it loses nothing that only it has"


class LateWorld(World):
    """Nodes that join have all of the source's transactions still to receive."""

    def __init__(self, commits: int) -> None:
        super().__init__()
        self.servers["db1"].commits = commits

    def grow(self) -> None:
        super().grow()
        self.servers[self.node_names[-1]].missing = self.servers["db1"].commits


@pytest.mark.parametrize(
    ("commits", "purged", "refused", "copied"),
    [
        (6_000, "", {}, True),
        (4_000, "", {}, False),
        (10, "uuid-9:1-5", {}, True),
        (6_000, "", {"INSTALL PLUGIN": 1126}, False),
    ],
    ids=["sooner", "no sooner", "the first binlogs are gone", "it can get no copy"],
)
async def test_a_node_that_joins_is_given_a_copy_where_that_is_sooner_and_possible(
    commits: int, purged: str, refused: dict[str, int], copied: bool
) -> None:
    world, told = LateWorld(commits), list[str]()
    world.primary.purged, world.primary.refusals = purged, refused
    async with world.attached("lab") as session:
        await session.rig.scale(2, lambda text, done=None: told.append(text))
        assert await roles(session) == ["primary", "replica", "replica"]
    assert (world.servers["db3"].missing == 0) == copied
    assert ("db3: gets a copy of db1" in told) == (copied or bool(refused))


async def failed_over(world: World, workload: str, *, beside: bool) -> RoleChange:
    """A failover under a load of a few clients, our own or another app's."""
    async with world.attached("load") as session, world.attached("failover") as other:
        await session.drive(LoadSettings(4, workload, 1000))
        world.crash("db1")
        return await (other if beside else session).console.failover()


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("last", "lost"), [(4, 0), (3, 0), (1, 2)])
async def test_under_the_ledger_load_a_failover_counts_what_clients_were_told_of(
    world: World, monkeypatch: pytest.MonkeyPatch, last: int, lost: int, beside: bool
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    world.client_logs.log = read_run([("0.log", ACCOUNT.encode())])
    world.servers["db2"].ledger = [(RUN * CLIENTS_A_RUN + 1, 1, last)]
    done = await failed_over(world, "ledger", beside=beside)
    assert (done.rpo.commits, done.rpo.unknown) == (lost, None)
    assert (done.rpo.ms == 0.0) is (lost == 0)


async def test_of_a_load_without_an_account_of_its_clients_the_loss_is_unknown_and_it_says_why(
    world: World,
) -> None:
    done = await failed_over(world, "insert", beside=True)
    assert (done.rpo.commits, done.rpo.ms) == (None, None)
    assert "the load keeps no client log: only the workload" in str(done.rpo.unknown)


@TWO_REPLICAS
async def test_what_no_node_hands_on_has_to_be_accepted_by_name(world: World, session: Session) -> None:
    world.servers["db2"].has = "uuid-0:1-9"
    world.servers["db3"].has = "uuid-0:1-12, uuid-2:1-200"
    world.servers["db3"].sql, world.servers["db3"].sql_errno = "No", 1062
    world.crash("db1")
    with pytest.raises(StackUnavailable) as refused:
        await session.console.failover()
    assert str(refused.value) == (
        "promoting db2 would lose 3 transactions: db3 could not hand them on: nothing came (db2 lacks 3"
        " transactions, db3 lacks none): `replexplorer role failover --to db2 --accept-loss` gives them up"
    )
    assert (takers(world), world.boot_roles) == ([], BootRoles("db1"))
    assert world.servers["db2"].follows == "db1"
    assert world.document.content["role_change"] is None
    with pytest.raises(UsageError, match="--to NODE --accept-loss"):
        await session.console.failover(accept_loss=True)
    done = await session.console.failover("db2", accept_loss=True)
    assert (done.source, done.rpo.accepted) == ("db2", "uuid-0:10-12")
    assert any("3 transactions that other nodes had are lost" in each for each in done.warnings)
    assert done.words.splitlines()[1] == "3 transactions lost, as accepted: uuid-0:10-12"


@TWO_REPLICAS
async def test_a_node_with_a_hole_in_its_own_log_protects_nothing_and_is_copied(
    world: World, session: Session
) -> None:
    """It once was the source, and follows again without what it lost: that never comes back by itself."""
    await turn(session, "semi_sync=on")
    assert (await session.status()).protection.state == "protected"
    world.servers["db1"].has = "uuid-0:1-9, uuid-1:1-6"
    world.servers["db2"].has = "uuid-0:1-9, uuid-1:1-4"
    status = await session.status()
    seen = {node.name: node for node in status.nodes}
    why = "lost the end of its own log: it lacks 2 transactions that it numbered itself (uuid-1:5-6)"
    said = diverged_words(why, "db2", session.name)
    assert [seen[name].diverged for name in ("db1", "db2", "db3")] == [None, said, None]
    assert (seen["db2"].lag_s, seen["db3"].lag_s) == (None, 0.0)
    assert (status.protection.state, status.protection.diverged) == ("armed", ("db2",))
    with pytest.raises(StackUnavailable, match="db2 cannot be promoted: it lost the end"):
        await session.console.switchover("db2")
    await inject(session, "receiver_stop@db2")
    await session.console.clear()
    assert world.servers["db2"].io == "No", "started it would be taken for whole"
    await session.up(lambda *_: None)
    assert any(f"db2 is not started: it {why}" in each for each in session.restorer.repaired)
    assert world.servers["db2"].io == "No"
    done = await session.console.rejoin("db2")
    assert ("db2", "copy db1") in names_of(done)
    assert (done.rpo.commits, done.warnings) == (0, (f"db2 {why}: it gets a copy of db1",))
    assert [node.diverged for node in (await session.status()).nodes] == [None, None, None]


async def test_replicas_that_have_what_the_source_has_lost_of_its_own_are_diverged_though_nobody_saw_it(
    world: World, session: Session
) -> None:
    """It started again with an earlier end of its log, and gives the same numbers to others."""
    world.servers["db1"].has, world.servers["db2"].has = "uuid-0:1-4", "uuid-0:1-6"
    why = "has 2 transactions that db1 numbered itself and lost (uuid-0:5-6)"
    status = await session.status()
    said = diverged_words(why, "db2", session.name)
    assert [node.diverged for node in status.nodes] == [None, said]


async def test_nothing_is_said_of_the_log_of_a_node_that_is_being_copied(world: World) -> None:
    """It has none until the copy is there, and is told to be copied while it is."""
    change = UnderWay(ChangeKind.REJOIN, "db2", "db1", "copy db1", "rejoin (pid 7)", 0.0)
    async with world.started("tui") as session:
        await session.state.write(lambda now: replace(now, role_change=change))
        world.servers["db1"].has, world.servers["db2"].has = "uuid-1:1-6", "uuid-1:1"
        tick = await tick_after(session, 15)
        assert not [event for event in tick.events if "DIVERGED" in event.text]
        await session.state.write(lambda now: replace(now, role_change=None))
        await told(session, "db2 DIVERGED: it lost the end of its own log")


@pytest.mark.parametrize(("flush", "copied"), [(0, True), (2, False)])
async def test_a_source_whose_engine_may_have_lost_rows_that_its_binlog_has_is_copied(
    world: World, session: Session, flush: int, copied: bool
) -> None:
    """Killed with 2 it loses none: the operating system has them."""
    await turn(session, f"innodb_flush_log_at_trx_commit={flush}")
    world.crash("db1")
    await session.console.failover()
    world.servers["db1"].boot()
    found = {node.name: node.diverged for node in (await session.status()).nodes}
    assert (found["db1"] is not None) is copied
    done = await session.console.rejoin("db1")
    assert (("db1", "copy db2") in names_of(done)) is copied
    assert all(node.diverged is None for node in (await session.status()).nodes)


REFUSED: dict[str, Command[RoleChange]] = {
    "no node 'db9'": lambda console: console.failover("db9"),
    "db1 is the source already": lambda console: console.failover("primary"),
    "db1 is the source": lambda console: console.rejoin("db1"),
}


async def test_what_cannot_be_done_is_refused_in_a_line(world: World, session: Session) -> None:
    before = world.taken
    for why, command in REFUSED.items():
        with pytest.raises(UsageError, match=why):
            await command(session.console)
    assert world.taken == before


async def test_a_replica_that_does_not_catch_up_is_refused_before_writes_wait(
    world: World, session: Session
) -> None:
    world.replica.lags = True
    with pytest.raises(StackUnavailable, match="did not have every transaction"):
        await session.console.switchover()
    assert takers(world) == ["db1"]
    assert await roles(session) == ["primary", "replica"]
    assert world.boot_roles == BootRoles("db1")
    assert world.document.content["role_change"] is None


@TWO_REPLICAS
async def test_what_is_for_a_role_stays_with_the_role(world: World, session: Session) -> None:
    await turn(session, "semi_sync=on", "sync_binlog=0", "rtt@db2=10", "rtt@db3=40", "fsync_delay@db2=3")
    await session.console.switchover("db2")
    assert await roles(session) == ["replica", "primary", "replica"]
    assert world.boot_roles == BootRoles("db2")
    with pytest.raises(UsageError, match="db2 is the source, and would go with the last nodes"):
        await session.console.scale(0)
    knobs = (await session.status()).knobs
    assert {str(name): view.requested for name, view in knobs.items() if name.key == "rtt"} == {
        "rtt@db1": 10.0,
        "rtt@db3": 40.0,
    } | {str(name): 0.0 for name in knobs if name.key == "rtt" and ":" in name.node}
    assert all(view.effective == view.requested for name, view in knobs.items() if name.key == "rtt")
    for name, value in (("semi_sync", "on"), ("sync_binlog", 0)):
        assert knobs[KnobName(name, SOURCE)].effective == value
    assert world.servers["db2"].variables["sync_binlog"] == "0"
    assert world.servers["db1"].variables["sync_binlog"] == "1"
    assert knobs[KnobName("fsync_delay", "db1")].requested == 3.0
    assert (await session.status()).protection.state == "protected"
    assert world.servers["db1"].variables["rpl_semi_sync_source_enabled"] == "OFF"


@TWO_REPLICAS
async def test_a_link_between_two_replicas_keeps_its_direction_as_the_ends_change_places(
    world: World, session: Session
) -> None:
    await turn(session, "delay_to_replica@db2:db3=30")
    await session.console.switchover("db3")
    knobs = (await session.status()).knobs
    asked = {str(name): view.requested for name, view in knobs.items() if view.requested == 30.0}
    assert asked == {"delay_to_primary@db1:db2": 30.0}, "what left db2 for a replica still does"
    assert world.sidecars["db1"].delays.keys() == {"db2"}


async def test_semi_sync_waits_for_a_rejoin_where_nobody_could_acknowledge_and_a_cut_link_heals(
    world: World, session: Session
) -> None:
    await turn(session, "semi_sync=on")
    await inject(session, "partition=both", "kill")
    done = await session.console.failover()
    assert any(
        "semi_sync is not in force: semi_sync=on needs 1 replica" in warning for warning in done.warnings
    )
    await session.console.clear()
    status = await session.status()
    assert (status.protection.state, status.faults) == ("off", ())
    async with world.brought_up() as other:
        assert await roles(other) == ["detached", "primary"]
        assert takers(world) == ["db2"]
    await session.console.rejoin("db1")
    assert (await session.status()).protection.state == "protected"


@pytest.mark.parametrize("whose", ["our own", "another's"])
async def test_a_load_goes_on_at_the_new_source_whoever_made_it(world: World, whose: str) -> None:
    async with world.started() as session, world.attached("switchover") as other:
        await until(lambda: session.load.is_running)
        target = session.load.target
        done = await (session if whose == "our own" else other).console.switchover()
        assert done.warnings == ()
        assert (("db2", "point the load there") in names_of(done)) == (whose == "our own")
        await until(lambda: session.load.target not in (None, target))
        assert session.load.target == world.loads[-1].target


class Killed(BaseException):
    """The app's end: nothing of it runs any more."""


KILLED_AT = [
    "end the old source",
    "fence the old source",
    "drain the relay log",
    "promote",
    "let the knobs follow",
]


@pytest.mark.parametrize("step", KILLED_AT)
async def test_a_failover_whose_app_is_killed_is_ended_by_the_next_up(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(replicas=2)
    with monkeypatch.context() as patched:
        record = RoleRun.record

        async def recorded(run: RoleRun, change: UnderWay | None) -> None:
            if change is None:
                raise Killed
            await record(run, change)
            if change.step == step:
                raise Killed

        patched.setattr(RoleRun, "record", recorded)
        patched.setattr(RoleChanges, "_give_up", lambda roles, run: _nothing())
        async with world.attached("failover") as session:
            world.crash("db1")
            with pytest.raises(Killed):
                await session.console.failover()
    assert world.document.content["role_change"] is not None
    async with world.brought_up() as session:
        assert world.document.content["role_change"] is None
        assert len(takers(world)) == 1
        expected = (
            ["detached", "primary", "replica"]
            if step == "let the knobs follow"
            else ["primary", "replica", "replica"]
        )
        assert await roles(session) == expected


async def _nothing() -> None:
    """The app is dead."""


async def test_an_interrupted_failover_is_told_where_nothing_can_be_done_yet(
    world: World, session: Session
) -> None:
    world.crash("db1")
    change = UnderWay(ChangeKind.FAILOVER, "db1", "db2", "drain the relay log", "failover (pid 7)", 0.0)
    world.document.content["role_change"] = asdict(change)
    told = await session.roles.settle()
    assert told is not None
    assert told.startswith(
        "failover from db1 to db2, begun by failover (pid 7), was interrupted at 'drain the relay log',"
        " and cannot be ended yet: db1 is down, and db2 was not promoted"
    )
    assert world.document.content["role_change"] is not None
    done = await session.console.failover()
    assert done.source == "db2"
    assert world.document.content["role_change"] is None


@TWO_REPLICAS
@pytest.mark.parametrize(
    "failing", ["SET GLOBAL super_read_only", "STOP REPLICA", "RESET REPLICA", "SET GLOBAL read_only"]
)
async def test_a_switchover_that_fails_before_the_promotion_is_taken_back(
    world: World, session: Session, failing: str
) -> None:
    await turn(session, "sync_binlog=0")
    node = "db1" if failing.endswith("super_read_only") else "db2"
    world.servers[node].refusals[failing] = 1227
    with pytest.raises(ReplexplorerError):
        await session.console.switchover("db2")
    world.servers[node].refusals.clear()
    await session.state.refresh()
    assert takers(world) == ["db1"]
    await until(lambda: world.servers["db2"].io == "Yes")
    assert world.servers["db2"].follows == "db1"
    assert [world.servers[each].variables["sync_binlog"] for each in ("db1", "db2")] == ["0", "1"]
    assert world.document.content["role_change"] is None


@TWO_REPLICAS
async def test_a_stopped_thread_of_a_node_that_is_the_source_by_now_is_no_fault_any_more(
    world: World, session: Session
) -> None:
    await inject(session, "receiver_stop@db2")
    world.crash("db1")
    await session.console.failover("db2")
    await session.console.clear()
    assert (await session.status()).faults == ()
    assert await roles(session) == ["down", "primary", "replica"]


@TWO_REPLICAS
async def test_what_a_dead_node_cannot_take_keeps_nothing_else_from_following(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, effective = KnobName("undo_journal", "db1"), StackState.effective_value
    monkeypatch.setattr(
        StackState, "effective_value", lambda state, name: "on" if name == left else effective(state, name)
    )
    await turn(session, "undo_journal=on", "fsync_delay=4", "rtt@db3=40")
    world.crash("db1")
    world.sidecars["db1"].shim = False
    done = await session.console.failover("db2")
    assert done.warnings == ()
    knobs = (await session.status()).knobs
    assert knobs[KnobName("rtt", "db3")].effective == 40.0
    assert knobs[KnobName("fsync_delay", SOURCE)].effective == 4.0
    assert knobs[KnobName("undo_journal", SOURCE)].effective == "on"


# Which node is the source is seen at every look, and what is asked of the source follows it


async def test_what_is_for_a_link_stays_with_its_two_nodes() -> None:
    """Also for who comes after the change of the source."""
    world = World(replicas=2)
    async with world.attached() as session:
        await turn(session, "delay_to_replica@db2=30", "rtt@db3=8", "rtt@db2:db3=20")
        rules = {name: dict(sidecar.shapes) for name, sidecar in world.sidecars.items()}
        world.elect("db2")
        await session.state.refresh()
        assert [view.role for view in session.state.node_views()] == ["replica", "primary", "replica"]
        requested = {str(name): value for name, value in session.state.requested.values.items()}
        assert requested == {"delay_to_primary@db1": 30.0, "rtt@db1:db3": 8.0, "rtt@db3": 20.0}
        assert session.state.lost_values(world.node_names) == {}, "no rule has to move"
        assert {name: dict(sidecar.shapes) for name, sidecar in world.sidecars.items()} == rules
    async with world.attached("status") as other:
        links = (await other.status()).links
    assert [(link.replica, link.rtt_asked_ms, link.fault) for link in links] == [
        ("db1", 30.0, None), ("db3", 20.0, None), ("db1:db3", 8.0, None),
    ]  # fmt: skip

"""An experiment whose app was killed: the next command gives back what it owes the stack."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.experiment.snapshot import PendingRestore
from replexplorer.core.knobs.names import SOURCE, KnobName, desired_of
from replexplorer.core.link import kept_all
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.restore_guard import restore_guard
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import World
from tests.turning import turn

SYNC, RTT = KnobName("sync_binlog", SOURCE), KnobName("rtt", "db2")


async def leave_a_mess(session: Session) -> None:
    """What a drill has done to the stack when it is killed."""
    rig = session.rig
    desired = desired_of([rig.controls.parse("sync_binlog=0"), rig.controls.parse("rtt=20")])
    turned = kept_all(desired, rig.seen.roster)
    await rig.record(PendingRestore("drill", "mess", "db1", {"sync_binlog": 100, "rtt@db1:db2": 5.0}, turned))
    await rig.controls.set(desired)
    await rig.inject("partition=ack")
    await rig.inject("receiver_stop")


def told(session: Session) -> list[str]:
    return [event.text for event in session.event_log.take_events() if "interrupted" in event.text]


@pytest.mark.parametrize("how", ["start", "up", "experiment", "set", "load"])
async def test_the_next_command_rolls_it_back_and_says_so(world: World, how: str) -> None:
    async with world.attached("set") as session:
        await turn(session, "sync_binlog=100", "rtt=5")
    async with world.attached("drill mess") as session:
        await leave_a_mess(session)
    session = world.session("tui")
    if how == "start":
        await session.start(lambda *_: None)
    else:
        await session.attach()
        assert (await session.status()).interrupted == "drill mess"
        if how == "up":
            await session.up(lambda *_: None)
        elif how == "set":
            await turn(session, "clients=3")
        elif how == "load":
            await session.drive(session.driving.settings())
        else:
            async with restore_guard(session.rig, "lab", "next", check=lambda _: None):
                pass
    assert session.state.requested.owed is None
    assert (await session.status()).interrupted is None
    assert session.state.requested.faults == ()
    assert session.state.requested_value(SYNC) == 100
    assert session.state.requested_value(RTT) == 5
    assert world.primary.variables["sync_binlog"] == "100"
    assert world.replica.io != "off"
    [line] = told(session)
    assert "the drill mess was interrupted" in line
    assert "sync_binlog" in line
    await session.close()


async def test_nothing_is_touched_while_the_experiment_runs(world: World, session: Session) -> None:
    over = asyncio.Event()

    async def run() -> None:
        async with session.rig.reserved("drill", "mess"):
            await leave_a_mess(session)
            await over.wait()

    running = asyncio.create_task(run())
    await until(lambda: len(session.state.requested.faults) == 2)
    async with world.started("tui") as other:
        assert told(other) == []
        assert other.state.requested.owed is not None
        assert (await other.status()).interrupted is None
        assert len(other.state.requested.faults) == 2
    over.set()
    await running


async def test_a_drill_that_was_killed_after_its_failover_has_its_first_source_and_knobs_back() -> None:
    world = World(replicas=2)
    async with world.attached("set") as session:
        await turn(session, "rtt=5")
    async with world.attached("drill lost") as session:
        rig = session.rig
        before = {"rtt@db1:db2": 5.0, "rtt@db1:db3": 5.0}
        await rig.record(PendingRestore("drill", "lost", "db1", before, dict.fromkeys(before, 20.0)))
        await rig.controls.set(desired_of([rig.controls.parse("rtt=20")]))
        await rig.inject("kill")
        change = await rig.roles.failover(anyway=True)
        assert session.fleet.source_name == change.source != "db1"
    async with world.attached("up") as session:
        await session.up(lambda *_: None)
        assert session.fleet.source_name == "db1"
        assert session.state.requested.owed is None
        assert "db1 is the source again" in told(session)[0]
    assert (world.rtt_ms("db2"), world.rtt_ms("db3")) == pytest.approx((5.0, 5.0))


def copied(world: World) -> list[str]:
    """Nodes that got a copy of another one's data."""
    return [node for node, what in world.changes if what.startswith("CLONE INSTANCE")]


async def test_a_copy_that_cannot_be_made_stays_owed_and_the_next_start_makes_it(world: World) -> None:
    async with world.attached("drill cut") as session:
        await session.rig.record(
            PendingRestore("drill", "cut", "db1", {"sync_binlog": 100}, {"sync_binlog": 0}, ("db2", "db7"))
        )
    world.servers["db2"].refusals["CLONE"] = 3862
    async with world.attached("up") as session:
        await session.up(lambda *_: None)
        owed = session.state.requested.owed
        assert owed is not None
        assert (owed.before, owed.differing) == ({}, ("db2",))
        assert told(session)[0].endswith("refused by the test): `replexplorer up` tries again")
    world.servers["db2"].refusals.clear()
    async with world.attached("up") as session:
        await session.up(lambda *_: None)
        assert session.state.requested.owed is None
        assert told(session)[0].endswith("; db2 has a copy of db1")
    assert set(copied(world)) == {"db2"}


def test_what_somebody_has_asked_since_stays() -> None:
    before, turned = {"sync_binlog": 1, "rtt@db1:db2": 0.0}, {"sync_binlog": 0, "rtt@db1:db2": 20.0}
    owed = PendingRestore("drill", "kill-primary", "db1", before, turned, ("db2",), writer="drill (pid 7)")
    assert owed.still({SYNC: 0, RTT: 20.0}.__getitem__, new_roster(1)) == {SYNC: 1, RTT: 0.0}
    assert owed.still({SYNC: 5, RTT: 20.0}.__getitem__, new_roster(1)) == {RTT: 0.0}
    midway = replace(owed, turning={"rtt@db1:db2": 40.0})  # killed before or after the request was written
    for requested_ms in (20.0, 40.0):
        assert midway.still({SYNC: 0, RTT: requested_ms}.__getitem__, new_roster(1))[RTT] == 0.0

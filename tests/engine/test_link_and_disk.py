"""Links and disks on a model stack: shapes by direction, partitions that heal, fsyncs that show."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import MissingPiece
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.wire import Shape
from replexplorer.engine.session import Session
from tests.fakes.world import World
from tests.turning import turn


def shapes(world: World) -> dict[str, dict[str, Shape]]:
    """What each end of a link does to what it receives, by its node and the other one."""
    return {
        name: {peer: shape for peer, shape in sidecar.shapes.items() if shape != Shape()}
        for name, sidecar in world.sidecars.items()
    }


def links(session: Session) -> list[str]:
    """Every link that is looked at, with what is asked of it and its path as it is."""
    found = (session.state.links | session.state.pairs).values()
    return [f"{each.replica}: {each.rtt_asked_ms:g} ms, partition {each.partition}" for each in found]


async def test_each_direction_is_shaped_by_the_end_that_receives_it(
    world: World, session: Session, snapshot: object
) -> None:
    await turn(session, "delay_to_replica=30", "delay_to_primary=10", "loss=1%", "bandwidth=20mbit")
    assert (shapes(world), links(session), world.rtt_ms()) == snapshot
    assert session.state.effective_value(KnobName("delay_to_replica", "db2")) == 30
    world.sidecars["db1"].lost["db2"] = world.sidecars["db1"].state("db2").probes
    await session.state.look_at_links()
    assert session.state.links["db2"].probes_lost_percent == pytest.approx(50)
    await turn(session, "delay_to_replica=auto", "delay_to_primary=auto", "loss=0", "bandwidth=unlimited")
    assert shapes(world) == {"db1": {}, "db2": {}}


async def test_a_link_between_two_replicas_is_shaped_at_both_its_ends_and_again_by_up(
    snapshot: object,
) -> None:
    world = World(replicas=2)
    async with world.attached() as session:
        result = await turn(session, "delay_to_replica@db2:db3=30", "delay_to_primary@replica2:replica=10")
        assert [change.measured_ms for change in result.changed] == [pytest.approx(40)] * 2
        assert session.state.effective_value(KnobName("delay_to_replica", "db2:db3")) == 30
        await session.status()
        asked = shapes(world), links(session)
        await turn(session, "partition@db2:db3=both")
        assert (asked, shapes(world), links(session)) == snapshot
    world.sidecars["db3"].restart()
    async with world.brought_up() as session:
        assert shapes(world)["db3"] == {"db2": Shape(29.95, cut=True)}
        await session.console.reset()
        assert (shapes(world), len((await session.status()).links)) == ({"db1": {}, "db2": {}, "db3": {}}, 2)


async def test_partition_none_heals_links_between_two_replicas_as_well() -> None:
    world = World(replicas=3)
    async with world.attached() as session:
        await turn(session, "partition@db2=both", "partition@db2:db3=both")
    async with world.attached() as session:
        result = await turn(session, "partition=none")
        assert [str(change.name) for change in result.changed] == ["partition@db2", "partition@db2:db3"]
        assert not any(shapes(world).values())
        assert (await turn(session, "partition=none")).changed == ()
        assert "partition@db3:db4" not in world.requested


def told_io_thread(world: World) -> list[str]:
    return [line for line in world.told() if "IO_THREAD" in line]


@pytest.mark.parametrize(
    ("retry_s", "told"),
    [(0.5, []), (60.0, ["db2: STOP REPLICA IO_THREAD", "db2: START REPLICA IO_THREAD"])],
)
async def test_a_healed_stream_is_waited_for_and_helped_when_tcp_waits_too_long(
    world: World, session: Session, retry_s: float, told: list[str]
) -> None:
    await turn(session, "partition=both")
    assert session.state.links["db2"].rtt_measured_ms is None
    world.links["db2"].retry_s = retry_s
    healing = asyncio.create_task(turn(session, "partition=none"))
    await asyncio.sleep(0.3)
    await session.state.look_at_links()
    link = session.state.links["db2"]
    assert (link.healing, link.partition) == (True, "none")
    assert ((await healing).warnings, told_io_thread(world)) == ((), told)
    assert not session.state.links["db2"].healing


async def test_the_io_thread_is_never_restarted_while_the_link_is_cut_again(
    world: World, session: Session
) -> None:
    await turn(session, "partition=dump")
    world.links["db2"].retry_s = 60
    healing = asyncio.create_task(turn(session, "partition=none"))
    await asyncio.sleep(1)
    world.sidecars["db2"].set_link("db1", Shape(cut=True))
    await healing
    assert told_io_thread(world) == []


async def test_an_fsync_delay_is_measured_by_a_commit_where_the_server_is_idle_and_needs_the_shim(
    world: World, session: Session
) -> None:
    result = await turn(session, "fsync_delay=2ms", "fsync_delay@db2=5ms", "rtt=85")
    assert {str(change.name): change.measured_ms for change in result.changed} == pytest.approx(
        {"fsync_delay": 2.2, "fsync_delay@db2": 5.2, "rtt@db2": 85}
    )
    assert (session.state.disks["db2"].delay_ms, world.requested["fsync_delay"]) == (5, 2.0)
    world.sidecars["db1"].fsynced_from_s = None
    world.changes.clear()
    [change] = (await turn(session, "fsync_delay=3ms")).changed
    assert world.told()[1].startswith("INSERT")
    assert (change.effective, change.measured_ms) == (3.0, None)
    world.sidecars["db1"].shim = False
    await session.state.refresh()
    world.changes.clear()
    with pytest.raises(MissingPiece, match="fsync_delay cannot be changed: the server runs without"):
        await turn(session, "fsync_delay=2ms")
    assert world.changes == []
    await turn(session, "fsync_delay@db2=2ms")
    assert session.state.disks["db1"].fault == "the server runs without the fsync shim"
    assert [disk.probe_p50_ms for disk in (await session.status()).disks] == [None, 0.1]

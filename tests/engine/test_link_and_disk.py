"""Links and disks on a model stack: shapes by direction, partitions that heal, fsyncs that show."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import MissingPiece
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.wire import Shape
from replexplorer.engine.session import Session
from tests.fakes.world import World
from tests.turning import turn


def effective(session: Session, key: str, node: str = "db2") -> Value | None:
    return session.state.effective_value(KnobName(key, node))


async def test_each_direction_is_shaped_by_the_end_that_receives_it(world: World, session: Session) -> None:
    await turn(session, "delay_to_replica=30", "delay_to_primary=10", "loss=1%", "bandwidth=20mbit")
    both = Shape(loss_percent=1.0, bandwidth_bps=20_000_000)
    assert world.sidecars["db2"].shapes["db1"] == replace(both, delay_ms=29.95)
    assert world.sidecars["db1"].shapes["db2"] == replace(both, delay_ms=9.95)
    assert world.rtt_ms() == pytest.approx(40)
    assert session.state.links["db2"].rtt_asked_ms == 40
    assert effective(session, "delay_to_replica") == 30
    world.sidecars["db1"].lost["db2"] = world.sidecars["db1"].state("db2").probes
    await session.state.look_at_links()
    assert session.state.links["db2"].probes_lost_percent == pytest.approx(50)
    await turn(session, "delay_to_replica=auto", "delay_to_primary=auto", "loss=0", "bandwidth=unlimited")
    assert all(not sidecar.delays for sidecar in world.sidecars.values())


async def test_a_link_between_two_replicas_is_shaped_at_both_its_ends() -> None:
    world = World(replicas=2)
    async with world.attached() as session:
        result = await turn(session, "delay_to_replica@db2:db3=30", "delay_to_primary@replica2:replica=10")
        assert [change.measured_ms for change in result.changed] == [pytest.approx(40)] * 2
        shapes = {name: sidecar.shapes for name, sidecar in world.sidecars.items()}
        assert shapes == {"db1": {}, "db2": {"db3": Shape(9.95)}, "db3": {"db2": Shape(29.95)}}
        assert effective(session, "delay_to_replica", "db2:db3") == 30
        links = (await session.status()).links
        assert [link.replica for link in links] == ["db2", "db3", "db2:db3"]
        assert (links[2].a, links[2].b, links[2].rtt_asked_ms) == ("db2", "db3", 40)
        await turn(session, "partition@db2:db3=both")
        assert session.state.pairs["db2:db3"].partition == "both"
        assert session.state.links["db2"].partition == "none"
    world.sidecars["db3"].restart()
    async with world.brought_up() as session:
        assert world.sidecars["db3"].shapes["db2"] == Shape(29.95, cut=True), "`up` asks for it again"
        await session.console.reset()
        assert all(shape == Shape() for each in world.sidecars.values() for shape in each.shapes.values())
        assert [link.replica for link in (await session.status()).links] == ["db2", "db3"]


async def test_partition_none_heals_links_between_two_replicas_as_well() -> None:
    world = World(replicas=3)
    async with world.attached() as session:
        await turn(session, "partition@db2=both", "partition@db2:db3=both")
    async with world.attached() as session:
        result = await turn(session, "partition=none")
        assert [str(change.name) for change in result.changed] == ["partition@db2", "partition@db2:db3"]
        assert not any(shape.cut for each in world.sidecars.values() for shape in each.shapes.values())
        assert (await turn(session, "partition=none")).changed == ()
        assert not any("db4" in key and key.startswith("partition@db3") for key in world.requested)


async def test_what_is_not_turned_goes_on_being_asked(session: Session) -> None:
    await turn(session, "rtt=85", "jitter=20")
    await turn(session, "rtt=10")
    assert effective(session, "jitter") == pytest.approx(3.5, abs=0.1)
    await turn(session, "rtt=85")
    assert effective(session, "jitter") == 20


@pytest.mark.parametrize(("retry_s", "restarts"), [(0.5, False), (60.0, True)])
async def test_a_healed_stream_is_waited_for_and_helped_when_tcp_waits_too_long(
    world: World, session: Session, retry_s: float, restarts: bool
) -> None:
    await turn(session, "partition=both")
    assert session.state.links["db2"].partition == "both"
    assert session.state.links["db2"].rtt_measured_ms is None
    world.links["db2"].retry_s = retry_s
    world.changes.clear()
    healing = asyncio.create_task(turn(session, "partition=none"))
    await asyncio.sleep(0.3)
    await session.state.look_at_links()
    assert session.state.links["db2"].healing
    assert session.state.links["db2"].partition == "none"
    result = await healing
    assert result.warnings == ()
    assert (("db2", "STOP REPLICA IO_THREAD") in world.changes) == restarts
    assert (("db2", "START REPLICA IO_THREAD") in world.changes) == restarts
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
    assert not any("IO_THREAD" in what for _, what in world.changes)


async def test_an_fsync_delay_is_measured_by_a_commit_where_the_server_is_idle_and_needs_the_shim(
    world: World, session: Session
) -> None:
    result = await turn(session, "fsync_delay=2ms", "fsync_delay@db2=5ms", "rtt=85")
    assert {str(change.name): change.measured_ms for change in result.changed} == {
        "fsync_delay": pytest.approx(2.2),
        "fsync_delay@db2": pytest.approx(5.2),
        "rtt@db2": pytest.approx(85),
    }
    assert session.state.disks["db2"].delay_ms == 5
    assert world.requested["fsync_delay"] == 2.0
    world.sidecars["db1"].fsynced_from_s = None
    world.changes.clear()
    result = await turn(session, "fsync_delay=3ms")
    assert world.told()[1].startswith("INSERT")
    assert (result.changed[0].effective, result.changed[0].measured_ms) == (3.0, None)
    world.sidecars["db1"].shim = False
    await session.state.refresh()
    world.changes.clear()
    with pytest.raises(MissingPiece, match="fsync_delay cannot be changed: the server runs without"):
        await turn(session, "fsync_delay=2ms")
    assert world.changes == []
    await turn(session, "fsync_delay@db2=2ms")
    assert session.state.disks["db1"].fault == "the server runs without the fsync shim"
    assert [disk.probe_p50_ms for disk in (await session.status()).disks] == [None, 0.1]

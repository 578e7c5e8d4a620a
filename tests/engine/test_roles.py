"""Which node is the source is seen at every look, and what is asked of the source follows it."""

from __future__ import annotations

from replexplorer.core.knobs.names import SOURCE, KnobName
from tests.fakes.world import World
from tests.turning import turn


async def test_the_node_that_the_others_follow_is_the_source() -> None:
    world = World(replicas=2)
    first, second, third = world.node_names
    async with world.attached() as session:
        await session.state.refresh()
        assert [view.role for view in session.state.node_views()] == ["primary", "replica", "replica"]
        world.elect(second)
        await session.state.refresh()
        assert (session.fleet.source.name, session.fleet.replica_names) == (second, (first, third))
        views = session.state.node_views()
        assert [view.role for view in views] == ["replica", "primary", "replica"]
        assert [view.is_source for view in views] == [False, True, False]
        assert set(session.state.links) == {first, third}
        assert session.console.parse("semi_sync@primary=on").names == (KnobName("semi_sync", SOURCE),)
        assert session.console.parse("rtt@replica=5").names == (KnobName("rtt", first),)


async def test_what_is_asked_of_a_link_stays_with_its_two_nodes() -> None:
    world = World(replicas=2)
    _, second, third = world.node_names
    async with world.attached() as session:
        await turn(session, "delay_to_replica@db2=30", "rtt@db3=8", "rtt@db2:db3=20")
        rules = {name: dict(sidecar.shapes) for name, sidecar in world.sidecars.items()}
        world.elect(second)
        await session.state.refresh()
        requested = {str(name): value for name, value in session.state.requested.values.items()}
        assert requested == {"delay_to_primary@db1": 30.0, "rtt@db1:db3": 8.0, "rtt@db3": 20.0}
        assert all(session.state.effective_value(name) is not None for name in session.state.requested.values)
        assert session.state.lost_values(world.node_names) == {}, "no rule has to move"
        assert {name: dict(sidecar.shapes) for name, sidecar in world.sidecars.items()} == rules
        await turn(session, "rtt@db1:db3=0")
        assert set(session.state.pairs) == set()
        assert set(session.state.links) == {"db1", third}


async def test_who_comes_after_a_change_of_the_source_reads_the_same_links() -> None:
    world = World(replicas=2)
    async with world.attached() as session:
        await turn(session, "delay_to_replica@db2=30", "rtt@db3=8")
    world.elect("db3")
    session = world.session("status")
    status = await session.status()
    asked = {(link.replica, link.rtt_asked_ms) for link in status.links}
    assert asked == {("db1", 8.0), ("db2", 0.0), ("db1:db2", 30.0)}
    assert [link.fault for link in status.links] == [None, None, None]
    assert status.knobs[KnobName("delay_to_replica", "db1:db2")].requested == 30.0
    await session.disconnect()

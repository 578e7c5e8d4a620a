"""Faults carried out on the world of fakes: done, recorded, taken back, whoever does it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.fault import flap_of, parse_fault
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.link import unkept_all
from replexplorer.core.topology import link_between
from replexplorer.core.wire import Flap
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known
from tests.turning import inject, turn
from tests.waiting import tick_after, told, until_tick


async def clear(session: Session, text: str | None = None) -> list[str]:
    return [str(each.fault) for each in await session.console.clear(text)]


async def in_force(session: Session) -> list[str]:
    return [str(fault) for fault in (await session.status()).faults]


async def test_a_killed_server_is_down_until_it_is_cleared_by_another_app(world: World) -> None:
    async with world.attached("set") as session:
        await turn(session, "sync_binlog=0")
    async with world.attached("fault") as session:
        [done] = await inject(session, "kill")
        assert str(done.fault) == "kill@db1"
        assert not world.servers["db1"].running
    async with world.attached("fault") as session:
        assert (await session.status()).state == "partial"
        assert await clear(session, "kill") == ["kill@db1"]
        assert world.servers["db1"].running
        status = await session.status()
        assert status.state == "up"
        assert status.faults == ()
        knob = status.knobs[KnobName("sync_binlog", SOURCE)]
        assert knob.effective == 0, "what the restart took is requested still"


@pytest.mark.parametrize("fault", ["partition=ack", "isolate"])
async def test_what_a_knob_can_do_gives_the_knob_back(session: Session, fault: str) -> None:
    await turn(session, "fsync_delay=3")
    before = {name: view.requested for name, view in (await session.status()).knobs.items()}
    [done] = await inject(session, fault)
    turned = (await session.status()).knobs
    changed = {name for name, view in turned.items() if view.requested != before[name]}
    assert changed == set(unkept_all(done.fault.before, session.fleet.roster))
    assert await in_force(session) == [str(done.fault)]
    await clear(session)
    after = {name: view.effective for name, view in (await session.status()).knobs.items()}
    assert all(after[name] in (before[name], None) for name in before)
    assert await in_force(session) == []


async def test_a_slow_disk_is_a_fault_of_its_node_and_no_knob(world: World, session: Session) -> None:
    """After the roles have changed it is mended where it was injected."""
    await turn(session, "fsync_delay=3")
    await inject(session, "disk_stall=200")
    slow, other = world.sidecars.values()
    assert (slow.stall_ms, slow.fsync_delay_ms) == (200, 3)
    assert (await session.status()).knobs[KnobName("fsync_delay", SOURCE)].effective == 3
    await session.console.switchover()
    assert (slow.stall_ms, slow.fsync_delay_ms) == (200, 0)
    assert (other.stall_ms, other.fsync_delay_ms) == (0, 3)
    assert await clear(session, "disk_stall") == ["disk_stall=200@db1"]
    assert (slow.stall_ms, other.stall_ms, other.fsync_delay_ms) == (0, 0, 3)


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_server_that_a_full_disk_ended_is_started_and_a_stopped_one_is_not(
    world: World, session: Session, stopped: bool
) -> None:
    await inject(session, "disk_full")
    assert world.sidecars["db1"].disk_full
    if stopped:
        await inject(session, "stop")
    else:
        world.crash("db1")
    assert (await session.status()).state == "partial"
    await clear(session, "disk_full")
    assert not world.sidecars["db1"].disk_full
    assert (await session.status()).state == ("partial" if stopped else "up")


async def test_a_power_cut_needs_its_journal_and_cuts_the_links_too(world: World, session: Session) -> None:
    with pytest.raises(UsageError, match="are not recorded"):
        await inject(session, "power_cut")
    assert await in_force(session) == []
    assert world.servers["db1"].running
    await turn(session, "undo_journal=on")
    [done] = await inject(session, "power_cut=torn")
    assert world.power_cuts == [("db1", "torn")]
    assert done.lost_files == ("binlog.000001 512 bytes",)
    assert not world.servers["db1"].running
    status = await session.status()
    assert [link.partition for link in status.links] == ["both"]
    await clear(session)
    status = await session.status()
    assert status.state == "up"
    assert [link.partition for link in status.links] == ["none"]


@pytest.mark.parametrize("by", ["clear", "up"])
async def test_a_replica_that_has_what_its_source_lost_differs_until_it_is_copied(by: str) -> None:
    """Also where the source uses the numbers of what it lost again before anybody can ask it."""
    world = World(replicas=2)
    source, ahead = world.primary, world.servers["db3"]
    source.commits = 99
    ahead.received, world.servers["db2"].received = 99, 82
    async with world.attached("fault") as session:
        await inject(session, "kill")
    source.loses = 17
    if by == "clear":
        async with world.attached("fault") as session:
            [cleared] = await session.console.clear()
            found, lost = known(cleared.comeback), f"{source.variables['server_uuid']}:84-100"
            assert (found.lost, found.ahead, found.after) == (lost, {"db3": lost}, "diverged")
    if by == "up":
        async with world.brought_up() as session:
            assert any("db1 lost at least 17 transactions" in line for line in session.restorer.repaired)
    async with world.attached("status") as session:
        differs = {view.name: view.diverged for view in (await session.status()).nodes}
        assert differs["db1"] is differs["db2"] is None
        assert "17 transactions that db1 lost" in (differs["db3"] or "")


@pytest.mark.parametrize("by", ["driver", "another"])
async def test_commits_that_clients_were_answered_are_counted_exactly_whoever_clears(by: str) -> None:
    """Also those that no other node has seen; the numbers that the source uses again are not among them."""
    world = World(replicas=2)
    source = world.primary
    source.commits = 99
    world.servers["db3"].received = 90
    async with world.attached("tui") as driver:
        await driver.drive(driver.driving.settings())
        uuid, clients = source.variables["server_uuid"], driver.load.acknowledged
        clients.add(f"{uuid}:1-103", connected=8)
        async with world.attached("fault") as session:
            await inject(session, "kill")
        clients.add(f"{uuid}:104-105", connected=0)
        await driver.driving.publish_news()
        source.loses = 17
        if by == "driver":
            [cleared] = await driver.console.clear()
        else:
            async with world.attached("fault") as session:
                [cleared] = await session.console.clear()
        comeback = known(cleared.comeback)
        assert comeback.acknowledged == comeback.lost == f"{uuid}:84-105"
        assert (
            comeback.words("demo")[0]
            == "db1 lost 22 acknowledged commits, 17 of them only on db2, 8 of them only on db3"
        )
        clients.add(f"{uuid}:84-86", connected=8)
        clients.judged(uuid)
        clients.add("", connected=0)
        assert clients.before == f"{uuid}:84-86"


async def test_a_source_that_died_by_itself_is_compared_with_its_replicas_by_up() -> None:
    world = World(replicas=2)
    lost = f"{world.primary.variables['server_uuid']}:90001-90017"
    world.crash("db1")
    world.servers["db3"].errant = lost
    async with world.brought_up() as session:
        repaired = session.restorer.repaired
    assert any("lost at least 17 transactions, 17 of them only on db3" in line for line in repaired)


@TWO_REPLICAS
async def test_a_server_that_comes_back_with_all_it_had_tells_of_no_loss(
    world: World, session: Session
) -> None:
    world.primary.commits = 99
    for fault in ("kill", "stop", "kill@db2"):
        await inject(session, fault)
        [cleared] = await session.console.clear()
        assert cleared.comeback is None or not cleared.comeback.words("demo")
    assert session.state.requested.diverged == {}


async def test_faults_are_numbered_taken_back_newest_first_and_refused_twice(session: Session) -> None:
    [second] = await inject(session, "partition=ack", "disk_stall=5")
    assert second.fault.number == 2
    with pytest.raises(UsageError, match="in force already"):
        await inject(session, "partition=both")
    with pytest.raises(UsageError, match="no fault kill is in force"):
        await clear(session, "kill")
    assert await clear(session) == ["disk_stall=5@db1", "partition=ack@db2"]


@pytest.mark.parametrize("fault", ["stop", "pause", "applier_stop@db2"])
async def test_what_is_done_to_a_server_is_refused_for_one_that_does_not_run(
    world: World, session: Session, fault: str
) -> None:
    """It was tried, failed, and was taken back: which started the server that another fault had killed."""
    node = fault.partition("@")[2] or "db1"
    await inject(session, f"kill@{node}")
    with pytest.raises(StackUnavailable, match=f"{node}: its server is not running"):
        await inject(session, fault)
    assert await in_force(session) == [f"kill@{node}"]
    assert not world.servers[node].running


async def test_up_takes_every_fault_back(world: World) -> None:
    async with world.attached("fault") as session:
        await inject(session, "kill@replica", "disk_stall=5")
    async with world.brought_up() as session:
        assert {"fault disk_stall=5@db1 undone", "fault kill@db2 undone"} <= set(session.restorer.repaired)
        assert await in_force(session) == []
        assert (await session.status()).state == "up"


async def test_a_fault_of_another_app_is_seen_marked_and_told_and_so_is_its_end(world: World) -> None:
    async with world.started("tui") as session, world.attached("fault") as other:
        await inject(other, "kill@db2")
        event = await told(session, "fault kill@db2")
        assert event.text == f"fault kill@db2, by {other.turns.actor.writer}"
        assert event.mark is not None
        tick = await until_tick(session, lambda tick: bool(tick.faults))
        assert [str(fault) for fault in tick.faults] == ["kill@db2"]
        await clear(other)
        assert (await told(session, "fault over: kill@db2, by another app")).mark is not None
        assert (await until_tick(session, lambda tick: not tick.faults)).faults == ()


@pytest.mark.parametrize("by", ["clear", "itself"])
async def test_a_loss_is_told_once_in_every_app_and_so_is_who_differs(by: str) -> None:
    """Whoever found it: an app that clears the fault, one of two dashboards, and one that only watches."""
    world = World(replicas=2)
    world.primary.commits = 99
    world.servers["db3"].received, world.servers["db2"].received = 99, 82
    loss, differs = "db1 lost at least 17 transactions", "db3 DIVERGED: it has 17 transactions that db1 lost"
    views = [world.session(name) for name in ("tui", "another")]
    views.append(world.session("view", watches=True))
    for view in views:
        await (view.watch if view.options.watches else view.start)(lambda *_: None)
        await view.driving.stop()
    if by == "clear":
        async with world.attached("fault") as session:
            await inject(session, "kill")
            world.primary.loses = 17
            await clear(session)
    else:
        await asyncio.sleep(5)
        world.servers["db3"].errant = f"{world.primary.variables['server_uuid']}:90001-90017"
        world.crash("db1")
        await asyncio.sleep(3)
        world.servers["db1"].boot()
    await asyncio.sleep(40)
    for view in views:
        events = [event.text for event in (await tick_after(view, 0)).events]
        assert [sum(text.startswith(wanted) for text in events) for wanted in (loss, differs)] == [1, 1]
        await view.close()


async def test_a_fault_that_turns_knobs_has_one_mark_and_quitting_says_that_it_stays(world: World) -> None:
    async with world.started("tui") as session, world.attached("fault") as other:
        await inject(other, "isolate")
        events = (await tick_after(session)).events
        marks = {event.text.partition(", by ")[0]: event.mark for event in events}
        assert (marks["partition@db2 none → both"], marks["fault isolate@db1"]) == (1, None)
        line = await session.close()
        assert line.endswith("; isolate@db1 stays in force: `replexplorer fault clear` undoes all")


async def test_ones_own_faults_are_no_news_and_both_ends_are_marked(tui: Session) -> None:
    await inject(tui, "applier_stop")
    await clear(tui)
    events = (await tick_after(tui, 5)).events
    marked = [event.text for event in events if event.mark is not None and "fault" in event.text]
    assert marked == ["fault applier_stop@db2", "fault over: applier_stop@db2"]
    assert not any("another app" in event.text for event in events)


async def test_what_fails_leaves_no_record(session: Session) -> None:
    with pytest.raises(Exception, match="frozen"):
        await inject(session, "pause")
    assert await in_force(session) == []


PREVIEWED = (
    "kill", "applier_stop", "applier_stop@db3", "isolate@db3", "partition=ack@db3", "power_cut=torn",
    "disk_full", "stop",
)  # fmt: skip


@TWO_REPLICAS
async def test_a_preview_has_the_very_commands_and_why_it_would_be_refused(
    session: Session, snapshot: SnapshotAssertion
) -> None:
    """A full disk is in force already."""
    await inject(session, "disk_full")
    requests = {text: parse_fault(text, session.fleet.roster) for text in PREVIEWED}
    previews = {text: session.console.preview_fault(each) for text, each in requests.items()}
    assert {text: asdict(preview) for text, preview in previews.items()} == snapshot


def cut_links(world: World) -> set[str]:
    """The links that lose every packet at both ends, by both their nodes."""
    return {
        link_between(name, peer)
        for name, sidecar in world.sidecars.items()
        for peer, shape in sidecar.shapes.items()
        if shape.cut and world.sidecars[peer].shapes[name].cut
    }


async def test_an_isolated_node_loses_every_other_node_and_another_s_isolation_outlives_its_own() -> None:
    world = World(replicas=2)
    async with world.attached("fault") as session:
        [done] = await inject(session, "isolate@db3")
        assert cut_links(world) == {"db1:db3", "db2:db3"}
        assert dict(done.fault.before) == {"partition@db1:db3": "none", "partition@db2:db3": "none"}
        await inject(session, "isolate@db2")
        assert cut_links(world) == {"db1:db2", "db1:db3", "db2:db3"}
    async with world.attached("fault") as session:
        await clear(session, "isolate@db3")
        assert cut_links(world) == {"db1:db2", "db2:db3"}
        await clear(session)
        assert cut_links(world) == set()
        await inject(session, "isolate")
        assert cut_links(world) == {"db1:db2", "db1:db3"}
        await clear(session)


async def test_a_flap_is_left_to_the_agents_and_ended_by_another_app() -> None:
    world = World(replicas=2)
    async with world.attached("fault") as session:
        [done] = await inject(session, "flap=3/1@db2")
        assert done.fault.links == ("db1:db2",)
        assert cut_links(world) == set()
    flap = Flap(3.0, 1.0, done.fault.since_wall_s)
    assert (world.sidecars["db1"].flaps, world.sidecars["db2"].flaps) == ({"db2": flap}, {"db1": flap})
    async with world.attached("fault") as session:
        await turn(session, "rtt@db2=20")
        seen: set[str | None] = set()
        for _ in range(8):
            links = (await session.status()).links
            seen.add(links[0].partition)
            await asyncio.sleep(1.0)
        assert seen == {"both", "none"}
        assert [link.flap for link in links] == [flap, None]
        assert session.state.requested_value(KnobName("partition", "db2")) == "none"
        with pytest.raises(UsageError, match="db1:db2 flaps already: flap=3/1@db2"):
            await inject(session, "flap@primary")
        assert await clear(session, "flap") == ["flap=3/1@db2"]
        assert [sidecar.flaps for sidecar in world.sidecars.values()] == [{}, {}, {}]
        [done] = await inject(session, "flap@primary")
        assert done.fault.links == ("db1:db2", "db1:db3")
        await clear(session)


async def test_a_flap_that_one_end_refuses_is_at_neither(world: World, session: Session) -> None:
    world.sidecars["db2"].refusals["set_flap"] = StackUnavailable("no")
    with pytest.raises(StackUnavailable):
        await inject(session, "flap")
    assert world.sidecars["db1"].flaps == {}
    assert await in_force(session) == []


async def test_a_sidecar_that_restarts_flaps_on_and_up_ends_it(world: World) -> None:
    async with world.started() as session:
        await asyncio.sleep(5)
        [done] = await inject(session, "flap=2/2")
        world.sidecars["db2"].restart()
        await until(lambda: bool(world.sidecars["db2"].flaps))
        assert world.sidecars["db2"].flaps["db1"] == flap_of(done.fault)
    async with world.brought_up() as session:
        assert await in_force(session) == []
        assert [sidecar.flaps for sidecar in world.sidecars.values()] == [{}, {}]


@pytest.mark.parametrize("fault", ["kill@db1", "applier_stop@db2"])
async def test_a_fault_that_somebody_ended_by_hand_is_not_in_force(world: World, fault: str) -> None:
    """Its record stays until an app that changes something comes, and is no reason for anything."""
    node = fault.rpartition("@")[2]
    async with world.attached("fault") as session:
        await inject(session, fault)
        assert await in_force(session) == [fault]
        await asyncio.sleep(30)
        assert await in_force(session) == [fault]
        if fault.startswith("kill"):
            await session.fleet.server_process(node).start()
        else:
            member = session.fleet.member(node)
            await member.control.query(member.dialect.start_applier)
        await asyncio.sleep(10)
        assert await in_force(session) == []
    async with world.started("tui") as session:
        assert session.state.requested.faults == ()
    async with world.attached("fault") as session:
        await inject(session, fault)
        assert await in_force(session) == [fault]

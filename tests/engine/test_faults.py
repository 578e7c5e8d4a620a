"""Faults carried out on the world of fakes: done, recorded, taken back, whoever does it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.fault import flap_of, parse_fault
from replexplorer.core.topology import link_between
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known
from tests.turning import inject, turn
from tests.typed import table_of
from tests.waiting import tick_after


async def clear(session: Session, text: str | None = None) -> list[str]:
    return [str(each.fault) for each in await session.console.clear(text)]


async def in_force(session: Session) -> list[str]:
    return [str(fault) for fault in (await session.status()).faults]


def cut_links(world: World) -> set[str]:
    """The links that lose every packet at both ends, by both their nodes."""
    return {
        link_between(name, peer)
        for name, sidecar in world.sidecars.items()
        for peer, shape in sidecar.shapes.items()
        if shape.cut and world.sidecars[peer].shapes[name].cut
    }


def all_there_is(world: World) -> dict[str, object]:
    """What a fault may change: what is asked of the stack, and how its nodes are."""
    found = {**world.taken, "cut": cut_links(world), "faults": len(world.document.content.get("faults", ()))}
    for name, server in world.servers.items():
        sidecar = world.sidecars[name]
        found[f"{name} runs"] = server.running
        found[f"{name} disk"] = sidecar.fsync_delay_ms, sidecar.stall_ms, sidecar.disk_full
        found[f"{name} flaps"] = dict(sidecar.flaps)
    return found


FAULTS = """\
kill stop@db2 power_cut=torn partition=ack@db2 isolate isolate@db3 disk_stall=200 disk_full applier_stop@db3
receiver_stop@db3 flap=3/1@db2 flap@primary"""


@TWO_REPLICAS
@pytest.mark.parametrize("fault", FAULTS.split())
async def test_what_a_fault_changes_is_as_before_once_another_app_has_cleared_it(
    world: World, session: Session, fault: str, snapshot: SnapshotAssertion
) -> None:
    """Also what a server's restart took."""
    await turn(session, "undo_journal=on", "fsync_delay=3", "sync_binlog=0")
    before = all_there_is(world)
    [done] = await inject(session, fault)
    changed = {name: each for name, each in all_there_is(world).items() if each != before.get(name)}
    assert await in_force(session) == [str(done.fault)]
    async with world.attached("fault") as other:
        changed |= {"state": (await other.status()).state, "lost files": done.lost_files}
        assert (changed, done.fault.links, [*done.fault.before]) == snapshot
        assert await clear(other, fault.partition("=")[0]) == [str(done.fault)]
        assert ((await other.status()).state, await in_force(other)) == ("up", [])
    assert all_there_is(world) == before


REFUSED = """\
                | power_cut        | are not recorded
                | pause            | frozen
partition=ack   | partition=both   | in force already
kill@db1        | stop             | db1: its server is not running
kill@db1        | pause            | db1: its server is not running
kill@db2        | applier_stop@db2 | db2: its server is not running
flap=3/1@db2    | flap@primary     | db1:db2 flaps already: flap=3/1@db2"""


@pytest.mark.parametrize(("before", "fault", "why"), table_of(REFUSED))
async def test_what_cannot_be_done_changes_nothing_and_leaves_no_record(
    world: World, session: Session, before: str, fault: str, why: str
) -> None:
    """It was tried, failed, and was taken back: which started the server that another fault had killed."""
    await inject(session, *before.split())
    there = all_there_is(world)
    with pytest.raises(ReplexplorerError, match=why):
        await inject(session, fault)
    assert all_there_is(world) == there


async def test_faults_are_numbered_and_taken_back_newest_first(session: Session) -> None:
    *_, second = await inject(session, "partition=ack", "disk_stall=5")
    assert second.fault.number == 2
    with pytest.raises(ReplexplorerError, match="no fault kill is in force"):
        await clear(session, "kill")
    assert await clear(session) == ["disk_stall=5@db1", "partition=ack@db2"]


async def test_a_slow_disk_is_a_fault_of_its_node_wherever_the_source_is(
    world: World, session: Session
) -> None:
    await turn(session, "fsync_delay=3")
    await inject(session, "disk_stall=200")
    slow, other = world.sidecars.values()
    await session.console.switchover()
    assert (slow.stall_ms, slow.fsync_delay_ms, other.stall_ms, other.fsync_delay_ms) == (200, 0, 0, 3)
    assert await clear(session, "disk_stall") == ["disk_stall=200@db1"]
    assert (slow.stall_ms, other.stall_ms, other.fsync_delay_ms) == (0, 0, 3)


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_server_that_a_full_disk_ended_is_started_and_a_stopped_one_is_not(
    world: World, session: Session, stopped: bool
) -> None:
    await inject(session, "disk_full")
    if stopped:
        await inject(session, "stop")
    else:
        world.crash("db1")
    await clear(session, "disk_full")
    assert world.servers["db1"].running is not stopped


async def lose(world: World, by: str) -> None:
    """End the source, which then lacks 17 transactions that db3 has."""
    source, ahead = world.primary, world.servers["db3"]
    if by == "itself":
        ahead.errant = f"{source.variables['server_uuid']}:90001-90017"
        world.crash("db1")
        return
    source.commits = ahead.received = 99
    world.servers["db2"].received = 82
    async with world.attached("fault") as session:
        await inject(session, "kill")
    source.loses = 17


BY = pytest.mark.parametrize("by", ["a fault", "itself"])


@BY
async def test_a_replica_that_has_what_its_source_lost_differs_until_it_is_copied(by: str) -> None:
    """Whoever ended the source, `up` compares it with its replicas; also where it uses the numbers of what it
    lost again before anybody can ask it."""
    world = World(replicas=2)
    await lose(world, by)
    async with world.brought_up() as session:
        lost = next(line for line in session.restorer.repaired if "lost at least 17 transactions" in line)
        assert "17 of them only on db3" in lost
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
        async with world.attached("fault") as other:
            [cleared] = await (driver if by == "driver" else other).console.clear()
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


async def test_up_takes_every_fault_back_though_a_sidecar_flaps_on_after_its_restart(world: World) -> None:
    async with world.started() as session:
        [done] = await inject(session, "disk_stall=5", "flap=2/2")
        await asyncio.sleep(5)
        world.sidecars["db2"].restart()
        await until(lambda: world.sidecars["db2"].flaps)
        assert world.sidecars["db2"].flaps["db1"] == flap_of(done.fault)
        await inject(session, "kill@replica")
    async with world.brought_up() as session:
        undone = {f"fault {fault} undone" for fault in ("disk_stall=5@db1", "flap=2/2@db2", "kill@db2")}
        assert undone <= set(session.restorer.repaired)
        assert ((await session.status()).state, await in_force(session)) == ("up", [])
    assert not any(sidecar.flaps for sidecar in world.sidecars.values())


async def test_faults_of_this_app_and_of_another_are_told_and_marked_at_both_their_ends(
    world: World, snapshot: SnapshotAssertion
) -> None:
    """One's own as no news of another app; one that turns knobs has one mark. Quitting says what stays."""
    async with world.started("tui") as session, world.attached("fault") as other:
        await inject(session, "applier_stop")
        await clear(session)
        for fault in ("kill@db2", "isolate"):
            await asyncio.sleep(3)
            await clear(other)
            await inject(other, fault)
        tick = await tick_after(session)
        assert [str(fault) for fault in tick.faults] == ["isolate@db1"]
        writer = other.turns.actor.writer
        assert [(event.text.replace(writer, "another"), event.mark) for event in tick.events] == snapshot
        line = await session.close()
        assert line.endswith("; isolate@db1 stays in force: `replexplorer fault clear` undoes all")


@BY
async def test_a_loss_is_told_once_in_every_app_and_so_is_who_differs(by: str) -> None:
    """Whoever found it: an app that clears the fault, one of two dashboards, and one that only watches."""
    world = World(replicas=2)
    views = [world.session("tui"), world.session("another"), world.session("view", watches=True)]
    for view in views:
        await (view.watch if view.options.watches else view.start)(lambda *_: None)
        await view.driving.stop()
    await asyncio.sleep(5)
    await lose(world, by)
    if by == "itself":
        await asyncio.sleep(3)
        world.servers["db1"].boot()
    else:
        async with world.attached("fault") as session:
            found = known((await session.console.clear())[0].comeback)
        lost = f"{world.primary.variables['server_uuid']}:84-100"
        assert (found.lost, found.ahead, found.after) == (lost, {"db3": lost}, "diverged")
    await asyncio.sleep(40)
    told = "db1 lost at least 17 transactions", "db3 DIVERGED: it has 17 transactions that db1 lost"
    for view in views:
        events = [event.text for event in (await tick_after(view, 0)).events]
        assert [sum(text.startswith(wanted) for text in events) for wanted in told] == [1, 1]
        await view.close()


PREVIEWED = """\
kill stop applier_stop applier_stop@db3 isolate@db3 partition=ack@db3 power_cut=torn disk_full"""


@TWO_REPLICAS
async def test_a_preview_has_the_very_commands_and_why_it_would_be_refused(
    session: Session, snapshot: SnapshotAssertion
) -> None:
    """A full disk is in force already."""
    await inject(session, "disk_full")
    previews = {}
    for text in PREVIEWED.split():
        request = parse_fault(text, session.fleet.roster)
        previews[text] = asdict(session.console.preview_fault(request))
    assert previews == snapshot


async def test_an_isolation_outlives_that_of_another_node() -> None:
    world = World(replicas=2)
    async with world.attached("fault") as session:
        await inject(session, "isolate@db3", "isolate@db2")
        assert cut_links(world) == {"db1:db2", "db1:db3", "db2:db3"}
        await clear(session, "isolate@db3")
        assert cut_links(world) == {"db1:db2", "db2:db3"}
        await clear(session)
        assert cut_links(world) == set()


@TWO_REPLICAS
async def test_a_flap_is_left_to_the_agents(world: World, session: Session) -> None:
    """And at neither end where one refuses it."""
    [done] = await inject(session, "flap=3/1@db2")
    await turn(session, "rtt@db2=20")
    seen: set[str | None] = set()
    for _ in range(8):
        links = (await session.status()).links
        seen.add(links[0].partition)
        await asyncio.sleep(1.0)
    assert seen == {"both", "none"}
    assert [link.flap for link in links] == [flap_of(done.fault), None]
    await clear(session)
    world.sidecars["db2"].refusals["set_flap"] = StackUnavailable("no")
    with pytest.raises(StackUnavailable):
        await inject(session, "flap@db2")
    assert (world.sidecars["db1"].flaps, await in_force(session)) == ({}, [])


@pytest.mark.parametrize("fault", ["kill@db1", "applier_stop@db2"])
async def test_a_fault_that_somebody_ended_by_hand_is_not_in_force(world: World, fault: str) -> None:
    """Its record stays until an app that changes something comes, and is no reason for anything."""
    kind, _, node = fault.partition("@")
    async with world.attached("fault") as session:
        await inject(session, fault)
        await asyncio.sleep(30)
        assert await in_force(session) == [fault]
        if kind == "kill":
            await session.fleet.server_process(node).start()
        else:
            member = session.fleet.member(node)
            await member.control.query(member.dialect.start_applier)
        await asyncio.sleep(10)
        assert await in_force(session) == []
    async with world.started("tui") as session:
        assert session.state.requested.faults == ()
        await inject(session, fault)
        assert await in_force(session) == [fault]

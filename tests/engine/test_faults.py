"""Faults carried out on the world of fakes: done, recorded, taken back, whoever does it."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.event import Event
from replexplorer.core.fault import Fault, parse_fault
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.tick import Tick
from replexplorer.engine.console import Clear, Inject, Scale, Turn
from replexplorer.engine.outcome import ExperimentUnderWay, Injected, Preview
from replexplorer.engine.session import Session
from tests.fakes.clock import virtual
from tests.fakes.world import World
from tests.waiting import until_tick


async def inject(session: Session, text: str, *, anyway: bool = False) -> tuple[Injected, ...]:
    request = parse_fault(text, session.fleet.roster)
    return await session.console.do(Inject(request, anyway=anyway))


async def clear(session: Session, text: str | None = None) -> list[str]:
    return [str(fault) for fault in await session.console.do(Clear(text))]


async def in_force(session: Session) -> list[str]:
    return [str(fault) for fault in (await session.status()).faults]


def named(world: World, number: int) -> str:
    return world.node_names[number - 1]


@virtual
async def test_a_killed_server_is_down_until_it_is_cleared_by_another_app() -> None:
    world = World()
    async with world.attached("set") as session:
        await session.console.do(Turn((session.console.parse("sync_binlog=0"),)))
    async with world.attached("fault") as session:
        [done] = await inject(session, "kill")
        source = named(world, 1)
        assert str(done.fault) == f"kill@{source}"
        assert not world.servers[source].running
    async with world.attached("status") as session:
        status = await session.status()
        assert [str(fault) for fault in status.faults] == [f"kill@{source}"]
        assert status.state == "partial"
    async with world.attached("fault") as session:
        assert await clear(session, "kill") == [f"kill@{source}"]
        assert world.servers[source].running
        status = await session.status()
        assert status.state == "up"
        assert status.faults == ()
        knob = status.knobs[KnobName("sync_binlog", SOURCE)]
        assert knob.effective == 0, "what the restart took is requested still"


@pytest.mark.parametrize("fault", ["partition=ack", "isolate", "disk_stall=200"])
@virtual
async def test_what_a_knob_can_do_gives_the_knob_back(fault: str) -> None:
    world = World()
    async with world.attached("set") as session:
        await session.console.do(Turn((session.console.parse("fsync_delay=3"),)))
        before = {name: view.requested for name, view in (await session.status()).knobs.items()}
        [done] = await inject(session, fault)
        turned = (await session.status()).knobs
        assert {str(name) for name, view in turned.items() if view.requested != before[name]} == set(
            done.fault.before
        )
        assert await in_force(session) == [str(done.fault)]
        await clear(session)
        after = {name: view.effective for name, view in (await session.status()).knobs.items()}
        assert all(after[name] in (before[name], None) for name in before)
        assert await in_force(session) == []


@virtual
async def test_a_full_disk_is_full_until_it_is_cleared() -> None:
    world = World()
    async with world.attached("fault") as session:
        await inject(session, "disk_full")
        source = named(world, 1)
        assert world.sidecars[source].disk_full
        await clear(session, "disk_full")
        assert not world.sidecars[source].disk_full


@virtual
async def test_a_stopped_applier_runs_again() -> None:
    world = World()
    async with world.attached("fault") as session:
        await inject(session, "applier_stop")
        views = {node.name: node for node in (await session.status()).nodes}
        assert views[named(world, 2)].sql_thread == "off"
        await clear(session, "applier_stop@replica")
        views = {node.name: node for node in (await session.status()).nodes}
        assert views[named(world, 2)].sql_thread == "on"


@virtual
async def test_a_power_cut_needs_its_journal_and_cuts_the_links_too() -> None:
    world = World()
    async with world.attached("fault") as session:
        source = named(world, 1)
        with pytest.raises(UsageError, match="would lose is not kept"):
            await inject(session, "power_cut")
        assert await in_force(session) == []
        assert world.servers[source].running
        await session.console.do(Turn((session.console.parse("undo_journal=on"),)))
        [done] = await inject(session, "power_cut=torn")
        assert world.power_cuts == [(source, "torn")]
        assert done.lost_files == ("binlog.000001 512 bytes",)
        assert not world.servers[source].running
        status = await session.status()
        assert [link.partition for link in status.links] == ["both"]
        await clear(session)
        status = await session.status()
        assert status.state == "up"
        assert [link.partition for link in status.links] == ["none"]


@virtual
async def test_the_same_fault_twice_is_refused() -> None:
    world = World()
    async with world.attached("fault") as session:
        await inject(session, "partition=ack")
        with pytest.raises(UsageError, match="in force already"):
            await inject(session, "partition=both")
        with pytest.raises(UsageError, match="no fault kill is in force"):
            await clear(session, "kill")
        assert len(await in_force(session)) == 1


@virtual
async def test_faults_are_numbered_and_taken_back_newest_first() -> None:
    world = World()
    async with world.attached("fault") as session:
        first = await inject(session, "partition=ack")
        second = await inject(session, "disk_stall=5")
        assert [each.fault.number for each in (*first, *second)] == [1, 2]
        assert (await clear(session))[0].startswith(("partition", "disk_stall"))


@virtual
async def test_up_takes_every_fault_back() -> None:
    world = World()
    async with world.attached("fault") as session:
        await inject(session, "kill@replica")
        await inject(session, "disk_stall=5")
    async with world.attached("up") as session:
        await session.up(lambda _: None)
        assert await in_force(session) == []
        assert (await session.status()).state == "up"


@virtual
async def test_a_fault_is_refused_while_a_lab_runs_and_clearing_never_is() -> None:
    world = World()
    async with world.attached("fault") as mine, world.attached("lab tour") as lab:
        await inject(mine, "disk_stall=5")
        async with lab.turns.measuring("lab", "tour"):
            with pytest.raises(ExperimentUnderWay):
                await inject(mine, "kill")
            await inject(mine, "applier_stop", anyway=True)
            assert len(await clear(mine)) == 2


async def told(session: Session, *texts: str) -> list[Event]:
    """An event with each of these texts in it, once all have come."""
    events: list[Event] = []

    def has_all(tick: Tick) -> bool:
        events.extend(tick.events)
        return all(any(text in event.text for event in events) for text in texts)

    await until_tick(session, has_all, " and ".join(texts))
    return [next(event for event in events if text in event.text) for text in texts]


@virtual
async def test_a_fault_of_another_app_is_seen_marked_and_told_and_so_is_its_end() -> None:
    world = World()
    async with world.started("tui") as session, world.attached("fault") as other:
        await inject(other, "kill@db2")
        [event] = await told(session, "fault kill@db2")
        assert event.text == f"fault kill@db2, by {other.turns.actor.writer}"
        assert event.mark is not None
        tick = await until_tick(session, lambda tick: bool(tick.faults))
        assert [str(fault) for fault in tick.faults] == ["kill@db2"]
        await clear(other)
        [event] = await told(session, "fault over: kill@db2, by another app")
        assert event.mark is not None
        assert (await until_tick(session, lambda tick: not tick.faults)).faults == ()


@virtual
async def test_a_fault_that_turns_knobs_has_one_mark_and_not_two() -> None:
    world = World()
    async with world.started("tui") as session, world.attached("fault") as other:
        await inject(other, "isolate")
        turned, fault = await told(session, "partition@db2 none → both, by", "fault isolate@db1, by ")
        assert (turned.mark, fault.mark) == (1, None)


@virtual
async def test_ones_own_faults_are_no_news_and_both_ends_are_marked() -> None:
    world = World()
    async with world.started("tui") as session:
        await inject(session, "applier_stop")
        await clear(session)
        events: list[Event] = []
        async with asyncio.timeout(10):
            async for tick in session.ticks():
                events += tick.events
                if tick.at_s > 5:
                    break
        marked = [event.text for event in events if event.mark is not None and "fault" in event.text]
        assert marked == ["fault applier_stop@db2", "fault over: applier_stop@db2"]
        assert not any("another app" in event.text for event in events)


@virtual
async def test_what_fails_leaves_no_record() -> None:
    world = World()
    async with world.attached("fault") as session:
        with pytest.raises(Exception, match="frozen"):
            await inject(session, "pause")
        assert await in_force(session) == []
        faults: tuple[Fault, ...] = (await session.status()).faults
        assert faults == ()


@virtual
async def test_a_fault_of_a_node_that_was_removed_goes_with_it() -> None:
    world = World(replicas=2)
    async with world.attached("fault") as session:
        await inject(session, f"applier_stop@{named(world, 3)}")
        await session.console.do(Scale(1))
        assert await clear(session) == ["applier_stop@db3"]
        assert await in_force(session) == []


@virtual
async def test_quitting_says_which_faults_stay() -> None:
    world = World()
    async with world.started("tui") as session:
        await inject(session, "partition=ack")
        line = await session.close()
        assert line.endswith("; partition=ack@db2 stays in force: `replexplorer fault clear` undoes all")


@virtual
async def test_a_preview_has_the_very_commands_and_why_it_would_be_refused() -> None:
    world = World(replicas=2)
    async with world.attached("fault") as session:

        def preview(text: str) -> Preview:
            return session.console.preview_fault(parse_fault(text, session.fleet.roster))

        assert preview("kill").statements == ("SIGKILL to mysqld of db1",)
        assert preview("applier_stop").statements == (
            "db2: STOP REPLICA SQL_THREAD",
            "db3: STOP REPLICA SQL_THREAD",
        )
        assert preview("applier_stop@db3").undo == ("db3: START REPLICA SQL_THREAD",)
        assert preview("partition=ack@db3").statements == ("link db1 <-> db3: partition ack",)
        assert preview("disk_stall=200").statements == ("disk of db1: fsync_delay 200 ms",)
        cut = preview("power_cut=torn")
        assert cut.statements[:3] == (
            "link db1 <-> db2: partition both",
            "link db1 <-> db3: partition both",
            "SIGKILL to mysqld of db1",
        )
        assert "--mode torn" in cut.statements[3]
        assert any("would lose is not kept" in warning for warning in cut.warnings)
        await inject(session, "disk_full")
        assert any("in force already" in warning for warning in preview("disk_full").warnings)
        assert preview("stop").warnings == ()

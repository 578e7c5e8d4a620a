"""A spectator sees what others do with a stack, and changes nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from replexplorer.core.errors import NoSuchStack
from replexplorer.core.event import Event
from replexplorer.core.knobs.names import KnobName
from replexplorer.engine.session import Spectator
from tests.fakes.clock import until
from tests.fakes.world import World, tasks_left
from tests.turning import turn
from tests.waiting import load_runs, told, until_tick


@asynccontextmanager
async def watching(world: World, *, patient: bool = False) -> AsyncIterator[Spectator]:
    spectator = Spectator(world.outside(), patient=patient)
    try:
        await spectator.start(lambda *_: None)
        yield spectator
    finally:
        assert await spectator.close() == ""


async def test_the_driver_s_load_knobs_marks_and_selection_are_seen_once(world: World) -> None:
    async with world.started("tui") as driver, watching(world) as spectator:
        await until_tick(driver, load_runs)
        tick = await until_tick(
            spectator, lambda tick: tick.viewer and tick.load is not None and tick.load.tps
        )
        assert tick.load is not None
        assert tick.load.driver is not None
        assert "tui" in tick.load.driver
        await turn(driver, "sync_binlog=0")
        assert (await told(spectator, "sync_binlog 1 → 0, by tui")).mark == 1
        await driver.console.mark("before the demonstration")
        assert (await told(spectator, "before the demonstration, by tui")).mark == 2
        heard = [event.text async for event in _events(driver, 5)]
        assert sum("before the demonstration" in text for text in heard) <= 1
        async with watching(world) as late:
            assert not [event async for event in _events(late, 5) if "demonstration" in event.text]
        await driver.console.select(KnobName("rtt", "db2"))
        await until_tick(spectator, lambda tick: tick.driver_selects == "rtt@db2")
        await driver.console.select(None)
        await until_tick(spectator, lambda tick: tick.viewer and tick.driver_selects is None)


async def test_the_load_that_begins_while_one_watches_is_seen_and_so_is_its_end(world: World) -> None:
    async with world.started("tui"):
        pass
    async with watching(world) as spectator:
        await until_tick(spectator, lambda tick: not tick.viewer)
        async with world.started("tui"):
            await until_tick(spectator, lambda tick: tick.viewer)
        await until_tick(spectator, lambda tick: not tick.viewer)
        async with world.started("tui"):
            await until_tick(spectator, lambda tick: tick.viewer)


async def test_nothing_is_changed_whatever_happens(world: World) -> None:
    async with world.started("tui") as driver:
        await turn(driver, "semi_sync=on", "sync_binlog=0", "rtt=20")
    before, connections, bridges = len(world.changes), world.open_connections(), world.open_bridges()
    async with watching(world) as spectator:
        await asyncio.sleep(5)
        world.restart("db1")
        await told(spectator, "db1 restarted")
        await asyncio.sleep(10)
        assert not world.primary.enabled
        assert spectator.console is None
    assert len(world.changes) == before
    assert world.running_loads() == 0
    await until(lambda: not tasks_left())
    assert (world.open_connections(), world.open_bridges()) == (connections, bridges), "what it opened"


async def test_no_stack_is_an_error_or_is_waited_for() -> None:
    world = World(exists=False)
    impatient = Spectator(world.outside())
    with pytest.raises(NoSuchStack):
        await impatient.start(lambda *_: None)
    await impatient.close()
    steps: list[str] = []
    patient = Spectator(world.outside(), patient=True)
    starting = asyncio.create_task(patient.start(lambda text, _=None: steps.append(text)))
    await asyncio.sleep(5)
    assert not starting.done()
    assert "waiting for the stack" in steps
    async with world.started("tui"):
        await starting
        await until_tick(patient, lambda tick: tick.viewer)
        await patient.close()


async def _events(session: object, count: int) -> AsyncIterator[Event]:
    seen = 0
    async for tick in session.ticks():  # type: ignore[attr-defined]
        for event in tick.events:
            yield event
        seen += 1
        if seen == count:
            return

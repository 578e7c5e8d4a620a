"""The load that runs is told by its driver: `status`, `get` and a second view never show the knob for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import KnobName, Place
from replexplorer.core.tick import Tick
from replexplorer.engine.observe.state import NO_LOAD
from replexplorer.engine.outcome import DrivenLoad
from replexplorer.engine.session import Session
from replexplorer.formats.calibration import shipped_calibration
from tests.fakes.world import World
from tests.turning import turn

CALIBRATION = shipped_calibration().calibration
CLIENTS = KnobName("clients", Place.LOAD)


async def tick_after(session: Session, seconds: float) -> Tick:
    await asyncio.sleep(seconds)
    async for tick in session.ticks():
        return tick
    raise AssertionError("the ticks ended")


async def load_of(world: World) -> tuple[str, int | None]:
    """What `status` says of the load: its driver, and its clients."""
    async with world.attached("status") as looker:
        load = (await looker.status()).load
        return str(load.driver).partition(" ")[0], load.clients


async def test_a_load_of_three_clients_is_not_the_knobs_eight(world: World) -> None:
    async with world.attached("load") as driver:
        await driver.drive(replace(driver.driving.settings(), clients=3, workload="insert"))
        assert await load_of(world) == ("load", 3)
        async with world.attached("get") as looker:
            view = looker.state.views()[CLIENTS]
            assert (view.requested, view.effective, view.note) == (8, 3, None)
    assert await load_of(world) == ("None", 0)


async def test_a_second_view_draws_and_predicts_the_load_that_runs(world: World) -> None:
    async with world.attached("load") as driver, world.started(calibration=CALIBRATION) as viewer:
        await turn(viewer, "semi_sync=on", "rtt=85")
        await viewer.console.toggle_load()  # the dashboard gives the load to the verb
        await viewer.fleet.keeper.leave("lease")
        settings = replace(driver.driving.settings(), clients=3, mode="open", rate_tps=20.0)
        await driver.drive(settings)
        viewer.driving.begin()
        tick = await tick_after(viewer, 3.0)
        assert tick.viewer
        assert tick.load is not None
        assert (tick.load.clients, tick.load.mode, tick.load.rate_asked_tps) == (3, "open", 20.0)
        assert tick.predicted is not None
        assert tick.predicted.tps == pytest.approx(20.0, rel=0.05)


async def test_a_driver_whose_load_was_stopped_or_died_says_that_none_runs(world: World) -> None:
    async with world.started("tui") as tui:
        await tick_after(tui, 2.0)
        assert await load_of(world) == ("tui", 8)
        await tui.console.toggle_load()
        assert await load_of(world) == ("tui", 0)
        await tui.console.toggle_load()
        await tick_after(tui, 2.0)
        world.loads[-1].die(ReplexplorerError("killed by the test"))
        await tick_after(tui, 2.5)
        assert await load_of(world) == ("tui", 0)


async def test_a_knob_that_another_shell_turns_reaches_the_load_and_is_told_so(world: World) -> None:
    async with world.started("tui") as tui, world.attached("set") as other:
        await tick_after(tui, 2.0)
        await other.state.refresh()
        result = await turn(other, "clients=5")
        (changed,) = result.changed
        assert changed.note == f"the running load follows (driver: {other.state.driver})"
        await tick_after(tui, 3.0)
        assert await load_of(world) == ("tui", 5)
        await tui.console.toggle_load()
        await other.state.refresh()
        assert (await turn(other, "clients=6")).changed[0].note == NO_LOAD


async def test_an_app_that_does_not_tell_its_load_leaves_it_unknown(world: World) -> None:
    """An older one: nobody invents its clients from the knob."""
    async with world.attached("old") as old:
        await old.fleet.keeper.take_lease("tui")
        assert await load_of(world) == ("tui", None)


async def test_where_every_agent_is_away_nobody_claims_that_no_load_runs(world: World) -> None:
    async with world.attached("status") as looker:
        for sidecar in world.sidecars.values():
            sidecar.stop()
        assert (await looker.status()).load == DrivenLoad(None)

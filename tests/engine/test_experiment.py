"""An experiment that runs: nobody else turns a knob meanwhile, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.sweep import Sweep, read_grid
from replexplorer.engine.facade import SweepProgress
from replexplorer.engine.session import Session
from tests.fakes.clock import until, virtual
from tests.fakes.world import World

REFUSED = "turns the knobs"


async def turn(session: Session, *texts: str, anyway: bool = False) -> None:
    await session.set([session.parse(text) for text in texts], anyway=anyway)


TURNS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "set": lambda session: turn(session, "sync_binlog=0"),
    "reset": lambda session: session.reset(),
    "undo": lambda session: session.undo(),
}


@pytest.mark.parametrize("verb", TURNS)
@pytest.mark.parametrize("whose", ["another's", "our own"])
def test_turning_is_refused_while_an_experiment_runs(verb: str, whose: str) -> None:
    @virtual
    async def check() -> None:
        world = World()
        async with world.attached("lab tour") as lab, world.attached("set") as other:
            session = lab if whose == "our own" else other
            await turn(session, "rtt=5")
            before = world.requested
            async with lab.measuring("lab", "tour"):
                with pytest.raises(
                    StackUnavailable, match=r"the lab tour \(pid \d+ on \S+\) turns the knobs"
                ):
                    await TURNS[verb](session)
                assert world.requested == before
            await TURNS[verb](session)
            assert world.requested != before

    check()


@virtual
async def test_a_turn_that_waited_while_it_began_is_refused_as_well() -> None:
    world = World()
    async with world.attached("lab tour") as lab, world.attached("set") as other:
        agent = lab.fleet.primary.agent
        await agent.take_turn("lab tour", within_s=1)
        waiting = asyncio.create_task(turn(other, "sync_binlog=0"))
        await until(lambda: len(world.sidecars["primary"].turns._queue) == 2)
        async with lab.measuring("lab", "tour"):
            await agent.leave_turn()
            with pytest.raises(StackUnavailable, match=REFUSED):
                await waiting
            await lab.controls.set(dict.fromkeys(lab.parse("sync_binlog=0").names, 0))
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_a_dry_run_and_anyway_are_not_refused() -> None:
    world = World()
    async with (
        world.attached("sweep") as sweep,
        world.attached("set") as other,
        sweep.measuring("sweep", "rtt=0,10"),
    ):
        await other.set([other.parse("sync_binlog=0")], dry_run=True)
        assert world.requested == {}
        await turn(other, "sync_binlog=0", anyway=True)
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_an_experiment_dies_with_its_bridge() -> None:
    world = World()
    async with world.attached("set") as other:
        async with world.attached("lab tour") as lab:
            await lab.fleet.primary.agent.begin_experiment("lab", "tour", "lab tour")
            with pytest.raises(StackUnavailable, match=REFUSED):
                await turn(other, "sync_binlog=0")
        await turn(other, "sync_binlog=0")
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_one_experiment_at_a_time_and_the_second_turns_nothing() -> None:
    world = World()
    async with world.attached("lab tour") as lab, world.attached("sweep", beside=True) as other:
        wanted = Sweep(read_grid(["sync_binlog=0,1"], other.parse, lambda _: ()))
        told: list[SweepProgress] = []
        async with lab.measuring("lab", "tour"):
            with pytest.raises(StackUnavailable, match="the lab tour"):
                await other.sweep(wanted, told.append)
        assert (world.requested, told) == ({}, [])


@virtual
async def test_a_sweep_in_a_dashboard_is_an_experiment_for_all() -> None:
    world = World()
    async with world.started("tui") as dashboard, world.attached("set") as other:
        await until(lambda: dashboard.load.is_running)
        wanted = Sweep(read_grid(["sync_binlog=0,1"], dashboard.parse, lambda _: ()), 2.0)
        sweeping = asyncio.create_task(dashboard.sweep(wanted, lambda _: None))
        await until(lambda: world.sidecars["primary"].experiment is not None)
        for session in (other, dashboard):
            with pytest.raises(StackUnavailable, match=r"the sweep sync_binlog=0,1 \(tui, pid \d+"):
                await turn(session, "rtt=10")
        with pytest.raises(StackUnavailable, match=REFUSED):
            await dashboard.toggle_load()
        await sweeping
        await turn(other, "rtt=10")
    assert world.requested["rtt@replica"] == 10.0

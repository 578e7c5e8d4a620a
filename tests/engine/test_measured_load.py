"""What is measured of a load: what counts of it, and what its anatomy and its cost cover."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.engine.experiment.stack_api import Findings
from replexplorer.engine.session import Session
from replexplorer.ports import Ability
from tests.fakes.clock import until
from tests.fakes.server import REDO_A_COMMIT
from tests.fakes.world import CPU_A_COMMIT_S, World, tasks_left


async def measured(session: Session, heard: list[Interval], *, warmup_s: float = 4) -> Findings:
    """Two clients for six seconds after their warm-up."""
    async with session.observed():
        await session.drive(replace(session.driving.settings(), clients=2))
        from_s = session.outside.clock.monotonic() + warmup_s
        return await session.rig.load.measure(duration_s=6, from_s=from_s, on_interval=heard.append)


async def test_the_warm_up_counts_neither_for_the_figures_nor_for_anatomy_and_cost() -> None:
    world, heard = World(), list[Interval]()
    async with world.attached("load", tick_s=1.0) as session:
        found = await measured(session, heard)
        assert found.load.duration_s == pytest.approx(6, abs=0.1)
        assert found.load.tps == pytest.approx(2000, rel=0.02)
        assert heard[0].start_s < found.load.intervals[0].start_s - 3
        assert found.anatomy is not None
        assert 6 <= found.anatomy.duration_s <= 7
        cost = found.cost
        assert cost is not None
        assert cost.commits == pytest.approx(found.load.commits, rel=0.2)
        assert cost.cpu_us == {name: pytest.approx(1e6 * CPU_A_COMMIT_S, rel=0.05) for name in ("db1", "db2")}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)
    assert tasks_left() == []


async def test_where_nobody_counts_cpu_the_rest_is_known(world: World) -> None:
    async with world.attached("load", tick_s=1.0) as session:
        session.outside.provider.abilities -= {Ability.STOP_SERVERS}
        cost = (await measured(session, [], warmup_s=0)).cost
        assert cost is not None
        assert cost.cpu_us == {"db1": None, "db2": None}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)


async def test_what_was_measured_until_the_load_ended_is_left_to_the_caller(world: World) -> None:
    until_now = Measurement()
    async with world.attached("load", tick_s=1.0) as session, session.observed():
        await session.drive(replace(session.driving.settings(), clients=2))
        measuring = asyncio.create_task(session.rig.load.measure(duration_s=60, into=until_now))
        await asyncio.sleep(10)
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)
        assert until_now.duration_s == pytest.approx(9, abs=1)
    assert tasks_left() == []


async def test_a_source_that_goes_at_the_first_commit_does_not_end_the_load(world: World) -> None:
    async with world.attached("load", tick_s=1.0) as session, session.observed():
        begun = asyncio.create_task(session.drive(replace(session.driving.settings(), clients=2)))
        await until(lambda: world.loads and world.loads[-1].history, every_s=0.0001)
        world.crash("db1")
        await begun
        await asyncio.sleep(30)
        assert session.load.is_running
        assert world.holder("lease").holder == "load"
    assert tasks_left() == []

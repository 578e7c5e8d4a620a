"""A load in the foreground: what counts of it, and what its anatomy covers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.load.interval import Interval
from replexplorer.ports import Ability
from tests.fakes.clock import until, virtual
from tests.fakes.server import REDO_A_COMMIT
from tests.fakes.world import CPU_A_COMMIT_S, World, tasks_left


@virtual
async def test_the_warm_up_counts_neither_for_the_figures_nor_for_the_anatomy() -> None:
    world, heard = World(), list[Interval]()
    async with world.attached("load", tick_s=1.0) as session:
        load = session.foreground()
        async with session.observed():
            await load.drive(replace(load.requested(), clients=2), lambda _: None)
            await load.measure(duration_s=6, warmup_s=4, on_interval=heard.append)
        assert load.path == "direct"
        assert load.measured.duration_s == pytest.approx(6, abs=0.1)
        assert heard[0].start_s < load.measured.intervals[0].start_s - 3
        from_s, to_s = load.span_s
        assert to_s - from_s == pytest.approx(6, abs=0.1)
        found = load.anatomy()
        assert found is not None
        assert found.from_s is not None
        assert found.to_s is not None
        assert 0 <= found.from_s < found.to_s <= 6.5


@virtual
async def test_a_commit_s_cost_is_that_of_the_time_after_the_warm_up() -> None:
    world = World()
    async with world.attached("load", tick_s=1.0) as session:
        load = session.foreground()
        async with session.observed():
            await load.drive(replace(load.requested(), clients=2), lambda _: None)
            await load.measure(duration_s=6, warmup_s=4, on_interval=lambda _: None)
        cost = load.cost
        assert cost is not None
        assert cost.commits == pytest.approx(load.measured.commits, rel=0.2)
        assert cost.cpu_us == {name: pytest.approx(1e6 * CPU_A_COMMIT_S, rel=0.05) for name in ("db1", "db2")}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)
    assert tasks_left() == []


@virtual
async def test_where_nobody_counts_cpu_the_rest_is_known() -> None:
    world = World()
    async with world.attached("load", tick_s=1.0) as session:
        load = session.foreground()
        session.outside.provider.abilities -= {Ability.STOP_SERVERS}
        async with session.observed():
            await load.drive(replace(load.requested(), clients=2), lambda _: None)
            await load.measure(duration_s=3, warmup_s=0, on_interval=lambda _: None)
        assert load.cost is not None
        assert load.cost.cpu_us == {"db1": None, "db2": None}
        assert load.cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)


@virtual
async def test_a_source_that_goes_at_the_first_commit_does_not_end_the_load() -> None:
    world = World()
    async with world.attached("load", tick_s=1.0) as session:
        load = session.foreground()
        async with session.observed():
            begun = asyncio.create_task(load.drive(replace(load.requested(), clients=2), lambda _: None))
            await until(lambda: world.loads and world.loads[-1].history, every_s=0.0001)
            world.crash("db1")
            await begun
            assert load.path == "direct"
            await asyncio.sleep(30)
            assert session.load.is_running
            assert world.claims.first("lease").holder == "load"
    assert tasks_left() == []

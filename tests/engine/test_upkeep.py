"""The stack stays small: binlogs that nobody needs go, and a full disk stops the load."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.engine.load import is_low, measure, purge_to
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import World

GB = 1 << 30
LOGS = [("binlog.000001", 4), ("binlog.000002", 4), ("binlog.000003", 4), ("binlog.000004", 1)]


@pytest.mark.parametrize(
    ("needed", "kept", "first"),
    [
        ("binlog.000004", 5, "binlog.000003"),
        ("binlog.000002", 5, "binlog.000002"),
        ("binlog.000001", 5, None),
        ("binlog.000004", 100, None),
        (None, 0, "binlog.000004"),
    ],
)
def test_only_what_every_replica_has_and_more_than_is_kept_goes(
    needed: str | None, kept: int, first: str | None
) -> None:
    assert purge_to(LOGS, needed, kept) == first


@pytest.mark.parametrize(
    ("free", "total", "low"), [(4, 20, True), (6, 20, False), (6, 100, True), (11, 100, False)]
)
def test_five_gigabytes_and_a_tenth(free: int, total: int, low: bool) -> None:
    assert is_low(free * GB, total * GB) is low


async def test_a_running_load_purges_what_the_replica_has_read(world: World) -> None:
    primary, replica = world.servers["db1"], world.servers["db2"]
    primary.binlogs = [(f"binlog.{number:06}", GB // 2) for number in range(1, 6)]
    replica.reads = "binlog.000003"
    async with world.started():
        await until(lambda: len(primary.binlogs) == 3, within_s=60)
        assert primary.binlogs[0][0] == "binlog.000003"
        replica.reads = "binlog.000005"
        await until(lambda: len(primary.binlogs) == 2, within_s=60)


async def test_a_full_disk_stops_the_load_and_says_so(world: World, tui: Session) -> None:
    await until(lambda: bool(world.running_loads()), within_s=10)
    world.sidecars["db1"].free_bytes = 4 * GB
    await until(lambda: not world.running_loads(), within_s=60)
    assert "4.0 GB of 100 GB are free" in (tui.load.fault or "")
    with pytest.raises(StackUnavailable, match=r"only 4\.0 GB"):
        await tui.console.toggle_load()
    world.sidecars["db1"].free_bytes = 50 * GB
    assert await tui.console.toggle_load()
    await asyncio.sleep(1)


async def test_who_measures_a_load_that_a_full_disk_stops_is_told_why(world: World) -> None:
    async with world.attached("load") as session:
        await session.drive(session.driving.settings())
        world.sidecars["db1"].free_bytes = 4 * GB
        with pytest.raises(StackUnavailable, match=r"the load was stopped: .*4\.0 GB"):
            await measure(session.load, session.outside.clock, duration_s=600.0)

"""Rows that are saved with all that is requested, and a stack that returns to them."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.engine.session import Session
from tests.fakes.world import World
from tests.known import refusal
from tests.turning import inject, turn
from tests.waiting import load_runs, told, until_tick


async def test_a_stack_returns_to_what_was_saved_whatever_was_done_to_it(
    world: World, session: Session
) -> None:
    await turn(session, "sync_binlog=0 rtt=20")
    saved = await session.console.save_data("monday")
    assert world.copies == {saved.copy: {"db1": True, "db2": True}}, "all servers had ended"
    before = world.taken
    await turn(session, "sync_binlog=1 rtt=85 semi_sync=on")
    await inject(session, "disk_full@db1 kill@db2")

    await session.console.restore_data("monday")
    assert [*world.restored.values()] == [saved.copy]
    assert ((await session.status()).state, world.taken) == ("up", before)
    assert await session.console.saved.forget("monday")
    assert world.copies == {}


async def test_it_is_refused_where_it_would_take_from_others_or_cannot_be(
    world: World, session: Session
) -> None:
    saved = await session.console.save_data("monday")
    for sidecar in world.sidecars.values():
        sidecar.free_bytes, sidecar.footprint_bytes = (11 << 30) + 1, 1 << 30
    assert "takes 2,147 MB: 11,811 MB are free" in await refusal(session.console.save_data("tuesday"))
    assert "tuesday has rows of no node here" in await refusal(
        session.console.restore_data("tuesday"), UsageError
    )
    world.grow()
    await session.fleet.discover()
    assert "rows of db1, db2 here, where the nodes are db1, db2, db3" in await refusal(
        session.console.restore_data("monday"), UsageError
    )
    assert (world.restored, [*world.copies]) == ({}, [saved.copy])


async def test_the_dashboard_that_drives_a_load_is_asked_first_sees_it_and_drives_on(
    world: World, tui: Session
) -> None:
    async with world.attached() as other:
        await other.console.save_data("monday", anyway=True)
        assert "drives a load: end it first, or add --force" in await refusal(
            other.console.restore_data("monday")
        )
        await other.console.restore_data("monday", anyway=True)
    await told(tui, "preset apply monday, by set")
    await until_tick(tui, lambda tick: len(world.loads) > 1 and load_runs(tick))
    assert not [event for tick in tui.past() for event in tick.events if "lost" in event.text]


async def test_one_that_was_killed_before_anything_was_set_back_is_said_so_and_keeps_what_is_requested(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.console.save_data("monday")
    await turn(session, "sync_binlog=0")
    killed = AsyncMock(side_effect=StackUnavailable("killed"))
    monkeypatch.setattr(session.outside.snapshots, "restore_data", killed)
    monkeypatch.setattr(session.restorer, "bring_up", killed)
    assert "killed" in await refusal(session.console.restore_data("monday"))
    async with world.brought_up() as up:
        said = "preset apply monday was interrupted and has changed nothing: run it again"
        assert said in up.restorer.repaired
        assert world.primary.variables["sync_binlog"] == "0"

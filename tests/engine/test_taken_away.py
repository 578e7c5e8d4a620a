"""A stack that somebody removes while it comes up, or while a load runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from replexplorer.core.errors import StackUnavailable, TakenAway
from replexplorer.core.load.interval import Measurement
from replexplorer.engine.load import measure
from tests.fakes.world import CREATING_S, World, tasks_left


def killed_first(world: World) -> None:
    """As a busy daemon removes a stack."""
    for node in world.node_names:
        world.crash(node)
        world.sidecars[node].stop()
    asyncio.get_running_loop().call_later(8, world.remove)


@pytest.mark.parametrize(
    ("exists", "end"),
    [(False, World.remove), (False, World._make), (True, killed_first)],
    ids=["removed", "made anew in another shell", "killed before it is removed"],
)
async def test_up_sees_that_its_stack_was_taken_away_and_leaves_what_came_after(
    exists: bool, end: Callable[[World], None]
) -> None:
    """It waited 90 s and blamed the primary's log."""
    world = World(exists=exists)
    world.servers_stay_away = not exists
    for server in world.servers.values():
        server.starting = exists
    session = world.session("up")
    coming = asyncio.create_task(session.up(lambda *_: None))
    await asyncio.sleep(CREATING_S + 0.2)
    end(world)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(TakenAway, match="stack 'default' was removed while it came up") as caught:
        await coming
    assert asyncio.get_running_loop().time() - began_s < 10.0
    assert (caught.value.exit_code, world.removals) == (4, 0)
    await session.disconnect()
    assert tasks_left() == []


@pytest.mark.parametrize(
    ("said", "words", "remedy"),
    [
        ((), "the server of db2 ended while it started", "its log: log db2"),
        (
            (
                "0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.",
                "0 [ERROR] [MY-010119] [Server] Aborting",
            ),
            "the server of db2 ended while it started: [MY-000067] [Server] unknown variable 'x=1'",
            "its log: log db2",
        ),
        (
            ("1 [ERROR] [MY-012584] [InnoDB] io_setup() failed with EAGAIN after 5 attempts.",),
            "the server of db2 ended while it started: [MY-012584] [InnoDB] io_setup() failed with EAGAIN"
            " after 5 attempts: its machine's servers have used up fs.aio-max-nr",
            "`sysctl fs.aio-max-nr=1048576` there, as root, then `replexplorer up`; or end other stacks;"
            " its log: log db2",
        ),
    ],
)
async def test_a_server_that_ends_while_it_starts_is_not_waited_for_and_says_why(
    world: World, said: tuple[str, ...], words: str, remedy: str
) -> None:
    world.logs["db2"] = [*said]
    for server in world.servers.values():
        server.starting = True
    session = world.session("up")
    coming = asyncio.create_task(session.up(lambda *_: None))
    await asyncio.sleep(2)
    world.crash("db2")
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(StackUnavailable) as raised:
        await coming
    assert (raised.value.message, raised.value.hint) == (words, remedy)
    assert asyncio.get_running_loop().time() - began_s < 5.0
    await session.disconnect()


async def test_a_load_whose_stack_goes_ends_at_once_with_what_it_had(world: World) -> None:
    """It printed zeros to its end and exited 0."""
    async with world.attached("load") as session, session.observed():
        await session.drive(session.driving.settings())
        had = Measurement()
        measuring = asyncio.create_task(
            measure(session.load, session.outside.clock, duration_s=600, into=had)
        )
        await asyncio.sleep(5)
        world.remove()
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(StackUnavailable, match="stack 'default' was removed") as caught:
            await measuring
        assert asyncio.get_running_loop().time() - began_s < 1.5
        assert caught.value.exit_code == 4
        assert had.commits > 0
        assert had.duration_s == pytest.approx(5, abs=1.5)

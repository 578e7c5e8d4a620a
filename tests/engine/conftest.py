"""What tests of the engine share: virtual time, a stack as a model, and an app on it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, SelectorEventLoop
from collections.abc import AsyncIterator, Callable

import pytest

from replexplorer.engine.session import Session
from tests.fakes.clock import VirtualLoop
from tests.fakes.world import World, tasks_left
from tests.waiting import load_runs, until_tick


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], AbstractEventLoop]]:
    """Virtual time, but for tests of processes and threads."""
    return {"loop": SelectorEventLoop if item.get_closest_marker("real_time") else VirtualLoop}


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> AsyncIterator[None]:
    """No task, connection, bridge or load of the engine outlives a test, whatever that is of."""
    World.reached.clear()
    yield
    assert tasks_left() == []
    assert not [left for world in World.reached if any(left := world.left())]


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> World:
    """A stack of a source and a replica, or of as many as the test asks for."""
    return World(replicas=getattr(request, "param", 1))


@pytest.fixture
async def session(world: World) -> AsyncIterator[Session]:
    """One that is attached as `set` does it."""
    async with world.attached() as session:
        yield session


@pytest.fixture
async def tui(world: World) -> AsyncIterator[Session]:
    """One that watches, and drives a load that runs."""
    async with world.started() as session:
        await until_tick(session, load_runs)
        yield session

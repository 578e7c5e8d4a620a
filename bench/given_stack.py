"""The stack that is measured on: a new one, or one that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from bench.figure import Figure, table, tell
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.wiring import outside_of
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.ports import UpOptions


@contextlib.asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """The work goes on until the block is left."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def new_stack(up: UpOptions | None = None) -> AsyncIterator[Session]:
    """A new stack, removed at the end."""
    asked = up or UpOptions()
    stack = DockerProvider("-".join(filter(None, (f"bench-{os.getpid()}", asked.flavor, asked.system))))
    session = Session(outside_of(stack), SessionOptions(holder="bench", up=asked))
    try:
        await session.up(lambda text, _=None: tell(text))
        yield session
    finally:
        await session.disconnect()
        await stack.down()
        await stack.close()


def print_figures(name: str, measure: Callable[[Session], Awaitable[list[Figure]]]) -> None:
    """Attach to a stack, measure, print the table."""

    async def measured() -> list[Figure]:
        stack = DockerProvider(name)
        session = Session(outside_of(stack), SessionOptions(holder="bench"))
        try:
            await session.attach()
            return await measure(session)
        finally:
            await session.disconnect()
            await stack.close()

    print(table(asyncio.run(measured())))

"""Measuring on a stack that runs already, for the modules that are programs of their own as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.figure import Figure, table
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.wiring import outside_of
from replexplorer.engine.session import Session, SessionOptions


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

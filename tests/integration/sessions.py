"""Sessions on the shared stack, for tests that turn its knobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.wiring import outside_of
from replexplorer.core.knobs.names import Value
from replexplorer.engine.session import Session, SessionOptions
from tests.integration.conftest import LiveStack
from tests.turning import inject as inject


@asynccontextmanager
async def attached(live: LiveStack, holder: str = "test", **options: Any) -> AsyncIterator[Session]:
    """A session on the shared stack, whose knobs are given back whatever became of it."""
    async with connected(live, holder, **options) as session:
        try:
            yield session
        except BaseException as error:
            try:
                await _give_back(live, session)
            except Exception as later:  # what the test found is what is wrong
                error.add_note(f"and the knobs could not be given back: {later}")
            raise
        await _give_back(live, session)


async def _give_back(live: LiveStack, session: Session) -> None:
    await session.disconnect()
    async with connected(live, "cleaner") as cleaner:
        await cleaner.console.reset()


@asynccontextmanager
async def connected(live: LiveStack, holder: str, **options: Any) -> AsyncIterator[Session]:
    """A session on the shared stack."""
    stack = DockerProvider(live.stack.name)
    session = Session(outside_of(stack), SessionOptions(holder=holder, **options))
    try:
        await session.attach()
        yield session
    finally:
        await session.disconnect()
        await stack.close()


def as_asked(session: Session) -> dict[str, Value]:
    """Everything that is requested, by its written name."""
    return {str(name): session.state.requested_value(name) for name in session.state.names()}

"""Sessions on the shared stack, for tests that turn its knobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.wiring import outside_of
from replexplorer.core.knobs.names import Value
from replexplorer.engine.session import Session, SessionOptions
from tests.integration.conftest import LiveStack, quiet
from tests.turning import inject as inject


@asynccontextmanager
async def attached(live: LiveStack, holder: str = "test") -> AsyncIterator[Session]:
    """A session on the shared stack, which is whole and at its defaults afterwards whatever became of it."""
    async with connected(live, holder) as session:
        try:
            yield session
        except BaseException as error:
            try:
                await _make_whole(live, session)
            except Exception as later:  # what the test found is what is wrong
                error.add_note(f"and the stack could not be repaired: {later}")
            raise
        await _make_whole(live, session)


async def _make_whole(live: LiveStack, session: Session) -> None:
    await session.disconnect()
    async with connected(live, "cleaner") as cleaner:
        await cleaner.console.clear()
        status = await cleaner.status()
        if status.state != "up":
            await cleaner.up(quiet)
        if status.system == "async":
            for node in status.nodes:
                if node.diverged or node.role == "detached":
                    await cleaner.console.rejoin(node.name, copy=bool(node.diverged))
            if cleaner.fleet.source_name != (first := min(cleaner.fleet.members)):
                await cleaner.console.switchover(first)
        await cleaner.console.reset()


@asynccontextmanager
async def connected(live: LiveStack, holder: str) -> AsyncIterator[Session]:
    """A session on the shared stack."""
    stack = DockerProvider(live.stack.name)
    session = Session(outside_of(stack), SessionOptions(holder=holder))
    try:
        await session.attach()
        yield session
    finally:
        await session.disconnect()
        await stack.close()


def as_asked(session: Session) -> dict[str, Value]:
    """Everything that is requested, by its written name."""
    return {str(name): session.state.requested_value(name) for name in session.state.names()}

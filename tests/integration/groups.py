"""Stacks whose nodes are members of one group, for the files that test each system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.cli.experiment import LABS
from replexplorer.cli.wiring import outside_of
from replexplorer.core.experiment.lab import Length, PhaseResult
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.ports import UpOptions
from tests.integration.conftest import PREFIX, LiveStack, take_down
from tests.integration.sessions import attached
from tests.waiting import until

THREE = ("db1", "db2", "db3")


@contextmanager
def three_members(system: str) -> Iterator[LiveStack]:
    """A stack made as `up --system` makes it, taken down at the end."""
    stack = DockerProvider(f"{PREFIX}-{system}")
    try:
        yield asyncio.run(_brought_up(stack, system))
    finally:
        asyncio.run(take_down(stack))


async def _brought_up(stack: DockerProvider, system: str) -> LiveStack:
    session = Session(outside_of(stack), SessionOptions(holder="up", up=UpOptions(system=system)))
    await session.up(lambda *_: None)
    await session.disconnect()
    return LiveStack(stack, await stack.credentials())


async def until_so(session: Session, what: str, is_so: Callable[[], bool], within_s: float = 60.0) -> None:
    """Look until it is so."""

    async def looked() -> bool:
        await session.state.refresh()
        return is_so()

    await until(looked, what, within_s=within_s)


async def on_hot_rows(stack: LiveStack, system: str) -> PhaseResult:
    """What systems-78ms finds with clients on the same few rows at each member, in two seconds; all that it
    turned is as it was."""
    part = LABS.named("systems-78ms").on(system)
    hot = replace(part.phases[-1], quick=Length(2))
    async with attached(stack, "lab systems-78ms") as session:
        before = {name: session.state.requested_value(name) for name in session.state.names()}
        result = await LabRun(replace(part, phases=(hot,)), quick=True).run(session.rig)
        assert {name: session.state.requested_value(name) for name in session.state.names()} == before
    assert (result.aborted, result.unrestored) == (None, ())
    [found] = result.phases
    return found

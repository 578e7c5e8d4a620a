"""Stacks whose nodes are members of one group, for the files that test each system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lab import Length, PhaseResult
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import as_asked, attached
from tests.waiting import until

THREE = ("db1", "db2", "db3")


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
        before = as_asked(session)
        result = await LabRun(replace(part, phases=(hot,)), quick=True).run(session.rig)
        assert as_asked(session) == before
    assert (result.aborted, result.unrestored) == (None, ())
    [found] = result.phases
    return found

"""Stacks whose nodes are members of one group, for the files that test each system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lab import Length, PhaseResult
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.session import Session
from replexplorer.ports import execute
from tests.integration.conftest import LiveStack, quiet
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


async def rows_at(session: Session, node: str, table: str) -> int:
    """How many rows a member has."""
    [found] = await session.fleet.member(node).control.query(f"SELECT COUNT(*) AS number FROM {table}")
    return int(found["number"])


async def until_all_have(session: Session, table: str, rows: int) -> None:
    """Wait until every member has that many."""

    async def all_rows() -> set[int]:
        return {await rows_at(session, node, table) for node in THREE}

    await until(all_rows, f"every member has {rows} rows", holds=lambda found: found == {rows})


def ready(session: Session) -> set[str]:
    """The members that take part."""
    return {view.name for view in session.state.node_views() if view.member and view.member.is_ready}


async def commits_ms(session: Session, number: int) -> list[float]:
    """What each of some lone commits took, the quickest first."""
    source, clock, took_ms = session.fleet.source, session.outside.clock, []
    for _ in range(number):
        began_s = clock.monotonic()
        await execute(source.kick, (source.dialect.kick,))
        took_ms.append((clock.monotonic() - began_s) * 1000)
    return sorted(took_ms)


async def a_fourth_member_gets_all_and_leaves_a_majority(session: Session, table: str) -> None:
    """It joins with every row, and goes again."""
    await session.rig.scale(3, quiet)
    assert ready(session) == {*THREE, "db4"}
    assert await rows_at(session, "db4", table) == await rows_at(session, "db1", table) > 0
    await session.rig.scale(2, quiet)
    assert ready(session) == set(THREE)
    assert session.state.protection().state is ProtectionState.PROTECTED

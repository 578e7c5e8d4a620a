"""What an experiment takes is returned however it ends, wherever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.knobs.names import desired_of
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.restore_guard import restore_guard
from replexplorer.engine.experiment.stack_api import Procedure, StackApi
from replexplorer.engine.session import Session
from tests.engine.test_drill import LOST
from tests.fakes.clock import Counted, until, virtual
from tests.fakes.world import World
from tests.turning import turn


class Everything:
    """An experiment of a new kind that takes all there is to take; nothing else has to know of it."""

    async def run(self, stack: StackApi) -> None:
        async def ask(*texts: str) -> None:
            await guard.turn(desired_of(map(stack.controls.parse, texts)))

        async with restore_guard(stack, "drill", "everything", check=lambda _: None) as guard:
            await guard.enough_replicas(3)
            await guard.look(probe=True)
            await guard.attach(1)
            await ask("sync_binlog=0", "rtt=20")
            await stack.load.follow(clients=4, table_size=500)
            await stack.load.measure(duration_s=1.0)
            await guard.look_alive()
            await guard.inject("kill@replica")
            await guard.clear("kill@replica")
            await ask("semi_sync=on", "clients=2")
            await guard.attach(None)
            await stack.load.measure(duration_s=0.5)


KINDS: tuple[Callable[[], Procedure[object]], ...] = (Everything, partial(DrillRun, LOST, quick=True))
FEW = {"cancelled": 110, "refused": 25, "dead": 25}
"""How it ends, and between how many awaits or changes a usual run ends it so."""


async def stack_with_load(session: Session, *, driven: bool) -> None:
    """Knobs that somebody has turned; with our load running already."""
    await turn(session, "sync_binlog=100 rtt=5 clients=3")
    if driven:
        await session.drive(session.driving.settings())


@pytest.mark.costly("it disturbs an experiment at many places")
@pytest.mark.parametrize("how", FEW)
@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=["everything", "a failover"])
def test_whatever_happens_wherever_everything_is_as_before(
    kind: Callable[[], Procedure[object]], driven: bool, how: str, in_full: bool
) -> None:
    every = FEW[how] // (10 if in_full else 1)

    @virtual
    async def is_disturbed(number: int) -> None:
        world = World(replicas=2)
        async with world.attached("drill") as session:
            await stack_with_load(session, driven=driven)
            before, changed = world.taken, len(world.changes)
            places.append(await _disturb(world, session.rig, kind(), how, changed, number))
            _as_before(world, session, before, how)
        assert not any(world.left())

    places = [True]
    while places[-1]:
        is_disturbed(1 + driven * every // 2 + every * (len(places) - 1))


async def _disturb(
    world: World, stack: StackApi, experiment: Procedure[object], how: str, changed: int, number: int
) -> bool:
    """Run an experiment that is cancelled at this await, or of which this change is refused, or whose source
    dies at it; answers whether it came so far."""
    work = Counted(experiment.run(stack), cancel_at=number if how == "cancelled" else 0)

    async def counted() -> None:
        await work

    task = asyncio.create_task(counted())
    if how == "refused":
        world.trouble_at = changed + number
    elif how == "dead":
        await until(lambda: task.done() or len(world.changes) > changed + number, every_s=0.01, within_s=300)
        if not task.done():
            world.crash(world.source_name)
    await asyncio.wait({task})
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, ReplexplorerError), repr(error)
    return work.waits >= number if how == "cancelled" else len(world.changes) > changed + number


def _as_before(world: World, session: Session, before: dict[str, object], how: str) -> None:
    events = str(session.event_log.take_events())
    rows = str(session.event_log.epochs.rows())
    assert events.count(" begins: ") == rows.count("title='after the "), "what begins on charts ends there"
    differs = {name for name, each in world.taken.items() if before.get(name) != each}
    if how == "dead":  # what the dead server could not take is requested, so that it comes with its server
        kept = {"nodes", "experiment", "loads", "owed", "faults", "role_change"}
        differs &= kept | world.requested.keys()
    # What itself fails is said, and all the rest is restored.
    assert not differs or "not restored: " in events, differs


async def test_a_fault_that_could_not_be_cleared_is_said_to_be_in_force(
    world: World, session: Session
) -> None:
    async with restore_guard(session.rig, "drill", "stuck", check=lambda _: None) as guard:
        await guard.inject("partition=ack@db2")
        world.sidecars["db1"].refusals["set_link"] = StackUnavailable("no answer")
    [line] = guard.unrestored
    assert line.startswith("fault partition=ack@db2 is still in force: no answer")
    assert guard.restored == []


async def test_what_refuses_an_experiment_leaves_all_as_it_is_and_no_mark(
    world: World, session: Session
) -> None:
    def refuse(_: object) -> None:
        raise UsageError("no client commits")

    await stack_with_load(session, driven=True)
    before, marks = world.taken, session.event_log.epochs.rows()
    with pytest.raises(UsageError):
        async with restore_guard(session.rig, "drill", "x", check=refuse):
            pass
    assert (world.taken, session.event_log.epochs.rows()) == (before, marks)

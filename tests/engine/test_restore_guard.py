"""What an experiment takes is returned however it ends, wherever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from replexplorer.core.change.planner import make_plan
from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.knobs.names import Assignment, desired_of, parse_assignment
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.experiment.restore_guard import restore_guard
from replexplorer.engine.experiment.stack_api import Procedure, StackApi
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.engine.outcome import Cleared
from replexplorer.engine.session import Session
from tests.engine.test_drill import KILL, LOST
from tests.engine.test_lab import LAB
from tests.fakes.clock import Counted, until, virtual
from tests.fakes.stack import FakeStack, stack_of
from tests.fakes.world import TWO_REPLICAS, World
from tests.turning import turn


@dataclass(frozen=True)
class Everything:
    """An experiment of a new kind that takes all there is to take; nothing else has to know of it."""

    async def run(self, stack: StackApi) -> float:
        """Answers the TPS."""

        def check(seen: Snapshot) -> None:
            make_plan(stack.state.observed(), {})

        async with restore_guard(stack, "drill", "everything", check=check) as guard:
            await guard.enough_replicas(3)
            await guard.look(probe=True)
            await guard.attach(1)
            await guard.turn(
                desired_of([stack.controls.parse("sync_binlog=0"), stack.controls.parse("rtt=20")])
            )
            await stack.load.follow(clients=4, table_size=500)
            found = await stack.load.measure(duration_s=1.0)
            await guard.look_alive()
            await guard.inject("kill@replica")
            await guard.clear("kill@replica")
            await guard.turn(
                desired_of([stack.controls.parse("semi_sync=on"), stack.controls.parse("clients=2")])
            )
            await guard.attach(None)
            await stack.load.measure(duration_s=0.5)
        return found.load.tps


def sweep() -> SweepRun:
    def parse(text: str) -> Assignment:
        return parse_assignment(text, new_roster(2))

    return SweepRun(Sweep(read_grid(["rtt=0,20"], parse, lambda _: ()), 1.0, 1, 7), lambda _: None)


KINDS: dict[str, Callable[[], Procedure[object]]] = {
    "a lab": lambda: LabRun(LAB, quick=True),
    "a sweep": sweep,
    "a drill": lambda: DrillRun(KILL, quick=True),
    "a drill with a failover": lambda: DrillRun(LOST, quick=True),
    "everything": Everything,
}
HOW = ("cancelled", "refused", "dead")
KEPT = ("nodes", "experiment", "loads", "owed", "faults", "role_change")
FEW = {"cancelled": 110, "refused": 25, "dead": 25}
"""Between two places at which a usual run disturbs an experiment, in awaits or in changes."""


async def stack_with_load(world: World, session: Session, *, driven: bool) -> None:
    """Knobs that somebody has turned; with our load running already."""
    await turn(session, "sync_binlog=100 rtt=5 clients=3")
    if driven:
        await session.drive(session.driving.settings())


@pytest.mark.costly("it disturbs an experiment at many places")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_wherever_everything_is_as_before(kind: str, how: str, in_full: bool) -> None:
    first = list(KINDS).index(kind) + HOW.index(how)
    every = FEW[how] // (10 if in_full else 1)
    ended = False

    @virtual
    async def check(number: int) -> None:
        nonlocal ended
        world = World(replicas=2)
        async with world.attached("drill") as session:
            await stack_with_load(world, session, driven=first % 2 == 1)
            before, changed = world.taken, len(world.changes)
            disturbed = await _disturb(world, session.rig, KINDS[kind](), how, changed, number)
            _as_before(world, session, before, how)
            ended = not disturbed
        assert not any(world.left())

    number = 1 + first * every // 7
    while not ended:
        check(number)
        number += every


async def _disturb(
    world: World, stack: StackApi, experiment: Procedure[object], how: str, changed: int, number: int
) -> bool:
    """Run an experiment that is cancelled at this await, or of which this change is refused, or whose source
    dies at it; answers whether it came so far."""
    if how == "cancelled":
        work = Counted(experiment.run(stack), cancel_at=number)

        async def counted() -> object:
            return await work

        task = asyncio.create_task(counted())
    else:
        task = asyncio.create_task(experiment.run(stack))
    if how == "refused":
        world.trouble_at = changed + number
    elif how == "dead":
        await until(lambda: task.done() or len(world.changes) > changed + number, every_s=0.01, within_s=300)
        if not task.done():
            world.crash(world.source_name)
            number = -1
    await asyncio.wait({task})
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, ReplexplorerError), repr(error)
    if how == "cancelled":
        return work.waits >= number
    return number == -1 or (how == "refused" and len(world.changes) > changed + number)


def _as_before(world: World, session: Session, before: dict[str, object], how: str) -> None:
    events = [event.text for event in session.event_log.take_events()]
    begun = sum(" begins: " in text for text in events)
    rows = [row.title for row in session.event_log.epochs.rows()]
    assert begun == sum(title.startswith("after the ") for title in rows), (
        "what begins on the charts ends there"
    )
    found = world.taken
    differs = {name: (before.get(name), each) for name, each in found.items() if before.get(name) != each}
    if how == "dead":  # what the dead server could not take is requested, so that it comes with its server
        differs = {name: each for name, each in differs.items() if name in world.requested or name in KEPT}
    if any("not restored: " in text for text in events):
        return  # what itself fails is said, and all the rest is restored
    assert differs == {}


@TWO_REPLICAS
async def test_what_is_restored_goes_with_the_roles_where_the_first_source_cannot_come_back(
    world: World, session: Session
) -> None:
    await stack_with_load(world, session, driven=False)
    drill = asyncio.create_task(DrillRun(LOST, quick=True).run(session.rig))
    await until(lambda: world.source_name == "db2" and world.servers["db3"].follows == "db2")
    await until(lambda: world.document.content["role_change"] is None)
    world.crash("db2")
    await drill
    asked = session.state.requested.values
    assert {name.node: value for name, value in asked.items() if name.key == "rtt" and value} == {
        "db1": 5.0,
        "db3": 5.0,
    }
    assert "db2" not in world.sidecars["db2"].shapes


class Broken(FakeStack):
    """A stack on which no fault is cleared."""

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """See `StackApi`."""
        raise StackUnavailable(f"nobody clears {text}")


async def test_a_fault_that_could_not_be_mended_is_said_to_be_in_force() -> None:
    async with stack_of(kind=Broken, returns=False) as stack:
        async with restore_guard(stack, "drill", "stuck", check=lambda _: None) as guard:
            await guard.inject("partition=ack@db2")
        assert guard.restored == []
        assert guard.unrestored == ("fault partition=ack@db2 is still in force: nobody clears partition@db2",)


async def test_what_refuses_an_experiment_leaves_all_as_it_is_and_no_mark(
    world: World, session: Session
) -> None:
    def refuse(seen: Snapshot) -> None:
        raise UsageError("no client commits")

    await stack_with_load(world, session, driven=True)
    before, marks = world.taken, session.event_log.epochs.rows()
    with pytest.raises(UsageError):
        async with restore_guard(session.rig, "drill", "x", check=refuse):
            pass
    async with session.rig.reserved("lab", "tour"):
        with pytest.raises(UsageError, match="already running"):
            await Everything().run(session.rig)
    assert world.taken == before
    assert [row.title for row in session.event_log.epochs.rows()] == [row.title for row in marks]

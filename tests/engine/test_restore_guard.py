"""What an experiment takes is returned however it ends, at whatever step that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.knobs.names import KnobName, desired_of
from replexplorer.core.role_change import RoleChange
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.experiment.restore_guard import restore_guard
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.experiment.stack_api import Procedure, StackApi
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.ports import LoadSettings
from tests.engine.test_drill import KILL, LOST
from tests.engine.test_lab import LAB
from tests.fakes.clock import Counted, until, virtual
from tests.fakes.rig import FakeRig, Taken
from tests.fakes.world import World, tasks_left
from tests.turning import turn

BEFORE = ("sync_binlog=100", "rtt=5", "clients=3")


@dataclass(frozen=True)
class Everything:
    """An experiment of a new kind that takes all there is to take; nothing else has to know of it."""

    async def run(self, rig: StackApi) -> float:
        """Answers the TPS."""

        def check(seen: Snapshot) -> None:
            rig.check({})

        async with restore_guard(rig, "drill", "everything", check=check) as guard:
            await guard.enough_replicas(2)
            await guard.look(probe=True)
            await guard.attach(1)
            await guard.turn(desired_of([rig.parse("sync_binlog=0"), rig.parse("rtt=20")]))
            await rig.load.follow(clients=4, table_size=500)
            found = await rig.load.measure(duration_s=1.0)
            await guard.look_alive()
            await guard.inject("kill@replica")
            await guard.clear("kill@replica")
            await guard.turn(desired_of([rig.parse("semi_sync=on"), rig.parse("clients=2")]))
            await guard.attach(None)
            await rig.load.measure(duration_s=0.5)
        return found.load.tps


def stack(*, driven: bool) -> FakeRig:
    """A stack with knobs that somebody has turned; with our load running already."""
    rig = FakeRig()
    for text in BEFORE:
        values = desired_of([rig.parse(text)])
        rig.requested.update(values)
        rig.effective.update(values)
    if driven:
        rig.load.settings = LoadSettings(3, "update_index", table_size=10_000)
    return rig


def as_before(rig: FakeRig, before: Taken) -> None:
    assert rig.taken == before
    assert tasks_left() == []
    assert not rig.log.restoring
    begun = [text for severity, text in rig.log.events if " begins: " in text]
    ended = [title for title in rig.log.titles if title.startswith("after the ")]
    assert len(begun) == len(ended), "an experiment that begins on the charts ends there"


@pytest.mark.parametrize("driven", [False, True])
@virtual
async def test_an_experiment_takes_what_it_needs_and_returns_it(driven: bool) -> None:
    rig = stack(driven=driven)
    before = rig.taken
    assert await Everything().run(rig) > 0
    as_before(rig, before)
    assert rig.log.events[-1] == (Severity.MARK, "the drill is done; the knobs are restored")


HOW = ("cancelled", "failing", "dead")


def steps_of(make: Callable[[], Procedure[object]], *, driven: bool, first: int, stride: int) -> list[int]:
    """The steps of an undisturbed run; of looks, of which a drill takes many, every fifth. Of these each
    `stride`-th, from the first on."""
    steps: list[str] = []

    @virtual
    async def count() -> None:
        rig = stack(driven=driven)
        await make().run(rig)
        steps.extend(rig.steps)

    count()
    numbers = [number for number, step in enumerate(steps) if step != "look" or number % 5 == 0]
    return numbers[first % stride :: stride]


def sweep() -> SweepRun:
    rig = FakeRig()
    grid = read_grid(["rtt=0,20", "clients=1,8"], rig.parse, lambda _: ())
    return SweepRun(Sweep(grid, 1.0, 1, 7), lambda _: None)


KINDS: dict[str, Callable[[], Procedure[object]]] = {
    "a lab": lambda: LabRun(LAB, quick=True),
    "a sweep": sweep,
    "a drill": lambda: DrillRun(KILL, quick=True),
    "a drill with a failover": lambda: DrillRun(LOST, quick=True),
    "everything": Everything,
}


_NOT_TRIED_AGAIN = {"stop", "start", "scale", "attach", "drive", "follow", "rejoin", "switchover"}


async def disturbed(rig: FakeRig, experiment: Procedure[object], how: str, number: int) -> str | None:
    """Run an experiment that is cancelled, or whose source dies, at this step, or whose step fails; answers
    which step of restoring it was that failed, if one was."""
    task = asyncio.create_task(experiment.run(rig))
    failed: str | None = None

    def disturb(at: int) -> None:
        nonlocal failed
        if at != number:
            return
        if how == "cancelled":
            task.cancel()
        elif how == "dead":
            rig.down.add(rig.names[0])
        elif rig.log.restoring:
            failed = rig.steps[at]

    rig.on_step = disturb
    if how == "failing":
        rig.troubles[number] = ServerRefused(1227, "refused by the test")
    await asyncio.wait({task})
    if not task.cancelled():
        error = task.exception()
        assert error is None or isinstance(error, ReplexplorerError), repr(error)
    return failed


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_at_whatever_step_everything_is_as_before(
    kind: str, how: str, driven: bool, stride: int
) -> None:
    first = list(KINDS).index(kind) + HOW.index(how) + 2 * driven
    for number in steps_of(KINDS[kind], driven=driven, first=first, stride=stride):

        @virtual
        async def check(number: int = number) -> None:
            rig = stack(driven=driven)
            before = rig.taken
            failed = await disturbed(rig, KINDS[kind](), how, number)
            if failed is not None and failed.split()[0] in _NOT_TRIED_AGAIN:
                # What itself fails is said, and all the rest is restored.
                assert any(
                    "not restored: " in text and "refused by the test" in text for _, text in rig.log.events
                )
                rig.faults, rig.promoted = [], None
                await rig.scale(before.replicas, lambda text, done=None: None)
                rig.attached, rig.load.settings = None, before.load
                rig.down.clear()
            if how == "dead":
                # What the dead server could not take is requested, so that it comes with its server.
                rig.effective, rig.down = dict(rig.requested), set()
            as_before(rig, before)

        check()


@virtual
async def test_what_cannot_be_restored_is_requested_and_said() -> None:
    rig = stack(driven=False)
    experiment = asyncio.create_task(Everything().run(rig))
    await until(lambda: "measure" in rig.steps)
    rig.down.add(rig.names[1])
    with pytest.raises(StackUnavailable, match="went down in the drill"):
        await experiment
    assert rig.requested[KnobName("rtt", rig.names[1])] == 5.0
    assert rig.effective[KnobName("rtt", rig.names[1])] == 20.0
    _, text = rig.log.events[-1]
    assert "= 5.0 is requested and comes with its server" in text
    assert "knobs are restored" not in text


class Stubborn(FakeRig):
    """A stack on which nothing is copied."""

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        """See `StackApi`."""
        if rebuild:
            raise StackUnavailable(f"{node} cannot be copied to")
        return await super().rejoin(node, rebuild=rebuild)


@virtual
async def test_a_copy_that_could_not_be_made_stays_owed() -> None:
    rig = Stubborn(replicas=2)
    async with restore_guard(rig, "drill", "lossy", check=lambda _: None) as guard:
        await guard.rebuild(["db2", "db3"])
        await rig.switchover("db2")
        guard.source = "db2"
    (line,) = guard.unrestored
    assert "db3" in line
    assert rig.owed is not None
    assert (rig.owed.differing, rig.owed.before, rig.owed.source) == (("db3",), {}, "db2")


@virtual
async def test_what_refuses_an_experiment_leaves_all_as_it_is_and_no_mark() -> None:
    def refuse(seen: Snapshot) -> None:
        raise UsageError("no client commits")

    rig = stack(driven=True)
    before = rig.taken
    with pytest.raises(UsageError):
        async with restore_guard(rig, "drill", "x", check=refuse):
            pass
    rig.load.elsewhere = "load (pid 12)"
    with pytest.raises(StackUnavailable, match="drives the load"):
        async with restore_guard(rig, "drill", "x", check=lambda seen: None):
            pass
    async with rig.reserved("lab", "tour"):
        with pytest.raises(StackUnavailable, match="the lab tour"):
            await Everything().run(rig)
    as_before(rig, before)
    assert rig.log.titles == []


@virtual
async def test_a_presenter_aborts_and_the_figures_so_far_are_answered() -> None:
    rig, conductor, steps = stack(driven=False), Conductor(), list[ExperimentProgress]()
    before = rig.taken
    task = asyncio.create_task(LabRun(LAB, True, steps.append, conductor).run(rig))
    await until(lambda: bool(steps) and (steps[-1].number, steps[-1].doing) == (2, "measuring"))
    conductor.abort("ended by hand")
    task.cancel()
    result = await task
    assert (result.aborted, len(result.phases), result.unrestored) == ("ended by hand", 1, ())
    as_before(rig, before)
    assert "the lab was aborted; the knobs are restored" in [text for _, text in rig.log.events]


# -- the same on the model of a whole stack, with the session's own parts


def live_state(world: World) -> tuple[object, ...]:
    asked = {
        key: value for key, value in world.requested.items() if key == "sync_binlog" or key.startswith("rtt@")
    }
    return (
        asked,
        world.requested.get("semi_sync", "off"),
        world.requested["clients"],
        world.node_names,
        world.claims.first("experiment"),
    )


@pytest.mark.parametrize("how", ["cancelled", "refused", "dead"])
def test_a_live_stack_is_as_before_at_whatever_change(how: str, stride: int) -> None:
    total, first = 400, 0
    for number in range(0, total, stride * (3 if how != "cancelled" else 29)):

        @virtual
        async def check(number: int = number) -> None:
            nonlocal total, first
            world = World(replicas=2)
            async with world.started("tui") as session:
                await until(lambda: session.load.is_running)
                await turn(session, *BEFORE)
                before, first = live_state(world), len(world.changes)
                await _disturb(world, session.rig, how, first, number)
                assert live_state(world) == before
                assert world.running_loads() == 1
                total = len(world.changes) - first
            assert tasks_left() == []

        if number < total or how == "cancelled":
            check()


async def _disturb(world: World, rig: StackApi, how: str, first: int, number: int) -> None:
    if how == "cancelled":
        work = asyncio.create_task(_counted(rig, number))
    else:
        work = asyncio.create_task(Everything().run(rig))
    if how == "refused":
        world.trouble_at = first + number
    elif how == "dead":
        await until(lambda: work.done() or len(world.changes) > first + number, every_s=0.002)
        if not work.done():
            world.crash(world.node_names[0])
    await asyncio.wait({work})
    if not work.cancelled():
        error = work.exception()
        assert error is None or isinstance(error, ReplexplorerError), repr(error)


async def _counted(rig: StackApi, number: int) -> float:
    return await Counted(Everything().run(rig), cancel_at=number)

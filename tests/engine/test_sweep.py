"""Running a sweep: every cell once, failed ones again, the knobs given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.experiment.sweep_result import figures_of
from replexplorer.core.load.interval import Interval, ProcessWork
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import World
from tests.known import known
from tests.turning import sweep, turn

BEFORE = ("sync_binlog=100", "rtt=5", "clients=3", "semi_sync=on")
TICK_S = 0.1
SPEC = ("rtt=0,20", "clients=1,8")


@pytest.fixture
async def session(world: World) -> AsyncIterator[Session]:
    """One that is attached as `sweep` does it."""
    async with world.attached("sweep", tick_s=TICK_S) as session:
        yield session


def no_scene(name: str) -> tuple[str, ...]:
    raise UsageError(f"unknown scene {name!r}")


def plan(session: Session, *texts: str, repeats: int = 1, seed: int | None = 7) -> Sweep:
    return Sweep(read_grid(texts or SPEC, session.console.parse, no_scene), 2.0, repeats, seed)


class Narrated:
    """What a sweep reported."""

    def __init__(self) -> None:
        self.all: list[ExperimentProgress] = []

    def __call__(self, progress: ExperimentProgress) -> None:
        self.all.append(progress)

    @property
    def notes(self) -> list[str]:
        return [each.ended for each in self.all if each.ended and each.stage is None]

    @property
    def runs(self) -> list[tuple[str, str]]:
        """The name of each that ended, and what it came to."""
        return [(each.stage.name, each.ended) for each in self.all if each.ended and each.stage is not None]


async def test_every_cell_is_settled_and_measured(world: World, session: Session) -> None:
    told = Narrated()
    await turn(session, *BEFORE)
    swept = await sweep(session, plan(session), told)
    figures = {each.cell.labels: each for each in figures_of(swept.sweep.grid, swept.runs)}
    assert {labels: round(each.tps.value or 0) for labels, each in figures.items()} == {
        ("0 ms", "1"): pytest.approx(1000 / 1.1, rel=0.02),
        ("0 ms", "8"): pytest.approx(8000 / 1.1, rel=0.02),
        ("20 ms", "1"): pytest.approx(1000 / 21, rel=0.03),
        ("20 ms", "8"): pytest.approx(8000 / 21, rel=0.03),
    }
    run = figures["20 ms", "8"].runs[0]
    assert (run.rtt_ms, run.protection, run.why, run.limited) == (20.0, "protected", None, None)
    assert run.effective == {"rtt@db2": 20.0, "clients": 8}
    point = OperatingPoint(**known(run.setting))
    assert (point.clients, point.rtt_ms, point.semi_sync, point.binlog_fsyncs) == (8, 20.0, True, 0.01)
    assert [each.kept for each in told.all] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert told.all[-1].left_s == 0
    assert (world.journals.only.lines, len(world.journals.only.finished)) == ([], 1)
    assert '"run"' in world.journals.only.finished[0][-1]


async def test_a_cancelled_sweep_goes_on_where_it_was(world: World) -> None:
    told = Narrated()
    async with world.attached("sweep", tick_s=TICK_S) as session:
        await turn(session, *BEFORE)
        before = world.taken
        task = asyncio.create_task(sweep(session, plan(session), told))
        await until(lambda: len(told.runs) == 2)
        task.cancel()
        await asyncio.wait({task})
        assert world.taken == before
    first = [name for name, _ in told.runs]
    again = Narrated()
    async with world.attached("sweep", tick_s=TICK_S) as session:
        await turn(session, "rtt=7")
        swept = await sweep(session, plan(session), again)
    assert again.notes == ["continuing: 2 of 4 runs are done (--restart starts over)"]
    assert (swept.resumed, len(swept.runs)) == (2, 4)
    assert sorted(first + [name for name, _ in again.runs]) == sorted(set(first) | {n for n, _ in again.runs})
    assert world.requested["rtt@db2"] == 7.0


async def test_fresh_begins_anew_and_another_server_does_so_by_itself() -> None:
    for fresh in (True, False):
        world, told = World(), Narrated()
        async with world.attached("sweep", tick_s=TICK_S) as session:
            wanted = plan(session)
            await sweep(session, wanted, told)
            finished = world.journals.only.finished[0]
            world.journals.only.lines = finished[:2]
            if not fresh:
                world.journals.only.lines[0] = finished[0].replace('"on": "', '"on": "x')
            again = Narrated()
            swept = await sweep(session, plan(session), again, fresh=fresh)
        assert (swept.resumed, len(swept.runs)) == (0, 4)


async def test_a_state_that_was_not_asked_fails_the_run_which_is_tried_once_more(
    world: World, session: Session
) -> None:
    told = Narrated()
    await turn(session, *BEFORE)
    before = world.taken
    swept = await sweep(session, plan(session, "semi_sync_replicas=1,2"), told)
    failed = [run for run in swept.runs if run.why]
    assert [run.attempt for run in failed] == [1, 2]
    assert {run.why for run in failed} <= {
        "the stack is armed, not protected",
        "the stack is blocked, not protected",
    }
    assert world.taken == before


async def test_a_server_that_restarted_meanwhile_fails_the_run_and_gets_its_settings_back(
    world: World, session: Session
) -> None:
    told = Narrated()
    await turn(session, *BEFORE, "binlog_order_commits=off")
    before = world.taken
    task = asyncio.create_task(sweep(session, plan(session, "rtt=0,20"), told))
    await until(lambda: len(told.runs) == 1)
    await asyncio.sleep(3.5)
    world.restart("db1")
    swept = await task
    assert [run.why for run in swept.runs if run.why] == ["db1 restarted meanwhile"]
    assert ("failed: db1 restarted meanwhile, to be tried again") in [ended for _, ended in told.runs]
    assert len(swept.runs) == 3
    assert all(each.good for each in figures_of(swept.sweep.grid, swept.runs))
    assert world.taken == before
    assert world.primary.variables["binlog_order_commits"] == "OFF"


async def test_a_knob_that_a_scene_leaves_out_stands_as_before_and_not_as_the_run_before_left_it(
    world: World, session: Session
) -> None:
    seen = set[tuple[str, str]]()
    scenes = {"none": ("sync_binlog=0", "binlog_order_commits=on"), "mine": ("binlog_order_commits=off",)}

    def note(progress: ExperimentProgress) -> None:
        if progress.ended and progress.stage is not None:
            seen.add((progress.stage.name, world.primary.variables["sync_binlog"]))

    await turn(session, "sync_binlog=100")
    grid = read_grid(["scene=none,mine"], session.console.parse, scenes.__getitem__)
    await sweep(session, Sweep(grid, 2.0, 4), note)
    assert seen == {("preset=none", "0"), ("preset=mine", "100")}
    assert world.primary.variables["sync_binlog"] == "100"


async def test_a_knob_that_somebody_turns_meanwhile_fails_the_run(world: World) -> None:
    told = Narrated()
    async with world.attached("sweep", tick_s=TICK_S) as session, world.attached() as other:
        task = asyncio.create_task(sweep(session, plan(session, "rtt=0,20"), told))
        await asyncio.sleep(3)
        await turn(other, "rtt=50", anyway=True)
        swept = await task
    assert [run.why for run in swept.runs if run.why] == [
        f"changed meanwhile: rtt@db2 0 → 50 ms, by {other.turns.actor.writer}"
    ]


def busy(interval: Interval) -> Interval:
    seconds = interval.duration_s
    return replace(interval, work=(ProcessWork(1, 8, interval.commits, 0.95 * seconds, seconds),))


def late(interval: Interval) -> Interval:
    return replace(interval, lateness=Histogram.of([30_000]))


@pytest.mark.parametrize(
    ("change", "why", "limited"),
    [
        (busy, "generator at 95 % of a core", None),
        (late, None, "machine short of CPU, generator 30 ms late"),
    ],
)
async def test_a_busy_generator_is_no_server_and_a_late_one_is_marked(
    world: World,
    session: Session,
    change: Callable[[Interval], Interval],
    why: str | None,
    limited: str | None,
) -> None:
    told = Narrated()
    task = asyncio.create_task(sweep(session, plan(session, "rtt=0,20"), told))
    await until(lambda: world.loads and world.loads[0].running)
    process = world.loads[0]
    take = process._intervals.put_nowait
    process._intervals.put_nowait = lambda each: take(each and change(each))  # type: ignore[assignment,method-assign]
    swept = await task
    assert len(swept.runs) == (4 if why else 2), "what failed is tried again, what was slow is not"
    assert {(run.why, run.limited) for run in swept.runs} == {(why, limited)}
    good = [each.good for each in figures_of(swept.sweep.grid, swept.runs)]
    assert [len(each) for each in good] == ([0, 0] if why else [1, 1])


async def test_without_clients_it_is_refused_before_anything_changes(world: World, session: Session) -> None:
    await turn(session, "clients=0")
    before = len(world.changes)
    with pytest.raises(UsageError, match="no client commits"):
        await sweep(session, plan(session, "rtt=0,1"), lambda _: None)
    assert len(world.changes) == before


async def test_a_machine_that_is_short_of_cpu_before_any_load_is_refused(
    world: World, session: Session
) -> None:
    await turn(session, *BEFORE)
    before = len(world.changes)
    world.sidecars["db1"].machine_share = 0.97
    with pytest.raises(StackUnavailable, match="machine at 97 % of its CPU"):
        await sweep(session, plan(session), lambda _: None, needs_cpu=True)
    assert len(world.changes) == before
    world.sidecars["db1"].machine_share = 0.4
    assert (await sweep(session, plan(session, "rtt=0"), lambda _: None, needs_cpu=True)).runs


async def test_in_the_dashboard_the_load_goes_on_with_two_marks_and_quitting_gives_the_knobs_back(
    world: World,
) -> None:
    told = Narrated()
    async with world.started("sweep", tick_s=TICK_S) as session:
        await until(lambda: session.load.is_running)
        await turn(session, *BEFORE)
        before = world.taken
        marks = session.event_log._last_mark
        await sweep(session, plan(session), told)
        assert session.event_log._last_mark == marks + 2
        assert world.running_loads() == 1
        assert world.taken == before
        assert [load.settings.clients for load in world.loads if load.running and load.settings] == [3]
        task = asyncio.create_task(sweep(session, plan(session, "rtt=0,20,40"), told))
        await asyncio.sleep(4)
        with pytest.raises(UsageError, match="a lab, a sweep or a drill is already running"):
            await sweep(session, plan(session, "rtt=0,20"), told)
        async with world.attached("set") as other:
            for console in (session.console, other.console):
                with pytest.raises(StackUnavailable, match=r"the sweep rtt=0,20,40 \(pid \d+ on"):
                    await console.reset()
    assert task.cancelled()
    assert world.taken == before | {"loads": []}


async def test_an_open_loop_is_drained_and_goes_on(world: World) -> None:
    told = Narrated()
    async with world.started("sweep", tick_s=TICK_S) as session:
        await until(lambda: session.load.is_running)
        await turn(session, "load_mode=open", "rate=100")
        swept = await sweep(session, plan(session, "rtt=0,20"), told)
        assert all(run.setting is None for run in swept.runs)
        process = next(load for load in world.loads if load.running)
        assert process.drains == 2
        assert len(process.history) > 4
    assert all(run.response is not None and run.response.count for run in swept.runs)

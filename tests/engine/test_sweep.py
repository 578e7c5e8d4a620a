"""Running a sweep: every cell once, failed ones again, the knobs given back whatever happens."""

from __future__ import annotations

import asyncio
from asyncio import create_task, sleep
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.experiment.sweep_result import figures_of
from replexplorer.core.load.interval import ProcessWork
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import World
from tests.known import known, refusal
from tests.turning import sweep, turn

BEFORE = "sync_binlog=100 rtt=5 clients=3 semi_sync=on"
TICK_S = 0.1


@pytest.fixture
async def session(world: World) -> AsyncIterator[Session]:
    """One that is attached as `sweep` does it."""
    async with world.attached("sweep", tick_s=TICK_S) as session:
        yield session


def plan(session: Session, *texts: str, repeats: int = 1) -> Sweep:
    scenes = {"none": ("sync_binlog=0", "binlog_order_commits=on"), "mine": ("binlog_order_commits=off",)}
    spec = texts or ("rtt=0,20", "clients=1,8")
    return Sweep(read_grid(spec, session.console.parse, scenes.__getitem__), 2.0, repeats, 7)


Heard = list[ExperimentProgress]


def ended(heard: Sequence[ExperimentProgress]) -> list[tuple[str, str]]:
    """The name of each run that ended, and what it came to."""
    return [(each.stage.name, each.ended) for each in heard if each.ended and each.stage is not None]


async def test_every_cell_is_settled_and_measured(world: World, session: Session, snapshot: object) -> None:
    heard = Heard()
    await turn(session, BEFORE)
    swept = await sweep(session, plan(session), heard.append)
    assert [
        f"{each.cell.labels} {each.tps.value:.0f} {run.rtt_ms} {run.protection} {run.why} {run.limited}"
        f" {run.effective} {OperatingPoint(**known(run.setting))}"
        for each in figures_of(swept.sweep.grid, swept.runs)
        for run in each.runs
    ] == snapshot
    assert [each.kept for each in heard] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert heard[-1].left_s == 0
    journal = world.journals.only
    assert (journal.lines, '"run"' in journal.finished[0][-1]) == ([], True)


async def test_a_cancelled_sweep_goes_on_where_it_was(world: World) -> None:
    heard = Heard()
    async with world.attached("sweep", tick_s=TICK_S) as session:
        await turn(session, BEFORE)
        before = world.taken
        task = create_task(sweep(session, plan(session), heard.append))
        await until(lambda: len(ended(heard)) == 2)
        task.cancel()
        await asyncio.wait({task})
        assert world.taken == before
    begun = len(heard)
    async with world.attached("sweep", tick_s=TICK_S) as session:
        await turn(session, "rtt=7")
        swept = await sweep(session, plan(session), heard.append)
    assert heard[begun].ended == "continuing: 2 of 4 runs are done (--restart starts over)"
    assert (swept.resumed, len(swept.runs), len({name for name, _ in ended(heard)})) == (2, 4, 4)
    assert world.requested["rtt@db2"] == 7.0


@pytest.mark.parametrize("fresh", [True, False])
async def test_what_is_there_is_not_continued_if_so_asked_nor_on_another_server(
    world: World, session: Session, fresh: bool
) -> None:
    await sweep(session, plan(session), lambda _: None)
    journal = world.journals.only
    head, run, *_ = journal.finished[0]
    journal.lines = [head if fresh else head.replace('"on": "', '"on": "x'), run]
    swept = await sweep(session, plan(session), lambda _: None, fresh=fresh)
    assert (swept.resumed, len(swept.runs)) == (0, 4)


async def test_a_state_that_was_not_asked_fails_the_run_which_is_tried_once_more(
    world: World, session: Session
) -> None:
    await turn(session, BEFORE)
    before = world.taken
    swept = await sweep(session, plan(session, "semi_sync_replicas=1,2"), lambda _: None)
    failed = [run for run in swept.runs if run.why]
    assert [run.attempt for run in failed] == [1, 2]
    assert all(", not protected" in str(run.why) for run in failed)
    assert world.taken == before


async def test_a_server_that_restarted_meanwhile_fails_the_run_and_gets_its_settings_back(
    world: World, session: Session
) -> None:
    heard = Heard()
    await turn(session, BEFORE, "binlog_order_commits=off")
    before = world.taken
    task = create_task(sweep(session, plan(session, "rtt=0,20"), heard.append))
    await until(lambda: ended(heard))
    await sleep(3.5)
    world.restart("db1")
    swept = await task
    assert [run.why for run in swept.runs if run.why] == ["db1 restarted meanwhile"]
    assert "failed: db1 restarted meanwhile, to be tried again" in [words for _, words in ended(heard)]
    assert [len(each.good) for each in figures_of(swept.sweep.grid, swept.runs)] == [1, 1]
    assert world.taken == before


async def test_a_knob_that_a_scene_leaves_out_is_as_before_and_not_as_the_run_before_left_it(
    world: World, session: Session
) -> None:
    seen = set[tuple[str, str]]()

    def note(progress: ExperimentProgress) -> None:
        seen.update((name, world.primary.variables["sync_binlog"]) for name, _ in ended([progress]))

    await turn(session, "sync_binlog=100")
    await sweep(session, plan(session, "scene=none,mine", repeats=4), note)
    assert seen == {("preset=none", "0"), ("preset=mine", "100")}
    assert world.primary.variables["sync_binlog"] == "100"


async def test_a_knob_that_another_app_turns_meanwhile_fails_the_run(world: World, session: Session) -> None:
    async with world.attached() as other:
        task = create_task(sweep(session, plan(session, "rtt=0,20"), lambda _: None))
        await sleep(3)
        await turn(other, "rtt=50", anyway=True)
        whys = [run.why for run in (await task).runs if run.why]
    assert whys == [f"changed meanwhile: rtt@db2 0 → 50 ms, by {other.turns.actor.writer}"]


@pytest.mark.parametrize(
    ("more", "why", "limited"),
    [
        ({"work": (ProcessWork(1, 8, 100, 0.95, 1.0),)}, "generator at 95 % of a core", None),
        ({"lateness": Histogram.of([30_000])}, None, "machine short of CPU, generator 30 ms late"),
    ],
)
async def test_a_busy_generator_is_no_server_and_a_late_one_is_marked(
    world: World, session: Session, more: dict[str, Any], why: str | None, limited: str | None
) -> None:
    task = create_task(sweep(session, plan(session, "rtt=0,20"), lambda _: None))
    await until(lambda: world.loads and world.loads[0].running)
    world.loads[0].more = more
    swept = await task
    assert len(swept.runs) == (4 if why else 2), "what failed is tried again, what was slow is not"
    assert {(run.why, run.limited) for run in swept.runs} == {(why, limited)}


async def test_without_clients_and_on_a_machine_that_is_short_of_cpu_it_is_refused_before_anything_changes(
    world: World, session: Session
) -> None:
    await turn(session, "clients=0")
    before = len(world.changes)
    assert "no client commits" in await refusal(
        sweep(session, plan(session, "rtt=0,1"), lambda _: None), UsageError
    )
    world.sidecars["db1"].machine_share = 0.97
    assert "machine at 97 % of its CPU" in await refusal(
        sweep(session, plan(session), lambda _: None, needs_cpu=True)
    )
    assert len(world.changes) == before
    world.sidecars["db1"].machine_share = 0.4
    assert (await sweep(session, plan(session), lambda _: None, needs_cpu=True)).runs


async def test_in_the_dashboard_the_load_goes_on_with_two_marks_and_quitting_gives_the_knobs_back(
    world: World,
) -> None:
    """An open loop is drained after each run, and continues."""
    async with world.started("sweep", tick_s=TICK_S) as session:
        await until(lambda: session.load.is_running)
        await turn(session, BEFORE, "load_mode=open rate=30")
        before, marks = world.taken, session.event_log._last_mark
        swept = await sweep(session, plan(session, "rtt=0,20"), lambda _: None)
        assert [(run.setting, run.response is None) for run in swept.runs] == [(None, False)] * 2
        assert (world.loads[0].drains, world.loads[0].running) == (2, True)
        assert (world.taken, session.event_log._last_mark) == (before, marks + 2)
        task = create_task(sweep(session, plan(session, "rtt=0,20,40"), lambda _: None))
        await sleep(4)
        assert "a lab, a sweep or a drill is already running" in await refusal(
            sweep(session, plan(session), lambda _: None), UsageError
        )
        with pytest.raises(StackUnavailable, match=r"the sweep rtt=0,20,40 \(pid \d+ on"):
            await session.console.reset()
    assert task.cancelled()
    assert world.taken == before | {"loads": []}

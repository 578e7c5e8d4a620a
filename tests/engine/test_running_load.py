"""The load that runs is told by its driver: `status`, `get` and a second view never show the knob for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.knobs.catalogue import CATALOGUE, Backing, Value
from replexplorer.core.knobs.names import KnobName, Place
from replexplorer.core.load.interval import Interval
from replexplorer.engine.experiment.stack_api import Findings
from replexplorer.engine.load import LoadDriver, is_low, measure, purge_to
from replexplorer.engine.observe.state import NO_LOAD
from replexplorer.engine.outcome import DrivenLoad
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats.calibration import shipped_calibration
from replexplorer.formats.files import workload_file
from replexplorer.ports import Ability, LoadSettings, LoadTarget, Reporter
from tests.fakes.clock import VirtualClock, until
from tests.fakes.load import PREPARING_S, FakeLoadProcess
from tests.fakes.server import REDO_A_COMMIT
from tests.fakes.world import CPU_A_COMMIT_S, World
from tests.known import known
from tests.turning import sweep, turn
from tests.waiting import tick_after

CALIBRATION = shipped_calibration().calibration
CLIENTS = KnobName("clients", Place.LOAD)


async def load_of(world: World) -> tuple[str, int | None]:
    """What `status` says of the load: its driver, and its clients."""
    async with world.attached("status") as looker:
        load = (await looker.status()).load
        return str(load.driver).partition(" ")[0], load.clients


async def test_a_second_view_draws_and_predicts_the_load_that_runs(world: World) -> None:
    async with world.attached("load") as driver, world.started(calibration=CALIBRATION) as viewer:
        await turn(viewer, "semi_sync=on", "rtt=85")
        await viewer.console.toggle_load()  # the dashboard gives the load to the verb
        await viewer.fleet.keeper.leave("lease")
        settings = replace(driver.driving.settings(), clients=3, mode="open", rate_tps=20.0)
        await driver.drive(settings)
        viewer.driving.begin()
        tick = await tick_after(viewer, 3.0)
        assert tick.viewer
        load = known(tick.load)
        assert (load.clients, load.mode, load.rate_asked_tps) == (3, "open", 20.0)
        assert known(tick.predicted).tps == pytest.approx(20.0, rel=0.05)
        assert await load_of(world) == ("load", 3)
        async with world.attached("get") as looker:
            view = looker.state.views()[CLIENTS]
        assert (view.requested, view.effective, view.note) == (8, 3, None), "the knob is of another load"


async def test_a_driver_whose_load_was_stopped_or_died_says_that_none_runs(
    world: World, tui: Session
) -> None:
    await tick_after(tui, 2.0)
    assert await load_of(world) == ("tui", 8)
    await tui.console.toggle_load()
    assert await load_of(world) == ("tui", 0)
    await tui.console.toggle_load()
    await tick_after(tui, 2.0)
    world.loads[-1].die(ReplexplorerError("killed by the test"))
    await tick_after(tui, 2.5)
    assert await load_of(world) == ("tui", 0)


async def test_a_knob_that_another_shell_turns_reaches_the_load_and_is_told_so(world: World) -> None:
    async with world.started("tui") as tui, world.attached("set") as other:
        await tick_after(tui, 2.0)
        await other.state.refresh()
        result = await turn(other, "clients=5")
        (changed,) = result.changed
        assert changed.note == f"the running load follows (driver: {other.state.driver})"
        await tick_after(tui, 3.0)
        assert await load_of(world) == ("tui", 5)
        again = await turn(other, "clients=5", "load_mode=closed")
        assert (again.changed, [name.key for name in again.unchanged]) == ((), ["clients", "load_mode"])
        await tui.console.toggle_load()
        await other.state.refresh()
        assert (await turn(other, "clients=6")).changed[0].note == NO_LOAD


async def test_an_app_that_does_not_tell_its_load_leaves_it_unknown(world: World) -> None:
    """An older one: nobody invents its clients from the knob."""
    async with world.attached("old") as old:
        await old.fleet.keeper.take_lease("tui")
        assert await load_of(world) == ("tui", None)


async def test_where_every_agent_is_away_nobody_claims_that_no_load_runs(
    world: World, session: Session
) -> None:
    for sidecar in world.sidecars.values():
        sidecar.stop()
    assert (await session.status()).load == DrivenLoad(None)


# What is measured of a load: what counts of it, and what its anatomy and its cost cover


async def measured(session: Session, heard: list[Interval], *, warmup_s: float = 4) -> Findings:
    """Two clients for six seconds after their warm-up."""
    async with session.observed():
        await session.drive(replace(session.driving.settings(), clients=2))
        from_s = session.outside.clock.monotonic() + warmup_s
        return await session.rig.load.measure(duration_s=6, from_s=from_s, on_interval=heard.append)


async def test_the_warm_up_counts_neither_for_the_figures_nor_for_anatomy_and_cost() -> None:
    world, heard = World(), list[Interval]()
    async with world.attached("load", tick_s=1.0) as session:
        found = await measured(session, heard)
        assert found.load.duration_s == pytest.approx(6, abs=0.1)
        assert found.load.tps == pytest.approx(2000, rel=0.02)
        assert heard[0].start_s < found.load.intervals[0].start_s - 3
        assert 6 <= known(found.anatomy).duration_s <= 7
        cost = known(found.cost)
        assert cost.commits == pytest.approx(found.load.commits, rel=0.2)
        assert cost.cpu_us == {name: pytest.approx(1e6 * CPU_A_COMMIT_S, rel=0.05) for name in ("db1", "db2")}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)


async def test_where_nobody_counts_cpu_the_rest_is_known(world: World) -> None:
    async with world.attached("load", tick_s=1.0) as session:
        session.outside.provider.abilities -= {Ability.STOP_SERVERS}
        cost = known((await measured(session, [], warmup_s=0)).cost)
        assert cost.cpu_us == {"db1": None, "db2": None}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)


async def test_a_source_that_goes_at_the_first_commit_does_not_end_the_load(world: World) -> None:
    async with world.attached("load", tick_s=1.0) as session, session.observed():
        begun = asyncio.create_task(session.drive(replace(session.driving.settings(), clients=2)))
        await until(lambda: world.loads and world.loads[-1].history, every_s=0.0001)
        world.crash("db1")
        await begun
        await asyncio.sleep(30)
        assert session.load.is_running
        assert world.holder("lease").holder == "load"


# The stack stays small: binlogs that nobody needs go, and a full disk stops the load


GB = 1 << 30
LOGS = [("binlog.000001", 4), ("binlog.000002", 4), ("binlog.000003", 4), ("binlog.000004", 1)]


@pytest.mark.parametrize(
    ("needed", "kept", "first"),
    [
        ("binlog.000004", 5, "binlog.000003"),
        ("binlog.000002", 5, "binlog.000002"),
        ("binlog.000001", 5, None),
        ("binlog.000004", 100, None),
        (None, 0, "binlog.000004"),
    ],
)
def test_only_what_every_replica_has_and_more_than_is_kept_goes(
    needed: str | None, kept: int, first: str | None
) -> None:
    assert purge_to(LOGS, needed, kept) == first


@pytest.mark.parametrize(
    ("free", "total", "low"), [(4, 20, True), (6, 20, False), (6, 100, True), (11, 100, False)]
)
def test_five_gigabytes_and_a_tenth(free: int, total: int, low: bool) -> None:
    assert is_low(free * GB, total * GB) is low


async def test_a_running_load_purges_what_the_replica_has_read(world: World) -> None:
    primary, replica = world.servers["db1"], world.servers["db2"]
    primary.binlogs = [(f"binlog.{number:06}", GB // 2) for number in range(1, 6)]
    replica.reads = "binlog.000003"
    async with world.started():
        await until(lambda: len(primary.binlogs) == 3, within_s=60)
        assert primary.binlogs[0][0] == "binlog.000003"
        replica.reads = "binlog.000005"
        await until(lambda: len(primary.binlogs) == 2, within_s=60)


async def test_a_full_disk_stops_the_load_and_says_so(world: World, tui: Session) -> None:
    await until(lambda: bool(world.running_loads()), within_s=10)
    measuring = asyncio.create_task(measure(tui.load, tui.outside.clock, duration_s=600.0))
    await asyncio.sleep(1)
    world.sidecars["db1"].free_bytes = 4 * GB
    with pytest.raises(StackUnavailable, match=r"the load was stopped: .*4\.0 GB"):
        await measuring
    assert not world.running_loads()
    assert "4.0 GB of 100 GB are free" in (tui.load.fault or "")
    with pytest.raises(StackUnavailable, match=r"only 4\.0 GB"):
        await tui.console.toggle_load()
    world.sidecars["db1"].free_bytes = 50 * GB
    assert await tui.console.toggle_load()
    await asyncio.sleep(1)


# A user's file of SQL as the value of the workload knob


async def test_a_file_of_sql_is_a_workload_for_every_verb_that_takes_the_knob(
    world: World, tmp_path: Path
) -> None:
    """Only `load --workload` took one."""
    mine = tmp_path / "mine.sql"
    mine.write_text("UPDATE sandbox.t SET n = n + 1;\n")
    outside = replace(world.outside(), workload_file=workload_file)
    session = Session(outside, SessionOptions("tui"))
    try:
        await session.start(lambda *_: None)
        await until(lambda: session.load.is_running)
        with pytest.raises(UsageError, match=r"no such workload: .*gone\.sql"):
            session.console.parse(f"workload={tmp_path}/gone.sql")
        await turn(session, f"workload={mine}")
        settings = known(session.load.settings)
        assert (settings.workload, settings.script) == (str(mine), mine.read_text())
        assert world.requested["workload"] == str(mine)
        assert session.driving.settings().script == mine.read_text()
        grid = read_grid([f"workload=insert,{mine}"], session.console.parse, lambda _: ())
        swept = await sweep(session, Sweep(grid, 2.0), lambda _: None)
        assert [run.why for run in swept.runs] == [None, None]
        await session.console.undo()
        assert known(session.load.settings).script is None
    finally:
        await session.close()


# The load's driver and a measurement over it, on a model process

TARGET = LoadTarget("10.0.0.2", 3306, "sandbox", "secret", "direct")
SETTINGS = LoadSettings(clients=4, workload="update_index")


class Bench:
    """A driver whose processes commit once in 10 ms a client."""

    def __init__(self, interval_s: float = 0.5) -> None:
        self.processes: list[FakeLoadProcess] = []
        self.failure: ReplexplorerError | None = None
        self.ends: list[str] = []
        self.report: Reporter = lambda *_: None
        self.runs = (f"/ledgers/{number}" for number in count(1))
        self.driver = LoadDriver(
            self._make, interval_s=interval_s, on_end=self.ends.append, new_run=self._new_run
        )

    async def _new_run(self) -> str:
        return next(self.runs)

    def _make(self, report: Reporter) -> FakeLoadProcess:
        self.report = report
        process = FakeLoadProcess(
            lambda seconds, clients: (round(clients * seconds * 100), 10.0), lambda *_: None
        )
        process.start_failure, self.failure = self.failure, None
        self.processes.append(process)
        return process


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """One whose load runs."""
    bench = Bench()
    await bench.driver.start(TARGET, SETTINGS)
    yield bench
    await bench.driver.stop()


async def test_how_far_a_table_is_can_be_read_while_a_load_is_changed() -> None:
    bench = Bench()
    told = list[tuple[str, float | None]]()
    bench.driver.on_progress.append(lambda *step: told.append(step))
    await bench.driver.start(TARGET, SETTINGS)
    assert bench.driver.prepared is None
    bench.report("preparing table sbtest1", 0.4)
    assert bench.driver.prepared == 0.4
    assert told == [("preparing table sbtest1", 0.4)]
    await bench.driver.change({"clients": 5})
    assert bench.driver.prepared is None
    await bench.driver.stop()


async def test_a_slow_reader_gets_fewer_intervals_and_every_commit(bench: Bench) -> None:
    await asyncio.sleep(600.1)
    taken = bench.driver.inbox.take()
    assert len(taken) == 240
    assert taken[0].start_s < 1
    assert sum(interval.commits for interval in taken) == 200 * 1200


async def test_a_ledger_goes_on_in_its_run_until_another_is_begun() -> None:
    """Whatever the load did in between, and wherever it is begun again: a row has one number for ever."""
    bench = Bench()

    def run() -> str | None:
        return known(bench.processes[-1].settings).ledger

    await bench.driver.start(TARGET, SETTINGS)
    assert run() is None
    await bench.driver.change({"workload": "ledger"})
    assert run() == "/ledgers/1"
    await bench.driver.change({"clients": 9})
    await bench.driver.change({"workload": "insert"})
    assert run() is None
    await bench.driver.stop()
    ledger = replace(SETTINGS, workload="ledger")
    await bench.driver.start(TARGET, ledger)
    assert run() == "/ledgers/1"
    bench.driver.run = None
    await bench.driver.start(TARGET, ledger)
    assert run() == bench.driver.run == "/ledgers/2"
    await bench.driver.stop()


async def test_every_load_knob_reaches_the_process() -> None:
    bench = Bench()
    await bench.driver.start(TARGET, replace(SETTINGS, workload="own.sql", script="SELECT 1"))
    knobs: dict[str, Value] = {"load_mode": "open", "rate": 20.0, "key_spread": 1, "payload": 100}
    await bench.driver.change(knobs)
    assert bench.processes[0].settings == LoadSettings(
        4, "own.sql", script="SELECT 1", mode="open", rate_tps=20.0, key_spread=1, payload_bytes=100
    )
    assert bench.driver.effective() == {"clients": 4, "workload": "own.sql", **knobs}
    await bench.driver.change({"workload": "insert", "load_mode": "closed", "clients": 0})
    await bench.driver.fresh_sessions()
    settings = known(bench.processes[0].settings)
    assert (settings.script, settings.mode, settings.clients, settings.fresh_sessions) == (
        None,
        "closed",
        0,
        1,
    )
    assert bench.driver.effective()["rate"] == 20.0
    assert set(bench.driver.effective()) == {knob.key for knob in CATALOGUE if knob.backing is Backing.LOAD}
    await bench.driver.stop()
    await bench.driver.change({"clients": 9})
    assert bench.driver.effective() == {}


@pytest.mark.parametrize("how", ["refused", "cancelled", "stopped"])
async def test_a_start_that_comes_to_nothing_leaves_nothing_and_can_be_tried_again(how: str) -> None:
    bench = Bench()
    bench.failure = ServerRefused(1142, "no CREATE privilege") if how == "refused" else None
    task = asyncio.create_task(bench.driver.start(TARGET, SETTINGS))
    await asyncio.sleep(PREPARING_S / 2)
    if how == "cancelled":
        task.cancel()
    elif how == "stopped":
        await bench.driver.stop()
    await asyncio.wait({task})
    assert task.cancelled() or isinstance(task.exception(), ReplexplorerError)
    assert not bench.driver.is_running
    assert not bench.processes[0].running
    await bench.driver.start(TARGET, SETTINGS)
    assert bench.driver.is_running
    await bench.driver.stop()


async def test_a_second_start_while_the_first_is_under_way_starts_no_second_process() -> None:
    bench = Bench()
    await asyncio.gather(
        bench.driver.start(TARGET, SETTINGS), bench.driver.start(TARGET, LoadSettings(8, "foo"))
    )
    assert len(bench.processes) == 1
    assert bench.driver.settings == LoadSettings(8, "foo")
    await bench.driver.stop()


# -- measure


async def test_an_open_loop_is_drained_and_what_that_made_counts() -> None:
    bench = Bench(interval_s=1)
    await bench.driver.start(TARGET, replace(SETTINGS, mode="open", rate_tps=400.0))
    measured = await measure(bench.driver, VirtualClock(), duration_s=3)
    assert bench.processes[0].drains == 1
    assert len(measured.intervals) == 3
    assert measured.duration_s == pytest.approx(3)
    assert measured.commits == measured.total.response.count == 1204
    assert measured.intervals[-1].state == "drained"
    await bench.driver.stop()


async def test_an_end_together_with_the_last_interval_is_no_failure(bench: Bench) -> None:
    task = asyncio.create_task(measure(bench.driver, VirtualClock(), duration_s=1))
    bench.driver.inbox.arrived.clear()
    for _ in range(2):
        await bench.driver.inbox.arrived.wait()
        bench.driver.inbox.arrived.clear()
    await bench.driver.stop()
    await asyncio.wait({task}, timeout=5)
    assert task.done()

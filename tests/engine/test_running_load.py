"""The load that runs is told by its driver: `status`, `get` and a second view never show the knob for it."""

from __future__ import annotations

import asyncio
from asyncio import create_task, sleep
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs.catalogue import CATALOGUE, Backing, Value
from replexplorer.core.knobs.names import KnobName, Place
from replexplorer.engine.experiment.stack_api import Findings
from replexplorer.engine.load import is_low, measure, purge_to
from replexplorer.engine.observe.state import NO_LOAD
from replexplorer.engine.outcome import DrivenLoad
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.formats.calibration import shipped_calibration
from replexplorer.formats.files import workload_file
from replexplorer.ports import Ability, LoadSettings, LoadTarget
from tests.fakes.clock import VirtualClock, until
from tests.fakes.load import PREPARING_S
from tests.fakes.server import REDO_A_COMMIT
from tests.fakes.world import CPU_A_COMMIT_S, World
from tests.known import known, refusal
from tests.turning import turn
from tests.typed import fields, values_of
from tests.waiting import tick_after

CLIENTS = KnobName("clients", Place.LOAD)


async def load_of(world: World) -> tuple[str, int | None]:
    """What `status` says of the load: its driver, and its clients."""
    async with world.attached("status") as looker:
        load = (await looker.status()).load
        return str(load.driver).partition(" ")[0], load.clients


async def test_a_second_view_draws_and_predicts_the_load_that_runs(world: World) -> None:
    calibration = shipped_calibration().calibration
    async with world.attached("load") as driver, world.started(calibration=calibration) as viewer:
        await turn(viewer, "semi_sync=on rtt=85")
        await viewer.console.toggle_load()  # the dashboard gives the load to the verb
        await viewer.fleet.keeper.leave("lease")
        await driver.drive(replace(driver.driving.settings(), clients=3, mode="open", rate_tps=20.0))
        viewer.driving.begin()
        tick = await tick_after(viewer)
        assert tick.viewer
        load = known(tick.load)
        assert (load.clients, load.mode, load.rate_asked_tps) == (3, "open", 20.0)
        assert known(tick.predicted).tps == pytest.approx(20.0, rel=0.05)
        async with world.attached("get") as looker:
            view = looker.state.views()[CLIENTS]
        assert (view.requested, view.effective, view.note) == (8, 3, None), "the knob is of another load"


async def test_a_knob_that_another_shell_turns_reaches_the_load_and_is_told_so(
    world: World, tui: Session
) -> None:
    async with world.attached("set") as other:
        (changed,) = (await turn(other, "clients=5")).changed
        assert changed.note == f"the running load follows (driver: {other.state.driver})"
        await tick_after(tui)
        assert await load_of(world) == ("tui", 5)
        again = await turn(other, "clients=5 load_mode=closed")
        assert (again.changed, [name.key for name in again.unchanged]) == ((), ["clients", "load_mode"])
        await tui.console.toggle_load()
        await other.state.refresh()
        assert (await turn(other, "clients=6")).changed[0].note == NO_LOAD


async def test_where_no_app_and_no_agent_tells_the_load_it_is_unknown(world: World, session: Session) -> None:
    """An older app tells nothing: its clients are not invented from the knob."""
    await session.fleet.keeper.take_lease("tui")
    assert await load_of(world) == ("tui", None)
    for sidecar in world.sidecars.values():
        sidecar.stop()
    assert (await session.status()).load == DrivenLoad(None)


# What is measured of a load: what counts of it, and what its anatomy and its cost cover


async def measured(session: Session, *, warmup_s: float) -> Findings:
    """Two clients for six seconds after their warm-up."""
    async with session.observed():
        await session.drive(replace(session.driving.settings(), clients=2))
        from_s = session.outside.clock.monotonic() + warmup_s
        return await session.rig.load.measure(duration_s=6, from_s=from_s)


async def test_the_warm_up_counts_neither_for_the_figures_nor_for_anatomy_and_cost(world: World) -> None:
    async with world.attached("load", tick_s=1.0) as session:
        found = await measured(session, warmup_s=4)
        load, cost = found.load, known(found.cost)
        assert (load.duration_s, load.tps) == pytest.approx((6, 2000), rel=0.02)
        assert 6 <= known(found.anatomy).duration_s <= 7
        assert cost.commits == pytest.approx(load.commits, rel=0.2)
        assert cost.cpu_us == {name: pytest.approx(1e6 * CPU_A_COMMIT_S, rel=0.05) for name in ("db1", "db2")}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)
        session.outside.provider.abilities -= {Ability.STOP_SERVERS}
        cost = known((await measured(session, warmup_s=0)).cost)
        assert cost.cpu_us == {"db1": None, "db2": None}
        assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT, rel=0.05)


async def test_a_source_that_goes_at_the_first_commit_does_not_end_the_load(world: World) -> None:
    async with world.attached("load") as session, session.observed():
        begun = create_task(session.drive(session.driving.settings()))
        await until(lambda: world.loads and world.loads[-1].history, every_s=0.0001)
        world.crash("db1")
        await begun
        await sleep(30)
        assert session.load.is_running
        assert world.holder("lease").holder == "load"


# The stack stays small: binlogs that no replica needs go, and a full disk stops the load


GB = 1 << 30
PURGED = """\
"binlog.4" 5   "binlog.3"
"binlog.2" 5   "binlog.2"
"binlog.1" 5   None
"binlog.4" 100 None
None       0   "binlog.4"
"""
"""What is needed, how much is kept, and the first that stays of these four."""
LOW = """\
4  20  True
6  20  False
6  100 True
11 100 False
"""


def test_only_what_every_replica_has_and_more_than_is_kept_goes() -> None:
    sizes = {"binlog.1": 4, "binlog.2": 4, "binlog.3": 4, "binlog.4": 1}
    for needed, kept, first in values_of(PURGED):
        assert purge_to([*sizes.items()], needed, kept) == first


def test_five_gigabytes_and_a_tenth() -> None:
    for free, total, low in values_of(LOW):
        assert is_low(free * GB, total * GB) is low


async def test_a_running_load_purges_what_the_replica_has_read_and_a_full_disk_stops_it(
    world: World, tui: Session
) -> None:
    primary, replica = world.primary, world.replica
    primary.binlogs = [(f"binlog.{number:06}", GB // 2) for number in range(1, 6)]
    for reads, left in (("binlog.000003", 3), ("binlog.000005", 2)):
        replica.reads = reads
        await until(lambda left=left: len(primary.binlogs) == left)  # type: ignore[misc]
    assert primary.binlogs[0][0] == "binlog.000004"
    measuring = create_task(measure(tui.load, tui.outside.clock, duration_s=600.0))
    await sleep(1)
    world.sidecars["db1"].free_bytes = 4 * GB
    with pytest.raises(StackUnavailable, match=r"the load was stopped: .*4\.0 GB of 100 GB are free"):
        await measuring
    assert "only 4.0 GB" in await refusal(tui.console.toggle_load())
    assert not world.running_loads()
    world.sidecars["db1"].free_bytes = 50 * GB
    assert await tui.console.toggle_load()


# A user's file of SQL as the value of the workload knob


async def test_a_file_of_sql_is_a_workload(world: World, tmp_path: Path) -> None:
    """Only `load --workload` took one."""
    mine = tmp_path / "mine.sql"
    mine.write_text("UPDATE sandbox.t SET n = n + 1;\n")
    session = Session(replace(world.outside(), workload_file=workload_file), SessionOptions("set"))
    await session.attach()
    await session.drive(session.driving.settings())
    with pytest.raises(UsageError, match=r"no such workload: .*gone\.sql"):
        session.console.parse(f"workload={tmp_path}/gone.sql")
    await turn(session, f"workload={mine}")
    settings = known(session.load.settings)
    assert (settings.workload, settings.script) == (str(mine), mine.read_text())
    assert world.requested["workload"] == str(mine)
    assert session.driving.settings().script == mine.read_text()
    await session.console.undo()
    assert known(session.load.settings).script is None
    await session.disconnect()


# The load's driver and a measurement over it

TARGET = LoadTarget("10.0.0.2", 3306, "sandbox", "secret", "direct")
SETTINGS = LoadSettings(clients=4, workload="update_index")


async def test_a_slow_reader_gets_fewer_intervals_and_every_commit(session: Session) -> None:
    await session.load.start(TARGET, replace(SETTINGS, clients=1))
    await sleep(200.1)
    taken = session.load.inbox.take()
    assert (len(taken), taken[0].start_s < 1) == (240, True)
    assert sum(interval.commits for interval in taken) == pytest.approx(200_000, abs=1)


async def test_a_ledger_goes_on_in_its_run_until_another_is_begun(session: Session) -> None:
    """Whatever the load did in between, and wherever it is begun again: a row has one number for ever."""
    load, runs = session.load, list[str | None]()

    async def change(**changes: Value) -> None:
        await load.change(changes)
        runs.append(known(load.settings).ledger)

    await load.start(TARGET, SETTINGS)
    await change(workload="ledger")
    await change(clients=9)
    await change(workload="insert")
    await load.stop()
    await load.start(TARGET, SETTINGS)
    await change(workload="ledger")
    load.run = None
    await change(workload="insert")
    await change(workload="ledger")
    assert runs == ["run 1", "run 1", None, "run 1", None, "run 2"]


async def test_every_load_knob_reaches_the_process_and_says_how_far_its_table_is(
    world: World, session: Session, snapshot: object
) -> None:
    load, steps = session.load, Mock()
    load.on_progress.append(steps)
    await load.start(TARGET, replace(SETTINGS, workload="own.sql", script="SELECT 1"))
    world.loads[0].report("preparing table sbtest1", 0.4)
    assert (load.prepared, steps.call_args.args) == (0.4, ("preparing table sbtest1", 0.4))
    await load.change(fields("load_mode='open' rate=20.0 key_spread=1 payload=100"))
    assert load.prepared is None
    effective = load.effective()
    assert effective.keys() == {knob.key for knob in CATALOGUE if knob.backing is Backing.LOAD}
    await load.change(fields("workload='insert' load_mode='closed' clients=0"))
    await load.fresh_sessions()
    await load.stop()
    await load.change({"clients": 9})
    assert load.effective() == {}
    assert [str(effective), *map(repr, world.loads[0].history)] == snapshot


@pytest.mark.parametrize("how", ["refused", "cancelled", "stopped"])
async def test_a_start_that_comes_to_nothing_leaves_nothing_and_can_be_tried_again(
    world: World, session: Session, how: str
) -> None:
    world.load_failure = ServerRefused(1142, "no CREATE privilege") if how == "refused" else None
    session.load.on_settings = None
    task = create_task(session.load.start(TARGET, SETTINGS))
    await sleep(PREPARING_S / 2)
    if how == "cancelled":
        task.cancel()
    elif how == "stopped":
        await session.load.stop()
    await asyncio.wait({task})
    assert task.cancelled() or isinstance(task.exception(), ReplexplorerError)
    assert (session.load.is_running, world.running_loads()) == (False, 0)
    await asyncio.gather(
        session.load.start(TARGET, SETTINGS), session.load.start(TARGET, LoadSettings(8, "foo"))
    )
    assert (world.running_loads(), session.load.settings) == (1, LoadSettings(8, "foo"))


# -- measure


async def test_an_open_loop_is_drained_and_what_that_made_counts(world: World, session: Session) -> None:
    await session.load.start(TARGET, replace(SETTINGS, mode="open", rate_tps=400.0))
    measured = await measure(session.load, VirtualClock(), duration_s=3)
    assert (world.loads[0].drains, len(measured.intervals), measured.intervals[-1].state) == (1, 6, "drained")
    assert measured.duration_s == pytest.approx(3)
    assert measured.commits == measured.total.response.count == pytest.approx(12_040, abs=1)

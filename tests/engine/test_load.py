"""The load's driver and a measurement over it, on a model process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

import pytest

from replexplorer.core.errors import ReplexplorerError, ServerRefused
from replexplorer.core.knobs.catalogue import CATALOGUE, Backing, Value
from replexplorer.engine.load import LoadDriver, measure
from replexplorer.ports import LoadSettings, LoadTarget, Reporter
from tests.fakes.clock import VirtualClock
from tests.fakes.load import PREPARING_S, FakeLoadProcess
from tests.fakes.world import tasks_left

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
    assert tasks_left() == []


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


async def test_changes_reach_the_process_and_only_what_was_named_changes(bench: Bench) -> None:
    await bench.driver.change({"clients": 32})
    await bench.driver.change({"workload": "foo"})
    await bench.driver.fresh_sessions()
    assert bench.driver.settings == LoadSettings(32, "foo", fresh_sessions=1)
    assert bench.processes[0].settings == bench.driver.settings
    await bench.driver.change({"clients": 0})
    assert {key: bench.driver.effective()[key] for key in ("clients", "workload")} == {
        "clients": 0,
        "workload": "foo",
    }
    await bench.driver.stop()
    await bench.driver.change({"clients": 9})
    assert bench.driver.effective() == {}


async def test_a_ledger_goes_on_in_its_run_until_another_is_begun() -> None:
    """Whatever the load did in between, and wherever it is begun again: a row has one number for ever."""
    bench = Bench()

    def run() -> str | None:
        assert bench.processes[-1].settings is not None
        return bench.processes[-1].settings.ledger

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
    await bench.driver.change({"workload": "insert", "load_mode": "closed"})
    assert bench.driver.settings is not None
    assert (bench.driver.settings.script, bench.driver.settings.mode) == (None, "closed")
    assert bench.driver.effective()["rate"] == 20.0
    assert set(bench.driver.effective()) == {knob.key for knob in CATALOGUE if knob.backing is Backing.LOAD}
    await bench.driver.stop()


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
    assert tasks_left() == []
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


async def test_a_process_that_dies_says_why_once_and_can_be_started_again(bench: Bench) -> None:
    await asyncio.sleep(1)
    bench.driver.inbox.arrived.clear()
    bench.processes[0].die(ReplexplorerError("the load's process ended by itself (signal 9)"))
    await bench.driver.inbox.arrived.wait()
    assert not bench.driver.is_running
    assert bench.driver.effective() == {}
    assert bench.driver.fault == "the load's process ended by itself (signal 9)"
    assert bench.ends == [bench.driver.fault]
    await bench.driver.start(TARGET, SETTINGS)
    assert bench.driver.fault is None
    assert bench.driver.is_running
    await bench.driver.stop()
    assert bench.ends == ["the load's process ended by itself (signal 9)"]
    assert tasks_left() == []


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

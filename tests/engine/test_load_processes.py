"""The app's end of the load, against small children that speak its protocol, one and several."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.load import LoadEnded, LoadGroup, LoadPlace, LocalProcess
from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.generator.tally import Outbox
from replexplorer.ports import LoadSettings, LoadTarget, Reporter
from tests.fakes.load import interval_of
from tests.typed import table_of
from tests.waiting import patience

pytestmark = pytest.mark.real_time

TARGET = LoadTarget("127.0.0.1", 3306, "sandbox", "s3cret-word", "direct")
SETTINGS = LoadSettings(clients=2, workload="update_index")
LENGTH_S = 0.1

PRELUDE = """
import json, sys, time
def tell(**event):
    print(json.dumps(event), flush=True)
def interval(start_s, commits=3, length_s=1, clients=2, state="running", number=1):
    service = dict(slots=[100], counts=[commits], sum_us=100 * commits, min_us=100, max_us=100)
    tell(event="interval", interval=dict(start_s=start_s, end_s=start_s + length_s, errors=0, unknown=0,
        reconnects=0, clients=clients, connected=clients, workload="update_index", state=state,
        service=service, work=[dict(
            number=number, clients=clients, commits=commits, cpu_s=0.3 * length_s, duration_s=length_s)]))
def commands():
    for line in sys.stdin:
        yield json.loads(line)
"""
OBEDIENT = """
for number, command in enumerate(commands(), 1):
    tell(event="progress", text="preparing table sbtest1", done=0.5)
    tell(event="done", id=command["id"])
    interval(number)
interval(99, commits=1)
"""
ONE_OF_SEVERAL = """
AHEAD_S, LENGTH_S, COMMITS, REFUSES, TOLD = {}
at_s, part = 1.0, dict(clients=0, number=1)
tick = lambda at_s, commits, **more: interval(
    at_s, commits, LENGTH_S, part["clients"], number=part["number"], **more)
for command in commands():
    if command["do"] == "start":
        part = command["part"]
        if REFUSES:
            tell(event="failed", id=command["id"], code="unreachable", message="away", hint="", number=None)
            continue
        if part["number"] == 1:
            tick(1.0 + AHEAD_S, 0, state="preparing")
        tell(event="done", id=command["id"])
    if command["do"] == "go":
        at_s = command["at_s"]
        with open(TOLD, "a") as told:
            told.write(json.dumps([at_s - AHEAD_S, part]) + "\\n")
        for number in range(3):
            tick(at_s + number * LENGTH_S, COMMITS)
        tell(event="done", id=command["id"])
if not REFUSES:
    tick(at_s + 3 * LENGTH_S, 1)
"""


def a_place(body: str, host: str = "") -> LoadPlace:
    """Where such a child is started."""
    return LoadPlace(partial(LocalProcess.start, (sys.executable, "-c", PRELUDE + body)), cores=1, host=host)


def a_load(body: str, report: Reporter | None = None) -> LoadGroup:
    """A load of one such child."""
    return LoadGroup(report, a_place(body))


async def start(load: LoadGroup, settings: LoadSettings = SETTINGS) -> int:
    """Its first process's number."""
    await load.start(TARGET, settings, interval_s=0.5)
    return load.pids[0]


async def rest(load: LoadGroup) -> list[Interval]:
    await load.stop()
    return [each async for each in load.intervals()]


def is_running(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_start_change_and_stop_with_every_interval_in_order_and_again() -> None:
    told: list[tuple[str, float | None]] = []
    load = a_load(OBEDIENT, lambda text, done=None: told.append((text, done)))
    for _ in range(2):
        told.clear()
        pid = await start(load)
        await load.change(SETTINGS)
        intervals = await rest(load)
        assert [each.start_s for each in intervals] == [1, 2, 3, 99]
        assert [each.commits for each in intervals] == [3, 3, 3, 1]
        assert told == [("preparing table sbtest1", 0.5)] * 3
        assert not is_running(pid)


ANSWERS = """\
refused     | 1290 | ServerRefused
unreachable | None | ServerUnreachable
error       | None | ReplexplorerError"""


async def test_a_refused_start_raises_the_child_s_error_and_leaves_nothing() -> None:
    for code, number, name in table_of(ANSWERS):
        answer = f"code='{code}', number={number}, message='odd', hint='look'"
        load = a_load(f"for command in commands(): tell(event='failed', id=command['id'], {answer})")
        with pytest.raises(ReplexplorerError, match="odd: look") as caught:
            await start(load)
        assert (type(caught.value).__name__, str(getattr(caught.value, "number", None))) == (name, number)
        assert load.pids == []


async def test_a_refused_change_leaves_the_load_running() -> None:
    load = a_load(
        """
for number, command in enumerate(commands(), 1):
    if command["do"] == "change":
        tell(event="failed", id=command["id"], code="unreachable", number=None, message="away", hint="")
    else:
        tell(event="done", id=command["id"])
    interval(number)
"""
    )
    await start(load)
    with pytest.raises(ServerUnreachable):
        await load.change(SETTINGS)
    assert [each.start_s for each in await rest(load)] == [1, 2, 3]


async def test_a_child_that_dies_ends_everything_with_its_last_words() -> None:
    load = a_load(
        """
for command in commands():
    if command["do"] != "change":
        tell(event="done", id=command["id"])
        interval(1)
    else:
        sys.exit("MemoryError: the machine is full")
"""
    )
    await start(load)
    with pytest.raises(LoadEnded, match="MemoryError: the machine is full"):
        await load.change(SETTINGS)
    intervals = load.intervals()
    assert [(await anext(intervals)).start_s for _ in range(2)] == [1, 1]
    with pytest.raises(LoadEnded, match="ended by itself"):
        await anext(intervals)
    with pytest.raises(LoadEnded):
        await load.change(SETTINGS)
    await load.stop()


async def test_a_child_that_writes_nonsense_is_ended() -> None:
    load = a_load("print('hello', flush=True)\nfor command in commands(): pass")
    with pytest.raises(LoadEnded, match="an invalid report"):
        await start(load)
    assert load.pids == []


async def test_a_child_that_does_not_end_is_killed() -> None:
    load = a_load(
        """
for command in commands():
    tell(event="done", id=command["id"])
time.sleep(60)
"""
    )
    pid = await start(load)
    started_s = time.monotonic()
    assert await rest(load) == []
    assert time.monotonic() - started_s < 4 * patience()
    assert not is_running(pid)


async def test_intervals_are_read_while_the_start_waits_and_a_cancelled_one_leaves_no_process() -> None:
    load = a_load("interval(7, state='preparing')\nfor command in commands(): pass")
    starting = asyncio.create_task(start(load))
    async with asyncio.timeout(5 * patience()):
        first = await anext(load.intervals())
    assert first.state == "preparing"
    [pid] = load.pids
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert load.pids == []
    assert not is_running(pid)


async def test_asking_without_a_load_is_an_error() -> None:
    with pytest.raises(UsageError, match="no load"):
        await LoadGroup().change(SETTINGS)
    await LoadGroup().stop()


def test_the_target_hides_its_password() -> None:
    assert TARGET.password not in f"{TARGET!r} {TARGET}"


class Several:
    """A load of several children, what they were told, and their processes; of one that is refused."""

    def __init__(self, directory: Path, *commits: int, ahead_s: float = 0.0, refused: int = -1) -> None:
        self.made: list[LocalProcess] = []
        self._told = directory / "told"
        self._bodies = [
            ONE_OF_SEVERAL.format((ahead_s, LENGTH_S, each, refused == at, str(self._told)))
            for at, each in enumerate(commits)
        ]
        self.load = LoadGroup(place=LoadPlace(self._launch, ahead_s=ahead_s))

    async def _launch(self) -> LocalProcess:
        process = await a_place(self._bodies[len(self.made)]).launch()
        assert isinstance(process, LocalProcess)
        self.made.append(process)
        return process

    async def start(self, processes: int, clients: int = 7) -> None:
        settings = LoadSettings(clients, "insert", processes=processes, mode="open", rate_tps=100.1)
        await self.load.start(TARGET, settings, interval_s=LENGTH_S)

    def told(self) -> list[tuple[float, dict[str, float]]]:
        """When each child was told to begin, by our clock, and what its part is."""
        return [tuple(json.loads(line)) for line in self._told.read_text().splitlines()]


async def test_all_begin_at_one_moment_once_all_are_ready_and_share_clients_and_rate(
    tmp_path: Path, snapshot: object
) -> None:
    """By the clock of their host, which is ahead of ours."""
    several, before_s = Several(tmp_path, 5, 3, 2, ahead_s=4321.5), time.monotonic()
    await several.start(3)
    begins, parts = zip(*several.told(), strict=True)
    assert begins == pytest.approx([begins[0]] * 3, abs=1e-6)
    assert begins[0] > before_s
    assert [part["clients"] for part in sorted(parts, key=lambda part: part["phase"])] == [3, 2, 2]
    assert sum(part["share"] for part in parts) == pytest.approx(1.0)
    preparing, *running = await rest(several.load)
    assert {(each.state, each.processes) for each in running} == {("running", 3)}
    total = reduce(Interval.followed_by, running)
    work = [(each.number, each.clients, each.commits) for each in total.work]
    assert (preparing.state, total.clients, total.commits, work) == snapshot
    assert total.duration_s == pytest.approx(4 * LENGTH_S, abs=1e-5)
    assert total.cpu_percent == pytest.approx(90.0)


async def test_one_that_dies_ends_all_and_is_named_with_its_share(tmp_path: Path) -> None:
    several, found = Several(tmp_path, 5, 3), list[Interval]()
    await several.start(2)
    pids = several.load.pids

    async def kill_it_when_all_have_told() -> None:
        async for each in several.load.intervals():
            found.append(each)
            if sum(one.commits for one in found) == 24:
                os.kill(pids[1], signal.SIGKILL)

    with pytest.raises(LoadEnded) as caught:
        await asyncio.wait_for(kill_it_when_all_have_told(), 10 * patience())
    assert str(caught.value) == (
        "process 2 of 2, with 3 of the load's 7 clients, is gone, so the others were stopped"
        " (the load's process ended by itself (signal 9)): start the load again"
    )
    total = reduce(Interval.followed_by, found)
    assert [each.commits for each in total.work] == [16, 9], "what the other one counted last is there"
    assert not any(map(is_running, pids))
    assert await rest(several.load) == []


async def test_one_that_cannot_start_leaves_none(tmp_path: Path) -> None:
    """Of more processes than clients each has one."""
    several = Several(tmp_path, 5, 3, 2, refused=1)
    with pytest.raises(ServerUnreachable, match="away"):
        await several.start(9, clients=3)
    assert (several.load.pids, [is_running(each.pid) for each in several.made]) == ([], [False] * 3)


async def test_a_source_on_another_host_is_loaded_by_processes_there() -> None:
    """What was counted on the host of before comes first, and nothing is left there."""

    async def place(target: LoadTarget) -> LoadPlace:
        return a_place(OBEDIENT, target.host)

    load = LoadGroup(place=place)
    await load.spawn()
    here = await start(load)
    await load.move(TARGET)
    assert load.pids == [here]
    await load.move(LoadTarget("10.0.0.2", 3306, "sandbox", "s3cret-word", "tunnel"))
    there = load.pids[0]
    assert not is_running(here)
    assert [each.start_s for each in await rest(load)] == [1, 2, 3, 99, 1, 2, 99]
    assert not is_running(there)


# The load's reports never wait for a reader, and lose nothing meanwhile


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(descriptor)


async def read_until(descriptor: int, mark: bytes) -> list[dict[str, Any]]:
    """Lines from a pipe, until one has this mark."""
    os.set_blocking(descriptor, False)
    received = b""
    async with asyncio.timeout(5):
        while mark not in received or not received.endswith(b"\n"):
            try:
                received += os.read(descriptor, 1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0)
    return [json.loads(line) for line in received.splitlines()]


async def test_a_reader_that_stopped_gets_all_commits_merged(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    outbox = Outbox(writing, lambda: pytest.fail("nobody closed the pipe"))
    count, spread_us = 400, range(100, 40_000, 37)  # so many distinct latencies that a few lines fill a pipe
    for number in range(count):
        outbox.tell_interval(interval_of(number, spread_us, 1.0, errors=1))
    outbox.tell("done", id=1)
    lines = await read_until(reading, b'"end_s":400')
    intervals = [Interval.from_wire(line["interval"]) for line in lines if line["event"] == "interval"]
    assert 1 < len(intervals) < count
    assert sum(each.commits for each in intervals) == count * len(spread_us)
    assert sum(each.errors for each in intervals) == count
    assert [each.start_s for each in intervals[1:]] == [each.end_s for each in intervals[:-1]]
    assert {"event": "done", "id": 1} in lines
    await outbox.drain()


async def test_a_reader_that_went_ends_the_load(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    closed: list[bool] = []
    outbox = Outbox(writing, lambda: closed.append(True))
    os.close(reading)
    outbox.tell("done", id=1)
    assert closed == [True]


async def test_progress_that_nobody_reads_is_bounded(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    outbox = Outbox(writing, lambda: None)
    for number in range(20_000):
        outbox.tell("progress", text=f"{number}".rjust(100), done=None)
    assert len(await read_until(reading, b" 19999")) < 2_000

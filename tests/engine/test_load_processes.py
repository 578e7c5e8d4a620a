"""The app's end of the load, against small children that speak its protocol, one and several."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.load import LoadEnded, LoadGroup, LoadPlace, LocalProcess
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.stats.histogram import Histogram
from replexplorer.generator.tally import Outbox
from replexplorer.ports import LoadSettings, LoadTarget, Reporter
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


def a_load(body: str, report: Reporter | None = None) -> LoadGroup:
    """A load of one such child."""
    launch = partial(LocalProcess.start, (sys.executable, "-c", PRELUDE + body))
    return LoadGroup(report, LoadPlace(launch, cores=1))


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


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"code": "refused", "number": 1290, "message": "1290 read-only"}, ServerRefused),
        ({"code": "unreachable", "number": None, "message": "no server"}, ServerUnreachable),
        ({"code": "error", "number": None, "message": "odd"}, ReplexplorerError),
    ],
)
async def test_a_refused_start_raises_the_child_s_error_and_leaves_nothing(
    answer: dict[str, object], expected: type[ReplexplorerError]
) -> None:
    load = a_load(
        f"for command in commands(): tell(event='failed', id=command['id'], hint='look', **{answer!r})"
    )
    with pytest.raises(expected) as caught:
        await start(load)
    assert str(caught.value) == f"{answer['message']}: look"
    if isinstance(caught.value, ServerRefused):
        assert caught.value.number == 1290
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
    """A load of several children, what they were told, and their processes."""

    def __init__(
        self, directory: Path, commits: Sequence[int], *, ahead_s: float = 0.0, refusing: int | None = None
    ) -> None:
        self.made: list[LocalProcess] = []
        self._told = directory / "told"
        self._bodies = [
            ONE_OF_SEVERAL.format((ahead_s, LENGTH_S, each, refusing == at, str(self._told)))
            for at, each in enumerate(commits)
        ]
        self.load = LoadGroup(place=LoadPlace(self._launch, ahead_s=ahead_s))

    async def _launch(self) -> LocalProcess:
        body = PRELUDE + self._bodies[len(self.made)]
        self.made.append(await LocalProcess.start((sys.executable, "-c", body)))
        return self.made[-1]

    async def start(self, processes: int, clients: int = 7, **more: object) -> None:
        settings = LoadSettings(clients, "insert", processes=processes, **more)  # type: ignore[arg-type]
        await self.load.start(TARGET, settings, interval_s=LENGTH_S)

    def told(self) -> list[tuple[float, dict[str, float]]]:
        """When each child was told to begin, by our clock, and what its part is."""
        return [tuple(json.loads(line)) for line in self._told.read_text().splitlines()]


@pytest.mark.parametrize("ahead_s", [0.0, 4321.5])
async def test_all_begin_at_one_moment_once_all_are_ready(tmp_path: Path, ahead_s: float) -> None:
    several, before_s = Several(tmp_path, [5, 3, 2], ahead_s=ahead_s), time.monotonic()
    await several.start(3)
    begins = [at_s for at_s, _ in several.told()]
    assert begins == pytest.approx([begins[0]] * 3, abs=1e-6)
    assert begins[0] > before_s
    found = await rest(several.load)
    assert [each.state for each in found][:2] == ["preparing", "running"]
    running = found[1:]
    assert {each.processes for each in running} == {3}
    total = reduce(Interval.followed_by, running)
    assert total.commits == 3 * (5 + 3 + 2) + 3
    assert total.duration_s == pytest.approx(4 * LENGTH_S, abs=1e-5)
    assert [(each.number, each.clients, each.commits) for each in total.work] == [
        (1, 3, 16), (2, 2, 10), (3, 2, 7),
    ]  # fmt: skip
    assert total.clients == 7
    assert total.cpu_percent == pytest.approx(90.0)


async def test_one_that_dies_ends_all_and_is_named_with_its_share(tmp_path: Path) -> None:
    several, found = Several(tmp_path, [5, 3]), list[Interval]()
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
    several = Several(tmp_path, [5, 3, 2], refusing=1)
    with pytest.raises(ServerUnreachable, match="away"):
        await several.start(3)
    assert several.load.pids == []
    assert not any(is_running(each.pid) for each in several.made)


async def test_the_rate_of_all_is_the_rate_asked_for(tmp_path: Path) -> None:
    several = Several(tmp_path, [1, 1, 1])
    await several.start(3, mode="open", rate_tps=100.1)
    parts = sorted((part for _, part in several.told()), key=lambda part: part["phase"])
    assert [part["clients"] for part in parts] == [3, 2, 2]
    assert sum(part["share"] for part in parts) == pytest.approx(1.0)
    await several.load.stop()


async def test_a_process_more_than_clients_is_not_made(tmp_path: Path) -> None:
    several = Several(tmp_path, [5, 3, 2])
    await several.start(3, clients=2)
    assert len(several.made) == 2
    await several.load.stop()


async def test_a_source_on_another_host_is_loaded_by_processes_there() -> None:
    """What was counted on the host of before comes first, and nothing is left there."""
    pids: list[int] = []

    async def launch() -> LocalProcess:
        process = await LocalProcess.start((sys.executable, "-c", PRELUDE + OBEDIENT))
        pids.append(process.pid)
        return process

    async def place(target: LoadTarget) -> LoadPlace:
        return LoadPlace(launch, cores=1, host=target.host)

    load = LoadGroup(place=place)
    await load.spawn()
    assert pids == []
    await load.start(TARGET, SETTINGS, interval_s=0.5)
    await load.move(TARGET)
    assert len(pids) == 1
    await load.move(LoadTarget("10.0.0.2", 3306, "sandbox", "s3cret-word", "tunnel"))
    assert not is_running(pids[0])
    assert [each.start_s for each in await rest(load)] == [1, 2, 3, 99, 1, 2, 99]
    assert not is_running(pids[1])


# The load's reports never wait for a reader, and lose nothing meanwhile

SPREAD_US = range(100, 40_000, 37)
"""So many distinct latencies that a few lines fill a pipe."""


def an_interval(number: int) -> Interval:
    service = Histogram.of(SPREAD_US)
    return Interval(number, number + 1, service, 1, 0, 0, 4, 4, "insert")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


async def read_until(descriptor: int, enough: Any) -> list[dict[str, Any]]:
    """Lines from a pipe until `enough` of them."""
    os.set_blocking(descriptor, False)
    received = b""
    async with asyncio.timeout(5):
        while True:
            try:
                received += os.read(descriptor, 1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0)
            lines = [json.loads(line) for line in received.split(b"\n")[:-1]]
            if enough(lines):
                return lines


async def test_a_reader_that_stopped_gets_all_commits_merged(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    outbox = Outbox(writing, lambda: pytest.fail("nobody closed the pipe"))
    count = 400
    for number in range(count):
        outbox.tell_interval(an_interval(number))
    outbox.tell("done", id=1)

    lines = await read_until(
        reading,
        lambda lines: any(
            line["event"] == "interval" and line["interval"]["end_s"] == count for line in lines
        ),
    )

    intervals = [Interval.from_wire(line["interval"]) for line in lines if line["event"] == "interval"]
    assert 1 < len(intervals) < count
    assert sum(each.commits for each in intervals) == count * len(SPREAD_US)
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
    last = await read_until(reading, lambda lines: lines and lines[-1]["text"].strip() == "19999")
    assert len(last) < 2_000

"""The app's end of the load process, against small children that speak its protocol."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable

import pytest

from replexplorer.adapters.load_process import LoadChild, LoadEnded
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, UsageError
from replexplorer.ports import LoadSettings, LoadTarget

TARGET = LoadTarget("127.0.0.1", 3306, "sandbox", "s3cret-word", "direct")
SETTINGS = LoadSettings(clients=2, workload="update_index")

PRELUDE = """
import json, sys, time
def tell(**event):
    print(json.dumps(event), flush=True)
def interval(number, commits=3, **more):
    wire = dict(start_s=number, end_s=number + 1, errors=0, unknown=0, reconnects=0, clients=2, connected=2,
        workload="update_index", cpu_percent=1.0, lateness_p99_ms=0.1,
        service=dict(slots=[100], counts=[commits], sum_us=100 * commits, min_us=100, max_us=100))
    tell(event="interval", interval=wire | more)
def commands():
    for line in sys.stdin:
        yield json.loads(line)
"""
OBEDIENT = """
for command in commands():
    tell(event="progress", text="preparing table sbtest1", done=0.5)
    tell(event="done", id=command["id"])
    interval(command["id"])
interval(99, commits=1)
"""


def a_child(body: str, report: Callable[[str, float | None], None] | None = None) -> LoadChild:
    return LoadChild(report, (sys.executable, "-c", PRELUDE + body))


def is_running(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_start_change_and_stop_with_every_interval_in_order() -> None:
    told: list[tuple[str, float | None]] = []
    child = a_child(OBEDIENT, lambda text, done: told.append((text, done)))
    await child.start(TARGET, SETTINGS, interval_s=0.5)
    pid = child.pid
    await child.change(SETTINGS)
    await child.stop()
    intervals = [each async for each in child.intervals()]
    assert [each.start_s for each in intervals] == [1, 2, 99]
    assert [each.commits for each in intervals] == [3, 3, 1]
    assert told == [("preparing table sbtest1", 0.5)] * 2
    assert pid is not None
    assert not is_running(pid)


async def test_it_can_be_started_again() -> None:
    child = a_child(OBEDIENT)
    for _ in range(2):
        await child.start(TARGET, SETTINGS, interval_s=0.5)
        await child.stop()
        assert [each.start_s async for each in child.intervals()][-1] == 99


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"code": "refused", "number": 1290, "message": "1290 read-only"}, ServerRefused),
        ({"code": "unreachable", "number": None, "message": "no server"}, ServerUnreachable),
        ({"code": "usage", "number": None, "message": "no workload"}, UsageError),
        ({"code": "error", "number": None, "message": "odd"}, ReplexplorerError),
    ],
)
async def test_a_refused_start_raises_the_child_s_error_and_leaves_nothing(
    answer: dict[str, object], expected: type[ReplexplorerError]
) -> None:
    child = a_child(
        f"for command in commands(): tell(event='failed', id=command['id'], hint='look', **{answer!r})"
    )
    with pytest.raises(expected) as caught:
        await child.start(TARGET, SETTINGS, interval_s=0.5)
    assert str(caught.value) == f"{answer['message']}: look"
    if isinstance(caught.value, ServerRefused):
        assert caught.value.number == 1290
    assert child.pid is None


async def test_a_refused_change_leaves_the_load_running() -> None:
    child = a_child(
        """
for command in commands():
    if command["do"] == "change":
        tell(event="failed", id=command["id"], code="unreachable", number=None, message="away", hint="")
    else:
        tell(event="done", id=command["id"])
    interval(command["id"])
"""
    )
    await child.start(TARGET, SETTINGS, interval_s=0.5)
    with pytest.raises(ServerUnreachable):
        await child.change(SETTINGS)
    await child.stop()
    assert [each.start_s async for each in child.intervals()] == [1, 2]


async def test_a_child_that_dies_ends_everything_with_its_last_words() -> None:
    child = a_child(
        """
for command in commands():
    if command["do"] == "start":
        tell(event="done", id=command["id"])
        interval(1)
    else:
        sys.exit("MemoryError: the machine is full")
"""
    )
    await child.start(TARGET, SETTINGS, interval_s=0.5)
    with pytest.raises(LoadEnded, match="MemoryError: the machine is full"):
        await child.change(SETTINGS)
    intervals = child.intervals()
    assert (await anext(intervals)).start_s == 1
    with pytest.raises(LoadEnded, match="ended by itself"):
        await anext(intervals)
    with pytest.raises(LoadEnded):
        await child.change(SETTINGS)
    await child.stop()


async def test_a_child_that_writes_nonsense_is_ended() -> None:
    child = a_child("print('hello', flush=True)\nfor command in commands(): pass")
    with pytest.raises(LoadEnded, match="no report"):
        await child.start(TARGET, SETTINGS, interval_s=0.5)
    assert child.pid is None


async def test_a_child_that_does_not_end_is_killed() -> None:
    child = a_child(
        """
for command in commands():
    tell(event="done", id=command["id"])
time.sleep(60)
"""
    )
    await child.start(TARGET, SETTINGS, interval_s=0.5)
    pid = child.pid
    started_s = time.monotonic()
    await child.stop()
    assert time.monotonic() - started_s < 4
    assert pid is not None
    assert not is_running(pid)
    assert [each async for each in child.intervals()] == []


async def test_a_cancelled_start_leaves_no_process() -> None:
    spoke = asyncio.Event()
    child = a_child(
        "tell(event='progress', text='x', done=None)\nfor command in commands(): pass",
        lambda text, done: spoke.set(),
    )
    starting = asyncio.create_task(child.start(TARGET, SETTINGS, interval_s=0.5))
    await asyncio.wait_for(spoke.wait(), 5)
    pid = child.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert child.pid is None
    assert pid is not None
    assert not is_running(pid)


async def test_intervals_can_be_read_while_the_start_still_waits() -> None:
    child = a_child("interval(7, state='preparing')\nfor command in commands(): pass")
    starting = asyncio.create_task(child.start(TARGET, SETTINGS, interval_s=0.5))
    async with asyncio.timeout(5):
        first = await anext(child.intervals())
    assert first.state == "preparing"
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_consumer_that_sleeps_loses_no_commit() -> None:
    child = a_child(
        """
for command in commands():
    for number in range(1000):
        interval(number)
    tell(event="done", id=command["id"])
"""
    )
    await child.start(TARGET, SETTINGS, interval_s=0.5)
    await child.stop()
    intervals = [each async for each in child.intervals()]
    assert len(intervals) <= 240
    assert sum(each.commits for each in intervals) == 3000
    assert (intervals[0].start_s, intervals[-1].end_s) == (0, 1000)


async def test_asking_without_a_load_is_an_error() -> None:
    with pytest.raises(UsageError, match="no load"):
        await LoadChild().change(SETTINGS)
    await LoadChild().stop()


def test_the_target_hides_its_password() -> None:
    assert TARGET.password not in f"{TARGET!r} {TARGET}"

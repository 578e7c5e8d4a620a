"""The load's reports never wait for a reader, and lose nothing meanwhile."""

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from replexplorer.core.load.interval import Interval
from replexplorer.core.stats.histogram import Histogram
from replexplorer.generator.tally import Outbox

pytestmark = pytest.mark.real_time

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
    await outbox.drain(5)


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

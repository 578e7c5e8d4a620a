"""Several load processes as one load, against small children that speak their protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import reduce
from operator import add

import pytest

from replexplorer.adapters.load_group import LoadGroup, Make
from replexplorer.adapters.load_process import LoadChild, LoadEnded
from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.load.interval import Interval
from replexplorer.ports import LoadSettings, LoadTarget, Report
from tests.fakes.world import tasks_left
from tests.waiting import patience

TARGET = LoadTarget("127.0.0.1", 3306, "sandbox", "s3cret-word", "direct")
LENGTH_S = 0.1

CHILD = """
import json, sys
AHEAD_S = {ahead_s}
at_s, part = 1.0, dict(clients=0)
def tell(**event):
    print(json.dumps(event), flush=True)
def interval(start_s, commits, state="running"):
    service = dict(slots=[100], counts=[commits], sum_us=100 * commits, min_us=100, max_us=100)
    tell(event="interval", interval=dict(start_s=start_s, end_s=start_s + {length_s}, errors=0, unknown=0,
        reconnects=0, clients=part["clients"], connected=part["clients"], workload="insert",
        cpu_percent=30.0, lateness_p99_ms=0.1, state=state, service=service))
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "start":
        part = command["part"]
        if {refuses}:
            tell(event="failed", id=command["id"], code="unreachable", message="away", hint="", number=None)
            continue
        if part["leads"]:
            interval(1.0 + AHEAD_S, 0, "preparing")
        tell(event="done", id=command["id"], origin_s=50.0 + AHEAD_S)
    if command["do"] == "go":
        at_s = command["at_s"]
        tell(event="progress", text=json.dumps([at_s - AHEAD_S, part]), done=None)
        for number in range(3):
            interval(at_s + number * {length_s}, {commits})
        tell(event="done", id=command["id"], origin_s=at_s)
    if command["do"] == "drain":
        tell(event="done", id=command["id"], origin_s=0.0)
if not {refuses}:
    interval(at_s + 3 * {length_s}, 1)
"""


class Bench:
    """A group of such children, the first one's answers to its report."""

    def __init__(self, commits: Sequence[int], *, ahead_s: float = 0.0, refusing: int | None = None) -> None:
        self.told: list[str] = []
        self.children: list[LoadChild] = []
        self._commits = commits
        self._ahead_s = ahead_s
        self._refusing = refusing
        make: Make = self._make
        self.group = LoadGroup(make=make)

    def _make(self, report: Report | None) -> LoadChild:
        at = len(self.children)
        ahead_s = self._ahead_s if at else 0.0
        body = CHILD.format(
            ahead_s=ahead_s, length_s=LENGTH_S, commits=self._commits[at], refuses=self._refusing == at
        )
        child = LoadChild(
            lambda text, _: self.told.append(text), (sys.executable, "-c", body), ahead_s=ahead_s
        )
        self.children.append(child)
        return child

    async def start(self, settings: LoadSettings) -> None:
        await self.group.start(TARGET, settings, interval_s=LENGTH_S)

    async def stop(self) -> list[Interval]:
        await self.group.stop()
        return [each async for each in self.group.intervals()]


def settings(processes: int, clients: int = 7) -> LoadSettings:
    return LoadSettings(clients, "insert", processes=processes)


async def test_all_begin_at_one_moment_once_all_are_ready() -> None:
    bench, before_s = Bench([5, 3, 2]), time.monotonic()
    await bench.start(settings(3))
    begins = {json.loads(text)[0] for text in bench.told}
    assert len(bench.told) == 3
    assert len(begins) == 1
    assert begins.pop() > before_s
    found = await bench.stop()
    assert [each.state for each in found][:2] == ["preparing", "running"]
    running = found[1:]
    assert {each.processes for each in running} == {3}
    total = reduce(Interval.followed_by, running)
    assert total.commits == 3 * (5 + 3 + 2) + 3
    assert total.duration_s == pytest.approx(4 * LENGTH_S)
    assert [(each.clients, each.commits) for each in total.work] == [(3, 16), (2, 10), (2, 7)]
    assert total.clients == 7
    assert total.cpu_percent == pytest.approx(90.0)
    assert tasks_left() == []


async def test_a_host_whose_clock_is_ahead_begins_at_the_same_moment() -> None:
    bench = Bench([5, 3], ahead_s=4321.5)
    await bench.start(LoadSettings(4, "insert", processes=2))
    begins = [json.loads(text)[0] for text in bench.told]
    assert begins[0] == pytest.approx(begins[1], abs=1e-6)
    running = (await bench.stop())[1:]
    total = reduce(Interval.followed_by, running)
    assert {each.processes for each in running} == {2}
    assert total.duration_s == pytest.approx(4 * LENGTH_S, abs=1e-5)
    assert [(each.number, each.commits) for each in total.work] == [(1, 16), (2, 10)]


async def test_one_that_dies_ends_all_and_is_named_with_its_share() -> None:
    bench = Bench([5, 3])
    await bench.start(settings(2))
    pids = bench.group.pids
    found: list[Interval] = []

    async def kill_it_when_all_have_told() -> None:
        async for each in bench.group.intervals():
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
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert await bench.stop() == []
    assert tasks_left() == []


async def test_one_that_cannot_start_leaves_none() -> None:
    bench = Bench([5, 3, 2], refusing=1)
    with pytest.raises(ServerUnreachable, match="away"):
        await bench.start(settings(3))
    assert bench.group.pids == []
    assert all(child.pid is None for child in bench.children)
    assert tasks_left() == []


async def test_the_rate_of_all_is_the_rate_asked_for() -> None:
    bench = Bench([1, 1, 1])
    asked = LoadSettings(7, "insert", mode="open", rate_tps=100.1, processes=3)
    await bench.start(asked)
    parts = sorted((json.loads(text)[1] for text in bench.told), key=lambda part: part["phase"])
    assert [part["clients"] for part in parts] == [3, 2, 2]
    assert reduce(add, (part["rate_tps"] for part in parts)) == 100.1
    await bench.stop()


async def test_a_process_more_than_clients_is_not_made_for_the_background_load() -> None:
    bench = Bench([5, 3, 2])
    await bench.start(settings(3, clients=2))
    assert len(bench.children) == 2
    await bench.stop()

"""A link that goes down and up: its phases, and the agent that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from replexplorer.core.wire import Flap, Malformed, Shape
from tests.fakes.clock import virtual
from tests.sidecar import load
from tests.typed import fields, table_of

links, tool = load("links"), load("tool")
PEER, ADDRESS = "db2", "172.18.0.3"


def test_a_flap_that_never_rests_is_refused() -> None:
    for down_s, up_s in ((0.0, 2.0), (2.0, 0.0), (-1.0, 2.0), (0.05, 0.05)):
        with pytest.raises(Malformed, match=r"at least 0\.1"):
            Flap(down_s, up_s, 0.0)


class RecordingBackend:
    """What is in force by address, and when it was cut and opened."""

    name, reason, holds = "nfqueue", "for a test", "received"

    def __init__(self) -> None:
        self.rules: dict[str, Any] = {}
        self.turns: list[tuple[float, bool]] = []
        self.refusals = 0

    async def shape(self, address: str, shape: Any) -> None:
        """Put it in force, or refuse."""
        if self.refusals:
            self.refusals -= 1
            raise tool.Refused("not now")
        was = self.rules.pop(address, Shape()).cut
        if shape is not None:
            self.rules[address] = shape
        if (shape or Shape()).cut != was:
            self.turns.append((round(asyncio.get_running_loop().time(), 2), not was))

    async def stats(self, address: str) -> dict[str, int]:
        """No packet is counted."""
        return dict.fromkeys(("packets", "dropped", "lost", "held"), 0)


class LoopTime:
    """`time`, on the loop's own clock."""

    @staticmethod
    def time() -> float:
        return asyncio.get_running_loop().time()

    monotonic = time

    @staticmethod
    def time_ns() -> int:
        return round(LoopTime.time() * 1e9)


@contextmanager
def agent(backend: RecordingBackend) -> Iterator[Any]:
    """An agent's links on a backend that is ready."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(links.probe, "Socket", Mock)  # it neither sends nor hears
        patched.setattr(links, "time", LoopTime)
        ours = links.Links()
        ours._backend = backend
        ours._ready.set()
        try:
            yield ours
        finally:
            for task in ours._tasks:
                task.cancel()


@virtual
async def test_an_agent_cuts_and_opens_by_the_clock_until_it_is_told_to_stop() -> None:
    backend = RecordingBackend()
    with agent(backend) as ours:
        await asyncio.sleep(1.0)
        state = await ours.flap(PEER, ADDRESS, Flap(2.0, 3.0, 1.0))
        assert (state.is_down, state.flap, state.shape.cut) == (True, Flap(2.0, 3.0, 1.0), False)
        await asyncio.sleep(9.0)
        assert backend.turns == [(1.0, True), (3.0, False), (6.0, True), (8.0, False)]
        assert backend.rules[ADDRESS] == Shape(), "the rule stays while it is up"
        state = await ours.flap(PEER, ADDRESS, None)
        assert (state.is_down, state.flap) == (False, None)
        await asyncio.sleep(20.0)
        assert len(backend.turns) == 4
        assert backend.rules == {}
        await ours.flap(PEER, ADDRESS, Flap(2.0, 3.0, 30.0))
        assert backend.rules[ADDRESS].cut
        await ours.flap(PEER, ADDRESS, None)
        assert backend.rules == {}, "one that is told to stop while it is down opens"


@virtual
async def test_what_knobs_ask_of_the_link_is_kept_through_cuts_and_a_refused_one_is_tried_again() -> None:
    backend = RecordingBackend()
    with agent(backend) as ours:
        await ours.flap(PEER, ADDRESS, Flap(2.0, 2.0, 0.0))
        await ours.set(PEER, ADDRESS, Shape(loss_percent=5.0))
        assert backend.rules[ADDRESS] == Shape(loss_percent=5.0, cut=True)
        backend.refusals = 1
        await asyncio.sleep(3.0)
        assert backend.rules[ADDRESS] == Shape(loss_percent=5.0)
        assert backend.turns == [(0.0, True), (2.5, False)]
        await ours.set(PEER, ADDRESS, Shape(cut=True))
        await asyncio.sleep(20.0)
        assert backend.rules[ADDRESS] == Shape(cut=True), "a partition stays whatever the flap does"
        await ours.flap(PEER, ADDRESS, None)
        assert backend.rules[ADDRESS] == Shape(cut=True)


COUNTED = """\
packets=5 dropped=1 held=3                    |
packets=9 dropped=4 held=0                    | loses, on a kernel that does not tell drops apart
packets=2 dropped=0 held=0                    | another rule
                                              |
packets=1 dropped=0 lost=1 strangers=0 held=0 | loses
"""


def test_packets_are_counted_over_rules_that_come_and_go() -> None:
    counts = links.Counts()
    for said, loses in table_of(COUNTED):
        counts.take(fields(said), loses="loses" in loses)
    assert counts.total == {"packets": 12, "dropped": 1, "lost": 4, "strangers": 0}

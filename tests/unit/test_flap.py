"""A link that goes down and up: its phases, and the agent that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core import wire
from replexplorer.core.wire import Flap, Malformed
from tests.fakes.clock import virtual
from tests.sidecar import load
from tests.typed import fields, values_of

links, tool = load("links"), load("tool")
Shape = wire.Shape
PEER, ADDRESS = "db2", "172.18.0.3"


PHASES = """\
100.0  (True,2.0)
102.0  (False,3.0)
99.0   (False,1.0)
1105.5 (True,1.5)
"""
"""What the clock says, whether it is down, and for how long still."""


def test_the_phase_follows_from_the_clock_alone() -> None:
    for wall_s, phase in values_of(PHASES):
        assert Flap(2.0, 3.0, 100.0).phase(wall_s) == pytest.approx(phase)


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0, 2e9), st.floats(0, 2e9))
def test_a_phase_lasts_until_the_other_begins(
    down_s: float, up_s: float, since_s: float, now_s: float
) -> None:
    flap = Flap(down_s, up_s, since_s)
    is_down, rest_s = flap.phase(now_s)
    assert 0 < rest_s <= (down_s if is_down else up_s) + 1e-6
    middle_s = (up_s if is_down else down_s) / 2
    assert flap.phase(now_s + rest_s + middle_s)[0] is not is_down


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
        was = address in self.rules and self.rules[address].cut
        if shape is None:
            self.rules.pop(address, None)
        else:
            self.rules[address] = shape
        cut = shape is not None and shape.cut
        if cut != was:
            self.turns.append((round(asyncio.get_running_loop().time(), 2), cut))

    async def stats(self, address: str) -> dict[str, int]:
        """No packet is counted."""
        return dict.fromkeys(("packets", "dropped", "lost", "held"), 0)

    async def close(self) -> None:
        """Nothing is left."""
        self.rules.clear()


class Deaf:
    """A probe's socket that neither sends nor hears."""

    def ask(self, number: int, address: str) -> None:
        """Nobody is asked."""


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
        patched.setattr(links.probe, "Socket", Deaf)
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
        state = await ours.flap(PEER, ADDRESS, wire.Flap(2.0, 3.0, 1.0))
        assert state.is_down is True
        assert state.flap == wire.Flap(2.0, 3.0, 1.0)
        assert not state.shape.cut, "the shape is what the knobs ask"
        await asyncio.sleep(9.0)
        assert backend.turns == [(1.0, True), (3.0, False), (6.0, True), (8.0, False)]
        assert backend.rules[ADDRESS] == Shape(), "the rule stays while it is up"
        state = await ours.flap(PEER, ADDRESS, None)
        assert state.is_down is False
        assert state.flap is None
        await asyncio.sleep(20.0)
        assert len(backend.turns) == 4
        assert backend.rules == {}
        await ours.flap(PEER, ADDRESS, wire.Flap(2.0, 3.0, 30.0))
        assert backend.rules[ADDRESS].cut
        await ours.flap(PEER, ADDRESS, None)
        assert backend.rules == {}, "one that is told to stop while it is down opens"


@virtual
async def test_what_knobs_ask_of_the_link_meanwhile_is_kept_through_cuts() -> None:
    backend = RecordingBackend()
    with agent(backend) as ours:
        await ours.flap(PEER, ADDRESS, wire.Flap(2.0, 2.0, 0.0))
        await ours.set(PEER, ADDRESS, Shape(loss_percent=5.0))
        assert backend.rules[ADDRESS] == Shape(loss_percent=5.0, cut=True)
        await asyncio.sleep(3.0)
        assert backend.rules[ADDRESS] == Shape(loss_percent=5.0)
        await ours.set(PEER, ADDRESS, Shape(cut=True))
        await asyncio.sleep(20.0)
        assert backend.rules[ADDRESS] == Shape(cut=True), "a partition stays whatever the flap does"
        await ours.flap(PEER, ADDRESS, None)
        assert backend.rules[ADDRESS] == Shape(cut=True)


@virtual
async def test_a_refused_cut_is_tried_again() -> None:
    backend = RecordingBackend()
    with agent(backend) as ours:
        await ours.flap(PEER, ADDRESS, wire.Flap(2.0, 2.0, 0.0))
        backend.refusals = 1
        await asyncio.sleep(3.0)
        assert backend.turns == [(0.0, True), (2.5, False)]


COUNTED = """\
packets=5 dropped=1 held=3                    |
packets=9 dropped=4 held=0                    | loses, on a kernel that does not tell drops apart
packets=2 dropped=0 held=0                    | another rule
                                              |
packets=1 dropped=0 lost=1 strangers=0 held=0 | loses
"""


def test_packets_are_counted_over_rules_that_come_and_go() -> None:
    counts = links.Counts()
    for line in COUNTED.splitlines():
        said, loses = line.split("|")
        counts.take(fields(said), loses="loses" in loses)
    assert counts.total == {"packets": 12, "dropped": 1, "lost": 4, "strangers": 0}

"""The law of the packet loop in C, called as a library: who leaves when, and who is lost."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sidecar import DIRECTORY
from tests.typed import table_of

SOURCE = DIRECTORY / "delayqueue.c"
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")

LONGEST_QUEUE = 100_000
NEVER_NS = 2**63 - 1

TYPES: dict[str, Any] = {
    "nothing": None, "bool": ctypes.c_bool, "double": ctypes.c_double, "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64, "ns": ctypes.c_int64,
}  # fmt: skip


def struct(fields: str) -> Any:
    """`last_id uint32, lost uint32`: a struct of C."""
    pairs = [each.split() for each in fields.split(", ")]
    return type("Struct", (ctypes.Structure,), {"_fields_": [(name, TYPES[kind]) for name, kind in pairs]})


CShape = struct("hold_ns ns, jitter_ns ns, loss double, bandwidth_bps uint64, cut bool")
CRun = struct("last_id uint32, lost uint32")
TYPES |= {
    "shape": ctypes.POINTER(CShape),
    "runs": ctypes.POINTER(CRun),
    "group": struct("leaves_ns ns, last_due_ns ns"),
}
FUNCTIONS = """\
held_start    nothing uint64
held_end      nothing
held_came     bool    uint32 uint32 ns
held_reshape  nothing shape ns
held_next     group
held_release  uint32  ns runs uint32
"""
"""What each answers and takes, behind the memory that it works on."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = tmp_path_factory.mktemp("delayqueue") / "delayqueue.so"
    flags = (
        "-std=c17 -O2 -Wall -Wextra -Werror -fsanitize=undefined -fsanitize-undefined-trap-on-error"
        " -shared -fPIC -DDELAYQUEUE_TEST"
    )
    subprocess.run([str(COMPILER), *flags.split(), "-o", target, SOURCE, "-lm"], check=True)
    found = ctypes.CDLL(str(target))
    for name, answer, *arguments in table_of(FUNCTIONS, None):
        function = getattr(found, name)
        function.restype = TYPES[answer]
        function.argtypes = [ctypes.c_void_p, *(TYPES[each] for each in arguments)]
    return found


@dataclass
class Held:
    """The packets of one peer, through the library; ids are given from 1 on, as the kernel does."""

    library: Any
    memory: Any
    next_id: int = 1
    left_id: int = 0

    def came(self, now_ns: int, size: int = 86) -> int:
        assert self.library.held_came(self.memory, self.next_id, size, now_ns)
        self.next_id += 1
        return self.next_id - 1

    def reshape(self, now_ns: int, hold_ns: int = 0, **fields: Any) -> None:
        self.library.held_reshape(self.memory, CShape(hold_ns=hold_ns, **fields), now_ns)

    def release(self, now_ns: int, most: int = 8) -> list[tuple[int, bool]]:
        """What leaves by then, packet by packet: its id, and whether it is lost."""
        runs, left = (CRun * most)(), []
        while found := self.library.held_release(self.memory, now_ns, runs, most):
            for run in runs[:found]:
                left += [(number, bool(run.lost)) for number in range(self.left_id + 1, run.last_id + 1)]
                self.left_id = run.last_id
        return left

    def next(self) -> tuple[int, int]:
        """When the next ones leave, and when the last of them is due."""
        group = self.library.held_next(self.memory)
        return group.leaves_ns, group.last_due_ns

    def delays_ns(self, count: int, hold_ns: int, jitter_ns: int) -> list[int]:
        """Of as many packets, each alone."""
        self.reshape(0, hold_ns, jitter_ns=jitter_ns)
        found = []
        for came_ns in range(0, count * 10 * hold_ns, 10 * hold_ns):
            self.came(came_ns)
            found.append(self.next()[0] - came_ns)
            self.release(NEVER_NS)
        return found


@contextlib.contextmanager
def new_held(library: Any) -> Iterator[Held]:
    memory = ctypes.create_string_buffer(512)
    library.held_start(memory, 7)
    yield Held(library, memory)
    library.held_end(memory)


@pytest.fixture
def held(library: Any) -> Iterator[Held]:
    with new_held(library) as made:
        yield made


BANDWIDTHS_BPS = (0, 10**8, 10**9, 8 * 10**9)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["packet", "packet", "shape", "shape", "cut", "release"]),
        st.integers(0, 500),
        st.integers(60, 1500),
    ),
    max_size=80,
)


@given(steps=STEPS, most=st.integers(1, 8))
def test_packets_leave_in_order_only_those_of_a_cut_are_lost_and_none_is_early_or_late(
    library: Any, steps: list[tuple[str, int, int]], most: int
) -> None:
    """Against a model of the law, of which each packet is one line: id, when it came, size, when it leaves
    and whether it is lost; one that is lost leaves with the one before it, and takes no bandwidth."""
    with new_held(library) as held:
        now_ns, hold_ns, bandwidth_bps, last_due_ns, is_cut = 1000, 0, 0, 0, False
        waiting: list[list[int]] = []

        def due(came_ns: int, size: int, before_ns: int) -> int:
            wire_ns = size * 8 * 10**9 // bandwidth_bps if bandwidth_bps else 0
            return max(came_ns + hold_ns, before_ns) + wire_ns

        for step, amount, number in steps:
            if step in ("shape", "cut"):
                hold_ns, bandwidth_bps, is_cut = amount, BANDWIDTHS_BPS[number % 4], step == "cut"
                held.reshape(now_ns, hold_ns, bandwidth_bps=bandwidth_bps, cut=is_cut)
                before_ns = now_ns
                for packet in waiting:
                    sooner_ns = before_ns if packet[4] else due(packet[1], packet[2], before_ns)
                    packet[3] = before_ns = max(before_ns, min(packet[3], sooner_ns))
                last_due_ns = min(last_due_ns, before_ns)
                continue
            now_ns += amount // 10 if step == "packet" else amount * amount // 5
            if step == "packet":
                leaves_ns = waiting[-1][3] if waiting else now_ns
                if not is_cut:
                    leaves_ns = last_due_ns = due(now_ns, number, last_due_ns)
                waiting.append([held.came(now_ns, number), now_ns, number, leaves_ns, is_cut])
            gone = [(packet[0], packet[4]) for packet in waiting if packet[3] <= now_ns]
            assert held.release(now_ns, most) == gone
            del waiting[: len(gone)]
        for due_ns, together in itertools.groupby(waiting, lambda packet: packet[3]):
            assert held.release(due_ns - 1, most) == []
            assert held.release(due_ns, most) == [(packet[0], packet[4]) for packet in together]


def test_each_packet_is_lost_on_its_own_with_the_probability_asked(held: Held) -> None:
    share, count = 0.05, 50_000
    held.reshape(0, 5, loss=share)
    for now_ns in range(count):
        held.came(now_ns)
    lost = [is_lost for _, is_lost in held.release(NEVER_NS)]
    assert sum(lost) == pytest.approx(share * count, abs=5 * math.sqrt(count * share))
    in_a_row = sum(one and other for one, other in itertools.pairwise(lost))
    assert in_a_row == pytest.approx(share**2 * count, abs=6 * math.sqrt(count * share**2))


def test_jitter_is_normal_around_the_hold_and_never_more_than_it(held: Held) -> None:
    hold_ns, jitter_ns, count = 10_000_000, 1_000_000, 20_000
    delays_ns = held.delays_ns(count, hold_ns, jitter_ns)
    assert statistics.fmean(delays_ns) == pytest.approx(hold_ns, abs=5 * jitter_ns / math.sqrt(count))
    assert statistics.stdev(delays_ns) == pytest.approx(jitter_ns, rel=0.03)
    beyond = sum(abs(delay_ns - hold_ns) > 2 * jitter_ns for delay_ns in delays_ns)
    assert beyond / count == pytest.approx(0.0455, abs=0.008)
    assert abs(statistics.correlation(delays_ns[:-1], delays_ns[1:])) < 0.04
    bounded_ns = held.delays_ns(2000, 1000, 5000)
    assert (min(bounded_ns), max(bounded_ns)) == (0, 2000)


def test_jitter_keeps_the_order(held: Held) -> None:
    held.reshape(0, 1_000_000, jitter_ns=400_000)
    for now_ns in range(0, 20_000_000, 10_000):
        held.came(now_ns)
    left, leave_ns = [], []
    while held.left_id < 2000:
        leave_ns.append(held.next()[0])
        left += held.release(leave_ns[-1])
    assert left == [(number, False) for number in range(1, 2001)]
    assert leave_ns == sorted(leave_ns)


def test_neighbours_leave_together_and_are_moved_by_a_small_share_of_the_hold(held: Held) -> None:
    """Of at most 0.1 ms."""
    for hold_ns, slack_ns in ((64_000, 1000), (85_000_000, 100_000)):
        held.reshape(0, hold_ns)
        for now_ns in (0, slack_ns // 2, 2 * slack_ns, 2 * slack_ns + 1):
            held.came(now_ns)
        leaves_ns, last_ns = held.next()
        assert (leaves_ns, last_ns) == (hold_ns + slack_ns, hold_ns + 2 * slack_ns)
        assert len(held.release(last_ns)) == 3
        assert held.next() == (last_ns + 1, last_ns + 1)
        held.release(NEVER_NS)
    assert held.next() == (NEVER_NS, NEVER_NS)


def test_a_queue_grows_in_order_up_to_its_bound_and_takes_packets_again_when_it_has_room(held: Held) -> None:
    held.reshape(0, 10)
    for now_ns, count in ((0, 700), (10, LONGEST_QUEUE)):
        held.release(now_ns)
        for _ in range(count):
            held.came(now_ns)
    assert not held.library.held_came(held.memory, 0, 86, 10)
    left = held.release(20)
    assert left == [(number, False) for number in range(701, 701 + LONGEST_QUEUE)]
    held.came(20)
    assert len(held.release(NEVER_NS)) == 1

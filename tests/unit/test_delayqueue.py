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
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core import wire
from tests.sidecar import DIRECTORY, load
from tests.typed import table_of

queueing = load("queueing")

SOURCE = DIRECTORY / "delayqueue.c"
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")

NS, UINT32, UINT64 = ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64
NEVER_NS = 2**63 - 1
LONGEST_QUEUE = 100_000
SLACK_SHARE, MOST_SLACK_NS = 64, 100_000


class CShape(ctypes.Structure):
    _fields_ = [
        ("hold_ns", NS), ("jitter_ns", NS), ("loss", ctypes.c_double),
        ("bandwidth_bps", UINT64), ("cut", ctypes.c_bool),
    ]  # fmt: skip


class CRun(ctypes.Structure):
    _fields_ = [("last_id", UINT32), ("lost", UINT32)]


class CGroup(ctypes.Structure):
    _fields_ = [("leaves_ns", NS), ("last_due_ns", NS)]


TYPES: dict[str, Any] = {
    "nothing": None,
    "bool": ctypes.c_bool,
    "uint32": UINT32,
    "uint64": UINT64,
    "ns": NS,
    "shape": ctypes.POINTER(CShape),
    "group": CGroup,
    "runs": ctypes.POINTER(CRun),
}
FUNCTIONS = """\
held_start    nothing uint64
held_end      nothing
held_came     bool    uint32 uint32 ns
held_reshape  nothing shape ns
held_next     group
held_release  uint32  ns runs uint32
errors_add    nothing ns
errors_turn   nothing ns
errors_p99_ns ns
errors_total  uint64
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

    def next(self) -> CGroup:
        answer: CGroup = self.library.held_next(self.memory)
        return answer


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


BANDWIDTHS_BPS = st.sampled_from([0, 10**8, 10**9, 8 * 10**9])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("packet"), st.integers(0, 50), st.integers(60, 1500)),
        st.tuples(st.sampled_from(["shape", "shape", "cut"]), st.integers(0, 500), BANDWIDTHS_BPS),
        st.tuples(st.just("release"), st.sampled_from([0, 20, 50, 500, 5000, 50_000]), st.just(0)),
    ),
    max_size=80,
)


@given(steps=STEPS, most=st.integers(1, 8))
def test_packets_leave_in_order_only_those_of_a_cut_are_lost_and_none_is_early_or_late(
    library: Any, steps: list[tuple[str, int, int]], most: int
) -> None:
    """Against a model of the law, of which each packet is one line; one that is lost leaves with the one
    before it, and takes no bandwidth."""
    with new_held(library) as held:
        now_ns, hold_ns, bandwidth_bps, last_due_ns, is_cut = 1000, 0, 0, 0, False
        waiting: list[list[int]] = []

        def due(came_ns: int, size: int, before_ns: int) -> int:
            wire_ns = size * 8 * 10**9 // bandwidth_bps if bandwidth_bps else 0
            return max(came_ns + hold_ns, before_ns) + wire_ns

        for step, amount, number in steps:
            if step in ("shape", "cut"):
                hold_ns, bandwidth_bps, is_cut = amount, number, step == "cut"
                held.reshape(now_ns, hold_ns, bandwidth_bps=bandwidth_bps, cut=is_cut)
                before_ns = now_ns
                for packet in waiting:
                    sooner_ns = before_ns if packet[4] else due(packet[1], packet[2], before_ns)
                    packet[3] = before_ns = max(before_ns, min(packet[3], sooner_ns))
                last_due_ns = min(last_due_ns, before_ns)
                continue
            now_ns += amount
            if step == "packet":
                if is_cut:
                    leaves_ns = waiting[-1][3] if waiting else now_ns
                else:
                    leaves_ns = last_due_ns = due(now_ns, number, last_due_ns)
                waiting.append([held.came(now_ns, number), now_ns, number, leaves_ns, is_cut])
            gone = held.release(now_ns, most)
            assert gone == [(packet[0], packet[4]) for packet in waiting if packet[3] <= now_ns]
            waiting = [packet for packet in waiting if packet[3] > now_ns]
        for due_ns, together in itertools.groupby(waiting, lambda packet: packet[3]):
            assert held.release(due_ns - 1, most) == []
            assert held.release(due_ns, most) == [(packet[0], packet[4]) for packet in together]


def test_the_narrowest_link_keeps_a_packet_for_an_hour_at_most(held: Held) -> None:
    hour_ns = 3600 * 10**9
    held.reshape(0, 50, bandwidth_bps=1)
    for number in range(30_000):
        held.came(number, 1514)
    assert held.next().leaves_ns == hour_ns
    assert held.release(hour_ns + 29_998)[-1] == (29_999, False)
    assert held.next().leaves_ns == hour_ns + 29_999


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_each_packet_is_lost_on_its_own_with_the_probability_asked(held: Held, share: float) -> None:
    held.reshape(0, 5, loss=share)
    count, now_ns, fates = 50_000, 0, []
    for now_ns in range(count):
        held.came(now_ns)
        fates += held.release(now_ns)
    fates += held.release(count + 5)
    assert [number for number, _ in fates] == list(range(1, count + 1))
    lost = [lost for _, lost in fates]
    assert abs(sum(lost) - share * count) < 5 * math.sqrt(count * share * (1 - share))
    pairs = sum(one and other for one, other in itertools.pairwise(lost))
    assert abs(pairs - share**2 * count) < 6 * math.sqrt(count * share**2) + 1, "not in bursts"


def test_jitter_is_normal_around_the_hold(held: Held) -> None:
    hold_ns, jitter_ns, gap_ns = 10_000_000, 1_000_000, 100_000_000
    held.reshape(0, hold_ns, jitter_ns=jitter_ns)
    delays_ns = []
    for number in range(20_000):
        held.came(number * gap_ns)
        delays_ns.append(held.next().leaves_ns - number * gap_ns)
        held.release(NEVER_NS)
    assert statistics.fmean(delays_ns) == pytest.approx(hold_ns, abs=5 * jitter_ns / math.sqrt(20_000))
    assert statistics.stdev(delays_ns) == pytest.approx(jitter_ns, rel=0.03)
    beyond = sum(abs(delay_ns - hold_ns) > 2 * jitter_ns for delay_ns in delays_ns) / 20_000
    assert beyond == pytest.approx(0.0455, abs=0.008)
    neighbours = statistics.correlation(delays_ns[:-1], delays_ns[1:])
    assert abs(neighbours) < 0.04


def test_jitter_never_makes_a_delay_negative_or_more_than_twice_the_hold(held: Held) -> None:
    held.reshape(0, 1000, jitter_ns=5000)
    delays_ns = []
    for number in range(2000):
        held.came(number * 10_000)
        delays_ns.append(held.next().leaves_ns - number * 10_000)
        held.release(NEVER_NS)
    assert min(delays_ns) == 0
    assert max(delays_ns) == 2000


def test_jitter_keeps_the_order(held: Held) -> None:
    held.reshape(0, 1_000_000, jitter_ns=400_000)
    numbers, last_ns = [], 0
    for now_ns in range(0, 20_000_000, 10_000):
        held.came(now_ns)
    while held.left_id < held.next_id - 1:
        leaves_ns = held.next().leaves_ns
        assert leaves_ns >= last_ns
        last_ns = leaves_ns
        numbers += [number for number, _ in held.release(leaves_ns)]
    assert numbers == list(range(1, 2001))


def test_neighbours_leave_together_and_are_moved_by_no_more_than_the_slack(held: Held) -> None:
    hold_ns = 85_000_000
    held.reshape(0, hold_ns)
    for now_ns in (0, 60_000, 200_000, 200_001):
        held.came(now_ns)
    group = held.next()
    assert group.leaves_ns == hold_ns + 100_000
    assert group.last_due_ns == hold_ns + 200_000
    held.release(group.last_due_ns)
    alone = held.next()
    assert alone.leaves_ns == alone.last_due_ns == hold_ns + 200_001


@given(hold_us=st.integers(1, 200_000), gaps_us=st.lists(st.integers(0, 300), min_size=1, max_size=30))
def test_leaving_together_costs_a_small_share_of_the_hold(
    library: Any, hold_us: int, gaps_us: list[int]
) -> None:
    with new_held(library) as held:
        held.reshape(0, hold_us * 1000)
        slack_ns = min(hold_us * 1000 // SLACK_SHARE, MOST_SLACK_NS)
        due_ns, now_ns = [], 0
        for gap_us in gaps_us:
            now_ns += gap_us * 1000
            held.came(now_ns)
            due_ns.append(now_ns + hold_us * 1000)
        while due_ns:
            group = held.next()
            gone = held.release(group.last_due_ns)
            assert all(abs(due - group.leaves_ns) <= slack_ns + 1 for due in due_ns[: len(gone)])
            assert gone
            due_ns = due_ns[len(gone) :]
        assert held.next().leaves_ns == NEVER_NS


def test_a_queue_is_bounded_and_takes_packets_again_when_it_has_room(held: Held) -> None:
    held.reshape(0, 10)
    for _ in range(LONGEST_QUEUE):
        held.came(0)
    assert not held.library.held_came(held.memory, 0, 86, 0)
    assert len(held.release(10)) == LONGEST_QUEUE
    for now_ns in range(20, 20 + 3000):
        held.came(now_ns)
    assert len(held.release(NEVER_NS)) == 3000


def test_packets_keep_their_order_while_the_ring_grows(held: Held) -> None:
    hold_ns, packets = 1000, 6000
    held.reshape(0, hold_ns)
    for number in range(3 * packets):
        if number < packets:
            held.came(number)
        held.release(number // 2)
        assert held.left_id == min(packets, max(0, number // 2 - hold_ns + 1))


def test_p99_of_the_errors_forgets_what_is_old(library: Any) -> None:
    errors = ctypes.create_string_buffer(8192)
    second_ns = 10**9
    library.errors_turn(errors, 0)
    assert library.errors_p99_ns(errors) == 0
    assert library.errors_total(errors) == 0
    for error_us in range(1, 1001):
        library.errors_add(errors, -error_us * 1000 if error_us % 2 else error_us * 1000)
    assert library.errors_p99_ns(errors) == pytest.approx(990_000, rel=0.13)
    library.errors_turn(errors, 11 * second_ns)
    for _ in range(199):
        library.errors_add(errors, 5_000_000)
    library.errors_turn(errors, 30 * second_ns)
    assert library.errors_total(errors) == 1199, "too few for a percentile: the window goes on"
    library.errors_add(errors, 5_000_000)
    library.errors_turn(errors, 31 * second_ns)
    assert library.errors_p99_ns(errors) == pytest.approx(5_000_000, rel=0.13)
    assert library.errors_total(errors) == 200
    library.errors_add(errors, 2**62)


def test_the_messages_are_as_long_as_in_c() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    asked = queueing.ask_message(7, queueing.OP_SHAPE, 4701, "172.18.0.3", wire.Shape(0.042, cut=True))
    assert f"sizeof(struct ask) == {len(asked)}," in text
    assert f"sizeof(struct answer) == {queueing._ANSWER.size}," in text
    assert len(queueing.Answer._fields) == len(queueing._ANSWER.unpack(bytes(queueing._ANSWER.size)))
    for name in ("SHAPE", "CLOSE", "STATS"):
        assert f"OP_{name} = {getattr(queueing, f'OP_{name}')}" in text
    assert Path(queueing.PROGRAM).name == "delayqueue"

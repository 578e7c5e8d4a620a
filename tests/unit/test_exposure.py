"""What a failure would lose: the bounds enclose the truth, whatever happens between two readings."""

from __future__ import annotations

import random
from ast import literal_eval
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.server.exposure import (
    SET_DOWN_WITHIN_S,
    ExposureMeter,
    LogState,
    Loss,
    Received,
    SourceLook,
    Unknown,
    replica_exposure,
)
from tests.amount import examples
from tests.known import known
from tests.typed import fields, table_of, values_of

CLIENTS = 4


def gtids(last: int) -> str:
    return f"aaaa:1-{last}" if last else ""


@dataclass
class ModelServer:
    """A source in steps of its clients, with what happens between two readings of it.

    Its LSNs are read as it last set them down, and a checkpoint fsyncs what `flushed` does not say.
    """

    seed: int
    flush_every: int
    """Steps between two background flushes, about."""
    receive_share: float
    most_steps: int
    """Between two readings."""
    set_down_share: float
    """Of the steps, after how many the LSNs are set down; once a second in any case."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.lsn = self.flushed = self.written = self.durable = 100
        self.set_down, self.set_down_s, self.now_s = (100, 100), 0.0, 0.0
        self.written_bytes = self.fsyncs = self.binlog = self.binlog_synced = 0
        self.flush = self.sync = 1
        self.executed = self.received = 0
        self.under_way: dict[int, Iterator[None]] = {}
        self.done: list[tuple[int, int, int, int]] = []

    def transaction(self) -> Iterator[None]:
        """A client's, in steps, so that readings fall between any two of them, until it has its answer."""
        self.lsn += 7
        prepared = self.lsn
        yield
        if self.flush >= 1:
            self.write()
        if self.flush == 1:
            self.flush_redo()
        yield
        self.binlog += 1
        place = self.binlog
        if self.sync == 1:
            self.binlog_synced = place
        yield
        self.lsn += 3
        committed = self.lsn
        yield
        self.executed += 1
        gtid = self.executed
        yield
        self.done.append((prepared, place, committed, gtid))

    def step(self) -> None:
        """One step of some client's transaction."""
        client = self.random.randrange(CLIENTS)
        if next(self.under_way.setdefault(client, self.transaction()), "told") == "told":
            del self.under_way[client]

    def write(self) -> None:
        self.written_bytes += self.lsn - self.written
        self.written = self.lsn

    def flush_redo(self) -> None:
        self.checkpoint()
        self.flushed = self.written

    def background(self) -> None:
        self.write()
        self.flush_redo()

    def checkpoint(self) -> None:
        self.fsyncs += 1
        self.durable = self.written

    def go_on(self) -> None:
        """Steps of clients, flushes in the background, receiving."""
        for _ in range(self.random.randrange(self.most_steps)):
            late = self.now_s - self.set_down_s > 0.9 * SET_DOWN_WITHIN_S
            if late or self.random.random() < self.set_down_share:
                self.set_down, self.set_down_s = (self.lsn, self.flushed), self.now_s
            self.now_s += 0.001
            chance = self.random.random() - 1 / self.flush_every
            if chance < 0:
                self.random.choice((self.background, self.checkpoint))()
            elif chance < self.receive_share:
                self.received = min(self.received + 1, self.executed)
            else:
                self.step()

    def lost(self, lsn: int, binlog: int) -> int:
        """Of what clients were told of, what is not in this much of the redo log or of both logs."""
        return sum(
            committed > lsn and (prepared > lsn or place > binlog)
            for prepared, place, committed, _ in self.done
        )

    def look(self) -> tuple[SourceLook, Received, tuple[int, int, int]]:
        """A look as the engine makes it, and the truth when each of its numbers was read."""
        first = gtids(self.executed)
        self.go_on()
        received = Received(self.now_s, gtids(self.received))
        lost = sum(gtid > self.received for *_, gtid in self.done)
        self.go_on()
        before = gtids(self.executed)
        self.go_on()
        at_s, log = self.now_s, LogState(
            *self.set_down, self.written_bytes, self.flush, self.sync,
            running=len(self.under_way), connected=CLIENTS, connections=CLIENTS, fsyncs=self.fsyncs,
        )  # fmt: skip
        dies, cut = self.lost(self.written, self.binlog), self.lost(self.durable, self.binlog_synced)
        self.go_on()
        return SourceLook(at_s, before, gtids(self.executed), log, first=first), received, (dies, cut, lost)


MODES = st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 1000]))
SERVERS = st.builds(
    ModelServer,
    seed=st.integers(0, 2**32),
    flush_every=st.sampled_from([5, 60, 400]),
    receive_share=st.sampled_from([0.0, 0.05, 0.3]),
    most_steps=st.sampled_from([3, 12, 40, 400]),
    set_down_share=st.sampled_from([1.0, 0.1, 0.01]),
)


@settings(max_examples=examples(1.5))
@given(SERVERS, st.lists(MODES, min_size=1, max_size=4))
def test_the_bounds_enclose_what_each_failure_would_lose(
    server: ModelServer, modes: list[tuple[int, int]]
) -> None:
    meter = ExposureMeter()
    for mode in modes * 6:
        server.flush, server.sync = mode
        server.go_on()
        seen_now, received, truths = server.look()
        meter.take(seen_now, {"db2": received})
        seen = known(meter.exposure())
        for loss, truth in zip(seen.losses, truths, strict=True):
            if isinstance(loss, Loss):
                assert 0 <= loss.low <= truth <= loss.high, (loss, truth)
                assert loss.low <= loss.commits <= loss.high
                assert (loss.age_ms or 0) >= 0
        if {*modes} == {(1, 1)}:
            assert truths[:2] == (0, 0)
            assert seen.power_cut == Loss(0, 0, 0) or isinstance(seen.power_cut, Unknown)


# -- single facts


def look(at_s: float, count: int, lsn: int, flushed: int | None, flush: int = 2, **more: Any) -> SourceLook:
    """At a source that has committed so many."""
    log = LogState(
        lsn, flushed, 0, flush, 1, **{"running": 0, "connected": 8, "connections": 8, **more},
    )  # fmt: skip
    return SourceLook(at_s, gtids(count), gtids(count), log, first=gtids(count))


def strict(at_s: float, count: int, **more: Any) -> SourceLook:
    """At one whose commits wait for their fsyncs."""
    return look(at_s, count, 1, 1, 1, connected=3, **more)


def looks(text: str) -> list[SourceLook]:
    """A look a line: when, commits, the LSN and how far it is flushed, and more by name."""
    return [
        look(*(literal_eval(each) for each in line.split() if "=" not in each), **fields(line))
        for line in text.split("\n")
        if line
    ]


GROWS = """
-0.125 50  500  500  fsyncs=0
0.0    100 1000 1000 fsyncs=1
"""
LAX = """
-0.1 50  500  500
0.0  100 1000 1000
0.1  200 2000 1000
"""
STRICT_AGAIN = f"{LAX}0.2 200 2000 2000 flush=1\n"
NOT_SET_DOWN = """
0.0   100 1000 1000 fsyncs=1
0.125 200 2000 1000 fsyncs=1
0.25  300 2000 1000 fsyncs=1
"""
"""InnoDB answers with LSNs of some moments ago: commits in between were taken for flushed."""
RESTARTED = """
0.0 100 1000 1000 uptime_s=50
9.0 150 5000 5000 uptime_s=1
"""


LOOKS = {
    "commits since the look whose LSN is flushed now are at risk": f"""{GROWS}
0.125 200 2000 1000 fsyncs=2
0.25  300 3000 1500 fsyncs=2""",
    "no fsync since the look before": f"""{GROWS}
0.125 200 2000 1500 fsyncs=2
0.25  300 3000 1500 fsyncs=2""",
    "an fsync that moves no LSN, a checkpoint's or that of a full redo file, saves commits too": f"""{GROWS}
0.125 200 2000 1500 fsyncs=2
0.25  300 3000 1500 fsyncs=3""",
    "a setting that is strict again does not make safe what came before": f"{LAX}0.2 200 2000 1000 flush=1",
    "its LSN may be older than its commits": STRICT_AGAIN,
    "strict for a second": f"{STRICT_AGAIN}1.3 200 2000 2000 flush=1",
    "an LSN that was not set down covers no commit since": f"{NOT_SET_DOWN}0.375 310 3000 2000 fsyncs=2",
    "unless nothing came for a second": f"{NOT_SET_DOWN}1.5 300 2000 2000 fsyncs=2",
    "no flush was seen": """
0.0 100 2000 1000
0.4 200 3000 1000""",
    "after a restart nothing seen before counts": RESTARTED,
    "a second after it": f"{RESTARTED}10.5 150 5000 5000 uptime_s=1",
    "a server without LSNs": "0.0 1 0 None",
    "and one that is strict": "0.0 1 0 None flush=1",
}


def test_what_a_power_cut_would_take(snapshot: object) -> None:
    """The redo is in the page cache, which the death of mysqld alone does not take."""
    told = {}
    for case, text in LOOKS.items():
        meter = ExposureMeter()
        for each in looks(text):
            meter.take(each, {})
        seen = known(meter.exposure())
        told[case] = str(seen.power_cut)
        is_known = isinstance(seen.power_cut, Loss)
        assert seen.process_dies == (Loss(0, 0, 0) if is_known else seen.power_cut)
    assert told == snapshot


NOW = strict(10.0, 1000)


def received(text: str) -> dict[str, Received | None]:
    """`db2 10.0 900, db3 9.0 990 late, db4`: when each has answered, and how many commits it had."""
    found: dict[str, Received | None] = {}
    for name, *answer in (each.split() for each in text.split(", ") if each):
        found[name] = None
        if answer:
            found[name] = Received(float(answer[0]), gtids(int(answer[1])), in_turn="late" not in answer)
    return found


RECEIVED = """\
no replica        |
none has answered | db2
none answers      | db2 4.0 400 late
one answers       | db2 10.0 900
the best of two   | db2 10.0 900, db3 10.0 990
one has all       | db2 10.0 1000, db3
an older answer   | db2 9.0 900 late
"""


def test_the_best_replica_that_answers_counts_and_what_waited_for_it_is_on_one(snapshot: object) -> None:
    told = {case: replica_exposure(NOW, received(answers)) for case, answers in table_of(RECEIVED)}
    before = strict(9.9, 950, waits=True, not_waited=5)
    now = SourceLook(10.0, gtids(1000), gtids(1010), before.log, first=gtids(990))
    fell_back = replace(now, log=replace(now.log, not_waited=6))
    for case, at, answers in (
        ("it waited", now, "db2 10.0 985"),
        ("it fell back", fell_back, "db2 10.0 985"),
        ("db3 may have it", now, "db2 10.0 985, db3"),
    ):
        told[case] = replica_exposure(at, received(answers), before)
    assert {case: each.words for case, each in told.items()} == snapshot


GIVEN_UP = """\
1.0  100 True  7
4.0  100 True  7
12.0 130 False 11
13.0 330 False 40
14.0 530 False 70
"""
"""When it is looked at, commits, whether they wait, and how many did not."""


def test_without_any_replica_what_went_unprotected_is_the_least_that_is_lost() -> None:
    """It answered at 1 s and never again; semi-sync waits until 12 s, then gives up."""
    meter, found = ExposureMeter(), []
    for at_s, commits, waits, not_waited in values_of(GIVEN_UP):
        seen = strict(at_s, commits, waits=waits, not_waited=not_waited, running=2)
        meter.take(seen, received("db2 1.0 100" + " late" * (at_s > 1.0)))
        found.append(known(meter.exposure()).source_lost)
    assert isinstance(found[0], Loss)
    assert [each.low for each in found[1:] if isinstance(each, Unknown)] == [0, 0, 196, 396]
    meter.take(strict(15.0, 540), received("db2 15.0 540"))
    assert known(meter.exposure()).source_lost == Loss(0, 0, 0)


def test_a_history_that_grows_is_thinned_and_stays_true() -> None:
    meter = ExposureMeter()
    for at in range(5000):
        seen = look(at / 10, 10 * at, 100 * at, 150, fsyncs=1 + (at > 1))
        meter.take(seen, received(f"db2 {at / 10} 5"))
    found = known(meter.exposure())
    assert isinstance(found.power_cut, Loss)
    assert isinstance(found.source_lost, Loss)
    assert found.power_cut.low <= 49_985 <= found.power_cut.high
    assert found.source_lost.age_ms == pytest.approx(499_900 - 50)

"""What a failure would lose: the bounds enclose the truth, whatever happens between two readings."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.server.exposure import (
    SET_DOWN_WITHIN_S,
    Exposure,
    ExposureMeter,
    LogState,
    Loss,
    Received,
    SourceLook,
    Unknown,
    disk_exposure,
    over_time,
    replica_exposure,
)
from tests.amount import examples
from tests.known import known
from tests.typed import fields, values_of

CLIENTS = 4


def gtids(last: int) -> str:
    return f"aaaa:1-{last}" if last else ""


@dataclass
class Transaction:
    prepared_lsn: int
    in_binlog: bool = False
    committed_lsn: int | None = None
    gtid: int | None = None
    redo_kept: bool = False


@dataclass
class ModelServer:
    """A source in steps: prepare, (fsync of redo), binlog, (fsync of the binlog), commit, told.

    Each step is its own, so that a look's readings fall between any two of them. Its LSNs are read as it last
    set them down, and a checkpoint fsyncs what `flushed` does not say.
    """

    flush: int = 1
    sync: int = 1
    lsn: int = 100
    flushed: int = 100
    written: int = 100
    written_bytes: int = 0
    durable: int = 100
    fsyncs: int = 0
    set_down: tuple[int, int] = (100, 100)
    set_down_s: float = 0.0
    binlog: list[Transaction] = field(default_factory=list)
    binlog_synced: int = 0
    executed: int = 0
    under_way: dict[int, Transaction] = field(default_factory=dict)
    done: list[Transaction] = field(default_factory=list)
    received: int = 0
    now_s: float = 0.0

    def step(self, client: int) -> None:
        """One step of a client's transaction."""
        self.now_s += 0.001
        it = self.under_way.get(client)
        if it is None:
            self.lsn += 7
            self.under_way[client] = Transaction(self.lsn)
        elif not it.redo_kept and not it.in_binlog:
            if self.flush >= 1:
                self.write()
            if self.flush == 1:
                self.flush_redo()
            it.redo_kept = True
        elif not it.in_binlog:
            it.in_binlog = True
            self.binlog.append(it)
            if self.sync == 1:
                self.binlog_synced = len(self.binlog)
        elif it.committed_lsn is None:
            self.lsn += 3
            it.committed_lsn = self.lsn
        elif it.gtid is None:
            self.executed += 1
            it.gtid = self.executed
        else:
            self.done.append(it)
            del self.under_way[client]

    def write(self) -> None:
        if self.written < self.lsn:
            self.written_bytes += self.lsn - self.written
            self.written = self.lsn

    def flush_redo(self) -> None:
        self.fsyncs += 1
        self.flushed = self.durable = self.written

    def background(self) -> None:
        self.now_s += 0.001
        self.write()
        self.flush_redo()

    def checkpoint(self) -> None:
        self.now_s += 0.001
        self.fsyncs += 1
        self.durable = self.written

    def set_lsns_down(self) -> None:
        self.set_down, self.set_down_s = (self.lsn, self.flushed), self.now_s

    def receive(self) -> None:
        self.now_s += 0.001
        self.received = min(self.received + 1, self.executed)

    # -- the truth

    def lost(self, lsn: int, binlog: int) -> int:
        """Of what clients were told of, what is not in so much of the redo log or of both logs."""
        written = self.binlog[:binlog]
        return sum(
            (each.committed_lsn or 0) > lsn and not (each.prepared_lsn <= lsn and each in written)
            for each in self.done
        )

    def lost_with_source(self) -> int:
        return sum((each.gtid or 0) > self.received for each in self.done)

    def log_state(self) -> LogState:
        return LogState(
            *self.set_down, self.written_bytes, self.flush, self.sync,
            running=len(self.under_way), connected=CLIENTS, connections=CLIENTS, fsyncs=self.fsyncs,
        )  # fmt: skip


@dataclass
class Course:
    """What happens between two readings: steps of clients, flushes in the background, receiving."""

    server: ModelServer
    random: random.Random
    flush_every: int
    """Steps between two background flushes, about."""
    receive_share: float
    most_steps: int
    set_down_share: float = 1.0
    """Of the steps, after how many the LSNs are set down; once a second in any case."""

    def go_on(self) -> None:
        for _ in range(self.random.randrange(self.most_steps)):
            late = self.server.now_s - self.server.set_down_s > 0.9 * SET_DOWN_WITHIN_S
            if late or self.random.random() < self.set_down_share:
                self.server.set_lsns_down()
            chance = self.random.random()
            if chance < 1 / self.flush_every:
                self.random.choice((self.server.background, self.server.checkpoint))()
            elif chance < 1 / self.flush_every + self.receive_share:
                self.server.receive()
            else:
                self.server.step(self.random.randrange(CLIENTS))

    def look(self) -> tuple[SourceLook, Received, tuple[int, int, int]]:
        """A look as the engine makes it, and the truth when each of its numbers was read."""
        server = self.server
        first = gtids(server.executed)
        self.go_on()
        received, lost = Received(server.now_s, gtids(server.received)), server.lost_with_source()
        self.go_on()
        before = gtids(server.executed)
        self.go_on()
        log, at_s = server.log_state(), server.now_s
        dies = server.lost(server.written, len(server.binlog))
        cut = server.lost(server.durable, server.binlog_synced)
        self.go_on()
        look = SourceLook(at_s, before, gtids(server.executed), log, first=first)
        return look, received, (dies, cut, lost)


MODES = [(flush, sync) for flush in (0, 1, 2) for sync in (0, 1, 1000)]


@settings(max_examples=examples(1.5))
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(MODES), min_size=1, max_size=4),
    st.sampled_from([5, 60, 400]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([3, 12, 40, 400]),
    st.sampled_from([1.0, 0.1, 0.01]),
)
def test_the_bounds_enclose_what_each_failure_would_lose(
    seed: int,
    modes: list[tuple[int, int]],
    flush_every: int,
    receive_share: float,
    most_steps: int,
    set_down_share: float,
) -> None:
    server, meter = ModelServer(), ExposureMeter()
    course = Course(server, random.Random(seed), flush_every, receive_share, most_steps, set_down_share)
    for flush, sync in modes:
        server.flush, server.sync = flush, sync
        for _ in range(6):
            course.go_on()
            seen_now, received, truths = course.look()
            meter.take(seen_now, {"db2": received})
            seen = known(meter.exposure())
            found = (seen.process_dies, seen.power_cut, seen.source_lost)
            for loss, truth in zip(found, truths, strict=True):
                if isinstance(loss, Loss):
                    assert 0 <= loss.low <= truth <= loss.high, (loss, truth)
                    assert loss.low <= loss.commits <= loss.high
                    assert loss.age_ms is None or loss.age_ms >= 0
                else:
                    assert loss.why
            if (flush, sync) == (1, 1) and len(modes) == 1:
                assert {truths[:2], (0, 0)} == {(0, 0)}
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
    found = []
    for line in filter(None, text.splitlines()):
        at_s, *counts = (each for each in line.split() if "=" not in each)
        found.append(look(float(at_s), *map(int, counts), **fields(line)))
    return found


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


def test_a_server_without_lsns_is_known_only_while_it_is_strict() -> None:
    untold = Unknown("the server does not say how far its redo log is flushed")
    for flush, found in ((1, Loss(0, 0, 0)), (2, untold)):
        assert disk_exposure([look(0.0, 1, 0, None, flush)]) == (found, found)


NOW = strict(10.0, 1000)


def received(text: str) -> dict[str, Received | None]:
    """`db2 10.0 900, db3 9.0 990 late, db4`: when each has answered, and how many commits it had."""
    found: dict[str, Received | None] = {}
    for name, *answer in (each.split() for each in text.split(", ") if each):
        found[name] = None
        if answer:
            found[name] = Received(float(answer[0]), gtids(int(answer[1])), in_turn="late" not in answer)
    return found


RECEIVED = {
    "no replica": "",
    "none has answered": "db2",
    "none answers": "db2 4.0 400 late",
    "one answers": "db2 10.0 900",
    "the best of two": "db2 10.0 900, db3 10.0 990",
    "one has all": "db2 10.0 1000, db3",
    "an older answer": "db2 9.0 900 late",
}


def test_the_best_replica_that_answers_counts(snapshot: object) -> None:
    assert {case: str(replica_exposure(NOW, received(text))) for case, text in RECEIVED.items()} == snapshot


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
        seen = strict(at_s, commits, waits=waits, not_waited=not_waited)
        seen = replace(seen, log=replace(seen.log, running=2))
        meter.take(seen, received("db2 1.0 100" + " late" * (at_s > 1.0)))
        found.append(known(meter.exposure()).source_lost)
    assert isinstance(found[0], Loss)
    assert [each.low for each in found[1:] if isinstance(each, Unknown)] == [0, 0, 196, 396]
    meter.take(strict(15.0, 540), received("db2 15.0 540"))
    assert known(meter.exposure()).source_lost == Loss(0, 0, 0)


def test_what_waited_for_an_acknowledgement_is_on_a_replica(snapshot: object) -> None:
    waiting = replace(NOW.log, waits=True, not_waited=5)
    before = strict(9.9, 950, waits=True, not_waited=5)
    now = SourceLook(10.0, gtids(1000), gtids(1010), waiting, first=gtids(990))
    has = received("db2 10.0 985")
    fell_back = replace(now, log=replace(waiting, not_waited=6))
    told = {
        "it waited": replica_exposure(now, has, before),
        "it fell back": replica_exposure(fell_back, has, before),
        "db3 may have it": replica_exposure(now, {**has, "db3": None}, before),
    }
    assert told == snapshot


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


def test_looks_over_time_are_one_with_the_median_and_the_extremes() -> None:
    unknown = Unknown("why")
    looks = [Exposure(Loss(n, n - 1, n + 2, 10.0 * n), unknown, unknown) for n in (5, 1, 9)]
    looks[0] = replace(looks[0], source_lost=Loss(1, 0, 2))
    assert over_time(looks) == Exposure(Loss(5, 0, 11, 50.0), unknown, unknown)
    assert over_time([]) is None

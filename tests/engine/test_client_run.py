"""One client's transactions against a session that answers as it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from random import Random

import pytest

from replexplorer.core.errors import ServerRefused
from replexplorer.core.load.pacing import EVEN, Pace, Schedule
from replexplorer.core.load.workload import OTHER, READ, WRITE, Statement, Workload
from replexplorer.generator.client_run import ClientRun, RunEnd
from replexplorer.generator.connection import Refusal
from replexplorer.generator.dispatcher import ClientJob, Dispatcher
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadTarget

TRANSFER = Workload(
    "transfer",
    "",
    (
        Statement("begin", "BEGIN", OTHER),
        Statement("select", "SELECT", READ),
        Statement("update", "UPDATE", WRITE, place="own.sql:3"),
        Statement("commit", "COMMIT", OTHER, commits=True),
    ),
)
SINGLE = Workload("single", "", (Statement("update", "UPDATE", WRITE, commits=True),))
LOOK = Workload("look", "", (Statement("select", "SELECT", READ),))
LOCK_TIMEOUT = Refusal(1205, "Lock wait timeout exceeded")


class Wire:
    """A session that keeps what is sent and replies when the test says so."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_broken = False
        self.ok: Callable[[], None] = lambda: None
        self.refuse: Callable[[Refusal], None] = lambda _: None
        self.lose: Callable[[], None] = lambda: None

    def watch(
        self,
        on_end: Callable[[], None],
        on_refused: Callable[[Refusal], None],
        on_lost: Callable[[], None],
        on_gtid: Callable[[bytes], None],
    ) -> None:
        self.ok, self.refuse, self.lose = on_end, on_refused, on_lost

    def unwatch(self) -> None:
        pass

    def send(self, packets: bytes) -> bool:
        if not self.is_broken:
            self.sent.append(packets)
        return not self.is_broken


class Scene:
    """A run with its surroundings."""

    def __init__(self, workload: Workload, pace: Pace | None = None, job: ClientJob | None = None) -> None:
        self.wire = Wire()
        self.leaving = asyncio.Event()
        self.refusals: list[ServerRefused] = []
        self.tally = Tally()
        if job is None:
            job = ClientJob(workload, lambda: lambda: [(n, ()) for n in range(len(workload.statements))])
        self.dispatcher = Dispatcher(
            LoadTarget("", 0, "", "", "direct"),
            job,
            self.tally,
            Schedule(Random(1)),
            Random(1),
            on_first_commit=lambda: None,
            on_refused=self.refusals.append,
            is_closed=pace is None,
        )
        builds = [lambda _, text=each.text: text.encode() for each in workload.statements]
        draw = job.draws()
        self.run = ClientRun(self.dispatcher, self.wire, job, builds, self.leaving, draw)  # type: ignore[arg-type]
        self.life = asyncio.create_task(self.run.last())

    def said(self) -> str:
        """What was sent since the last time."""
        words = " ".join(packets[-8:].decode("latin-1") for packets in self.wire.sent)
        self.wire.sent.clear()
        return words

    async def turn(self) -> RunEnd:
        return await asyncio.wait_for(self.life, 5)


def scene(workload: Workload, pace: Pace | None = None) -> pytest.MarkDecorator:
    """Give a test `one`, a scene of these."""
    return pytest.mark.parametrize("one", [(workload, pace)], indirect=True, ids=[""])


@pytest.fixture
async def one(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """A scene whose client has begun."""
    one = Scene(*request.param)
    await asyncio.sleep(0)
    yield one
    one.life.cancel()
    await asyncio.gather(one.life, return_exceptions=True)


@scene(TRANSFER)
async def test_a_transaction_is_its_statements_one_after_the_other(one: Scene) -> None:
    for word in ("BEGIN", "SELECT", "UPDATE", "COMMIT"):
        assert one.said() == word
        assert not one.tally.latencies_s
        one.wire.ok()
    assert one.said() == "BEGIN"  # the next one
    assert len(one.tally.latencies_s) == 1
    assert one.tally.queries == [1, 1, 2]
    assert one.tally.responses_s == []
    one.leaving.set()
    for _ in range(4):
        assert not one.life.done()
        one.wire.ok()
    assert await one.turn() is RunEnd.CHANGED
    assert len(one.tally.latencies_s) == 2


@scene(TRANSFER)
async def test_what_the_server_rolled_back_begins_anew_at_once_and_its_time_goes_on(one: Scene) -> None:
    """A deadlock, a group's certification, and a row that changed since MariaDB's transaction read it."""
    for done, number in enumerate((1213, 3101, 1020)):
        for _ in range(2):
            one.wire.ok()
        one.said()
        one.wire.refuse(Refusal(number, "try again"))
        assert one.said() == "BEGIN"
        assert (one.tally.retried[number], one.tally.refused.total()) == (1, 0)
        for _ in range(4):
            one.wire.ok()
        assert len(one.tally.latencies_s) == done + 1


@scene(TRANSFER)
async def test_a_refusal_is_counted_by_number_and_named_with_its_place(one: Scene) -> None:
    for _ in range(2):
        one.wire.ok()
    one.wire.refuse(Refusal(1290, "super-read-only"))
    assert await one.turn() is RunEnd.REFUSED
    assert one.tally.refused == {1290: 1}
    assert one.tally.fault == "own.sql:3: 1290 the source is read-only: super-read-only"
    assert [error.number for error in one.refusals] == [1290]


@scene(TRANSFER)
async def test_a_run_ends_between_two_transactions_when_the_server_is_another_one(one: Scene) -> None:
    one.wire.ok()
    one.dispatcher.target = replace(one.dispatcher.target, host="10.0.0.3")
    for _ in range(3):
        assert not one.life.done()
        one.wire.ok()
    assert await one.turn() is RunEnd.CHANGED
    assert len(one.tally.latencies_s) == 1


@scene(SINGLE, Pace.open(100, EVEN))
async def test_an_open_client_waits_for_arrivals_and_counts_from_the_intended_start(one: Scene) -> None:
    assert one.said() == ""
    assert one.run.is_idle
    one.dispatcher.schedule.waiting.extend([5.0, 6.0])
    one.dispatcher.meet()
    assert one.said() == "UPDATE"
    assert list(one.dispatcher.schedule.waiting) == [6.0]
    one.wire.ok()
    [response_s], [latency_s] = one.tally.responses_s, one.tally.latencies_s
    assert response_s - latency_s == pytest.approx(one.run._begun_s - 5.0, abs=1.0)
    assert one.said() == "UPDATE"  # who waits is served at once
    one.wire.ok()
    assert one.run.is_idle
    one.dispatcher.is_closed = True
    one.dispatcher.wake()
    assert one.said() == "UPDATE"
    one.wire.ok()
    assert len(one.tally.responses_s) == 2  # a closed one has no intended start


@scene(SINGLE)
async def test_a_held_client_begins_nothing_and_goes_on_afterwards(one: Scene) -> None:
    holding = asyncio.create_task(one.dispatcher.hold())
    await asyncio.sleep(0)
    assert not holding.done()
    one.said()
    one.wire.ok()
    await holding
    assert one.said() == ""
    one.dispatcher.let_go()
    assert one.said() == "UPDATE"


@scene(SINGLE, Pace.open(100, EVEN))
async def test_a_drain_serves_who_waits(one: Scene) -> None:
    one.dispatcher.schedule.waiting.extend([1.0, 2.0, 3.0])
    one.dispatcher.meet()
    draining = asyncio.create_task(one.dispatcher.drain())
    for _ in range(3):
        await asyncio.sleep(0)
        assert not draining.done()
        one.wire.ok()
    await asyncio.wait_for(draining, 5)
    assert len(one.tally.responses_s) == 3


class Notes:
    """A client log whose disk is as slow as the test says."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.noted: list[Callable[[], None]] = []

    def intend(self, client: int, seq: int, noted: Callable[[], None]) -> None:
        self.lines.append(f"i {client} {seq}")
        self.noted.append(noted)

    def acknowledge(self, client: int, seq: int, at_s: float) -> None:
        self.lines.append(f"a {client} {seq}")

    def refuse(self, client: int, seq: int, number: int) -> None:
        self.lines.append(f"f {client} {seq} {number}")

    def sync(self) -> None:
        """All that was written is on the disk."""
        told, self.noted = self.noted, []
        for each in told:
            each()

    def told(self) -> list[str]:
        """What was noted since the last time."""
        lines, self.lines = self.lines, []
        return lines


def noting() -> tuple[Scene, Notes]:
    """A client of the `ledger` load, its first row under way."""
    notes, numbers = Notes(), itertools.count(1)
    job = ClientJob(
        SINGLE,
        lambda: lambda: ((0, (7, next(numbers))),),
        log=notes,  # type: ignore[arg-type]
    )
    return Scene(SINGLE, job=job), notes


async def test_a_row_is_sent_when_its_intent_is_on_the_disk() -> None:
    one, notes = noting()
    await asyncio.sleep(0)
    assert (notes.told(), one.said()) == (["i 7 1"], "")
    assert not one.run.is_in_doubt
    notes.sync()
    assert one.said() == "UPDATE"
    one.wire.ok()
    assert (notes.told(), one.said()) == (["a 7 1", "i 7 2"], "")
    notes.sync()
    one.wire.refuse(Refusal(1290, "super-read-only"))
    assert await one.turn() is RunEnd.REFUSED
    assert notes.told() == ["f 7 2 1290"]


async def test_a_row_whose_reply_never_came_stays_an_intent() -> None:
    one, notes = noting()
    await asyncio.sleep(0)
    notes.sync()
    one.wire.lose()
    assert await one.turn() is RunEnd.LOST
    assert notes.told() == ["i 7 1"]
    assert one.tally.unknown == 1


@pytest.mark.parametrize("end", ["lost", "cancelled"])
async def test_what_is_noted_too_late_is_not_sent(end: str) -> None:
    """The line went away, or the load is stopped, while the disk was slow."""
    one, notes = noting()
    await asyncio.sleep(0)
    if end == "lost":
        one.wire.lose()
    else:
        one.life.cancel()
    await asyncio.gather(one.life, return_exceptions=True)
    notes.sync()
    assert one.said() == ""
    assert one.tally.unknown == 0


@pytest.mark.parametrize(
    ("workload", "answered", "end", "lost", "unknown"),
    [
        (TRANSFER, 1, "lose", 1, 0),
        (TRANSFER, 3, "lose", 0, 1),
        (TRANSFER, 3, "abandon", 0, 1),
        (SINGLE, 0, "lose", 0, 1),
        (SINGLE, 0, "not sent", 1, 0),
        (LOOK, 0, "lose", 1, 0),
    ],
)
async def test_only_a_commit_that_was_sent_is_in_doubt(
    workload: Workload, answered: int, end: str, lost: int, unknown: int
) -> None:
    one = Scene(workload)
    await asyncio.sleep(0)
    for _ in range(answered):
        one.wire.ok()
    if end == "abandon":
        one.run.abandon()
    elif end == "not sent":
        one.wire.is_broken = True
        one.wire.ok()
    else:
        one.wire.lose()
    assert await one.turn() is RunEnd.LOST
    assert (one.tally.lost, one.tally.unknown) == (lost, unknown)
    one.run.abandon()
    assert one.tally.unknown == unknown


@pytest.mark.parametrize(
    ("workload", "answered", "said"), [(TRANSFER, 2, ["ROLLBACK", "BEGIN"]), (SINGLE, 0, ["UPDATE"])]
)
async def test_after_a_lock_timeout_a_transaction_is_rolled_back_and_begun_anew(
    workload: Workload, answered: int, said: list[str]
) -> None:
    one = Scene(workload)
    await asyncio.sleep(0)
    for _ in range(answered):
        one.wire.ok()
    one.said()
    one.wire.refuse(LOCK_TIMEOUT)
    for word in said:
        assert one.said() == word
        one.wire.ok()
    assert one.tally.retried[1205] == 1
    one.life.cancel()

"""One client's transactions against a session that answers as it is told."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

import pytest

from replexplorer.core.errors import ServerRefused
from replexplorer.core.load.pacing import Schedule
from replexplorer.core.load.workload import OTHER, READ, WRITE, Statement, Workload
from replexplorer.generator.client_run import ClientRun
from replexplorer.generator.connection import Refusal
from replexplorer.generator.dispatcher import ClientJob, Dispatcher
from replexplorer.generator.tally import Tally
from replexplorer.ports import LoadTarget
from tests.typed import table_of

UPDATE = Statement("update", "UPDATE", WRITE, commits=True)
WORKLOADS = {
    "transfer": (
        Statement("begin", "BEGIN", OTHER),
        Statement("select", "SELECT", READ),
        Statement("update", "UPDATE", WRITE, place="own.sql:3"),
        Statement("commit", "COMMIT", OTHER, commits=True),
    ),
    "single": (UPDATE,),
    "look": (Statement("select", "SELECT", READ),),
    "open": (UPDATE,),
    "ledger": (UPDATE,),
}
"""The clients of `open` wait for arrivals, those of `ledger` keep a log."""


class Scene:
    """A client with its surroundings: its session, and its log, whose disk is as slow as the play says."""

    end = "goes on"
    is_broken = False
    on_end: Callable[[], None]
    on_refused: Callable[[Refusal], None]
    on_lost: Callable[[], None]

    def __init__(self, name: str) -> None:
        workload, numbers = Workload(name, "", WORKLOADS[name]), itertools.count(1)
        self.heard: list[str] = []
        """What was sent and noted, and has not been in the play."""
        self.noted: list[Callable[[], None]] = []
        self.refusals: list[ServerRefused] = []
        self.leaving, self.tally = asyncio.Event(), Tally()
        job = ClientJob(
            workload,
            lambda: lambda: [(at, (7, next(numbers))) for at in range(len(workload.statements))],
            log=self if name == "ledger" else None,  # type: ignore[arg-type]
        )
        self.dispatcher = Dispatcher(
            LoadTarget("", 0, "", "", "direct"),
            job,
            self.tally,
            Schedule(Random(1)),
            Random(1),
            on_first_commit=lambda: None,
            on_refused=self.refusals.append,
            is_closed=name != "open",
        )
        builds = [lambda _, text=each.text: text.encode() for each in workload.statements]
        self.run = ClientRun(self.dispatcher, self, job, builds, self.leaving, job.draws())  # type: ignore[arg-type]
        self.life = asyncio.create_task(self.run.last())

    # -- as a session

    def watch(
        self,
        on_end: Callable[[], None],
        on_refused: Callable[[Refusal], None],
        on_lost: Callable[[], None],
        on_gtid: Callable[[bytes], None],
    ) -> None:
        self.on_end, self.on_refused, self.on_lost = on_end, on_refused, on_lost

    def unwatch(self) -> None:
        """Nothing more is replied."""

    def send(self, packets: bytes) -> bool:
        if not self.is_broken:
            self.heard.append(packets[-8:].decode("latin-1"))
        return not self.is_broken

    # -- as a client log

    def intend(self, client: int, seq: int, noted: Callable[[], None]) -> None:
        self.heard.append(f"intended-{seq}")
        self.noted.append(noted)

    def acknowledge(self, client: int, seq: int, at_s: float) -> None:
        self.heard.append(f"acknowledged-{seq}")

    def refuse(self, client: int, seq: int, number: int) -> None:
        self.heard.append(f"refused-{seq}-{number}")

    # -- the play

    async def _hear(self, word: str, work: Awaitable[None]) -> None:
        await work
        self.heard.append(word)

    def _do(self, word: str) -> None:
        dispatcher = self.dispatcher
        match word:
            case "ok":
                self.on_end()
            case "lose":
                self.on_lost()
            case "break":
                self.is_broken = True
            case "abandon":
                self.run.abandon()
            case "leave":
                self.leaving.set()
            case "cancel":
                self.life.cancel()
            case "move":
                dispatcher.target = replace(dispatcher.target, host="10.0.0.3")
            case "sync":
                for noted in self.noted:
                    noted()
                self.noted.clear()
            case "arrive":
                dispatcher.schedule.waiting.append(5.0)
                dispatcher.meet()
            case "close":
                dispatcher.is_closed = True
                dispatcher.wake()
            case "hold":
                self.task = asyncio.create_task(self._hear("held", dispatcher.hold()))
            case "drain":
                self.task = asyncio.create_task(self._hear("drained", dispatcher.drain()))
            case "go":
                dispatcher.let_go()
            case _:
                self.on_refused(Refusal(int(word), "why"))

    async def play(self, text: str) -> None:
        """What is sent and noted, and in small letters what happens then; a number is a refusal."""
        for word in [*text.split(), "the end"]:
            for _ in range(3):
                await asyncio.sleep(0)
            if self.heard:
                assert self.heard.pop(0) == word
            elif word != "the end":
                self._do(word)
        if self.life.done() and not self.life.cancelled():
            self.end = self.life.result().name
        self.life.cancel()
        await asyncio.gather(self.life, return_exceptions=True)


PLAYS = """\
transfer | BEGIN ok SELECT ok UPDATE ok COMMIT ok BEGIN leave ok SELECT ok UPDATE ok COMMIT ok
transfer | BEGIN move ok SELECT ok UPDATE ok COMMIT ok
transfer | BEGIN ok SELECT ok UPDATE 1213 BEGIN ok SELECT ok UPDATE ok COMMIT ok BEGIN
transfer | BEGIN ok SELECT 3101 BEGIN 1020 BEGIN ok SELECT ok UPDATE ok COMMIT ok BEGIN
transfer | BEGIN ok SELECT ok UPDATE 1290
transfer | BEGIN ok SELECT ok UPDATE 1205 ROLLBACK ok BEGIN ok SELECT
single   | UPDATE 1205 UPDATE ok UPDATE
transfer | BEGIN ok SELECT lose
transfer | BEGIN ok SELECT ok UPDATE ok COMMIT lose abandon
transfer | BEGIN ok SELECT ok UPDATE ok COMMIT abandon abandon
single   | UPDATE lose
single   | UPDATE break ok
look     | SELECT lose
single   | UPDATE hold ok held go UPDATE
open     | arrive UPDATE arrive ok UPDATE ok close UPDATE ok UPDATE
open     | arrive UPDATE arrive arrive drain ok UPDATE ok UPDATE ok drained
ledger   | intended-1 sync UPDATE ok acknowledged-1 intended-2 sync UPDATE 1290 refused-2-1290
ledger   | intended-1 sync UPDATE lose
ledger   | intended-1 lose sync
ledger   | intended-1 cancel sync"""


@pytest.mark.parametrize(("workload", "play"), table_of(PLAYS))
async def test_what_a_client_sends_notes_and_counts(workload: str, play: str, snapshot: object) -> None:
    """The server rolls a transaction back whole for a deadlock, a group's certification, and a row that
    changed since MariaDB's transaction read it; for a lock timeout it rolls back one statement. Of what was
    lost only a commit that was sent is in doubt."""
    one = Scene(workload)
    await one.play(play)
    tally, refusals = one.tally, [error.number for error in one.refusals]
    answered = f"{len(tally.latencies_s)} latencies, {len(tally.responses_s)} responses, {tally.queries}"
    failed = f"lost {tally.lost}, unknown {tally.unknown}, {dict(tally.retried)}, {dict(tally.refused)}"
    assert [one.end, answered, failed, refusals, tally.fault] == snapshot


async def test_an_open_client_counts_from_the_intended_start() -> None:
    one = Scene("open")
    await one.play("arrive UPDATE ok")
    [response_s], [latency_s] = one.tally.responses_s, one.tally.latencies_s
    assert response_s - latency_s == pytest.approx(time.monotonic() - 5.0, abs=1.0)

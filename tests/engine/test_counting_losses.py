"""Reckoning on servers that answer as a test says: relay logs applied, each node's rows, who is away."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable, StackUnavailable
from replexplorer.core.experiment.lab import RETRIED, Length, Phase, PhaseResult
from replexplorer.core.load.workload import LEDGER_TABLE
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, HEAD, read_run
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.lab_scripts import CLIENTS, contend
from replexplorer.engine.experiment.phase import Act
from replexplorer.generator.client_log import Reader
from tests.amount import examples
from tests.fakes.clock import virtual
from tests.fakes.stack import STATEMENT_S, FakeStack, stack_of

RUN = 1_795_000_000
LOG = f"{HEAD}{RUN}\nt 1\ni 1 1\na 1 1 5\ni 1 2\na 1 2 6\ni 1 3\na 1 3 900000\ni 1 4\n"


@dataclass
class Rows:
    """What each node answers."""

    highest: dict[str, int]
    """The last row of client 1; 0: there is no table."""
    queued: list[str] = field(default_factory=list)
    """What db2's relay log still holds, look by look; the last for ever."""
    away: tuple[str, ...] = ()
    on_its_way: dict[str, int] = field(default_factory=dict)
    """The last row of client 1 that a node has once what was sent to it has arrived."""

    def answer(self, node: str, statement: str) -> Sequence[Row]:
        """One of the questions that counting_losses asks."""
        if node in self.away:
            raise ServerUnreachable(f"{node} does not answer")
        if "received_transaction_set" in statement:
            if node == "db1":
                return ()
            queued = self.queued.pop(0) if len(self.queued) > 1 else next(iter(self.queued), "")
            ages = dict.fromkeys(("applying_us", "waiting_us", "applied_us"))
            return [{"queued": queued, "missing": "", **ages, "busy": 0, "workers": 4}]
        if "WAIT_FOR_EXECUTED_GTID_SET" in statement:
            self.highest[node] = self.on_its_way.get(node, self.highest[node])
            return [{"late": int(node not in self.on_its_way)}]
        if "ledger" in statement:
            highest = self.highest[node]
            if not highest:
                raise ServerRefused(1146, f"{node}: 1146 Table 'replexplorer.ledger' doesn't exist")
            return [{"client": RUN * CLIENTS_A_RUN + 1, "low": 1, "high": highest}]
        return [{"executed": f"u:1-{self.highest[node] + 5}"}]


@asynccontextmanager
async def counting_losses(rows: Rows, *, replicas: int = 1) -> AsyncIterator[FakeStack]:
    """A stack whose clients have told what they know."""
    async with stack_of(replicas=replicas, answer=rows.answer) as stack:
        stack.world.client_logs.log = read_run([("0.log", LOG.encode())])
        await stack.load.keep_ledger(clients=1)
        yield stack
        assert all(sql.closed for sql in stack.sqls)


async def test_what_the_survivor_lacks_is_lost_and_the_old_source_has_more() -> None:
    async with counting_losses(Rows({"db1": 4, "db2": 2})) as stack:
        ledger = await stack.count_losses("db2", failed_at_s=1.0)
        assert stack.load.settings is None
    assert (ledger.lost, ledger.lost_sample, ledger.newest_lost_age_ms) == (1, ((1, 3),), 100.0)
    assert (ledger.unknown, ledger.unknown_absent) == (1, 1)
    assert list(ledger.nodes) == ["db1", "db2"]
    assert (ledger.nodes["db1"].extra, ledger.nodes["db1"].errant_gtids) == (2, "u:8-9")


async def test_what_is_in_the_relay_log_is_applied_first() -> None:
    rows = Rows({"db1": 4, "db2": 3}, queued=["u:6-8", "u:7-8", "u:8", ""])
    async with counting_losses(rows) as stack:
        ledger = await stack.count_losses("db2")
    assert (ledger.lost, rows.queued) == (0, [""])


async def test_what_is_on_its_way_to_a_node_is_not_missing_there() -> None:
    async with counting_losses(
        Rows({"db1": 4, "db2": 2, "db3": 2}, on_its_way={"db2": 4}), replicas=2
    ) as stack:
        ledger = await stack.count_losses("db1")
    assert {name: node.missing for name, node in ledger.nodes.items()} == {"db1": 0, "db2": 0, "db3": 1}


@pytest.mark.parametrize(
    ("rows", "survivor", "lost", "nodes"),
    [
        (Rows({"db1": 3, "db2": 3, "db3": 1}, away=("db1",)), "db2", 0, ["db2", "db3"]),
        (Rows({"db1": 3, "db2": 3, "db3": 1}, away=("db1",)), "db3", 2, ["db2", "db3"]),
        (Rows({"db1": 3, "db2": 3, "db3": 0}), "db3", 3, ["db1", "db2", "db3"]),
    ],
    ids=["the source is gone", "the slower replica", "not even the table arrived"],
)
async def test_every_node_that_answers_is_compared(
    rows: Rows, survivor: str, lost: int, nodes: list[str]
) -> None:
    async with counting_losses(rows, replicas=2) as stack:
        ledger = await stack.count_losses(survivor)
    assert (ledger.lost, list(ledger.nodes)) == (lost, nodes)


@pytest.mark.parametrize(
    ("queued", "survivor", "complaint"),
    [
        (["u:6-8"], "db2", "db2 does not apply its relay log: 3 transactions wait there"),
        ([], "db7", "there is no node 'db7': use one of db1, db2"),
    ],
)
async def test_what_cannot_be_counted_is_said(queued: list[str], survivor: str, complaint: str) -> None:
    async with counting_losses(Rows({"db1": 4, "db2": 3}, queued)) as stack:
        with pytest.raises(StackUnavailable, match=complaint):
            await stack.count_losses(survivor)


async def test_without_a_client_log_nothing_can_be_counted() -> None:
    async with stack_of() as stack:
        with pytest.raises(StackUnavailable, match="no load of this session kept a client log"):
            await stack.count_losses("db2")


# Clients on a few rows: at every node that takes writes, rolled back and tried again, all told

PHASE = Phase("hot", (), Length(4), Length(2), ProtectionState.PROTECTED, "they meet", play=contend)
MEMBER = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3)


class Servers:
    """Answers as servers that refuse every `every`-th update with a number; 0: none."""

    def __init__(self, *, every: int = 0, number: int = 1213, missing: str | None = None) -> None:
        self.every, self.number, self.missing = every, number, missing
        self.updates = Counter[str]()
        self.statements: list[str] = []

    def __call__(self, node: str, statement: str) -> Sequence[Row]:
        self.statements.append(statement)
        if statement.startswith("SELECT"):
            return [{"executed": "a:1-9", "late": int(node == self.missing), "changes": 7}]
        if statement.startswith("UPDATE"):
            self.updates[node] += 1
            if self.every and self.updates.total() % self.every == 0:
                raise ServerRefused(self.number, "rolled back")
        return ()


MEMBERS = dict.fromkeys(("db1", "db2", "db3"), MEMBER)


async def contended(stack: FakeStack) -> PhaseResult:
    try:
        return await contend(Act(stack, PHASE, True, lambda text, done=None: None))
    finally:
        assert all(sql.closed for sql in stack.sqls)


async def test_clients_go_to_every_node_that_takes_writes() -> None:
    servers = Servers()
    async with stack_of(replicas=2, answer=servers, members=MEMBERS) as stack:
        played = await contended(stack)
    assert set(servers.updates) == {"db1", "db2", "db3"}
    assert max(servers.updates.values()) < 1.2 * min(servers.updates.values())
    assert (played.clients, played.figures[RETRIED], played.duration_s) == (CLIENTS, 0.0, 2)
    assert played.service.count / played.duration_s == pytest.approx(CLIENTS / STATEMENT_S, rel=0.05)
    assert servers.statements[-1].startswith("DROP TABLE")
    alone = Servers()
    async with stack_of(answer=alone) as stack:
        await contended(stack)
    assert set(alone.updates) == {"db1"}, "of a source and its replicas the source has them all"


@pytest.mark.parametrize("number", [1180, 1205, 1213, 3101])
async def test_what_was_rolled_back_is_tried_again_and_counted(number: int) -> None:
    servers = Servers(every=4, number=number)
    async with stack_of(replicas=2, answer=servers, members=MEMBERS) as stack:
        played = await contended(stack)
    tries = servers.updates.total()
    assert played.figures[RETRIED] == played.retried == tries // 4
    assert played.service.count <= tries - played.retried
    assert played.service.max_ms is not None
    assert played.service.max_ms > 15, "its time goes on"


async def test_another_refusal_ends_it_and_leaves_nothing() -> None:
    servers = Servers(every=50, number=1290)
    async with stack_of(replicas=2, answer=servers, members=MEMBERS) as stack:
        with pytest.raises(ServerRefused):
            await contended(stack)
    assert servers.statements[-1].startswith("DROP TABLE")


async def test_a_member_that_does_not_get_the_rows_is_said() -> None:
    servers = Servers(missing="db3")
    async with stack_of(replicas=2, answer=servers, members=MEMBERS) as stack:
        with pytest.raises(StackUnavailable, match="does not apply what another one commits"):
            await contended(stack)
    assert not servers.updates


# Sessions that look for rows: what they write down is what was there, each row once

BASE = RUN * CLIENTS_A_RUN
FOREIGN = BASE - 5
"""A client of an earlier run."""


class Table:
    """A server with the ledger's rows; what the reader asks is SQL that SQLite speaks as well."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect(":memory:")
        self._rows.row_factory = sqlite3.Row
        self._rows.execute("ATTACH ':memory:' AS replexplorer")
        self._rows.execute(f"CREATE TABLE {LEDGER_TABLE} (client, seq, PRIMARY KEY (client, seq))")
        self.is_away = False
        self.asked = 0
        self.add({(FOREIGN, 1)})

    def add(self, rows: set[tuple[int, int]]) -> None:
        self._rows.executemany(f"INSERT OR IGNORE INTO {LEDGER_TABLE} VALUES (?, ?)", rows)

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        self.asked += 1
        await asyncio.sleep(0.001)
        if self.is_away:
            raise ServerUnreachable("db1 does not answer")
        return [dict(row) for row in self._rows.execute(statement.replace("%s", "?"), args)]

    async def close(self) -> None:
        self._rows.close()


class Log:
    """What was written down."""

    base = BASE

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def see(self, node: str, rows: Sequence[tuple[int, int, int]]) -> None:
        assert node == "db1"
        self.seen += [(client, seq) for client, first, last in rows for seq in range(first, last + 1)]


def reading(table: Table, log: Log) -> Reader:
    return Reader("db1", table, log)  # type: ignore[arg-type]


rounds = st.lists(st.sets(st.tuples(st.integers(1, 3), st.integers(1, 12))), max_size=6)


@given(rounds)
@settings(max_examples=examples(0.6))
def test_each_row_that_appears_above_the_others_is_written_down_once(
    added: list[set[tuple[int, int]]],
) -> None:
    """A client's rows ascend: what appears below its highest is a commit that had been given up."""

    @virtual
    async def run() -> None:
        table, log = Table(), Log()
        reader = asyncio.create_task(reading(table, log).live())
        expected: set[tuple[int, int]] = set()
        for rows in added:
            highest = {
                client: max((s for c, s in expected if c == client), default=0) for client in (1, 2, 3)
            }
            expected |= {(client, seq) for client, seq in rows if seq > highest[client]}
            table.add({(BASE + client, seq) for client, seq in rows})
            await asyncio.sleep(1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        assert sorted((client - BASE, seq) for client, seq in log.seen) == sorted(expected)

    run()


async def test_a_node_that_was_away_is_read_again() -> None:
    table, log = Table(), Log()
    reader = asyncio.create_task(reading(table, log).live())
    table.is_away = True
    await asyncio.sleep(5)
    assert table.asked < 15, "not in a busy loop"
    table.is_away = False
    table.add({(BASE + 1, 1)})
    await asyncio.sleep(1)
    assert log.seen == [(BASE + 1, 1)]
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)

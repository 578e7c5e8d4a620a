"""Reckoning on servers that answer as a test says: relay logs applied, each node's rows, who is away."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
from tests.fakes.stack import STATEMENT_S, stack_of
from tests.known import known
from tests.typed import fields, table_of

RUN = 1_795_000_000
LOG = f"{HEAD}{RUN}\nt 1\ni 1 1\na 1 1 5\ni 1 2\na 1 2 6\ni 1 3\na 1 3 900000\ni 1 4\n"


@dataclass
class Rows:
    """What each node answers."""

    highest: dict[str, int]
    """The last row of client 1; 0: there is no table."""
    queued: list[str]
    """What db2's relay log still holds, look by look; the last for ever."""
    away: str
    arriving: dict[str, int]
    """The last row of client 1 that a node has once what was sent to it has arrived."""

    def answer(self, node: str, statement: str) -> Sequence[Row]:
        """One of the questions that counting losses asks."""
        if node == self.away:
            raise ServerUnreachable(f"{node} does not answer")
        if "received_transaction_set" in statement:
            if node == "db1":
                return ()
            queued = self.queued.pop(0) if len(self.queued) > 1 else self.queued[0]
            ages = "applying_us=None waiting_us=None applied_us=None"
            return [fields(f"queued={queued!r} missing='' {ages} busy=0 workers=4")]
        if "WAIT_FOR_EXECUTED_GTID_SET" in statement:
            self.highest[node] = self.arriving.get(node, self.highest[node])
            return [{"late": int(node not in self.arriving)}]
        if "ledger" in statement:
            if not self.highest[node]:
                raise ServerRefused(1146, f"{node}: 1146 Table 'replexplorer.ledger' doesn't exist")
            return [{"client": RUN * CLIENTS_A_RUN + 1, "low": 1, "high": self.highest[node]}]
        return [{"executed": f"u:1-{self.highest[node] + 5}"}]


ACCOUNTS = """\
lost, and more on the old source | db1=4 db2=2       |                  |     |       | db2
in the relay log                 | db1=4 db2=3       | u:6-8,u:7-8,u:8, |     |       | db2
on its way                       | db1=4 db2=2 db3=2 |                  |     | db2=4 | db1
the source is gone               | db1=3 db2=3 db3=1 |                  | db1 |       | db2
the slower replica               | db1=3 db2=3 db3=1 |                  | db1 |       | db3
not even the table arrived       | db1=3 db2=3 db3=0 |                  |     |       | db3
the relay log stays              | db1=4 db2=3       | u:6-8            |     |       | db2
no such node                     | db1=4 db2=3       |                  |     |       | db7"""


@pytest.mark.parametrize(("case", "highest", "queued", "away", "arriving", "survivor"), table_of(ACCOUNTS))
async def test_every_node_that_answers_is_compared_with_what_clients_know(
    case: str, highest: str, queued: str, away: str, arriving: str, survivor: str, snapshot: object
) -> None:
    """What is in the relay log is applied first, and what is on its way to a node is not missing there."""
    rows = Rows(fields(highest), queued.split(","), away, fields(arriving))
    async with stack_of(replicas=len(rows.highest) - 1, answer=rows.answer) as stack:
        stack.world.client_logs.log = read_run([("0.log", LOG.encode())])
        await stack.load.keep_ledger(clients=1)
        try:
            told = await stack.count_losses(survivor, failed_at_s=1.0)
            assert stack.load.settings is None
        except StackUnavailable as error:
            told = error
        assert all(sql.closed for sql in stack.sqls)
    assert (str(told), rows.queued) == snapshot


async def test_without_a_client_log_nothing_can_be_counted() -> None:
    async with stack_of() as stack:
        with pytest.raises(StackUnavailable, match="no load of this session kept a client log"):
            await stack.count_losses("db2")


# Clients on a few rows: at every node that takes writes, rolled back and tried again, all told

PHASE = Phase("hot", (), Length(4), Length(2), ProtectionState.PROTECTED, "they meet", play=contend)
MEMBER = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3)


class Servers:
    """Answers as servers that refuse every `every`-th update with a number; 0: none."""

    def __init__(self, *, every: int = 0, number: int = 1213, missing: str = "") -> None:
        self.every, self.number, self.missing = every, number, missing
        self.updates = Counter[str]()
        self.last = ""

    def __call__(self, node: str, statement: str) -> Sequence[Row]:
        self.last = statement
        if statement.startswith("SELECT"):
            return [{"executed": "a:1-9", "late": int(node == self.missing), "changes": 7}]
        if statement.startswith("UPDATE"):
            self.updates[node] += 1
            if self.every and self.updates.total() % self.every == 0:
                raise ServerRefused(self.number, "rolled back")
        return ()

    async def contended(self, nodes: int = 3) -> PhaseResult:
        """What clients at members find, or at a source and its replica."""
        members = {f"db{number}": MEMBER for number in range(1, nodes + 1)} if nodes > 2 else {}
        async with stack_of(replicas=nodes - 1, answer=self, members=members) as stack:
            try:
                return await contend(Act(stack, PHASE, True, lambda text, done=None: None))
            finally:
                assert all(sql.closed for sql in stack.sqls)


async def test_clients_go_to_every_node_that_takes_writes() -> None:
    servers, alone = Servers(), Servers()
    played = await servers.contended()
    assert set(servers.updates) == {"db1", "db2", "db3"}
    assert max(servers.updates.values()) < 1.2 * min(servers.updates.values())
    assert (played.clients, played.figures[RETRIED], played.duration_s) == (CLIENTS, 0.0, 2)
    assert played.service.count / played.duration_s == pytest.approx(CLIENTS / STATEMENT_S, rel=0.05)
    assert servers.last.startswith("DROP TABLE")
    await alone.contended(2)
    assert set(alone.updates) == {"db1"}, "of a source and its replicas the source has them all"


async def test_what_was_rolled_back_is_tried_again_and_counted() -> None:
    for number in (1180, 1205, 1213, 3101):
        servers = Servers(every=4, number=number)
        played = await servers.contended()
        tries = servers.updates.total()
        assert played.figures[RETRIED] == played.retried == tries // 4
        assert played.service.count <= tries - played.retried
        assert known(played.service.max_ms) > 15, "its time goes on"


async def test_another_refusal_and_a_member_that_does_not_get_the_rows_end_it_and_leave_nothing() -> None:
    refusing, missing = Servers(every=50, number=1290), Servers(missing="db3")
    with pytest.raises(ServerRefused):
        await refusing.contended()
    with pytest.raises(StackUnavailable, match="does not apply what another one commits"):
        await missing.contended()
    assert not missing.updates
    assert all(servers.last.startswith("DROP TABLE") for servers in (refusing, missing))


# Sessions that look for rows: what they write down is what was there, each row once

BASE = RUN * CLIENTS_A_RUN
FOREIGN = -5
"""A client of an earlier run, from the base of this one."""


class Table:
    """A server with the ledger's rows, and a reader's log. What the reader asks is SQL that SQLite speaks
    as well."""

    base = BASE

    def __init__(self) -> None:
        self._rows = sqlite3.connect(":memory:")
        self._rows.row_factory = sqlite3.Row
        self._rows.execute("ATTACH ':memory:' AS replexplorer")
        self._rows.execute(f"CREATE TABLE {LEDGER_TABLE} (client, seq, PRIMARY KEY (client, seq))")
        self.is_away = False
        self.asked = 0
        self.seen: list[tuple[int, int]] = []
        """What was written down."""
        self.add({(FOREIGN, 1)})

    def add(self, rows: set[tuple[int, int]]) -> None:
        added = [(BASE + client, seq) for client, seq in rows]
        self._rows.executemany(f"INSERT OR IGNORE INTO {LEDGER_TABLE} VALUES (?, ?)", added)

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

    def see(self, node: str, rows: Sequence[tuple[int, int, int]]) -> None:
        self.seen += [(client - BASE, seq) for client, first, last in rows for seq in range(first, last + 1)]

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        """Have a reader look meanwhile."""
        reader = asyncio.create_task(Reader("db1", self, self).live())  # type: ignore[arg-type]
        yield
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await self.close()


@given(st.lists(st.sets(st.tuples(st.integers(1, 3), st.integers(1, 12))), max_size=6))
@settings(max_examples=examples(0.6))
def test_each_row_that_appears_above_the_others_is_written_down_once(
    added: list[set[tuple[int, int]]],
) -> None:
    """A client's rows ascend: what appears below its highest is a commit that had been given up."""

    @virtual
    async def run() -> None:
        table, expected = Table(), set[tuple[int, int]]()
        async with table.read():
            for rows in added:
                highest = {
                    client: max((s for c, s in expected if c == client), default=0) for client in (1, 2, 3)
                }
                expected |= {(client, seq) for client, seq in rows if seq > highest[client]}
                table.add(rows)
                await asyncio.sleep(1)
        assert sorted(table.seen) == sorted(expected)

    run()


async def test_a_node_that_was_away_is_read_again() -> None:
    table = Table()
    async with table.read():
        table.is_away = True
        await asyncio.sleep(5)
        assert table.asked < 15, "not in a busy loop"
        table.is_away = False
        table.add({(1, 1)})
        await asyncio.sleep(1)
    assert table.seen == [(1, 1)]

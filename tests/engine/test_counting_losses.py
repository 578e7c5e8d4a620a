"""Reckoning on servers that answer as a test says: relay logs applied, each node's rows, who is away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable, StackUnavailable
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, HEAD, read_run
from tests.fakes.stack import FakeStack, stack_of

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

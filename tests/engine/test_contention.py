"""Clients on a few rows: at every node that takes writes, rolled back and tried again, all told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.experiment.lab import RETRIED, Length, Phase, PhaseResult
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.lab_scripts import CLIENTS, contend
from replexplorer.engine.experiment.phase import Act
from tests.fakes.stack import STATEMENT_S, FakeStack, stack_of

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

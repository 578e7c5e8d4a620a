"""Looks at who waits for what, on a model server."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from replexplorer.core.server.waits import Wait
from replexplorer.engine.session import Session
from tests.fakes.server import ASKED
from tests.fakes.world import World

ON = [{"name": name} for name in ("global_instrumentation", "statements_digest")]


def shown(number: int, state: str, trx: str | None = None) -> dict[str, object]:
    return {
        "id": number, "command": "Query", "state": state, "statement": f"UPDATE t{number}", "age_s": 0.5,
        "event": None, "trx": trx,
    }  # fmt: skip


def counted(times: int) -> list[dict[str, object]]:
    return [
        {"db": "s", "digest": "d", "text": "UPDATE `t`", "times": times, "ps": times * 10**9,
         "examined": times, "sent": 0, "affected": times}
    ]  # fmt: skip


async def test_locks_are_asked_for_only_while_sessions_wait_and_rates_are_differences(
    world: World, session: Session
) -> None:
    server, logins = world.primary, world.primary.logins
    server.answers |= {
        ASKED.consumers.statement: ON,
        ASKED.sessions.statement: [
            shown(1, "Waiting for semi-sync ACK from replica"),
            shown(2, "waiting for handler commit"),
        ],
        ASKED.statement_totals.statement: counted(100),
    }
    async with aclosing(session.waits()) as looks:
        first = await anext(looks)  # a question for locks would fail it: the model does not know it
        assert (first.node, first.sessions, first.statements, first.over_s) == ("db1", 2, None, None)
        assert {each.wait for each in first.groups} == {Wait.ACK, Wait.BEHIND_ACK}
        assert len(first.unseen) == 1
        server.answers |= {
            ASKED.sessions.statement: [shown(3, "updating", "LOCK WAIT"), shown(4, "executing")],
            ASKED.row_locks.statement: [
                {"kind": "row", "waiter": 3, "blocker": 4, "tab": "s.t", "idx": "PRIMARY", "locked": "7",
                 "mode": "X", "waited_s": 2}
            ],
            ASKED.statement_totals.statement: counted(150),
        }  # fmt: skip
        second = await anext(looks)
        (lock,) = second.locks
        assert (lock.waiter, lock.blocker, lock.blocker_statement, lock.waited_s) == (3, 4, "UPDATE t4", 2.0)
        assert second.statements is not None
        assert second.statements[0].per_s == pytest.approx(50, rel=0.1)
        assert second.over_s == pytest.approx(1.0, rel=0.1)
        assert server.logins == logins + 1, "a connection of its own"
        connections = len(server.sessions)
    assert len(server.sessions) == connections - 1


async def test_without_consumers_statements_are_unknown_and_not_none_at_all(
    world: World, session: Session
) -> None:
    world.primary.answers |= {ASKED.consumers.statement: [], ASKED.sessions.statement: []}
    async with aclosing(session.waits()) as looks:
        found = [await anext(looks), await anext(looks)][1]
    assert (found.sessions, found.statements) == (None, None)
    assert found.unseen == ("the performance schema is off: no statements, no stages of a commit",)

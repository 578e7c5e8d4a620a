"""What sessions wait for, by what a server says of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from replexplorer.core.dialect.waits import MYSQL_ROW_LOCKS, MYSQL_SESSIONS, STATEMENT_TOTALS
from replexplorer.core.server.waits import (
    LockWait,
    ServerWaits,
    SessionNow,
    StatementTotals,
    Wait,
    grouped,
    lock_waits,
    not_recorded,
    pages,
    statement_rates,
)
from tests.typed import fields, table_of, values_of

WAITS = """\
Waiting for semi-sync ACK from replica  |                                                | ACK
Waiting for semi-sync ACK from slave    |                                                | ACK
waiting for handler commit              |                                                | COMMIT
waiting for handler commit              | wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_log   | FLUSH
waiting for handler commit              | wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_sync  | SYNC
waiting for handler commit              | wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_commit | ORDER
waiting for handler commit              | wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_after_commit | ORDER
waiting for handler commit              | wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done   | LEADER
waiting for handler commit              | wait/synch/cond/semisync/COND_binlog_send_     | ACK
waiting for handler commit              | wait/synch/cond/group_rpl/COND_count_down_latch | GROUP
waiting for handler commit              | wait/io/file/sql/binlog                        | BINLOG
waiting for handler commit              | wait/io/file/innodb/innodb_log_file            | REDO
Commit                                  |                                                | COMMIT
Waiting for prior transaction to commit |                                                | ORDER
Waiting for certification               |                                                | GROUP
Writing to binlog                       |                                                | BINLOG
Waiting for table metadata lock         |                                                | METADATA_LOCK
Sending to client                       |                                                | NETWORK
Sending binlog event to replica         |                                                | NETWORK
Source has sent all binlog to replica; waiting for more updates |                        | EVENTS
System lock                             |                                                | NOTHING
executing                               | wait/io/table/sql/handler                      | NOTHING
"""


def session(
    number: int,
    state: str,
    age_s: float | None = 1.0,
    *,
    command: str = "Query",
    event: str | None = None,
    transaction: str | None = None,
) -> SessionNow:
    waits_for_row = transaction == "LOCK WAIT"
    text = f"UPDATE t{number}"
    return SessionNow(number, command, state, text, age_s, event, transaction is not None, waits_for_row)


def test_a_wait_is_named_by_the_event_and_else_by_the_state() -> None:
    for state, event, wait in table_of(WAITS):
        assert session(1, state, event=event or None).wait is Wait[wait], state


def test_an_idle_session_waits_for_its_client_and_innodb_s_word_goes_first() -> None:
    sleeps = [session(1, "", command="Sleep", transaction=word).wait for word in (None, "RUNNING")]
    assert sleeps == [Wait.CLIENT, Wait.OPEN]
    assert session(1, "updating", transaction="LOCK WAIT").wait is Wait.ROW_LOCK


def test_many_clients_in_one_state_are_one_row_and_idle_ones_the_last(snapshot: object) -> None:
    commits = [session(number, "waiting for handler commit", number / 100) for number in range(1, 65)]
    others = [session(n, "", 900.0, command="Sleep") for n in range(100, 200)]
    ack = session(90, "Waiting for semi-sync ACK from replica", None)
    assert grouped([*others, ack, *commits], after_sync=True) == snapshot
    assert grouped(commits, after_sync=False)[0].wait is Wait.COMMIT


EDGE = LockWait("row", 1, 2, "shop.t", "PRIMARY", "7", "X", 4.0)


def test_who_holds_a_lock_is_the_one_that_waits_for_none(snapshot: object) -> None:
    sessions = [
        session(1, "updating", 7.0, transaction="LOCK WAIT"),
        session(2, "updating", 5.0, transaction="LOCK WAIT"),
        session(3, "", 90.0, command="Sleep", transaction="RUNNING"),
    ]
    edges = [EDGE, replace(EDGE, blocker=3), LockWait("metadata", 2, None, None)]
    assert lock_waits(edges, sessions) == snapshot


BEFORE = """\
"a" 10 100.0 10 0 10
"b" 5  1.0   0  0 0
"""
NOW = """\
"a" 30  140.0 70 0 30
"b" 2   1.0   0  0 0
"c" 900 9.0   0  0 0
"""
"""The second one counts from zero again; the third is old, and was not looked at before."""


def test_rates_are_of_what_came_between_two_looks(snapshot: object) -> None:
    before, now = (
        {("s", digest, digest.upper()): StatementTotals(*counts) for digest, *counts in values_of(look)}
        for look in (BEFORE, NOW)
    )
    assert statement_rates(before, now, 2.0) == snapshot


def test_answers_are_read_with_what_is_unknown(snapshot: object) -> None:
    row = fields("id=9 command='Query' state=None age_s=None event=None trx=None")
    edge = fields("kind='row' waiter=9 blocker=None tab='`a`.`t`' idx='k' mode='X'")
    waited = {"locked": "'x', 7", "waited_s": Decimal(-1)}
    counted = fields("db=None digest='d' times=2 examined=3 sent=4 affected=5") | {"ps": Decimal(10**9)}
    own = {**counted, "text": "SELECT * FROM `performance_schema` . `threads`"}
    totals = STATEMENT_TOTALS.read([{**counted, "text": "UPDATE `t`"}, own])
    sessions = MYSQL_SESSIONS.read([{**row, "statement": "UPDATE\n  t"}])
    assert (sessions, MYSQL_ROW_LOCKS.read([edge | waited]), totals) == snapshot


def test_what_is_not_recorded_is_said(snapshot: object) -> None:
    on = frozenset(("global_instrumentation", "statements_digest", "events_waits_current"))
    found = [not_recorded(each) for each in (on, on - {"events_waits_current"}, frozenset[str]())]
    assert found == snapshot


def test_the_pages_have_a_part_for_each_thing_that_is_known(snapshot: object) -> None:
    sessions = [session(1, "updating", 7.0, transaction="LOCK WAIT"), session(2, "", None, command="Sleep")]
    edges = [EDGE, LockWait("row", 1, 3, "shop.t")]
    found = ServerWaits(
        node="db1", sessions=2, groups=grouped(sessions, after_sync=False), locks=lock_waits(edges, sessions),
        statements=None, over_s=None, unseen=("statements: off",),
    )  # fmt: skip
    assert {heading: list(lines) for heading, lines in pages(found)} == snapshot

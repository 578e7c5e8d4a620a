"""Looking closer at the nodes: a commit's waits on the primary, a replica's applier and its dump thread.

Law: as of all looking (`observer`): it changes nothing, and what a server does not have is None.
"""

from __future__ import annotations

from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.server.commit_counters import CommitSample, commit_statement
from replexplorer.core.server.truth import Applied
from replexplorer.engine.fleet import Member
from replexplorer.ports import Clock, Row, Sql

_DEADLINE_S: Final = 2.0

SENT_STATEMENT: Final = (
    "SELECT @@GLOBAL.gtid_executed AS executed, t.thread_id AS dump_thread, s.variable_value AS sent"
    " FROM (SELECT 1) AS always"
    " LEFT JOIN performance_schema.threads t"
    " ON t.processlist_command LIKE 'Binlog Dump%%' AND t.processlist_host = %s"
    " LEFT JOIN performance_schema.status_by_thread s"
    " ON s.thread_id = t.thread_id AND s.variable_name = 'Bytes_sent'"
    " ORDER BY t.thread_id DESC LIMIT 1"
)
"""On the primary, by a replica's address: what it has executed, and what its dump thread has sent;
of two dump threads the newer, for the older one has not noticed yet that it is alone."""

_AGE: Final = "TIMESTAMPDIFF(MICROSECOND, {}_transaction_original_commit_timestamp, NOW(6))"
_WORKERS: Final = "performance_schema.replication_applier_status_by_worker"
APPLIED_STATEMENT: Final = (
    "SELECT GTID_SUBTRACT(c.received_transaction_set, @@GLOBAL.gtid_executed) AS queued,"
    " GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) AS missing,"
    f" (SELECT MAX({_AGE.format('applying')}) FROM {_WORKERS} WHERE applying_transaction <> '')"
    " AS applying_us,"
    f" (SELECT MAX({_AGE.format('processing')})"
    " FROM performance_schema.replication_applier_status_by_coordinator"
    " WHERE processing_transaction <> '') AS waiting_us,"
    f" (SELECT MIN({_AGE.format('last_applied')}) FROM {_WORKERS} WHERE last_applied_transaction <> '')"
    " AS applied_us"
    " FROM performance_schema.replication_connection_status c WHERE c.channel_name = ''"
)
"""On a replica, with the primary's executed set: what it lacks, and ages of transactions by the time
that the primary wrote into them (MySQL 8.0 and later)."""
HEARTBEAT_AGE_STATEMENT: Final = (
    "SELECT GTID_SUBTRACT(c.received_transaction_set, @@GLOBAL.gtid_executed) AS queued,"
    " GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) AS missing, NULL AS applying_us, NULL AS waiting_us,"
    " (SELECT TIMESTAMPDIFF(MICROSECOND, MAX(beaten_at), NOW(6)) FROM replexplorer.heartbeat) AS applied_us"
    " FROM performance_schema.replication_connection_status c WHERE c.channel_name = ''"
)
"""The same where transactions carry no time: the age of the newest heartbeat that was applied."""


async def sample_commits(member: Member, user: str, clock: Clock) -> CommitSample | None:
    """The primary's counters of the commits of one account's sessions, as of the middle of the call."""
    asked_s = clock.monotonic()
    try:
        rows = await member.poll.query(commit_statement(user), deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return None
    return CommitSample.read((asked_s + clock.monotonic()) / 2, rows)


async def sample_applied(primary: Member | None, replica: Member, clock: Clock) -> Applied | None:
    """How far a replica is, against what the primary had executed a moment before; None for a primary
    that does not answer: then only what the replica received counts."""
    sent = await _first(primary.poll, SENT_STATEMENT, replica.address.address) if primary else None
    executed = "" if sent is None else str(sent["executed"]).replace("\n", "")
    row = await _first(replica.poll, APPLIED_STATEMENT, executed)
    if row is None:
        row = await _first(replica.poll, HEARTBEAT_AGE_STATEMENT, executed)
    if row is None:
        return None
    ages_us = [age for name in ("applying_us", "waiting_us") if (age := _whole(row, name)) is not None]
    return Applied(
        at_s=clock.monotonic(),
        queued_gtids=_text(row, "queued"),
        missing_gtids=None if sent is None else _text(row, "missing"),
        applying_us=max(ages_us, default=None),
        applied_us=_whole(row, "applied_us"),
        dump_thread=_whole(sent, "dump_thread"),
        sent_bytes=_whole(sent, "sent"),
    )


async def _first(sql: Sql, statement: str, argument: str | None) -> Row | None:
    """The first row; None where the server does not answer or does not know what is asked."""
    try:
        rows = await sql.query(statement, (argument,), deadline_s=_DEADLINE_S)
    except ReplexplorerError:
        return None
    return rows[0] if rows else None


def _whole(row: Row | None, name: str) -> int | None:
    return None if row is None or row[name] is None else int(str(row[name]))


def _text(row: Row, name: str) -> str | None:
    return None if row[name] is None else str(row[name])

"""One sample of a server: its counters, values and threads; closer, its commits and its applier.

Law: looking never changes anything and never raises; what could not be learned is None. A node
is down only when no login to it succeeds, not when one answer was slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from replexplorer.core.dialect.capabilities import (
    METADATA_PROBES,
    OLDEST_WAIT_STATEMENT,
    TIMEOUTS_STATEMENT,
    VARIABLES_PROBE,
    Capabilities,
    ServerStatus,
)
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable
from replexplorer.core.knobs.names import Value
from replexplorer.core.server.commit_counters import CommitSample, commit_statement
from replexplorer.core.server.counters import Sample
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Evidence, Protection, acks_between, blocked_after_s, judge
from replexplorer.core.server.truth import Applied
from replexplorer.engine.fleet import Member
from replexplorer.ports import Clock, Row, Sql

_POLL_DEADLINE_S = 2.0
OWNED_AND_EXECUTED_STATEMENT: Final = (
    "SELECT @@GLOBAL.gtid_owned AS owned, @@GLOBAL.gtid_executed AS executed"
)
"""In this order: what is committed in between is in the second."""
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


@dataclass(frozen=True, slots=True)
class NodeSample:
    """One server at one moment."""

    at_s: float
    view: NodeView
    status: ServerStatus = field(default_factory=ServerStatus)
    values: Mapping[str, Value] = field(default_factory=dict)
    """Knob key to effective value; empty while unknown."""
    oldest_wait_s: float | None = None
    waiting: int | None = None
    """Commits under way; None where the server does not say."""
    logged_timeouts: int | None = None
    commits: CommitSample | None = None
    """On the primary, when it was looked at closely."""
    replica_switch: bool | None = None
    """On a replica: it registers for semi-sync when it next connects to its source."""
    answered_s: float | None = None
    """When its last answer was in, on the same clock."""

    @property
    def counters(self) -> Sample:
        """Its cumulative counters, as `core.counters` compares them."""
        return Sample(self.at_s, self.status, self.view.server_uuid, self.answered_s)


async def probe(sql: Sql) -> Capabilities:
    """Ask a server what it has; raises ServerUnreachable."""
    variables = await sql.query(VARIABLES_PROBE)
    metadata: Sequence[Row] = ()
    for statement in METADATA_PROBES:
        try:
            metadata = await sql.query(statement)
            break
        except ServerRefused:
            continue
    return Capabilities.probe(variables, metadata)


async def sample_node(
    member: Member, at_s: float, before: NodeSample | None, *, with_gtids: bool = False
) -> NodeSample:
    """Sample one server through its poll connection."""
    try:
        if member.capabilities is None:
            member.capabilities = await probe(member.poll)
        return await _sample_reachable(member, member.capabilities, at_s, before, with_gtids)
    except ReplexplorerError:
        reachable = await answers(member.poll)
        return NodeSample(at_s, bare_view(member, reachable=reachable))


async def answers(sql: Sql, *, within_s: float = _POLL_DEADLINE_S) -> bool:
    """Whether a login succeeds and a trivial statement answers."""
    try:
        await sql.query("SELECT 1", deadline_s=within_s)
    except ServerUnreachable:
        return False
    except ServerRefused:
        return True
    return True


async def _sample_reachable(
    member: Member, capabilities: Capabilities, at_s: float, before: NodeSample | None, with_gtids: bool
) -> NodeSample:
    """Ask for counters and values; on a replica for its threads as well."""
    sql = member.poll
    status = capabilities.read_status(
        await sql.query(capabilities.status_statement(), deadline_s=_POLL_DEADLINE_S)
    )
    variables = await sql.query(capabilities.values_statement(), deadline_s=_POLL_DEADLINE_S)
    values = capabilities.read_values(variables)
    view = bare_view(member, reachable=True)
    if with_gtids:
        view = replace(view, gtid_executed=await _gtid_executed(sql))
    if member.address.role != "primary":
        view = await _with_threads(sql, view, capabilities)
        switch = capabilities.read_replica_switch(variables)
        return NodeSample(at_s, view, status, values, replica_switch=switch)
    timeouts = before.logged_timeouts if before else None
    if before is None or before.status.no_times != status.no_times:
        timeouts = _number(await _optional(sql, TIMEOUTS_STATEMENT, "timeouts"))
    oldest, waiting = await _waits(sql) if values.get("semi_sync") == "on" else (None, None)
    return NodeSample(
        at_s,
        view,
        status,
        values,
        oldest_wait_s=oldest,
        waiting=None if capabilities.flavor == "mariadb" else waiting,
        logged_timeouts=timeouts,
    )


def bare_view(member: Member, *, reachable: bool) -> NodeView:
    """What is known of the node without asking its server."""
    address, capabilities = member.address, member.capabilities
    located = getattr(member.poll, "address", None)
    return NodeView(
        name=address.name,
        role=address.role,
        reachable=reachable,
        host=located.host if located else address.address,
        port=located.port if located else 3306,
        published_port=address.published_port,
        path=located.path if located else None,
        flavor=capabilities.flavor if capabilities else None,
        version=capabilities.version_text if capabilities else None,
        server_uuid=capabilities.server_uuid if capabilities else None,
    )


async def errant_gtids(primary: Member, replica: Member) -> str | None:
    """What a replica has executed and its source lacks, empty for none; None when one does not tell.

    The replica is asked first, for the source only grows meanwhile. A commit that waits for its
    acknowledgement may be executed there and is owned by its session here: it lacks nothing.
    """
    try:
        executed = await _gtid_executed(replica.poll)
        rows = await primary.poll.query(OWNED_AND_EXECUTED_STATEMENT, deadline_s=_POLL_DEADLINE_S)
    except ReplexplorerError:
        return None
    if executed is None or not rows:
        return None
    return subtract_gtids(executed, str(rows[0]["owned"]), str(rows[0]["executed"]))


async def _gtid_executed(sql: Sql) -> str | None:
    """The executed GTID set in one line; None where the server has none."""
    value = await _optional(sql, "SELECT @@GLOBAL.gtid_executed AS gtids", "gtids")
    return None if value is None else str(value).replace("\n", "")


async def _waits(sql: Sql) -> tuple[float | None, int | None]:
    """Age in seconds of the oldest commit that waits for an acknowledgement, and commits under way."""
    try:
        (row,) = await sql.query(OLDEST_WAIT_STATEMENT, deadline_s=_POLL_DEADLINE_S)
    except ServerRefused:
        return None, None
    oldest = row["oldest_wait_s"]
    return None if oldest is None else float(str(oldest)), _number(row["waiting"])


async def _optional(sql: Sql, statement: str, column: str) -> object | None:
    """One figure that a server may not have."""
    try:
        rows = await sql.query(statement, deadline_s=_POLL_DEADLINE_S)
    except ServerRefused:
        return None
    return rows[0][column] if rows else None


def _number(value: object | None) -> int | None:
    return None if value is None else int(str(value))


async def _with_threads(sql: Sql, view: NodeView, capabilities: Capabilities) -> NodeView:
    """The view with the state of the replication threads and the lag that the server tells."""
    rows = await sql.query(f"SHOW {capabilities.replica_word} STATUS", deadline_s=_POLL_DEADLINE_S)
    if not rows:
        return replace(view, io_thread="off", sql_thread="off")
    row = {
        name.lower().replace("slave", "replica").replace("master", "source"): v for name, v in rows[0].items()
    }
    lag = row.get("seconds_behind_source")
    return replace(
        view,
        io_thread=_thread_state(str(row["replica_io_running"]), _number(row["last_io_errno"])),
        sql_thread=_thread_state(str(row["replica_sql_running"]), _number(row["last_sql_errno"])),
        lag_s=None if lag is None else float(lag),
        replication_fault=" ".join(str(row.get("last_sql_error") or row.get("last_io_error") or "").split())
        or None,
    )


def _thread_state(running: str, error_number: int | None) -> str:
    """on, connecting, error (stopped by one) or off (stopped by somebody)."""
    match running.lower():
        case "yes":
            return "on"
        case "connecting" | "preparing":
            return "connecting"
        case _:
            return "error" if error_number else "off"


async def sample_commits(member: Member, user: str, clock: Clock) -> CommitSample | None:
    """The primary's counters of the commits of one account's sessions, as of the middle of the call."""
    asked_s = clock.monotonic()
    try:
        rows = await member.poll.query(commit_statement(user), deadline_s=_POLL_DEADLINE_S)
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
        rows = await sql.query(statement, (argument,), deadline_s=_POLL_DEADLINE_S)
    except ReplexplorerError:
        return None
    return rows[0] if rows else None


def _whole(row: Row | None, name: str) -> int | None:
    return None if row is None or row[name] is None else int(str(row[name]))


def _text(row: Row, name: str) -> str | None:
    return None if row[name] is None else str(row[name])


def judge_protection(
    sample: NodeSample | None,
    before: NodeSample | None,
    *,
    requested: bool,
    yes_tx_at_enabling: int | None,
    enabled_for_s: float | None = None,
    asked_rtts_ms: Sequence[float],
    replicas_able: int | None = None,
    links_open: int | None = None,
    own_offs: int = 0,
) -> Protection:
    """The protection state from the primary's last two samples."""
    if sample is None or not sample.view.reachable:
        return judge(Evidence(reachable=False, requested=requested))
    values = sample.values
    enabled = values.get("semi_sync")
    return judge(
        Evidence(
            reachable=True,
            requested=requested,
            enabled=None if enabled is None else enabled == "on",
            wait_point=_word(values.get("wait_point")),
            timeout_ms=_number(values.get("semi_sync_timeout")),
            required=_number(values.get("semi_sync_replicas")),
            status=sample.status,
            yes_tx_at_enabling=yes_tx_at_enabling,
            enabled_for_s=enabled_for_s,
            asked_rtts_ms=tuple(asked_rtts_ms),
            oldest_wait_s=sample.oldest_wait_s,
            waiting=sample.waiting,
            acks_since_last=acks_between(before.status, sample.status) if before else None,
            logged_timeouts=sample.logged_timeouts,
            replicas_able=replicas_able,
            links_open=links_open,
            own_offs=own_offs,
        )
    )


def _word(value: Value | None) -> str | None:
    return None if value is None else str(value)


def waits_too_long(sample: NodeSample, asked_rtts_ms: Sequence[float]) -> bool:
    """Whether a commit waits so long that a second sample must tell `blocked` from `armed`."""
    return sample.oldest_wait_s is not None and sample.oldest_wait_s > blocked_after_s(tuple(asked_rtts_ms))

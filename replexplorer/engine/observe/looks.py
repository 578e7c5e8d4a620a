"""Looking at the nodes: one sample of a server, of a link, of everything.

Law: looking never changes anything and never raises; what could not be learned is None. A node
is down only when no login to it succeeds, not when one answer was slow.
"""

from __future__ import annotations

import asyncio
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
from replexplorer.core.link import LinkSettings, contradiction, installed
from replexplorer.core.server.commit_counters import CommitSample
from replexplorer.core.server.counters import Sample
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.protection import Evidence, acks_between, blocked_after_s, judge
from replexplorer.core.tick import DiskView, LinkView, NodeView, Protection
from replexplorer.engine.fleet import Member
from replexplorer.ports import LinkState, Row, Sql

_POLL_DEADLINE_S = 2.0
OWNED_AND_EXECUTED_STATEMENT: Final = (
    "SELECT @@GLOBAL.gtid_owned AS owned, @@GLOBAL.gtid_executed AS executed"
)
"""In this order: what is committed in between is in the second."""


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


async def sample_link(
    primary: Member, replica: Member, settings: LinkSettings, *, healing: bool = False
) -> LinkView:
    """One link as both agents see it; a dead agent leaves unknowns and says so."""
    answers_ = await asyncio.gather(
        primary.agent.link(replica.name), replica.agent.link(primary.name), return_exceptions=True
    )
    fault = next((str(error) for error in answers_ if isinstance(error, ReplexplorerError)), None)
    for error in answers_:
        if isinstance(error, BaseException) and not isinstance(error, ReplexplorerError):
            raise error
    towards, back = (answer if isinstance(answer, LinkState) else None for answer in answers_)
    return replace(link_view(replica.name, settings, towards, back, fault), healing=healing)


def link_view(
    replica: str,
    settings: LinkSettings,
    towards: LinkState | None,
    back: LinkState | None,
    fault: str | None = None,
) -> LinkView:
    """A link's figures from the primary's side (`towards` the replica) and the replica's."""
    if towards is None or back is None:
        return LinkView(replica, settings=settings, fault=fault or "an agent does not answer")
    force = installed(settings, towards, back)
    probes = towards.probes + towards.lost
    return LinkView(
        replica=replica,
        backend=towards.backend if towards.backend == back.backend else f"{towards.backend}/{back.backend}",
        settings=settings,
        values=force.values,
        as_asked=force.as_asked,
        rtt_measured_ms=towards.measured_ms,
        rtt_base_ms=towards.base_ms,
        probes_lost_percent=100 * towards.lost / probes if probes else None,
        dropped=towards.dropped + back.dropped,
        fault=fault or contradiction(settings, towards.measured_ms, towards.base_ms),
    )


async def sample_disk(member: Member, asked_ms: float, *, probe: bool = False) -> DiskView:
    """One node's disk as its agent sees it; with `probe` one that was never probed is probed."""
    view = DiskView(member.name, asked_ms)
    try:
        state = await member.agent.disk()
        if probe and state.probe is None and state.attached:
            state = await member.agent.disk(probe=True)
    except ReplexplorerError:
        return view
    return replace(
        view,
        delay_ms=state.delay_ms,
        measured_ms=state.measured_ms,
        measured_n=state.measured_n,
        probe_p50_ms=state.probe.p50_ms if state.probe else None,
        probe_p95_ms=state.probe.p95_ms if state.probe else None,
        probe_p99_ms=state.probe.p99_ms if state.probe else None,
        fsyncs=state.fsyncs,
        fault=state.reason,
    )


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

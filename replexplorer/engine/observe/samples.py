"""One look: at a server (counters, values, threads, commits, applier), at a link and a disk through the
agents, at what the servers' work has cost so far.

Law: looking never changes anything and never raises; what could not be learned is None. A node is down
only when no login to it succeeds, not when one answer was slow; a dead agent is named as the fault.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from replexplorer.core.dialect.dialect import Threads
from replexplorer.core.dialect.flavours import ALIVE, IDENTITY, Dialect, flavour_of
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import NoAnswerInTime, ReplexplorerError, ServerRefused, ServerUnreachable
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Value
from replexplorer.core.link import LinkSettings, LinkView, contradiction, installed
from replexplorer.core.loss.client_log import Rows
from replexplorer.core.machine import Machine
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.counters import CommitSample, CostSample, CpuUsed, Sample, Sent, ServerStatus
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.gtid import hole, subtract_gtids
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import acks_between
from replexplorer.core.server.truth import ApplierSample
from replexplorer.core.topology import Belonging, Role, Standing
from replexplorer.core.wire import LinkState
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import Ability, Clock, Sql, ask, ask_if_known

_POLL_DEADLINE_S: Final = 2.0
_LOGIN_WITHIN_S: Final = 5.0
"""The first one to a server."""
T = TypeVar("T")


@frozen
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
    follows: str | None = None
    """The host that it replicates from, as it was configured; None: from none."""
    refuses_writes: bool | None = None
    """`super_read_only` is on; None where the server has no such switch."""
    late: str | None = None
    """That its server runs and did not answer in time, in words; None where that is not why."""

    @property
    def counters(self) -> Sample:
        """Its cumulative counters, as `core.counters` compares them."""
        return Sample(self.at_s, self.status, self.view.server_uuid, self.answered_s)


async def sample_node(
    member: Member, at_s: float, before: NodeSample | None, *, with_gtids: bool = False
) -> NodeSample:
    """Sample one server through its poll connection. Without the question what it has executed stays as it
    was told last: another look may come between the question and who asked."""
    try:
        is_new = member.probed is None and member.address.server_running
        if is_new and await answers(member.poll, within_s=_LOGIN_WITHIN_S):
            member.probed = await probe(member.poll)
        return await _sample_reachable(member, at_s, before, with_gtids)
    except ReplexplorerError as error:
        reachable = member.probed is not None and await answers(member.poll)
        is_late = isinstance(error, NoAnswerInTime) and member.address.server_running
        view = bare_view(member, reachable=reachable)
        return NodeSample(at_s, view, late=error.message if is_late else None)


def standing_of(fleet: Fleet, sample: NodeSample) -> Standing:
    """What a sample says of the node's role; one that did not answer keeps its role."""
    name, reachable = sample.view.name, sample.view.reachable
    if not sample.values:
        return replace(fleet.standing(name), reachable=reachable)
    follows = None if sample.follows is None else fleet.node_at(sample.follows)
    member = sample.view.member
    return Standing(name, reachable, follows, sample.refuses_writes, member.belongs if member else None)


async def probe(sql: Sql) -> Dialect:
    """Ask a server what it is; raises ServerUnreachable."""
    variables = await ask(sql, IDENTITY)
    flavour = flavour_of(variables)
    return flavour.of(variables, await ask_if_known(sql, flavour.ranges) or {})


_ROWS_WITHIN_S: Final = 120.0
_NO_SUCH: Final = frozenset({1049, 1146})
"""Unknown database, unknown table."""


async def ledger_rows(sql: Sql, dialect: Dialect, run: int) -> Rows:
    """The rows of a run of the `ledger` load that a server has, by client; none where it has no table of
    them. Raises as `ask`."""
    try:
        return await ask(sql, dialect.ledger_rows(run), deadline_s=_ROWS_WITHIN_S)
    except ServerRefused as refused:
        if refused.number not in _NO_SUCH:
            raise
        return {}


async def asked(member: Member, question: Callable[[Dialect], Question[T] | None]) -> T | None:
    """What its server answers its poll connection; None where there is no such question, where it refuses it,
    and where it does not answer."""
    with contextlib.suppress(ReplexplorerError):
        if (asks := question(member.dialect)) is not None:
            return await ask(member.poll, asks, deadline_s=_POLL_DEADLINE_S)
    return None


async def answers(sql: Sql, *, within_s: float = _POLL_DEADLINE_S) -> bool:
    """Whether a login succeeds and a trivial statement answers."""
    try:
        await ask(sql, ALIVE, deadline_s=within_s)
    except ServerUnreachable:
        return False
    except ServerRefused:
        return True
    return True


async def _sample_reachable(
    member: Member, at_s: float, before: NodeSample | None, with_gtids: bool
) -> NodeSample:
    """Ask for counters and values, whom it follows, and for what only a source or a replica has."""
    dialect = member.dialect

    async def answer(question: Question[T]) -> T:
        return await ask(member.poll, question, deadline_s=_POLL_DEADLINE_S)

    status, settings = await answer(dialect.status), await answer(dialect.settings)
    view = bare_view(member, reachable=True)
    if before is not None:
        kept = before.view
        view = replace(view, gtid_executed=kept.gtid_executed, retrieved_gtids=kept.retrieved_gtids)
    if with_gtids:
        executed = await ask_if_known(member.poll, dialect.executed, deadline_s=_POLL_DEADLINE_S)
        view = replace(view, gtid_executed=executed)
    sample = NodeSample(at_s, view, status, settings.values, refuses_writes=settings.refuses_writes)
    if (question := dialect.membership) is not None:
        membership = await answer(question)
        return replace(sample, view=replace(view, state=membership.state, member=membership))
    threads = await answer(dialect.threads)
    if threads is not None or settings.refuses_writes:
        threads = threads or Threads("off", "off")
        view = replace(
            view,
            io_thread=threads.io,
            sql_thread=threads.sql,
            lag_s=threads.lag_s,
            io_error=threads.io_error,
            sql_error=threads.sql_error,
            # With what it has executed: a recording keeps a node whenever it changes.
            retrieved_gtids=threads.retrieved if with_gtids else view.retrieved_gtids,
        )
        return replace(sample, view=view, replica_switch=settings.registers, follows=threads.source_host)
    waits = None
    if settings.values.get(keys.SEMI_SYNC) == "on":
        waits = await ask_if_known(member.poll, dialect.waits, deadline_s=_POLL_DEADLINE_S)
        if before is not None and before.oldest_wait_s and acks_between(before.status, status) == 0:
            # A timeout switches semi-sync off and then releases who waits: counters from before it beside
            # waits from after it would show a source that is on and for which nobody waits.
            status = await answer(dialect.status)
    timeouts = before.logged_timeouts if before else None
    if before is None or before.status.no_times != status.no_times:
        # After the last look at the counters: one that is missed here is never asked for again.
        timeouts = await ask_if_known(member.poll, dialect.timeouts, deadline_s=_POLL_DEADLINE_S)
    return replace(
        sample,
        status=status,
        oldest_wait_s=waits.oldest_s if waits else None,
        waiting=waits.number if waits else None,
        logged_timeouts=timeouts,
    )


def bare_view(member: Member, *, reachable: bool) -> NodeView:
    """What is known of the node without asking its server; its role is for whoever knows the others."""
    address, capabilities = member.address, member.capabilities
    located = getattr(member.poll, "address", None)
    return NodeView(
        name=address.name,
        role=Role.REPLICA if reachable else Role.DOWN,
        reachable=reachable,
        host=located.host if located else address.address,
        port=located.port if located else address.port,
        published_host=address.published_host,
        published_port=address.published_port,
        path=located.path if located else None,
        machine=address.machine,
        flavor=capabilities.flavor if capabilities else None,
        version=capabilities.version_text if capabilities else None,
        server_uuid=capabilities.server_uuid if capabilities else None,
    )


async def errant_gtids(primary: Member, replica: Member) -> str | None:
    """What a replica has executed and its source lacks, empty for none; None when one does not say.

    The replica is asked first, for the source only grows meanwhile. A commit that waits for its
    acknowledgement may be executed there and is owned by its session here: it lacks nothing. Members of one
    group apply the same transactions, each in its own time: none of them is ahead.
    """
    member = await asked(replica, lambda dialect: dialect.membership)
    if member is not None and member.belongs is not Belonging.OUTSIDE:
        return ""
    executed = await asked(replica, lambda dialect: dialect.executed)
    position = await asked(primary, lambda dialect: dialect.position)
    if executed is None or position is None:
        return None
    return subtract_gtids(executed, position.owned, position.executed)


async def hole_of(source: Member, node: Member) -> str | None:
    """The transactions of its own that a node has lost and the source has, empty for none; None when one does
    not say. The node is asked last, for it only grows meanwhile."""
    theirs = await asked(source, lambda dialect: dialect.executed)
    own = await asked(node, lambda dialect: dialect.executed)
    if theirs is None or own is None:
        return None
    return hole(node.server_uuid, own, theirs) if node.server_uuid else ""


async def sample_commits(member: Member, user: str | None, clock: Clock) -> CommitSample | None:
    """The primary's counters of the commits of one account's sessions, or of everybody's for None, as of the
    middle of the call; None where it has none, or does not answer."""
    asked_s = clock.monotonic()
    totals = await asked(member, lambda dialect: dialect.timed.question(user))
    return None if totals is None else CommitSample((asked_s + clock.monotonic()) / 2, totals)


async def sample_applied(primary: Member | None, replica: Member, clock: Clock) -> ApplierSample | None:
    """How far a replica is, against what the primary had executed a moment before; None for a primary
    that does not answer: then only what the replica received counts."""
    sent = await asked(primary, partial(_stream_to, replica=replica)) if primary else None
    executed = sent.executed if sent else ""
    behind = await asked(replica, lambda dialect: dialect.behind(executed))
    if behind is None:
        return None
    return ApplierSample(clock.monotonic(), behind if sent else replace(behind, missing=None), sent)


_TIMED_OUT: Final = "Timeout waiting for reply of binlog"
_COMES_WITHIN_S: Final = 3.0
"""The counter may be seen before its line has come through the log."""


class TimeoutLook:
    """Reads the log of a server when its counter has moved, and for a moment after it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._moved_s: dict[str, float] = {}

    async def look(self, node: str, now: NodeSample, before: NodeSample | None) -> int | None:
        """Timeouts since the server's start, from two samples of it; None if unknown."""
        switched = now.status.no_times
        if not switched:
            return now.logged_timeouts if switched is None or now.logged_timeouts is not None else 0
        known = None if before is None else before.logged_timeouts
        was = None if before is None else before.status.no_times
        if was != switched:
            if now.logged_timeouts is not None:
                return now.logged_timeouts  # the server has a table of them
            self._moved_s[node] = now.at_s
        if node not in self._moved_s or now.at_s - self._moved_s[node] > _COMES_WITHIN_S:
            return now.logged_timeouts
        found = await self._logged(node)
        goes_on = known is not None and was is not None and was <= switched
        return found if found is None or known is None or not goes_on else max(known, found)

    async def _logged(self, node: str) -> int | None:
        if not self._fleet.can(Ability.STOP_SERVERS):
            return None  # of these servers nobody here has the log
        with contextlib.suppress(ReplexplorerError):
            return sum(_TIMED_OUT in line for _, line in await self._fleet.server_process(node).log())
        return None


async def watch_links(fleet: Fleet, pairs: Iterable[str] = ()) -> None:
    """Let both ends of the source's links, and of `pairs`, probe the other; an agent that is away shows as
    the link's fault. Where links are not shaped nobody probes them either."""
    if not fleet.can(Ability.SHAPE_LINKS):
        return
    links = (*fleet.replica_names, *pairs)
    await asyncio.gather(*(watch_link(*fleet.ends(link)) for link in links))


async def watch_link(one: Member, other: Member) -> None:
    """Let both ends of one link probe the other."""
    if one.address.address is None or other.address.address is None:
        return
    with contextlib.suppress(ReplexplorerError):
        await asyncio.gather(
            one.agent.watch(other.name, other.address.address),
            other.agent.watch(one.name, one.address.address),
        )


async def link_states(one: Member, other: Member) -> tuple[LinkState, LinkState]:
    """A link as the agents at both ends have it, the one's first; raises as `ports.Agent` does."""
    return await asyncio.gather(one.agent.link(other.name), other.agent.link(one.name))


async def sample_link(
    link: str, one: Member, other: Member, settings: LinkSettings, *, healing: bool
) -> LinkView:
    """One link as both agents see it, its figures from the end that its knobs take for the primary; a dead
    agent leaves unknowns and says so."""
    try:
        towards, back = await link_states(one, other)
    except ReplexplorerError as error:
        return LinkView(link, settings=settings, fault=str(error), healing=healing)
    in_force, as_asked = installed(settings, towards, back)
    probes = towards.probes + towards.lost
    half_a_flap = None if towards.flap == back.flap else "flaps at one end only"
    return LinkView(
        replica=link,
        backend=both(towards.backend, back.backend),
        settings=settings,
        values=in_force.values(),
        as_asked=as_asked,
        rtt_measured_ms=towards.measured_ms,
        rtt_base_ms=towards.base_ms,
        probes_lost_percent=100 * towards.lost / probes if probes else None,
        dropped=towards.dropped + back.dropped,
        flap=towards.flap or back.flap,
        is_down=towards.is_down or back.is_down,
        fault=half_a_flap or contradiction(settings, towards.measured_ms, towards.base_ms),
        healing=healing,
    )


def both(towards: str | None, back: str | None) -> str | None:
    """What both ends say, apart where they differ: `netem/nfqueue`."""
    return towards if towards == back else f"{towards or 'unknown'}/{back or 'unknown'}"


async def sample_disk(member: Member, asked_ms: float, *, probe: bool) -> DiskView:
    """One node's disk as its agent sees it; with `probe` one that was never probed is probed."""
    try:
        state = await member.agent.disk()
        if probe and state.probe is None and state.attached:
            state = await member.agent.disk(probe=True)
    except ReplexplorerError:
        return DiskView(member.name, asked_ms)
    return DiskView(
        member.name,
        asked_ms,
        delay_ms=state.delay_ms,
        measured_ms=state.measured_ms,
        probe_p50_ms=state.probe.p50_ms if state.probe else None,
        fsyncs=state.fsyncs,
        fault=state.reason,
        undo_journal=state.undo_journal,
        redo_delay_ms=state.redo_delay_ms,
        binlog_delay_ms=state.binlog_delay_ms,
        jitter_ms=state.jitter_ms,
        measured_by_kind_ms=state.measured_by_kind_ms,
    )


async def _machine(fleet: Fleet) -> Machine | None:
    """What the source's has worked until now; None where no agent says."""
    try:
        health = await fleet.source.agent.health()
    except ReplexplorerError:
        return None
    cores, busy_s = health.machine_cores, health.machine_busy_s
    if not cores or busy_s is None:
        return None
    return Machine(fleet.outside.clock.monotonic(), cores, busy_s)


async def sample_cost(fleet: Fleet) -> CostSample | None:
    """What all servers' work has cost until now; None where the source does not answer."""
    try:
        source, replicas = fleet.source, fleet.replicas
    except ReplexplorerError:
        return None
    began_s = fleet.outside.clock.monotonic()
    status = await asked(source, lambda dialect: dialect.status)
    if status is None:
        return None
    answered_s = fleet.outside.clock.monotonic()
    log = await asked(source, lambda dialect: dialect.log_state)
    streams = {each.name: await asked(source, partial(_stream_to, replica=each)) for each in replicas}
    names = [member.name for member in (source, *replicas)]
    used = await asyncio.gather(*(_cpu(fleet, name) for name in names))
    return CostSample(
        source=source.name,
        counters=Sample(began_s, status, source.server_uuid, answered_s),
        redo_bytes=None if log is None else log.written_bytes,
        binlogs=await asked(source, lambda dialect: dialect.binlogs),
        cpu={name: cpu for name, cpu in zip(names, used, strict=True) if cpu is not None},
        streams=streams,
        machine=await _machine(fleet),
    )


def _stream_to(dialect: Dialect, *, replica: Member) -> Question[Sent]:
    return dialect.sent(replica.address.address or "")


async def _cpu(fleet: Fleet, node: str) -> CpuUsed | None:
    """Of a node's process; None if unknown here."""
    try:
        return await fleet.server_process(node).cpu()
    except ReplexplorerError:
        return None

"""Cumulative counters to what happened between two samples.

Law: a counter that fell was reset and says nothing about the interval; a server that restarted
says nothing at all. Both answer None, never a negative and never a zero.

What a server counts and times of commits, and how that grew between two samples.

docs/explanation/commit-cost.md. Statements, stages, waits and `idle` are those of the load's account
alone, or, on servers that take no load of this program, of everybody; files have no account. Law: a
counter that fell says nothing of the time between.

What a commit costs the servers: CPU, and bytes of redo log, binlog and replication.

Law: each figure is the growth of a counter between two samples over the commits that the source wrote to
its binlog meanwhile, so all that the servers did in between is in it: checkpoints, heartbeats, and what an
idle server does anyway. A counter that is not there, that fell or that began from 0 again answers None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from replexplorer.core.machine import Machine
from replexplorer.core.records import field, frozen

_BOOT_SLACK_S: Final = 2.5
"""Uptime counts whole seconds, and two clocks may drift apart while a machine is paused."""


@frozen
class ServerStatus:
    """One server's counters and gauges (docs/explanation/semi-sync.md); None where it has none."""

    uptime_s: int | None = None
    since_flush_s: int | None = None
    """Since FLUSH STATUS last set counters to 0, or since the start."""
    binlog_cache_use: int | None = None
    """Transactions that went to the binlog: the honest count of commits."""
    operational: bool | None = None
    """The source's `status`: semi-sync is in force now."""
    clients: int | None = None
    """Semi-sync replicas registered with this source."""
    yes_tx: int | None = None
    """Acknowledged waits: per commit queue under after_sync, so never a TPS."""
    no_tx: int | None = None
    no_times: int | None = None
    """Times switched off, our own `enabled=0` included."""
    tx_waits: int | None = None
    tx_wait_time_us: int | None = None
    replica_registered: bool | None = None
    """On a replica: it registered for semi-sync when its dump last began."""


@frozen
class Sample:
    """One server's counters at one moment."""

    at_s: float
    """On the session's monotonic clock."""
    status: ServerStatus
    server_uuid: str | None = None
    answered_s: float | None = None
    """On the same clock, when the answer was in: the counters were read between the two; None: at once."""


@frozen
class Rates:
    """What happened between two samples of one server; None where it is unknown."""

    duration_s: float
    commits: int | None = None
    """Transactions written to the binlog, whoever made them (Binlog_cache_use)."""
    acks: int | None = None
    """Acknowledged waits: commit queues under after_sync, transactions under after_commit."""
    unprotected: int | None = None
    """Commits that did not wait (no_tx)."""
    ack_waits: int | None = None
    """Waits for an acknowledgement that really slept and were acknowledged."""
    ack_wait_ms: float | None = None
    """Mean wait of those that really slept: the server's own average is of its whole life
    (docs/explanation/semi-sync.md, "Traps")."""

    @property
    def tps(self) -> float | None:
        """Commits per second."""
        return None if self.commits is None else self.commits / self.duration_s


def rates(before: Sample, after: Sample) -> Rates | None:
    """The difference of two samples; None after a restart, for another server, or for no time."""
    duration_s = after.at_s - before.at_s
    if duration_s <= 0 or restarted(before, after):
        return None
    old, new = before.status, after.status
    waits = grown(old.tx_waits, new.tx_waits)
    waited_us = grown(old.tx_wait_time_us, new.tx_wait_time_us)
    return Rates(
        duration_s=duration_s,
        commits=grown(old.binlog_cache_use, new.binlog_cache_use),
        acks=grown(old.yes_tx, new.yes_tx),
        unprotected=grown(old.no_tx, new.no_tx),
        ack_waits=waits,
        ack_wait_ms=waited_us / waits / 1000 if waits and waited_us is not None else None,
    )


def restarted(before: Sample, after: Sample) -> bool:
    """Whether the server is another one or restarted between the samples.

    An answer that came late on a busy machine may have been read at any moment since it was asked for,
    so a restart is what no such moment explains.
    """
    if before.server_uuid and after.server_uuid and before.server_uuid != after.server_uuid:
        return True
    old, new = before.status.uptime_s, after.status.uptime_s
    if old is None or new is None:
        return False
    answered_s = before.at_s if before.answered_s is None else before.answered_s
    ran_at_least_s = old + after.at_s - answered_s
    return new < old or new < ran_at_least_s - _BOOT_SLACK_S


def grown(before: int | None, after: int | None) -> int | None:
    """How much a counter grew; None when unknown or reset."""
    if before is None or after is None or after < before:
        return None
    return after - before


class Source(StrEnum):
    """One thing that is counted and timed."""

    REDO_WRITE = "redo write"
    REDO_FSYNC = "redo fsync"
    OWN_REDO = "own redo"
    """Writes and fsyncs of the redo log by the account's own sessions: the background's are not in it.
    None where the server has threads of their own for it (innodb_log_writer_threads = ON)."""
    BINLOG_WRITE = "binlog write"
    BINLOG_FSYNC = "binlog fsync"
    ACK = "ack"
    """Sleeps of who waits for the replicas' acknowledgement."""
    FLUSH_LOCK = "flush lock"
    """MYSQL_BIN_LOG::LOCK_log: taken once by each leader of a flush group."""
    SYNC_LOCK = "sync lock"
    COMMIT_LOCK = "commit lock"
    AFTER_COMMIT_LOCK = "after-commit lock"
    FOLLOWING = "following"
    """Waits of followers for the leader of their group (COND_done)."""
    COMMIT_STAGE = "commit stage"
    """In the handler's commit, the wait for an acknowledgement left out: the server shows another stage
    then."""
    ACK_STAGE = "ack stage"
    """In semi-sync's wait, slept or not."""
    GROUP = "group"
    """Sleeps of who waits until the group has certified what it commits: in Group Replication's hook before
    the commit, within the stage of the handler's commit."""
    STATEMENT = "statement"
    """Statements from their arrival to their end."""
    IDLE = "idle"
    """Connections that wait for the next statement."""
    COMMIT_STATEMENT = "commit statement"
    """COMMIT as its own statement, from its arrival to its end; a commit by autocommit is none."""


@frozen
class Total:
    """How often, and for how long together."""

    times: int = 0
    ms: float = 0.0

    def __add__(self, other: Total) -> Total:
        """Both together."""
        return Total(self.times + other.times, self.ms + other.ms)

    @property
    def mean_ms(self) -> float | None:
        """Of one; None where there was none."""
        return self.ms / self.times if self.times else None


Totals = Mapping[Source, Total]


@frozen
class CommitSample:
    """All counters at one moment; a source that the server does not have is absent."""

    at_s: float
    """On the session's monotonic clock."""
    totals: Totals


@frozen
class CommitGrowth:
    """What was counted between two samples."""

    duration_s: float
    totals: Totals
    """Sources that the later sample has."""

    def total(self, source: Source) -> Total:
        """Nothing for a source that is not known."""
        return self.totals.get(source, Total())

    def has(self, source: Source) -> bool:
        """Whether it was seen at work: an instrument that is off counts nothing."""
        return self.total(source).times > 0


def growth(before: CommitSample, after: CommitSample) -> CommitGrowth | None:
    """The difference of two samples; None for no time, and when a counter fell: somebody emptied the
    table, or the server restarted."""
    duration_s = after.at_s - before.at_s
    grown: dict[Source, Total] = {}
    for source, new in after.totals.items():
        # An account has no rows before its first session.
        old = before.totals.get(source, Total())
        grown[source] = Total(new.times - old.times, new.ms - old.ms)
    if duration_s <= 0 or any(each.times < 0 or each.ms < 0 for each in grown.values()):
        return None
    return CommitGrowth(duration_s, grown)


_LEAST_SHARE: Final = 0.5
"""Of the clients' transactions that reach the binlog: below it the workload reads, and its transactions are
not what the servers are busy with."""


@frozen
class CpuUsed:
    """CPU of a server's process, user and system."""

    run: str
    """Another one after each start of the process: a counter of another run is not an earlier value."""
    cpu_s: float
    """Seconds since that start."""


@frozen
class Sent:
    """A source's side of one replica's stream."""

    executed: str
    """All that the source has executed."""
    dump_thread: int | None
    """The thread that sends; None while the replica is not connected."""
    sent_bytes: int | None
    """By that thread since its connection began."""


def sent_between(before: Sent | None, after: Sent | None) -> int | None:
    """Bytes sent over one connection; None for another one, and where it is not counted."""
    if before is None or after is None or before.dump_thread != after.dump_thread:
        return None
    return grown(before.sent_bytes, after.sent_bytes)


@frozen
class CostSample:
    """The counters of all servers at one moment."""

    source: str
    """The node that is the source."""
    counters: Sample
    """Of the source."""
    redo_bytes: int | None = None
    """Written to its redo log since it started (Innodb_os_log_written): whole blocks of 512 bytes."""
    binlogs: tuple[tuple[str, int], ...] | None = None
    """Its binlogs, name and bytes, oldest first."""
    cpu: Mapping[str, CpuUsed] = field(default_factory=dict)
    """By node; one that is not counted is absent."""
    streams: Mapping[str, Sent | None] = field(default_factory=dict)
    """By replica; None while the source does not say."""
    machine: Machine | None = None
    """What the source's machine has worked; None where no agent says."""


@frozen
class CommitCost:
    """The mean commit's cost; None where it is not known."""

    source: str
    """The node that was the source."""
    commits: int
    """Written to the source's binlog between the samples, whoever made them."""
    cpu_us: Mapping[str, float | None]
    """CPU of each node's server, in microseconds; the source first."""
    redo_bytes: float | None
    """Written to the source's redo log."""
    binlog_bytes: float | None
    """Written to the source's binlog."""
    sent_bytes: Mapping[str, float | None]
    """Sent by the source to each replica, as its dump thread counts (Bytes_sent)."""


def commit_cost(
    before: CostSample | None, after: CostSample | None, *, acknowledged: int
) -> CommitCost | None:
    """What a commit cost between two samples around a load that had this many transactions acknowledged.

    None without a commit, after a restart or a change of the source, and for a load that reads.
    """
    if before is None or after is None or before.source != after.source:
        return None
    counted = rates(before.counters, after.counters)
    if counted is None or not counted.commits or counted.commits < _LEAST_SHARE * acknowledged:
        return None
    commits = counted.commits

    def each(growth: float | None) -> float | None:
        return None if growth is None else growth / commits

    names = (after.source, *(name for name in after.streams if name != after.source))
    return CommitCost(
        source=after.source,
        commits=commits,
        cpu_us={name: each(_cpu_us(before.cpu.get(name), after.cpu.get(name))) for name in names},
        redo_bytes=each(grown(before.redo_bytes, after.redo_bytes)),
        binlog_bytes=each(binlog_growth(before.binlogs, after.binlogs)),
        sent_bytes={
            name: each(sent_between(before.streams.get(name), stream))
            for name, stream in after.streams.items()
        },
    )


def binlog_growth(
    before: Sequence[tuple[str, int]] | None, after: Sequence[tuple[str, int]] | None
) -> int | None:
    """Bytes written between two lists of binlogs, rotated files included; None where one is not known, and
    where the file that was written to is purged since, or shorter."""
    if not before or not after:
        return None
    name, size = before[-1]
    names = [each for each, _ in after]
    if name not in names:
        return None
    since = after[names.index(name) :]
    growth = sum(bytes_ for _, bytes_ in since) - size
    return growth if since[0][1] >= size else None


class BinlogLook(NamedTuple):
    """A node's binlogs at one moment."""

    at_s: float
    """On the session's monotonic clock."""
    files: Sequence[tuple[str, int]] | None
    """Name and bytes, oldest first; None where it does not say."""


@frozen
class Binlogs:
    """A node's own binlogs."""

    files: int
    bytes: int
    """Of all."""
    end: str
    """Where the newest one ends, `binlog.000003:1234`."""
    bytes_per_s: float | None = None
    """Written since the look before; None at the first."""


def binlogs_of(before: BinlogLook | None, now: BinlogLook) -> Binlogs | None:
    """What two looks say of a node's binlogs; None where it has none, or does not say."""
    if not now.files:
        return None
    written = None if before is None else binlog_growth(before.files, now.files)
    rate = (
        written / (now.at_s - before.at_s)
        if before and written is not None and now.at_s > before.at_s
        else None
    )
    name, size = now.files[-1]
    return Binlogs(len(now.files), sum(size for _, size in now.files), f"{name}:{size}", rate)


def _cpu_us(before: CpuUsed | None, after: CpuUsed | None) -> float | None:
    """Used within one run of the process."""
    if before is None or after is None or before.run != after.run or after.cpu_s < before.cpu_s:
        return None
    return 1e6 * (after.cpu_s - before.cpu_s)

"""What a commit costs the servers: CPU, and bytes of redo log, binlog and replication.

Law: each figure is the growth of a counter between two samples over the commits that the source wrote to
its binlog meanwhile, so all that the servers did in between is in it: checkpoints, heartbeats, and what an
idle server does anyway. A counter that is not there, that fell or that began from 0 again answers None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from replexplorer.core.server.counters import Sample, rates

_LEAST_SHARE: Final = 0.5
"""Of the clients' transactions that reach the binlog: below it the workload reads, and its transactions are
not what the servers are busy with."""


@dataclass(frozen=True, slots=True)
class CpuUsed:
    """CPU of a server's process, user and system."""

    run: str
    """Another one after each start of the process: a counter of another run is no earlier value."""
    cpu_s: float
    """Seconds since that start."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What one connection to a replica has sent."""

    thread: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
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
    """By node; one that nobody counts is absent."""
    streams: Mapping[str, Stream | None] = field(default_factory=dict)
    """By replica; None while the source sends it nothing, or does not count that."""


@dataclass(frozen=True, slots=True)
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

    def to_wire(self) -> dict[str, Any]:
        """A JSON-ready form that `from_wire` reads back."""
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises TypeError on another shape."""
        return cls(**wire)


def commit_cost(
    before: CostSample | None, after: CostSample | None, *, acknowledged: int
) -> CommitCost | None:
    """What a commit cost between two samples around a load that had this many transactions acknowledged.

    None without a commit, after a restart or a change of the source, and for a load that reads.
    """
    if before is None or after is None or before.source != after.source:
        return None
    grown = rates(before.counters, after.counters)
    if grown is None or not grown.commits or grown.commits < _LEAST_SHARE * acknowledged:
        return None
    commits = grown.commits

    def each(growth: float | None) -> float | None:
        return None if growth is None else growth / commits

    names = (after.source, *(name for name in after.streams if name != after.source))
    return CommitCost(
        source=after.source,
        commits=commits,
        cpu_us={name: each(_cpu_us(before.cpu.get(name), after.cpu.get(name))) for name in names},
        redo_bytes=each(_grown(before.redo_bytes, after.redo_bytes)),
        binlog_bytes=each(binlog_growth(before.binlogs, after.binlogs)),
        sent_bytes={
            name: each(_sent(before.streams.get(name), stream)) for name, stream in after.streams.items()
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


def merged_costs(costs: Sequence[CommitCost | None]) -> CommitCost | None:
    """The mean commit of several stretches, each with the weight of its commits; a figure that one of them
    lacks is the others'. None without any, and where the source was not the same node."""
    known = [cost for cost in costs if cost is not None]
    if not known or len({cost.source for cost in known}) > 1:
        return None

    nodes = dict.fromkeys(name for cost in known for name in cost.cpu_us)
    replicas = dict.fromkeys(name for cost in known for name in cost.sent_bytes)
    return CommitCost(
        source=known[0].source,
        commits=sum(cost.commits for cost in known),
        cpu_us={name: _mean((cost.cpu_us.get(name), cost.commits) for cost in known) for name in nodes},
        redo_bytes=_mean((cost.redo_bytes, cost.commits) for cost in known),
        binlog_bytes=_mean((cost.binlog_bytes, cost.commits) for cost in known),
        sent_bytes={
            name: _mean((cost.sent_bytes.get(name), cost.commits) for cost in known) for name in replicas
        },
    )


def _mean(weighted: Iterable[tuple[float | None, int]]) -> float | None:
    """Of values with their weights; those that are not known have none."""
    known = [(value, weight) for value, weight in weighted if value is not None]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


def _cpu_us(before: CpuUsed | None, after: CpuUsed | None) -> float | None:
    """Used within one run of the process."""
    if before is None or after is None or before.run != after.run or after.cpu_s < before.cpu_s:
        return None
    return 1e6 * (after.cpu_s - before.cpu_s)


def _sent(before: Stream | None, after: Stream | None) -> int | None:
    """Sent over one connection."""
    if before is None or after is None or before.thread != after.thread:
        return None
    return _grown(before.sent_bytes, after.sent_bytes)


def _grown(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before

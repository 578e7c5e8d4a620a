"""What the servers' counters say, what the clients saw, and whether the two agree.

Law: a mismatch is shown, not hidden; a check that cannot be made says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.server.counters import CommitGrowth, Rates, Sent, Source, sent_between
from replexplorer.core.server.gtid import gtid_count

CHECKED_S: Final = 10.0
"""Checks compare at least so much time, so that what is under way at its ends weighs little."""
_LITTLE_SHARE: Final = 0.05
_LATE_MS: Final = 1000.0
"""Less is what is under way: it comes and goes."""


@frozen
class CrossCheck:
    """Two ways to count one thing."""

    name: str
    """`Little's law`, `commits`."""
    holds: bool
    evidence: str
    """Both figures, in one line."""


@frozen
class Workers:
    """Threads of a replica that apply transactions."""

    busy: int
    """With a transaction in hand at that moment."""
    of: int


@frozen
class ReplicaTruth:
    """How far one replica is behind, how fast it follows, and what is sent to it."""

    name: str
    lag_ms: float | None = None
    """Age of the oldest transaction that it has not applied, from the time that the primary wrote into
    the transaction; while that one is not known to it yet (it is on its way), the age of the newest that
    it has applied, which is at least that. 0 when it has applied everything; None when unknown."""
    queued: int | None = None
    """Transactions received and not applied."""
    shipped_bytes_per_s: float | None = None
    """Sent by the primary's dump thread for it, as the server counts (Bytes_sent of that thread)."""
    applied_tps: float | None = None
    """Transactions that it applied, a second."""
    drain_s: float | None = None
    """When it will have caught up with the source at this pace; None while it falls back, and unknown."""
    workers: Workers | None = None

    @property
    def pace(self) -> str:
        """`applies 245/s, 3 of 4 workers busy, 1,363 queued, caught up in 12 s`; what is unknown is left
        out."""
        told = [] if self.applied_tps is None else [f"applies {self.applied_tps:,.0f}/s"]
        told += [] if self.workers is None else [f"{self.workers.busy} of {self.workers.of} workers busy"]
        told += [f"{self.queued:,} queued"] if self.queued else []
        if self.applied_tps is not None and self.lag_ms is not None:
            late = "falls further behind" if self.drain_s is None else f"caught up in {self.drain_s:,.0f} s"
            told.append("keeps up" if self.lag_ms < _LATE_MS else late)
        return ", ".join(told)


@frozen
class Lag:
    """How far the replica that fell back farthest was behind while something was measured, in seconds."""

    max: float
    end: float
    trend: Literal["growing", "draining", "steady"]
    """At the end; steady: less than a second, or not known."""
    replica: str
    applied_tps: float | None = None
    """What it applied a second while it was late, the mean over the looks: all that it can do under this
    load. None where it never was late."""

    @property
    def trending(self) -> str:
        """` growing`, to be put behind a figure; empty while it is steady."""
        return "" if self.trend == "steady" else f" {self.trend}"

    @property
    def words(self) -> str:
        """`db2 12.3 s at most, at the end 10.1 s growing`."""
        return f"{self.replica} {self.max:.1f} s at most, at the end {self.end:.1f} s{self.trending}"


@dataclass(slots=True)
class LagSeen:
    """What was seen of all replicas' lag, look by look; it does not grow with their number."""

    _max_s: dict[str, float] = field(default_factory=dict)
    _last: dict[str, ReplicaTruth] = field(default_factory=dict)
    _late: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Looks at which it was late, and what it applied a second, summed over them."""

    def add(self, look: Iterable[ReplicaTruth]) -> None:
        """Take a look; who does not say how far it is behind is left out."""
        for each in look:
            if each.lag_ms is not None:
                self._max_s[each.name] = max(self._max_s.get(each.name, 0.0), each.lag_ms / 1000)
                self._last[each.name] = each
                if each.lag_ms >= _LATE_MS and each.applied_tps is not None:
                    looks, sum_tps = self._late.get(each.name, (0, 0.0))
                    self._late[each.name] = looks + 1, sum_tps + each.applied_tps

    @property
    def lag(self) -> Lag | None:
        """Of the replica that fell back farthest; None where none said."""
        if not self._last:
            return None
        worst = max(self._max_s, key=lambda name: self._max_s[name])
        last = self._last[worst]
        trend: Literal["growing", "draining", "steady"] = "growing" if last.drain_s is None else "draining"
        if (last.lag_ms or 0.0) < _LATE_MS or last.applied_tps is None:
            trend = "steady"
        looks, sum_tps = self._late.get(worst, (0, 0.0))
        applied_tps = sum_tps / looks if looks else None
        return Lag(self._max_s[worst], (last.lag_ms or 0.0) / 1000, trend, worst, applied_tps)


@frozen
class ServerTruth:
    """The servers over the last seconds; None where it is unknown."""

    duration_s: float
    commits: int | None = None
    """Transactions written to the binlog, whoever made them."""
    group_size: float | None = None
    """Commits a binlog write: the flush group. A transaction of more than the binlog's cache (32 KiB)
    is written in several pieces and makes it look smaller."""
    queue_size: float | None = None
    """Commits an acknowledged queue (after_sync only)."""
    redo_fsyncs: float | None = None
    """A commit; those of checkpoints and of the once-a-second flush are in it."""
    binlog_fsyncs: float | None = None
    """A commit."""
    ack_waits: int | None = None
    """Waits that really slept."""
    ack_wait_ms: float | None = None
    """Their mean."""
    unprotected: int | None = None
    """Commits that did not wait for a replica though semi-sync is on."""
    replicas: tuple[ReplicaTruth, ...] = ()
    checks: tuple[CrossCheck, ...] = ()

    def replica(self, name: str) -> ReplicaTruth | None:
        """One replica's figures; None where there are none."""
        return next((each for each in self.replicas if each.name == name), None)

    @property
    def lag_ms(self) -> float | None:
        """Of the replica that is farthest behind; None where none says."""
        return max((each.lag_ms for each in self.replicas if each.lag_ms is not None), default=None)


def server_truth(
    rates: Rates,
    counted: CommitGrowth | None,
    *,
    wait_point: str | None,
    replicas: tuple[ReplicaTruth, ...] = (),
    checks: tuple[CrossCheck, ...] = (),
) -> ServerTruth:
    """Put together what the primary counted between two samples; what one of them lacks is None.

    `yes_tx` counts queues under after_sync and transactions under after_commit
    (docs/explanation/semi-sync.md, trap 1), so only the first makes a queue's size. The mean
    wait is from the growth of tx_wait_time and tx_waits: the server's own tx_avg_wait_time is of its whole
    life, net_wait_time is always 0.
    """
    commits = rates.commits
    return ServerTruth(
        duration_s=rates.duration_s,
        commits=commits,
        group_size=_per(commits, _times(counted, Source.BINLOG_WRITE)),
        queue_size=_per(commits, rates.acks) if wait_point == "after_sync" else None,
        redo_fsyncs=_per(_times(counted, Source.REDO_FSYNC), commits),
        binlog_fsyncs=_per(_times(counted, Source.BINLOG_FSYNC), commits),
        ack_waits=rates.ack_waits,
        ack_wait_ms=rates.ack_wait_ms,
        unprotected=rates.unprotected,
        replicas=replicas,
        checks=checks,
    )


def _times(counted: CommitGrowth | None, source: Source) -> int | None:
    """How often; None where it is not counted."""
    if counted is None or source not in counted.totals:
        return None
    return counted.totals[source].times


def _per(many: int | None, few: int | None) -> float | None:
    """One by the other; None where either is unknown or there is nothing to divide by."""
    return many / few if many is not None and few else None


# -- checks


def littles_law(stretch: Sequence[Interval]) -> CrossCheck | None:
    """clients = TPS x mean latency, over a stretch of the closed loop in which every client was at work.

    A transaction is counted whole where it ends: per client the first brings time of before the
    stretch and the last leaves some out, which is at most the longest over the stretch's length. None
    for another mode, and while clients come, fail or start over.
    """
    durations_us = [each.service for each in stretch]
    max_ms = max((each.max_ms for each in durations_us if each.max_ms is not None), default=None)
    if max_ms is None or not all(_at_work(each, stretch[0].clients) for each in stretch):
        return None
    clients, commits = stretch[0].clients, sum(each.commits for each in stretch)
    seconds = sum(each.duration_s for each in stretch)
    mean_ms = sum(each.sum_us for each in durations_us) / commits / 1000
    busy = commits / seconds * mean_ms / 1000
    allowed = clients * (_LITTLE_SHARE + max_ms / 1000 / seconds)
    evidence = (
        f"{clients} client{'' if clients == 1 else 's'}; {commits / seconds:,.1f} TPS x {mean_ms:.2f} ms"
        f" mean latency keeps {busy:.2f} of them busy"
    )
    return CrossCheck("Little's law", abs(busy - clients) <= allowed, evidence)


def _at_work(interval: Interval, clients: int) -> bool:
    """Whether all of this many clients did nothing but commit in a closed loop."""
    troubles = interval.errors, interval.unknown, interval.reconnects, interval.retries, interval.rows_reset
    alike = interval.mode == CLOSED and interval.state == "running"
    return alike and not any(troubles) and interval.clients == interval.connected == clients


# -- replicas


@frozen
class Behind:
    """What a replica lacks, with ages by the source's clock as it stands in the transactions, in us."""

    queued: str | None = None
    """Received and not executed."""
    missing: str | None = None
    """Executed by the source a moment before, and not here; None while the source does not say."""
    applying_us: int | None = None
    """Age of the oldest transaction that is applied or waits to be; None when there is none."""
    applied_us: int | None = None
    """Age of the newest that was applied; None when unknown."""
    workers: Workers | None = None
    """None where the server has no table of them."""
    by_heartbeat: bool = False
    """Transactions carry no time: that age is the newest heartbeat's, and none is written without a load."""


@frozen
class ApplierSample:
    """What a replica says of its applier, and the source of what it sends to it, at one moment."""

    at_s: float
    behind: Behind
    sent: Sent | None = None
    """None while the source does not answer."""


def replica_truth(name: str, now: ApplierSample, before: ApplierSample) -> ReplicaTruth:
    """One replica's figures; `before` is an earlier moment, for the rate."""
    seconds, sent_bytes = now.at_s - before.at_s, sent_between(before.sent, now.sent)
    applied_tps, drain_s = _pace(now, before)
    return ReplicaTruth(
        name,
        lag_ms=_lag_ms(now.behind),
        queued=None if now.behind.queued is None else gtid_count(now.behind.queued),
        shipped_bytes_per_s=sent_bytes / seconds if sent_bytes is not None and seconds > 0 else None,
        applied_tps=applied_tps,
        drain_s=drain_s,
        workers=now.behind.workers,
    )


def _pace(now: ApplierSample, before: ApplierSample) -> tuple[float | None, float | None]:
    """Transactions applied a second, and how long what is missing lasts while it shrinks as it does.

    What the source made between the two moments and the replica does not lack more now it has applied.
    """
    lacks, lacked = (each.behind.missing for each in (now, before))
    if now.sent is None or before.sent is None or lacks is None or lacked is None:
        return None, None
    left, seconds = gtid_count(lacks), now.at_s - before.at_s
    if seconds <= 0:
        return None, None if left else 0.0
    shrunk = gtid_count(lacked) - left
    made = gtid_count(now.sent.executed) - gtid_count(before.sent.executed)
    drain_s = 0.0 if not left else left * seconds / shrunk if shrunk > 0 else None
    return max(0.0, (made + shrunk) / seconds), drain_s


def _lag_ms(now: Behind) -> float | None:
    """See `ReplicaTruth.lag_ms`; the servers of a stack share the host's clock."""
    if now.queued is None and now.missing is None:
        age_us = now.applied_us
    elif not now.queued and not now.missing:
        return 0.0
    else:
        age_us = now.applied_us if now.applying_us is None else now.applying_us
    return None if age_us is None else max(0, age_us) / 1000

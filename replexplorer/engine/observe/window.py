"""The last seconds of the load and of the servers side by side: a commit's anatomy, the servers' truth.

Law: a stretch never reaches across a change, a mark or a restart; and it is merged over seconds, so
that figures stand still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Self

from replexplorer.core.knobs import keys
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.records import frozen
from replexplorer.core.server.anatomy import (
    Anatomy,
    CommitPath,
    Served,
    commit_at_server_ms,
    dissect,
    dissect_at_server,
)
from replexplorer.core.server.comeback import redo_fsyncs
from replexplorer.core.server.counters import CommitGrowth, growth, rates, restarted
from replexplorer.core.server.truth import (
    CHECKED_S,
    ApplierSample,
    CrossCheck,
    ReplicaTruth,
    ServerTruth,
    littles_law,
    replica_truth,
    server_truth,
)
from replexplorer.engine.observe.samples import NodeSample


@frozen
class SamplePair:
    """Two samples of the primary and what the load did between them."""

    first: NodeSample
    last: NodeSample
    intervals: Sequence[tuple[Interval, float]]
    """Each with the share of it that lies between the samples: the load and the poller cut time at
    moments of their own."""

    @classmethod
    def of(cls, first: NodeSample, last: NodeSample, intervals: Iterable[Interval]) -> Self:
        """The intervals that lie within, wholly or partly."""
        from_s, to_s = (each.at_s if each.commits is None else each.commits.at_s for each in (first, last))
        found = []
        for each in intervals:
            seconds = min(each.end_s, to_s) - max(each.start_s, from_s)
            if seconds > 0:
                found.append((each, seconds / each.duration_s))
        return cls(first, last, tuple(found))

    @property
    def commits(self) -> float:
        """That the load had acknowledged."""
        return sum(each.commits * share for each, share in self.intervals)

    def served(self) -> Served | None:
        """What the load's clients saw; None without a commit."""
        timed = [(each, each.commits * share, each.service.mean_ms) for each, share in self.intervals]
        commits = self.commits
        if not commits:
            return None
        last, _ = self.intervals[-1]
        return Served(
            duration_s=sum(each.duration_s * share for each, share in self.intervals),
            commits=round(commits),
            queries=round(sum(each.queries * share for each, share in self.intervals)),
            mean_ms=sum(times * mean_ms for _, times, mean_ms in timed if mean_ms is not None) / commits,
            clients=last.clients,
            is_closed=last.mode == CLOSED,
            queries_open=sum(each.queries for each, share in self.intervals if share < 1),
        )

    def counted(self) -> CommitGrowth | None:
        """What the primary counted of commits; None where it does not, and when it restarted."""
        if self.first.commits is None or self.last.commits is None:
            return None
        return growth(self.first.commits, self.last.commits)

    def anatomy(self) -> Anatomy | None:
        """The mean commit taken apart; None without a commit by our load and where nothing is counted."""
        counted, served = self.counted(), self.served()
        if counted is None or served is None:
            return None
        return dissect(counted, served, self._path())

    def anatomy_at_server(self) -> Anatomy | None:
        """The mean commit of all clients as the server times it, taken apart; None where it timed none."""
        counted = self.counted()
        if counted is None:
            return None
        seen = rates(self.first.counters, self.last.counters)
        if seen is None:
            return None
        return dissect_at_server(counted, self._path(), commits=seen.commits, ack_ms=seen.ack_wait_ms)

    def commit_at_server_ms(self) -> float | None:
        """The server's mean time for the commit, of all clients; None where it timed none."""
        counted, seen = self.counted(), rates(self.first.counters, self.last.counters)
        if counted is None or seen is None:
            return None
        timed = commit_at_server_ms(counted, seen.commits)
        return None if timed is None else timed[1]

    def _path(self) -> CommitPath:
        """What commits wait for, by the settings."""
        values = self.last.values
        return CommitPath(
            wait_point=str(values.get(keys.WAIT_POINT, "after_sync")),
            binlog_fsync=values.get(keys.SYNC_BINLOG) != 0,
            redo_fsync=redo_fsyncs(values.get(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)) > 0,
            in_group=self.last.view.member is not None,
            sync_delay_ms=float(values.get(keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, 0)) / 1000,
        )


FIGURES_S: Final = 5.0
"""How much is merged."""
FIGURES_MOST_S: Final = 10.0
LEAST_COMMITS: Final = 20
"""With fewer in FIGURES_S it reaches further back, to FIGURES_MOST_S."""
KEPT_S: Final = 30.0
LEAST_S: Final = 0.9
"""Two polls of the primary: less says little."""


class SampleWindow:
    """What was seen in the last KEPT_S; of the load's latency counts, sums and extremes."""

    def __init__(self) -> None:
        self._intervals: deque[Interval] = deque()
        self._samples: deque[NodeSample] = deque()
        self._applied: dict[str, deque[ApplierSample]] = {}

    def add_intervals(self, intervals: Iterable[Interval]) -> None:
        """Take what the load reported."""
        for interval in intervals:
            self._intervals.append(interval.outline())
            while self._intervals[0].end_s < interval.end_s - KEPT_S:
                self._intervals.popleft()

    def add_sample(self, sample: NodeSample) -> None:
        """Take a sample of the primary; one that says nothing, or of another life, starts over."""
        if self._samples and sample.at_s <= self._samples[-1].at_s:
            return
        if not sample.view.reachable or (
            self._samples and restarted(self._samples[-1].counters, sample.counters)
        ):
            self._samples.clear()
        if sample.view.reachable:
            self._samples.append(sample)
            while self._samples[0].at_s < sample.at_s - KEPT_S:
                self._samples.popleft()

    def add_applied(self, replica: str, applied: ApplierSample | None) -> None:
        """Take what a replica says of its applier; None: it does not answer."""
        known = self._applied.setdefault(replica, deque())
        if applied is None:
            known.clear()
        elif not known or applied.at_s > known[-1].at_s:
            known.append(applied)
            while known[0].at_s < applied.at_s - FIGURES_S:
                known.popleft()

    def forget_applied(self) -> None:
        """Count what replicas apply from here on: before, other settings were in force."""
        self._applied.clear()

    # -- what it says

    def stretch(self, since_s: float) -> SamplePair | None:
        """The last FIGURES_S, or more for want of commits, but nothing before `since_s`."""
        for seconds in (FIGURES_S, FIGURES_MOST_S):
            found = self._back(since_s, seconds)
            if found is None or found.commits >= LEAST_COMMITS:
                return found
        return found

    def _back(self, since_s: float, seconds: float) -> SamplePair | None:
        """This many seconds back, or fewer where there are no more."""
        if not self._samples:
            return None
        last = self._samples[-1]
        from_s = max(self._settled_s(since_s), last.at_s - seconds)
        first = next(sample for sample in self._samples if sample.at_s >= from_s or sample is last)
        if last.at_s - first.at_s < LEAST_S:
            return None
        return SamplePair.of(first, last, self._intervals)

    def _settled_s(self, since_s: float) -> float:
        """The start of the first interval in which nothing ended that had begun before `since_s`: what
        did was still under what was in force then. Without one the end of the newest: the load stopped."""
        # What the account does while a table is prepared is not a client's transaction.
        since_s = max(since_s, *(each.end_s for each in self._intervals if each.state != "running"), 0.0)
        later = [each for each in self._intervals if each.end_s > since_s]
        settled = (
            each.start_s for each in later if each.start_s - (each.service.max_ms or 0) / 1000 >= since_s
        )
        return next(settled, later[-1].end_s) if later else since_s

    @property
    def commit_ms(self) -> float | None:
        """The server's mean time for the commit between the primary's last two samples; None where it timed
        none."""
        if len(self._samples) < 2:
            return None
        return SamplePair(self._samples[-2], self._samples[-1], ()).commit_at_server_ms()

    def truth(self, since_s: float) -> ServerTruth | None:
        """What the servers' counters say; None while the primary is not known for long enough."""
        found = self.stretch(since_s)
        seen = rates(found.first.counters, found.last.counters) if found else None
        if found is None or seen is None:
            return None
        point = found.last.values.get(keys.WAIT_POINT)
        return server_truth(
            seen,
            found.counted(),
            wait_point=None if point is None else str(point),
            replicas=self.replicas(),
            checks=self._checks(since_s),
        )

    def replicas(self) -> tuple[ReplicaTruth, ...]:
        """How far each is behind, over the last FIGURES_S."""
        return tuple(
            replica_truth(name, known[-1], known[0]) if known else ReplicaTruth(name)
            for name, known in self._applied.items()
        )

    def _checks(self, since_s: float) -> tuple[CrossCheck, ...]:
        """Over CHECKED_S of intervals with samples around them; none while there are fewer."""
        from_s, until_s = self._settled_s(since_s), self._samples[-1].at_s
        intervals = [each for each in self._intervals if each.start_s >= from_s and each.end_s <= until_s]
        taken: list[Interval] = []
        while intervals and sum(each.duration_s for each in taken) < CHECKED_S:
            taken.insert(0, intervals.pop())
        if sum(each.duration_s for each in taken) < CHECKED_S:
            return ()
        found = littles_law(taken)
        return () if found is None else (found,)

"""The last seconds of the load and of the servers side by side: a commit's anatomy, the servers' truth.

Law: a stretch never reaches across a change, a mark or a restart; and it is merged over seconds, so
that figures stand still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.workload import WORKLOADS, WRITE
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.counters import rates, restarted
from replexplorer.core.server.truth import (
    CHECKED_S,
    ApplierSample,
    CountedBetween,
    CrossCheck,
    ReplicaTruth,
    ServerTruth,
    commits_agree,
    littles_law,
    replica_truth,
    server_truth,
)
from replexplorer.engine.observe.sample_pair import SamplePair
from replexplorer.engine.observe.server_sample import NodeSample

FIGURES_S: Final = 5.0
"""How much is merged."""
FIGURES_MOST_S: Final = 10.0
LEAST_COMMITS: Final = 20
"""With fewer in FIGURES_S it reaches further back, to FIGURES_MOST_S."""
KEPT_S: Final = 30.0
LEAST_S: Final = 0.9
"""Two polls of the primary: less says little."""


class Lookback:
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

    # -- what it says

    @property
    def newest(self) -> NodeSample | None:
        """The primary's last sample; None while it does not answer."""
        return self._samples[-1] if self._samples else None

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
        # What the account does while a table is prepared is no client's transaction.
        since_s = max(since_s, *(each.end_s for each in self._intervals if each.state != "running"), 0.0)
        later = [each for each in self._intervals if each.end_s > since_s]
        settled = (
            each.start_s for each in later if each.start_s - (each.service.max_ms or 0) / 1000 >= since_s
        )
        return next(settled, later[-1].end_s) if later else since_s

    def anatomy(self, since_s: float) -> Anatomy | None:
        """The mean commit taken apart; None while no load of this app commits or nothing is counted."""
        found = self.stretch(since_s)
        return found.anatomy() if found else None

    @property
    def commit_ms(self) -> float | None:
        """The server's mean time for the commit between the primary's last two samples; None where it timed
        none."""
        if len(self._samples) < 2:
            return None
        return SamplePair(self._samples[-2], self._samples[-1], ()).commit_at_server_ms()

    def anatomy_at_server(self, since_s: float) -> Anatomy | None:
        """The mean commit of all clients taken apart by the server's counters alone; None where it timed
        none."""
        found = self.stretch(since_s)
        return found.anatomy_at_server() if found else None

    def truth(self, since_s: float, heartbeats_s: Sequence[float]) -> ServerTruth | None:
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
            replicas=self._replicas(),
            checks=self._checks(since_s, heartbeats_s),
        )

    def _replicas(self) -> tuple[ReplicaTruth, ...]:
        return tuple(
            replica_truth(name, known[-1], known[0]) if known else ReplicaTruth(name)
            for name, known in self._applied.items()
        )

    def _checks(self, since_s: float, heartbeats_s: Sequence[float]) -> tuple[CrossCheck, ...]:
        """Over CHECKED_S of intervals, each with the samples around it; none while there are fewer."""
        from_s, until_s = self._settled_s(since_s), self._samples[-1].at_s
        intervals = [each for each in self._intervals if each.start_s >= from_s and each.end_s <= until_s]
        taken: list[Interval] = []
        while intervals and sum(each.duration_s for each in taken) < CHECKED_S:
            taken.insert(0, intervals.pop())
        if sum(each.duration_s for each in taken) < CHECKED_S:
            return ()
        found = (littles_law(taken), self._commits_agree(taken, heartbeats_s))
        return tuple(check for check in found if check is not None)

    def _commits_agree(self, taken: Sequence[Interval], heartbeats_s: Sequence[float]) -> CrossCheck | None:
        """Our commits against the primary's; None where it is unknown what a transaction writes."""
        from_s, to_s = taken[0].start_s, taken[-1].end_s
        counted = self._counted_between(from_s, to_s)
        writes = [_writes(each.workload) for each in taken]
        if counted is None or None in writes or any(each.unknown for each in taken):
            return None
        own = sum(each.commits for each, writing in zip(taken, writes, strict=True) if writing)
        beats = sum(from_s <= at_s < to_s for at_s in heartbeats_s)
        return commits_agree(own, beats, counted, under_way=max(each.clients for each in taken) + 1)

    def _counted_between(self, from_s: float, to_s: float) -> CountedBetween | None:
        """How many commits the primary counted then. A sample's counters were read after its `at_s` and
        before its commits': those surely read before an end and those surely read after it bound it."""
        read = [
            (sample.at_s, sample.commits.at_s, sample.status.binlog_cache_use)
            for sample in self._samples
            if sample.commits is not None and sample.status.binlog_cache_use is not None
        ]
        before = [count for _, until_s, count in read if until_s <= from_s]
        within = [count for asked_s, until_s, count in read if asked_s >= from_s and until_s <= to_s]
        after = [count for asked_s, _, count in read if asked_s >= to_s]
        if not (before and within and after):
            return None
        counts = [before[-1], within[0], within[-1], after[0]]
        if counts != sorted(counts):
            return None
        return CountedBetween(counts[2] - counts[1], counts[3] - counts[0])


def _writes(workload: str) -> bool | None:
    """Whether a transaction is one commit in the binlog; None for a user's file."""
    known = WORKLOADS.get(workload)
    return None if known is None else any(each.kind == WRITE for each in known.statements)

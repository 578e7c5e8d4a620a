"""Two samples of the primary with the load's intervals between them: what the mean commit was made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from replexplorer.core.knobs import keys
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.server.anatomy import (
    Anatomy,
    CommitPath,
    Served,
    commit_at_server_ms,
    dissect,
    dissect_at_server,
)
from replexplorer.core.server.commit_counters import CommitGrowth, growth
from replexplorer.core.server.counters import rates, restarted
from replexplorer.core.server.durability import redo_fsyncs
from replexplorer.engine.observe.server_sample import NodeSample


@dataclass(frozen=True, slots=True)
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
        from_s, to_s = _read_s(first), _read_s(last)
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
            in_group=self.last.membership is not None,
            sync_delay_ms=float(values.get(keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, 0)) / 1000,
        )


@dataclass(slots=True)
class Gathering:
    """A stretch that grows with a load: from its first good sample since the last change to its newest."""

    _intervals: list[Interval] = field(default_factory=list)
    _first: NodeSample | None = None
    _last: NodeSample | None = None

    def add(self, interval: Interval, newest: NodeSample | None, since_s: float) -> None:
        """Take an interval and the primary's newest sample when it came. What is older than `since_s`, the
        last change, counts no more, nor does what the server counted before it restarted."""
        if self._intervals and self._intervals[0].start_s < since_s:
            self._intervals, self._first, self._last = [], None, None
        if interval.start_s < since_s:
            return
        self._intervals.append(interval.outline())
        if newest is None or newest.commits is None or not newest.values:
            return
        if newest.at_s < self._intervals[0].start_s:
            return
        if self._first is None or restarted(self._first.counters, newest.counters):
            self._first = newest
        self._last = newest

    @property
    def covers(self) -> tuple[float, float] | None:
        """From when to when, on the monotonic clock; None before two samples."""
        if self._first is None or self._last is None:
            return None
        return _read_s(self._first), _read_s(self._last)

    def anatomy(self) -> Anatomy | None:
        """The mean commit taken apart; None before two samples, and as `SamplePair.anatomy` says."""
        if self._first is None or self._last is None:
            return None
        return SamplePair.of(self._first, self._last, self._intervals).anatomy()


def _read_s(sample: NodeSample) -> float:
    """When its counters of commits were read."""
    return sample.at_s if sample.commits is None else sample.commits.at_s

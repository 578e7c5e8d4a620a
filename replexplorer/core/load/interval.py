"""What the load did in one interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Self

from replexplorer.core.load.pacing import CLOSED, OPEN
from replexplorer.core.load.process_work import ProcessWork, added_work
from replexplorer.core.stats.histogram import Histogram

_SUMS: Final = (
    "errors",
    "unknown",
    "reconnects",
    "rows_reset",
    "arrivals",
    "dropped",
    "reads",
    "writes",
    "others",
    "deadlocks",
    "lock_timeouts",
    "conflicts",
)
_HISTOGRAMS: Final = ("service", "response", "lateness", "log_sync", "log_wait")
FULL_CORE: Final = "generator at"
"""How `Interval.limited` begins where a process has no more CPU to give."""
_CPU_LIMIT_PERCENT: Final = 80.0
_LATE_SHARE: Final = 0.1
_LATE_MS: Final = 2.0
"""Twice what a timer that wakes at whole milliseconds is late anyway."""
_STATES: Final = ("preparing", "running", "waiting", "drained")
"""What several generators are together: the first of these that one of them is."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of the load; counts are of this interval, gauges of its end."""

    start_s: float
    end_s: float
    """On the host's monotonic clock."""
    service: Histogram
    """Begin to last reply of each transaction that was acknowledged, in microseconds."""
    errors: int
    """Transactions that the server refused, or that were lost before their commit was sent: nothing
    of them is kept."""
    unknown: int
    """Commits whose connection was lost before the reply."""
    reconnects: int
    clients: int
    """Clients asked for."""
    connected: int
    """Clients with a live connection at the end."""
    workload: str
    cpu_percent: float
    """Of one core, generator processes summed."""
    lateness_p99_ms: float
    """How late the generator noticed arrivals (open loop) or its own timers (closed loop)."""
    rows_reset: int = 0
    """Times the insert table was truncated at its bound in this interval."""
    state: str = "running"
    """running, preparing, waiting (the primary is away), drained (nothing more comes, all is served)."""
    fault: str | None = None
    """The last error in one line."""
    mode: str = CLOSED
    """`closed` or `open`, at the end."""
    rate_asked_tps: float | None = None
    """Arrivals per second asked for; None in the closed loop."""
    response: Histogram = field(default_factory=Histogram)
    """Intended start to last reply of each acknowledged transaction that arrived in the open loop."""
    lateness: Histogram = field(default_factory=Histogram)
    """What `lateness_p99_ms` is taken from, in microseconds."""
    log_sync: Histogram = field(default_factory=Histogram)
    """How long each sync of a client log took, in microseconds; empty without one."""
    log_wait: Histogram = field(default_factory=Histogram)
    """How long each transaction waited until its intent was noted on the disk, in microseconds."""
    arrivals: int = 0
    """Transactions that were intended to start (open loop)."""
    dropped: int = 0
    """Arrivals that were given up: the backlog was full, or no client was left."""
    backlog: int = 0
    """Arrivals that wait for a client at the end."""
    backlog_max: int = 0
    """Most that waited at once."""
    under_way: int = 0
    """Transactions begun and not answered at the end."""
    reads: int = 0
    writes: int = 0
    others: int = 0
    """Statements answered, as sysbench sorts them; BEGIN and COMMIT are others."""
    deadlocks: int = 0
    """Transactions that the server rolled back for a deadlock (1213) and that were retried."""
    lock_timeouts: int = 0
    """Transactions that waited too long for a lock (1205) and were retried."""
    conflicts: int = 0
    """Transactions that were retried because another changed a row first: a group's certification refused
    them (3101), or MariaDB's snapshot isolation did (1020)."""
    errors_by_number: Mapping[str, int] = field(default_factory=dict)
    """Refusals by MySQL's number."""
    processes: int = 1
    """Generator processes."""
    cpu_busiest_percent: float = 0.0
    """Of one core, the busiest generator process."""
    statements: Mapping[str, Histogram] = field(default_factory=dict)
    """Send to reply of each statement by its class; only while that is asked for."""
    acknowledged_gtids: str = ""
    """Of the commits that clients were answered, where replies carry GTIDs; a driver takes it out."""
    work: tuple[ProcessWork, ...] = ()
    """What each generator process did of it, by number; empty in what a process reports of itself."""

    @property
    def duration_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.start_s

    @property
    def commits(self) -> int:
        """Acknowledged transactions."""
        return self.service.count

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def queries(self) -> int:
        """Statements answered."""
        return self.reads + self.writes + self.others

    @property
    def retries(self) -> int:
        """Transactions retried."""
        return self.deadlocks + self.lock_timeouts + self.conflicts

    @property
    def latency(self) -> Histogram:
        """What a user of the load waits: response in the open loop, service in the closed one."""
        return self.response if self.mode == OPEN else self.service

    @property
    def limited(self) -> str | None:
        """In words, when something of the load's own and not the server may be the limit.

        A busy generator process, an open loop whose clients are all busy while arrivals wait, a client log
        that takes longer than the server, or a process that is late itself (docs/facts.md, "Looking at
        servers and links").
        """
        if self.cpu_busiest_percent > _CPU_LIMIT_PERCENT:
            return f"{FULL_CORE} {self.cpu_busiest_percent:.0f} % of a core"
        if self.backlog and self.clients and self.under_way >= self.clients:
            return f"all {self.clients} clients busy, {self.backlog:,} arrivals wait"
        p50_ms = self.service.percentile_ms(50)
        noted_ms = self.log_wait.percentile_ms(50)
        if p50_ms is not None and noted_ms is not None and noted_ms > p50_ms:
            return f"client log: a row waits {noted_ms:.1f} ms for its note"
        if p50_ms is not None and self.lateness_p99_ms > max(_LATE_MS, _LATE_SHARE * p50_ms):
            late = f"generator {self.lateness_p99_ms:.0f} ms late"
            # Late without having worked: something else on this machine had the cores.
            is_idle = self.cpu_busiest_percent < _CPU_LIMIT_PERCENT / 2
            return f"machine short of CPU, {late}" if is_idle else late
        return None

    def outline(self) -> Interval:
        """Itself with outlines for histograms: what is kept of it where only sums are asked for."""
        return replace(
            self,
            **{name: getattr(self, name).outline() for name in _HISTOGRAMS},
            statements={name: each.outline() for name, each in self.statements.items()},
        )

    def followed_by(self, later: Interval) -> Interval:
        """Both intervals as one: counts added, gauges of the later, the CPU weighted by time."""
        seconds = self.duration_s + later.duration_s
        share = later.duration_s / seconds if seconds > 0 else 1.0
        return replace(
            later,
            **_added(self, later),
            start_s=self.start_s,
            cpu_percent=_between(self.cpu_percent, later.cpu_percent, share),
            cpu_busiest_percent=_between(self.cpu_busiest_percent, later.cpu_busiest_percent, share),
            backlog_max=max(self.backlog_max, later.backlog_max),
            fault=later.fault or self.fault,
        )

    def beside(self, other: Interval) -> Interval:
        """Two generators' intervals of the same time as one: counts and gauges added.

        The settings are the first one's; several backlogs' largest are added though they need not
        have been at the same moment.
        """
        rates = [each.rate_asked_tps for each in (self, other) if each.rate_asked_tps is not None]
        return replace(
            self,
            **_added(self, other),
            start_s=min(self.start_s, other.start_s),
            end_s=max(self.end_s, other.end_s),
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMMED_GAUGES},
            rate_asked_tps=sum(rates) if rates else None,
            cpu_busiest_percent=max(self.cpu_busiest_percent, other.cpu_busiest_percent),
            state=min(
                (each.state for each in (self, other) if each.clients), key=_STATES.index, default=self.state
            ),
            fault=self.fault or other.fault,
        )

    def to_wire(self) -> dict[str, object]:
        """A JSON-ready form that `from_wire` reads back exactly."""
        wire: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        wire |= {name: getattr(self, name).to_wire() for name in _HISTOGRAMS}
        wire["work"] = [asdict(each) for each in self.work]
        return wire | {"statements": {name: each.to_wire() for name, each in self.statements.items()}}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        read: dict[str, Any] = {name: Histogram.from_wire(wire[name]) for name in _HISTOGRAMS if name in wire}
        classes = {name: Histogram.from_wire(each) for name, each in wire.get("statements", {}).items()}
        work = tuple(ProcessWork(**each) for each in wire.get("work", ()))
        return cls(**{**wire, **read, "statements": classes, "work": work})


_SUMMED_GAUGES: Final = (
    "clients",
    "connected",
    "cpu_percent",
    "backlog",
    "backlog_max",
    "under_way",
    "processes",
)


def _added(one: Interval, other: Interval) -> dict[str, Any]:
    """What is added whichever way two intervals meet, and the lateness of both."""
    added: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in _SUMS}
    for name in _HISTOGRAMS:
        added[name] = Histogram.merged((getattr(one, name), getattr(other, name)))
    added["errors_by_number"] = _joined(one.errors_by_number, other.errors_by_number)
    added["statements"] = {
        name: Histogram.merged(each.statements[name] for each in (one, other) if name in each.statements)
        for name in (*one.statements, *other.statements)
    }
    added["work"] = added_work(one.work, other.work)
    added["acknowledged_gtids"] = ",".join(filter(None, (one.acknowledged_gtids, other.acknowledged_gtids)))
    late_ms = added["lateness"].percentile_ms(99)
    worse_ms = max(one.lateness_p99_ms, other.lateness_p99_ms)
    return added | {"lateness_p99_ms": worse_ms if late_ms is None else late_ms}


def _joined(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, added."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}


def _between(early: float, late: float, share: float) -> float:
    """A mean in which the later value has this share."""
    return early * (1 - share) + late * share


def together(intervals: Iterable[Interval]) -> Interval:
    """Several generators' intervals of the same time as one; at least one."""
    first, *others = intervals
    for other in others:
        first = first.beside(other)
    return first

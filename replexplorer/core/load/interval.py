"""What the load did: in one interval, over a measurement, and at the moment that a picture shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from functools import reduce
from math import inf
from typing import Any, Final, Self

from replexplorer.core.json_keys import json_keys
from replexplorer.core.load.pacing import CLOSED, OPEN
from replexplorer.core.records import dataclass, frozen
from replexplorer.core.stats.histogram import Histogram


@json_keys(number="process", hide="cpu_s duration_s", show="tps cpu_percent")
@frozen
class ProcessWork:
    """One generator process over some time; sums, so that stretches of it add up exactly."""

    number: int
    """From 1; the first one leads."""
    clients: int
    """Of the load's, when it was told last."""
    commits: int
    cpu_s: float
    duration_s: float

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.commits / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_s / self.duration_s if self.duration_s > 0 else 0.0

    def followed_by(self, later: ProcessWork) -> ProcessWork:
        """Both stretches of the same process as one."""
        return ProcessWork(
            self.number,
            later.clients,
            self.commits + later.commits,
            self.cpu_s + later.cpu_s,
            self.duration_s + later.duration_s,
        )


def added_work(one: Iterable[ProcessWork], later: Iterable[ProcessWork]) -> tuple[ProcessWork, ...]:
    """Both, by process: one that is in both has one entry with all that it did."""
    found = {each.number: each for each in one}
    for each in later:
        key = each.number
        found[key] = found[key].followed_by(each) if key in found else each
    return tuple(found[key] for key in sorted(found))


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


@frozen
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
    """How late the generator noticed arrivals (open loop) or its own timers (closed), in microseconds."""
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
    acknowledged_gtids: str = ""
    """Of the commits that clients were answered, where replies carry GTIDs; a driver takes it out."""
    work: tuple[ProcessWork, ...] = ()
    """What each generator process did of it, by number."""

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
    def processes(self) -> int:
        """Generator processes."""
        return len(self.work)

    @property
    def cpu_percent(self) -> float:
        """Of one core, generator processes summed."""
        return sum(each.cpu_percent for each in self.work)

    @property
    def cpu_busiest_percent(self) -> float:
        """Of one core, the busiest generator process."""
        return max((each.cpu_percent for each in self.work), default=0.0)

    @property
    def lateness_p99_ms(self) -> float:
        """Of `lateness`."""
        return self.lateness.percentile_ms(99) or 0.0

    @property
    def queries(self) -> int:
        """Statements answered."""
        return self.reads + self.writes + self.others

    @property
    def qps(self) -> float:
        """Statements answered per second."""
        return self.queries / self.duration_s if self.duration_s > 0 else 0.0

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
        that takes longer than the server, or a process that is late itself (docs/contributing/instrument.md,
        "Looking at servers and links").
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
        return replace(self, **{name: getattr(self, name).outline() for name in _HISTOGRAMS})

    def followed_by(self, later: Interval) -> Interval:
        """Both intervals as one: counts added, gauges of the later."""
        return replace(
            later,
            **_added(self, later),
            start_s=self.start_s,
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
            state=min(
                (each.state for each in (self, other) if each.clients), key=_STATES.index, default=self.state
            ),
            fault=self.fault or other.fault,
        )

    def to_wire(self) -> dict[str, object]:
        """A JSON-ready form that `from_wire` reads back exactly."""
        wire: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        wire |= {name: getattr(self, name).to_wire() for name in _HISTOGRAMS}
        return wire | {"work": [asdict(each) for each in self.work]}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read `to_wire`'s form; raises KeyError, TypeError or ValueError on another shape."""
        read: dict[str, Any] = {name: Histogram.from_wire(wire[name]) for name in _HISTOGRAMS if name in wire}
        work = tuple(ProcessWork(**each) for each in wire.get("work", ()))
        return cls(**{**wire, **read, "work": work})


_SUMMED_GAUGES: Final = (
    "clients",
    "connected",
    "backlog",
    "backlog_max",
    "under_way",
)


def processes_that_help(limited: str | None, processes: int, clients: int) -> int | None:
    """How many generator processes to have where a full core of one is the limit (`Interval.limited`); None
    where more of them would change nothing, and where it is not known how many there are."""
    if limited is None or not limited.startswith(FULL_CORE) or not 0 < processes < clients:
        return None
    return min(2 * processes, clients)


def _added(one: Interval, other: Interval) -> dict[str, Any]:
    """What is added whichever way two intervals meet."""
    added: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in _SUMS}
    for name in _HISTOGRAMS:
        added[name] = Histogram.merged((getattr(one, name), getattr(other, name)))
    added["errors_by_number"] = dict(Counter(one.errors_by_number) + Counter(other.errors_by_number))
    added["work"] = added_work(one.work, other.work)
    added["acknowledged_gtids"] = ",".join(filter(None, (one.acknowledged_gtids, other.acknowledged_gtids)))
    return added


class Cuts:
    """Puts the intervals of several processes together, each at the cuts that all of them made: counts and
    histograms are added, nothing is lost and nothing averaged."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.origin_s = inf
        """Every process cuts at whole intervals after this moment; what ends before it is passed on."""
        self._waiting: dict[int, list[Interval]] = {}

    def begin(self, origin_s: float, processes: int) -> None:
        """This number of processes begins at this moment: no interval is whole without each of them."""
        self.origin_s = origin_s
        for process in range(processes):
            self._waiting.setdefault(process, [])

    def add(self, process: int, interval: Interval) -> list[Interval]:
        """Take one process's interval; answers what is whole now, oldest first."""
        if interval.end_s <= self.origin_s:
            return [interval]
        self._waiting.setdefault(process, []).append(interval)
        made = [set(map(self._cut, waiting)) for waiting in self._waiting.values()]
        return [self._taken(cut) for cut in sorted(set.intersection(*made))]

    def _cut(self, interval: Interval) -> int:
        """The number of the cut that an interval ends at."""
        return round((interval.end_s - self.origin_s) / self._interval_s)

    def _taken(self, upto: float) -> Interval:
        """All that ends at this cut or before."""
        parts = []
        for process, waiting in self._waiting.items():
            pieces = [each for each in waiting if self._cut(each) <= upto]
            self._waiting[process] = waiting[len(pieces) :]
            if pieces:
                parts.append(reduce(Interval.followed_by, pieces))
        return reduce(Interval.beside, parts)

    def rest(self) -> Interval | None:
        """What is left when all processes have ended."""
        return self._taken(inf) if any(self._waiting.values()) else None


_NOTHING: Final = Interval(
    0.0, 0.0, Histogram(), errors=0, unknown=0, reconnects=0, clients=0, connected=0, workload=""
)  # fmt: skip


@dataclass(slots=True)
class Measurement:
    """Merged figures of a stretch of load."""

    intervals: list[Interval] = field(default_factory=list)
    total: Interval = _NOTHING
    """All of them as one; of no time before the first."""

    def add(self, interval: Interval) -> None:
        """Take one interval."""
        self.total = self.total.followed_by(interval) if self.intervals else interval
        self.intervals.append(interval)

    def extend_last(self, interval: Interval) -> None:
        """Take what a drain made into the last interval: its transactions were intended within it."""
        self.intervals[-1] = self.intervals[-1].followed_by(interval)
        self.total = self.total.followed_by(interval)

    @property
    def duration_s(self) -> float:
        """From its beginning to its end."""
        return self.total.duration_s

    @property
    def commits(self) -> int:
        """Acknowledged transactions."""
        return self.total.commits

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.total.tps


SERVER: Final = "server"
"""The state of what other people's clients do, as their server counts it: commits a second of all of them,
and as `mean_ms` the server's time for the commit. No client's clock and no percentile is in it."""


@frozen
class LoadView:
    """The background load at this moment; latencies are of the last interval."""

    clients: int
    connected: int
    workload: str
    tps: float | None
    n: int = 0
    """Commits in the interval."""
    duration_s: float = 0.0
    """Length of the interval; 0 when unknown."""
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    errors: int = 0
    unknown: int = 0
    reconnects: int = 0
    """Counts within the interval."""
    cpu_percent: float | None = None
    limited: str | None = None
    """In words, when the generator and not the server is the limit."""
    state: str = "running"
    """running, stopped, preparing, waiting (the primary is away), viewer (another app drives), `SERVER`."""
    prepared: float | None = None
    """Which part of its table is ready, 0 to 1, while it is prepared; None when not known."""
    driver: str | None = None
    """Who drives the load when it is not us: `name (pid N)`."""
    fault: str | None = None
    """The last error in one line, while it lasts."""
    service: Histogram | None = None
    """Durations of the interval's commits, so that the charts can merge ticks; None in a viewer."""
    mode: str = CLOSED
    """`closed` or `open` (core/load/pacing.py); `HIDES` says what each hides."""
    rate_asked_tps: float | None = None
    """Arrivals per second asked for; None in the closed loop."""
    qps: float | None = None
    """Statements answered per second, BEGIN and COMMIT included."""
    response: Histogram | None = None
    """Intended start to reply (open loop), so that the charts can merge ticks; None in the closed loop."""
    response_p50_ms: float | None = None
    response_p95_ms: float | None = None
    response_p99_ms: float | None = None
    response_max_ms: float | None = None
    arrivals: int = 0
    """Transactions that were intended to start within the interval (open loop)."""
    dropped: int = 0
    """Arrivals that were given up within the interval: the backlog was full."""
    backlog: int = 0
    """Arrivals that wait for a client now."""
    deadlocks: int = 0
    lock_timeouts: int = 0
    conflicts: int = 0
    """Transactions retried within the interval, in none of the other counts."""
    lateness_p99_ms: float | None = None
    """How late the generator was itself."""
    processes: int = 0
    """Generator processes; 0 when none runs or it is another app's."""

    @classmethod
    def of(cls, interval: Interval, prepared: float | None) -> Self:
        """What our load did in its last interval; of the response only in the open loop."""
        same = {
            each.name: getattr(interval, each.name) for each in fields(cls) if hasattr(interval, each.name)
        }
        if interval.mode != OPEN:
            same["response"] = None
        for kind, histogram in (("", interval.service), ("response_", interval.response)):
            same |= {f"{kind}p{rank}_ms": histogram.percentile_ms(rank) for rank in (50, 95, 99)}
            same[f"{kind}max_ms"] = histogram.max_ms
        return cls(
            **same,
            n=interval.commits,
            mean_ms=interval.service.mean_ms,
            prepared=prepared if interval.state == "preparing" else None,
        )

    @property
    def is_by_server(self) -> bool:
        """The clients are not this app's: TPS and mean are the server's counters, no percentile is known."""
        return self.state == SERVER or (self.mean_ms is not None and self.latency_ms("p50") is None)

    @property
    def latency(self) -> Histogram | None:
        """What a screen draws: in the open loop the response, from when each was due, else the service."""
        return self.service if self.response is None else self.response

    def latency_ms(self, figure: str) -> float | None:
        """`p50`, `p95`, `p99` or `max` of it."""
        of = "" if self.response is None else "response_"
        found: float | None = getattr(self, f"{of}{figure}_ms")
        return found

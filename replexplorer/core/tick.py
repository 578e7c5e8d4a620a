"""What is known at one moment: the immutable picture that the screen draws from.

Law: an unknown figure is None and is drawn as unknown; it is never zero and never failed.
Times named `at_s` are seconds on the session's monotonic clock, `*_ms` milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from replexplorer.core.knobs.names import PRIMARY, KnobName, Value
from replexplorer.core.link import NO_PARTITION, LinkSettings
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.model.fitted import Prediction
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.outage import Outage
from replexplorer.core.server.truth import ServerTruth
from replexplorer.core.stats.histogram import Histogram


class ProtectionState(StrEnum):
    """Whether the next commit is safe on a replica (docs/facts.md, "The protection state")."""

    PROTECTED = "protected"
    ARMED = "armed"
    OFF = "off"
    BLOCKED = "blocked"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection state with the evidence for it."""

    state: ProtectionState
    requested: bool
    """Somebody asked for semi-sync."""
    operational: bool | None = None
    """The source's own `status`."""
    replicas_acking: int | None = None
    """Replicas that acknowledge: registered with the source and connected to it."""
    replicas_required: int | None = None
    wait_point: str | None = None
    timeout_ms: int | None = None
    fallbacks: int | None = None
    """Silent falls back to async by timeout since server start."""
    replicas_counted: int | None = None
    """As the source counts them: a connection that is gone and was not missed yet is among them."""
    no_ack_can_come: bool = False
    """The links in force leave too few replicas whose acknowledgement could arrive: whatever the state
    is, the next commit waits."""
    oldest_wait_s: float | None = None
    """While blocked: age of the oldest commit that waits for its acknowledgement."""
    waiting: int | None = None
    """While blocked: commits under way in the server, all behind that one; None when unknown."""
    since_s: float | None = None
    """When this state began, on the session's clock; None when unknown."""
    settled: bool = True
    """False while a change is under way that may be all there is to the state: no outage yet."""
    unprotected: int | None = None
    """Commits of the session that clients were told of without an acknowledgement, while semi-sync was
    asked for; None when nobody counted."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One server, as far as it is known."""

    name: str
    role: str
    """`primary` or `replica`."""
    reachable: bool
    host: str | None = None
    port: int | None = None
    published_port: int | None = None
    path: str | None = None
    """`direct` (the container's own address) or `published` (through Docker's proxy)."""
    flavor: str | None = None
    version: str | None = None
    server_uuid: str | None = None
    gtid_executed: str | None = None
    errant_gtids: str | None = None
    """On a replica: transactions that it has executed and the primary lacks, empty for none; None
    unknown."""
    io_thread: str | None = None
    """on, off, connecting, error; None for a primary."""
    sql_thread: str | None = None
    lag_s: float | None = None
    restarted_s: float | None = None
    """When it was last seen to have begun anew, on the session's clock; None: not in this session."""
    replication_fault: str | None = None
    """Why a thread of it does not run, in the server's words; None while it has none."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """The link between the primary and one replica: asked, in force and measured."""

    replica: str
    backend: str | None = None
    """`netem` or `nfqueue`."""
    settings: LinkSettings = field(default_factory=LinkSettings)
    """Requested."""
    values: Mapping[str, Value] | None = None
    """Knob key to what the agents have in force; None while an agent does not answer."""
    as_asked: bool = True
    """What is in force is what the request needs; also True while that is unknown."""
    rtt_measured_ms: float | None = None
    """Median of the last 5 probes sent after the last change; None when none answered."""
    rtt_base_ms: float | None = None
    probes_lost_percent: float | None = None
    """Of the probes since the last change; None when there is none yet."""
    dropped: int | None = None
    """Packets dropped though no loss was asked."""
    healing: bool = False
    """The partition is over and the stream has not moved yet: TCP waits for its next try."""
    fault: str | None = None
    """What is wrong with the link, in words; None while it does what was asked."""

    @property
    def rtt_asked_ms(self) -> float:
        """The round trip requested, one-way overrides included."""
        return self.settings.total_ms

    @property
    def partition(self) -> str | None:
        """The partition in force; None while unknown."""
        return None if self.values is None else str(self.values["partition"])


@dataclass(frozen=True, slots=True)
class DiskView:
    """One node's disk: the delay asked and in force, and what an fsync takes."""

    node: str
    delay_asked_ms: float = 0.0
    delay_ms: float | None = None
    """In force; None when unknown."""
    measured_ms: float | None = None
    """What the server pays for an fsync of redo or binlog, the delay included; None when none ran."""
    measured_n: int = 0
    probe_p50_ms: float | None = None
    """Synchronous writes of 512 bytes, the server and the delay not involved; None when not probed."""
    probe_p95_ms: float | None = None
    probe_p99_ms: float | None = None
    fsyncs: Mapping[str, int] | None = None
    """Calls by class of file: redo, binlog, relay, data, other."""
    fault: str | None = None
    """Why the delay cannot be set, in words."""


@dataclass(frozen=True, slots=True)
class KnobView:
    """One knob on one node: requested and effective."""

    name: KnobName
    requested: Value
    effective: Value | None
    """What the server, the agents or the load really have; None when unknown."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
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
    """running, stopped, preparing, waiting (the primary is away), viewer (another app drives)."""
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
    """Transactions begun anew within the interval, in none of the other counts."""
    lateness_p99_ms: float | None = None
    """How late the generator was itself."""
    processes: int = 0
    """Generator processes; 0 when none runs or it is another app's."""

    @property
    def latency(self) -> Histogram | None:
        """What a screen draws: in the open loop the response, from when each was due, else the service."""
        return self.service if self.response is None else self.response

    def latency_ms(self, figure: str) -> float | None:
        """`p50`, `p95`, `p99` or `max` of it."""
        of = "" if self.response is None else "response_"
        found: float | None = getattr(self, f"{of}{figure}_ms")
        return found


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The k=1 bound of TPS with its terms (docs/facts.md, "The model"): clients / (rtt + local)."""

    tps: float
    clients: int
    rtt_ms: float
    local_ms: float
    """Execute and fsync time of one commit, from the measured async mean; 0 when none was seen."""


class Severity(StrEnum):
    """How an event is marked in the log."""

    INFO = "info"
    MARK = "mark"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Event:
    """A fact that happened, for the log; with a number it is a mark on both charts as well."""

    at_s: float
    wall_s: float
    """Seconds since 1970, UTC."""
    severity: Severity
    text: str
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % confidence interval at this moment."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    """None: no bound on this side, for want of data."""


@dataclass(frozen=True, slots=True)
class EpochSide:
    """An epoch's figures; latencies are responses in the open loop."""

    tps: Estimate = field(default_factory=Estimate)
    p50_ms: Estimate = field(default_factory=Estimate)
    p95_ms: Estimate = field(default_factory=Estimate)
    p99_ms: Estimate = field(default_factory=Estimate)
    n: int = 0
    """Commits."""
    length_s: float = 0.0
    """What was measured, the transition left out."""
    outage: Outage = field(default_factory=Outage)
    """What stood in the way of commits meanwhile: then the figures are of no one state."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one change did: the figures before it and since."""

    number: int
    at_s: float
    """When its change was in force, where its mark stands; until then, when the change began."""
    title: str
    """`rtt 20 -> 85 ms`, `baseline`."""
    before_tps: float | None
    after_tps: float | None
    delta_percent: float | None = None
    """Of the tested figure: TPS in the closed loop, response p95 in the open one."""
    ci_percent: float | None = None
    """Half the width of the difference's interval; None: still measuring, or without an end."""
    verdict: str = "measuring"
    """baseline, measuring, faster, slower, no difference shown, not comparable (the load's mode was
    another one before), outage (on either side: nothing is compared), too short (it or the epoch before
    ended before there was enough to compare)."""
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    n: int = 0
    mode: str = "closed"
    """The load's mode: closed or open."""
    low_percent: float | None = None
    high_percent: float | None = None
    """The difference's 95 % interval, which holds at every moment of the epoch at once; None: no
    bound on this side."""
    effect: float | None = None
    """Cohen's d: the difference in standard deviations of single seconds."""
    before: EpochSide | None = None
    after: EpochSide | None = None
    """Figures with intervals of their own, without a verdict."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Everything that the screen needs, twice a second."""

    at_s: float
    wall_s: float
    stack: str
    state: str
    """starting, up, partial, down."""
    nodes: tuple[NodeView, ...] = ()
    protection: Protection = field(default_factory=lambda: Protection(ProtectionState.DOWN, requested=False))
    links: tuple[LinkView, ...] = ()
    disks: tuple[DiskView, ...] = ()
    load: LoadView | None = None
    knobs: Mapping[KnobName, KnobView] = field(default_factory=dict)
    """Only knobs that this stack's servers have, in catalogue order."""
    ceiling: Ceiling | None = None
    predicted: Prediction | None = None
    anatomy: Anatomy | None = None
    truth: ServerTruth | None = None
    epochs: tuple[Epoch, ...] = ()
    """Newest last."""
    events: tuple[Event, ...] = ()
    """Those that happened since the tick before, oldest first."""
    lost: tuple[str, ...] = ()
    """What restarts took and the operator may have back or leave (`sync_binlog 0`); never recorded."""
    viewer: bool = False
    """Another driver holds the load; the charts come from the server's counters."""

    @property
    def source_disk(self) -> DiskView | None:
        """The primary's disk."""
        return next((disk for disk in self.disks if disk.node == PRIMARY), None)

    @property
    def rtt(self) -> LinkView | None:
        """The link that the header shows: the slowest one asked."""
        return max(self.links, key=lambda link: link.rtt_asked_ms, default=None)


def partition_words(links: Sequence[LinkView]) -> tuple[str, ...]:
    """The partitions in force: `ack`, or `replica2 ack` where not all links of several have the same."""
    cut = {link.replica: link.partition for link in links if link.partition not in (None, NO_PARTITION)}
    if len(cut) == len(links) and len(set(cut.values())) == 1:
        return (str(next(iter(cut.values()))),)
    return tuple(f"{replica} {partition}" for replica, partition in cut.items())

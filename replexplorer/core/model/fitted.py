"""What TPS and latency the settings should give: the fitted model beside the bound of `ceiling`.

TPS = N / (E + C + kf (Fr + Fb) + k R) (docs/facts.md, "The model"). R is the round trip and the relay
log, Fr and Fb the fsyncs of redo log and binlog, E what a commit does meanwhile, C the cores it needs.

- k and kf rise from 1 for one client towards 2: a commit that arrives while a group waits is in the next
  group, which waits again (group commit, docs/facts.md, "The model").
- C is the cores' time and the queue for it: exact mean value analysis of a closed network with one station
  (Reiser and Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks, J. ACM 27(2), 1980),
  whatever else a commit waits for being a delay.

Law: every term is measured or fitted from measured runs; nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final


class CostTerm(StrEnum):
    """One term of a predicted commit, in the words that a user reads."""

    EXECUTE = "execute and wire"
    CPU = "the machine's CPU"
    REDO = "redo fsync"
    BINLOG = "binlog fsync"
    GROUP = "group delay"
    NETWORK = "network wait"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The model's answer for one setting."""

    tps: float
    latency_ms: float
    """Mean service time of a commit."""
    limit: str
    """In words, what limits now: `network wait: 97 % of a commit; twice the clients would nearly double
    TPS`."""
    calibrated: str | None = None
    """The day and number of runs that the model was fitted from; None: the shipped calibration."""
    terms: Mapping[CostTerm, float] = field(default_factory=dict)
    """What the latency is made of, in ms; only terms that are there."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What of a stack's settings the model looks at; a closed loop of clients."""

    clients: int
    workload: str
    rtt_ms: float = 0.0
    """The round trip that a commit waits for: the required-th fastest replica's
    (`core.ceiling.acknowledging_rtt_ms`), measured where it was; of no account without semi-sync."""
    rtt_asked_ms: float = 0.0
    """What was asked of the link: tells which cell of a sweep it was."""
    held: bool = False
    """Packets are held on the link: a delay was asked, and who holds them needs the cores as well."""
    semi_sync: bool = False
    after_commit: bool = False
    """The wait point."""
    redo_fsyncs: float = 1.0
    """Redo fsyncs a group of commits waits for: 1 with innodb_flush_log_at_trx_commit=1, else 0."""
    binlog_fsyncs: float = 1.0
    """Binlog fsyncs a group waits for: 1/sync_binlog, 0 with sync_binlog=0."""
    fsync_ms: float | None = None
    """What one fsync takes, `fsync_delay_ms` included, where it was measured; None: the calibration's."""
    fsync_delay_ms: float = 0.0
    """What the knob `fsync_delay` adds to each fsync."""
    group_delay_ms: float = 0.0
    """binlog_group_commit_sync_delay: what a group waits for company."""


@dataclass(frozen=True, slots=True)
class CalibrationRun:
    """One measured run: a closed loop in a settled state."""

    setting: OperatingPoint
    tps: float
    """Acknowledged transactions per second."""


@dataclass(frozen=True, slots=True)
class LocalCost:
    """What a commit of one workload costs where nothing waits for a disk or a replica; fitted."""

    delay_ms: float
    """What passes without holding a core that others want: wire, switching, statements' round trips."""
    cpu_ms: float
    """What all commits share: the machine makes at most 1000 / this many a second."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted parameters with what they were fitted from."""

    day: str
    """ISO date."""
    machine: str
    """In words: cores, memory, disk."""
    server: str
    """Flavour and version."""
    runs: int
    median_error: float
    """Median of |predicted / measured - 1| over the runs."""
    most_clients: int
    """Of the runs: beyond, the model extrapolates."""
    most_rtt_ms: float
    least_rtt_ms: float
    """The link's own round trip where none was asked."""
    local: Mapping[str, LocalCost]
    """By workload."""
    fsync_ms: float
    """One fsync of redo or binlog without an added delay."""
    receive_ms: float
    """What a replica needs until it acknowledges, beyond the link's round trip: its relay log."""
    receive_cpu_ms: float
    """What an acknowledged commit costs more of what all commits share."""
    held_cpu_ms: float
    """And what it costs more where its packets are held on the link."""
    fsync_cpu_ms: float
    """What a commit that waits for an fsync costs more of it: smaller groups, more switching."""
    network_half: float
    """Other clients at which a commit waits half a round trip more than its own: k = 1.5."""
    fsync_half: float
    """Other clients at which a commit waits half an fsync more than its own."""
    after_commit_half: float | None = None
    """`network_half` under wait_point=after_commit, whose waiters hold up no engine commit; None where no
    run was made under it: then it is taken for the same."""
    is_shipped: bool = False
    """It came with the program, from another machine than this one."""

    def __post_init__(self) -> None:
        """Refuse figures that no fit makes; raise ValueError."""
        costs = [figure for cost in self.local.values() for figure in (cost.delay_ms, cost.cpu_ms)]
        figures = (*costs, *(getattr(self, name) for name in FITTED), self.median_error, self.least_rtt_ms)
        if not self.local or not all(0 <= figure < inf for figure in figures):
            raise ValueError("its figures must be numbers from 0, with a workload's at least")

    @property
    def title(self) -> str:
        """`2026-01-31, 112 runs, median error 9 %`."""
        return f"{self.day}, {self.runs} runs, median error {self.median_error:.0%}".replace("%", " %")


FITTED: Final = (
    "fsync_ms",
    "receive_ms",
    "receive_cpu_ms",
    "held_cpu_ms",
    "fsync_cpu_ms",
    "network_half",
    "fsync_half",
)
"""The parameters that all workloads share, beside each workload's LocalCost."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What the formula gives, without words."""

    tps: float
    latency_ms: float
    terms: Mapping[CostTerm, float]


def wait_factor(clients: int, half: float) -> float:
    """How many waits of its group a commit waits for: 1 alone, 1.5 beside `half` others, never 2.

    With the square of the others: a commit must meet one that waits, and one must follow it. So it was
    measured too: k stays near 1 up to 16 clients, then rises steeply (1.5 at 32, 1.9 at 64).
    """
    others = float(clients - 1) ** 2
    return 1 + others / (others + half**2) if others > 0 else 1.0


def queued_ms(demand_ms: float, elsewhere_ms: float, clients: int) -> float:
    """Time at one station, queue included, of clients that are elsewhere in between: exact MVA."""
    at_station = 0.0
    residence_ms = demand_ms
    for present in range(1, clients + 1):
        residence_ms = demand_ms * (1 + at_station)
        cycle_ms = elsewhere_ms + residence_ms
        at_station = present * residence_ms / cycle_ms if cycle_ms > 0 else 0.0
    return residence_ms


def solve(setting: OperatingPoint, calibration: Calibration, local: LocalCost) -> Solution:
    """The formula at the top of this module, for at least one client."""
    clients = setting.clients
    fsync_ms = setting.fsync_ms
    if fsync_ms is None:
        fsync_ms = calibration.fsync_ms + setting.fsync_delay_ms
    group = wait_factor(clients, calibration.fsync_half)
    terms = {
        CostTerm.REDO: group * setting.redo_fsyncs * fsync_ms,
        CostTerm.BINLOG: group * setting.binlog_fsyncs * fsync_ms,
        CostTerm.GROUP: group * setting.group_delay_ms,
    }
    cpu_ms = calibration.fsync_cpu_ms * (setting.redo_fsyncs + setting.binlog_fsyncs) / 2
    if setting.semi_sync:
        trip_ms = max(setting.rtt_ms, calibration.least_rtt_ms) + calibration.receive_ms
        half = calibration.network_half
        if setting.after_commit and calibration.after_commit_half is not None:
            half = calibration.after_commit_half
        terms[CostTerm.NETWORK] = wait_factor(clients, half) * trip_ms
        cpu_ms += calibration.receive_cpu_ms + calibration.held_cpu_ms * setting.held
    # One commit alone: its fsyncs and its round trip take what they take, their own work within them.
    waits_ms = sum(terms.values())
    within_ms = min(cpu_ms, waits_ms)
    queued = queued_ms(local.cpu_ms + cpu_ms, local.delay_ms + waits_ms - within_ms, clients)
    terms |= {CostTerm.EXECUTE: local.delay_ms, CostTerm.CPU: queued - within_ms}
    latency_ms = sum(terms.values())
    return Solution(
        tps=1000 * clients / latency_ms,
        latency_ms=latency_ms,
        terms={term: terms[term] for term in CostTerm if terms.get(term)},
    )

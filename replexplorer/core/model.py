"""What TPS and latency the settings should give: the fitted model beside the bound of `ceiling`.

DOMAIN.md section 5. Law: every term is measured or fitted from measured runs; nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Setting:
    """What of a stack's settings the model looks at; a closed loop of clients."""

    clients: int
    workload: str
    rtt_ms: float = 0.0
    """The round trip that a commit waits for: the required-th fastest replica's
    (`core.ceiling.acknowledging_rtt_ms`), measured where it was; of no account without semi-sync."""
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
class Run:
    """One measured run: a closed loop in a settled state."""

    setting: Setting
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
    local: Mapping[str, LocalCost]
    """By workload."""
    fsync_ms: float
    """One fsync of redo or binlog without an added delay: the runs' median."""
    receive_ms: float
    """What a replica needs until it acknowledges, beyond the link's round trip: its relay log."""
    receive_cpu_ms: float
    """What an acknowledged commit costs more of what all commits share."""
    network_half: float
    """Other clients at which a commit waits half a round trip more than its own: k = 1.5."""
    fsync_half: float
    """Other clients at which a commit waits half an fsync more than its own."""

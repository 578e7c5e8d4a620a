"""What TPS and latency the settings should give: the fitted model next to the bound of `ceiling`.

TPS = n / (E + R + Fr + Fb + G + n (C + S) - B + M) (docs/explanation/model.md, "The formula"). n is the
number of clients that do not wait for a row which another has locked (`under_way`), R the round trip, Fr and
Fb the fsyncs of redo log and binlog, G the group's delay, E what a commit does beside others'.

- C is the work that commits do one after another. One acknowledgement, or one fsync, releases a whole
  group, whose clients come back together: of these the wait R is paid once and the work n times.
- B is what of the others' work L = (n - 1) (C + S) is done while a commit waits for its acknowledgement. A
  client that comes at any moment of the round R + L does R / (R + L) of its work in another's wait; `beside`
  is the part that comes so, the rest comes back together with its group.
- S is what a commit costs more because cores slept while it waited: 256 kB that are read in 17 us on a core
  at work take 50 us after 1 ms of sleep and 360 us after 10 ms, each line from memory (measured).
- S, and of C the sending, receiving and acknowledging, are done once for a group. Where an fsync, or the
  group's delay, gathers clients into groups a commit pays its part of them: from all of it for one client
  down to `grouped` of it for many. Without either hardly two commits are sent together.
- M is the wait for the group before. A stage that fsyncs takes one group at a time, so that a commit that
  comes while a group is in it waits for the next; whatever else a commit waits for meanwhile is none of it.

A row stays locked until the engine commits: after both fsyncs, and under AFTER_SYNC after the acknowledgement
too. Which rows a workload draws is known, nothing of that is fitted.

Law: every term is measured or fitted from measured runs; nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from math import exp
from typing import Final

from replexplorer.core.load.workload import SPECIAL_SHARE, SPECIAL_WIDTH
from replexplorer.core.records import field, frozen, replace

TABLE_ROWS: Final = 10_000
"""Of a load's table by default."""
ONE_ROW: Final = frozenset({"update_index", "update_non_index"})
"""Workloads whose transactions update one row by its key."""


@frozen
class HotRows:
    """The rows that transactions want most; of all others two at once rarely want the same."""

    rows: int
    share: float
    """Of the transactions that want one of them, each as likely as any other."""


@lru_cache(maxsize=64)
def hot_rows(workload: str, key_spread: int) -> HotRows | None:
    """Of a workload with this value of the knob `key_spread`; None: its transactions do not wait for rows, as
    far as is known here."""
    if workload not in ONE_ROW:
        return None
    if 0 < key_spread < TABLE_ROWS:
        return HotRows(key_spread, 1.0)
    return HotRows(round(TABLE_ROWS * SPECIAL_WIDTH), SPECIAL_SHARE)


@lru_cache(maxsize=1024)
def under_way(clients: float, hot: HotRows | None) -> float:
    """How many of the clients commit at once on average, at least one; the rest waits for their rows.

    In each round every hot row that is wanted has one commit; those that have committed come again, `share`
    of them for a hot row. The result is where as many hot rows are wanted as have committed.
    """
    if hot is None or clients <= 1:
        return clients
    low, high = 1.0, float(clients)
    for _ in range(50):
        tried = (low + high) / 2
        waiting = clients - (1 - hot.share) * tried
        touched = hot.rows * (1 - (1 - 1 / hot.rows) ** waiting)
        low, high = (tried, high) if touched > hot.share * tried else (low, tried)
    return low


class CostTerm(StrEnum):
    """One term of a predicted commit, in the words that a user reads."""

    EXECUTE = "execute and wire"
    CPU = "the machine's CPU"
    REDO = "redo fsync"
    BINLOG = "binlog fsync"
    GROUP = "group delay"
    ASLEEP = "cores that had slept"
    NETWORK = "network wait"
    ROWS = "rows that others lock"


@frozen
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


@frozen
class OperatingPoint:
    """What of a stack's settings the model looks at; a closed loop of clients."""

    clients: int
    workload: str
    rtt_ms: float = 0.0
    """The round trip that a commit waits for: the required-th fastest replica's
    (`core.ceiling.acknowledging_rtt_ms`), measured where it was; of no account without semi-sync."""
    rtt_asked_ms: float = 0.0
    """What was asked of the link: tells which cell of a sweep it was, and the round trip is no less."""
    semi_sync: bool = False
    after_commit: bool = False
    """The wait point."""
    redo_fsyncs: float = 1.0
    """Redo fsyncs a group of commits waits for: 1 with innodb_flush_log_at_trx_commit=1, 2 with 3, else 0."""
    binlog_fsyncs: float = 1.0
    """Binlog fsyncs a group waits for: 1/sync_binlog, 0 with sync_binlog=0."""
    fsync_ms: float | None = None
    """What one fsync takes, `fsync_delay_ms` included, where it was measured; None: the calibration's."""
    fsync_delay_ms: float = 0.0
    """What the knob `fsync_delay` adds to each fsync."""
    group_delay_ms: float = 0.0
    """binlog_group_commit_sync_delay: what a group waits for company."""
    key_spread: int = 0
    """The knob of that name: rows that keys are drawn from; 0: the whole table, as sysbench draws."""


@frozen
class AppliedRate:
    """What a replica that was late applied in a run: its applier's capacity under that load."""

    setting: OperatingPoint
    """Its workers as clients, over its own fsyncs."""
    tps: float


@frozen
class CalibrationRun:
    """One measured run: a closed loop in a settled state."""

    setting: OperatingPoint
    tps: float
    """Acknowledged transactions per second."""
    applied: AppliedRate | None = None
    """None where no replica was late."""
    predicted_tps: float | None = None
    """What the other cells' runs say of its setting; None before they were asked, and where they say nothing
    of its workload."""


@frozen
class LocalCost:
    """What a commit of one workload costs where nothing waits for a disk or a replica; fitted."""

    delay_ms: float
    """What overlaps with other clients' commits."""
    cpu_ms: float
    """What commits do one after another: the machine makes at most 1000 / this many a second."""


@frozen
class Validation:
    """How far predictions are off, each cell predicted from the others (`core/model/fit.py`)."""

    cells: int
    """Settings that were run."""
    median_error: float
    """Median of |predicted / measured - 1| over the cells, a cell being the median of its runs."""
    p90_error: float
    """What 90 % of the cells do not exceed."""
    noise: float | None = None
    """Run to run: the typical standard deviation of a cell's runs, as a part of their mean; None where
    no cell was run twice."""

    def __str__(self) -> str:
        """`median error 5 % over 64 cells, cross-validated`."""
        error = f"{self.median_error:.0%}".replace("%", " %")
        return f"median error {error} over {self.cells} cells, cross-validated"


@frozen
class Calibration:
    """The fitted parameters with what they were fitted from."""

    day: str
    """ISO date."""
    machine: str
    """In words: cores, memory, disk."""
    server: str
    """Flavour and version."""
    runs: int
    validation: Validation
    """How far off it is, each cell predicted from the others."""
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
    """What an acknowledged commit does more: sent, written to the relay log, acknowledged."""
    fsync_cpu_ms: float
    """What a commit that waits for the fsyncs of both logs does more: smaller groups, more switching."""
    asleep_ms: float
    """What a commit costs more after long sleep of the cores."""
    asleep_after_ms: float
    """Wait after which 63 % of `asleep_ms` is paid."""
    grouped: float = 1.0
    """The part that is left, for many clients, of what a group of commits pays once, where something gathers
    them into groups; 1: each commit pays all of it."""
    beside: float = 0.0
    """The part of the others' work that comes at any moment, also while a commit waits for its
    acknowledgement; 0: all come back together, once it is there."""
    after_commit_beside: float | None = None
    """The same under wait_point=after_commit, whose waiters hold up no engine commit; None where no run was
    made under it: then it is taken for that of after_sync."""
    applier: LocalCost | None = None
    """What a transaction of the main workload costs a replica's worker; None where no two runs with different
    workers had a replica that was late."""
    applier_error: float = 0.0
    """The largest |predicted / measured - 1| of a replica's capacity, each setting predicted from the
    others."""
    is_shipped: bool = False
    """It came with the program, from another machine than this one."""

    @property
    def title(self) -> str:
        """`2026-01-31, 192 runs, median error 5 % over 64 cells, cross-validated`."""
        return f"{self.day}, {self.runs} runs, {self.validation}"


FITTED: Final = (
    "fsync_ms",
    "receive_ms",
    "fsync_cpu_ms",
    "asleep_ms",
    "asleep_after_ms",
    "grouped",
    "beside",
)
"""The parameters that all workloads share, beside each workload's LocalCost."""


@frozen
class Solution:
    """What the formula gives, without words."""

    tps: float
    latency_ms: float
    terms: Mapping[CostTerm, float]


def behind_ms(redo_ms: float, binlog_ms: float, clients: float) -> float:
    """How long a commit waits for the group before it, of two stages that take a group at a time.

    Two clients are a group each, and the slower stage passes both in turn. Of three and more there is a
    group in each stage and one that has just missed the first: with both logs delayed by 20 ms a commit
    of 16 clients takes 64 ms, one of a single client 43 (measured).
    """
    slower_ms = max(redo_ms, binlog_ms)
    if clients < 3:
        return max(0.0, clients * slower_ms - redo_ms - binlog_ms)
    return slower_ms


def share_of_group(gathers: bool, clients: float, grouped: float) -> float:
    """What a commit pays of what its group pays once; `gathers`: something lets commits come together."""
    least = min(grouped, 1.0)
    return least + (1 - least) / clients if gathers else 1.0


def times_worked(beside: float, clients: float, each_ms: float, trip_ms: float) -> float:
    """How many commits' work, `each_ms` long, is in the time of one: all clients', less what of the others'
    is done while it waits for its acknowledgement."""
    others_ms = (clients - 1) * each_ms
    if not others_ms:
        return clients
    return clients - min(beside, 1.0) * (clients - 1) * trip_ms / (others_ms + trip_ms)


def solve(setting: OperatingPoint, calibration: Calibration, local: LocalCost) -> Solution:
    """The formula at the top of this module, for at least one client."""
    hot = locked_rows(setting)
    together = under_way(setting.clients, hot)
    if hot is None or not (setting.semi_sync and setting.after_commit):
        return _solved(setting, calibration, local, together, together)
    # A commit that waits for its acknowledgement has released its row: the others share the rows. Waiting
    # never makes more than not waiting does.
    most_tps = _solved(replace(setting, semi_sync=False), calibration, local, together, together).tps
    after_release = (CostTerm.NETWORK, CostTerm.ASLEEP)
    low, high = 1.0, float(setting.clients)
    for _ in range(40):
        tried = (low + high) / 2
        answer = _solved(setting, calibration, local, tried, together)
        released = answer.tps * sum(answer.terms.get(term, 0.0) for term in after_release) / 1000
        holding = under_way(setting.clients - released, hot)
        more = holding + released > tried and answer.tps <= most_tps
        low, high = (tried, high) if more else (low, tried)
    return _solved(setting, calibration, local, low, together)


def _solved(
    setting: OperatingPoint, calibration: Calibration, local: LocalCost, clients: float, together: float
) -> Solution:
    """With `clients` committing at once, of which at most `together` come to one group; the other
    clients wait for rows."""
    fsync_ms = setting.fsync_ms
    if fsync_ms is None:
        fsync_ms = calibration.fsync_ms + setting.fsync_delay_ms
    redo_ms, binlog_ms = setting.redo_fsyncs * fsync_ms, setting.binlog_fsyncs * fsync_ms
    fsyncs = setting.redo_fsyncs + setting.binlog_fsyncs
    work_ms = local.cpu_ms + calibration.fsync_cpu_ms * fsyncs / 2
    trip_ms = 0.0
    share = share_of_group(fsyncs + setting.group_delay_ms > 0, together, calibration.grouped)
    if setting.semi_sync:
        trip_ms = max(setting.rtt_ms, setting.rtt_asked_ms + calibration.least_rtt_ms)
        work_ms += share * calibration.receive_ms
    waits_ms = trip_ms + redo_ms + binlog_ms + setting.group_delay_ms
    asleep_ms = 0.0
    if calibration.asleep_after_ms > 0:
        asleep_ms = share * calibration.asleep_ms * (1 - exp(-waits_ms / calibration.asleep_after_ms))
    beside = min(_beside(setting, calibration), 1.0)
    if clients > together:
        # No more come back together than are in a group.
        beside = 1 - (1 - beside) * (together - 1) / (clients - 1)
    times = times_worked(beside, clients, work_ms + asleep_ms, trip_ms)
    behind = behind_ms(redo_ms, binlog_ms + setting.group_delay_ms, together)
    behind = max(0.0, behind - trip_ms - times * work_ms)
    if redo_ms > binlog_ms + setting.group_delay_ms:
        redo_ms += behind
    else:
        binlog_ms += behind
    terms = {
        CostTerm.EXECUTE: local.delay_ms,
        CostTerm.CPU: times * work_ms,
        CostTerm.REDO: redo_ms,
        CostTerm.BINLOG: binlog_ms,
        CostTerm.GROUP: setting.group_delay_ms,
        CostTerm.ASLEEP: times * asleep_ms,
        CostTerm.NETWORK: trip_ms,
    }
    tps = 1000 * clients / sum(terms.values())
    latency_ms = 1000 * setting.clients / tps
    terms[CostTerm.ROWS] = max(0.0, latency_ms - sum(terms.values()))
    return Solution(
        tps=tps,
        latency_ms=latency_ms,
        terms={term: ms for term, ms in terms.items() if ms},
    )


def locked_rows(setting: OperatingPoint) -> HotRows | None:
    """The rows that commits wait for; None: for none, as far as is known here.

    A row is locked from its update until the engine commits: over both fsyncs and the group's delay, under
    AFTER_SYNC over the acknowledgement too. Without that, sysbench's own keys (three quarters of them 100
    rows) rarely meet: 16 clients on a disk of 20 ms make 249 TPS, 16 / 64 ms (measured).
    """
    keeps = setting.semi_sync and not setting.after_commit
    return hot_rows(setting.workload, setting.key_spread) if keeps or setting.key_spread else None


def _beside(setting: OperatingPoint, calibration: Calibration) -> float:
    """The part that comes at any moment at this wait point."""
    if setting.after_commit and calibration.after_commit_beside is not None:
        return calibration.after_commit_beside
    return calibration.beside

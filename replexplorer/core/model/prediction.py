"""The model's answer with what limits in words, for settings and for a load that is measured now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.fitted import (
    Calibration,
    CostTerm,
    LocalCost,
    OperatingPoint,
    Prediction,
    Solution,
    solve,
)
from replexplorer.core.records import frozen, replace
from replexplorer.core.server.anatomy import ACKS, FSYNCS, Anatomy, Part

_FSYNCS: Final = (CostTerm.REDO, CostTerm.BINLOG)
_HERE: Final = (CostTerm.EXECUTE, CostTerm.CPU, CostTerm.ASLEEP)
_LOCAL: Final = (Part.WIRE, Part.EXECUTE, Part.ENGINE)
"""Parts of a measured commit that nothing but this machine's work takes."""
_AT_WORK: Final = (*_HERE, CostTerm.ROWS)
_DOUBLES: Final = 1.9
_HELPS: Final = 1.1
"""Less than this times the TPS is not a reason to change anything."""
_WAIT_LONGER: Final = "more clients would only wait longer"
_SPEEDS: Final = (0.02, 50.0)
"""A machine this many times as slow as the calibrated one is still believed."""


def predict(
    setting: OperatingPoint,
    calibration: Calibration,
    *,
    local: LocalCost | None = None,
    at_most_tps: float | None = None,
    rate_tps: float | None = None,
    anatomy: Anatomy | None = None,
) -> Prediction | None:
    """What this setting should give; None without a client.

    With an `anatomy` the limit has the share that was measured, by the division that is drawn. `local` is
    what was measured, in place of the calibration's cost of this workload; a workload that neither knows is
    taken for the calibration's first. `at_most_tps` is the ceiling, which holds whatever the model says. With
    `rate_tps` transactions arrive at that rate (open loop): as many as the clients can take are answered, and
    the latency is that of as many clients as it keeps busy.
    """
    if setting.clients < 1:
        return None
    cost = local or local_cost(setting.workload, calibration)
    answer = solve(setting, calibration, cost)
    limit = _limit(setting, calibration, cost, answer, anatomy)
    tps, latency_ms = answer.tps, answer.latency_ms
    if at_most_tps is not None and at_most_tps < tps:
        tps, latency_ms = at_most_tps, 1000 * setting.clients / at_most_tps
    if rate_tps is not None and rate_tps < tps:
        most_tps, tps = tps, rate_tps
        busy = _busy_clients(setting, calibration, cost, rate_tps)
        answer = solve(replace(setting, clients=busy), calibration, cost)
        latency_ms = answer.latency_ms
        limit = (
            f"the arrival rate: it keeps about {busy} of {setting.clients} clients busy, which could reach"
            f" {most_tps:,.0f} TPS"
        )
    return Prediction(
        tps=tps,
        latency_ms=latency_ms,
        limit=limit,
        calibrated=None if calibration.is_shipped else calibration.title,
        terms=answer.terms,
    )


def local_cost(workload: str, calibration: Calibration) -> LocalCost:
    """The workload's local cost, or that of the first one calibrated."""
    return calibration.local.get(workload) or next(iter(calibration.local.values()))


def alone_ms(setting: OperatingPoint, calibration: Calibration) -> float:
    """What a commit of one client costs while nothing waits for a replica: the ceiling's local term."""
    alone = replace(setting, clients=1, semi_sync=False)
    return solve(alone, calibration, local_cost(setting.workload, calibration)).latency_ms


def link_bound_tps(setting: OperatingPoint, rtt_ms: float, calibration: Calibration) -> float | None:
    """The TPS that a link of this round trip allows semi-sync, by the calibrated local cost of one client;
    None where no commit waits for it."""
    ceiling = bound(setting.clients, rtt_ms, alone_ms(setting, calibration)) if setting.semi_sync else None
    return None if ceiling is None else ceiling.tps


def measured(
    setting: OperatingPoint, calibration: Calibration, anatomy: Anatomy
) -> tuple[OperatingPoint, LocalCost | None]:
    """The setting with the fsync as measured now, and the local cost as measured now; None: unknown.

    A measured execute time holds the wait for cores of all clients that there are now, so the
    calibrated cost is scaled, both its parts alike, until the model has the same at this number of
    clients: then it holds at any other number too.
    """
    parts = anatomy.parts
    fsyncs_ms = [parts[part] for part in (Part.REDO, Part.BINLOG) if part in parts]
    if fsyncs_ms and setting.redo_fsyncs + setting.binlog_fsyncs >= len(fsyncs_ms):
        setting = replace(setting, fsync_ms=sum(fsyncs_ms) / len(fsyncs_ms))
    if Part.EXECUTE not in parts or setting.clients < 1:
        return setting, None
    wanted_ms = sum(parts.get(part, 0.0) for part in _LOCAL)
    return setting, _scaled(setting, calibration, wanted_ms)


def _scaled(setting: OperatingPoint, calibration: Calibration, wanted_ms: float) -> LocalCost:
    """The calibrated cost times what makes the model spend this many ms on execution and CPU."""
    cost = local_cost(setting.workload, calibration)

    def missing_ms(times: float) -> float:
        answer = solve(setting, calibration, _times(cost, times))
        return wanted_ms - sum(answer.terms.get(term, 0.0) for term in _HERE)

    return _times(cost, where_zero(missing_ms))


def where_zero(falling: Callable[[float], float]) -> float:
    """The factor between `_SPEEDS` at which this falls through 0, else the nearer end."""
    low, high = _SPEEDS
    for _ in range(40):
        times = (low * high) ** 0.5
        low, high = (times, high) if falling(times) > 0 else (low, times)
    return float((low * high) ** 0.5)


def _times(cost: LocalCost, factor: float) -> LocalCost:
    return LocalCost(cost.delay_ms * factor, cost.cpu_ms * factor)


_LOAD_S: Final = 60.0


def minute_lag_s(applied_tps: float, tps: float) -> float:
    """How far a replica that applies so much of a load's TPS is behind after a minute of it, s; 0: it keeps
    up."""
    return _LOAD_S * (1 - applied_tps / tps) if applied_tps < tps else 0.0


@frozen
class ReplicaLag:
    """What a minute of load leaves of a replica's work."""

    replica: str
    applied_tps: float
    """What its applier can do at most."""
    lag_s: float
    """Behind at the end; 0: it keeps up."""
    least_s: float
    most_s: float
    """By the model's largest error."""
    drain_s: float
    """Until it has caught up, once the load has ended."""

    @property
    def words(self) -> str:
        """`db2 applies up to 980/s: a minute of this load leaves it 29 s behind (24 to 34), 57 s to catch
        up`."""
        told = f"{self.replica} applies up to {self.applied_tps:,.0f}/s: "
        if not self.most_s:
            return f"{told}it keeps up"
        behind = f"{self.lag_s:.0f} s behind ({self.least_s:.0f} to {self.most_s:.0f})"
        if not self.lag_s:
            return f"{told}it may just keep up; a minute of this load leaves it {behind}"
        return f"{told}a minute of this load leaves it {behind}, {self.drain_s:.0f} s to catch up"


def replica_lag(
    replica: str, applier: OperatingPoint, tps: float, calibration: Calibration
) -> ReplicaLag | None:
    """What a load of this TPS leaves for an applier (`operating_point.applier_of`); None where the
    calibration does not know: another workload than its main one, or no run had a late replica."""
    if calibration.applier is None or applier.workload != next(iter(calibration.local)):
        return None
    most_tps = solve(applier, calibration, calibration.applier).tps
    times, lag_s = 1 + calibration.applier_error, minute_lag_s(most_tps, tps)
    return ReplicaLag(
        replica,
        most_tps,
        lag_s,
        minute_lag_s(most_tps * times, tps),
        minute_lag_s(most_tps / times, tps),
        lag_s * tps / most_tps,
    )


def _busy_clients(setting: OperatingPoint, calibration: Calibration, cost: LocalCost, rate_tps: float) -> int:
    """The least number of clients that answer this rate; at most those that there are."""

    def most_tps(clients: int) -> float:
        return solve(replace(setting, clients=clients), calibration, cost).tps

    return 1 + bisect_left(range(1, setting.clients), rate_tps, key=most_tps)


def _limit(
    setting: OperatingPoint,
    calibration: Calibration,
    cost: LocalCost,
    answer: Solution,
    anatomy: Anatomy | None,
) -> str:
    """What takes most of a commit, and what would help most by the model itself."""

    def gain(**changed: float) -> float:
        return solve(replace(setting, **changed), calibration, cost).tps / answer.tps  # type: ignore[arg-type]

    name, share = _largest(setting, answer, anatomy)
    twice = gain(clients=2 * setting.clients)
    if name == CostTerm.CPU and twice < _HELPS:
        return f"{name}: {_WAIT_LONGER}"
    if name in _AT_WORK and _is_divided(anatomy):
        name = "wire, execute and engine"
    told = f"{name}: {_share(share)} of a commit; "
    if twice < _HELPS:
        return f"{told}twice the clients would only wait longer"
    told += f"twice the clients would {_told(twice)}"
    if name == CostTerm.NETWORK and (half := gain(rtt_ms=setting.rtt_ms / 2)) > 1.05 * twice:
        told += f", half the RTT {half:.1f} times"
    return told


def _largest(setting: OperatingPoint, answer: Solution, anatomy: Anatomy | None) -> tuple[str, float]:
    """The largest term and its part of a commit, both fsyncs and the queue for them as one: by the model, or
    measured, where the server times the queue; of a measured commit the machine's own work is one as well."""
    terms: dict[str, float] = {term: ms for term, ms in answer.terms.items() if term not in _FSYNCS}
    fsyncs = [term for term in _FSYNCS if term in answer.terms]
    disk = "redo and binlog fsync" if len(fsyncs) > 1 else "".join(fsyncs)
    if fsyncs:
        disk += f" and the{'ir' if len(fsyncs) > 1 else ''} queue" if setting.clients > 1 else ""
        terms[disk] = sum(answer.terms[term] for term in fsyncs)
    whole_ms = answer.latency_ms
    if anatomy is not None and _is_divided(anatomy):
        here = max(_AT_WORK, key=lambda term: terms.get(term, 0.0))
        seen = {
            disk: anatomy.ms_of(*FSYNCS),
            CostTerm.NETWORK: anatomy.ms_of(*ACKS, Part.GROUP),
            CostTerm.GROUP: anatomy.ms_of(Part.QUEUE),
            here: anatomy.ms_of(*_LOCAL),
        }
        terms = {term: ms for term, ms in seen.items() if term in terms} or terms
        whole_ms = anatomy.mean_ms
    name, took_ms = max(terms.items(), key=lambda item: item[1])
    return name, took_ms / whole_ms


def _is_divided(anatomy: Anatomy | None) -> bool:
    """Whether a measured commit's parts are known as far as the model's terms are."""
    return anatomy is not None and Part.QUEUE not in anatomy.untimed and Part.EXECUTE in anatomy.parts


def _told(gain: float) -> str:
    return "nearly double TPS" if gain >= _DOUBLES else f"give {gain:.1f} times the TPS"


def _share(share: float) -> str:
    """In whole percent; all of it only where there is nothing else."""
    return f"{share if share == 1 else min(share, 0.99):.0%}".replace("%", " %")

"""What a run of a drill found, and the figures that its expectations name."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_verdict import FaultSpan, Judged, StateAt, rates
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import Comeback, Replication
from replexplorer.core.server.commit_cost import CommitCost, CostSample, commit_cost
from replexplorer.core.server.exposure import Exposure, Loss
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.system import DEFAULT

_US: int = 1_000_000


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What the exposure meter said just before a failure."""

    exposure: Exposure
    at_s: float
    """When; seconds since the drill began."""
    failed_s: float
    """When the failure was complete."""
    meanwhile: int = 0
    """Commits that clients were told of between the two: at risk as well, and not in the reading."""

    def of(self, failure: str) -> Loss | None:
        """What it said of `process_dies`, `power_cut` or `source_lost`, its `high` with the commits between
        the reading and the failure; None where it could not say."""
        found = getattr(self.exposure, failure)
        return replace(found, high=found.high + self.meanwhile) if isinstance(found, Loss) else None


@dataclass(slots=True)
class DrillResult:
    """A run drill."""

    drill: Drill
    server: str
    started_wall_s: float
    quick: bool = False
    clients: int = 0
    system: str = DEFAULT
    """What the stack was."""
    settings: Mapping[KnobName, Value] = field(default_factory=dict)
    """The knobs that it set and those of durability and protection, as effective before the first fault."""
    duration_s: float = 0.0
    windows: tuple[FaultSpan, ...] = ()
    timeline: tuple[StateAt, ...] = ()
    reading: MeterReading | None = None
    """None where nothing was injected, or the meter said nothing."""
    ledger: LossLedger | None = None
    """None where the drill ended before rows were compared."""
    role_changes: tuple[RoleChange, ...] = ()
    comebacks: tuple[Comeback, ...] = ()
    """Of servers that the faults had ended and that run again, in order."""
    recovery_ms: float | None = None
    """From the mending of the last fault to the first OK; None where nobody had one."""
    fallbacks: int | None = None
    """To asynchronous replication, while it ran."""
    rates_tps: Mapping[str, float] = field(default_factory=dict)
    """`tps_before`, `tps_during`, `tps_after` of the faults."""
    cost: CommitCost | None = None
    """What a commit cost the servers until the first fault, or to the end where there was none; None where it
    is not known."""
    told: tuple[tuple[float, str], ...] = ()
    """What was done and seen, each at its second since the drill began."""
    expectations: tuple[Judged, ...] = ()
    repaired: tuple[str, ...] = ()
    """What a member of a group needed to be let in again, beside the mending of its fault, and why."""
    aborted: str | None = None
    """Why nothing is judged; None: it ran to its end."""
    unrestored: tuple[str, ...] = ()
    """What could not be returned yet, and what becomes of it."""

    @property
    def verdict(self) -> str:
        """holds, deviates or aborted."""
        if self.aborted is not None:
            return "aborted"
        return "holds" if all(each.holds for each in self.expectations) else "deviates"

    @property
    def failover(self) -> RoleChange | None:
        """The first change of roles; None where there was none."""
        return next(iter(self.role_changes), None)


def told_times_s(log: RunLog) -> Sequence[float]:
    """When clients were told OK, ascending; seconds of the monotonic clock."""
    return sorted(time_us / _US for each in log.clients.values() for time_us in each.acknowledged_us)


def first_after(times_s: Sequence[float], at_s: float) -> float | None:
    """The first of ascending times from a moment on; None when there is none."""
    at = bisect_left(times_s, at_s)
    return times_s[at] if at < len(times_s) else None


def last_before(times_s: Sequence[float], at_s: float) -> float | None:
    """The last of ascending times up to a moment; None when there is none."""
    at = bisect_right(times_s, at_s)
    return times_s[at - 1] if at else None


def between(times_s: Sequence[float], from_s: float, to_s: float) -> int:
    """How many of ascending times lie in a stretch."""
    return max(0, bisect_right(times_s, to_s) - bisect_left(times_s, from_s))


def per_second(times_s: Sequence[float], from_s: float, to_s: float) -> Iterable[tuple[float, float, int]]:
    """Ascending times counted in steps of a tenth of a second: (from, to, count), none left out."""
    steps = max(0, int((to_s - from_s) * 10))
    for step in range(steps):
        low_s, high_s = from_s + step / 10, from_s + (step + 1) / 10
        yield low_s, high_s, bisect_left(times_s, high_s) - bisect_left(times_s, low_s)


def rates_of(times_s: Sequence[float], windows: Sequence[FaultSpan], end_s: float) -> Mapping[str, float]:
    """`tps_before`, `tps_during`, `tps_after` of the faults, from times since the drill began."""
    if not times_s:
        return {}
    return rates(per_second(times_s, times_s[0], end_s), windows, end_s)


def cost_of(costs: Sequence[tuple[float, CostSample]], times_s: Sequence[float]) -> CommitCost | None:
    """What a commit cost between the first two of these samples, from when clients were told OK (ascending,
    seconds since the drill began, as the samples' are); None where one is missing."""
    if len(costs) < 2:
        return None
    (from_s, before), (to_s, after) = costs[:2]
    return commit_cost(before, after, acknowledged=between(times_s, from_s, to_s))


def figures_of(result: DrillResult) -> Mapping[str, float]:
    """Each figure that was measured, by its name in `drill.FIGURES`."""
    found: dict[str, float | None] = {"clients": result.clients, **result.rates_tps}
    found["recovery_ms"] = result.recovery_ms
    found["fallbacks"] = result.fallbacks
    ledger = result.ledger
    if ledger is not None:
        for name in (
            "attempted", "acknowledged", "failed", "unknown", "lost", "newest_lost_age_ms",
            "unknown_present", "unknown_absent", "phantom_reads", "clients_with_loss",
            "most_lost_of_one_client",
        ):  # fmt: skip
            found[name] = getattr(ledger, name)
        others = [rows for node, rows in ledger.nodes.items() if node != ledger.survivor]
        found["extra"] = sum(each.extra for each in others)
        found["missing"] = sum(each.missing for each in others)
        found["rpo_ms"] = ledger.oldest_lost_age_ms if ledger.lost else 0.0
    if result.comebacks:
        logs = [each.binlog_lost for each in result.comebacks]
        found["binlog_lost"] = None if None in logs else sum(gtid_count(each or "") for each in logs)
        after = [state for each in result.comebacks for state in each.replication.values()]
        found["diverged"] = after.count(Replication.DIVERGED)
        found["broken_1236"] = after.count(Replication.BROKEN)
    change = result.failover
    if change is not None:
        rto = change.rto
        found |= {"detect_ms": rto.detect_ms, "promote_ms": rto.promote_ms}
        found |= {"first_write_ms": rto.first_write_ms, "rto_ms": rto.total_ms}
    if result.reading is not None:
        for name in ("process_dies", "power_cut", "source_lost"):
            if (loss := result.reading.of(name)) is not None:
                found[f"exposure_{name}_low"] = loss.low
                found[f"exposure_{name}_commits"] = loss.commits
                found[f"exposure_{name}_high"] = loss.high
    return {name: float(value) for name, value in found.items() if value is not None}

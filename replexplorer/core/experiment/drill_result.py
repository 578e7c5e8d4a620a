"""What a drill went through, what it found, and what its expectations come to.

Law: a protection state holds from the look that found it to the next one, and BLOCKED from when the oldest
waiting commit began, as its event says. A counter that fell was reset and counts from 0. What no one could
read is None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

from replexplorer.core.event import Event, Severity
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentResult, Relation
from replexplorer.core.experiment.relations import Claim, Found
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.loss.client_log import RunLog
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import BinlogLost, Comeback, Replication
from replexplorer.core.server.counters import CommitCost, CostSample, commit_cost
from replexplorer.core.server.exposure import FAILURES, Exposure, Loss
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.system import DEFAULT
from replexplorer.core.text import utc
from replexplorer.core.tick import Tick


@frozen
class CourseEvent:
    """Something that happened in a measurement: a knob turned, a fault, a change of state."""

    t_s: float
    """Since the measurement began."""
    at: str
    severity: str
    text: str


@json_keys(seconds="protection_s", unprotected="unprotected_commits")
@frozen
class Passage:
    """What a measurement went through."""

    seconds: dict[str, float]
    """In each protection state, in the order in which they came."""
    fallbacks: int | None
    """Falls back to asynchronous by a timeout."""
    unprotected: int | None
    """Acknowledged while semi-sync was on and no replica had them, by the server's count."""
    events: list[CourseEvent]
    """Marks, warnings and faults, oldest first."""


@dataclass(slots=True)
class Course:
    """What the ticks of one session say of protection, and their events."""

    looks: list[tuple[float, Protection]] = field(default_factory=list)
    """Each at its second since the session began."""
    events: list[Event] = field(default_factory=list)

    def add(self, tick: Tick) -> None:
        """Take a tick."""
        self.looks.append((tick.at_s, tick.protection))
        self.events += [event for event in tick.events if event.severity is not Severity.INFO]

    def between(self, from_s: float, to_s: float) -> Passage:
        """What happened from one moment to another."""
        events = sorted(self.events, key=lambda event: event.at_s)
        return Passage(
            seconds=self._seconds(from_s, to_s),
            fallbacks=self._grown(from_s, lambda seen: seen.fallbacks),
            unprotected=self._grown(from_s, lambda seen: seen.unprotected),
            events=[
                CourseEvent(event.at_s - from_s, utc(event.wall_s), event.severity.value, event.text)
                for event in events
                if from_s <= event.at_s <= to_s
            ],
        )

    def _seconds(self, from_s: float, to_s: float) -> dict[str, float]:
        seconds: dict[str, float] = {}
        held_from_s = (at_s - _waited_s(seen) for at_s, seen in self.looks[1:])
        begins_s = [*accumulate(held_from_s, max, initial=from_s), to_s]
        for (_, seen), (begin_s, end_s) in zip(self.looks, pairwise(begins_s), strict=False):
            held_s = min(end_s, to_s) - max(begin_s, from_s)
            if held_s > 0:
                seconds[seen.state.value] = seconds.get(seen.state.value, 0.0) + held_s
        return seconds

    def _grown(self, from_s: float, counter: Callable[[Protection], int | None]) -> int | None:
        """How far a counter came since a moment."""
        before = [counter(seen) for at_s, seen in self.looks if at_s <= from_s]
        after = [counter(seen) for at_s, seen in self.looks if at_s > from_s]
        counts = [count for count in (*before[-1:], *after) if count is not None]
        grown = [now - was if now >= was else now for was, now in pairwise(counts)]
        return sum(grown) if grown else None


def _waited_s(seen: Protection) -> float:
    """How long before the look BLOCKED began: commits had waited for a while."""
    return (seen.oldest_wait_s or 0.0) if seen.state is ProtectionState.BLOCKED else 0.0


@frozen
class StateAt:
    """The protection state from a moment on."""

    at_s: float
    """Seconds since the drill began."""
    state: str


@dataclass(slots=True)
class FaultSpan:
    """A fault, with its coming into force and its end."""

    fault: str
    """With its value: `partition=ack`."""
    node: str
    from_s: float
    to_s: float | None
    """None: until the drill's end."""


def judge(
    expects: Iterable[Claim], figures: Mapping[str, float], timeline: Sequence[StateAt]
) -> tuple[Relation, ...]:
    """Each expectation against what was measured; what was not measured holds nothing."""
    found = Found(figures=figures, states=[each.state for each in timeline])
    return tuple(each.judge(found) for each in expects)


def stretches_of(timeline: Sequence[StateAt], end_s: float) -> Sequence[tuple[str, float]]:
    """Each state with how long it was in force, in order."""
    ends = [*(each.at_s for each in timeline[1:]), end_s]
    return [(each.state, max(0.0, until_s - each.at_s)) for each, until_s in zip(timeline, ends, strict=True)]


_US: int = 1_000_000
_LEAST_S: float = 0.1
"""Less time has no rate."""


@frozen
class MeterReading:
    """What the exposure meter said just before a failure."""

    exposure: Exposure
    at_s: float
    """When; seconds since the drill began."""
    failed_s: float
    """When the failure was complete."""
    meanwhile: int = 0
    """Commits that clients were told of between the two: at risk as well, and not in the reading."""

    @property
    def read_ms(self) -> float:
        """How long before the failure was complete the meter was read."""
        return (self.failed_s - self.at_s) * 1000

    def of(self, failure: str) -> Loss | None:
        """What it said of `process_dies`, `power_cut` or `source_lost`, its `high` with the commits between
        the reading and the failure; None where it could not say."""
        found = getattr(self.exposure, failure)
        return replace(found, high=found.high + self.meanwhile) if isinstance(found, Loss) else None


@frozen
class Moment:
    """Something that was done or seen."""

    at_s: float
    """Seconds since the drill began."""
    text: str


@frozen
class RowsLost:
    """What was lost."""

    commits: int
    ms: float | None
    """How long before the failure the oldest lost row was acknowledged; None: that is not known."""


@json_keys(
    hide="drill started_wall_s reading role_changes comebacks",
    show="drill=drill.name title=drill.title sets=drill.own_settings asked=drill.asked started"
    " exposure_before=reading.exposure exposure_read_ms=reading.read_ms acknowledged_since=reading.meanwhile"
    " binlog_lost replication_after rpo rto=failover.rto verdict",
    timeline="protection",
    cost="commit_cost",
    course="told",
    relations="expectations",
)
@dataclass(slots=True)
class DrillResult(ExperimentResult):
    """A run drill."""

    drill: Drill
    clients: int = 0
    system: str = DEFAULT
    """What the stack was."""
    settings: Mapping[KnobName, Value] = field(default_factory=dict)
    """The knobs that it set and those of durability and protection, as effective before the first fault."""
    duration_s: float = 0.0
    windows: list[FaultSpan] = field(default_factory=list)
    timeline: list[StateAt] = field(default_factory=list)
    """The protection states, each from a moment on."""
    reading: MeterReading | None = None
    """None where nothing was injected, or the meter said nothing."""
    ledger: LossLedger | None = None
    """None where the drill ended before rows were compared."""
    role_changes: list[RoleChange] = field(default_factory=list)
    comebacks: Sequence[Comeback] = ()
    """Of servers that the faults had ended and that run again, in order."""
    recovery_ms: float | None = None
    """From the clearing of the last fault to the first OK; None if there was none."""
    fallbacks: int | None = None
    """To asynchronous replication, while it ran."""
    tps: Mapping[str, float] = field(default_factory=dict)
    """`before`, `during` and `after` the faults."""
    cost: CommitCost | None = None
    """What a commit cost the servers until the first fault, or to the end where there was none; None where it
    is not known."""
    course: list[Moment] = field(default_factory=list)
    """What was done and seen, in order."""
    repaired: Sequence[str] = ()
    """What a member of a group needed to rejoin, besides the clearing of its fault, and why."""
    judged = "expectations"

    @property
    def binlog_lost(self) -> BinlogLost | None:
        """Of servers that came back after a power cut, together; None: none did."""
        if not self.comebacks:
            return None
        lost = [each.lost_binlog for each in self.comebacks]
        counts = [each.transactions for each in lost if each.transactions is not None]
        return BinlogLost(sum(counts) if len(counts) == len(lost) else None, sum(each.bytes for each in lost))

    @property
    def replication_after(self) -> Mapping[str, Replication]:
        """By replica, when its source was back; empty where that did not end."""
        return {node: after for each in self.comebacks for node, after in each.replication.items()}

    @property
    def rpo(self) -> RowsLost | None:
        """What was lost; None where rows were not compared."""
        ledger = self.ledger
        if ledger is None:
            return None
        return RowsLost(ledger.lost, ledger.oldest_lost_age_ms if ledger.lost else 0.0)

    @property
    def experiment(self) -> Drill:
        """What was run."""
        return self.drill

    @property
    def told(self) -> str:
        """What was lost."""
        ledger = self.ledger
        return "" if ledger is None else f", {ledger.lost:,} of {ledger.acknowledged:,} rows lost"

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


def rates_of(
    times_s: Sequence[float], windows: Sequence[FaultSpan], held_s: tuple[float, float], end_s: float
) -> Mapping[str, float]:
    """TPS `before` the first of the faults was asked for, `during` them, and `after` the last one was over,
    from when clients were told OK, ascending; a side that hardly lasts is missing. Seconds since the drill
    began. A fault takes a while to come and to go, which is of no side: they `held` from when the first had
    come until the last one began to go."""
    if not times_s or not windows:
        return {}
    first_s = min(each.from_s for each in windows)
    last_s = max(end_s if each.to_s is None else each.to_s for each in windows)
    held_to_s = end_s if last_s == end_s else held_s[1]
    sides = {"before": (times_s[0], first_s), "during": (held_s[0], held_to_s), "after": (last_s, end_s)}
    return {
        name: between(times_s, from_s, to_s) / (to_s - from_s)
        for name, (from_s, to_s) in sides.items()
        if to_s - from_s > _LEAST_S
    }


def cost_of(costs: Sequence[tuple[float, CostSample]], times_s: Sequence[float]) -> CommitCost | None:
    """What a commit cost between the first two of these samples, from when clients were told OK (ascending,
    seconds since the drill began, as the samples' are); None where one is missing."""
    if len(costs) < 2:
        return None
    (from_s, before), (to_s, after) = costs[:2]
    return commit_cost(before, after, acknowledged=between(times_s, from_s, to_s))


_OF_LEDGER: Final = (
    "attempted", "acknowledged", "failed", "unknown", "lost", "newest_lost_age_ms", "unknown_present",
    "unknown_absent", "phantom_reads", "clients_with_loss", "most_lost_of_one_client",
)  # fmt: skip


def figures_of(result: DrillResult) -> Mapping[str, float]:
    """Each figure that was measured, by its name in `drill.FIGURES`."""
    found: dict[str, float | None] = {f"tps_{name}": tps for name, tps in result.tps.items()}
    found |= {name: getattr(result, name) for name in ("clients", "recovery_ms", "fallbacks")}
    ledger, rpo, lost = result.ledger, result.rpo, result.binlog_lost
    if ledger is not None and rpo is not None:
        found |= {name: getattr(ledger, name) for name in _OF_LEDGER}
        others = [rows for node, rows in ledger.nodes.items() if node != ledger.survivor]
        found["extra"] = sum(each.extra for each in others)
        found["missing"] = sum(each.missing for each in others)
        found["rpo_ms"] = rpo.ms
    if lost is not None:
        after = [state for each in result.comebacks for state in each.replication.values()]
        found["binlog_lost"] = lost.transactions
        found["diverged"] = after.count(Replication.DIVERGED)
        found["broken_1236"] = after.count(Replication.BROKEN)
    if result.failover is not None:
        rto = result.failover.rto
        found |= {"detect_ms": rto.detect_ms, "promote_ms": rto.promote_ms}
        found |= {"first_write_ms": rto.first_write_ms, "rto_ms": rto.total_ms}
    for name in FAILURES:
        if result.reading is not None and (loss := result.reading.of(name)) is not None:
            found |= {f"exposure_{name}_{part}": getattr(loss, part) for part in ("low", "commits", "high")}
    return {name: float(value) for name, value in found.items() if value is not None}

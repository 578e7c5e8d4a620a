"""One phase of a lab: its knobs set, the link measured at rest, the load measured or its script played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from replexplorer.core.experiment.experiment import Try
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, Figures, Phase, PhaseResult, Rtt
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.knobs.names import KnobName, Value, desired_of
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.machine import short_of_cpu
from replexplorer.core.model.ceiling import beaten, beaten_words, bound, local_cost_ms
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.server.node_view import Conflicts, conflicts_of
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.restore_guard import CLIENTS, RestoreGuard
from replexplorer.engine.experiment.stack_api import Findings, StackApi
from replexplorer.ports import Report


@dataclass(frozen=True, slots=True)
class Act:
    """A phase's script at work."""

    stack: StackApi
    phase: Phase
    quick: bool
    tell: Report
    """What is done now, with how much of the phase that is."""
    tries: list[Try] = field(default_factory=list)
    """Those of all phases so far, for whoever watches; they are shown with the next `tell`."""

    def note(self, attempt: Try) -> None:
        """Keep a try as it is now, in place of what was known of it."""
        if self.tries and (self.tries[-1].phase, self.tries[-1].number) == (attempt.phase, attempt.number):
            self.tries.pop()
        self.tries.append(attempt)


@dataclass(frozen=True, slots=True)
class Played:
    """What a phase's load did, or its script found."""

    figures: Figures = field(default_factory=dict)
    service: Histogram = field(default_factory=Histogram)
    """Of its commits."""
    duration_s: float = 0.0
    """How long it made them, or the script worked."""
    rows: int = 0
    """Rows that a script worked on; 0 where commits say it all."""
    errors: int = 0
    """Transactions that came to nothing, or whose outcome is unknown."""
    retried: int = 0
    """Times that a transaction was rolled back by the server and tried again by its client."""
    clients: int | None = None
    """Clients of a script's own; None: those of the load."""
    busy_percent: float | None = None
    """CPU of the generator, of one core."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, warm-up included."""
    limited: str | None = None
    """What beside the settings may have been the limit, in words."""
    readings_tps: tuple[float, ...] = ()
    """Of its intervals, in order."""
    cost: CommitCost | None = None
    """What a commit cost the servers, with its warm-up; None where a script ran, or that is unknown."""

    @classmethod
    def of(cls, found: Findings, figures: Figures | None = None) -> Played:
        """What a measured load did, with what else was found."""
        load = found.load
        limits = (load.total.limited if load.total else None, short_of_cpu(found.machine_percent))
        return cls(
            figures or {},
            service=load.service,
            duration_s=load.duration_s,
            errors=load.errors + load.unknown,
            retried=load.total.retries if load.total else 0,
            busy_percent=load.cpu_percent,
            machine_percent=found.machine_percent,
            readings_tps=tuple(each.tps for each in load.intervals),
            limited="; ".join(limit for limit in limits if limit) or None,
            cost=found.cost,
        )

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.service.count / self.duration_s if self.duration_s > 0 else 0.0


_STATE_WITHIN_S: Final = 5.0
_APPLIED_WITHIN_S: Final = 180.0
"""A replica applies about as fast as a load commits, and more slowly what one client has committed alone."""
_WARMUP_S: Final = 1.5
_WARMUP_LATENCIES: Final = 4
_RTT_LOOKS: Final = 8
_QUICK_RTT_LOOKS: Final = 4
_RTT_LOOK_S: Final = 0.25
_WAITING: Final = (ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED)


@dataclass(slots=True)
class PhaseRun:
    """A phase under way; what it turns the lab's guard restores."""

    guard: RestoreGuard
    phase: Phase
    quick: bool
    tell: Report
    before: Sequence[PhaseResult]
    """The results of the phases before it."""
    tries: list[Try] = field(default_factory=list)
    """Where its script keeps its tries."""
    _behind: tuple[str, ...] = ()
    """Replicas that were applying still what came before it."""

    async def result(self) -> PhaseResult:
        """Set the phase's knobs, measure the link, wait for the protection state, measure the load.

        Raises what turning its knobs raises, and StackUnavailable when a node went down.
        """
        self.tell("setting", None)
        guard, phase, stack = self.guard, self.phase, self.guard.stack
        mark = stack.log.begin_change(phase.name)  # the epoch before ends with its measurement
        at_rest = stack.seen.protection.state is not ProtectionState.BLOCKED
        if at_rest:
            await stack.load.follow(clients=0)  # the link and the disk are measured at rest
        await self._attach(at_rest=at_rest)
        clients = [text for text in phase.settings if text.partition("=")[0] == CLIENTS.key]
        await self._turn(text for text in phase.settings if text not in clients)
        self.tell("measuring the link", None)
        rtt = await measured_rtt(stack, _QUICK_RTT_LOOKS if self.quick else _RTT_LOOKS)
        await self._turn(clients)
        for fault in phase.faults:
            await guard.inject(fault)
        await guard.look()
        if phase.play is not None:
            self.tell("running", None)
            stack.log.change_effective(mark, phase.name, phase.name)
            await guard.until_state(phase.state, within_s=_STATE_WITHIN_S)
            before, lost = stack.seen.protection, _conflicts(stack.seen)
            played = await phase.play(Act(stack, phase, self.quick, self.tell, self.tries))
            stack.log.end_epoch()
        else:
            await stack.load.follow(table_size=phase.table_size)
            await guard.until_state(phase.state, within_s=_STATE_WITHIN_S)
            before, lost = stack.seen.protection, _conflicts(stack.seen)
            played = await self._measured(rtt, mark)
        seen = await guard.look_alive()
        result = replace(
            self._result(rtt, played),
            figures={**played.figures, **_lost(seen, lost, played)},
            protection_before=before,
            invalid="; ".join(guard.disturbances(seen)) or None,
        )
        for fault in phase.faults:
            await guard.clear(fault)
        return result

    async def _attach(self, *, at_rest: bool) -> None:
        """Let as many replicas receive as the phase wants, and wait until all have applied what came before:
        it would take this phase's CPU. One that is cut off goes on applying what it has received, so it is
        waited for before that."""
        if not at_rest:
            await self.guard.attach(self.phase.replicas)
            return
        before = await self._until_applied()
        await self.guard.attach(self.phase.replicas)
        behind = await self._until_applied()
        cut_off = {node.name for node in self.guard.stack.seen.nodes if node.io_thread == "off"}
        self._behind = (*behind, *(name for name in before if name in cut_off))

    async def _until_applied(self) -> tuple[str, ...]:
        """Wait; answers who has not applied all in time."""
        return await self.guard.until_applied(
            within_s=_APPLIED_WITHIN_S, tell=lambda text: self.tell(text, None)
        )

    async def _turn(self, settings: Iterable[str]) -> None:
        """Set knobs as they are typed."""
        await self.guard.turn(desired_of([self.guard.stack.parse(text) for text in settings]))

    async def _measured(self, rtt: Rtt | None, mark: int) -> Played:
        """Measure the load that runs; the phase's mark stands where its settings are in force, and its epoch
        is what is measured."""
        stack, phase, length = self.guard.stack, self.phase, self.phase.length(quick=self.quick)
        began_s = stack.clock.monotonic()
        from_s = began_s + _WARMUP_S + _WARMUP_LATENCIES * (rtt.ms if rtt else 0.0) / 1000
        stack.log.change_effective(mark, phase.name, phase.name, measured_from_s=from_s)
        commits = 0

        def show(interval: Interval) -> None:
            nonlocal commits
            commits += interval.commits
            passed_s = stack.clock.monotonic() - began_s
            share = commits / length.commits if length.commits else passed_s / length.seconds
            self.tell("measuring", min(1.0, share))

        found = await stack.load.measure(
            duration_s=0.0 if length.commits else length.seconds,
            commits=length.commits or 0,
            from_s=from_s,
            on_interval=show,
        )
        measured = found.load
        stack.log.end_epoch(measured.intervals[-1].end_s)
        if measured.total is not None and measured.total.mode == OPEN:
            await stack.load.follow()  # it was drained
        return Played.of(found)

    def _result(self, rtt: Rtt | None, played: Played) -> PhaseResult:
        stack, seen = self.guard.stack, self.guard.stack.seen
        protection = seen.protection
        rtt_ms = rtt.ms if rtt else seen.rtt_ms
        clients = stack.load.settings.clients if stack.load.settings else 0
        clients = clients if played.clients is None else played.clients
        alone = [each for each in self.before if each.protection.state is ProtectionState.OFF]
        local_ms = local_cost_ms(alone[0].clients, alone[0].service) if alone else None
        limits = self.phase.play is None and protection.state in _WAITING
        ceiling = bound(clients, rtt_ms, local_ms) if limits else None
        if ceiling is not None and played.readings_tps:
            each_s = played.duration_s / len(played.readings_tps)
            ceiling = replace(ceiling, beaten_tps=beaten(ceiling, played.readings_tps, each_s=each_s))
        return PhaseResult(
            phase=self.phase,
            settings=self._settings(),
            rtt_measured_ms=rtt_ms,
            service=played.service,
            tps=played.tps,
            ceiling_tps=ceiling.tps if ceiling else None,
            protection=protection,
            clients=clients,
            errors=played.errors,
            fsync_measured_ms=seen.fsync_ms,
            disk_probe_ms=seen.disk_probe_ms,
            predicted_tps=stack.forecast.expected_tps(protection, rtt_ms),
            rtt=rtt,
            duration_s=played.duration_s,
            rows=played.rows,
            busy_percent=played.busy_percent,
            machine_percent=played.machine_percent,
            limited="; ".join(filter(None, (played.limited, self._applying()))) or None,
            finding=beaten_words(ceiling) if ceiling and ceiling.beaten_tps is not None else None,
            cost=played.cost,
            figures=played.figures,
        )

    def _applying(self) -> str | None:
        """That replicas took CPU for what came before."""
        if not self._behind:
            return None
        return f"{' and '.join(self._behind)} began it with transactions of the phase before to apply"

    def _settings(self) -> dict[KnobName, Value]:
        """The phase's knobs as they are in effect."""
        stack, found = self.guard.stack, dict[KnobName, Value]()
        for text in self.phase.settings:
            assignment = stack.parse(text)
            for name in assignment.names:
                effective = stack.seen.effective(name)
                found[name] = assignment.value if effective is None else effective
        return found


def _conflicts(seen: Snapshot) -> Conflicts:
    """What the members of a group have counted so far; nothing of another system."""
    return conflicts_of(seen.system, (node.member for node in seen.nodes))


def _lost(seen: Snapshot, before: Conflicts, played: Played) -> Figures:
    """What was rolled back in a group meanwhile, as clients were told and as its members counted; nothing
    where nothing was."""
    if not seen.system.is_group:
        return {}
    since = _conflicts(seen).since(before)
    found = {RETRIED: played.retried, REFUSED: since.refused, GAVE_WAY: since.gave_way}
    known = {name: count for name, count in found.items() if count is not None}
    return known if any(known.values()) else {}


async def measured_rtt(stack: StackApi, looks: int) -> Rtt | None:
    """The acknowledging replica's round trip, measured by several looks at the probe; a Student interval of
    their mean. None where no probe was answered."""
    seen: list[float] = []
    for _ in range(looks):
        rtt_ms = await stack.rtt_ms()
        if rtt_ms is not None:
            seen.append(rtt_ms)
        await stack.clock.sleep(_RTT_LOOK_S)
    return Rtt.of(seen, len(seen)) if seen else None

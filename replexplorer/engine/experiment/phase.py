"""One phase of a lab: its knobs set, the link measured at rest, the load measured or its script played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from replexplorer.core.experiment.experiment import Try
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, Figures, Phase, PhaseResult, Rtt
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.knobs.names import KnobName, Value, desired_of
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.machine import short_of_cpu
from replexplorer.core.model.ceiling import beaten, beaten_words, bound, local_cost_ms
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.server.node_view import Conflicts, conflicts_of
from replexplorer.core.server.protection import WAITING, ProtectionState
from replexplorer.engine.experiment.restore_guard import CLIENTS, RestoreGuard
from replexplorer.engine.experiment.stack_api import Findings, StackApi
from replexplorer.ports import Reporter


@dataclass(slots=True)
class Act:
    """A phase at work, as its script has it."""

    stack: StackApi
    phase: Phase
    quick: bool
    tell: Reporter
    """What is done now, with how much of the phase that is."""
    tries: list[Try] = field(default_factory=list)
    """Those of all phases so far, for whoever watches; they are shown with the next `tell`."""

    def note(self, attempt: Try) -> None:
        """Keep a try as it is now, in place of what was known of it."""
        if self.tries and (self.tries[-1].phase, self.tries[-1].number) == (attempt.phase, attempt.number):
            self.tries.pop()
        self.tries.append(attempt)

    async def measure(self, from_s: float) -> Findings:
        """The load from a moment of the monotonic clock on, for as long as the phase is."""
        clock, length, commits = self.stack.clock, self.phase.length(quick=self.quick), 0
        began_s = clock.monotonic()

        def show(interval: Interval) -> None:
            nonlocal commits
            commits += interval.commits
            passed = (clock.monotonic() - began_s) / length.seconds
            self.tell("measuring", min(1.0, commits / length.commits if length.commits else passed))

        return await self.stack.load.measure(
            duration_s=0.0 if length.commits else length.seconds,
            commits=length.commits or 0,
            from_s=from_s,
            on_interval=show,
        )

    def of_load(self, found: Findings, figures: Figures | None = None) -> PhaseResult:
        """What a measured load did, with what else was found."""
        load = found.load.total
        limits = (load.limited, short_of_cpu(found.machine_percent))
        return PhaseResult(
            self.phase,
            service=load.service,
            figures=figures or {},
            duration_s=load.duration_s,
            errors=load.errors + load.unknown,
            retried=load.retries,
            busy_percent=load.cpu_percent,
            machine_percent=found.machine_percent,
            readings_tps=tuple(each.tps for each in found.load.intervals),
            limited="; ".join(limit for limit in limits if limit) or None,
            cost=found.cost,
        )


_STATE_WITHIN_S: Final = 5.0
_WARMUP_S: Final = 1.5
_WARMUP_LATENCIES: Final = 4
_RTT_LOOKS: Final = 8
_QUICK_RTT_LOOKS: Final = 4
_RTT_LOOK_S: Final = 0.25


@dataclass(slots=True)
class PhaseRun(Act):
    """A phase under way; what it turns the lab's guard restores."""

    guard: RestoreGuard = field(kw_only=True)
    before: Sequence[PhaseResult] = field(kw_only=True)
    """The results of the phases before it."""
    _behind: tuple[str, ...] = ()
    """Replicas that were applying still what came before it."""

    async def result(self) -> PhaseResult:
        """Set the phase's knobs, measure the link, wait for the protection state, measure the load.

        Raises what turning its knobs raises, and StackUnavailable when a node went down.
        """
        guard, phase, stack = self.guard, self.phase, self.stack
        mark = stack.log.begin_change(phase.name)  # the epoch before ends with its measurement
        at_rest = stack.seen.protection.state is not ProtectionState.BLOCKED
        if at_rest:
            await stack.load.follow(clients=0)  # the link and the disk are measured at rest
        await self._attach(at_rest=at_rest)
        clients = [text for text in phase.settings if text.partition("=")[0] == CLIENTS.key]
        await self._turn(text for text in phase.settings if text not in clients)
        self.tell("measuring the link")
        rtt = await measured_rtt(stack, _QUICK_RTT_LOOKS if self.quick else _RTT_LOOKS)
        await self._turn(clients)
        for fault in phase.faults:
            await guard.inject(fault)
        await guard.look()
        if phase.play is not None:
            self.tell("running")
            stack.log.change_effective(mark, phase.name, phase.name)
        else:
            await stack.load.follow(table_size=phase.table_size)
        await guard.until_state(phase.state, within_s=_STATE_WITHIN_S)
        before, conflicts = stack.seen.protection, _conflicts(stack.seen)
        if phase.play is not None:
            found: PhaseResult = await phase.play(self)
            stack.log.end_epoch()
        else:
            found = await self._measured(rtt, mark)
        seen = await guard.look_alive()
        result = replace(
            self._under(rtt, found),
            figures={**found.figures, **_rolled_back(seen, conflicts, found.retried)},
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
        cut_off = {node.name for node in self.stack.seen.nodes if node.io_thread == "off"}
        self._behind = (*behind, *(name for name in before if name in cut_off))

    async def _until_applied(self) -> tuple[str, ...]:
        """Wait; answers who has not applied all in time."""
        return await self.guard.until_applied(self.tell)

    async def _turn(self, settings: Iterable[str]) -> None:
        """Set knobs as they are typed."""
        await self.guard.turn(desired_of(map(self.stack.controls.parse, settings)))

    async def _measured(self, rtt: Rtt | None, mark: int) -> PhaseResult:
        """Measure the load that runs; the phase's mark stands where its settings are in force, and its epoch
        is what is measured."""
        stack, phase = self.stack, self.phase
        warmup_s = _WARMUP_S + _WARMUP_LATENCIES * (rtt.ms if rtt else 0.0) / 1000
        from_s = stack.clock.monotonic() + warmup_s
        stack.log.change_effective(mark, phase.name, phase.name, measured_from_s=from_s)
        found = await self.measure(from_s)
        stack.log.end_epoch(found.load.intervals[-1].end_s)
        if found.load.total.mode == OPEN:
            await stack.load.follow()  # it was drained
        return self.of_load(found)

    def _under(self, rtt: Rtt | None, found: PhaseResult) -> PhaseResult:
        """What was found with what it ran under, and what its ceiling was."""
        stack, seen = self.stack, self.stack.seen
        protection, rtt_ms = seen.protection, rtt.ms if rtt else seen.rtt_ms
        clients = found.clients or (stack.load.settings.clients if stack.load.settings else 0)
        alone = [each for each in self.before if each.protection.state is ProtectionState.OFF]
        local_ms = local_cost_ms(alone[0].clients, alone[0].service) if alone else None
        limits = self.phase.play is None and protection.state in WAITING
        ceiling = bound(clients, rtt_ms, local_ms) if limits else None
        if ceiling is not None and (readings := found.readings_tps):
            beaten_tps = beaten(ceiling, readings, each_s=found.duration_s / len(readings))
            ceiling = replace(ceiling, beaten_tps=beaten_tps)
        behind = None
        if self._behind:
            behind = f"{' and '.join(self._behind)} began it with transactions of the previous phase to apply"
        return replace(
            found,
            settings=self._settings(),
            tps=found.service.count / found.duration_s if found.duration_s > 0 else 0.0,
            rtt_measured_ms=rtt_ms,
            ceiling_tps=ceiling.tps if ceiling else None,
            protection=protection,
            clients=clients,
            fsync_measured_ms=seen.fsync_ms,
            disk_probe_ms=seen.disk_probe_ms,
            predicted_tps=stack.forecast.expected_tps(protection, rtt_ms),
            rtt=rtt,
            limited="; ".join(filter(None, (found.limited, behind))) or None,
            finding=beaten_words(ceiling) if ceiling and ceiling.beaten_tps is not None else None,
        )

    def _settings(self) -> dict[KnobName, Value]:
        """The phase's knobs as they are in effect."""
        stack, found = self.stack, dict[KnobName, Value]()
        for name, value in desired_of(map(stack.controls.parse, self.phase.settings)).items():
            effective = stack.seen.effective(name)
            found[name] = value if effective is None else effective
        return found


def _conflicts(seen: Snapshot) -> Conflicts:
    """What the members of a group have counted so far; nothing of another system."""
    return conflicts_of(seen.system, (node.member for node in seen.nodes))


def _rolled_back(seen: Snapshot, before: Conflicts, retried: int) -> Figures:
    """What was rolled back in a group meanwhile, as clients were told and as its members counted; nothing
    where nothing was."""
    if not seen.system.is_group:
        return {}
    since = _conflicts(seen).since(before)
    found = {RETRIED: retried, REFUSED: since.refused, GAVE_WAY: since.gave_way}
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

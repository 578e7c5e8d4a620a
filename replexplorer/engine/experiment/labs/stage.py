"""Running a lab: its phases set, measured and judged, and everything it turned given back.

Law: whatever ends it - a failure, a cancel, a dead server - knobs, replicas and load are restored; what
cannot be restored now is requested, so that whoever attaches next restores it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, StackUnavailable
from replexplorer.core.knobs.names import SOURCE, KnobName, Value, desired_of
from replexplorer.core.machine import Machine, busy_percent, short_of_cpu
from replexplorer.core.model.ceiling import acknowledging_rtt_ms, bound
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.student import t_quantile_975
from replexplorer.engine.asking import execute
from replexplorer.engine.experiment.baseline import Baseline
from replexplorer.engine.experiment.labs.lab import Lab, LabResult, Length, Phase, PhaseResult, Played, Rtt
from replexplorer.engine.experiment.labs.step import Conductor, LabStep, LabWatch
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.load.measure import measure
from replexplorer.ports import LoadSettings

if TYPE_CHECKING:
    from replexplorer.engine.session import Session

_STATE_WITHIN_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
_WARMUP_S: Final = 1.5
_WARMUP_LATENCIES: Final = 4
_RTT_LOOKS: Final = 8
_RTT_LOOK_S: Final = 0.25
_ATTACHED_WITHIN_S: Final = 30.0
CLIENTS: Final = KnobName("clients", "load")
_WAITING: Final = (ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED)


async def run_lab(
    session: Session,
    lab: Lab,
    *,
    quick: bool,
    watch: LabWatch = lambda _: None,
    conductor: Conductor | None = None,
    begun: Callable[[], None] = lambda: None,
) -> LabResult:
    """Run a lab on an attached session; a server that dies ends it as aborted.

    Raises StackUnavailable when another driver holds the load or another experiment runs, and what `set`
    raises for settings that this stack cannot have; everything is restored before it does.
    """
    async with session.turns.measuring("lab", lab.name):
        return await Stage(session, lab, quick, watch, conductor or Conductor(), begun).run()


@dataclass(slots=True)
class Stage:
    """One lab under way; what a phase's script works with."""

    session: Session
    lab: Lab
    quick: bool
    watch: LabWatch
    conductor: Conductor
    begun: Callable[[], None]
    """Called when nothing can refuse the lab any more."""
    results: list[PhaseResult] = field(default_factory=list)
    _kept: dict[KnobName, Value] = field(default_factory=dict)
    _baseline: Baseline = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        """What was not turned yet is expected as it is."""
        self._baseline = Baseline(self.session.sight)

    async def run(self) -> LabResult:
        """Run to the end."""
        session, lab = self.session, self.lab
        capabilities = session.fleet.primary.capabilities
        title = capabilities.title if capabilities else "unknown"
        result = LabResult(lab, title, session.outside.clock.wall(), self.quick, self.results)
        replicas = len(session.fleet.replicas)
        was_running = session.load.is_running
        settings = session.load_settings()
        for phase in lab.phases:
            for text in phase.settings:
                session.parse(text)
        await session.drive(replace(settings, clients=0))  # refused before anything was turned
        try:
            self.begun()
            await self._enough_replicas()
            await session.sight.refresh(probe=True)
            self._baseline.begin()
            for number in range(1, len(lab.phases) + 1):
                self._number = number
                self.results.append(await self._run_phase(lab.phases[number - 1]))
                if number < len(lab.phases) and self.conductor.holds:
                    self.tell("waiting for the next phase", 1.0)
                    await self.conductor.gate()
        except ReplexplorerError as error:
            died = isinstance(error, ServerUnreachable | StackUnavailable) or not session.load.is_running
            if not died or not self._kept:
                raise
            result.aborted = str(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.conductor.aborted is None or task is None:
                raise
            task.uncancel()
            result.aborted = self.conductor.aborted
        finally:
            session.chronicle.begin_restoring()
            result.unrestored = await to_the_end(self._restore(replicas, settings if was_running else None))
            session.chronicle.restored()
        invalid = [f"{each.phase.name}: {each.invalid}" for each in self.results if each.invalid]
        if invalid and result.aborted is None:
            result.aborted = f"changed while it was measured, {'; '.join(invalid)}"
        if result.aborted is None:
            result.relations = tuple(lab.judge({each.phase.name: each for each in self.results}))
        return result

    # -- what scripts use

    def tell(self, doing: str, done: float | None = None) -> None:
        """Say what is done now."""
        ahead = self.lab.phases[self._number :]
        left_s = sum(phase.takes_s(quick=self.quick) for phase in ahead)
        phase = self.lab.phases[self._number - 1] if self._number else None
        if phase is not None:
            left_s += phase.length(quick=self.quick).seconds * (1 - (done or 0.0))
        self.watch(LabStep(self.lab, self._number, doing, done, left_s, tuple(self.results)))

    async def turn(self, *settings: str) -> None:
        """Set knobs as they are typed; the lab's end gives them back."""
        session = self.session
        assignments = [session.parse(text) for text in settings]
        for assignment in assignments:
            for name in assignment.names:
                self._kept.setdefault(name, session.sight.requested_value(name))
        self._kept.setdefault(CLIENTS, session.sight.requested_value(CLIENTS))
        desired = desired_of(assignments)
        await session.controls.set(desired)
        self._baseline.turned(desired)

    async def measured_rtt(self) -> Rtt | None:
        """The acknowledging replica's round trip, measured by several looks at the probe; a Student
        interval of their mean."""
        sight, clock = self.session.sight, self.session.outside.clock
        required = sight.protection().replicas_required or 1
        seen: list[float] = []
        for _ in range(_RTT_LOOKS):
            await sight.look_at_links()
            rtts = [link.rtt_measured_ms for link in sight.links.values()]
            rtt_ms = acknowledging_rtt_ms(rtts, required)
            if rtt_ms is not None:
                seen.append(rtt_ms)
            await clock.sleep(_RTT_LOOK_S)
        if not seen:
            return None
        mean = sum(seen) / len(seen)
        half = 0.0
        if len(seen) > 1:
            variance = sum((each - mean) ** 2 for each in seen) / (len(seen) - 1)
            half = t_quantile_975(len(seen) - 1) * (variance / len(seen)) ** 0.5
        return Rtt(median(seen), mean - half, mean + half, len(seen))

    # -- a phase

    async def _run_phase(self, phase: Phase) -> PhaseResult:
        """Set the phase's knobs, measure the link, wait for the protection state, measure the load."""
        self.tell("setting")
        session = self.session
        mark = session.chronicle.begin_change(phase.name)  # the epoch before ends with its measurement
        sight, load = session.sight, session.load
        if sight.protection().state is not ProtectionState.BLOCKED:
            await load.change({"clients": 0})  # the link and the disk are measured at rest
        await self._attach(phase.replicas)
        clients = [text for text in phase.settings if text.partition("=")[0] == CLIENTS.key]
        await self.turn(*(text for text in phase.settings if text not in clients))
        self.tell("measuring the link")
        rtt = await self.measured_rtt()
        length = phase.length(quick=self.quick)
        await self.turn(*clients)
        await sight.refresh()
        self._baseline.begin()
        if phase.play is not None:
            self.tell("running")
            session.chronicle.change_effective(mark, phase.name, phase.name)
            played = await phase.play(self, phase)
            session.chronicle.end_epoch()
        else:
            played = await self._measured(phase, length, rtt, mark)
        await sight.refresh()
        self.alive()
        return replace(self._result(phase, rtt, played), invalid=self._disturbed())

    def _disturbed(self) -> str | None:
        """What somebody else changed in the phase, in words."""
        baseline = self._baseline
        told = [
            *baseline.changed(own=self.session.turns.actor.writer),
            *(f"{name} restarted" for name in baseline.restarted()),
        ]
        return "; ".join(told) or None

    async def _measured(self, phase: Phase, length: Length, rtt: Rtt | None, mark: int) -> Played:
        """Let the load run; the phase's mark stands where its settings are in force, and its epoch is what
        is measured."""
        session = self.session
        changes: dict[str, Value] = {"clients": session.sight.requested_value(CLIENTS)}
        if phase.table_size is not None:
            await session.load.resize(phase.table_size)
        await session.load.change(changes)
        await session.sight.until_state(phase.state, within_s=_STATE_WITHIN_S)
        began_s = session.outside.clock.monotonic()
        from_s = began_s + _WARMUP_S + _WARMUP_LATENCIES * (rtt.ms if rtt else 0.0) / 1000
        session.chronicle.change_effective(mark, phase.name, phase.name, measured_from_s=from_s)
        commits = 0

        def show(interval: object) -> None:
            nonlocal commits
            commits += getattr(interval, "commits", 0)
            passed_s = session.outside.clock.monotonic() - began_s
            share = commits / length.commits if length.commits else passed_s / length.seconds
            self.tell("measuring", min(1.0, share))

        before = await self._machine()
        measured = await measure(
            session.load,
            session.outside.clock,
            duration_s=0.0 if length.commits else length.seconds,
            commits=length.commits or 0,
            from_s=from_s,
            on_interval=show,
        )
        session.chronicle.end_epoch(measured.intervals[-1].end_s)
        machine_percent = busy_percent(before, await self._machine())
        limits = (
            measured.total.limited if measured.total else None,
            short_of_cpu(machine_percent),
        )
        return Played(
            service=measured.service,
            duration_s=measured.duration_s,
            errors=measured.errors + measured.unknown,
            busy_percent=measured.cpu_percent,
            machine_percent=machine_percent,
            limited="; ".join(limit for limit in limits if limit) or None,
        )

    async def _machine(self) -> Machine | None:
        """The source's machine now, as the agent beside it tells; None where it does not."""
        try:
            health = await self.session.fleet.primary.agent.health()
        except ReplexplorerError:
            return None
        cores, busy_s = health.get("machine_cores"), health.get("machine_busy_s")
        if not cores or busy_s is None:
            return None
        return Machine(self.session.outside.clock.monotonic(), int(cores), float(busy_s))

    def _result(self, phase: Phase, rtt: Rtt | None, played: Played) -> PhaseResult:
        sight = self.session.sight
        protection = sight.protection()
        rtts = [link.rtt_measured_ms for link in sight.links.values()]
        rtt_ms = rtt.ms if rtt else acknowledging_rtt_ms(rtts, protection.replicas_required or 1)
        disk = sight.disks.get(SOURCE)
        clients = int(self.session.load.effective().get("clients", 0))
        local_ms = next(
            (each.mean_ms for each in self.results if each.protection.state is ProtectionState.OFF), None
        )
        waits = protection.state in _WAITING
        ceiling = bound(clients, rtt_ms, local_ms, played.service.min_ms) if waits else None
        return PhaseResult(
            phase=phase,
            settings=self._settings(phase),
            rtt_measured_ms=rtt_ms,
            service=played.service,
            tps=played.tps,
            ceiling_tps=ceiling.tps if ceiling else None,
            protection=protection,
            clients=clients,
            errors=played.errors,
            fsync_measured_ms=disk.measured_ms if disk else None,
            disk_probe_ms=disk.probe_p50_ms if disk else None,
            predicted_tps=self.session.outlook.expected_tps(protection, rtt_ms),
            rtt=rtt,
            duration_s=played.duration_s,
            busy_percent=played.busy_percent,
            machine_percent=played.machine_percent,
            limited=played.limited,
            figures=played.figures,
        )

    def _settings(self, phase: Phase) -> dict[KnobName, Value]:
        """The phase's knobs as they are in effect."""
        found: dict[KnobName, Value] = {}
        for text in phase.settings:
            assignment = self.session.parse(text)
            for name in assignment.names:
                effective = self.session.sight.effective_value(name)
                found[name] = assignment.value if effective is None else effective
        return found

    def alive(self) -> None:
        """Raise StackUnavailable when a node is down."""
        if dead := self.session.sight.nodes_down():
            raise StackUnavailable(
                f"{' and '.join(dead)} went down in the lab", "`replexplorer up` brings it back"
            )

    # -- replicas

    async def _enough_replicas(self) -> None:
        """Bring up the replicas that the lab needs and that are not there."""
        if len(self.session.fleet.replicas) < self.lab.replicas:
            await self._replicas(self.lab.replicas)

    async def _replicas(self, number: int) -> None:
        await self.session.scale(number, lambda step: self.tell(step.text, step.done))

    async def _attach(self, number: int | None) -> None:
        """Let so many replicas receive events; the others' IO threads stop."""
        replicas = self.session.fleet.replicas
        for at, replica in enumerate(replicas):
            sample = self.session.sight.samples.get(replica.name)
            runs = number is None or at < number
            if replica.probed is None or (sample and (sample.view.io_thread == "off") is not runs):
                continue
            dialect = replica.dialect
            await execute(replica.control, (dialect.start_io() if runs else dialect.stop_io(),))
        await self._until_registered(len(replicas) if number is None else min(number, len(replicas)))
        await self.session.sight.refresh()

    async def _until_registered(self, wanted: int) -> None:
        """Wait until the source counts so many semi-sync replicas (it notices a stopped one late)."""
        sight, clock = self.session.sight, self.session.outside.clock
        ends_s = clock.monotonic() + _ATTACHED_WITHIN_S
        while clock.monotonic() < ends_s:
            sample = await sight.look(SOURCE)
            if sample.status.clients in (None, wanted):
                return
            await clock.sleep(_LOOK_EVERY_S)

    # -- the end

    async def _restore(self, replicas: int, load: LoadSettings | None) -> tuple[str, ...]:
        """Give back what the lab turned; answers what could not be, each in a line. `load` is what ran
        before; None: no load did."""
        session = self.session
        lost: list[str] = []
        if load is None:
            await session.load.stop()
        self.tell("restoring")
        for work in (self._give_back(), self._attach_all(), self._remove_surplus(replicas)):
            try:
                lost += await work
            except ReplexplorerError as error:
                lost.append(str(error))
        if load is not None and session.load.is_running:
            await session.load.resize(load.table_size)
            await session.load.change(session.sight.wanted_load())
        return tuple(lost)

    async def _give_back(self) -> Sequence[str]:
        """All knobs at once, or as many as can be; the rest is requested for when its server is back."""
        lost = []
        if not self._kept:
            return ()
        try:
            await self.session.controls.set(self._kept)
        except ReplexplorerError:
            for name, value in self._kept.items():
                try:
                    await self.session.controls.set({name: value})
                except ReplexplorerError as error:
                    await self.session.controls.request({name: value})
                    lost.append(f"{name} = {value} is requested and comes with its server: {error}")
        return lost

    async def _attach_all(self) -> Sequence[str]:
        if any(phase.replicas is not None for phase in self.lab.phases):
            await self._attach(None)
        return ()

    async def _remove_surplus(self, replicas: int) -> Sequence[str]:
        if len(self.session.fleet.replicas) > replicas:
            await self._replicas(replicas)
        return ()

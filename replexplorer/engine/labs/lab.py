"""What a lab is, and how one is run.

A lab is phases (knobs, then a measured stretch of load) and relations over their figures. It
restores the knobs that it changed whatever happens, and holds the driver's lease meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.ceiling import acknowledging_rtt_ms, bound
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.histogram import Histogram
from replexplorer.core.knobs import PRIMARY, KnobName, Value
from replexplorer.core.tick import Protection, ProtectionState
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.measure import measure
from replexplorer.engine.session import Session

_STATE_WITHIN_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
_WARMUP_S: Final = 1.5
_WARMUP_LATENCIES: Final = 4


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of a lab."""

    name: str
    settings: tuple[str, ...]
    """`KEY=VALUE` as they are typed; what is not named stays as the phase before left it."""
    duration_s: float
    quick_s: float
    """Duration under --quick: shorter, never another method."""
    state: ProtectionState
    """The protection state that is asked for."""
    shows: str
    """One sentence: what to watch."""


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """A phase's figures."""

    phase: Phase
    settings: Mapping[KnobName, Value]
    """The knobs that the phase set, as effective."""
    rtt_measured_ms: float | None
    service: Histogram
    tps: float
    ceiling_tps: float | None
    protection: Protection
    """At the end of the phase."""
    clients: int
    errors: int
    fsync_measured_ms: float | None = None
    """What the primary pays for an fsync of redo or binlog, the shim's delay included."""
    disk_probe_ms: float | None = None
    """The primary's bare disk: the median synchronous write."""

    @property
    def mean_ms(self) -> float:
        """Mean latency; infinite when nothing was committed."""
        return self.service.mean_ms or float("inf")


@dataclass(frozen=True, slots=True)
class Relation:
    """What must hold between the figures, and what was found."""

    name: str
    holds: bool
    evidence: str


Judge = Callable[[Mapping[str, PhaseResult]], Sequence[Relation]]


@dataclass(frozen=True, slots=True)
class Lab:
    """A named experiment."""

    name: str
    title: str
    teaches: str
    phases: tuple[Phase, ...]
    judge: Judge

    def seconds(self, *, quick: bool) -> float:
        """About how long the phases take."""
        return sum((phase.quick_s if quick else phase.duration_s) + 3 for phase in self.phases)


@dataclass(slots=True)
class LabResult:
    """A run lab."""

    lab: Lab
    server: str
    started_wall_s: float
    phases: list[PhaseResult] = field(default_factory=list)
    relations: tuple[Relation, ...] = ()

    @property
    def verdict(self) -> str:
        """holds or deviates."""
        return "holds" if all(relation.holds for relation in self.relations) else "deviates"


Narrate = Callable[[str], None]


async def run_lab(session: Session, lab: Lab, *, quick: bool, narrate: Narrate) -> LabResult:
    """Run a lab on an attached session.

    Raises StackUnavailable when another driver holds the load or a server dies, and what `set`
    raises; the knobs are restored before it does.
    """
    capabilities = session.fleet.primary.capabilities
    result = LabResult(lab, capabilities.title if capabilities else "unknown", session.outside.clock.wall())
    kept: dict[KnobName, Value] = {}
    await session.controls.look_at_disks(probe=True)
    await session.drive(session.load_settings())
    try:
        for number, phase in enumerate(lab.phases, 1):
            seconds = phase.quick_s if quick else phase.duration_s
            narrate(f"{number}/{len(lab.phases)} {phase.name}: {phase.shows} ({seconds:.0f} s)")
            result.phases.append(await _run_phase(session, phase, seconds, kept, result.phases))
    finally:
        await to_the_end(_restore(session, kept, narrate))
    result.relations = tuple(lab.judge({each.phase.name: each for each in result.phases}))
    return result


async def _run_phase(
    session: Session, phase: Phase, seconds: float, kept: dict[KnobName, Value], done: Sequence[PhaseResult]
) -> PhaseResult:
    """Set the phase's knobs, wait for its protection state, measure."""
    assignments = [session.parse(text) for text in phase.settings]
    for assignment in assignments:
        for name in assignment.names:
            kept.setdefault(name, session.controls.requested_value(name))
    await session.set(assignments)
    await _until_state(session, phase.state)
    links = session.controls.links.values()
    slowest_ms = max((link.rtt_measured_ms or 0.0 for link in links), default=0.0)
    measured = await measure(
        session.load,
        session.outside.clock,
        duration_s=seconds,
        warmup_s=_WARMUP_S + _WARMUP_LATENCIES * slowest_ms / 1000,
    )
    await session.controls.refresh()
    dead = [node.name for node in session.controls.node_views() if not node.reachable]
    if dead:
        raise StackUnavailable(
            f"{' and '.join(dead)} went down in the lab", "`replexplorer up` brings it back"
        )
    protection = session.controls.protection()
    rtts = [link.rtt_measured_ms for link in session.controls.links.values()]
    rtt_ms = acknowledging_rtt_ms(rtts, protection.replicas_required or 1)
    disk = session.controls.disks.get(PRIMARY)
    clients = int(session.load.effective().get("clients", 0))
    waits = protection.state in (ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED)
    local_ms = next((each.mean_ms for each in done if each.protection.state is ProtectionState.OFF), None)
    ceiling = bound(clients, rtt_ms, local_ms) if waits else None
    return PhaseResult(
        phase=phase,
        settings={
            name: assignment.value if effective is None else effective
            for assignment in assignments
            for name in assignment.names
            for effective in (session.controls.effective_value(name),)
        },
        rtt_measured_ms=rtt_ms,
        service=measured.service,
        tps=measured.tps,
        ceiling_tps=ceiling.tps if ceiling else None,
        protection=protection,
        clients=clients,
        errors=measured.errors + measured.unknown,
        fsync_measured_ms=disk.measured_ms if disk else None,
        disk_probe_ms=disk.probe_p50_ms if disk else None,
    )


async def _until_state(session: Session, wanted: ProtectionState) -> None:
    """Wait for a protection state; one that does not come is reported by the relations."""
    clock = session.outside.clock
    ends_s = clock.monotonic() + _STATE_WITHIN_S
    while session.controls.protection().state is not wanted and clock.monotonic() < ends_s:
        await clock.sleep(_LOOK_EVERY_S)
        await session.controls.refresh()


async def _restore(session: Session, kept: Mapping[KnobName, Value], narrate: Narrate) -> None:
    """Stop the load and give back every knob that a phase turned: all at once, or as many as can be."""
    await session.load.stop()
    if not kept:
        return
    narrate("restoring the knobs")
    try:
        await session.controls.set(kept)
    except ReplexplorerError:
        for name, value in kept.items():
            try:
                await session.controls.set({name: value})
            except ReplexplorerError as error:
                narrate(f"{name} could not be restored: {error}")
